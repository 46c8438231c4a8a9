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

from sr4mdl._typing import FloatArray

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
MAX_NOISE_SHARE: Final = 0.5
"""Largest share of the variance that may be noise: else nothing is seen."""
MIN_STEADINESS: Final = 0.9
"""Error on all rows over that on a third of them: 1 for noise, less for structure
that more rows would resolve."""
MAX_FREEDOM: Final = 0.88
"""Share of the centres in use above which there is more structure than they show."""
_STRETCHES: Final = (0.6, 1.0, 1.6)
_JITTER: Final = 1e-8


@dataclass(frozen=True, slots=True)
class Smoothed:
    """A target without most of its noise."""

    values: FloatArray
    """The smoothed target at the rows asked for, shape (n_asked,)."""
    noise: float
    """Standard deviation of the noise, in units of the target."""
    error: float
    """About the standard deviation of what noise is left in ``values``."""


def smooth_target(
    X: FloatArray, y: FloatArray, asked: FloatArray, rng: np.random.Generator
) -> Smoothed | None:
    """Return the target at some rows without most of its noise.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        The table.
    y : ndarray of shape (n_rows,)
        The noisy target.
    asked : ndarray of shape (n_asked, n_columns)
        Where the smoothed target is wanted.
    rng : numpy.random.Generator
        Draws centres and tuning rows.

    Returns
    -------
    Smoothed or None
        None where smoothing would not help: few rows, no noise to speak of, or
        nothing but noise.
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
    level = math.sqrt(float(np.mean(np.square(y))))
    if (
        best.noise * size < MIN_NOISE * level
        or best.noise**2 > MAX_NOISE_SHARE
        or best.noise < MIN_STEADINESS * before.noise
        or best.freedom > MAX_FREEDOM * len(best.centres)
    ):
        return None
    values = best.predict((asked[:, used] - middle) / width)
    return Smoothed(
        centre + size * values,
        best.noise * size,
        best.noise * size * math.sqrt(best.freedom / len(order)),
    )


class _Process:
    """A Gaussian process on a few centres, its noise chosen by cross-validation."""

    def __init__(
        self, rows: FloatArray, target: FloatArray, lengths: FloatArray
    ) -> None:
        self.lengths = lengths
        self.centres = rows[:N_CENTRES]
        n_rows = len(rows)
        among = _kernel(self.centres, self.centres, lengths)
        among[np.diag_indices_from(among)] += _JITTER
        self.lower = cholesky(among, lower=True, check_finite=False)
        basis = self._basis(rows)
        values, vectors = eigh(basis @ basis.T, check_finite=False)
        values = np.maximum(values, 0.0)
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
                self.weights = vectors @ weights
                self.freedom = freedom
                self.noise = math.sqrt(left / (n_rows - freedom))
        self.score = best

    def _basis(self, rows: FloatArray) -> FloatArray:
        result: FloatArray = solve_triangular(
            self.lower,
            _kernel(self.centres, rows, self.lengths),
            lower=True,
            check_finite=False,
        )
        return result

    def predict(self, rows: FloatArray) -> FloatArray:
        result: FloatArray = self.weights @ self._basis(rows)
        return result


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
