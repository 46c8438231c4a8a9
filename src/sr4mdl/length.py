"""How long the law behind a table is, told from its numbers before any search.

The paper's MDLformer as a function: the network that guides the search says how many
symbols (operators, variables and constants) the shortest formula has, and how sure it
is. It reads several draws of rows and takes the mean of what it says. Nothing is
searched here; finding the formula is the regressor's part.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sr4mdl.data import Dataset
from sr4mdl.errors import DataError
from sr4mdl.mdlformer.guide import Guide, OnnxGuide
from sr4mdl.moves import MAX_COLUMNS

MOST_ROWS: Final = 200
"""Rows of a draw; more tell hardly more and take longer."""
N_DRAWS: Final = 8
"""Draws of rows, where the table has more than one draw takes."""
FEWEST_ROWS: Final = 2
"""A single row fits every formula."""


@dataclass(frozen=True, slots=True)
class LengthEstimate:
    """How many symbols the shortest formula of a table has, as a network sees it."""

    symbols: float
    """Expected number of operators, variables and constants."""
    spread: float
    """Standard deviation of that number, as the network states it."""
    n_rows: int
    """Rows it has seen, over all draws."""
    n_columns: int
    """Columns it has seen."""

    def __str__(self) -> str:
        return f"{self.symbols:.1f} +- {self.spread:.1f} symbols"


def estimate_length(
    X: Any, y: Any, *, random_state: int = 0, guide: Guide | None = None
) -> LengthEstimate:
    """Estimate the length of the shortest formula for ``y`` in the columns of ``X``.

    Parameters
    ----------
    X : array-like or frame of shape (n_rows, n_columns)
        At most ten columns, at least two rows, all finite.
    y : array-like of shape (n_rows,)
        The target.
    random_state : int, default=0
        Seed of the draws of rows.
    guide : Guide, optional
        Who estimates; by default the network that comes with the package.

    Returns
    -------
    LengthEstimate
        Mean and standard deviation, in symbols.

    Raises
    ------
    DataError
        If the table cannot be used; the message says why.

    Examples
    --------
    >>> x = np.linspace(0.1, 5.0, 40)
    >>> line = estimate_length(x[:, None], x)
    >>> wave = estimate_length(x[:, None], np.sin(x**2) * np.exp(-x) + np.log(x))
    >>> line.symbols < wave.symbols
    True
    """
    return estimate_length_of(
        Dataset.from_arrays(X, y), random_state=random_state, guide=guide
    )


def estimate_length_of(
    dataset: Dataset, *, random_state: int = 0, guide: Guide | None = None
) -> LengthEstimate:
    """Estimate the length of the shortest formula of a dataset; as above."""
    if dataset.y is None:
        raise DataError("the table must have a target, got none")
    n_rows, n_columns = dataset.X.shape
    if n_columns > MAX_COLUMNS:
        raise DataError(
            f"X must have at most {MAX_COLUMNS} columns for the network to read, "
            f"got {n_columns}; choose those that matter"
        )
    if n_rows < FEWEST_ROWS:
        raise DataError(f"X must have at least {FEWEST_ROWS} rows, got {n_rows}")
    size = min(n_rows, MOST_ROWS)
    rng = np.random.default_rng(random_state)
    rows = np.stack(
        [rng.permutation(n_rows)[:size] for _ in range(N_DRAWS if n_rows > size else 1)]
    )
    output = (OnnxGuide() if guide is None else guide).score(
        dataset.X[rows], np.full(len(rows), n_columns), dataset.y[rows]
    )
    between = float(np.var(output.value_mean))
    within = float(np.mean(np.square(output.value_spread)))
    return LengthEstimate(
        symbols=float(np.mean(output.value_mean)),
        spread=float(np.sqrt(within + between)),
        n_rows=len(np.unique(rows)),
        n_columns=n_columns,
    )
