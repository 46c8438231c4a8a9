"""Immutable expressions with shared subtrees.

An :class:`Expression` is a variable, a constant or an operator applied to
expressions. Building the same thing twice gives the same object, so equality is
identity, hashing is free and a formula is a graph in which every subformula exists
once. Text lives in ``text.py``, other languages in ``export.py``, numbers in
``evaluate``, algebra in ``simplify``: this module knows structure only.
"""

import json
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from sr4mdl.errors import ParseError
from sr4mdl.operators import Operator, find_operator, get_operator

JSON_FORMAT: Final = "sr4mdl-expression"
JSON_VERSION: Final = 1

Number = int | float


class Expression:
    """A variable, a constant, or an operator applied to expressions.

    Not built directly: use :func:`variable`, :func:`constant`, :func:`apply`,
    Python's operators on expressions, or ``sr4mdl.parse``.

    Attributes
    ----------
    operator : Operator or None
        None for variables and constants.
    arguments : tuple of Expression
        Empty for variables and constants.
    name : str or None
        Name of a variable.
    value : float or None
        Value of a constant.
    length : int
        Number of symbols: every operator, variable and constant counts one (an
        operator its ``cost``), so ``x^2 + sin(x)`` has length 5.
    depth : int
        Levels of operators; 0 for variables and constants.
    variables : frozenset of str
        Names of the variables it contains.
    """

    __slots__ = (
        "__weakref__",
        "arguments",
        "depth",
        "length",
        "name",
        "operator",
        "value",
        "variables",
    )

    operator: Operator | None
    arguments: tuple["Expression", ...]
    name: str | None
    value: float | None
    length: int
    depth: int
    variables: frozenset[str]

    def __init__(self) -> None:
        raise TypeError("use variable(), constant(), apply() or parse()")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("expressions cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("expressions cannot be changed")

    @property
    def is_variable(self) -> bool:
        """Whether this is a variable."""
        return self.name is not None

    @property
    def is_constant(self) -> bool:
        """Whether this is a number (not: an operator applied to numbers)."""
        return self.value is not None

    def subexpressions(self) -> Iterator["Expression"]:
        """Iterate over the distinct subexpressions, arguments before operators."""
        done: set[Expression] = set()
        stack: list[tuple[Expression, bool]] = [(self, False)]
        while stack:
            node, ready = stack.pop()
            if node in done:
                continue
            if ready or not node.arguments:
                done.add(node)
                yield node
            else:
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(node.arguments))

    def prefix(self) -> Iterator["Expression"]:
        """Iterate over the symbols in prefix order, repeated parts repeatedly."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.arguments))

    def rebuild(
        self, change: Callable[["Expression"], "Expression | None"]
    ) -> "Expression":
        """Return a copy in which ``change`` has replaced subexpressions.

        ``change`` is asked about every node, already rebuilt, arguments first; None
        keeps the node.
        """
        rebuilt: dict[Expression, Expression] = {}
        for node in self.subexpressions():
            new = node
            if node.operator is not None:
                new = apply(node.operator, *(rebuilt[arg] for arg in node.arguments))
            replacement = change(new)
            rebuilt[node] = new if replacement is None else replacement
        return rebuilt[self]

    def substitute(self, replacements: Mapping[str, "Expression"]) -> "Expression":
        """Return a copy with variables replaced by expressions."""
        return self.rebuild(
            lambda node: replacements.get(node.name) if node.name is not None else None
        )

    def to_json(self) -> str:
        """Return the JSON form: a list of nodes, shared parts once."""
        return json.dumps(to_json_object(self))

    def __str__(self) -> str:
        from sr4mdl.text import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"Expression({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return from_json_object, (to_json_object(self),)

    def __copy__(self) -> "Expression":
        return self

    def __deepcopy__(self, _: object) -> "Expression":
        return self

    def __add__(self, other: "Expression | Number") -> "Expression":
        return apply("add", self, other)

    def __radd__(self, other: Number) -> "Expression":
        return apply("add", other, self)

    def __sub__(self, other: "Expression | Number") -> "Expression":
        return apply("sub", self, other)

    def __rsub__(self, other: Number) -> "Expression":
        return apply("sub", other, self)

    def __mul__(self, other: "Expression | Number") -> "Expression":
        return apply("mul", self, other)

    def __rmul__(self, other: Number) -> "Expression":
        return apply("mul", other, self)

    def __truediv__(self, other: "Expression | Number") -> "Expression":
        return apply("div", self, other)

    def __rtruediv__(self, other: Number) -> "Expression":
        return apply("div", other, self)

    def __pow__(self, other: "Expression | Number") -> "Expression":
        return apply("pow", self, other)

    def __rpow__(self, other: Number) -> "Expression":
        return apply("pow", other, self)

    def __neg__(self) -> "Expression":
        return apply("neg", self)


_pool: "weakref.WeakValueDictionary[tuple[Any, ...], Expression]" = (
    weakref.WeakValueDictionary()
)
_NO_VARIABLES: Final[frozenset[str]] = frozenset()


def _intern(
    key: tuple[Any, ...],
    operator: Operator | None,
    arguments: tuple[Expression, ...],
    name: str | None,
    value: float | None,
) -> Expression:
    node: Expression = object.__new__(Expression)
    assign = object.__setattr__
    assign(node, "operator", operator)
    assign(node, "arguments", arguments)
    assign(node, "name", name)
    assign(node, "value", value)
    if operator is None:
        length, depth = 1, 0
        variables = frozenset((name,)) if name is not None else _NO_VARIABLES
    elif len(arguments) == 1:
        (only,) = arguments
        length, depth = operator.cost + only.length, 1 + only.depth
        variables = only.variables
    else:
        left, right = arguments
        length = operator.cost + left.length + right.length
        depth = 1 + max(left.depth, right.depth)
        variables = (
            left.variables
            if right.variables <= left.variables
            else left.variables | right.variables
        )
    assign(node, "length", length)
    assign(node, "depth", depth)
    assign(node, "variables", variables)
    # setdefault makes two threads that build the same node agree on one object.
    return _pool.setdefault(key, node)


def variable(name: str) -> Expression:
    """Return the variable of that name; any non-empty text without a backtick."""
    if not isinstance(name, str) or not name or "`" in name:
        raise ValueError(
            f"name of a variable must be a text without backtick, got {name!r}"
        )
    key = ("variable", name)
    return _pool.get(key) or _intern(key, None, (), name, None)


def constant(value: Number) -> Expression:
    """Return the constant of that value, a finite number."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"value of a constant must be finite, got {value!r}")
    number += 0.0  # -0.0 becomes 0.0
    key = ("constant", number)
    return _pool.get(key) or _intern(key, None, (), None, number)


def apply(operator: Operator | str, *arguments: Expression | Number) -> Expression:
    """Return the operator applied to the arguments; numbers become constants."""
    if isinstance(operator, str):
        operator = get_operator(operator)
    operands = tuple(
        [
            argument if isinstance(argument, Expression) else constant(argument)
            for argument in arguments
        ]
    )
    if len(operands) != operator.arity:
        raise ValueError(
            f"{operator.name} takes {operator.arity} argument(s), got {len(operands)}"
        )
    key = (operator, *operands)
    return _pool.get(key) or _intern(key, operator, operands, None, None)


def to_json_object(expression: Expression) -> dict[str, Any]:
    """Return the JSON form as a dict (see docs/formats.md)."""
    index: dict[Expression, int] = {}
    nodes: list[list[Any]] = []
    for node in expression.subexpressions():
        index[node] = len(nodes)
        if node.operator is not None:
            nodes.append([node.operator.name, *(index[arg] for arg in node.arguments)])
        elif node.name is not None:
            nodes.append(["variable", node.name])
        else:
            nodes.append(["constant", node.value])
    return {"format": JSON_FORMAT, "version": JSON_VERSION, "nodes": nodes}


def from_json_object(data: Any) -> Expression:
    """Return the expression of a JSON form made by :func:`to_json_object`.

    Raises
    ------
    ParseError
        If the form is damaged; the position counts nodes.
    """

    def fail(message: str, position: int) -> ParseError:
        return ParseError(message, repr(data), position)

    if not isinstance(data, dict) or data.get("format") != JSON_FORMAT:
        raise fail(f"not a JSON object of format {JSON_FORMAT!r}", 0)
    if data.get("version") != JSON_VERSION:
        raise fail(f"version {data.get('version')!r} is not {JSON_VERSION}", 0)
    entries = data.get("nodes")
    if not isinstance(entries, list) or not entries:
        raise fail("no nodes", 0)
    nodes: list[Expression] = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, Sequence) or len(entry) < 2:
            raise fail("a node that is not a list", position)
        kind, *rest = entry
        try:
            nodes.append(_node_from_json(kind, rest, nodes))
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            raise fail(f"bad node ({error})", position) from error
    return nodes[-1]


def _node_from_json(kind: Any, rest: list[Any], nodes: list[Expression]) -> Expression:
    if kind == "variable":
        (name,) = rest
        return variable(name)
    if kind == "constant":
        (value,) = rest
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{value!r} is not a number")
        return constant(value)
    if not isinstance(kind, str) or find_operator(kind) is None:
        raise ValueError(f"unknown operator {kind!r}")
    for index in rest:
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise TypeError(f"{index!r} is not the index of an earlier node")
    return apply(kind, *(nodes[index] for index in rest))


def from_json(text: str) -> Expression:
    """Return the expression of a JSON text made by :meth:`Expression.to_json`."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        position = getattr(error, "pos", 0)
        raise ParseError(f"not JSON ({error})", text, position) from error
    return from_json_object(data)
