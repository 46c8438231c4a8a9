"""Monomials: which are worth trying, and how products of powers are written."""

import itertools
from collections.abc import Sequence
from functools import lru_cache

from sr4mdl.expressions import Expression, apply
from sr4mdl.operators import get_operator
from sr4mdl.selection.bits import operator_bits, variable_bits

Exponents = tuple[tuple[int, float], ...]
"""Columns of a monomial with their exponents."""


def power_product(factors: Sequence[tuple[Expression, float]]) -> Expression:
    """Return the product of bases raised to exponents, halves under one root."""
    above = [_power(base, a) for base, a in factors if a > 0 and (2 * a) % 2 != 1]
    below = [_power(base, -a) for base, a in factors if a < 0 and (2 * a) % 2 != 1]
    roots = [(base, 2 * a) for base, a in factors if (2 * a) % 2 == 1]
    if roots:
        if len(roots) == 1 and roots[0][1] < 0:
            base, doubled = roots[0]
            below.append(apply("sqrt", power_product([(base, -doubled)])))
        else:
            above.append(apply("sqrt", power_product(roots)))
    if not above:
        if not below:
            return apply("div", 1.0, 1.0)
        return apply("inv", _product(below))
    return apply("div", _product(above), _product(below)) if below else _product(above)


def _power(base: Expression, exponent: float) -> Expression:
    names = {1.0: None, 2.0: "square", 3.0: "cube"}
    if exponent in names:
        name = names[exponent]
        return base if name is None else apply(name, base)
    return apply("pow", base, exponent)


def _product(factors: Sequence[Expression]) -> Expression:
    result = factors[0]
    for factor in factors[1:]:
        result = apply("mul", result, factor)
    return result


def _bits_of(name: str) -> float:
    return operator_bits(get_operator(name))


@lru_cache(maxsize=64)
def monomial_exponents(
    n_columns: int, budget: int
) -> list[tuple[Exponents, float, float]]:
    """Return exponents, bits and rank of monomials, best rank first."""
    column_bits, mul_bits = variable_bits(n_columns), _bits_of("mul")
    power_bits = {1.0: 0.0, 2.0: _bits_of("square"), 3.0: _bits_of("cube")}
    found: list[tuple[Exponents, float, float]] = []
    # States have few columns; a wide table gets products of two of them only.
    for size in range(1, min(n_columns, 7 if n_columns <= 12 else 2) + 1):
        largest = 3 if size <= 2 else 2 if size <= 4 else 1
        largest = largest if n_columns <= 12 else 1
        exponents = [
            sign * power for power in range(1, largest + 1) for sign in (1.0, -1.0)
        ]
        for members in itertools.combinations(range(n_columns), size):
            for powers in itertools.product(exponents, repeat=size):
                excess = sum(abs(power) - 1.0 for power in powers)
                rank = 2.0 * size + 4.0 * excess
                if size > 2 and excess > 3:
                    continue
                bits = size * column_bits + (size - 1) * mul_bits
                bits += sum(power_bits[abs(power)] for power in powers)
                bits += 1.5 if max(powers) < 0 else 0.0
                found.append((tuple(zip(members, powers, strict=True)), bits, rank))
        if len(found) > 6 * budget:
            break
    found.sort(key=lambda entry: (entry[2], entry[1]))
    chosen = found[:budget]
    have = {exponents for exponents, _, _ in chosen}
    for factors in polynomial_exponents(n_columns, min(budget // 4, 45)):
        if factors not in have:
            bits = len(factors) * (column_bits + mul_bits)
            bits += sum(power_bits.get(power, 14.0) for _, power in factors)
            excess = sum(power - 1.0 for _, power in factors)
            chosen.append((factors, bits, 2.0 * len(factors) + 4.0 * excess))
    return chosen


def polynomial_exponents(n_columns: int, max_terms: int) -> list[Exponents]:
    """Return the monomials of the highest degree of which there are not too many."""
    result: list[Exponents] = []
    for degree in range(1, 10):
        terms: list[Exponents] = []
        for total in range(1, degree + 1):
            for choice in itertools.combinations_with_replacement(
                range(n_columns), total
            ):
                counts = {column: float(choice.count(column)) for column in choice}
                terms.append(tuple(sorted(counts.items())))
            if len(terms) > max_terms:
                return result
        result = terms
    return result
