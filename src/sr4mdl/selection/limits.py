"""What a formula may look like: its operators, how they nest, its length.

The one place that says whether a formula is allowed; moves, closing, the judge and
the final choice all ask it, so that no answer breaks what the user set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sr4mdl.expressions import Expression
from sr4mdl.operators import get_operator

Nesting = Mapping[str, Mapping[str, int]]
"""For an outer operator, how deep each inner one may nest below it."""

_IMPLIED: Final = (
    ("sub", "neg"),
    ("mul", "neg"),
    ("mul", "square"),
    ("mul", "cube"),
    ("pow", "square"),
    ("pow", "cube"),
    ("pow", "sqrt"),
    ("pow", "inv"),
    ("div", "inv"),
)
"""An operator and another spelling that comes with it."""
_FACTOR_LENGTH: Final = 2
"""Symbols of a constant factor, which go when the constant is rounded to 1."""


def allowed_operators(names: Sequence[str] | None) -> frozenset[str] | None:
    """Return the operators that formulas may contain, implied ones included.

    A negative sign comes with subtraction and multiplication (constants may be
    negative), 1/x with division, whole powers with multiplication: they are other
    spellings of what is allowed.
    """
    if names is None:
        return None
    allowed = {get_operator(name).name for name in names}
    for given, implied in _IMPLIED:
        if given in allowed:
            allowed.add(implied)
    if {"neg", "add"} <= allowed:
        allowed.add("sub")
    if {"inv", "mul"} <= allowed:
        allowed.add("div")
    return frozenset(allowed)


def check_nesting(nesting: object) -> dict[str, dict[str, int]]:
    """Return nesting limits as plain dicts; a wrong entry raises and names itself."""
    if nesting is None:
        return {}
    shape = "nesting must map an operator to a mapping of operators to whole numbers"
    if not isinstance(nesting, Mapping):
        raise TypeError(f"{shape}, got {nesting!r}")
    checked: dict[str, dict[str, int]] = {}
    for outer, inside in nesting.items():
        if not isinstance(inside, Mapping):
            raise TypeError(f"{shape}, got {inside!r} for {outer!r}")
        limits = checked.setdefault(get_operator(outer).name, {})
        for inner, most in inside.items():
            whole = isinstance(most, int) and not isinstance(most, bool)
            if not whole or most < 0:
                raise ValueError(
                    "nesting limits must be whole numbers of 0 or more, got "
                    f"{most!r} for {inner!r} in {outer!r}"
                )
            limits[get_operator(inner).name] = most
    return checked


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user allows a formula to be."""

    operators: frozenset[str] | None = None
    """Names of the operators, implied ones included; None for all."""
    nesting: Nesting = field(default_factory=dict)
    """Most levels of an inner operator on any way down from an outer one."""
    max_length: int | None = None
    """Most symbols; None for any number."""

    @property
    def any(self) -> bool:
        """Whether something is ruled out at all."""
        return (
            self.operators is not None
            or bool(self.nesting)
            or self.max_length is not None
        )

    def fault(self, expression: Expression) -> str:
        """Return what a formula breaks, or an empty text."""
        if self.operators is not None and not all(
            node.operator is None or node.operator.name in self.operators
            for node in expression.subexpressions()
        ):
            return "operator"
        if not self.nests(expression):
            return "nesting"
        if self.max_length is not None and expression.length > self.max_length:
            return "too long"
        return ""

    def permits(self, expression: Expression) -> bool:
        """Return whether a formula is allowed."""
        return not self.fault(expression)

    def nests(self, expression: Expression) -> bool:
        """Return whether the operators of a formula nest as they may."""
        if not self.nesting:
            return True
        counted = {inner for inside in self.nesting.values() for inner in inside}
        # For each part, how often an operator comes on the way down that has most.
        depths: dict[Expression, dict[str, int]] = {}
        for node in expression.subexpressions():
            below = dict.fromkeys(counted, 0)
            for argument in node.arguments:
                for name, depth in depths[argument].items():
                    below[name] = max(below[name], depth)
            if node.operator is not None:
                name = node.operator.name
                for inner, most in self.nesting.get(name, {}).items():
                    if below[inner] > most:
                        return False
                if name in counted:
                    below[name] += 1
            depths[node] = below
        return True

    def may_become(self, expression: Expression) -> bool:
        """Return whether a formula may be allowed once its constants are rounded.

        A constant factor may turn out to be 1 and go.
        """
        fault = self.fault(expression)
        if fault != "too long":
            return not fault
        assert self.max_length is not None
        n_constants = sum(node.value is not None for node in expression.prefix())
        return expression.length - _FACTOR_LENGTH * n_constants <= self.max_length
