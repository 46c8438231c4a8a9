"""A test whether residuals are noise that needs to know nothing about the noise.

Where the target is too intricate to be smoothed, its noise cannot be told beforehand.
What a formula leaves of it can still be tested: pure noise has no structure at all, and
the residuals of a wrong formula have nearly always some that a few smooth functions of
the columns see.
"""

import math
from typing import Final, Literal

import numpy as np
from scipy.linalg import LinAlgError, eigh

from sr4mdl._typing import FloatArray
from sr4mdl.search.rows import rows_that_count
from sr4mdl.search.smoothing import Bumps, excess_over_noise
from sr4mdl.selection.bits import root_mean_square

MIN_ROWS: Final = 200
"""Rows below which too little would be seen."""
MAX_ROWS: Final = 4000
"""Rows that are looked at."""
MIN_ROWS_THAT_COUNT: Final = 30.0
"""Rows that must share the target's variance: squares show nothing beside few large
ones."""
N_CENTRES: Final = 300
"""Functions that residuals are compared with."""
N_EASY: Final = 100
"""How many of the functions count in full, smoothest first."""
MIN_VISIBLE: Final = 0.5
"""Share of the target's variance that the functions must see to be trusted."""
MAX_DEVIATIONS: Final = 3.0
"""Standard deviations by which what they see of noise may exceed its mean."""
SURE_DEVIATIONS: Final = 5.0
"""Standard deviations above which residuals are called structure: noise hardly ever
gets there."""


class ResidualProbe:
    """Smooth functions of a table's columns, to compare residuals with.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        The table.

    Notes
    -----
    Gaussian bumps round some rows, as wide as the table in every column and the wider,
    the more columns there are; turned so that they are uncorrelated, and shrunk the
    more, the less of the rows' variation they carry.
    """

    def __init__(self, X: FloatArray) -> None:
        # Tables are often sorted; a draw of its own leaves the search's alone.
        self._order = np.random.default_rng(0).permutation(len(X))[:MAX_ROWS]
        rows = X[self._order][:, X.std(axis=0) > 0.0]
        scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        n_columns = scaled.shape[1]
        width = np.full(n_columns, math.sqrt(n_columns))
        basis = Bumps(scaled[:N_CENTRES], width).at(scaled)
        basis -= basis.mean(axis=1, keepdims=True)
        values, vectors = eigh(basis @ basis.T, check_finite=False)
        self._turned = vectors.T @ basis
        values = np.maximum(values, 0.0)
        least = values[max(0, len(values) - 1 - N_EASY)]
        shrink = values + max(float(least), 1e-6 * float(values[-1]))
        self._weights = values / np.square(shrink)
        self._kept_of_noise = np.square(values / shrink)

    def _kept(self, values: FloatArray) -> tuple[float, int]:
        """Return the squares kept of values brought to variance 1, and their number."""
        part = values[self._order]
        part = part - part.mean()
        size = root_mean_square(part)
        if size == 0.0:
            return 0.0, len(part)
        kept = float(self._weights @ np.square(self._turned @ (part / size)))
        return kept, len(part)

    def visible(self, values: FloatArray) -> float:
        """Return the share of the variance of values (n_rows,) that is seen."""
        kept, n_rows = self._kept(values)
        return kept / n_rows

    def excess(self, residuals: FloatArray) -> float:
        """Return by how much more is seen of residuals (n_rows,) than of pure noise.

        In standard deviations of what is seen of noise.
        """
        kept, _ = self._kept(residuals)
        return excess_over_noise(kept, self._kept_of_noise)

    def sees_structure(self, residuals: FloatArray) -> bool:
        """Return whether residuals (n_rows,) are more than noise."""
        return self.excess(residuals) > MAX_DEVIATIONS


def make_probe(X: FloatArray, y: FloatArray) -> ResidualProbe | None:
    """Return a probe for residuals of y; None where it could not be trusted."""
    probe = _try_probe(X)
    return probe if probe is not None and probe.visible(y) >= MIN_VISIBLE else None


def judge_residuals(
    X: FloatArray, y: FloatArray, residuals: FloatArray
) -> Literal["noise", "structure", "unknown"]:
    """Say what residuals (n_rows,) of a target y (n_rows,) are.

    Structure is said where there is clearly more of it than noise has, noise only
    where the probe would have seen what a wrong formula leaves.
    """
    probe = _try_probe(X)
    if probe is None or rows_that_count(y) < MIN_ROWS_THAT_COUNT:
        return "unknown"
    excess = probe.excess(residuals)
    if excess > SURE_DEVIATIONS:
        return "structure"
    if excess <= MAX_DEVIATIONS and probe.visible(y) >= MIN_VISIBLE:
        return "noise"
    return "unknown"


def _try_probe(X: FloatArray) -> ResidualProbe | None:
    spread = X.std(axis=0)
    if len(X) < MIN_ROWS or not np.any(spread > 0.0) or not np.all(np.isfinite(spread)):
        return None
    try:
        return ResidualProbe(X)
    except LinAlgError:
        return None
