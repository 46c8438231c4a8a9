"""Sample weights as rows: the search has no weights, so rows stand for them."""

from typing import Any, Final

import numpy as np

from sr4mdl._typing import FloatArray, IntArray

MAX_GROWTH: Final = 10
"""Whole weights may repeat rows up to so many times their number."""
MIN_GROWN_ROWS: Final = 10_000
"""A table of up to so many rows may always be made by repeating."""


def rows_of_weights(weights: Any, n_rows: int, rng: np.random.Generator) -> IntArray:
    """Return the rows that stand for the weights, each as often as it counts.

    Whole weights, divided by what divides them all, repeat rows exactly; 0 leaves a row
    out. Others are made whole by systematic resampling to the number of rows there are:
    a row of weight w appears ``w / mean(w)`` times, rounded up or down at random so
    that this holds on average.

    Parameters
    ----------
    weights : array-like of shape (n_rows,)
        0 or more, finite, not all 0.
    n_rows : int
        Rows of the table.
    rng : numpy.random.Generator
        For the rounding.
    """
    values: FloatArray = np.asarray(weights, dtype=np.float64)
    if values.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have shape ({n_rows},), got {values.shape}"
        )
    if not np.all(np.isfinite(values)) or np.any(values < 0.0):
        raise ValueError("sample_weight must be finite and 0 or more")
    total = float(values.sum())
    if total == 0.0:
        raise ValueError("sample_weight must not be 0 for every row")
    whole = bool(np.all(values == np.floor(values)))
    if whole and total < 2.0**53:
        # Ten for every row says no more than one for every row.
        values = values / np.gcd.reduce(values.astype(np.int64))
        total = float(values.sum())
    if whole and total <= max(MAX_GROWTH * n_rows, MIN_GROWN_ROWS):
        return np.repeat(np.arange(n_rows), values.astype(np.int64))
    ends = np.cumsum(values) * (n_rows / total)
    ticks = np.arange(n_rows) + rng.uniform()
    rows = np.searchsorted(ends, ticks, side="right")
    # The last end may fall short of the last tick by round-off.
    last = int(np.flatnonzero(values)[-1])
    return np.asarray(np.minimum(rows, last))
