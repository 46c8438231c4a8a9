"""Plans: how a node is best written with the operators of the table.

A plan is a tuple (length, operator, first, second); making and comparing plans is
much cheaper than making expressions, so only the chosen one becomes an expression.
The writers of sums, products and functions register here, because they call each
other through :func:`plan` and :func:`negative_plan`.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from sr4mdl import expressions
from sr4mdl.expressions import Expression
from sr4mdl.operators import Operator, get_operator
from sr4mdl.simplify.nodes import NUMBER, VARIABLE, Node, Plan

ADD: Final = get_operator("add")
SUB: Final = get_operator("sub")
MUL: Final = get_operator("mul")
DIV: Final = get_operator("div")
NEG: Final = get_operator("neg")
INV: Final = get_operator("inv")
POW: Final = get_operator("pow")
SQUARE: Final = get_operator("square")
CUBE: Final = get_operator("cube")
SQRT: Final = get_operator("sqrt")

Pair = tuple[Plan, Plan]
"""The plan of a node and that of the negated node."""

_writers: dict[int, Callable[[Node], Pair]] = {}


def register_writer(kind: int, writer: Callable[[Node], Pair]) -> None:
    """Set who writes nodes of a kind."""
    _writers[kind] = writer


def plan(node: Node) -> Plan:
    """Return the shortest plan found for a node."""
    found = node.plan
    return plan_pair(node)[0] if found is None else found


def negative_plan(node: Node) -> Plan:
    """Return the shortest plan found for the negated node."""
    found = node.negative_plan
    return plan_pair(node)[1] if found is None else found


def plan_pair(node: Node) -> Pair:
    """Return the plans of a node and of the negated node, and keep them there."""
    if node.plan is not None and node.negative_plan is not None:
        return node.plan, node.negative_plan
    if node.kind == VARIABLE:
        first = leaf(node.name)
        pair = first, negated(first)
    elif node.kind == NUMBER:
        pair = leaf(node.value), leaf(0.0 - node.value)
    else:
        pair = _writers[node.kind](node)
    node.plan, node.negative_plan = pair
    return pair


def leaf(value: float | str) -> Plan:
    """Return the plan of a number or of a variable by its name."""
    return (1, None, value, None)


def unary(operator: Operator, first: Plan) -> Plan:
    """Return the plan of an operator with one argument."""
    return (first[0] + operator.cost, operator, first, None)


def binary(operator: Operator, first: Plan, second: Plan) -> Plan:
    """Return the plan of an operator with two arguments."""
    return (first[0] + second[0] + operator.cost, operator, first, second)


def negated(first: Plan) -> Plan:
    """Return the plan with a minus in front."""
    return (first[0] + 1, NEG, first, None)


# Powers that one-argument operators write as shortly as ``pow`` does.
_CHAINS: Final[dict[float, tuple[Operator, ...]]] = {
    2.0: (SQUARE,),
    3.0: (CUBE,),
    0.5: (SQRT,),
    4.0: (SQUARE, SQUARE),
    6.0: (CUBE, SQUARE),
    9.0: (CUBE, CUBE),
    0.25: (SQRT, SQRT),
    1.5: (CUBE, SQRT),
}


def raised(first: Plan, exponent: float) -> Plan:
    """Return the plan of a positive power."""
    if exponent == 1.0:
        return first
    chain = _CHAINS.get(exponent)
    if chain is None:
        return (first[0] + 2, POW, first, leaf(exponent))
    for operator in chain:
        first = (first[0] + 1, operator, first, None)
    return first


def power_cost(exponent: float) -> int:
    """Return how many symbols a power adds to its base, a minus sign left aside."""
    size = abs(exponent)
    if size == 1.0:
        return 0
    return 1 if size in (2.0, 3.0, 0.5) else 2


@lru_cache(maxsize=4096)
def is_short(value: float) -> bool:
    """Return whether a number is written with few digits, perhaps times pi."""
    return value.is_integer() or (
        short_number(value) == value
        or float(f"{value / math.pi:.3g}") * math.pi == value
    )


def short_number(value: float) -> float:
    """Return the number rounded to five digits."""
    return float(f"{value:.5g}")


@lru_cache(maxsize=4096)
def inverse_if_shorter(value: float) -> float | None:
    """Return a short number whose inverse is exactly this long number, or None."""
    if is_short(value):
        return None
    inverse = short_number(1.0 / value)
    if inverse != 0.0 and math.isfinite(inverse) and 1.0 / inverse == value:
        return inverse
    return None


def build(found: Plan) -> Expression:
    """Return the expression of a plan."""
    _, operator, first, second = found
    if operator is None:
        if isinstance(first, str):
            return expressions.variable(first)
        return expressions.constant(first)
    if second is None:
        return expressions.apply(operator, build(first))
    return expressions.apply(operator, build(first), build(second))
