"""Write docs/api.md, the API reference, from the docstrings of the public names.

Run it after a change of a public docstring or signature:
``python scripts/api_reference.py``. A test fails while the file is stale.
"""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sr4mdl
from sr4mdl import search
from sr4mdl.regressor import EquationTable
from sr4mdl.regressor.equations import Equation
from sr4mdl.regressor.outcomes import Constant, Outcome

TARGET = Path(__file__).parent.parent / "docs" / "api.md"

CHAPTERS: dict[str, tuple[str, list[Any]]] = {
    "The regressor": (
        "from sr4mdl import SymbolicRegressor",
        [sr4mdl.SymbolicRegressor, EquationTable, Equation, Outcome, Constant],
    ),
    "The length of a law": (
        "from sr4mdl import ...",
        [sr4mdl.estimate_length, sr4mdl.LengthEstimate],
    ),
    "Tables": ("from sr4mdl import ...", [sr4mdl.Dataset, sr4mdl.read_pmlb]),
    "Formulas": (
        "from sr4mdl import ...",
        [
            sr4mdl.Expression,
            sr4mdl.parse,
            sr4mdl.apply,
            sr4mdl.constant,
            sr4mdl.variable,
            sr4mdl.from_json,
            sr4mdl.simplify,
            sr4mdl.simplify_with_report,
            sr4mdl.Simplified,
        ],
    ),
    "Values": (
        "from sr4mdl import ...",
        [
            sr4mdl.evaluate,
            sr4mdl.evaluate_one,
            sr4mdl.Evaluation,
            sr4mdl.compile_program,
            sr4mdl.Program,
        ],
    ),
    "Operators": (
        "from sr4mdl import ...",
        [
            sr4mdl.Operator,
            sr4mdl.register_operator,
            sr4mdl.unregister_operator,
            sr4mdl.get_operator,
            sr4mdl.all_operators,
        ],
    ),
    "The search": (
        "from sr4mdl.search import ...",
        [
            search.search,
            search.SearchConfig,
            search.SearchResult,
            search.Solution,
            search.Statistics,
            search.ProgressEvent,
            search.SearchMemory,
        ],
    ),
    "Errors": (
        "from sr4mdl import ...",
        [
            sr4mdl.Sr4mdlError,
            sr4mdl.ParseError,
            sr4mdl.DataError,
            sr4mdl.CheckpointError,
            sr4mdl.VocabularyMismatchError,
            sr4mdl.BudgetExceededError,
        ],
    ),
}

GROUPS = {
    "How long": ["max_time", "max_nodes", "max_evaluations", "early_stop"],
    "How to search": ["mode", "guide", "search_options", "warm_start"],
    "What a formula may be": ["operators", "nesting", "max_length", "constants"],
    "Which formula to choose": ["noise", "validation"],
    "Running": ["n_jobs", "random_state", "callbacks", "verbose"],
}
"""Parameters of the regressor, by what people look for."""

_SECTION = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
_LISTS = ("Parameters", "Attributes", "Returns", "Raises", "Yields")


def main() -> None:
    """Write the file."""
    TARGET.write_text(make_reference())


def make_reference() -> str:
    """Return the text of the reference."""
    lines = [
        "# API reference",
        "",
        "Made from the docstrings by `scripts/api_reference.py`; a test keeps it so.",
        "How things go together is told in the [user guide](guide.md).",
        "",
    ]
    anchors: Counter[str] = Counter()
    for title, (_, objects) in CHAPTERS.items():
        links = [_link(one, anchors) for one in objects]
        lines.append(f"- {title}: {', '.join(links)}")
    for title, (how, objects) in CHAPTERS.items():
        lines += ["", f"## {title}", "", f"`{how}`"]
        for one in objects:
            lines += _describe(one)
    text = "\n".join(lines).replace("=<factory>", "=...")
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _name(one: Any) -> str:
    return str(one.__name__)


def _link(one: Any, anchors: Counter[str]) -> str:
    """Return a link to an entry; equal anchors are numbered, as Markdown does."""
    anchor = _name(one).lower()
    number = anchors[anchor]
    anchors[anchor] += 1
    return f"[{_name(one)}](#{anchor}" + (f"-{number})" if number else ")")


def _describe(one: Any) -> Iterator[str]:
    yield ""
    yield f"### {_name(one)}"
    yield ""
    is_error = inspect.isclass(one) and issubclass(one, Exception)
    if not is_error:
        yield from _signature(_name(one), one)
    yield from _docstring(one)
    if not inspect.isclass(one) or is_error:
        return
    documented = {name for name, _ in _fields(one)}
    if documented:
        yield "Fields:"
        yield ""
        for name, text in _fields(one):
            yield from _entry(f"`{name}`", text)
        yield ""
    properties = [
        (name, inspect.getdoc(member) or "")
        for name, member in _members(one)
        if isinstance(member, property) and name not in documented
    ]
    if properties:
        yield "Properties:"
        yield ""
        for name, text in properties:
            yield from _entry(f"`{name}`", text)
        yield ""
    for name, member in _members(one):
        if name in documented:
            continue
        if isinstance(member, property):
            continue
        yield f"#### {_name(one)}.{name}"
        yield ""
        yield from _signature(name, getattr(one, name))
        yield from _docstring(member)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield own public methods and properties, those of our base classes too."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("sr4mdl"):
            continue
        for name, member in vars(base).items():
            plain = member.__func__ if isinstance(member, classmethod) else member
            public = not name.startswith("_") and name not in seen
            if public and (inspect.isfunction(plain) or isinstance(plain, property)):
                seen.add(name)
                yield name, plain


def _fields(cls: type) -> list[tuple[str, str]]:
    """Return the fields of a dataclass with the text under each."""
    if not dataclasses.is_dataclass(cls):
        return []
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found = []
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            default = f" Default: `{ast.unparse(node.value)}`." if node.value else ""
            text = inspect.cleandoc(str(after.value.value))
            found.append((node.target.id, text + default))
    return found


def _signature(name: str, one: Any) -> Iterator[str]:
    """Yield the call with names and defaults; types stand in the docstrings."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(one).parameters.values()
        if parameter.name != "self"
    ]
    call = f"{name}{inspect.Signature(parameters)}"
    if len(call) > 88:
        parts = str(inspect.Signature(parameters))[1:-1].split(", ")
        call = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"
    yield "```py"
    yield call
    yield "```"
    yield ""


def _docstring(one: Any) -> Iterator[str]:
    """Yield a numpydoc text as Markdown."""
    text = inspect.getdoc(one)
    assert text, f"{one!r} has no docstring"
    head, *rest = _SECTION.split(text)
    yield from _prose(head)
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        if title == "Parameters" and one is sr4mdl.SymbolicRegressor:
            entries = dict(_split(body))
            keys = {key.split(" : ")[0]: key for key in entries}
            for group, names in GROUPS.items():
                yield f"**{group}**"
                yield ""
                for name in names:
                    key = keys.pop(name)
                    yield from _entry(_term(key), entries[key])
                yield ""
            assert not keys, f"parameters in no group: {', '.join(keys)}"
        elif title in _LISTS:
            yield f"{title}:"
            yield ""
            for key, value in _split(body):
                yield from _entry(_term(key), value)
            yield ""
        elif title == "Examples":
            yield "```pycon"
            yield body.strip()
            yield "```"
            yield ""
        else:
            yield f"{title}:"
            yield ""
            yield from _prose(body)


def _prose(text: str) -> Iterator[str]:
    yield re.sub(r":\w+:`~?(.*?)`", r"`\1`", text.strip()).replace("``", "`")
    yield ""


def _split(body: str) -> list[tuple[str, str]]:
    """Return terms and their texts of a numpydoc list."""
    entries: list[tuple[str, list[str]]] = []
    for line in body.strip("\n").splitlines():
        if line and not line.startswith(" "):
            entries.append((line, []))
        elif entries:
            entries[-1][1].append(line.strip())
    return [(key, " ".join(lines).strip()) for key, lines in entries]


def _term(key: str) -> str:
    name, colon, kind = key.partition(" : ")
    return f"`{name}` : {kind}" if colon else f"`{name}`"


def _entry(term: str, text: str) -> Iterator[str]:
    plain = " ".join("\n".join(_prose(text)).split())
    yield textwrap.fill(
        f"- {term}" + (f": {plain}" if " : " not in term else f". {plain}"),
        88,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    main()
