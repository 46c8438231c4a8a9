"""In which order the guided search closes its states."""

from typing import Any

import numpy as np
import pytest

from search_fakes import table
from sr4mdl.data import Dataset
from sr4mdl.search import SearchConfig, SearchMemory, search
from sr4mdl.search.readout import Readout
from sr4mdl.search.tree import FULL, MEDIUM, QUICK

Closing = tuple[str, object]


@pytest.fixture
def closings(monkeypatch: pytest.MonkeyPatch) -> list[Closing]:
    """Note which state is closed in which tier."""
    noted: list[Closing] = []
    for tier in ("quick", "medium", "full"):
        original = getattr(Readout, tier)

        def noting(
            self: Readout,
            state: Any,
            *rest: Any,
            _tier: str = tier,
            _original: Any = original,
        ) -> Any:
            noted.append((_tier, state.key))
            return _original(self, state, *rest)

        monkeypatch.setattr(Readout, tier, noting)
    return noted


def unsolved() -> Dataset:
    noise = np.random.default_rng(3).normal(size=40)
    data = table(lambda a, b: np.tanh(a + b * b) * np.cos(3 * a), 2, n_rows=40)
    assert data.y is not None
    return Dataset.from_arrays(data.X, data.y + 0.3 * noise)


def settings(**changes: Any) -> SearchConfig:
    values: dict[str, Any] = {
        "mode": "uniform",
        "max_time": None,
        "max_nodes": 30,
        "batch_size": 4,
        "n_quick": 2,
        "full_interval": 3,
        "early_stop": False,
        "operators": ("add", "mul", "sin", "exp"),
    }
    return SearchConfig(**{**values, **changes})


def keys(closings: list[Closing], tier: str) -> list[object]:
    return [key for name, key in closings if name == tier]


def test_each_closing_comes_after_the_one_before_it(closings: list[Closing]) -> None:
    result = search(unsolved(), settings())
    counted = result.statistics
    root = closings[0][1]
    assert closings[:2] == [("quick", root), ("full", root)]
    assert counted.n_quick == len(keys(closings, "quick"))
    assert counted.n_medium == len(keys(closings, "medium")) > 3
    assert counted.n_full == len(keys(closings, "full")) > 1
    assert counted.n_closed == len(closings)
    for number, (tier, key) in enumerate(closings[2:], start=2):
        before = closings[:number]
        assert (tier, key) not in before
        if tier == "medium":
            assert ("quick", key) in before
        if tier == "full":
            assert ("medium", key) in before


def test_without_medium_closings_full_ones_follow_quick_ones(
    closings: list[Closing],
) -> None:
    result = search(unsolved(), settings(n_medium=0))
    assert result.statistics.n_medium == 0
    assert not keys(closings, "medium")
    full = keys(closings, "full")
    assert len(full) > 1
    assert set(full) <= set(keys(closings, "quick"))


def test_the_linear_map_is_the_same_in_all_tiers(closings: list[Closing]) -> None:
    search(unsolved(), settings(families="linear"))
    assert not keys(closings, "medium")
    assert len(keys(closings, "quick")) > 3


def test_a_search_that_goes_on_knows_what_is_closed(closings: list[Closing]) -> None:
    memory = search(unsolved(), settings()).memory
    tiers = [record.tier for record in memory.records()]
    assert tiers.count(MEDIUM) + tiers.count(FULL) >= len(keys(closings, "medium")) > 3
    assert QUICK in tiers
    first = list(closings)
    again = SearchMemory.from_dict(memory.to_dict())
    search(unsolved(), settings(), memory=again)
    later = closings[len(first) :]
    root = first[0][1]
    for tier in ("quick", "medium"):
        done = set(keys(first, tier)) - {root}
        assert not done & set(keys(later, tier))
    assert set(keys(later, "medium")) & set(keys(first, "quick"))
