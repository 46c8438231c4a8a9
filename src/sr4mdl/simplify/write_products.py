"""Plans for products: numerators, denominators, grouped powers, one number.

``_prepare`` chooses how factors are best written, ``_write_factors`` writes powers
that share an exponent together, ``_join`` puts the pieces above and below the line.
``product_rewrites`` holds the changes that need the whole product.
"""

from typing import Final

from sr4mdl.operators import Operator
from sr4mdl.simplify.nodes import (
    FUNCTION,
    NUMBER,
    PRODUCT,
    Node,
    Plan,
    Terms,
    function_node,
    is_even,
    is_whole,
    number,
)
from sr4mdl.simplify.plans import (
    CUBE,
    DIV,
    INV,
    MUL,
    POW,
    SQRT,
    SQUARE,
    Pair,
    inverse_if_shorter,
    leaf,
    negated,
    negative_plan,
    plan,
    plan_pair,
    raised,
    register_writer,
)
from sr4mdl.simplify.product_rewrites import pull_numbers, rewritten, tidy_number
from sr4mdl.simplify.products import absolute_node
from sr4mdl.simplify.sums import scale, unit_product
from sr4mdl.simplify.write_functions import power_of_exponential

_Factors = list[tuple[Node, float]]
# Plan of a factor, of the factor negated (None if that is no use), and whether above.
_Written = tuple[Plan, Plan | None, bool]


_POWERS: Final[dict[Operator | None, float]] = {SQUARE: 2.0, CUBE: 3.0, SQRT: 0.5}


def _write_product(node: Node) -> Pair:
    return write_product(node.value, list(node.terms))


def write_product(coefficient: float, factors: _Factors) -> Pair:
    """Return the plans of a number times powers, and of the same negated."""
    for base, exponent in factors:
        if base.kind == PRODUCT and abs(exponent) == 1.0:
            coefficient, factors = _flattened(coefficient, factors)
            break
    coefficient, factors = tidy_number(*pull_numbers(coefficient, factors))
    best, opposite = _write(coefficient, factors)
    for number_then, factors_then in rewritten(coefficient, factors):
        found, negative = _write(number_then, factors_then)
        if found[0] < best[0]:
            best = found
        if negative[0] < opposite[0]:
            opposite = negative
    return best, opposite


def _flattened(coefficient: float, factors: _Factors) -> tuple[float, _Factors]:
    """Open up factors that are products, as they come from under a common root."""
    powers: dict[str, tuple[Node, float]] = {}
    for base, exponent in factors:
        parts: Terms = ((base, 1.0),)
        if base.kind == PRODUCT and abs(exponent) == 1.0:
            coefficient *= base.value if exponent > 0.0 else 1.0 / base.value
            parts = base.terms
        for inner, power in parts:
            old = powers.get(inner.key, (inner, 0.0))[1]
            powers[inner.key] = (inner, old + power * exponent)
    return coefficient, [item for item in powers.values() if item[1] != 0.0]


def _write(coefficient: float, factors: _Factors) -> Pair:
    written = _write_factors(_prepare(factors))
    return _join(coefficient, written), _join(-coefficient, written)


def _prepare(factors: _Factors) -> _Factors:
    """Choose how to write exponentials and join absolute values."""
    absolutes = []
    result = []
    for base, exponent in factors:
        if base.kind == FUNCTION and exponent in (1.0, -1.0):
            if base.name == "exp":
                inner, size = power_of_exponential(base)
                result.append((inner, size * exponent))
                continue
            if base.name == "abs":
                absolutes.append((base, exponent))
                continue
            if base.name == "pow":
                result.append(_as_power(base, exponent))
                continue
        result.append((base, exponent))
    if len(absolutes) < 2:
        return result + absolutes
    # |a|*|b| is |a*b|, |a|/|b| is |a/b|
    sign = 1.0 if any(e > 0.0 for _, e in absolutes) else -1.0
    inside = [(base.arguments[0], exponent * sign) for base, exponent in absolutes]
    result.append((absolute_node(unit_product(tuple(inside))), sign))
    return result


def _as_power(base: Node, exponent: float) -> tuple[Node, float]:
    """Write a^(-u) as 1/a^u where that is shorter."""
    below, power = base.arguments
    assert base.operator is not None
    if below.kind == NUMBER:
        inverse = inverse_if_shorter(below.value)
        if inverse is None:
            return base, exponent
        below = number(inverse)
    elif negative_plan(power)[0] < plan(power)[0]:
        power = scale(power, -1.0)
    else:
        return base, exponent
    return function_node(base.operator, below, power, sign=base.sign), -exponent


def _write_factors(factors: _Factors) -> list[_Written]:
    """Write each power, those with the same exponent together."""
    written: list[_Written] = []
    groups: dict[float, _Factors] = {}
    for base, exponent in factors:
        size = abs(exponent)
        if size == 1.0:
            written.append((*plan_pair(base), exponent > 0.0))
        else:
            groups.setdefault(size, []).append((base, exponent))
    if len(groups) > 1:
        joined = _join_groups(groups)
        if joined is not None:
            return written + joined
    for size, members in groups.items():
        written.append(_write_group(size, members))
    return written


def _write_group(size: float, members: _Factors) -> _Written:
    """Write powers that share an exponent: a^2/b^2 is (a/b)^2."""
    sign = 1.0 if any(exponent > 0.0 for _, exponent in members) else -1.0
    if len(members) == 1:
        base = members[0][0]
        inside, opposite = plan_pair(base)
    else:
        inner = [
            (base, 1.0 if (exponent > 0.0) == (sign > 0.0) else -1.0)
            for base, exponent in members
        ]
        inside, opposite = write_product(1.0, inner)
    negative = None
    if is_even(size):
        if opposite[0] < inside[0]:
            inside = opposite
    elif is_whole(size):
        negative = raised(opposite, size)
    return raised(inside, size), negative, sign > 0.0


def _join_groups(groups: dict[float, _Factors]) -> list[_Written] | None:
    """Write a^4*b^2 as (a^2*b)^2 and a^1.5*b^0.5 as sqrt(a^3*b), where shorter."""
    for outer in (2.0, 3.0, 0.5):
        if outer == 0.5:
            # Whole powers under a root would lose the sign of their base.
            sizes = [size for size in groups if not is_whole(size)]
        else:
            sizes = [size for size in groups if is_whole(size / outer)]
        if len(sizes) < 2:
            continue
        members = [
            (base, exponent / outer)
            for size in sizes
            for base, exponent in groups[size]
        ]
        rest = [item for size in groups if size not in sizes for item in groups[size]]
        sign = 1.0 if any(exponent > 0.0 for _, exponent in members) else -1.0
        inside = write_product(1.0, [(base, e * sign) for base, e in members])[0]
        together: _Written = (raised(inside, outer), None, sign > 0.0)
        apart = sum([_write_group(size, groups[size])[0][0] + 1 for size in sizes])
        if together[0][0] + 1 < apart:
            return [together, *_write_factors(rest)]
    return None


def _join(coefficient: float, written: list[_Written]) -> Plan:
    """Put the factors above and below the line, the number where it fits."""
    plans = [(first, above) for first, _, above in written]
    minus = False
    if coefficient == -1.0:
        coefficient = 1.0
        minus = True
        best, where = 1, -1
        for index, (first, opposite, _) in enumerate(written):
            if opposite is not None and opposite[0] - first[0] < best:
                best, where = opposite[0] - first[0], index
        if where >= 0:
            opposite = written[where][1]
            assert opposite is not None
            plans[where] = (opposite, plans[where][1])
            minus = False
    above = [first for first, up in plans if up]
    below = [first for first, up in plans if not up]
    if coefficient == 1.0:
        if not above and below:
            _lift_power(above, below)
    elif not above:
        above.append(leaf(coefficient))
    else:
        inverse = inverse_if_shorter(coefficient)
        if inverse is None:
            above.insert(0, leaf(coefficient))
        else:
            below.insert(0, leaf(inverse))
    if not below:
        found = _chain(above)
    elif not above:
        bottom = _chain(below)
        found = (bottom[0] + 1, INV, bottom, None)
    else:
        top, bottom = _chain(above), _chain(below)
        found = (top[0] + bottom[0] + 1, DIV, top, bottom)
    return negated(found) if minus else found


def _lift_power(above: list[Plan], below: list[Plan]) -> None:
    """Write 1/x^2.5 as x^-2.5, and 1/(x^2)^2 as x^-4: one symbol less."""
    for index, found in enumerate(below):
        exponent = 1.0
        depth = 0
        while found[1] in _POWERS:
            exponent *= _POWERS[found[1]]
            found = found[2]
            depth += 1
        if found[1] is POW and found[3][1] is None and isinstance(found[3][2], float):
            exponent *= found[3][2]
            found = found[2]
            depth += 2
        if depth > 1:
            del below[index]
            above.append((found[0] + 2, POW, found, leaf(-exponent)))
            return


def _chain(plans: list[Plan]) -> Plan:
    if not plans:
        return leaf(1.0)
    result = plans[0]
    for other in plans[1:]:
        result = (result[0] + other[0] + 1, MUL, result, other)
    return result


register_writer(PRODUCT, _write_product)
