"""Whether a simplified formula is defined in more places than before.

A formula is defined where every operator in it is. Each operator's condition is put
on the normal form of its argument and broken up as far as signs allow; the formula's
domain is then a set of such conditions. If every condition of the input is among
those of the result, nothing was gained; else the domain may have grown.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sr4mdl.expressions import Expression
from sr4mdl.simplify.convert import to_node
from sr4mdl.simplify.functions import split_sign
from sr4mdl.simplify.nodes import (
    FUNCTION,
    NEGATIVE,
    NUMBER,
    POSITIVE,
    PRODUCT,
    SUM,
    ZERO,
    Node,
    TooLargeError,
    is_even,
    is_whole,
    power_sign,
)
from sr4mdl.simplify.shortest import simplify
from sr4mdl.simplify.sums import content, scale, split_coefficient, unit_product

_Condition = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Simplified:
    """A simplified formula and what happened to its domain."""

    expression: Expression
    """The shortest form found."""
    widens_domain: bool
    """Whether it may be defined where the input was not, as 1 is for x/x.

    False is certain. True is reported in a few cases too where the two domains are
    equal but that takes more algebra than is done here.
    """


def simplify_with_report(expression: Expression) -> Simplified:
    """Simplify an expression and say whether its domain may have grown.

    Parameters
    ----------
    expression : Expression
        The formula.

    Returns
    -------
    Simplified
        The result of :func:`simplify` and the report.

    Examples
    --------
    >>> from sr4mdl import parse
    >>> simplify_with_report(parse("x/x"))
    Simplified(expression=Expression('1'), widens_domain=True)
    """
    result = simplify(expression)
    if result is expression:
        return Simplified(result, False)
    try:
        widens = not _conditions(expression) <= _conditions(result)
    except TooLargeError:
        widens = True
    return Simplified(result, widens)


def _conditions(expression: Expression) -> set[_Condition]:
    found: set[_Condition] = set()
    for part in expression.subexpressions():
        operator = part.operator
        if operator is None:
            continue
        arguments = [to_node(argument) for argument in part.arguments]
        match operator.name:
            case "inv" | "div":
                found.update(_nonzero(arguments[-1]))
            case "sqrt":
                found.update(_nonnegative(arguments[0]))
            case "log":
                found.update(_nonzero(arguments[0]))
                found.update(_nonnegative(arguments[0]))
            case "pow":
                found.update(_power(*arguments))
            case "arcsin" | "arccos":
                found.add(("unit", split_sign(arguments[0])[1].key))
            case name if operator.domain is not None:
                found.add((name, *[argument.key for argument in arguments]))
    return found


def _power(base: Node, exponent: Node) -> Iterator[_Condition]:
    if exponent.kind == NUMBER:
        if not is_whole(exponent.value):
            yield from _nonnegative(base)
        if exponent.value < 0.0:
            yield from _nonzero(base)
    elif base.sign != POSITIVE:
        yield ("pow", base.key, exponent.key)


def _nonzero(node: Node) -> Iterator[_Condition]:
    """Break up the condition that a node is not zero."""
    if not node.sign & ZERO:
        return
    if node.kind == SUM:
        _, factors, primitive = content(node)
        for base, exponent in factors:
            if exponent > 0.0:
                yield from _nonzero(base)
        if primitive.kind == SUM:
            yield ("nonzero", primitive.key)
        else:
            yield from _nonzero(primitive)
    elif node.kind == PRODUCT:
        for base, exponent in node.terms:
            if exponent > 0.0:
                yield from _nonzero(base)
    elif node.kind == FUNCTION and node.name in ("abs", "sinh", "tanh", "arctan"):
        yield from _nonzero(node.arguments[0])
    else:
        yield ("nonzero", node.key)


def _nonnegative(node: Node) -> Iterator[_Condition]:
    """Break up the condition that a node is not negative."""
    if not node.sign & NEGATIVE:
        return
    if node.kind == SUM:
        size = abs(content(node)[0])
        yield ("nonnegative", scale(node, 1.0 / size).key)
    elif node.kind == PRODUCT:
        coefficient, _ = split_coefficient(node)
        rest = tuple([item for item in node.terms if power_sign(*item) != POSITIVE])
        if coefficient > 0.0 and len(rest) == 1 and not is_even(rest[0][1]):
            yield from _nonnegative(rest[0][0])
        else:
            inside = scale(unit_product(rest), 1.0 if coefficient > 0.0 else -1.0)
            yield ("nonnegative", inside.key)
    elif node.kind == FUNCTION and node.name in ("sinh", "tanh", "arctan"):
        yield from _nonnegative(node.arguments[0])
    else:
        yield ("nonnegative", node.key)
