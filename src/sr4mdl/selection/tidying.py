"""Local tidying of a formula whose constants have been rounded.

Rounding turns a coefficient into 1, 0 or -1 and an exponent into 2: ``tidy`` removes
what has become idle, so that a rounded formula is charged for the symbols it still
needs. It keeps the value of a formula wherever the formula is defined. Algebra
proper lives in ``sr4mdl.simplify``; ``present`` writes thirds and multiples of pi
the way people do.
"""

import math

import numpy as np

from sr4mdl.expressions import Expression, apply, constant
from sr4mdl.selection.bits import SPECIAL_FACTORS, decimal_form, small_rational

_UNDONE = {
    ("inv", "inv"), ("log", "exp"), ("exp", "log"), ("square", "sqrt"),
    ("sin", "arcsin"), ("cos", "arccos"), ("tan", "arctan"),
}  # fmt: skip
"""Pairs of functions of which the outer undoes the inner wherever that is defined."""
_POWERS = {2.0: "square", 3.0: "cube", 0.5: "sqrt", -1.0: "inv"}


def tidy(expression: Expression) -> Expression:
    """Return the formula without idle constants: 0 + x, 1*x, x^2 as a power, ..."""
    return expression.rebuild(_tidy_node)


def _tidy_node(node: Expression) -> Expression | None:
    operator = node.operator
    if operator is None:
        return None
    arguments = node.arguments
    if all(argument.value is not None for argument in arguments):
        return _fold(node)
    if len(arguments) == 1:
        return _tidy_unary(operator.name, arguments[0])
    return _tidy_binary(operator.name, *arguments)


def _fold(node: Expression) -> Expression | None:
    assert node.operator is not None
    values = [np.float64(argument.value or 0.0) for argument in node.arguments]
    with np.errstate(all="ignore"):
        result = float(node.operator.numpy(*values))
    return constant(result) if math.isfinite(result) else None


def _tidy_unary(name: str, inner: Expression) -> Expression | None:
    inside = inner.operator.name if inner.operator is not None else ""
    if name == "neg":
        if inside == "neg":
            return inner.arguments[0]
        if inside == "sub":
            return apply("sub", inner.arguments[1], inner.arguments[0])
        if inside in ("mul", "div") and inner.arguments[0].value is not None:
            return _tidied(inside, -inner.arguments[0].value, inner.arguments[1])
    if name in ("square", "abs", "cos", "cosh") and inside == "neg":
        return apply(name, inner.arguments[0])
    if (name, inside) in _UNDONE:
        return inner.arguments[0]
    if name == "inv" and inside == "div":
        return apply("div", inner.arguments[1], inner.arguments[0])
    return None


def _tidied(name: str, first: float, second: Expression) -> Expression:
    built = apply(name, first, second)
    changed = _tidy_node(built)
    return built if changed is None else changed


def _tidy_binary(name: str, first: Expression, second: Expression) -> Expression | None:
    left, right = first.value, second.value
    match name:
        case "add":
            return _tidy_sum(first, second)
        case "sub":
            return _tidy_difference(first, second)
        case "mul":
            return _tidy_product(first, second)
        case "div":
            return _tidy_quotient(first, second)
        case "pow" if right is not None:
            if right == 1.0:
                return first
            if right == 0.0:
                return constant(1.0)
            if right in _POWERS:
                return apply(_POWERS[right], first)
        case "pow" if left == 1.0:
            return constant(1.0)
    return None


def _tidy_sum(first: Expression, second: Expression) -> Expression | None:
    if first.value == 0.0:
        return second
    if second.value == 0.0:
        return first
    if second.value is not None and second.value < 0.0:
        return apply("sub", first, -second.value)
    positive = _without_sign(second)
    if positive is not None:
        return apply("sub", first, positive)
    positive = _without_sign(first)
    if positive is not None:
        return apply("sub", second, positive)
    return None


def _tidy_difference(first: Expression, second: Expression) -> Expression | None:
    if second.value == 0.0:
        return first
    if first.value == 0.0:
        return apply("neg", second)
    if second.value is not None and second.value < 0.0:
        return apply("add", first, -second.value)
    positive = _without_sign(second)
    return None if positive is None else apply("add", first, positive)


def _without_sign(term: Expression) -> Expression | None:
    """Return -term if the term has a leading minus, else None."""
    if term.operator is None:
        return None
    if term.operator.name == "neg":
        return term.arguments[0]
    leading = term.arguments[0].value
    if term.operator.name in ("mul", "div") and leading is not None and leading < 0.0:
        return _tidied(term.operator.name, -leading, term.arguments[1])
    return None


def _tidy_product(first: Expression, second: Expression) -> Expression | None:
    for one, other in ((first, second), (second, first)):
        if one.value == 0.0:
            return constant(0.0)
        if one.value == 1.0:
            return other
        if one.value == -1.0:
            return apply("neg", other)
    if second.value is not None:
        return _tidied("mul", second.value, first)
    number = first.value
    if number is not None and second.operator is not None:
        inside = second.operator.name
        leading = second.arguments[0]
        if inside in ("mul", "div") and leading.value is not None:
            return _tidied(inside, number * leading.value, second.arguments[1])
        if inside == "neg":
            return _tidied("mul", -number, leading)
        if inside == "inv":
            return apply("div", number, leading)
    return None


def _tidy_quotient(first: Expression, second: Expression) -> Expression | None:
    if second.value is not None and second.value != 0.0:
        if second.value == 1.0:
            return first
        return _tidied("mul", 1.0 / second.value, first)
    if first.value == 0.0:
        return constant(0.0)
    if first.value == 1.0:
        return apply("inv", second)
    if second.operator is not None and second.operator.name == "inv":
        return apply("mul", first, second.arguments[0])
    if first.value is not None and second.operator is not None:
        leading = second.arguments[0].value
        if second.operator.name == "mul" and leading:
            return _tidied("div", first.value / leading, second.arguments[1])
        if second.operator.name == "div" and leading:
            return _tidied("mul", first.value / leading, second.arguments[1])
    return None


def present(expression: Expression) -> Expression:
    """Return the formula with thirds and multiples of pi written out.

    Only constants that a rational or a multiple of pi says in fewer digits change;
    0.05 and 1.5 stay decimals.
    """
    return expression.rebuild(
        lambda node: None if node.value is None else present_number(node.value)
    )


def present_number(value: float) -> Expression:
    """Return a number as people write it: 1/3, 2*pi, 0.25."""
    size = abs(value)
    digits, _ = decimal_form(size)
    if size == 0.0 or digits <= 6 or size == math.pi:
        return constant(value)
    ratio = small_rational(size)
    if ratio is not None:
        return _quotient(math.copysign(ratio[0], value), constant(ratio[1]))
    for name, factor, _ in SPECIAL_FACTORS:
        ratio = small_rational(size / factor)
        if ratio is not None and name in _WRITTEN:
            return _times(math.copysign(ratio[0], value), ratio[1], name)
    return constant(value)


_PI = constant(math.pi)
_WRITTEN: dict[str, tuple[str, Expression]] = {
    "pi": ("mul", _PI),
    "1/pi": ("div", _PI),
    "pi^2": ("mul", apply("square", _PI)),
    "1/pi^2": ("div", apply("square", _PI)),
    "sqrt(2)": ("mul", apply("sqrt", 2.0)),
    "sqrt(3)": ("mul", apply("sqrt", 3.0)),
    "sqrt(pi)": ("mul", apply("sqrt", _PI)),
    "1/sqrt(pi)": ("div", apply("sqrt", _PI)),
    "sqrt(2*pi)": ("mul", apply("sqrt", apply("mul", 2.0, _PI))),
    "1/sqrt(2*pi)": ("div", apply("sqrt", apply("mul", 2.0, _PI))),
}


def _times(numerator: float, denominator: int, name: str) -> Expression:
    operator, factor = _WRITTEN[name]
    if operator == "div":
        below = factor if denominator == 1 else apply("mul", denominator, factor)
        return _quotient(numerator, below)
    above = factor
    if numerator == -1.0:
        above = apply("neg", factor)
    elif numerator != 1.0:
        above = apply("mul", numerator, factor)
    return above if denominator == 1 else apply("div", above, denominator)


def _quotient(numerator: float, denominator: Expression) -> Expression:
    if numerator == 1.0:
        return apply("inv", denominator)
    return apply("div", numerator, denominator)
