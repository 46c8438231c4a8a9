"""Ranking measures by hand, with ties, and against scipy and scikit-learn."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from sr4mdl.bench.ranking import (
    chance_in_top,
    concordance,
    ndcg,
    paper_auc,
    value_metrics,
)


def test_top_k_without_ties() -> None:
    scores = np.array([0.1, 0.9, 0.5, 0.7])
    correct = np.array([False, False, True, False])
    np.testing.assert_array_equal(chance_in_top(scores, correct, (1, 2, 3)), [0, 0, 1])


def test_ties_count_as_a_random_order() -> None:
    scores = np.zeros(4)
    correct = np.array([True, False, False, False])
    np.testing.assert_allclose(
        chance_in_top(scores, correct, (1, 2, 4, 9)), [1 / 4, 1 / 2, 1, 1]
    )
    # Two of four tied are right: the first is right in 1/2, one of two in 1 - 1/6.
    correct = np.array([True, True, False, False])
    np.testing.assert_allclose(chance_in_top(scores, correct, (1, 2)), [1 / 2, 5 / 6])


def test_a_tie_behind_a_better_move() -> None:
    scores = np.array([2.0, 1.0, 1.0])
    correct = np.array([False, True, False])
    np.testing.assert_allclose(chance_in_top(scores, correct, (1, 2, 3)), [0, 1 / 2, 1])


def test_top_k_needs_a_correct_move() -> None:
    with pytest.raises(ValueError, match="at least one correct"):
        chance_in_top(np.zeros(2), np.zeros(2, dtype=np.bool_), (1,))


def test_concordance_is_the_area_under_the_roc_curve() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 80).astype(float)
    predicted = np.round(rng.normal(size=80), 1)  # with ties
    assert concordance(truth, predicted) == pytest.approx(
        metrics.roc_auc_score(truth, predicted)
    )


def test_concordance_and_the_papers_form_by_hand() -> None:
    truth = np.array([1.0, 2.0, 2.0, 3.0])
    predicted = np.array([1.0, 3.0, 2.0, 2.0])
    # Pairs of different truth: (1,2) right, (1,2') right, (1,3) right,
    # (2,3) wrong, (2',3) tied: 3.5 of 5. The paper divides by all six pairs.
    assert concordance(truth, predicted) == pytest.approx(3.5 / 5)
    assert paper_auc(truth, predicted) == pytest.approx(3 / 6)


def test_concordance_agrees_with_kendall_without_ties() -> None:
    rng = np.random.default_rng(1)
    truth, predicted = rng.normal(size=50), rng.normal(size=50)
    tau = stats.kendalltau(truth, predicted).statistic
    assert concordance(truth, predicted) == pytest.approx((1 + tau) / 2)


def test_value_metrics_against_the_libraries() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(1, 40, 200).astype(float)
    predicted = truth + rng.normal(scale=4, size=200)
    found = value_metrics(truth, predicted)
    assert found["rmse"] == pytest.approx(
        metrics.root_mean_squared_error(truth, predicted)
    )
    assert found["r2"] == pytest.approx(metrics.r2_score(truth, predicted))
    assert found["spearman"] == pytest.approx(
        stats.spearmanr(truth, predicted).statistic
    )
    assert found["pearson"] == pytest.approx(stats.pearsonr(truth, predicted).statistic)


def test_ndcg_by_hand() -> None:
    truth = np.array([1.0, 2.0, 3.0])
    # Predicted order 2, 1, 3: gains 3, 1, 7 against 1, 3, 7.
    log3 = 1 / math.log2(3)
    ideal = 1 + 3 * log3 + 7 / 2
    reached = 3 + 1 * log3 + 7 / 2
    assert ndcg(truth, np.array([5.0, 4.0, 6.0]), depth=3) == pytest.approx(
        ideal / reached
    )
    assert ndcg(truth, truth, depth=3) == 1.0
