"""Polynomials and their quotients: all terms first, then the idle ones dropped."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from sr4mdl.closing.drafts import (
    EXACT,
    Draft,
    draft_quotient,
    draft_sum,
)
from sr4mdl.closing.pool import Pool, polynomial_exponents
from sr4mdl.closing.problem import ResolvedOuter
from sr4mdl.closing.workbench import (
    Workbench,
    transformed,
)

MAX_TERMS: Final = 8
"""Most terms of a polynomial that is not exact."""
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
        for draft in _polynomials(
            bench, bench.outer, _polynomial_members(bench.pool, n_rows // 2)
        ):
            # So many terms fit nearly anything, but not to round-off.
            if draft is not None and draft.rmse <= EXACT * bench.scale.size:
                bench.add(draft)
    if not bench.settings.n_denominators or len(members) < 2:
        return
    for denominator in members[:12]:
        for subset in _eliminate(bench, bench.outer, members, denominator):
            bench.add(
                draft_quotient(
                    bench.outer, bench.pool, denominator, subset, bench.scale
                )
            )
        if bench.late:
            break


def _polynomials(
    bench: Workbench, outer: ResolvedOuter, members: Sequence[int]
) -> list[Draft | None]:
    return [
        draft_sum("polynomial", outer, bench.pool, subset, bench.scale)
        for subset in _eliminate(bench, outer, members, None)
    ]


def _polynomial_members(pool: Pool, count: int) -> list[int]:
    """Return the monomials of all degrees up to the highest that the rows allow."""
    where: dict[tuple[tuple[int, float], ...], int] = {}
    for member, recipe in enumerate(pool.recipes):
        if recipe[0] == "column":
            where[((recipe[1], 1.0),)] = member
        elif recipe[0] == "monomial":
            where[recipe[1]] = member
    exponents = polynomial_exponents(len(pool.columns), min(count, 45))
    return [where[one] for one in exponents if one in where]


def _eliminate(
    bench: Workbench,
    outer: ResolvedOuter,
    members: Sequence[int],
    denominator: int | None,
) -> list[tuple[int, ...]]:
    """Return the sets of members met while the least significant ones are dropped."""
    pool = bench.pool
    forced = [np.ones_like(outer.values)]
    if denominator is not None:
        below = pool.values[denominator]
        forced.append(outer.values * (below - below.mean()))
    left = list(members)
    sets: list[tuple[int, ...]] = []
    weights = outer.slope / bench.scale.size
    target = outer.values * weights
    best = math.inf
    while left:
        rows = np.array([*forced, *(pool.values[member] for member in left)]) * weights
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
        scores = scores[len(forced) :] / noise
        weak = scores < 1.0
        exact = math.sqrt(error / len(target)) < EXACT
        if not np.any(weak):
            bits = 12.0 * len(left) + 0.5 * bench.scale.n_rows * math.log2(noise**2)
            if bits < best + 20.0 and (exact or len(left) <= MAX_TERMS):
                sets.append(tuple(left))
            best = min(best, bits)
            weak = scores == scores.min()
        left = [member for member, drop in zip(left, weak, strict=True) if not drop]
    return sets[-8:]
