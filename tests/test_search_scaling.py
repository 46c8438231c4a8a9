"""Data of extreme size: the search finds what it finds in ordinary units."""

import numpy as np
import pytest

from sr4mdl.data import Dataset
from sr4mdl.search import SearchConfig, search
from sr4mdl.search.events import ProgressEvent
from sr4mdl.search.scaling import Scaling
from sr4mdl.text import parse

X = np.random.default_rng(0).uniform(1.0, 3.0, (200, 2))
A, B = X.T
CONFIG = SearchConfig(mode="uniform", max_time=30.0, max_evaluations=30)


def table(X: np.ndarray, y: np.ndarray) -> Dataset:
    return Dataset.from_arrays(X, y, ["a", "b"])


def test_exponents_by_hand() -> None:
    factors = np.array([1e-61, 1e60])
    data = table(X / X.max(axis=0) * factors, 2.5e150 * (B / B.max()))
    scaling = Scaling.of(data)
    assert scaling is not None
    assert scaling.columns == (-61, 0)
    assert scaling.target == 150
    scaled = scaling.dataset()
    assert scaled.X.max(axis=0) == pytest.approx([1.0, 1e60])
    assert scaled.y is not None
    assert scaled.y.max() == pytest.approx(2.5)


def test_ordinary_data_and_zeros_are_not_scaled() -> None:
    assert Scaling.of(table(X * 1e30, A * 1e-30)) is None
    assert Scaling.of(table(X, 0.0 * A)) is None
    # Without products there is no way to write a scaled formula.
    large = table(X, A * 1e100)
    assert Scaling.of(large, ["add", "sub"]) is None
    assert Scaling.of(large, ["mul"]) is not None


def test_formulas_get_their_powers_back() -> None:
    data = table(X * [1e100, 1.0], A * B * 1e150)
    scaling = Scaling.of(data)
    assert scaling is not None
    assert (scaling.columns, scaling.target) == ((100, 0), 150)
    assert str(scaling.restore(parse("a*b"))) == "1e+50*a*b"
    # a^2 itself would overflow: such a formula keeps its scaled parts.
    squared = Scaling.of(table(X * [1e200, 1.0], A**2 * 1e150))
    assert squared is not None
    assert str(squared.restore(parse("a^2"))) == "1e+150*(1e-200*a)^2"


@pytest.mark.parametrize(
    ("factors", "y", "formula"),
    [
        ((1.0, 1.0), 1e150 * (A * B + B**2), "1e+150*(a + b)*b"),
        ((1.0, 1.0), 1e-200 * A / B, "1e-200*a/b"),
        ((1e-30, 1e30), A * B + 2.0, "a*b + 2"),
        ((1e-30, 1e30), A / B * 1e-60, "a/b"),
        ((1e150, 1e150), (A + B) * 1e150, "a + b"),
        ((1e250, 1e-250), A * B, "a*b"),
    ],
)
def test_the_search_does_not_mind_the_size(
    factors: tuple[float, float], y: np.ndarray, formula: str
) -> None:
    result = search(table(X * factors, y), CONFIG)
    assert str(result.best.expression) == formula
    assert result.best.exact
    assert result.best.r2 == 1.0
    assert result.best.rmse <= 1e-12 * np.max(np.abs(y))


def test_everything_told_is_in_the_units_of_the_data() -> None:
    heard: list[ProgressEvent] = []
    y = 1e150 * (A * B + 0.01 * np.random.default_rng(1).normal(size=len(A)))
    result = search(table(X, y), CONFIG, listener=heard.append)
    size = float(np.max(np.abs(y)))
    for one in result.front:
        assert 1e-4 * size < one.rmse < size
    formulas = [event.expression for event in heard if event.expression is not None]
    formulas += [parse(text) for _, _, text in result.statistics.history]
    assert formulas
    for formula in formulas:
        assert any(abs(node.value or 0.0) > 1e100 for node in formula.prefix())
    assert any("other units" in note for note in result.notes)
