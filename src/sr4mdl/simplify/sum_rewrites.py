"""Other ways to see a sum, to be written and compared.

* a factor common to some terms taken out, also a whole sum;
* a*log(x) + b*log(y) as one logarithm; numbers moved into and out of logarithms;
* u^2 + 2*u*v + v^2 as (u + v)^2, and u^2 + b*u + c as (u + b/2)^2 + c'.
"""

import math
from typing import Final

from sr4mdl.operators import get_operator
from sr4mdl.simplify.nodes import (
    FUNCTION,
    PRODUCT,
    SUM,
    Node,
    Terms,
    UnfitError,
    function_node,
    is_even,
    product_node,
)
from sr4mdl.simplify.plans import is_short, plan, power_cost, short_number
from sr4mdl.simplify.products import multiply_powers
from sr4mdl.simplify.sums import collect, divide_term, factors_of, scale, unit_product

LOG: Final = get_operator("log")
_MAX_TERMS: Final = 16  # longer sums are written as they stand
_MAX_TRIED: Final = 2  # common factors tried, best guess first
_MAX_LOG_POWER: Final = 4.0  # higher powers inside a logarithm could overflow
_MAX_EXPONENT: Final = 20.0  # constants larger than this stay out of logarithms
_MAX_CANCELLATION: Final = 64.0  # digits lost by completing a square: under two


def rewritten(node: Node) -> list[Node]:
    """Return other sums or products equal to the sum."""
    if len(node.terms) > _MAX_TERMS:
        return []
    ways: list[Node] = []
    try:
        if "log(" in node.key:
            ways.extend(_join_logarithms(node))
        if len(node.terms) > 1:
            ways.extend(_factorings(node))
            if "^2.0" in node.key or "^4.0" in node.key:
                ways.extend(_complete_squares(node))
    except UnfitError:
        return ways
    return ways


def partial_factorings(node: Node) -> list[Node]:
    """Return the sum with factors taken out that not all of its terms share."""
    if not 2 < len(node.terms) + (node.value != 0.0) <= _MAX_TERMS:
        return []
    try:
        return _factorings(node, partial=True)
    except UnfitError:
        return []


def _factorings(node: Node, partial: bool = False) -> list[Node]:
    """Return the sum with a common factor of some terms taken out, in a few ways."""
    found: dict[str, tuple[Node, float, list[int]]] = {}
    terms = node.terms
    for index, (term, _) in enumerate(terms):
        for base, exponent in factors_of(term):
            key = base.key if exponent > 0.0 else "-" + base.key
            old = found.get(key)
            if old is None:
                found[key] = (base, exponent, [index])
            else:
                if abs(exponent) < abs(old[1]):
                    found[key] = (base, exponent, old[2])
                old[2].append(index)
    tried = []
    for key, (base, exponent, indices) in found.items():
        if len(indices) == len(terms) and partial and node.value == 0.0:
            continue
        if len(indices) > 1:
            gain = _gain(terms, base, exponent, indices)
            if gain > 0:
                tried.append((-gain, key))
        elif base.kind == SUM and exponent == 1.0:
            other = _take_out_sum(node, base, indices[0])
            if other is not None:
                return [other]
    tried.sort()
    result = []
    for _, key in tried[:_MAX_TRIED]:
        base, exponent, indices = found[key]
        factor = {base.key: (base, exponent)}
        inner = collect(
            [(divide_term(terms[i][0], factor), terms[i][1]) for i in indices]
        )
        product = multiply_powers([(base, exponent), (inner, 1.0)])
        others = [terms[i] for i in range(len(terms)) if i not in indices]
        result.append(collect([*others, (product, 1.0)], node.value))
    return result


def _gain(terms: Terms, base: Node, exponent: float, indices: list[int]) -> int:
    """Return about how many symbols taking the power out of the terms saves."""
    length = plan(base)[0]
    gain = -(length + power_cost(exponent) + 1)
    for index in indices:
        term, value = terms[index]
        factors = factors_of(term)
        power = next(e for b, e in factors if b.key == base.key)
        if power != exponent:
            gain += power_cost(power) - power_cost(power - exponent)
        elif len(factors) > 1:
            gain += length + power_cost(power) + 1
        else:
            gain += length + power_cost(power) - 1 + (0 if abs(value) == 1.0 else 2)
    return gain


def _take_out_sum(node: Node, base: Node, index: int) -> Node | None:
    """Turn a*(x + y) + c*x + c*y into (a + c)*(x + y)."""
    coefficients = {term.key: value for term, value in node.terms}
    ratio = coefficients.get(base.terms[0][0].key, 0.0) / base.terms[0][1]
    if ratio == 0.0 or node.value != ratio * base.value:
        return None
    for term, value in base.terms:
        if coefficients.get(term.key) != ratio * value:
            return None
    term, value = node.terms[index]
    quotient = divide_term(term, {base.key: (base, 1.0)})
    inner = collect([(quotient, value)], ratio)
    product = multiply_powers([(base, 1.0), (inner, 1.0)])
    gone = {member.key for member, _ in base.terms}
    gone.add(term.key)
    others = [item for item in node.terms if item[0].key not in gone]
    return collect([*others, (product, 1.0)])


def _is_logarithm(term: Node) -> bool:
    return term.kind == FUNCTION and term.name == "log"


def _join_logarithms(node: Node) -> list[Node]:
    logs = [item for item in node.terms if _is_logarithm(item[0])]
    if not logs:
        return []
    ways = []
    others = [item for item in node.terms if not _is_logarithm(item[0])]
    if node.value != 0.0:
        # c + a*log(b*x + d) is c' + a*log(x + d/b)
        value = node.value
        scaled = []
        for term, weight in logs:
            inside = term.arguments[0]
            if inside.kind == SUM and not any(abs(c) == 1.0 for _, c in inside.terms):
                size = abs(inside.terms[0][1])
                value += weight * math.log(size)
                term = function_node(LOG, scale(inside, 1.0 / size))
            scaled.append((term, weight))
        if value != node.value:
            ways.append(collect([*others, *scaled], value))
        ways.extend(_constant_into_logarithm(node))
    if len(logs) > 1:
        least = min([abs(weight) for _, weight in logs])
        if all(abs(weight) <= _MAX_LOG_POWER * least for _, weight in logs):
            inside = multiply_powers([(t.arguments[0], w / least) for t, w in logs])
            joined = function_node(LOG, inside)
            ways.append(collect([*others, (joined, least)], node.value))
    return ways


def _constant_into_logarithm(node: Node) -> list[Node]:
    """Write log(-x) + c as log(-exp(c)*x): the sign then costs nothing."""
    for index, (term, weight) in enumerate(node.terms):
        if not _is_logarithm(term) or abs(node.value / weight) > _MAX_EXPONENT:
            continue
        inside = term.arguments[0]
        if inside.kind == PRODUCT and inside.value == -1.0:
            factor = float(f"{math.exp(node.value / weight):.15g}")
            new = (function_node(LOG, scale(inside, factor)), weight)
            return [collect([*node.terms[:index], new, *node.terms[index + 1 :]])]
    return []


def tidy_constant(value: float, terms: Terms) -> tuple[float, Terms]:
    """Move a long constant into a logarithm where it is short: log(2*x)."""
    if value == 0.0 or is_short(value):
        return value, terms
    for index, (term, weight) in enumerate(terms):
        if _is_logarithm(term) and abs(value / weight) <= _MAX_EXPONENT:
            inside = short_number(math.exp(value / weight))
            if abs(math.log(inside) * weight - value) <= 4.5e-16 * abs(value):
                new = function_node(LOG, scale(term.arguments[0], inside))
                return 0.0, (*terms[:index], (new, weight), *terms[index + 1 :])
    return value, terms


def _complete_squares(node: Node) -> list[Node]:
    """u^2 + 2*u*v + v^2 is (u + v)^2; u^2 + b*u is (u + b/2)^2 - b^2/4."""
    ways = []
    roots = [(term, value, _root(term)) for term, value in node.terms]
    squares = [item for item in roots if item[2] is not None]
    coefficients = {term.key: value for term, value in node.terms}
    for position, (term, value, root) in enumerate(squares):
        assert root is not None
        linear = coefficients.get(root.key)
        if linear is not None and node.value != 0.0:
            shift = linear / (2.0 * value)
            taken = value * shift * shift
            if abs(taken) <= _MAX_CANCELLATION * abs(node.value):
                ways.append(
                    _with_square(node, {term.key, root.key}, value, root, shift, taken)
                )
        for other, weight, second in squares[position + 1 :]:
            assert second is not None
            cross = multiply_powers([(root, 1.0), (second, 1.0)])
            middle = coefficients.get(cross.key)
            if middle is None or (value > 0.0) != (weight > 0.0):
                continue
            ratio = middle / (2.0 * value)
            if ratio * ratio * value != weight:
                continue
            gone = {term.key, other.key, cross.key}
            inside = collect([(root, 1.0), (second, ratio)])
            square = multiply_powers([(inside, 2.0)])
            rest = [item for item in node.terms if item[0].key not in gone]
            ways.append(collect([*rest, (square, value)], node.value))
    return ways


def _with_square(
    node: Node, gone: set[str], value: float, root: Node, shift: float, taken: float
) -> Node:
    square = product_node(1.0, ((collect([(root, 1.0)], shift), 2.0),))
    rest = [item for item in node.terms if item[0].key not in gone]
    constant = node.value - taken
    if abs(constant) < 1e-15 * abs(node.value):
        constant = 0.0
    return collect([*rest, (square, value)], constant)


def _root(term: Node) -> Node | None:
    """Return the node whose square the term is, if its powers are all even."""
    if term.kind != PRODUCT or not all(is_even(e) for _, e in term.terms):
        return None
    return unit_product(
        tuple([(base, exponent / 2.0) for base, exponent in term.terms])
    )
