"""Drafts: fits by numbers, turned into formulas only if they survive.

A draft knows its error on the screening rows, about how many bits it costs, and how
to write itself as a formula of the original target. Drafts of sums, quotients and
power laws are made here from the fits that a pursuit found.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing.monomials import power_product
from sr4mdl.closing.pool import Pool
from sr4mdl.closing.problem import ResolvedOuter
from sr4mdl.closing.waves import Term, merged_waves
from sr4mdl.expressions import Expression, apply, constant
from sr4mdl.operators import find_operator
from sr4mdl.selection.bits import (
    constant_bits,
    operator_bits,
    residual_bits,
    root_mean_square,
    supported_constant_bits,
)

EXACT: Final = 2.0**-34
"""Error relative to y below which a fit by numbers counts as exact."""
_LARGEST_LOG: Final = 700.0
_TERM_BITS: Final = 6.0
"""About what joining a term to a sum or product costs."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A fit that has not been written as a formula yet."""

    family: str
    """Which family made it."""
    rmse: float
    """Root mean square error on the original target, screening rows."""
    formula_bits: float
    """About what its symbols and constants cost."""
    write: Callable[[], list[Expression]]
    """Returns the ways to write it, as formulas of the original target."""

    def bits(self, n_rows: int, floor: float) -> float:
        """Return about the total code length."""
        return self.formula_bits + residual_bits(self.rmse, n_rows, floor)


@dataclass(frozen=True, slots=True)
class Scale:
    """What drafts need to know of the original target."""

    y: FloatArray
    """The original target on the screening rows."""
    size: float
    """Its root mean square over all rows."""
    floor: float
    """Error that counts as none."""
    n_rows: int
    """Number of rows of the verdict."""
    noise: float = 0.0
    """Noise that was smoothed out of y here, but is there in the verdict."""

    def rmse(self, prediction: FloatArray) -> float:
        """Return the error of a prediction; inf if it is not finite everywhere."""
        if not np.all(np.isfinite(prediction)):
            return math.inf
        return math.hypot(root_mean_square(prediction - self.y), self.noise)

    def constants_bits(self, values: Sequence[float], rmse: float) -> float:
        """Return about what some fitted constants cost."""
        support = supported_constant_bits(rmse, self.n_rows, self.size)
        if rmse > EXACT * self.size:
            return support * len(values)
        return sum(
            min(support, constant_bits(float(f"{value:.7g}"))) for value in values
        )


def outer_bits(outer: ResolvedOuter) -> float:
    """Return about what undoing the steps of a chain costs."""
    total = 0.0
    for resolved in outer.steps:
        operator = find_operator(resolved.step.operator)
        total += 6.0 if operator is None else operator_bits(operator)
        if resolved.step.operand is not None:
            total += 3.0 * resolved.step.operand.length
    return total


def solve_weighted(
    columns: FloatArray, target: FloatArray, weights: FloatArray
) -> FloatArray | None:
    """Return least-squares coefficients of columns (k, n); None if undefined."""
    matrix = (columns * weights).T
    norms = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    if not np.all(np.isfinite(norms)) or np.any(norms == 0.0):
        return None
    try:
        solution = np.linalg.lstsq(matrix / norms, target * weights, rcond=1e-13)[0]
    except np.linalg.LinAlgError:
        return None
    result: FloatArray = solution / norms
    return result if np.all(np.isfinite(result)) else None


def write_sum(intercept: float, terms: Sequence[Term]) -> list[Expression]:
    """Return a linear combination as formulas: plain, and with a common factor.

    Also with a sine and a cosine of one angle made one wave.
    """
    ways = [_plain_sum(intercept, terms)]
    ways += [_plain_sum(intercept, merged) for merged in merged_waves(terms)]
    coefficients = [coefficient for coefficient, _ in terms]
    if intercept != 0.0:
        coefficients.append(intercept)
    if len(coefficients) > 1:
        factor = _common_factor(coefficients)
        if factor is not None:
            inner = _plain_sum(
                intercept / factor,
                [(coefficient / factor, term) for coefficient, term in terms],
            )
            ways.append(apply("mul", factor, inner))
    return ways


def _common_factor(coefficients: Sequence[float]) -> float | None:
    """Return a coefficient of which others are simple multiples, if it is not 1."""
    best: tuple[int, float] | None = None
    for factor in coefficients:
        if factor == 0.0:
            continue
        if constant_bits(float(f"{factor:.9g}")) <= 3.0:
            return None
        simple = 0
        for coefficient in coefficients:
            ratio = coefficient / factor
            near = round(ratio * 2.0) / 2.0
            if near != 0.0 and abs(ratio - near) <= 0.05 * abs(near) and abs(near) <= 4:
                simple += 1
        if simple > 1 and (best is None or simple > best[0]):
            best = (simple, factor)
    return None if best is None else best[1]


def _plain_sum(intercept: float, terms: Sequence[Term]) -> Expression:
    result: Expression | None = None
    for coefficient, term in sorted(terms, key=lambda one: one[0] < 0):
        if result is None:
            result = _scaled(coefficient, term)
        elif coefficient < 0:
            result = apply("sub", result, _scaled(-coefficient, term))
        else:
            result = apply("add", result, _scaled(coefficient, term))
    if result is None:
        return constant(intercept)
    if intercept == 0.0:
        return result
    if intercept < 0:
        return apply("sub", result, -intercept)
    return apply("add", intercept, result)


def _scaled(coefficient: float, term: Expression) -> Expression:
    return term if coefficient == 1.0 else apply("mul", coefficient, term)


def draft_sum(
    family: str,
    outer: ResolvedOuter,
    pool: Pool,
    members: tuple[int, ...],
    scale: Scale,
    *,
    with_intercept: bool = True,
) -> Draft | None:
    """Return the draft g(y) = a + sum of b_j * member_j."""
    rows = [np.ones_like(outer.values)] if with_intercept else []
    rows += [pool.values[member] for member in members]
    if not rows:
        return None
    columns = np.array(rows)
    solution = solve_weighted(columns, outer.values, outer.slope)
    if solution is None:
        return None
    rmse = scale.rmse(outer.undo_values(solution @ columns))
    if not math.isfinite(rmse):
        return None
    coefficients = [float(value) for value in solution]
    intercept = coefficients.pop(0) if with_intercept else 0.0
    bits = outer_bits(outer) + sum(float(pool.bits[m]) + _TERM_BITS for m in members)
    bits += scale.constants_bits(solution.tolist(), rmse)

    def write() -> list[Expression]:
        terms = [
            (coefficient, pool.expression(member))
            for coefficient, member in zip(coefficients, members, strict=True)
        ]
        return [outer.undo(way) for way in write_sum(intercept, terms)]

    return Draft(family, rmse, bits, write)


def draft_quotient(
    outer: ResolvedOuter,
    pool: Pool,
    denominators: tuple[int, ...],
    members: tuple[int, ...],
    scale: Scale,
) -> Draft | None:
    """Return the draft g(y) = (a + sum of b_j * member_j) / (1 + sum of c_k * d_k)."""
    below = pool.values[list(denominators)]
    above = np.array(
        [np.ones_like(outer.values), *(pool.values[member] for member in members)]
    )
    columns = np.concatenate([outer.values * below, above])
    solution = solve_weighted(columns, outer.values, outer.slope)
    if solution is None:
        return None
    slopes, coefficients = -solution[: len(below)], solution[len(below) :]
    divisor = 1.0 + slopes @ below
    if np.any(divisor == 0.0):
        return None
    rmse = scale.rmse(outer.undo_values(coefficients @ above / divisor))
    if not math.isfinite(rmse):
        return None
    bits = outer_bits(outer) + sum(float(pool.bits[m]) + _TERM_BITS for m in members)
    bits += sum(float(pool.bits[d]) + _TERM_BITS for d in denominators) + _TERM_BITS
    bits += scale.constants_bits(solution.tolist(), rmse)

    def combine(values: FloatArray, places: tuple[int, ...]) -> list[Term]:
        return [
            (float(value), pool.expression(place))
            for value, place in zip(values, places, strict=True)
        ]

    def write() -> list[Expression]:
        # With several terms below, another one than 1 may have the plain coefficient.
        units = {1.0} if len(slopes) < 2 else {1.0, min(slopes, key=abs)}
        written = []
        for unit in units:
            below = _plain_sum(1.0 / unit, combine(slopes / unit, denominators))
            first, *others = (coefficients / unit).tolist()
            ways = write_sum(first, combine(np.array(others), members))
            written += [outer.undo(apply("div", way, below)) for way in ways]
        return written

    return Draft("rational", rmse, bits, write)


@dataclass(frozen=True, slots=True)
class Factor:
    """A base of a power law, on the screening rows."""

    values: FloatArray
    expression: Callable[[], Expression]
    bits: float


def draft_power_law(
    family: str,
    outer: ResolvedOuter,
    factors: Sequence[Factor],
    exponential: Sequence[Factor],
    weights: FloatArray,
    scale: Scale,
) -> Draft | None:
    """Return the draft g(y) = c * product of factor^a * exp(sum of b * exponential).

    Exponents are rounded to halves or thirds where that shortens the code.

    Parameters
    ----------
    family : str
        Name to report.
    outer : ResolvedOuter
        The chain g; its values must not be 0.
    factors : sequence of Factor
        Bases; none may be 0 anywhere.
    exponential : sequence of Factor
        Members of the exponent.
    weights : ndarray of shape (n_rows,)
        Weights of the errors of log|g(y)|.
    scale : Scale
        The original target.
    """
    target = np.log(np.abs(outer.values))
    rows = [np.ones_like(target)]
    rows += [np.log(np.abs(factor.values)) for factor in factors]
    rows += [factor.values for factor in exponential]
    columns = np.array(rows)
    solution = solve_weighted(columns, target, weights)
    if solution is None:
        return None
    n_factors = len(factors)
    free = solution[1 : 1 + n_factors]
    best: tuple[float, _PowerLaw] | None = None
    for exponents in _exponent_choices(free):
        law = _fit_power_law(
            exponents, columns, target, weights, outer, factors, exponential, scale
        )
        if law is None:
            continue
        bits = law.bits + residual_bits(law.rmse, scale.n_rows, scale.floor)
        if best is None or bits < best[0]:
            best = (bits, law)
    if best is None:
        return None
    law = best[1]
    total = law.bits + outer_bits(outer)

    def write() -> list[Expression]:
        pieces = [
            (_base(factor, law.absolute[place]), float(law.exponents[place]))
            for place, factor in enumerate(factors)
            if law.exponents[place] != 0.0
        ]
        pieces += [(factors[place].expression(), 1.0) for place in law.sign_factors]
        parts: list[Expression] = [power_product(pieces)] if pieces else []
        if len(exponential):
            inner = _plain_sum(
                0.0,
                [
                    (float(slope), factor.expression())
                    for slope, factor in zip(law.slopes, exponential, strict=True)
                ],
            )
            parts.append(apply("exp", inner))
        product = parts[0] if parts else constant(1.0)
        for part in parts[1:]:
            product = apply("mul", product, part)
        if not parts:
            return [outer.undo(constant(law.coefficient))]
        return [outer.undo(apply("mul", law.coefficient, product))]

    return Draft(family, law.rmse, total, write)


def _base(factor: Factor, absolute: bool) -> Expression:
    base = factor.expression()
    if not absolute:
        return base
    if np.all(factor.values < 0):
        return apply("neg", base)
    return apply("abs", base)


@dataclass(frozen=True, slots=True)
class _PowerLaw:
    coefficient: float
    exponents: FloatArray
    slopes: FloatArray
    absolute: tuple[bool, ...]
    sign_factors: tuple[int, ...]
    rmse: float
    bits: float


def _exponent_choices(free: FloatArray) -> list[FloatArray]:
    """Return exponents to try: as fitted, to halves, to halves or thirds."""
    halves = np.round(free * 2.0) / 2.0
    thirds = np.round(free * 3.0) / 3.0
    mixed = np.where(
        np.abs(thirds - free) < 0.5 * np.abs(halves - free), thirds, halves
    )
    near = np.where(np.abs(halves - free) < 0.05, halves, free)
    choices = [halves]
    for other in (mixed, near, free):
        if all(np.any(other != choice) for choice in choices):
            choices.append(other)
    return choices


def _fit_power_law(
    exponents: FloatArray,
    columns: FloatArray,
    target: FloatArray,
    weights: FloatArray,
    outer: ResolvedOuter,
    factors: Sequence[Factor],
    exponential: Sequence[Factor],
    scale: Scale,
) -> _PowerLaw | None:
    """Fit the coefficient and slopes for given exponents; None if it fails."""
    n_factors = len(factors)
    rest = target - exponents @ columns[1 : 1 + n_factors]
    inner = np.concatenate([columns[:1], columns[1 + n_factors :]])
    solution = solve_weighted(inner, rest, weights)
    if solution is None:
        return None
    whole = exponents == np.round(exponents)
    negative = np.array(
        [bool(np.any(factor.values < 0)) for factor in factors], dtype=np.bool_
    )
    absolute = tuple((negative & ~whole).tolist())
    sign = np.ones_like(target)
    for place, factor in enumerate(factors):
        if whole[place] and exponents[place] % 2 == 1:
            sign = sign * np.sign(factor.values)
    signs, sign_factors = _match_signs(outer.values, sign, factors, absolute)
    with np.errstate(all="ignore"):
        size = np.exp(exponents @ columns[1 : 1 + n_factors] + solution @ inner)
        # The logs weigh errors to first order only; scale once more on the target.
        values = signs * size
        fitted = _scale_to(values, outer)
    rmse = scale.rmse(outer.undo_values(fitted * values))
    if not math.isfinite(rmse):
        return None
    agreement = float(np.sum(signs * sign * _signs_of(factors, sign_factors)))
    if abs(solution[0]) > _LARGEST_LOG:
        return None
    coefficient = math.copysign(fitted * math.exp(float(solution[0])), agreement)
    exponents = exponents.copy()
    for place in sign_factors:
        exponents[place] -= 1.0
    constants = [coefficient, *solution[1:].tolist()]
    constants += [a for a in exponents.tolist() if (2 * a) % 1 != 0]
    bits = scale.constants_bits(constants, rmse)
    for place, factor in enumerate(factors):
        if exponents[place] != 0.0:
            simple = abs(exponents[place]) == 1.0
            bits += factor.bits + (3.0 if simple else 7.0)
    bits += sum(factor.bits + 2 * _TERM_BITS for factor in exponential)
    return _PowerLaw(
        coefficient, exponents, solution[1:], absolute, sign_factors, rmse, bits
    )


def _signs_of(factors: Sequence[Factor], places: Sequence[int]) -> FloatArray:
    sign = np.ones_like(factors[0].values) if factors else np.ones(1)
    for place in places:
        sign = sign * np.sign(factors[place].values)
    return sign


def _match_signs(
    target: FloatArray,
    sign: FloatArray,
    factors: Sequence[Factor],
    absolute: Sequence[bool],
) -> tuple[FloatArray, tuple[int, ...]]:
    """Return the sign of the law on each row and the factors that lend theirs.

    Bases under a fractional exponent enter by their absolute value; those whose sign
    the target follows are multiplied in once more.
    """
    candidates = [place for place, flag in enumerate(absolute) if flag][:3]
    best: tuple[float, FloatArray, tuple[int, ...]] | None = None
    for size in range(len(candidates) + 1):
        for chosen in itertools.combinations(candidates, size):
            signs = sign * _signs_of(factors, chosen) if chosen else sign
            match = float(np.sum(signs * target))
            if best is None or abs(match) > best[0] * (1.0 + 1e-9):
                direction = 1.0 if match >= 0 else -1.0
                best = (abs(match), direction * signs, tuple(chosen))
    assert best is not None
    return best[1], best[2]


def _scale_to(values: FloatArray, outer: ResolvedOuter) -> float:
    """Return the factor that fits values to the chain's target best, near 1."""
    weighted = values * outer.slope
    square = float(weighted @ weighted)
    factor = float(weighted @ (outer.values * outer.slope)) / square if square else 1.0
    return factor if 0.1 < factor < 10.0 else 1.0
