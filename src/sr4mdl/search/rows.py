"""The rows a search works on: nested draws from the data, by seed.

Guide rows are among the search rows, those among the judge rows, those among all.
Columns are computed on search rows; formulas are compared on judge rows; the answer
is checked on all.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.data import Dataset
from sr4mdl.expressions import Expression, variable

if TYPE_CHECKING:
    from sr4mdl.search.smoothing import Smoother


def rows_that_count(values: FloatArray) -> float:
    """Return how many rows carry the variance of values (n_rows,).

    All of them where they deviate from the mean alike, one if it outweighs the rest.

    Examples
    --------
    >>> rows_that_count(np.array([1.0, -1.0, 1.0, -1.0]))
    4.0
    >>> rows_that_count(np.array([0.0, 0.0, 0.0, 0.0]))
    0.0
    """
    centred = values - np.mean(values)
    size = float(np.max(np.abs(centred)))
    if size == 0.0:
        return 0.0
    squares = np.square(centred / size)
    return float(np.sum(squares) ** 2 / np.sum(np.square(squares)))


class Rows:
    """The table of a dataset on some of its rows."""

    def __init__(self, dataset: Dataset, rows: IntArray | None = None) -> None:
        if dataset.y is None:
            raise ValueError("dataset must have a target to search for, got y=None")
        self.names = dataset.names
        self.X = dataset.X if rows is None else dataset.X[rows]
        self.y = dataset.y if rows is None else dataset.y[rows]
        self.smoothed: FloatArray | None = None
        """The target without most of its noise, where that has been asked for."""

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def inputs(self) -> Mapping[Expression, FloatArray]:
        """Values of the variables, by variable."""
        return {
            variable(name): np.ascontiguousarray(column)
            for name, column in zip(self.names, self.X.T, strict=True)
        }


class SearchData:
    """The draws of one search.

    Parameters
    ----------
    dataset : Dataset
        The table with its target.
    max_search_rows, max_judge_rows, n_guide_rows : int
        Most rows of each draw.
    rng : numpy.random.Generator
        Draws the rows.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        max_search_rows: int,
        max_judge_rows: int,
        n_guide_rows: int,
        rng: np.random.Generator,
    ) -> None:
        order = rng.permutation(dataset.n_rows)
        self.dataset = dataset
        self.names = dataset.names
        self.all = Rows(dataset)
        self.judge = _draw(dataset, order[:max_judge_rows], self.all)
        self.search = _draw(dataset, order[:max_search_rows], self.all)
        chosen = np.sort(order[:max_search_rows])
        self.guide_places: IntArray = np.flatnonzero(
            np.isin(chosen, order[: min(n_guide_rows, max_search_rows)])
        )
        """Places of the guide's rows among the search rows."""
        self.noise = 0.0
        """Standard deviation of the noise that was smoothed out."""
        self.smoother: Smoother | None = None
        """Knows noise from structure, once that has been asked for."""

    def smooth(self, rng: np.random.Generator) -> bool:
        """Smooth the target of search and judge rows; False where that is no help."""
        # It needs scipy, whose import takes longer than an exact formula does.
        from sr4mdl.search.smoothing import find_smoother

        self.smoother = find_smoother(self.all.X, self.all.y, rng)
        if self.smoother is None or not self.smoother.useful:
            return False
        self.noise = self.smoother.noise
        for rows in (self.search, self.judge):
            rows.smoothed = self.smoother.smooth(rows.X)
        return True


def _draw(dataset: Dataset, rows: IntArray, everything: Rows) -> Rows:
    if len(rows) == dataset.n_rows:
        return everything
    return Rows(dataset, np.sort(rows))
