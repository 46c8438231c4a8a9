import math

import numpy as np
import pytest

from sr4mdl.data import Dataset
from sr4mdl.evaluate import evaluate_one
from sr4mdl.search.budget import Budget
from sr4mdl.search.events import Reporter
from sr4mdl.search.judge import Judge, Solution
from sr4mdl.search.rows import SearchData, rows_that_count
from sr4mdl.search.screening import (
    choose,
    forest_importances,
    newcomers,
    squared_correlations,
)
from sr4mdl.search.stopping import Stopper, neighbour_ratio
from sr4mdl.selection.bits import RELATIVE_FLOOR, formula_bits
from sr4mdl.selection.limits import Limits
from sr4mdl.text import parse


def judge(
    X: np.ndarray,
    y: np.ndarray,
    *,
    judge_rows: int = 1000,
    operators: frozenset[str] | None = None,
) -> Judge:
    data = SearchData(
        Dataset.from_arrays(X, y),
        max_search_rows=min(50, judge_rows),
        max_judge_rows=judge_rows,
        n_guide_rows=10,
        rng=np.random.default_rng(0),
    )
    budget = Budget(None, 1000)
    return Judge(
        data,
        budget,
        Reporter(None, budget),
        limits=Limits(operators),
    )


X = np.random.default_rng(1).uniform(0.5, 2.0, (200, 2))


def test_bits_and_errors_by_hand() -> None:
    y = np.array([1.0, 2.0, 3.0, 4.0])
    one = judge(np.array([[1.0], [2.0], [3.0], [5.0]]), y)
    found = one.measure(parse("x0"), one.data.all)
    assert found is not None
    # One error of 1 in four rows; the variance of y is 1.25.
    assert found.rmse == 0.5
    assert found.error == 0.5
    assert found.r2 == pytest.approx(1.0 - 0.25 / 1.25)
    floor = RELATIVE_FLOOR * math.sqrt(7.5)
    assert found.residual_bits == pytest.approx(4 * math.log2(0.5 / floor))
    assert found.formula_bits == formula_bits(parse("x0"), 1)
    assert found.bits == found.formula_bits + found.residual_bits
    assert (found.length, found.exact) == (1, False)


def test_formulas_that_are_not_finite_are_refused_and_counted() -> None:
    one = judge(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 4.0]))
    assert one.consider(parse("log(x0)")) is None
    assert one.budget.statistics.rejects == {"formula: not finite": 1}


def test_the_best_is_the_shortest_code_and_gains_are_kept() -> None:
    y = X[:, 0] * X[:, 1]
    one = judge(X, y)
    one.consider_mean()
    one.budget.statistics.n_quick = 7
    assert one.consider(parse("x0*x1")) is not None
    assert one.consider(parse("x0*x1")) is None
    assert one.last_gain == 7
    assert one.best is not None
    assert one.best.exact
    assert one.settled
    # Just as exact, but longer.
    one.consider(parse("x0*x1 + 0*x0"))
    assert one.best.expression == parse("x0*x1")
    assert [entry[2] for entry in one.budget.statistics.history][-1] == "x0*x1"


def test_constants_are_fitted_again_near_the_best() -> None:
    y = 2.5 * X[:, 0] ** 2
    one = judge(X, y)
    found = one.consider(parse("2.4999987*x0^2"))
    assert found is not None
    assert found.expression == parse("2.5*x0^2")
    assert found.exact


def test_an_exact_formula_with_odd_constants_is_not_settled() -> None:
    y = 1.2345678912345 * X[:, 0]
    one = judge(X, y)
    one.consider(parse("1.2345678912345*x0"))
    assert one.best is not None
    assert one.best.exact
    assert not one.settled


def test_formulas_may_contain_allowed_operators_only() -> None:
    one = judge(X, X[:, 0] ** 2, operators=frozenset({"mul"}))
    assert one.consider(parse("x0^2")) is None
    assert one.consider(parse("x0*x0")) is not None
    assert one.budget.statistics.rejects == {"formula: operator": 1}


def test_the_verdict_is_on_all_rows() -> None:
    # 1/(x - 3) blows up on a row that is not drawn for judging.
    x = np.linspace(0.0, 2.0, 400)
    X = np.append(x, 3.0)[:, None]
    y = np.append(1.0 / (x - 3.0), -1.0)
    one = judge(X, y, judge_rows=60)
    assert 3.0 not in one.data.judge.X
    one.consider_mean()
    one.consider(parse("1/(x0 - 3)"))
    assert one.best is not None
    assert one.best.expression == parse("1/(x0 - 3)")
    choice, front = one.verdict()
    assert choice.best.expression.variables == frozenset()
    assert all(solution.expression.is_constant for solution in front)
    assert one.budget.statistics.rejects["formula: not finite on all rows"] >= 1


def test_the_verdict_writes_more_simply_where_that_is_shorter() -> None:
    one = judge(X, X[:, 0] * X[:, 1])
    one.consider(parse("x0*x1 + x0 - x0"))
    choice, _ = one.verdict()
    assert choice.best.expression in (parse("x0*x1"), parse("x1*x0"))
    assert choice.best.length == 3


def test_of_two_spellings_the_verdict_takes_the_readable_one() -> None:
    noise = np.random.default_rng(2).normal(size=len(X))
    one = judge(X, 0.27 * X[:, 0] * X[:, 1] ** 2 + 0.01 * noise)
    one.consider(parse("0.27*(x1^2*x0)"))
    choice, _ = one.verdict()
    assert str(choice.best.expression) == "0.27*x0*x1^2"


def test_the_verdict_knows_the_signs_of_the_data() -> None:
    table = X + np.array([3.0, 0.0])
    y = table[:, 0] / np.sqrt(table[:, 0] ** 2 - table[:, 1] ** 2)
    found = parse("x0/sqrt(x0^2 - x1^2)")
    one = judge(table, y)
    one.consider(found)
    assert str(one.verdict()[0].best.expression) == "1/sqrt(1 - (x1/x0)^2)"
    # The usual form needs operators that are not allowed here.
    few = judge(table, y, operators=frozenset({"div", "sqrt", "sub", "square"}))
    few.consider(found)
    assert few.verdict()[0].best.expression is found


def test_the_verdict_names_runner_up_and_gap() -> None:
    one = judge(X, X[:, 0] * X[:, 1] + 0.01 * np.sin(9 * X[:, 0]))
    one.consider_mean()
    one.consider(parse("x0*x1"))
    one.consider(parse("x0 + x1"))
    choice, front = one.verdict()
    assert choice.best.expression == parse("x0*x1")
    assert choice.runner_up is not None
    assert choice.gap_bits == pytest.approx(choice.runner_up.bits - choice.best.bits)
    assert choice.gap_bits > 0
    lengths = [solution.length for solution in front]
    assert lengths == sorted(lengths)
    errors = [solution.rmse for solution in front]
    assert errors == sorted(errors, reverse=True)


def test_draws_are_nested_and_in_order() -> None:
    data = SearchData(
        Dataset.from_arrays(np.arange(100.0)[:, None], np.arange(100.0)),
        max_search_rows=20,
        max_judge_rows=60,
        n_guide_rows=8,
        rng=np.random.default_rng(0),
    )
    search, judged = data.search.y, data.judge.y
    assert (len(search), len(judged), len(data.all)) == (20, 60, 100)
    assert set(search) <= set(judged)
    assert np.all(np.diff(search) > 0)
    assert np.all(np.diff(judged) > 0)
    assert len(data.guide_places) == 8
    assert np.all(np.diff(data.guide_places) > 0)
    assert data.guide_places.max() < 20


def test_neighbours_tell_noise_from_structure() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (300, 2)) * [1.0, 1e6]
    assert neighbour_ratio(X, np.sin(3 * X[:, 0]) + 1e-6 * X[:, 1]) < 0.05
    assert neighbour_ratio(X, rng.normal(size=300)) == pytest.approx(1.0, abs=0.2)
    assert neighbour_ratio(X, np.ones(300)) == 0.0


def test_neighbour_ratio_by_hand() -> None:
    # Nearest rows: 0-1 and 2-3; differences 1, 1, 3, 3; variance of 0 1 0 3 is 1.5.
    X = np.array([[0.0], [1.0], [5.0], [6.0]])
    values = np.array([0.0, 1.0, 0.0, 3.0])
    assert neighbour_ratio(X, values) == pytest.approx(5.0 / 3.0)


def test_noise_ends_a_search_that_waits_in_vain() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3.0, (300, 1))
    y = X[:, 0] ** 2 + 0.05 * rng.normal(size=300)
    one = judge(X, y)
    stopper = Stopper(one, one.budget, one.data.all, early=True, patience=10)
    one.consider_mean()
    one.budget.statistics.n_quick = 10
    assert stopper.reason() is None
    one.consider(parse("x0^2"))
    one.budget.statistics.n_quick = 19
    assert stopper.reason() is None
    one.budget.statistics.n_quick = 20
    assert stopper.reason() == "noise floor"
    patient = Stopper(one, one.budget, one.data.all, early=False, patience=10)
    assert patient.reason() is None


def test_long_formulas_are_waited_with_longer() -> None:
    """20 readouts up to 120 bits, four times as many for twice the bits."""
    one = judge(X, X[:, 0] + 0.1 * X[:, 1])
    stopper = Stopper(one, one.budget, one.data.all, early=True, patience=10)
    assert stopper.noise_patience == 20
    for bits, patience in [(60.0, 8), (100.0, 20), (240.0, 80)]:
        one.best = Solution(parse("x0"), bits, 10.0, 0.1, 0.5, False)
        assert stopper.noise_patience == patience


def test_a_few_large_rows_do_not_pass_for_noise() -> None:
    """One row in ten thousand carries the variance: squares see nothing else."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.5, 3.0, (300, 1))
    y = rows[:, 0] ** 2 + 0.05 * rng.normal(size=300)
    for peak, reason in [(0.0, "noise floor"), (1e4, None)]:
        y[7] += peak
        one = judge(rows, y)
        stopper = Stopper(one, one.budget, one.data.all, early=True, patience=1)
        stopper.leaves_noise = lambda: True  # type: ignore[method-assign]
        one.consider(parse("x0^2"))
        one.budget.statistics.n_quick = 500
        assert stopper.reason() == reason


def test_only_short_formulas_are_fitted_again_when_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.5, 3.0, (300, 1))
    y = rows[:, 0] ** 2 + 0.05 * rng.normal(size=300)
    many = " + ".join(f"0.0{n}*sin({n}.3*x0)" for n in range(1, 9))
    for seconds, expected in [(1e9, {"short", "long"}), (1e-9, {"short"})]:
        one = judge(rows, y, judge_rows=100)
        one.consider(parse("1.01*x0^2"))
        one.consider(parse(f"x0^2 + {many}"))
        fitted: list[Solution] = []

        def refit(
            solution: Solution, _: object, seen: list[Solution] = fitted
        ) -> Solution:
            seen.append(solution)
            return solution

        monkeypatch.setattr(one, "refit", refit)
        one.budget.deadline = one.budget.start + seconds
        one.verdict()
        texts = [str(solution.expression) for solution in fitted]
        assert {"long" if "sin" in text else "short" for text in texts} == expected


def test_rows_that_count_by_hand() -> None:
    # Deviations -1, -1, 2: squares 1, 1, 4, so 36 / 18.
    assert rows_that_count(np.array([0.0, 0.0, 3.0])) == pytest.approx(2.0)
    assert rows_that_count(np.array([1e200, -1e200])) == pytest.approx(2.0)


def test_a_long_exact_formula_is_given_some_readouts_to_get_shorter() -> None:
    def stopper(one: Judge, exact_patience: int) -> Stopper:
        return Stopper(
            one,
            one.budget,
            one.data.all,
            early=True,
            patience=1000,
            exact_patience=exact_patience,
        )

    y = X[:, 0] * (1.0 + X[:, 1]) * (2.0 + X[:, 1] ** 2) * X[:, 1]
    one = judge(X, y)
    one.budget.statistics.n_quick = 3
    one.consider(parse("x0*((1 + x1)*(2 + x1^2))*x1"))
    assert one.settled
    assert stopper(one, 0).reason() == "exact"
    patient = stopper(one, 11)  # 5 for each of two variables
    assert patient.solved
    one.budget.statistics.n_quick = 7
    assert patient.reason() is None
    one.budget.statistics.n_quick = 8
    assert patient.reason() == "exact"
    # Ten symbols or fewer end the search at once.
    short = judge(X, X[:, 0] * (1.0 + X[:, 1]))
    short.consider(parse("x0*(1 + x1)"))
    assert stopper(short, 11).reason() == "exact"


def test_structure_in_the_residuals_keeps_a_search_going() -> None:
    X = np.linspace(0.5, 3.0, 200)[:, None]
    one = judge(X, X[:, 0] ** 2 + 0.1 * np.sin(5 * X[:, 0]))
    stopper = Stopper(one, one.budget, one.data.all, early=True, patience=1)
    one.consider(parse("x0^2"))
    one.budget.statistics.n_quick = 5
    assert stopper.reason() is None


def test_correlations_see_even_functions() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    scores = squared_correlations(X, X[:, 2] ** 2)
    assert np.argmax(scores) == 2
    assert scores[2] > 0.5
    assert scores[[0, 1, 3]].max() < 0.05


def test_the_forest_sees_products() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    importances = forest_importances(X * 1e30, X[:, 3] * X[:, 8] * 1e-30, 0)
    assert set(np.argsort(-importances)[:2]) == {3, 8}
    assert importances.max() == 1.0


def test_needed_variables_come_first() -> None:
    scores = np.array([0.1, 0.9, 0.5, 0.5, 0.0])
    assert choose(scores, [4], [0, 1, 2, 3, 4], 3) == [1, 2, 4]
    assert choose(scores, [], [0, 2, 3], 2) == [2, 3]


def test_newcomers_explain_what_is_left() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    residuals = X[:, 7] + 0.5 * X[:, 3] + 0.2 * X[:, 0]
    assert newcomers(X, residuals, [0, 1]).tolist() == [7, 3]
    assert newcomers(X, rng.normal(size=300), [0]).tolist() == []


def test_the_answer_is_fitted_on_more_rows_than_the_judges() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 2.0, (4000, 1))
    y = 1.2345 * X[:, 0] + 0.1 * rng.normal(size=4000)
    one = judge(X, y, judge_rows=60)
    one.consider(parse("1.1*x0"))
    choice, _ = one.verdict()
    few = one.best
    assert few is not None
    error = abs(_slope(choice.best) - 1.2345)
    assert error < abs(_slope(few) - 1.2345)
    assert error < 0.01


def _slope(solution: Solution) -> float:
    return float(evaluate_one(solution.expression, np.array([[1.0]]), ["x0"])[0])
