"""Standardised tables are searched from where their columns begin."""

import numpy as np
import pytest

from sr4mdl.data import Dataset
from sr4mdl.mdlformer.guide import UniformGuide
from sr4mdl.search import SearchConfig, SearchResult, search
from sr4mdl.search.origins import (
    begins,
    columns_with_origin,
    is_standardised,
    shift_to_zero,
)


def standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def test_rows_may_have_been_left_out_since() -> None:
    rng = np.random.default_rng(1)
    whole = standardised(rng.uniform(2.0, 5.0, (400, 4)))
    for chosen in (whole, whole[::2], whole[:40]):
        assert columns_with_origin(chosen) == [0, 1, 2, 3]
    assert not is_standardised(whole[:, 0] + 0.3)
    assert not is_standardised(1.3 * whole[:, 0])


def test_few_rows_and_two_values_are_not_standardised() -> None:
    values = standardised(np.arange(19.0))
    assert not is_standardised(values)
    assert not is_standardised(np.tile([-1.0, 1.0], 50))


def test_most_columns_must_be() -> None:
    rng = np.random.default_rng(2)
    table = np.column_stack(
        [standardised(rng.uniform(0.0, 1.0, 100)), rng.uniform(1.0, 5.0, (100, 2))]
    )
    assert columns_with_origin(table) == []
    assert columns_with_origin(table[:, :2]) == [0]


def test_normal_columns_begin_nowhere() -> None:
    """Of 100 normal values the least is -2.5 on average, of uniform ones -1.7."""
    rng = np.random.default_rng(6)
    normal = [begins(standardised(rng.normal(size=100))) for _ in range(200)]
    uniform = [begins(standardised(rng.uniform(size=100))) for _ in range(200)]
    assert np.mean(normal) < 0.3
    assert np.mean(uniform) == 1.0
    assert begins(standardised(rng.exponential(size=100)))


def test_shifts_by_hand() -> None:
    """From -1.5 to 1.5 in 31 values: a range over 31 is 0.097."""
    assert shift_to_zero(np.linspace(-1.5, 1.5, 31)) == 1.6
    # Positive everywhere, whatever was rounded.
    rng = np.random.default_rng(3)
    for _ in range(20):
        values = rng.normal(size=50)
        assert np.all(values + shift_to_zero(values) > 0.0)


def product_of_shifted(n_rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    raw = rng.uniform(0.0, 1.0, (n_rows, 3))
    y = np.sin(3.0 * raw[:, 0] * raw[:, 1]) + raw[:, 2]
    return standardised(raw), y + 0.03 * rng.normal(size=n_rows)


def find(X: np.ndarray, y: np.ndarray, **settings: object) -> SearchResult:
    config = SearchConfig(mode="uniform", max_time=None, max_evaluations=8, **settings)  # type: ignore[arg-type]
    return search(Dataset.from_arrays(X, y, ["a", "b", "c"]), config, UniformGuide())


def test_the_law_of_a_standardised_table_is_found() -> None:
    """sin(3*a*b) + c, of which neither product nor argument is left to see."""
    X, y = product_of_shifted()
    result = find(X, y)
    assert any("looks standardised" in note for note in result.notes)
    noise = 0.03**2 / y.var()
    assert result.best.r2 > 1.0 - 1.5 * noise
    # Two shifts of about the square root of 3.
    assert result.best.length <= 20


def test_a_search_from_zero_goes_on() -> None:
    X, y = product_of_shifted(120)
    first = find(X, y, early_stop=False)
    assert first.memory.root[0].startswith("a + 1.")
    config = SearchConfig(
        mode="uniform", max_time=None, max_evaluations=8, early_stop=False
    )
    data = Dataset.from_arrays(X, y, ["a", "b", "c"])
    again = search(data, config, UniformGuide(), memory=first.memory)
    assert again.memory.root == first.memory.root
    assert again.notes == first.notes
    assert again.best.bits <= first.best.bits


@pytest.mark.parametrize(
    "settings", [{"operators": ["mul", "sin"]}, {"families": "linear"}]
)
def test_not_where_shifts_are_not_wanted(settings: dict[str, object]) -> None:
    X, y = product_of_shifted(60)
    result = find(X, y, **settings)
    assert result.memory.root in ((), ("a", "b", "c"))
    assert not any("standardised" in note for note in result.notes)
