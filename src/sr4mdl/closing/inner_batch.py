"""One inner constant, many forms at once.

All forms t = a + b u(c p) [+ d q] with a function u of a short list, p among cheap
pool members and q none or a column are scanned over c and the best are refined
together, by Gauss-Newton steps on arrays of shape (K, n): a form is judged by its fit
after refinement, not by the grid point that happened to be near.

Shapes: K forms, n rows, m linear columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.closing.inner_functions import FUNCTIONS, InnerFunction
from sr4mdl.closing.pool import Pool
from sr4mdl.closing.problem import ResolvedOuter

N_REFINED: Final = 6
"""Forms refined for each function, target and q."""
N_STEPS: Final = 8
"""Gauss-Newton steps."""


@dataclass(frozen=True, slots=True)
class InnerForm:
    """A form after refinement."""

    target: int
    """Index of the target."""
    function: InnerFunction
    is_wave: bool
    """Whether sine and cosine enter together."""
    argument: int
    """Pool member p."""
    beside: int | None
    """Pool member q."""
    constant: float
    """The inner constant c."""
    error: float
    """Weighted sum of squares that is left."""


def scan_forms(
    pool: Pool,
    targets: Sequence[ResolvedOuter],
    size: float,
    arguments: Sequence[int],
    beside: Sequence[int | None],
) -> tuple[list[InnerForm], int]:
    """Return refined forms, best first, and how many grid points were scored.

    Parameters
    ----------
    pool : Pool
        Where p and q come from.
    targets : sequence of ResolvedOuter
        The targets t.
    size : float
        Root mean square of y, the unit of errors.
    arguments : sequence of int
        Pool members p.
    beside : sequence of int or None
        Pool members q; None for a form without.
    """
    forms: list[InnerForm] = []
    n_scored = 0
    for function in FUNCTIONS:
        if function.name == "cos":
            continue  # enters beside the sine
        grid = _Grid(pool, function, arguments[: function.n_arguments // 2])
        if not len(grid.constants):
            continue
        picked: list[tuple[int, int | None, int]] = []
        for number, outer in enumerate(targets):
            errors = grid.errors(pool, outer, size, beside)
            n_scored += errors.size
            for member, row in zip(beside, errors, strict=True):
                picked += [
                    (number, member, place) for place in grid.best(row, N_REFINED)
                ]
        if picked:
            forms += _refine(pool, targets, size, grid, picked)
    forms.sort(key=lambda form: form.error)
    return forms, n_scored


class _Grid:
    """Values of one function over arguments and constants."""

    def __init__(
        self, pool: Pool, function: InnerFunction, arguments: Sequence[int]
    ) -> None:
        self.function = function
        self.is_wave = function.name == "sin"
        blocks: list[FloatArray] = []
        second: list[FloatArray] = []
        constants: list[FloatArray] = []
        owners: list[int] = []
        cosine = next(one for one in FUNCTIONS if one.name == "cos")
        for argument in arguments:
            values = pool.values[argument]
            grid = function.grid(values)
            block = function.values(grid[:, None], values)
            largest = np.max(np.abs(block), axis=1)
            good = (largest < 1e60) & (np.ptp(block, axis=1) > 1e-6 * largest)
            blocks.append(block[good])
            constants.append(grid[good])
            owners += [argument] * int(np.sum(good))
            if self.is_wave:
                second.append(cosine.values(grid[good][:, None], values))
        empty = np.empty((0, pool.values.shape[1]))
        self.values = np.concatenate([empty, *blocks])
        self.second = np.concatenate([empty, *second]) if self.is_wave else None
        self.constants = np.concatenate([np.empty(0), *constants])
        self.owners: IntArray = np.array(owners, dtype=np.int64)

    def errors(
        self,
        pool: Pool,
        outer: ResolvedOuter,
        size: float,
        beside: Sequence[int | None],
    ) -> FloatArray:
        """Return the weighted squared errors of shape (n_beside, N)."""
        weights = outer.slope / size
        target = outer.values * weights
        rows = [weights]
        rows += [weights * pool.values[one] for one in beside if one is not None]
        known = np.array([*rows, target])
        blocks = [self.values * weights]
        if self.second is not None:
            blocks.append(self.second * weights)
        products = [block @ known.T for block in blocks]
        squares = [np.einsum("ij,ij->i", block, block) for block in blocks]
        cross = np.einsum("ij,ij->i", blocks[0], blocks[-1])
        gram = known @ known.T
        result = np.empty((len(beside), len(self.constants)))
        column = 0
        for number, one in enumerate(beside):
            column += one is not None
            forced = [0] if one is None else [0, column]
            # Inner products outside the forced columns, by their Schur complement.
            inverse = np.linalg.pinv(gram[np.ix_(forced, forced)], hermitian=True)
            seen = [product[:, forced] for product in products]
            aim = gram[forced, -1]
            total = gram[-1, -1] - aim @ inverse @ aim
            slopes = [
                product[:, -1] - part @ (inverse @ aim)
                for product, part in zip(products, seen, strict=True)
            ]
            left = [
                square - np.einsum("ij,jk,ik->i", part, inverse, part)
                for square, part in zip(squares, seen, strict=True)
            ]
            if self.second is None:
                gains = slopes[0] ** 2 / left[0]
            else:
                mixed = cross - np.einsum("ij,jk,ik->i", seen[0], inverse, seen[1])
                (a, b), (aa, bb) = slopes, left
                gains = a * a * bb - 2.0 * a * b * mixed + b * b * aa
                gains /= aa * bb - mixed * mixed
            result[number] = total - gains
        result[~np.isfinite(result)] = np.inf
        return result

    def best(self, errors: FloatArray, count: int) -> list[int]:
        """Return the best grid points of different arguments."""
        chosen: dict[int, int] = {}
        for place in np.argsort(errors, kind="stable"):
            if not np.isfinite(errors[place]) or len(chosen) >= count:
                break
            chosen.setdefault(int(self.owners[place]), int(place))
        return list(chosen.values())


def _refine(
    pool: Pool,
    targets: Sequence[ResolvedOuter],
    size: float,
    grid: _Grid,
    picked: Sequence[tuple[int, int | None, int]],
) -> list[InnerForm]:
    """Refine the inner constants of the picked grid points, all at once."""
    function = grid.function
    weights = np.array([targets[number].slope / size for number, _, _ in picked])
    target = np.array([targets[number].values for number, _, _ in picked]) * weights
    places = [place for _, _, place in picked]
    p = pool.values[grid.owners[places]]
    ones = np.ones(pool.values.shape[1])
    q = np.array([ones if one is None else pool.values[one] for _, one, _ in picked])
    # A form without q has the column of ones twice; the solver drops one of them.
    constants = grid.constants[places].copy()
    trial, step = constants.copy(), np.zeros(len(constants))
    best = np.full(len(constants), np.inf)
    for _ in range(N_STEPS):
        columns = _columns(function, grid.is_wave, trial, p, q, weights)
        solution = _solve(columns, target)
        residual = target - np.einsum("kmn,km->kn", columns, solution)
        error = np.einsum("kn,kn->k", residual, residual)
        better = error < best
        constants[better], best[better] = trial[better], error[better]
        slope = _slope(function, grid.is_wave, trial, p, weights, solution)
        both = _solve(np.concatenate([columns, slope[:, None]], axis=1), residual)
        with np.errstate(all="ignore"):
            step = np.where(better, both[:, -1], 0.3 * step)
        step[~np.isfinite(step)] = 0.0
        # Never more than the grid's own spacing, or it would leave its basin.
        limit = 0.7 * np.abs(constants) + 1e-12
        step = np.clip(step, -limit, limit)
        trial = constants + step
    return [
        InnerForm(
            number,
            function,
            grid.is_wave,
            int(grid.owners[place]),
            member,
            float(constants[row]),
            float(best[row]),
        )
        for row, (number, member, place) in enumerate(picked)
        if np.isfinite(best[row])
    ]


def _columns(
    function: InnerFunction,
    is_wave: bool,
    constants: FloatArray,
    p: FloatArray,
    q: FloatArray,
    weights: FloatArray,
) -> FloatArray:
    """Return the weighted linear columns, shape (K, m, n)."""
    rows = [weights, q * weights, function.values(constants[:, None], p) * weights]
    if is_wave:
        rows.append(np.cos(constants[:, None] * p) * weights)
    return np.stack(rows, axis=1)


def _slope(
    function: InnerFunction,
    is_wave: bool,
    constants: FloatArray,
    p: FloatArray,
    weights: FloatArray,
    solution: FloatArray,
) -> FloatArray:
    """Return the weighted derivative by the inner constant, shape (K, n)."""
    slope = solution[:, 2:3] * function.slope(constants[:, None], p)
    if is_wave:
        slope = slope - solution[:, 3:4] * p * np.sin(constants[:, None] * p)
    result: FloatArray = slope * weights
    return result


def _solve(columns: FloatArray, target: FloatArray) -> FloatArray:
    """Return least-squares coefficients (K, m); a touch of ridge keeps it regular."""
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.einsum("kmn,kmn->km", columns, columns))
        norms[~(norms > 0.0)] = 1.0
        unit = columns / norms[:, :, None]
        unit[~np.isfinite(unit)] = 0.0
        gram = np.einsum("kmn,kln->kml", unit, unit)
        right = np.einsum("kmn,kn->km", unit, target)
        gram += 1e-13 * np.eye(gram.shape[1])
        solution = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
        result: FloatArray = solution / norms
    return result
