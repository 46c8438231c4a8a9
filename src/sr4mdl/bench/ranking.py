"""Measures of how well moves and states are ranked; ties counted honestly.

A tie between a correct and a wrong move counts as what a random order would give on
average, so a guide that scores everything alike gets the share of chance.
"""

from collections.abc import Sequence

import numpy as np

from sr4mdl._typing import BoolArray, FloatArray


def chance_in_top(
    scores: FloatArray, correct: BoolArray, sizes: Sequence[int]
) -> FloatArray:
    """Return the probability that a correct move is among the first k, for each k.

    Parameters
    ----------
    scores : ndarray of shape (n_moves,)
        Higher is better; legal moves only.
    correct : ndarray of shape (n_moves,)
        Which moves are correct; at least one.
    sizes : sequence of int
        The numbers k.

    Returns
    -------
    ndarray of shape (len(sizes),)
        1 or 0 without ties; otherwise the chance under a random order of the ties.
    """
    if not correct.any():
        raise ValueError("correct must hold at least one correct move")
    best = scores[correct].max()
    n_before = int((scores > best).sum())
    tied = scores == best
    n_tied, n_right = int(tied.sum()), int((tied & correct).sum())
    chances = []
    for size in sizes:
        places = min(size - n_before, n_tied)
        if places <= 0:
            chances.append(0.0)
            continue
        # All places go to the wrong ones of the tied with this probability.
        miss = 1.0
        for drawn in range(places):
            miss *= max(0, n_tied - n_right - drawn) / (n_tied - drawn)
        chances.append(1.0 - miss)
    return np.array(chances)


def concordance(truth: FloatArray, predicted: FloatArray) -> float:
    """Return the share of pairs of different truth that are predicted in order.

    A pair predicted equal counts one half: this is the area under the ROC curve when
    the truth has two values, and (Kendall-like) its extension when it has more.
    """
    difference = np.sign(truth[:, None] - truth[None, :])
    order = np.sign(predicted[:, None] - predicted[None, :])
    differs = difference != 0
    if not differs.any():
        return float("nan")
    return float((0.5 + 0.5 * (difference * order)[differs]).mean())


def paper_auc(truth: FloatArray, predicted: FloatArray) -> float:
    """Return the paper's AUC: the share of all pairs i != j in strict agreement.

    Pairs of equal truth count as wrong there, so it is below :func:`concordance`.
    """
    n = len(truth)
    product = (truth[:, None] - truth[None, :]) * (
        predicted[:, None] - predicted[None, :]
    )
    return float((product > 0).sum() / (n * (n - 1)))


def ndcg(truth: FloatArray, predicted: FloatArray, depth: int = 5) -> float:
    """Return the paper's NDCG: gains 2^y - 1 of the smallest predicted values.

    Both sums run over ranks 1 .. depth with weight 1 / log2(rank + 1); the gain at a
    rank is that of the state with the rank-th smallest prediction, against that of
    the rank-th smallest truth. As the paper defines it, 1 is perfect and larger
    values are worse; the paper reports the ratio turned so that it is at most 1.
    """
    weights = 1.0 / np.log2(np.arange(2, depth + 2))
    by_truth = np.sort(truth)[:depth]
    by_prediction = truth[np.argsort(predicted, kind="stable")[:depth]]
    ideal = float((weights * (2.0**by_truth - 1.0)).sum())
    reached = float((weights * (2.0**by_prediction - 1.0)).sum())
    if ideal == reached:
        return 1.0
    return min(ideal, reached) / max(ideal, reached)


def value_metrics(truth: FloatArray, predicted: FloatArray) -> dict[str, float]:
    """Return RMSE, R2, AUC, Spearman, Pearson and NDCG5 of predicted lengths."""
    from scipy import stats

    residual = truth - predicted
    spread = float(((truth - truth.mean()) ** 2).sum())
    return {
        "rmse": float(np.sqrt((residual**2).mean())),
        "r2": 1.0 - float((residual**2).sum()) / spread if spread > 0 else float("nan"),
        "auc": concordance(truth, predicted),
        "auc_paper": paper_auc(truth, predicted),
        "spearman": float(stats.spearmanr(truth, predicted).statistic),
        "pearson": float(stats.pearsonr(truth, predicted).statistic),
        "ndcg5": ndcg(truth, predicted),
    }
