"""Screening: which variables a tree starts from when there are more than ten.

Nothing is dropped silently: the order and the choice are noted, and variables that
explain what the best formula leaves over come in later, in exchange for kept ones
that it does not use.
"""

import math
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.search.rows import Rows

MAX_ROWS: Final = 1000
"""Rows that the forest sees."""
MAX_FOREST_COLUMNS: Final = 200
"""Columns that the forest sees, the most correlated ones."""
N_TREES: Final = 50
SIGNIFICANT: Final = 12.0
"""A squared correlation of so many over n is no accident for one variable."""


def _standardised(values: FloatArray) -> FloatArray:
    """Return columns (n, k) of mean 0 and length 1; constant ones become 0."""
    size = np.max(np.abs(values), axis=0)
    scaled = values / np.where(size > 0.0, size, 1.0)
    centred = scaled - scaled.mean(axis=0)
    length = np.sqrt(np.sum(centred * centred, axis=0))
    return np.asarray(np.where(length > 1e-13, centred, 0.0)) / np.where(
        length > 1e-13, length, 1.0
    )


def squared_correlations(X: FloatArray, y: FloatArray) -> FloatArray:
    """Return for each column the largest of three squared correlations with y.

    Of the column itself, of the ranks of both, and of the column's distance from its
    median, which sees even functions.
    """
    target = _standardised(y[:, None])[:, 0]
    ranks = _standardised(_ranks(X))
    rank_target = _standardised(_ranks(y[:, None]))[:, 0]
    distance = _standardised(np.abs(X - np.median(X, axis=0)))
    scores = np.stack(
        [
            _standardised(X).T @ target,
            ranks.T @ rank_target,
            distance.T @ target,
        ]
    )
    return np.asarray(np.max(scores * scores, axis=0))


def _ranks(values: FloatArray) -> FloatArray:
    order = np.argsort(values, axis=0, kind="stable")
    ranks = np.empty_like(values)
    np.put_along_axis(
        ranks, order, np.arange(len(values), dtype=np.float64)[:, None], axis=0
    )
    return ranks


def forest_importances(X: FloatArray, y: FloatArray, seed: int) -> FloatArray:
    """Return importances of a random forest, the largest being 1."""
    from sklearn.ensemble import RandomForestRegressor

    # The forest computes in float32: bring all scales into its range.
    spread = np.ptp(X, axis=0)
    scaled = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    target = y / np.max(np.abs(y))
    forest = RandomForestRegressor(
        N_TREES, min_samples_leaf=3, max_features=0.5, random_state=seed, n_jobs=1
    )
    forest.fit(scaled, target)
    importances = np.asarray(forest.feature_importances_, dtype=np.float64)
    top = importances.max()
    return importances / top if top > 0.0 else importances


def importance(rows: Rows, seed: int) -> FloatArray:
    """Return a score from 0 to 1 for every variable of a table."""
    X, y = rows.X[:MAX_ROWS], rows.y[:MAX_ROWS]
    scores = squared_correlations(X, y)
    chosen = np.argsort(-scores, kind="stable")[:MAX_FOREST_COLUMNS]
    scores[chosen] = np.maximum(
        scores[chosen], forest_importances(X[:, chosen], y, seed)
    )
    return scores


def choose(
    scores: FloatArray, needed: list[int], eligible: list[int], n_kept: int
) -> list[int]:
    """Return the variables to start from, in the order of the table.

    Parameters
    ----------
    scores : ndarray of shape (n_variables,)
        Importance of every variable.
    needed : list of int
        Variables of the best formula, which come first.
    eligible : list of int
        Variables that vary and do not repeat another.
    n_kept : int
        Most variables.
    """
    ranked = sorted(eligible, key=lambda place: (-scores[place], place))
    first = [place for place in ranked if place in needed]
    others = [place for place in ranked if place not in needed]
    return sorted((first + others)[:n_kept])


def newcomers(X: FloatArray, residuals: FloatArray, kept: list[int]) -> IntArray:
    """Return variables outside that explain residuals better than by accident."""
    scores = squared_correlations(X, residuals)
    scores[kept] = 0.0
    order = np.argsort(-scores, kind="stable")
    # The best of many accidents grows with the logarithm of their number.
    least = (SIGNIFICANT + 2.0 * math.log(X.shape[1])) / len(X)
    return np.asarray(order[scores[order] > least])
