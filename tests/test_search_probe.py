"""Tests of the probe: residuals that are noise, and residuals that are not."""

import numpy as np
import pytest

from sr4mdl.data import Dataset
from sr4mdl.search import SearchConfig, search
from sr4mdl.search.probe import (
    MAX_DEVIATIONS,
    ResidualProbe,
    judge_residuals,
    make_probe,
)
from sr4mdl.search.smoothing import find_smoother
from sr4mdl.text import parse


def table(n_rows: int = 1000, n_columns: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1.0, 4.0, (n_rows, n_columns))


def test_what_is_seen_of_noise_has_the_mean_and_spread_it_should() -> None:
    probe = ResidualProbe(table())
    rng = np.random.default_rng(1)
    found = np.array([probe.excess(rng.standard_normal(1000)) for _ in range(200)])
    assert abs(found.mean()) < 0.25
    assert 0.75 < found.std() < 1.25
    assert np.mean(found > MAX_DEVIATIONS) < 0.03


def test_noise_need_not_be_gaussian() -> None:
    probe = ResidualProbe(table())
    noise = np.random.default_rng(2).uniform(-1.0, 1.0, 1000)
    assert probe.excess(noise) < MAX_DEVIATIONS


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
def test_what_a_wrong_formula_leaves_is_seen(unit: float) -> None:
    X = table()
    probe = ResidualProbe(X)
    noise = np.random.default_rng(3).standard_normal(1000)
    # A third of the variance of the residuals is not noise.
    wrong = noise + 0.6 * (X[:, 0] - X[:, 1])
    assert probe.excess(unit * noise) < MAX_DEVIATIONS
    assert probe.excess(unit * wrong) > 5.0


def test_the_order_of_rows_and_the_units_of_columns_do_not_matter_much() -> None:
    X = table()
    y = X[:, 0] * X[:, 1] / X[:, 2]
    ordered = np.argsort(y)
    plain, other = ResidualProbe(X), ResidualProbe(X[ordered] * [1.0, 1e6, 1e-6])
    assert plain.visible(y) == pytest.approx(other.visible(y[ordered]), abs=0.02)
    assert plain.visible(y) > 0.95


def test_no_probe_where_it_could_not_be_trusted() -> None:
    X = table()
    y = X[:, 0] * X[:, 1]
    assert make_probe(X, y) is not None
    assert make_probe(X[:150], y[:150]) is None
    assert make_probe(np.ones_like(X), y) is None
    # Waves that are too short for it.
    assert make_probe(X, np.sin(40.0 * X[:, 0]) * np.cos(30.0 * X[:, 1])) is None


def test_a_column_that_does_not_vary_is_left_out() -> None:
    X = table()
    y = X[:, 0] * X[:, 1]
    wider = np.column_stack([X, np.full(len(X), 7.0)])
    assert ResidualProbe(wider).visible(y) == pytest.approx(ResidualProbe(X).visible(y))


def test_nothing_is_seen_of_residuals_that_are_all_the_same() -> None:
    assert ResidualProbe(table()).excess(np.full(1000, 2.5)) < 0.0


def test_search_ends_where_the_noise_cannot_be_told_beforehand() -> None:
    X = table(1500, 5)
    a, b, c, d, e = X.T
    clean = a * b * c / (d * e)
    y = clean + 0.001 * np.std(clean) * np.random.default_rng(4).standard_normal(1500)
    assert find_smoother(X, y, np.random.default_rng(0)) is None
    data = Dataset.from_arrays(X, y, list("abcde"))
    found = search(data, SearchConfig(mode="uniform", max_time=60.0))
    assert found.stop_reason == "noise floor"
    assert found.best.expression.length == parse("a*b*c/(d*e)").length
    # What was convincing at once was not closed in full.
    assert found.statistics.n_full == 0


def test_a_convincing_formula_must_be_short_and_accurate() -> None:
    X = table(1500)
    a, b, c = X.T
    noise = np.random.default_rng(5).standard_normal(1500)
    y = a * b + c
    rough = Dataset.from_arrays(X, y + 0.3 * np.std(y) * noise, list("abc"))
    found = search(rough, SearchConfig(mode="uniform", max_nodes=1, max_time=60.0))
    assert found.statistics.n_full == 1


def test_residuals_are_judged_only_where_that_can_be() -> None:
    X = table()
    y = X[:, 0] * X[:, 1]
    noise = np.random.default_rng(4).standard_normal(1000)
    assert judge_residuals(X, y, noise) == "noise"
    assert judge_residuals(X, y, noise + 0.6 * X[:, 2]) == "structure"
    assert judge_residuals(X[:150], y[:150], noise[:150]) == "unknown"
    # Too short waves for the probe: that it sees nothing says nothing.
    waves = np.sin(40.0 * X[:, 0]) * np.cos(30.0 * X[:, 1])
    assert judge_residuals(X, waves, noise) == "unknown"
    # What it does see, it sees there too.
    assert judge_residuals(X, waves, noise + 0.6 * X[:, 2]) == "structure"
