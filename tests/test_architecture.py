"""Lower layers never import higher ones; some layers never import some packages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sr4mdl

PACKAGE = Path(sr4mdl.__file__).parent
DOCUMENT = Path(__file__).parents[1] / "docs" / "architecture.md"

# The order of docs/architecture.md, lowest first. A name is a module or a package;
# those of one row may import each other. Names that do not exist yet are allowed,
# modules that stand in no row are not.
LAYERS = (
    ("errors", "_typing"),
    ("operators",),
    ("expressions", "text", "export"),
    ("simplify",),
    ("evaluate",),
    ("data", "_tables"),
    ("moves",),
    ("corpus",),
    ("mdlformer",),
    ("training",),
    ("selection",),
    ("closing",),
    ("search",),
    (
        "regressor",
        "length",
        "cli",
        "fit_command",
        "predict_command",
        "length_command",
        "examples_command",
        "info_command",
        "live",
        "report",
        "bench",
        "__main__",
    ),
)
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}

# What a layer must not import, not even late, with the reason.
FORBIDDEN = {
    "simplify": {"sympy"},  # its rules are its own
    "corpus": {"torch", "sklearn", "pandas"},  # runs wherever numpy and numba do
    "training": {"sklearn", "pandas", "onnxruntime"},  # runs where only torch exists
    "search": {"torch", "onnxruntime", "onnx"},  # it receives a guide
}


def imported_names(source: str, module: str, is_package: bool) -> Iterator[str]:
    """Yield dotted names of what a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                start = ".".join([*parts, *([start] if start else [])])
            yield from (f"{start}.{alias.name}" for alias in node.names)


def faults(source: str, module: str, is_package: bool = False) -> list[str]:
    """Return what is wrong with the imports of a module, in sentences."""
    if module == "sr4mdl":
        return []  # the public surface: lazy, and below nobody
    own = module.split(".")[1]
    if own not in LEVELS:
        return [f"{module} stands in no row of LAYERS"]
    found = []
    for name in imported_names(source, module, is_package):
        top, *rest = name.split(".")
        if top in FORBIDDEN.get(own, ()):
            found.append(f"{module} must not import {top}")
        if top != "sr4mdl" or rest == ["__version__"]:
            continue
        if not rest or rest[0] not in LEVELS:
            # The package as a whole, or a name of its public surface.
            if LEVELS[own] < len(LAYERS) - 1:
                found.append(f"{module} imports {name}, the public surface")
        elif LEVELS[rest[0]] > LEVELS[own]:
            found.append(f"{module} imports {name}, which is higher")
    return found


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found.append((".".join(parts), path))
    return found


def test_lower_layers_never_import_higher_ones() -> None:
    found = [
        fault
        for module, path in modules()
        for fault in faults(path.read_text(), module, path.name == "__init__.py")
    ]
    assert not found, "\n".join(found)


def test_modules_are_found() -> None:
    assert {"sr4mdl", "sr4mdl.operators", "sr4mdl.corpus.trees"} <= {
        module for module, _ in modules()
    }


def test_document_and_layers_agree() -> None:
    block = re.search(r"```\n(errors.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert block is not None
    rows = []
    for line in block.group(1).splitlines():
        names = re.split(r"\s{2,}", line)[0]
        rows.append([name.strip().rstrip("/") for name in names.split(",")])
    assert len(rows) == len(LAYERS)
    for row, layer in zip(rows, LAYERS, strict=True):
        assert set(row) <= set(layer), row
        # Private modules need not be drawn.
        assert all(name.startswith("_") for name in set(layer) - set(row)), layer


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        ("sr4mdl.operators", "from sr4mdl.text import parse", "which is higher"),
        ("sr4mdl.operators", "from sr4mdl import text", "which is higher"),
        ("sr4mdl.operators", "import sr4mdl.search.tree", "which is higher"),
        ("sr4mdl.operators", "from .text import parse", "which is higher"),
        ("sr4mdl.corpus.trees", "from ..search import tree", "which is higher"),
        ("sr4mdl.operators", "from sr4mdl import parse", "the public surface"),
        ("sr4mdl.operators", "import sr4mdl", "the public surface"),
        (
            "sr4mdl.operators",
            "def late():\n    from sr4mdl.bench import run",
            "which is higher",
        ),
        ("sr4mdl.search.tree", "import torch.nn", "must not import torch"),
        ("sr4mdl.search", "from onnxruntime import X", "must not import onnxruntime"),
        ("sr4mdl.leftovers", "", "stands in no row"),
    ],
)
def test_faults_are_found(module: str, source: str, fault: str) -> None:
    found = faults(source, module, is_package=module == "sr4mdl.search")
    assert len(found) == 1
    assert fault in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sr4mdl.text", "from sr4mdl.operators import Operator"),
        ("sr4mdl.expressions", "from sr4mdl.text import to_text"),
        ("sr4mdl.corpus.trees", "from .states import State"),
        ("sr4mdl.cli", "from sr4mdl import __version__, parse"),
        ("sr4mdl.operators", "from sr4mdl import __version__"),
        ("sr4mdl.mdlformer.network", "import torch"),
    ],
)
def test_what_is_allowed_is_no_fault(module: str, source: str) -> None:
    assert faults(source, module) == []
