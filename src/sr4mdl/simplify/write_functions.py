"""Plans for functions of nodes."""

from typing import Final

from sr4mdl.operators import Operator, get_operator
from sr4mdl.simplify.nodes import (
    FUNCTION,
    NUMBER,
    POSITIVE,
    PRODUCT,
    SUM,
    Node,
    Plan,
    function_node,
)
from sr4mdl.simplify.plans import (
    INV,
    Pair,
    binary,
    negated,
    negative_plan,
    plan,
    plan_pair,
    raised,
    register_writer,
    unary,
)
from sr4mdl.simplify.products import multiply_powers
from sr4mdl.simplify.sums import numeric_content, scale, split_coefficient

EXP: Final = get_operator("exp")
LOG: Final = get_operator("log")
_ODD: Final = frozenset({"sin", "tan", "arcsin", "arctan", "sinh", "tanh"})
_EVEN: Final = frozenset({"cos", "cosh", "abs"})
_EXP_POWERS: Final = frozenset({2.0, 3.0, 0.5, 4.0})


def _write_function(node: Node) -> Pair:
    operator = node.operator
    assert operator is not None
    first = node.arguments[0]
    name = node.name if operator.builtin else ""
    if len(node.arguments) == 2:
        found = binary(operator, plan(first), plan(node.arguments[1]))
    elif first.kind == NUMBER:
        found = unary(operator, plan(first))
    elif name in _ODD:
        inner, other = plan_pair(first)
        return _write_odd(operator, inner, other), _write_odd(operator, other, inner)
    elif name in _EVEN:
        inner, other = plan_pair(first)
        found = unary(operator, other if other[0] < inner[0] else inner)
    elif name == "exp":
        found = _write_exponential(node)
    else:
        found = unary(operator, plan(first))
        if name == "log" and first.kind == PRODUCT:
            # -log(a/b) is log(b/a)
            inverse = unary(operator, plan(multiply_powers([(first, -1.0)])))
            if inverse[0] <= found[0]:
                return found, inverse
    return found, negated(found)


def _write_odd(operator: Operator, inner: Plan, opposite: Plan) -> Plan:
    if opposite[0] + 1 < inner[0]:
        return negated(unary(operator, opposite))
    return unary(operator, inner)


def _write_exponential(node: Node) -> Plan:
    plain = unary(EXP, plan(node.arguments[0]))
    inner, exponent = power_of_exponential(node)
    if exponent == 1.0:
        return plain
    found = raised(unary(EXP, plan(inner.arguments[0])), abs(exponent))
    if exponent < 0.0:
        found = unary(INV, found)
    return found if found[0] < plain[0] else plain


def power_of_exponential(base: Node) -> tuple[Node, float]:
    """Write exp(2*u) as exp(u)^2 and exp(-u) as 1/exp(u), where that is shorter."""
    argument = base.arguments[0]
    if argument.kind == NUMBER:
        return base, 1.0
    if argument.kind == SUM:
        values = [value for _, value in argument.terms]
        size = numeric_content(values) if argument.value == 0.0 else 1.0
    else:
        size = abs(split_coefficient(argument)[0])
    if size not in _EXP_POWERS:
        size = 1.0
    inner = scale(argument, 1.0 / size)
    if negative_plan(inner)[0] < plan(inner)[0]:
        inner = scale(inner, -1.0)
        size = -size
    if inner is argument:
        return base, 1.0
    return function_node(EXP, inner, sign=POSITIVE), size


register_writer(FUNCTION, _write_function)
