"""Scores and their aggregates: R2, intervals, Pareto ranks."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from sr4mdl._typing import FloatArray


def r2_score(y_true: FloatArray, y_pred: FloatArray) -> float | None:
    """Return R2 as scikit-learn does, or None where a prediction is not finite.

    R2 is 1 - SSE/SST about the mean of the rows scored; of a constant target it is 1
    for a perfect prediction and else 0. Predictions that are not finite have no R2;
    they are not replaced.
    """
    if not np.isfinite(y_pred).all():
        return None
    # Finite predictions near the largest float can still overflow when squared.
    with np.errstate(over="ignore"):
        error = float(np.sum(np.square(y_true - y_pred)))
        spread = float(np.sum(np.square(y_true - np.mean(y_true))))
    if spread == 0:
        return 1.0 if error == 0 else 0.0
    value = 1 - error / spread
    return value if math.isfinite(value) else None


def wilson_interval(
    successes: float, trials: int, z: float = 1.959963984540054
) -> tuple[float, float]:
    """Return Wilson's interval of a rate.

    Parameters
    ----------
    successes : float
        Number of successes; fractions arise where a problem has several seeds.
    trials : int
        Number of trials, at least 1.
    z : float
        Quantile of the normal distribution; the default gives 95 %.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(
            f"need 0 <= successes <= trials and trials >= 1, got {successes}, {trials}"
        )
    rate = successes / trials
    weight = 1 + z * z / trials
    center = (rate + z * z / (2 * trials)) / weight
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials**2)) / weight
    # The interval holds the rate; rounding must not push an end past it.
    return max(0.0, min(center - half, rate)), min(1.0, max(center + half, rate))


def pareto_ranks(gains: Sequence[float], costs: Sequence[float]) -> list[int]:
    """Return the front each point lies on: 1 for the best, equal points together.

    Parameters
    ----------
    gains : sequence of float
        Higher is better.
    costs : sequence of float
        Lower is better.
    """
    if len(gains) != len(costs):
        raise ValueError(f"gains has {len(gains)} entries, costs has {len(costs)}")
    points = list(zip(gains, costs, strict=True))
    ranks = [0] * len(points)
    left = set(range(len(points)))
    rank = 0
    while left:
        rank += 1
        front = {
            i for i in left if not any(_dominates(points[j], points[i]) for j in left)
        }
        for i in front:
            ranks[i] = rank
        left -= front
    return ranks


def _dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] >= b[0] and a[1] <= b[1] and a != b


def mean(values: Iterable[float]) -> float | None:
    """Return the mean, or None of nothing."""
    numbers = list(values)
    return float(np.mean(numbers)) if numbers else None


def median(values: Iterable[float]) -> float | None:
    """Return the median, or None of nothing."""
    numbers = list(values)
    return float(np.median(numbers)) if numbers else None
