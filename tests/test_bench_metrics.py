import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import r2_score as reference_r2

from sr4mdl.bench.metrics import (
    mean,
    median,
    pareto_ranks,
    r2_score,
    wilson_interval,
)
from sr4mdl.bench.summary import group_rows

numbers = arrays(np.float64, 7, elements=st.floats(-1e6, 1e6, width=32))


@given(numbers, numbers)
def test_r2_equals_scikit_learns(y, prediction):
    assert r2_score(y, prediction) == pytest.approx(reference_r2(y, prediction))


def test_r2_of_a_constant_target():
    y = np.ones(3)
    assert r2_score(y, y) == reference_r2(y, y) == 1.0
    assert r2_score(y, y + 1) == reference_r2(y, y + 1) == 0.0


def test_r2_is_missing_where_a_prediction_is_not_finite():
    y = np.arange(3.0)
    assert r2_score(y, np.array([0.0, np.nan, 2.0])) is None
    assert r2_score(y, np.array([0.0, np.inf, 2.0])) is None
    assert r2_score(y, np.array([0.0, 1e200, 2.0])) is None


def test_wilson_by_hand():
    # 5 of 10 at z = 2: centre (0.5 + 0.2)/1.4, half 2*sqrt(0.025 + 0.01)/1.4
    low, high = wilson_interval(5, 10, z=2)
    assert low == pytest.approx(0.5 - math.sqrt(0.035) / 0.7)
    assert high == pytest.approx(0.5 + math.sqrt(0.035) / 0.7)
    low, high = wilson_interval(0, 133)
    assert low == 0
    assert high == pytest.approx(0.0281, abs=1e-4)
    assert wilson_interval(133, 133)[1] == 1


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (3, 2), (-1, 2)])
def test_wilson_refuses_what_is_no_rate(successes, trials):
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(successes, trials)


@given(st.integers(1, 500), st.floats(0, 1))
def test_wilson_holds_the_rate(trials, share):
    low, high = wilson_interval(share * trials, trials)
    rate = share * trials / trials
    assert 0 <= low <= rate <= high <= 1


def test_pareto_ranks_by_hand():
    gains = [0.9, 0.8, 0.7, 0.8, 0.9, 0.1]
    costs = [50, 20, 30, 20, 60, 5]
    # (0.7, 30) and (0.9, 60) are each beaten by a point of the first front only.
    assert pareto_ranks(gains, costs) == [1, 1, 2, 1, 2, 1]
    assert pareto_ranks([3, 2, 1], [1, 2, 3]) == [1, 2, 3]
    assert pareto_ranks([], []) == []
    with pytest.raises(ValueError, match="gains has 1"):
        pareto_ranks([1], [])


def test_mean_and_median_of_nothing():
    assert mean([]) is None
    assert median([]) is None
    assert median([1, 5, 2, 10]) == 3.5


def row(problem, seed, recovered, **other):
    base = {
        "suite": "groundtruth",
        "problem": problem,
        "seed": seed,
        "noise": 0.0,
        "method": "m",
        "mode": "default",
        "recovered": recovered,
        "recovered_numeric": False,
        "r2_test": 1.0,
        "complexity": 5,
        "time_s": 2.0,
        "error": None,
    }
    return {**base, **other}


def test_rates_are_averaged_over_trials_first():
    rows = [
        row("a", 1, True),
        row("a", 2, True),
        row("a", 3, False),
        row("a", 4, False),
        row("b", 1, False, error="crash", r2_test=None, complexity=None),
    ]
    (group,) = group_rows(rows)
    # (1/2 + 0)/2, not 2/5.
    assert group.rate == 0.25
    assert (group.n_problems, group.n_runs, group.n_errors) == (2, 5, 1)
    assert (group.rate_low, group.rate_high) == wilson_interval(0.5, 2)
    # The run without a score counts as 0, its missing size is left out.
    assert group.r2_mean == 0.5
    assert group.complexity_mean == 5


def test_medians_over_trials_then_means_over_problems():
    rows = [
        row("a", 1, True, r2_test=0.1, time_s=1.0),
        row("a", 2, True, r2_test=0.2, time_s=2.0),
        row("a", 3, True, r2_test=0.9, time_s=30.0),
        row("b", 1, True, r2_test=0.6, time_s=4.0),
    ]
    (group,) = group_rows(rows)
    assert group.r2_mean == pytest.approx(0.4)
    assert group.time_mean_s == pytest.approx(3.0)


def test_groups_are_apart_and_missing_data_is_left_out():
    rows = [
        row("a", 1, True),
        row("a", 1, False, noise=0.1),
        row("a", 1, False, mode="other"),
        row("z", 1, None, stop_reason="data missing", error="data set missing"),
    ]
    groups = {(g.mode, g.noise): g for g in group_rows(rows)}
    assert {key: g.rate for key, g in groups.items()} == {
        ("default", 0.0): 1.0,
        ("default", 0.1): 0.0,
        ("other", 0.0): 0.0,
    }
    assert groups["default", 0.0].n_problems == 1
    assert groups["other", 0.0].label == "m/other"


def test_black_box_rows_have_no_rate():
    (group,) = group_rows([row("a", 1, None, suite="blackbox")])
    assert group.rate is None
    assert group.r2_median == 1.0
