"""Tests of smoothing: what is noise, what is structure, and what is left of both."""

from collections.abc import Callable

import numpy as np
import pytest

from sr4mdl.closing import ClosingProblem, close_state
from sr4mdl.data import Dataset
from sr4mdl.expressions import variable
from sr4mdl.search import SearchConfig, search
from sr4mdl.search.rows import SearchData
from sr4mdl.search.smoothing import Smoother, clustering, find_smoother
from sr4mdl.selection.pareto import skeleton
from sr4mdl.text import parse


def table(n_rows: int, n_columns: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(1.0, 4.0, (n_rows, n_columns))


def find(X: np.ndarray, y: np.ndarray) -> Smoother | None:
    return find_smoother(X, y, np.random.default_rng(0))


def product_with_noise() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = table(1500)
    clean = X[:, 0] * X[:, 1]
    return X, clean, clean + np.random.default_rng(9).standard_normal(len(X))


@pytest.mark.parametrize("unit", [1.0, 1e-20, 1e20])
def test_smoothing_finds_the_noise_and_takes_most_of_it_away(unit: float) -> None:
    X = table(1500)
    clean = X[:, 0] / X[:, 1] * unit
    noise = 0.1 * np.sqrt(np.mean(clean**2))
    y = clean + noise * np.random.default_rng(1).standard_normal(len(X))
    found = find(X, y)
    assert found is not None
    assert found.noise == pytest.approx(noise, rel=0.06)
    assert found.useful
    left = np.sqrt(np.mean((found.smooth(X) - clean) ** 2))
    assert left < 0.25 * noise
    assert found.error == pytest.approx(left, rel=0.6)


def test_data_without_noise_are_not_smoothed() -> None:
    X = table(900)
    assert find(X, X[:, 0] * np.sin(X[:, 1])) is None
    # More waves than the process has centres for: structure, though it looks wild.
    assert find(X, np.sin(40.0 * X[:, 0]) * np.cos(30.0 * X[:, 1])) is None


@pytest.mark.parametrize("n_columns", [2, 3])
@pytest.mark.parametrize(
    "law",
    [
        lambda a, b, c: b * np.exp(a * c / b) * a**2,
        lambda a, b, c: (np.sin((a + b) ** 2) - b) * a,
    ],
)
def test_what_the_process_misses_is_no_noise(
    law: Callable[..., np.ndarray], n_columns: int
) -> None:
    X = table(600, n_columns)
    y = law(X[:, 0], X[:, 1], X[:, -1] if n_columns == 3 else X[:, 0])
    assert find(X, y) is None
    data = SearchData(
        Dataset.from_arrays(X, y),
        max_search_rows=50,
        max_judge_rows=200,
        n_guide_rows=10,
        rng=np.random.default_rng(0),
    )
    assert not data.smooth(np.random.default_rng(0))
    assert data.search.smoothed is None


def test_clustering_ranks_the_sizes_of_neighbours() -> None:
    # Neighbours by pairs; ranks of sizes 0, 1, 2, 3 beside 1, 0, 3, 2: correlation .6.
    rows = np.array([[0.0], [0.1], [5.0], [5.1]])
    assert clustering(rows, np.array([1.0, -2.0, 8.0, -9.0])) == pytest.approx(0.6)
    # Sizes 0, 2, 1, 3 by rank beside 2, 0, 3, 1: deviations -1.5, .5, -.5, 1.5 and
    # .5, -1.5, 1.5, -.5 give -3 of 5.
    assert clustering(rows, np.array([1.0, 8.0, -2.0, 9.0])) == pytest.approx(-0.6)
    # Equal rows are each other's neighbours, not their own.
    twins = np.array([[0.0], [0.0], [5.0], [5.0]])
    assert clustering(twins, np.array([1.0, 2.0, 8.0, 9.0])) == pytest.approx(0.6)
    noise = np.random.default_rng(11).standard_normal(2000)
    assert abs(clustering(table(2000), noise)) < 0.07


def test_noise_of_one_size_is_smoothed_for_steep_laws_too() -> None:
    X = table(2000, 3)
    clean = X[:, 0] ** 3 / (X[:, 1] * X[:, 2])
    noise = 0.05 * np.sqrt(np.mean(clean**2))
    found = find(X, clean + noise * np.random.default_rng(12).standard_normal(2000))
    assert found is not None
    assert found.noise == pytest.approx(noise, rel=0.1)


def test_nothing_but_noise_is_not_smoothed() -> None:
    X = table(600)
    assert find(X, np.random.default_rng(2).standard_normal(600)) is None


def test_little_noise_is_known_but_not_worth_smoothing() -> None:
    X = table(900)
    y = X[:, 0] * X[:, 1]
    y = y + 0.001 * np.std(y) * np.random.default_rng(10).standard_normal(len(y))
    found = find(X, y)
    assert found is not None
    assert not found.useful


def test_structure_is_seen_in_residuals_that_noise_does_not_show() -> None:
    X, clean, y = product_with_noise()
    smoother = find(X, y)
    assert smoother is not None
    assert not smoother.sees_structure(y - clean)
    assert not smoother.sees_structure(np.zeros(len(y)))
    # A wave of a quarter of the noise makes the residuals 3 % larger.
    assert smoother.sees_structure(y - clean + 0.35 * np.sin(X[:, 0]))
    assert smoother.sees_structure(y - 0.9 * clean)
    assert smoother.sees_structure(y)


def test_search_ends_when_all_rows_show_nothing_but_noise() -> None:
    X, _, y = product_with_noise()
    data = Dataset.from_arrays(X, y, ["a", "b"])
    config = SearchConfig(mode="uniform", max_time=None, max_evaluations=60)
    result = search(data, config)
    assert str(result.best.expression) == "a*b"
    assert result.stop_reason == "noise floor"
    assert result.statistics.n_closed < 40
    # A second wave is left where the operators cannot express it.
    wavy = Dataset.from_arrays(X, y + 2.0 * np.sin(3.0 * X[:, 0]), ["a", "b"])
    config = SearchConfig(
        mode="uniform", max_time=None, max_evaluations=30, operators=["mul", "sub"]
    )
    assert search(wavy, config).stop_reason == "max_evaluations"


def test_small_wide_and_constant_tables_are_not_smoothed() -> None:
    rng = np.random.default_rng(3)
    assert find(table(99), rng.standard_normal(99)) is None
    wide = table(300, 13)
    assert find(wide, wide[:, 0] + 0.1 * rng.standard_normal(300)) is None
    assert find(np.ones((300, 2)), rng.standard_normal(300)) is None
    assert find(table(300), np.full(300, 2.0)) is None


def test_repeated_rows_do_no_harm() -> None:
    X = np.repeat(table(100), 8, axis=0)
    y = X[:, 0] + 0.1 * np.random.default_rng(4).standard_normal(len(X))
    found = find(X, y)
    assert found is not None
    assert np.sqrt(np.mean((found.smooth(X) - X[:, 0]) ** 2)) < 0.05


def test_rows_keep_the_target_as_given_beside_the_smoothed_one() -> None:
    X = table(700)
    y = X[:, 0] * X[:, 1]
    y = y + 0.1 * np.random.default_rng(5).standard_normal(len(y))
    rng = np.random.default_rng(6)
    data = SearchData(
        Dataset.from_arrays(X, y),
        max_search_rows=50,
        max_judge_rows=200,
        n_guide_rows=10,
        rng=rng,
    )
    assert data.search.smoothed is None
    assert data.smooth(rng)
    assert data.noise == pytest.approx(0.1, rel=0.1)
    for rows, count in ((data.search, 50), (data.judge, 200)):
        assert rows.smoothed is not None
        assert rows.smoothed.shape == (count,)
        clean = rows.X[:, 0] * rows.X[:, 1]
        assert np.std(rows.smoothed - clean) < 0.04 < np.std(rows.y - clean)


def test_families_look_at_the_smoothed_target_and_fit_the_given_one() -> None:
    X = table(300)
    clean = np.exp(-X[:, 0] * X[:, 1] / 2.0)
    rng = np.random.default_rng(7)
    y = clean + 0.05 * rng.standard_normal(len(clean))
    assert np.any(y < 0.0), "noise hides the log from whoever looks at y"
    names = ("a", "b")
    columns = tuple(variable(name) for name in names)
    plain = ClosingProblem(X, names, X, columns, y)
    helped = ClosingProblem(X, names, X, columns, y, (), clean, 0.05)
    best = close_state(helped, "quick").candidates[0]
    assert skeleton(best.expression) == skeleton(parse("exp(-0.5*(a*b))"))
    assert best.rmse == pytest.approx(np.sqrt(np.mean((y - clean) ** 2)), rel=0.01)
    assert best.bits < close_state(plain, "quick").candidates[0].bits


def test_smoothed_targets_of_the_wrong_shape_are_refused() -> None:
    X = table(10)
    columns = (variable("a"), variable("b"))
    with pytest.raises(ValueError, match=r"smoothed must have shape \(10,\)"):
        ClosingProblem(X, ("a", "b"), X, columns, X[:, 0], (), X[:5, 0])
    with pytest.raises(ValueError, match="noise must be 0 or more"):
        ClosingProblem(X, ("a", "b"), X, columns, X[:, 0], (), None, -1.0)


def test_a_law_under_ten_percent_noise_is_found() -> None:
    X = table(2000, 3)
    clean = np.sqrt(X[:, 0] ** 2 + X[:, 1] ** 2) / X[:, 2]
    noise = 0.1 * np.sqrt(np.mean(clean**2))
    y = clean + noise * np.random.default_rng(8).standard_normal(len(X))
    data = Dataset.from_arrays(X, y, ["a", "b", "c"])
    config = SearchConfig(mode="uniform", max_time=None, max_evaluations=3)
    result = search(data, config)
    assert "smoothing" in result.statistics.seconds
    assert str(result.best.expression) == "sqrt(a^2 + b^2)/c"
