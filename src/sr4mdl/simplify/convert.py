"""From expressions to the normal form."""

from typing import Final

from sr4mdl.expressions import Expression
from sr4mdl.operators import Operator
from sr4mdl.simplify import nodes
from sr4mdl.simplify.constants import fold
from sr4mdl.simplify.expansion import expand_if_shorter
from sr4mdl.simplify.functions import function
from sr4mdl.simplify.identities import add
from sr4mdl.simplify.nodes import Node, UnfitError, function_node
from sr4mdl.simplify.products import ProductBuilder, multiply_powers, power

_SUMS: Final = frozenset({"add", "sub", "neg"})
_PRODUCTS: Final = frozenset({"mul", "div", "inv", "square", "cube"})
_DEEP: Final = 100
_MAX_EXPONENT: Final = 1e4

_converted: dict[Expression, Node] = {}


def clear_cache_if_large() -> None:
    """Forget cached nodes once there are many."""
    if nodes.clear_cache_if_large() or len(_converted) > nodes.MAX_CACHED:
        _converted.clear()


def to_node(expression: Expression) -> Node:
    """Return the normal form of an expression."""
    if expression.depth > _DEEP:
        # Arguments first, so that no call goes deep.
        for part in expression.subexpressions():
            _convert(part)
    return _convert(expression)


def _convert(expression: Expression) -> Node:
    node = _converted.get(expression)
    if node is not None:
        return node
    operator = expression.operator
    if operator is None:
        if expression.name is not None:
            node = nodes.variable(expression.name)
        else:
            assert expression.value is not None
            node = nodes.number(expression.value)
    else:
        try:
            node = _convert_operator(expression, operator)
        except UnfitError:
            arguments = [_convert(argument) for argument in expression.arguments]
            node = function_node(operator, *arguments)
    _converted[expression] = node
    return node


def _convert_operator(expression: Expression, operator: Operator) -> Node:
    name = operator.name
    if not operator.builtin:
        arguments = [_convert(argument) for argument in expression.arguments]
        if operator.commutes:
            arguments.sort(key=lambda node: node.key)
        return function_node(operator, *arguments)
    if not expression.variables:
        # In the order written, so that rounding is that of the input.
        arguments = [_convert(argument) for argument in expression.arguments]
        if all(argument.kind == nodes.NUMBER for argument in arguments):
            values = [argument.value for argument in arguments]
            return nodes.number(fold(name, *values))
    if name in _SUMS:
        return expand_if_shorter(add(_addends(expression)))
    if name in _PRODUCTS:
        builder = ProductBuilder()
        for part, exponent in _factors(expression):
            builder.multiply(_convert(part), exponent)
        return expand_if_shorter(builder.finish())
    first = _convert(expression.arguments[0])
    if name == "sqrt":
        return multiply_powers([(first, 0.5)])
    if name == "pow":
        return power(first, _convert(expression.arguments[1]))
    return function(operator, first)


def _addends(expression: Expression) -> list[tuple[Node, float]]:
    """Return what a chain of +, - and signs adds up."""
    parts = []
    stack = [(expression, 1.0)]
    while stack:
        part, sign = stack.pop()
        name = part.operator.name if part.operator is not None else ""
        if not part.variables and part is not expression:
            parts.append((_convert(part), sign))
        elif name == "neg":
            stack.append((part.arguments[0], -sign))
        elif name == "add":
            stack.append((part.arguments[1], sign))
            stack.append((part.arguments[0], sign))
        elif name == "sub":
            stack.append((part.arguments[1], -sign))
            stack.append((part.arguments[0], sign))
        else:
            parts.append((_convert(part), sign))
    return parts


def _factors(expression: Expression) -> list[tuple[Expression, float]]:
    """Return what a chain of *, / and whole powers multiplies."""
    parts = []
    stack = [(expression, 1.0)]
    while stack:
        part, exponent = stack.pop()
        name = part.operator.name if part.operator is not None else ""
        if abs(exponent) > _MAX_EXPONENT or not (part.variables or part is expression):
            parts.append((part, exponent))
        elif name == "mul":
            stack.append((part.arguments[1], exponent))
            stack.append((part.arguments[0], exponent))
        elif name == "div":
            stack.append((part.arguments[1], -exponent))
            stack.append((part.arguments[0], exponent))
        elif name == "inv":
            stack.append((part.arguments[0], -exponent))
        elif name == "square":
            stack.append((part.arguments[0], 2.0 * exponent))
        elif name == "cube":
            stack.append((part.arguments[0], 3.0 * exponent))
        else:
            parts.append((part, exponent))
    return parts
