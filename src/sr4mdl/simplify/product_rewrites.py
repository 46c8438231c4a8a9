"""Other ways to see a product, to be written and compared.

* numbers moved into or out of sums: c*(a*x + b*y) is c*a*(x + b/a*y);
* numbers moved into roots, exponentials and logarithms, where they become short;
* a factor multiplied into a sum: x*(1 - x^2) is x - x^3;
* c*sin(u)*cos(u) is c/2*sin(2*u).
"""

import math
from collections.abc import Sequence
from typing import Final

from sr4mdl.operators import get_operator
from sr4mdl.simplify.functions import function
from sr4mdl.simplify.nodes import (
    FUNCTION,
    POSITIVE,
    PRODUCT,
    SUM,
    Node,
    UnfitError,
    function_node,
    is_even,
    is_whole,
    number_power,
    times,
)
from sr4mdl.simplify.plans import is_short, plan, power_cost, short_number
from sr4mdl.simplify.products import EXP, absolute_node, multiply_powers
from sr4mdl.simplify.sums import collect, factors_of, scale
from sr4mdl.simplify.write_sums import as_it_stands

LOG: Final = get_operator("log")
_DOUBLES: Final = (("cos", "sin"), ("cosh", "sinh"))

_Factors = list[tuple[Node, float]]
_Way = tuple[float, _Factors]


def rewritten(coefficient: float, factors: _Factors) -> list[_Way]:
    """Return other ways to write a number times powers; the best first."""
    ways: list[_Way] = []
    size = abs(coefficient)
    names = {base.name for base, _ in factors if base.kind == FUNCTION}
    has_sum = any(base.kind == SUM for base, _ in factors)
    try:
        if size == 1.0 and has_sum:
            ways.extend(_pass_number_on(coefficient, factors))
        if has_sum:
            ways.extend(_move_into_sums(coefficient, factors))
            if size != 1.0:
                ways.extend(_number_into_sums(coefficient, factors))
        if size != 1.0:
            ways.extend(_number_into_root(coefficient, factors))
        if not names:
            return ways
        if "log" in names and size in (2.0, 3.0, 0.5):
            ways.extend(_number_into_logarithm(coefficient, factors))
        for cosine, sine in _DOUBLES:
            if cosine in names and sine in names:
                ways.extend(_double_angle(coefficient, factors, cosine, sine))
    except UnfitError:
        return ways
    return ways


def _sum_inside(base: Node) -> Node | None:
    """Return the sum that a factor is, perhaps in absolute value."""
    if base.kind == SUM:
        return base
    if base.kind == FUNCTION and base.name == "abs" and base.arguments[0].kind == SUM:
        return base.arguments[0]
    return None


def _has_unit(node: Node) -> bool:
    return any(abs(value) == 1.0 for _, value in node.terms)


def _rescale(base: Node, factor: float) -> Node:
    if base.kind == SUM:
        return scale(base, factor)
    return absolute_node(scale(base.arguments[0], factor))


def _sums_without_unit(factors: _Factors) -> list[tuple[int, float, float]]:
    """Return index, size of the first coefficient and exponent of such sums."""
    found = []
    for index, (base, exponent) in enumerate(factors):
        inside = _sum_inside(base)
        if inside is not None and not _has_unit(inside):
            found.append((index, abs(inside.terms[0][1]), exponent))
    return found


def pull_numbers(coefficient: float, factors: _Factors) -> _Way:
    """Give every sum a term without coefficient; the number takes that up."""
    if abs(coefficient) == 1.0:
        return coefficient, factors
    found = _sums_without_unit(factors)
    if not found:
        return coefficient, factors
    result = list(factors)
    value = coefficient
    try:
        for index, size, exponent in found:
            result[index] = (_rescale(factors[index][0], 1.0 / size), exponent)
            value = times(value, number_power(size, exponent))
    except UnfitError:
        return coefficient, factors
    return value, result


def _pass_number_on(coefficient: float, factors: _Factors) -> list[_Way]:
    """Give all sums but one a term without coefficient; the last takes that up."""
    found = _sums_without_unit(factors)
    if len(found) < 2:
        return []
    result = list(factors)
    last, _, last_exponent = found.pop()
    pulled = 1.0
    for index, size, exponent in found:
        result[index] = (_rescale(factors[index][0], 1.0 / size), exponent)
        pulled = times(pulled, number_power(size, exponent))
    inner = _root_of(pulled, last_exponent)
    result[last] = (_rescale(factors[last][0], inner), last_exponent)
    return [(coefficient, result)]


def _move_into_sums(coefficient: float, factors: _Factors) -> list[_Way]:
    """Write x*(1 - x^2) as x - x^3, and (y/x - 1)/x as (y - x)/x^2."""
    ways: list[_Way] = []
    for index, (node, outer) in enumerate(factors):
        if node.kind != SUM or abs(outer) != 1.0:
            continue
        others = {
            base.key: (base, power)
            for position, (base, power) in enumerate(factors)
            if position != index and base.kind != SUM
        }
        for base, old, moved in _movable(node, outer, others):
            if _gain(node, base, old, moved, outer) <= 0:
                continue
            parts = [
                (multiply_powers([(term, 1.0), (base, moved * outer)]), value)
                for term, value in node.terms
            ]
            if node.value != 0.0:
                alone = multiply_powers([(base, moved * outer)])
                parts.append((alone, node.value))
            rest = [
                item
                for position, item in enumerate(factors)
                if position != index and item[0].key != base.key
            ]
            if old != moved:
                rest.append((base, old - moved))
            # Written as it stands: factoring it would lead back here.
            ways.append((coefficient, [*rest, (as_it_stands(collect(parts)), outer)]))
    return ways


def _movable(
    node: Node, outer: float, others: dict[str, tuple[Node, float]]
) -> list[tuple[Node, float, float]]:
    """Return bases, their powers beside the sum, and the powers to move into it."""
    found = []
    for base, power in others.values():
        found.append((base, power, power))
        if abs(power) > 1.0:
            found.append((base, power, math.copysign(1.0, power)))
    # Powers to multiply by so that a denominator inside the sum goes.
    seen = set()
    for term, _ in node.terms:
        for base, exponent in factors_of(term):
            if exponent < 0.0 and base.kind != SUM and base.key not in seen:
                seen.add(base.key)
                moved = -exponent * outer
                old = others.get(base.key, (base, 0.0))[1]
                if old != moved:
                    found.append((base, old, moved))
    return found


def _gain(node: Node, base: Node, old: float, moved: float, outer: float) -> int:
    """Return how many symbols it saves to move a power into a sum, by estimate."""
    length = plan(base)[0]
    gain = _factor_cost(length, old) - _factor_cost(length, old - moved)
    inner = moved * outer
    if node.value != 0.0:
        gain += 1 - _term_cost(length, inner, (), node.value)
    for term, value in node.terms:
        power = 0.0
        rest = []
        for part, exponent in factors_of(term):
            if part.key == base.key:
                power = exponent
            else:
                rest.append(exponent)
        gain += _term_cost(length, power, rest, value)
        gain -= _term_cost(length, power + inner, rest, value)
    return gain


def _factor_cost(length: int, exponent: float) -> int:
    return 0 if exponent == 0.0 else length + power_cost(exponent) + 1


def _term_cost(
    length: int, exponent: float, rest: Sequence[float], value: float
) -> int:
    """Return the symbols of a term in excess of what its other factors take."""
    if exponent == 0.0 and not rest:
        return 1
    cost = 0
    if exponent != 0.0:
        cost += length + power_cost(exponent) + (1 if rest else 0)
    if abs(value) != 1.0:
        return cost + 2
    if exponent > 0.0 or any(power > 0.0 for power in rest):
        return cost
    return cost + 1  # nothing above the line: one more operator


def _number_into_sums(coefficient: float, factors: _Factors) -> list[_Way]:
    """Write 2*(1/x + 0.5*y) as 2/x + y, should that be shorter."""
    ways: list[_Way] = []
    for index, (node, outer) in enumerate(factors):
        if node.kind != SUM or not is_whole(outer):
            continue
        inner = _root_of(abs(coefficient), outer)
        if any(
            abs(value * inner) == 1.0 or all(e < 0.0 for _, e in factors_of(term))
            for term, value in node.terms
        ):
            new = (as_it_stands(scale(node, inner)), outer)
            others = [*factors[:index], new, *factors[index + 1 :]]
            ways.append((math.copysign(1.0, coefficient), others))
    return ways


def _root_of(value: float, exponent: float) -> float:
    """Return the number that has this power.

    It is rounded by a digit, so that taking it out and in again changes nothing.
    """
    return float(f"{number_power(value, 1.0 / exponent):.15g}")


def _number_into_root(coefficient: float, factors: _Factors) -> list[_Way]:
    """Write 2*sqrt(-x) as sqrt(-4*x), where the sign then costs nothing."""
    for index, (base, exponent) in enumerate(factors):
        if base.kind == PRODUCT and base.value < 0.0 and not is_whole(exponent):
            inner = _root_of(abs(coefficient), exponent)
            new = (scale(base, inner), exponent)
            others = [*factors[:index], new, *factors[index + 1 :]]
            return [(math.copysign(1.0, coefficient), others)]
    return []


def _number_into_logarithm(coefficient: float, factors: _Factors) -> list[_Way]:
    """Write 2*log(x) as log(x^2)."""
    size = abs(coefficient)
    for index, (base, exponent) in enumerate(factors):
        if base.kind == FUNCTION and base.name == "log" and exponent == 1.0:
            inner = base.arguments[0]
            if inner.kind == FUNCTION and inner.name == "abs" and is_even(size):
                inner = inner.arguments[0]
            inside = multiply_powers([(inner, size)])
            result = list(factors)
            result[index] = (function_node(LOG, inside), 1.0)
            return [(math.copysign(1.0, coefficient), result)]
    return []


def _double_angle(
    coefficient: float, factors: _Factors, cosine: str, sine: str
) -> list[_Way]:
    """Write c*sin(u)*cos(u) as c/2*sin(2*u)."""
    found = {
        base.key: (index, exponent)
        for index, (base, exponent) in enumerate(factors)
        if base.kind == FUNCTION
    }
    for base, exponent in factors:
        if base.kind != FUNCTION or base.name != cosine or not is_whole(exponent):
            continue
        argument = base.arguments[0]
        partner = found.get(f"{sine}({argument.key})")
        if partner is None or partner[1] != exponent:
            continue
        gone = (found[base.key][0], partner[0])
        rest = [item for index, item in enumerate(factors) if index not in gone]
        double = function(get_operator(sine), scale(argument, 2.0))
        value = times(coefficient, number_power(0.5, exponent))
        return [(value, [*rest, (double, exponent)])]
    return []


def tidy_number(coefficient: float, factors: _Factors) -> _Way:
    """Move a long number to where it is short: sqrt(2*x), exp(x + 1)."""
    if coefficient.is_integer() or is_short(coefficient):
        return coefficient, factors
    size = abs(coefficient)
    for index, (base, exponent) in enumerate(factors):
        if exponent == 1.0:
            if base.kind != FUNCTION or base.name != "exp":
                continue
            inside = short_number(math.log(size))
            if not _near(math.exp(inside), size):
                continue
            argument = collect([(base.arguments[0], 1.0)], inside)
            new = function_node(EXP, argument, sign=POSITIVE)
        elif not is_whole(exponent) and abs(exponent) > 0.1:
            try:
                inside = short_number(number_power(size, 1.0 / exponent))
                fits = _near(number_power(inside, exponent), size)
            except UnfitError:
                continue
            if not fits:
                continue
            new = scale(base, inside)
        else:
            continue
        others = [*factors[:index], (new, exponent), *factors[index + 1 :]]
        return math.copysign(1.0, coefficient), others
    return coefficient, factors


def _near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= 4.5e-16 * wanted
