"""Polynomials and their quotients: all terms first, then the idle ones dropped."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing.drafts import (
    EXACT,
    Draft,
    draft_quotient,
    draft_sum,
)
from sr4mdl.closing.monomials import polynomial_exponents
from sr4mdl.closing.pool import Pool
from sr4mdl.closing.problem import ResolvedOuter
from sr4mdl.closing.workbench import (
    Workbench,
    transformed,
)

MAX_TERMS: Final = 8
"""Most terms of a polynomial that is not exact."""
MAX_RATIONAL: Final = 64
"""Most terms, above and below, of a quotient of two polynomials."""
MAX_DEGREE: Final = 8
"""Highest power of a column in it."""
FEW_ROWS: Final = 64
"""Rows below which polynomials of half as many terms as rows are tried."""


def close_polynomials(bench: Workbench) -> None:
    """Draft polynomials and quotients of them by fitting all terms, then dropping.

    Where sums of several terms hide each other from a greedy pursuit, the fit of all
    monomials up to some degree still shows which coefficients are 0.
    """
    n_rows = len(bench.outer.values)
    members = _polynomial_members(bench.pool, n_rows // 4)
    names = ("square", "inv", "log") if bench.settings.n_denominators else ()
    if len(members) > 1:
        for outer in transformed(bench.outer, names):
            for draft in _polynomials(bench, outer, members):
                bench.add(draft)
    if n_rows < FEW_ROWS:
        most = _polynomial_members(bench.pool, n_rows // 2)
        for draft in _polynomials(bench, bench.outer, most):
            _add_if_exact(bench, draft)
    if not bench.settings.n_denominators or len(members) < 2:
        return
    for denominator in members[:12]:
        for draft in _quotients(bench, members, denominator):
            bench.add(draft)
        if bench.late:
            return
    if not bench.exact:
        _close_rational(bench)


def _polynomials(
    bench: Workbench, outer: ResolvedOuter, members: Sequence[int]
) -> list[Draft | None]:
    terms = bench.pool.values[list(members)]
    return [
        draft_sum("polynomial", outer, bench.pool, _of(members, subset), bench.scale)
        for subset in _eliminate(bench, outer, terms)
    ]


def _quotients(
    bench: Workbench, members: Sequence[int], denominator: int
) -> list[Draft | None]:
    outer, pool = bench.outer, bench.pool
    below = pool.values[denominator]
    forced = outer.values * (below - below.mean())
    return [
        draft_quotient(outer, pool, (denominator,), _of(members, subset), bench.scale)
        for subset in _eliminate(bench, outer, pool.values[list(members)], forced)
    ]


def _close_rational(bench: Workbench) -> None:
    """Draft exact quotients of two polynomials in few columns, of the lowest degree.

    ``y*(1 + c1*q1 + ...) = a + b1*p1 + ...`` is linear in all constants. With so many
    terms only an exact fit means anything, and only the lowest degree has one solution.
    """
    n_most = min(2 * len(bench.outer.values) // 3, MAX_RATIONAL)
    for members in _rational_members(bench.pool):
        if bench.late:
            return
        if 2 * len(members) <= n_most and _close_exact_quotient(bench, members):
            return


def _rational_members(pool: Pool) -> Iterator[list[int]]:
    """Yield monomials by the highest power of a column, first without products."""
    where = _monomials(pool)
    columns = range(len(pool.columns))
    for degree in range(1, MAX_DEGREE + 1):
        powers = [float(power) for power in range(1, degree + 1)]
        alone = [((column, power),) for column in columns for power in powers]
        yield [where[key] for key in alone if key in where]
        if 2 * ((degree + 1) ** len(columns) - 1) <= MAX_RATIONAL:
            exponents = itertools.product([0.0, *powers], repeat=len(columns))
            keys = [tuple((c, p) for c, p in enumerate(one) if p) for one in exponents]
            yield [where[key] for key in keys if key in where]


def _close_exact_quotient(bench: Workbench, members: Sequence[int]) -> bool:
    """Draft the quotient of sums of members that is exact; return if there is one."""
    outer, pool = bench.outer, bench.pool
    values = pool.values[list(members)]
    terms = np.concatenate([values, outer.values * values])
    found = False
    for subset in _eliminate(bench, outer, terms, exact_only=True):
        above = [place for place in subset if place < len(members)]
        below = [place - len(members) for place in subset if place >= len(members)]
        draft = draft_quotient(
            outer, pool, _of(members, below), _of(members, above), bench.scale
        )
        found = _add_if_exact(bench, draft) or found
    return found


def _of(members: Sequence[int], places: Sequence[int]) -> tuple[int, ...]:
    return tuple(members[place] for place in places)


def _add_if_exact(bench: Workbench, draft: Draft | None) -> bool:
    """Keep a draft of many terms: they fit nearly anything, but not to round-off."""
    if draft is None or draft.rmse > EXACT * bench.scale.size:
        return False
    bench.add(draft)
    return True


def _monomials(pool: Pool) -> dict[tuple[tuple[int, float], ...], int]:
    """Return the pool's monomials by their exponents."""
    where: dict[tuple[tuple[int, float], ...], int] = {}
    for member, recipe in enumerate(pool.recipes):
        if recipe[0] == "column":
            where[((recipe[1], 1.0),)] = member
        elif recipe[0] == "monomial":
            where[recipe[1]] = member
    return where


def _polynomial_members(pool: Pool, count: int) -> list[int]:
    """Return the monomials of all degrees up to the highest that the rows allow."""
    where = _monomials(pool)
    exponents = polynomial_exponents(len(pool.columns), min(count, 45))
    return [where[one] for one in exponents if one in where]


def _eliminate(
    bench: Workbench,
    outer: ResolvedOuter,
    terms: FloatArray,
    forced: FloatArray | None = None,
    *,
    exact_only: bool = False,
) -> list[tuple[int, ...]]:
    """Return the sets of terms (k, n) met while the least significant ones are dropped.

    A constant and ``forced`` are always in the fit. With ``exact_only`` it ends as soon
    as a fit is not exact.
    """
    always = [np.ones_like(outer.values)]
    if forced is not None:
        always.append(forced)
    left = list(range(len(terms)))
    sets: list[tuple[int, ...]] = []
    weights = outer.slope / bench.scale.size
    target = outer.values * weights
    best = math.inf
    while left:
        rows = np.array([*always, *terms[left]]) * weights
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not np.all(np.isfinite(norms)) or np.any(norms == 0.0):
            break
        unit = rows / norms[:, None]
        basis, upper = np.linalg.qr(unit.T)
        diagonal = np.abs(np.diag(upper))
        if diagonal.min() < 1e-11 * diagonal.max():
            break
        inverse = np.linalg.inv(upper)
        solution = inverse @ (basis.T @ target)
        residual = target - solution @ unit
        error = float(residual @ residual)
        bench.n_examined += 1
        # Below the floor every coefficient looks significant: it is round-off.
        noise = math.sqrt(error / len(target)) + EXACT
        scores = np.abs(solution) / np.sqrt(np.sum(np.square(inverse), axis=1))
        scores = scores[len(always) :] / noise
        weak = scores < 1.0
        exact = math.sqrt(error / len(target)) < EXACT
        if exact_only and not exact:
            break
        if not np.any(weak):
            bits = 12.0 * len(left) + 0.5 * bench.scale.n_rows * math.log2(noise**2)
            if bits < best + 20.0 and (exact or len(left) <= MAX_TERMS):
                sets.append(tuple(left))
            best = min(best, bits)
            weak = scores == scores.min()
        left = [place for place, drop in zip(left, weak, strict=True) if not drop]
    return sets[-8:]
