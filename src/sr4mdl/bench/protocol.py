"""SRBench's split, seeds, row cap, scaling and noise.

Random numbers come from numpy's legacy generator in the order in which SRBench draws
them (rows, then noise), because the published figures were made that way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.bench.tables import Table

SEEDS: Final = (23654, 15795, 860, 5390, 16850, 29910, 4426, 21962, 14423, 28020)
"""Seeds of SRBench's ten trials."""
NOISE_LEVELS: Final = (0.0, 0.001, 0.01, 0.1)
"""Noise levels of SRBench's ground-truth tables."""
TRAIN_SHARE: Final = 0.75
MAX_TRAIN_ROWS: Final = 10_000
"""Training rows that SRBench v2.0 draws from larger tables."""


@dataclass(frozen=True, slots=True)
class Split:
    """What a method sees, and what it is scored on."""

    X_train: FloatArray
    """Training features as the method sees them (scaled where the suite scales)."""
    y_train: FloatArray
    """Training target as the method sees it, with noise."""
    X_test: FloatArray
    """Test features as the method sees them."""
    y_test: FloatArray
    """Clean test target in its own units."""
    y_train_scored: FloatArray
    """Training target in its own units, against which training scores are taken."""
    to_units: Callable[[FloatArray], FloatArray]
    """Maps predictions back to the target's own units."""


def first_seeds(count: int) -> tuple[int, ...]:
    """Return the first seeds of SRBench's list."""
    if not 1 <= count <= len(SEEDS):
        raise ValueError(f"seeds must be from 1 to {len(SEEDS)}, got {count}")
    return SEEDS[:count]


def add_noise(y: FloatArray, level: float, random: np.random.RandomState) -> FloatArray:
    """Return the target with Gaussian noise of ``level`` times its RMS."""
    if level < 0:
        raise ValueError(f"noise must be 0 or more, got {level}")
    if level == 0:
        return y.copy()
    scale = level * float(np.sqrt(np.mean(np.square(y))))
    return y + random.normal(0.0, scale, size=len(y))


def split_rows(n_rows: int, seed: int) -> tuple[IntArray, IntArray]:
    """Return the places of training and test rows.

    The same as scikit-learn's ``train_test_split`` with these shares and this seed,
    whose import would take longer than many a fit.
    """
    order = np.random.RandomState(seed).permutation(n_rows)
    n_test = math.ceil((1 - TRAIN_SHARE) * n_rows)
    n_train = math.floor(TRAIN_SHARE * n_rows)
    return order[n_test : n_test + n_train], order[:n_test]


def split_table(
    table: Table,
    seed: int,
    *,
    noise: float = 0.0,
    scale: bool = False,
    max_train_rows: int = MAX_TRAIN_ROWS,
) -> Split:
    """Split, cap, scale and perturb a table as SRBench v2.0 does.

    Parameters
    ----------
    table : Table
        The rows of a problem; its own test set is kept where it has one.
    seed : int
        Seed of the trial.
    noise : float, default=0.0
        Standard deviation of the noise on training targets, in units of their RMS.
    scale : bool, default=False
        Whether to standardise features and target by the training rows.
    max_train_rows : int, default=10000
        Training rows drawn, with replacement, from tables with more rows than that;
        0 keeps all.
    """
    random = np.random.RandomState(seed)
    if table.X_test is not None and table.y_test is not None:
        X_train, X_test, y_train, y_test = (
            table.X,
            table.X_test,
            table.y,
            table.y_test,
        )
    else:
        train, test = split_rows(len(table.y), seed)
        X_train, X_test = table.X[train], table.X[test]
        y_train, y_test = table.y[train], table.y[test]
        if 0 < max_train_rows < len(table.y):
            rows = random.choice(np.arange(len(X_train)), size=max_train_rows)
            X_train, y_train = X_train[rows], y_train[rows]
    if not scale:
        noisy = add_noise(y_train, noise, random)
        return Split(X_train, noisy, X_test, y_test, noisy, lambda y: y)
    return _scaled(X_train, X_test, y_train, y_test, noise, random)


def _scaled(
    X_train: FloatArray,
    X_test: FloatArray,
    y_train: FloatArray,
    y_test: FloatArray,
    noise: float,
    random: np.random.RandomState,
) -> Split:
    from sklearn.preprocessing import StandardScaler

    features = StandardScaler().fit(X_train)
    target = StandardScaler().fit(y_train[:, None])

    def to_units(y: FloatArray) -> FloatArray:
        units = target.inverse_transform(np.asarray(y, dtype=np.float64)[:, None])
        return np.asarray(units[:, 0], dtype=np.float64)

    scaled = np.asarray(target.transform(y_train[:, None])[:, 0], dtype=np.float64)
    return Split(
        X_train=np.asarray(features.transform(X_train), dtype=np.float64),
        y_train=add_noise(scaled, noise, random),
        X_test=np.asarray(features.transform(X_test), dtype=np.float64),
        y_test=y_test,
        y_train_scored=y_train,
        to_units=to_units,
    )
