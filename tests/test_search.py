"""The search as a whole: modes, budgets, interruption, hard inputs."""

import time
from typing import Any

import numpy as np
import pytest

from search_fakes import hidden_formula_guide, table
from sr4mdl.data import Dataset
from sr4mdl.evaluate import evaluate_one
from sr4mdl.mdlformer.guide import DEFAULT_PATH, UniformGuide
from sr4mdl.operators import register_operator, unregister_operator
from sr4mdl.search import ProgressEvent, SearchConfig, SearchResult, api, search
from sr4mdl.simplify import simplify
from sr4mdl.text import parse

EASY = "x0*x1 + sin(x2)"
MODES = ("policy", "mdl", "error", "uniform", "gp")


def easy() -> Dataset:
    return table(lambda a, b, c: a * b + np.sin(c), 3)


def find(dataset: Dataset, guide: Any = None, **settings: Any) -> SearchResult:
    settings.setdefault("max_time", 20.0)
    return search(
        dataset,
        SearchConfig(mode=settings.pop("mode", "uniform"), **settings),
        guide=UniformGuide() if guide is None else guide,
    )


def says(result: SearchResult, text: str) -> bool:
    """Return whether the answer is this formula, in whatever order it is written."""
    return simplify(result.best.expression) == simplify(parse(text))


def predict(result: SearchResult, dataset: Dataset) -> np.ndarray:
    return evaluate_one(result.best.expression, dataset.X, dataset.names)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_finds_an_easy_law(mode: str) -> None:
    result = find(easy(), mode=mode)
    assert says(result, EASY)
    assert result.best.exact
    assert result.stop_reason == "exact"
    assert result.mode == mode
    assert result.best.r2 == 1.0
    assert result.runner_up is not None
    assert result.gap_bits == pytest.approx(result.runner_up.bits - result.best.bits)
    assert result.front[-1].expression == result.best.expression


# With the paper's linear map alone, the trees themselves must build x0*x1 and sin(x2).
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_builds_the_columns_itself(mode: str) -> None:
    data = easy()
    guide = hidden_formula_guide(parse(EASY), data.X, data.names)
    result = find(
        data,
        guide,
        mode=mode,
        families="linear",
        max_time=60.0,
        operators=("add", "mul", "sin", "square"),
        n_quick=16,
        n_playouts=3,
        playout_depth=3,
    )
    assert result.best.exact, result
    assert predict(result, data) == pytest.approx(data.y, rel=1e-9)
    assert result.stop_reason == "exact"


def test_a_good_guide_needs_fewer_states_than_none() -> None:
    data = table(lambda a, b, c: np.exp(-a * b) * np.sin(b + c), 3)
    formula = parse("exp(-(x0*x1))*sin(x1 + x2)")
    guide = hidden_formula_guide(formula, data.X, data.names)
    settings: dict[str, Any] = {
        "max_time": None, "max_nodes": 150, "batch_size": 4, "n_quick": 4,
        "families": "linear",
    }  # fmt: skip
    guided = find(data, guide, mode="policy", **settings)
    blind = find(data, mode="uniform", **settings)
    assert guided.stop_reason == "exact"
    assert guided.statistics.n_nodes < 60
    assert blind.stop_reason == "max_nodes"
    assert not blind.best.exact


@pytest.mark.parametrize("mode", [*MODES, "real closing"])
def test_the_same_seed_gives_the_same_answer(mode: str) -> None:
    data = table(lambda a, b: np.tanh(a + b * b) * np.cos(a), 2, n_rows=60)
    real = mode == "real closing"
    settings: dict[str, Any] = {
        "mode": "uniform" if real else mode,
        "families": "all" if real else "linear",
        "max_time": None,
        "max_nodes": 30 if mode in ("policy", "uniform", "gp") else 8,
        "n_quick": 1,
        "batch_size": 4,
        "early_stop": False,
        "population_size": 40,
        "operators": ("add", "mul", "sin", "exp", "inv"),
    }
    first, second = find(data, **settings), find(data, **settings)
    assert first.stop_reason == second.stop_reason == "max_nodes"
    assert first.best == second.best
    assert first.front == second.front
    assert first.statistics.rejects == second.statistics.rejects
    for name in ("n_nodes", "n_closed", "n_medium", "n_candidates", "n_judged"):
        assert getattr(first.statistics, name) == getattr(second.statistics, name)


def hard() -> Dataset:
    rng = np.random.default_rng(5)
    X = rng.uniform(0.5, 3.0, (200, 4))
    a, b, c, d = X.T
    y = np.tanh(a * b + np.sin(c * d)) * np.log(1.0 + a * c + np.exp(-b * d))
    return Dataset.from_arrays(X, y + 0.001 * np.sin(7 * a + 3 * d) * y)


@pytest.mark.parametrize("mode", MODES)
def test_the_time_limit_holds(mode: str) -> None:
    start = time.perf_counter()
    result = find(hard(), mode=mode, max_time=2.0)
    seconds = time.perf_counter() - start
    # The machine may be busy: half a second of manners, the rest for luck.
    assert seconds < 4.0
    assert result.stop_reason in ("max_time", "exact")
    assert result.best.r2 > 0.5


def test_evaluations_and_nodes_are_limits() -> None:
    result = find(
        hard(), max_time=None, max_evaluations=3, early_stop=False, families="linear"
    )
    assert result.stop_reason == "max_evaluations"
    assert result.statistics.n_closed == 3
    result = find(
        easy(), max_time=None, max_nodes=5, early_stop=False, n_quick=1,
        full_interval=99, families="linear",
    )  # fmt: skip
    assert result.stop_reason == "max_nodes"
    assert result.statistics.n_nodes <= 6


@pytest.mark.parametrize("mode", MODES)
def test_interruption_returns_the_best_so_far(mode: str) -> None:
    events: list[ProgressEvent] = []

    def stop(event: ProgressEvent) -> None:
        events.append(event)
        if event.phase == "search":
            raise KeyboardInterrupt

    data = hard()
    config = SearchConfig(mode=mode, max_time=8.0, families="linear")  # type: ignore[arg-type]
    result = search(data, config, UniformGuide(), stop)
    assert result.stop_reason == "interrupted"
    assert result.best.r2 > 0.5
    assert [event.phase for event in events][-1] == "done"


def test_interruption_at_once_still_gives_an_answer() -> None:
    def stop(event: ProgressEvent) -> None:
        if event.phase == "":
            raise KeyboardInterrupt

    result = search(easy(), SearchConfig(mode="uniform"), None, stop)
    assert result.stop_reason == "interrupted"
    assert result.best.expression.is_constant


def test_events_tell_the_story() -> None:
    events: list[ProgressEvent] = []
    result = search(easy(), SearchConfig(mode="uniform"), None, events.append)
    phases = list(dict.fromkeys(event.phase for event in events))
    assert phases[-3:] == ["closing", "verdict", "done"]
    gains = [event.bits for event in events if event.improved]
    assert gains == sorted(gains, reverse=True)
    assert says(result, EASY)
    assert events[-1].bits == pytest.approx(result.best.bits)
    assert events[-1].time_left > 0


def test_memory_of_rankings_is_bounded() -> None:
    result = find(
        hard(), max_time=None, max_nodes=120, max_expanded=20, n_quick=1,
        families="linear", early_stop=False,
    )  # fmt: skip
    assert result.stop_reason == "max_nodes"


def test_a_tiny_space_is_searched_to_its_end() -> None:
    data = table(lambda a: np.exp(np.sin(3 * a)), 1)
    result = find(
        data, operators=("square",), max_column_length=3, max_outer_steps=0,
        families="linear",
    )  # fmt: skip
    assert result.stop_reason == "exhausted"
    assert result.statistics.n_nodes == 3


def test_a_registered_operator_is_searched() -> None:
    register_operator("bump", lambda x: np.exp(-x * x) / (1.0 + x * x))
    try:
        data = table(lambda a, b: b * np.exp(-a * a) / (1.0 + a * a), 2)
        result = find(
            data, operators=("bump", "mul", "add"), batch_size=4, families="linear"
        )
        assert result.best.exact
        assert "bump" in str(result.best.expression)
    finally:
        unregister_operator("bump")


def test_operators_are_respected() -> None:
    result = find(easy(), operators=("add", "mul"), max_time=3.0)
    for solution in result.front:
        names = {
            node.operator.name
            for node in solution.expression.subexpressions()
            if node.operator is not None
        }
        assert names <= {"add", "sub", "neg", "mul", "square", "cube"}
    assert not result.best.exact


# Hard inputs.


def test_one_row() -> None:
    result = find(Dataset.from_arrays([[1.0, 2.0]], [5.0]))
    assert result.best.expression == parse("5")
    assert result.stop_reason == "constant target"
    assert any("one row" in note for note in result.notes)


@pytest.mark.parametrize("value", [0.0, 3.0, 1e-30, -7.25e30])
def test_constant_target(value: float) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    result = find(Dataset.from_arrays(X, np.full(40, value)))
    assert result.best.expression.is_constant
    assert result.best.expression.value == pytest.approx(value, rel=1e-12)
    assert result.best.r2 == 1.0
    assert result.stop_reason == "constant target"


def test_target_equal_to_a_column() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    result = find(Dataset.from_arrays(X, X[:, 1]))
    assert result.best.expression == parse("x1")
    assert result.stop_reason == "exact"


def test_duplicate_and_constant_columns() -> None:
    x = np.random.default_rng(0).uniform(1, 2, 50)
    X = np.column_stack([x, x, np.full(50, 3.0), x * x])
    data = Dataset.from_arrays(X, x * np.log(x))
    result = find(data)
    assert result.best.exact
    assert predict(result, data) == pytest.approx(data.y)
    assert result.statistics.rejects["variable: duplicate"] == 1
    assert result.statistics.rejects["variable: constant"] == 1


def test_only_constant_columns() -> None:
    result = find(Dataset.from_arrays(np.ones((20, 2)), np.arange(20.0)))
    assert result.best.expression.value == pytest.approx(9.5, abs=1.0)
    assert any("no column varies" in note for note in result.notes)


@pytest.mark.parametrize(
    ("scale_x", "scale_y"), [(1e30, 1.0), (1e-30, 1.0), (1e30, 1e-30), (1e-30, 1e30)]
)
def test_extreme_scales(scale_x: float, scale_y: float) -> None:
    X = np.random.default_rng(0).uniform(1, 3, (60, 2))
    y = X[:, 0] / X[:, 1] * scale_y
    data = Dataset.from_arrays(X * scale_x, y)
    result = find(data, max_time=10.0)
    assert result.best.r2 > 0.999999
    assert predict(result, data) == pytest.approx(y, rel=1e-6)


def test_two_of_thirty_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3.0, (300, 30))
    data = Dataset.from_arrays(X, X[:, 4] * np.sin(X[:, 17]))
    result = find(data)
    assert says(result, "x4*sin(x17)")
    assert any("30 variables screened" in note for note in result.notes)


def test_a_hundred_thousand_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 3.0, (100_000, 2))
    data = Dataset.from_arrays(X, X[:, 0] * np.exp(-X[:, 1]) + 2.0)
    start = time.perf_counter()
    result = find(data)
    assert time.perf_counter() - start < 15.0
    assert result.best.exact
    assert predict(result, data) == pytest.approx(data.y, rel=1e-9)


def test_integers_and_booleans() -> None:
    rng = np.random.default_rng(0)
    flags = rng.integers(0, 2, 80).astype(bool)
    counts = rng.integers(1, 9, 80)
    data = Dataset.from_arrays(
        np.column_stack([flags, counts]), counts * counts + 3 * flags
    )
    result = find(data)
    assert result.best.exact
    assert predict(result, data) == pytest.approx(data.y)


def test_more_columns_than_rows() -> None:
    X = np.random.default_rng(0).normal(size=(8, 40))
    result = find(Dataset.from_arrays(X, 2.0 * X[:, 3]), max_time=10.0)
    assert says(result, "2*x3")


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="dataset must be a Dataset, got ndarray"):
        search(np.ones((3, 2)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dataset must have a target"):
        search(Dataset.from_arrays(np.ones((3, 2))))


def test_noise_does_not_hide_the_law() -> None:
    data = easy()
    assert data.y is not None
    rng = np.random.default_rng(1)
    X = np.random.default_rng(7).uniform(0.5, 3.0, (400, 3))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2])
    noisy = Dataset.from_arrays(X, y + 0.01 * y.std() * rng.normal(size=400))
    result = find(noisy, max_time=6.0)
    assert says(result, EASY)
    assert not result.best.exact


def test_a_screened_root_takes_in_what_explains_the_rest() -> None:
    X = np.random.default_rng(0).normal(size=(300, 14))
    data = Dataset.from_arrays(X, 20.0 * X[:, 3] + 0.5 * X[:, 7])
    config = SearchConfig(mode="uniform", n_screened=2, families="linear")
    run = api._Run(data, config, None, None)
    run.judge.consider(parse("20*x3"))
    eligible = run.eligible()
    scores = np.zeros(14)
    scores[[3, 0]] = 1.0, 0.9
    assert run.choose(scores, eligible) == [0, 3]
    assert run.grow(scores, eligible, [0, 3]) == [3, 7]


def test_a_wide_root_is_read_out_again_when_it_grows() -> None:
    X = np.random.default_rng(0).uniform(1.0, 2.0, (200, 12))
    y = X[:, 0] ** 3 / X[:, 1] + 0.05 * X[:, 2] * X[:, 3] ** 2 * np.sin(9 * X[:, 4])
    result = find(
        Dataset.from_arrays(X, y), n_screened=3, max_evaluations=6, max_time=None,
        families="linear",
    )  # fmt: skip
    assert result.stop_reason == "max_evaluations"
    assert any("12 variables screened" in note for note in result.notes)


def test_a_target_that_hardly_ever_varies() -> None:
    X = np.random.default_rng(0).uniform(1.0, 2.0, (3000, 1))
    y = np.zeros(3000)
    y[1234] = 1.0
    result = find(Dataset.from_arrays(X, y), max_search_rows=20, max_judge_rows=50)
    assert result.best.expression.is_constant
    assert result.stop_reason == "exhausted"
    assert any("hardly varies" in note for note in result.notes)


@pytest.mark.parametrize("mode", MODES)
def test_no_operator_at_all(mode: str) -> None:
    data = table(lambda a: 0.7 * a, 1)
    result = find(data, mode=mode, operators=(), max_time=1.0, n_playouts=1)
    assert result.best.expression.operator is None
    assert result.stop_reason in ("exhausted", "max_time")


@pytest.mark.skipif(not DEFAULT_PATH.exists(), reason="no network is shipped here")
@pytest.mark.parametrize("mode", ["policy", "mdl"])
def test_without_a_guide_the_shipped_network_is_asked(mode: str) -> None:
    config = SearchConfig(
        mode=mode,  # type: ignore[arg-type]
        max_time=None,
        max_evaluations=6,
        early_stop=False,
        families="linear",
        n_quick=1,
        operators=("add", "mul", "sin"),
    )
    result = search(easy(), config)
    assert result.stop_reason == "max_evaluations"
    assert result.statistics.n_guide_states > 0
    assert result.statistics.seconds["guide"] > 0
