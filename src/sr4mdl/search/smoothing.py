"""A noisy target, smoothed: what neighbouring rows agree on.

Noise blinds whoever looks at few rows: the guide, which sees some dozens, and the
families of closing, which screen thousands of forms on a few hundred and take logs
and roots that noise pushes out of their domains. All rows together know the target
far better. A Gaussian process (one length per column, few centres, all rows) says how
large the noise is and what the target is without most of it. Formulas are still
compared on the target as given: smoothing decides only where to look.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh, solve_triangular
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from sr4mdl._typing import BoolArray, FloatArray, IntArray

MIN_ROWS: Final = 100
"""Rows below which neighbours know too little of each other."""
MAX_ROWS: Final = 8000
"""Rows that are smoothed together."""
N_CENTRES: Final = 400
"""Centres of the process."""
N_TUNING: Final = 200
"""Rows on which the lengths are found."""
MAX_COLUMNS: Final = 12
"""Columns above which rows have no neighbours."""
MIN_NOISE: Final = 0.003
"""Noise, relative to the target's root mean square, that is worth smoothing."""
LEAST_NOISE: Final = 3e-4
"""Noise, on the same scale, that can be told from what the process misses."""
LARGEST_EXCESS: Final = 1.05
"""Residuals over noise above which they need not be smoothed to show structure."""
MAX_DEVIATIONS: Final = 2.5
"""Standard deviations by which smoothed noise may exceed its mean."""
MAX_NOISE_SHARE: Final = 0.5
"""Largest share of the variance that may be noise: else nothing is seen."""
MIN_STEADINESS: Final = 0.9
"""Error on all rows over that on a third of them: 1 for noise, less for structure
that more rows would resolve."""
MAX_FREEDOM: Final = 0.88
"""Share of the centres in use above which there is more structure than they show."""
MAX_CLUSTERING: Final = 0.2
"""Rank correlation of the sizes of neighbouring residuals above which they are
structure that the process misses: noise is of one size everywhere, what a spike or a
fast wave leaves is large where it is steep."""
SURE_CLUSTERING: Final = 3.0
"""The same in standard deviations, which counts where rows are few."""
_STRETCHES: Final = (0.6, 1.0, 1.6)
_JITTER: Final = 1e-8


class Smoother:
    """What neighbouring rows of a table agree on; made by :func:`find_smoother`.

    Attributes
    ----------
    noise : float
        Standard deviation of the noise, in units of the target.
    error : float
        About the standard deviation of what noise is left after smoothing.
    useful : bool
        Whether the noise is large enough for smoothing to help.
    """

    def __init__(self, table: "_Table", process: "_Process") -> None:
        self._table = table
        self._process = process
        n_rows = len(table.order)
        self.noise = process.noise * table.size
        self.error = self.noise * math.sqrt(process.freedom / n_rows)
        self.useful = self.noise >= MIN_NOISE * table.level

    def smooth(self, X: FloatArray) -> FloatArray:
        """Return the target at some rows without most of its noise."""
        table = self._table
        values = self._process.predict(table.scaled(X))
        result: FloatArray = table.centre + table.size * values
        return result

    def sees_structure(self, residuals: FloatArray) -> bool:
        """Return whether neighbouring rows have similar residuals.

        Parameters
        ----------
        residuals : ndarray of shape (n_rows,)
            What a formula leaves of the target, on all rows of the table.

        Notes
        -----
        Smoothing keeps a share of the squares of pure noise that is known: its mean
        is the trace of the squared smoothing matrix, its variance twice that of the
        fourth power. More than that is structure.
        """
        left = residuals[self._table.order]
        square = float(np.mean(np.square(left)))
        if square == 0.0:
            return False
        if square > (LARGEST_EXCESS * self.noise) ** 2:
            return True
        return (
            self._process.excess(self._table.rows, left / math.sqrt(square))
            > MAX_DEVIATIONS
        )


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows that are smoothed, on a scale of their own."""

    order: IntArray
    used: BoolArray
    middle: FloatArray
    width: FloatArray
    rows: FloatArray
    centre: float
    size: float
    level: float

    def scaled(self, X: FloatArray) -> FloatArray:
        result: FloatArray = (X[:, self.used] - self.middle) / self.width
        return result


def find_smoother(
    X: FloatArray, y: FloatArray, rng: np.random.Generator
) -> Smoother | None:
    """Return what smooths a noisy target.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        The table.
    y : ndarray of shape (n_rows,)
        The noisy target.
    rng : numpy.random.Generator
        Draws centres and tuning rows.

    Returns
    -------
    Smoother or None
        None where noise cannot be told from structure: few rows or many columns, no
        noise, nothing but noise, or residuals that are large in some places only.
    """
    spread = np.std(X, axis=0)
    used = spread > 0.0
    if len(y) < MIN_ROWS or not 0 < np.count_nonzero(used) <= MAX_COLUMNS:
        return None
    order = rng.permutation(len(y))[:MAX_ROWS]
    middle, width = X[:, used].mean(axis=0), spread[used]
    rows = (X[order][:, used] - middle) / width
    centre, size = float(np.mean(y[order])), float(np.std(y[order]))
    if not (math.isfinite(size) and size > 0.0 and np.all(np.isfinite(rows))):
        return None
    level = math.hypot(centre, size)
    table = _Table(order, used, middle, width, rows, centre, size, level)
    target = (y[order] - centre) / size
    lengths = _find_lengths(rows[:N_TUNING], target[:N_TUNING])
    third = len(order) // 3
    try:
        before = min(
            (
                _Process(rows[:third], target[:third], lengths * stretch)
                for stretch in _STRETCHES
            ),
            key=lambda one: one.score,
        )
        best = _Process(rows, target, before.lengths)
    except np.linalg.LinAlgError:
        return None
    if (
        best.noise * size < LEAST_NOISE * level
        or best.noise**2 > MAX_NOISE_SHARE
        or best.noise < MIN_STEADINESS * before.noise
        or best.freedom > MAX_FREEDOM * len(best.centres)
    ):
        return None
    limit = max(MAX_CLUSTERING, SURE_CLUSTERING / math.sqrt(len(order)))
    if clustering(rows / best.lengths, target - best.fitted) > limit:
        return None
    return Smoother(table, best)


def clustering(rows: FloatArray, residuals: FloatArray) -> float:
    """Return the rank correlation of residuals' sizes with those of nearest rows.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        On the scale on which they are near.
    residuals : ndarray of shape (n_rows,)
        At least two.

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> round(clustering(rows, np.array([1.0, -2.0, 8.0, -9.0])), 3)
    0.6
    """
    _, nearest = cKDTree(rows).query(rows, k=2)
    # Of equal rows, either may come first.
    own = nearest[:, 0] == np.arange(len(rows))
    ranks = np.argsort(np.argsort(np.abs(residuals)))
    matrix = np.corrcoef(ranks, ranks[np.where(own, nearest[:, 1], nearest[:, 0])])
    return float(matrix[0, 1])


class _Process:
    """A Gaussian process on a few centres, its noise chosen by cross-validation."""

    def __init__(
        self, rows: FloatArray, target: FloatArray, lengths: FloatArray
    ) -> None:
        self.lengths = lengths
        self.centres = rows[:N_CENTRES]
        n_rows = len(rows)
        self.bumps = Bumps(self.centres, lengths)
        basis = self.bumps.at(rows)
        values, vectors = eigh(basis @ basis.T, check_finite=False)
        values = np.maximum(values, 0.0)
        self.values, self.vectors = values, vectors
        turned = vectors.T @ (basis @ target)
        total = float(target @ target)
        # Generalised cross-validation over the strength of smoothing.
        best = math.inf
        for strength in np.geomspace(1e-6, 1e3, 37):
            shrunk = values / (values + strength)
            freedom = float(np.sum(shrunk))
            if freedom > 0.8 * n_rows:
                continue
            weights = turned / (values + strength)
            left = total - 2.0 * float(turned @ weights)
            left = max(left + float(values @ np.square(weights)), 0.0)
            score = left / n_rows / (1.0 - freedom / n_rows) ** 2
            if score < best:
                best = score
                self.strength = float(strength)
                self.weights = vectors @ weights
                self.freedom = freedom
                self.noise = math.sqrt(left / (n_rows - freedom))
        self.score = best
        self.fitted = self.weights @ basis

    def predict(self, rows: FloatArray) -> FloatArray:
        result: FloatArray = self.weights @ self.bumps.at(rows)
        return result

    def excess(self, rows: FloatArray, residuals: FloatArray) -> float:
        """Return how far smoothed residuals of variance 1 exceed smoothed noise.

        In standard deviations; the rows are those the process was made from.
        """
        turned = self.vectors.T @ (self.bumps.at(rows) @ residuals)
        kept = float(
            np.sum(self.values * np.square(turned / (self.values + self.strength)))
        )
        squares = np.square(self.values / (self.values + self.strength))
        return excess_over_noise(kept, squares)


class Bumps:
    """Gaussian bumps round some rows, made uncorrelated among these.

    Parameters
    ----------
    centres : ndarray of shape (n_centres, n_columns)
        The rows.
    lengths : ndarray of shape (n_columns,)
        Width of the bumps in each column.
    """

    def __init__(self, centres: FloatArray, lengths: FloatArray) -> None:
        self._centres = centres
        self._lengths = lengths
        among = _kernel(centres, centres, lengths)
        among[np.diag_indices_from(among)] += _JITTER
        self._lower = cholesky(among, lower=True, check_finite=False)

    def at(self, rows: FloatArray) -> FloatArray:
        """Return the bumps' values (n_centres, n_rows)."""
        result: FloatArray = solve_triangular(
            self._lower,
            _kernel(self._centres, rows, self._lengths),
            lower=True,
            check_finite=False,
        )
        return result


def excess_over_noise(kept: float, shares: FloatArray) -> float:
    """Return how far what is kept exceeds what is kept of noise of variance 1.

    In standard deviations; ``shares`` are the parts of the squares of noise that are
    kept, one of each uncorrelated direction.
    """
    deviation = math.sqrt(2.0 * float(np.sum(np.square(shares))))
    return (kept - float(np.sum(shares))) / deviation


def _kernel(first: FloatArray, second: FloatArray, lengths: FloatArray) -> FloatArray:
    one, other = first / lengths, second / lengths
    squares = np.sum(one * one, axis=1)[:, None] + np.sum(other * other, axis=1)
    squares -= 2.0 * one @ other.T
    np.maximum(squares, 0.0, out=squares)
    squares *= -0.5
    result: FloatArray = np.exp(squares, out=squares)
    return result


def _find_lengths(rows: FloatArray, target: FloatArray) -> FloatArray:
    """Return the length of each column that makes the target most likely."""
    n_rows, n_columns = rows.shape
    differences = [np.square(np.subtract.outer(c, c)) for c in rows.T]

    def loss(logs: FloatArray) -> tuple[float, FloatArray]:
        inverse_squares = np.exp(-2.0 * logs[:n_columns])
        size, noise = math.exp(2.0 * logs[-2]), math.exp(2.0 * logs[-1])
        distance = sum(
            weight * square
            for weight, square in zip(inverse_squares, differences, strict=True)
        )
        kernel = size * np.exp(-0.5 * np.asarray(distance))
        matrix = kernel.copy()
        matrix[np.diag_indices_from(matrix)] += noise + _JITTER * size
        factor = cho_factor(matrix, lower=True, check_finite=False)
        solved = cho_solve(factor, target, check_finite=False)
        inverse = cho_solve(factor, np.eye(n_rows), check_finite=False)
        inner = inverse - np.outer(solved, solved)
        value = 0.5 * float(target @ solved)
        value += float(np.sum(np.log(np.diag(factor[0]))))
        gradient = np.empty_like(logs)
        product = inner * kernel
        for place, (weight, square) in enumerate(
            zip(inverse_squares, differences, strict=True)
        ):
            gradient[place] = 0.5 * weight * float(np.sum(product * square))
        gradient[-2] = float(np.sum(product)) + _JITTER * size * float(np.trace(inner))
        gradient[-1] = noise * float(np.trace(inner))
        return value, gradient

    start = np.array([math.log(2.0)] * n_columns + [math.log(2.0), math.log(0.1)])
    bounds = [(-3.0, 4.0)] * n_columns + [(-2.0, 4.0), (-9.0, 1.0)]
    try:
        found = minimize(
            loss,
            start,
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"maxiter": 40},
        )
    except np.linalg.LinAlgError:
        return np.full(n_columns, 2.0)
    result: FloatArray = np.exp(found.x[:n_columns])
    return result
