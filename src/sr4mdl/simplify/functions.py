"""Functions of one node: folding, even and odd functions, inverse pairs, logarithms."""

import math
from typing import Final

from sr4mdl.operators import Operator, get_operator
from sr4mdl.simplify.constants import fold
from sr4mdl.simplify.nodes import (
    ANY_SIGN,
    FUNCTION,
    NEGATIVE,
    NONNEGATIVE,
    NUMBER,
    POSITIVE,
    PRODUCT,
    SUM,
    Node,
    UnfitError,
    function_node,
    is_even,
    is_whole,
    number,
    sum_node,
)
from sr4mdl.simplify.products import ProductBuilder, absolute_node, multiply
from sr4mdl.simplify.sums import collect, content, scale

LOG: Final = get_operator("log")

_ODD: Final = frozenset({"sin", "tan", "arcsin", "arctan", "sinh", "tanh"})
_EVEN: Final = frozenset({"cos", "cosh"})
_UNDOES: Final = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_KEEPS_SIGN: Final = frozenset({"arcsin", "arctan", "sinh", "tanh"})
_PERIODIC: Final = frozenset({"sin", "cos", "tan"})
_QUARTER: Final = math.pi / 2


def split_sign(node: Node) -> tuple[float, Node]:
    """Return -1 and the negated node if its leading coefficient is negative."""
    if node.kind == SUM:
        negative = node.terms[0][1] < 0.0
    else:
        negative = node.kind == PRODUCT and node.value < 0.0
    return (-1.0, scale(node, -1.0)) if negative else (1.0, node)


def function(operator: Operator, argument: Node) -> Node:
    """Return the node of a built-in function of one argument, simplified."""
    name = operator.name
    if name == "exp":
        builder = ProductBuilder()
        builder.exponents.append((argument, 1.0))
        return builder.finish()
    if name == "abs":
        return absolute(argument)
    if name == "log":
        return logarithm(argument)
    if argument.kind == NUMBER:
        return number(fold(name, argument.value))
    if argument.kind == FUNCTION and argument.name == _UNDOES.get(name):
        return argument.arguments[0]
    factor = 1.0
    if name in _ODD:
        factor, argument = split_sign(argument)
    elif name in _EVEN:
        _, argument = split_sign(argument)
        if argument.kind == FUNCTION and argument.name == "abs":
            argument = argument.arguments[0]
    if argument.kind == SUM and argument.value != 0.0 and name in _PERIODIC:
        return scale(_shifted(operator, argument), factor)
    sign = ANY_SIGN
    if name in _KEEPS_SIGN:
        sign = argument.sign
    elif name == "cosh":
        sign = POSITIVE
    elif name == "arccos":
        sign = NONNEGATIVE
    return scale(function_node(operator, argument, sign=sign), factor)


def _shifted(operator: Operator, argument: Node) -> Node:
    """Take quarter turns out of sin, cos and tan of a sum with a constant."""
    turns = argument.value / _QUARTER
    whole = round(turns)
    if whole == 0 or abs(whole) > 64 or abs(turns - whole) > 4e-16 * abs(whole):
        return function_node(operator, argument)
    inner = collect([(argument, 1.0)], -argument.value)
    name = operator.name
    if name == "tan":
        plain = function(operator, inner)
        if whole % 2 == 0:
            return plain
        builder = ProductBuilder()
        builder.multiply(plain, -1.0)
        return scale(builder.finish(), -1.0)
    # sin(u + k*pi/2) and cos(u + k*pi/2) by k modulo 4.
    step = (whole + (1 if name == "cos" else 0)) % 4
    other = get_operator("sin" if step % 2 == 0 else "cos")
    return scale(function(other, inner), 1.0 if step < 2 else -1.0)


def absolute(node: Node) -> Node:
    """Return |node|; signs that are known come out."""
    if node.kind == NUMBER:
        return number(abs(node.value))
    if not node.sign & NEGATIVE:
        return node
    if not node.sign & POSITIVE:
        return scale(node, -1.0)
    if node.kind == PRODUCT:
        factors = node.terms
        size = abs(node.value)
    elif node.kind == SUM:
        size, factors, primitive = content(node)
        size = abs(size)
        factors = (*factors, (primitive, 1.0))
    else:
        return absolute_node(node)
    builder = ProductBuilder()
    builder.coefficient = size
    for base, exponent in factors:
        if base.sign & NEGATIVE and is_whole(exponent) and not is_even(exponent):
            base = absolute_node(base)
        builder.multiply(base, exponent)
    return builder.finish()


def logarithm(node: Node) -> Node:
    """Return log(node): of exp, of powers, and with positive numbers taken out."""
    if node.kind == NUMBER:
        return number(fold("log", node.value))
    if node.kind == FUNCTION:
        if node.name == "exp":
            return node.arguments[0]
        if node.name == "pow" and node.arguments[0].sign == POSITIVE:
            base, exponent = node.arguments
            return multiply([exponent, logarithm(base)])
        return function_node(LOG, node)
    if node.kind == SUM:
        size = abs(content(node)[0])
        if size != 1.0:
            inner = function_node(LOG, scale(node, 1.0 / size))
            return sum_node(math.log(size), ((inner, 1.0),))
        return function_node(LOG, node)
    if node.kind != PRODUCT:
        return function_node(LOG, node)
    return _logarithm_of_product(node)


def _logarithm_of_product(node: Node) -> Node:
    constant = math.log(abs(node.value))
    parts: list[tuple[Node, float]] = []
    rest = []
    for base, exponent in node.terms:
        if base.kind == FUNCTION and base.name == "exp":
            parts.append((base.arguments[0], exponent))
        elif (
            base.kind == FUNCTION
            and base.name == "pow"
            and base.arguments[0].kind == NUMBER
            and base.arguments[0].value > 0.0
        ):
            parts.append(
                (base.arguments[1], exponent * math.log(base.arguments[0].value))
            )
        else:
            rest.append((base, exponent))
    if not rest:
        if node.value < 0.0:
            raise UnfitError("logarithm of a negative number")
        return collect(parts, constant)
    if len(rest) == 1 and node.value > 0.0:
        # log(b^e) is e*log(b); for even e the sign of b is lost.
        base, exponent = rest[0]
        if is_even(exponent) and base.sign & NEGATIVE:
            base = absolute_node(base)
        parts.append((function_node(LOG, base), exponent))
        return collect(parts, constant)
    builder = ProductBuilder()
    builder.coefficient = 1.0 if node.value > 0.0 else -1.0
    for base, exponent in rest:
        builder.put(base, exponent)
    builder.has_functions = False
    parts.append((function_node(LOG, builder.finish()), 1.0))
    return collect(parts, constant)
