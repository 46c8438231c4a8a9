"""Quotients of functions in a product: sin/cos is tan, tan*cos is sin."""

import math
from typing import Final

from sr4mdl.operators import get_operator
from sr4mdl.simplify.nodes import (
    ANY_SIGN,
    FUNCTION,
    POSITIVE,
    Node,
    function_node,
    is_whole,
)

# Sine, cosine, tangent of a family, in this order.
_FAMILIES: Final = (("sin", "cos", "tan"), ("sinh", "cosh", "tanh"))
_MEMBERS: Final = {
    name: (family, index)
    for family, names in enumerate(_FAMILIES)
    for index, name in enumerate(names)
}
_HYPERBOLIC: Final = 1
_COSINE: Final = 1


def join_quotients(factors: dict[str, tuple[Node, float]]) -> None:
    """Join powers of sin, cos and tan of one argument, and of sinh, cosh and tanh."""
    groups: dict[tuple[str, int], list[tuple[int, Node, float]]] = {}
    for base, exponent in factors.values():
        member = _MEMBERS.get(base.name) if base.kind == FUNCTION else None
        if member is not None and is_whole(exponent):
            group = (base.arguments[0].key, member[0])
            groups.setdefault(group, []).append((member[1], base, exponent))
    for (_, family), members in groups.items():
        if len(members) > 1:
            _join(factors, family, members)


def _join(
    factors: dict[str, tuple[Node, float]],
    family: int,
    members: list[tuple[int, Node, float]],
) -> None:
    exponents = [0.0, 0.0, 0.0]
    for index, base, exponent in members:
        exponents[index] = exponent
        del factors[base.key]
    argument = members[0][1].arguments[0]
    sine = exponents[0] + exponents[2]
    cosine = exponents[1] - exponents[2]
    tangent = 0.0
    if sine * cosine < 0.0:
        tangent = math.copysign(min(abs(sine), abs(cosine)), sine)
    for index, exponent in enumerate((sine - tangent, cosine + tangent, tangent)):
        if exponent == 0.0:
            continue
        sign = ANY_SIGN
        if family == _HYPERBOLIC:
            sign = POSITIVE if index == _COSINE else argument.sign
        operator = get_operator(_FAMILIES[family][index])
        node = function_node(operator, argument, sign=sign)
        factors[node.key] = (node, exponent)
