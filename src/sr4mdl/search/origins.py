"""Standardised tables, counted from where their columns begin.

Whoever standardises a table takes away its zeros: the law ``x*y`` becomes
``(u + 1.7)*(v + 1.8)``, in which a search from bare columns has to find every shift
first. Most quantities begin at zero, so a standardised column is also read as counted
from its least value. The formulas of both readings compete; fitting moves the shifts to
where they belong.
"""

import math
from statistics import NormalDist
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray

MIN_ROWS: Final = 20
"""Rows below which any table may look standardised."""
MIN_SHARE: Final = 0.5
"""Share of the columns that must be standardised for the table to be so."""
_DEVIATIONS: Final = 4.0
"""Standard errors that mean and spread may be off, since rows may have been left out
after standardising."""
_SOONER: Final = 0.9
"""Share of the least normal value at which a column must have ended."""
_DIGITS: Final = 2


def is_standardised(values: FloatArray) -> bool:
    """Return whether values have mean 0 and spread 1, but for rows left out since.

    Examples
    --------
    >>> is_standardised(np.linspace(-3.0**0.5, 3.0**0.5, 100))
    True
    >>> is_standardised(np.linspace(0.0, 1.0, 100))
    False
    """
    n_rows = len(values)
    if n_rows < MIN_ROWS or len(np.unique(values)) <= 2:
        return False
    error = _DEVIATIONS / math.sqrt(n_rows)
    mean, spread = float(np.mean(values)), float(np.std(values))
    return abs(mean) <= error and abs(spread - 1.0) <= error


def shift_to_zero(values: FloatArray) -> float:
    """Return what to add so that values begin just above zero, in few digits.

    The least of n values lies about a range over n above where the quantity begins.

    Examples
    --------
    >>> shift_to_zero(np.linspace(-1.7, 1.7, 100))
    1.74
    """
    least, spread = float(np.min(values)), float(np.ptp(values))
    step = 10.0**-_DIGITS
    return round(math.ceil((spread / len(values) - least) / step) * step, _DIGITS)


def begins(values: FloatArray) -> bool:
    """Return whether standardised values end below sooner than normal ones would.

    What is normally distributed begins nowhere.
    """
    n_rows = len(values)
    # Blom's approximation of the least of n normal values.
    least = NormalDist().inv_cdf(0.625 / (n_rows + 0.25))
    return float(np.min(values)) > _SOONER * least


def columns_with_origin(X: FloatArray) -> list[int]:
    """Return the standardised columns that begin somewhere.

    None if less than half of the table is standardised.
    """
    found = [place for place in range(X.shape[1]) if is_standardised(X[:, place])]
    if len(found) < MIN_SHARE * X.shape[1]:
        return []
    return [place for place in found if begins(X[:, place])]
