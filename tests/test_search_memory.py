"""Searches that go on from what an earlier one knew."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from sr4mdl.data import Dataset
from sr4mdl.evaluate import evaluate_one
from sr4mdl.search import SearchConfig, SearchMemory, search
from sr4mdl.search import memory as memories
from sr4mdl.search.budget import Budget
from sr4mdl.search.memory import Keeper, NodeRecord
from sr4mdl.search.tree import FULL, MEDIUM, QUICK, UNCLOSED
from sr4mdl.text import parse


def table(noise: float = 0.0) -> Dataset:
    rng = np.random.default_rng(5)
    X = rng.uniform(0.5, 3.0, (80, 3))
    y = np.sin(X[:, 0] * X[:, 1]) / (1.0 + X[:, 2] ** 3) + np.exp(-X[:, 0]) * X[:, 2]
    return Dataset.from_arrays(X, y + noise * rng.normal(size=80), ["a", "b", "c"])


def settings(mode: str = "uniform", n: int = 30, **changes: object) -> SearchConfig:
    return SearchConfig(
        mode=mode,  # type: ignore[arg-type]
        max_time=None,
        max_evaluations=n,
        families="linear",
        early_stop=False,
        n_playouts=2,
        population_size=20,
        **changes,  # type: ignore[arg-type]
    )


def there_and_back(memory: SearchMemory) -> SearchMemory:
    again = SearchMemory.from_dict(json.loads(json.dumps(memory.to_dict())))
    assert again == memory
    return again


@pytest.mark.parametrize("mode", ["uniform", "error", "gp"])
def test_a_search_goes_on(mode: str) -> None:
    config = settings(mode, n=4 if mode == "gp" else 30)
    first = search(table(), config)
    memory = there_and_back(first.memory)
    second = search(table(), config, memory=memory)
    assert second.best.bits <= first.best.bits
    assert second.notes == first.notes
    counted, before = second.statistics, first.statistics
    # Counters go on, and the limits are for what is done now.
    assert counted.n_closed == 2 * before.n_closed
    assert counted.n_nodes > before.n_nodes
    assert second.memory.seconds > first.memory.seconds
    times = [seconds for seconds, *_ in second.memory.statistics["history"]]
    assert times == sorted(times)
    assert second.memory.random != SearchMemory.from_dict(memory.to_dict()).random or (
        mode == "uniform"
    )


def test_the_tree_grows_on() -> None:
    first = search(table(), settings(n=60)).memory
    assert len(first.nodes) > 20
    idle = search(table(), settings(n=1), memory=first).memory
    old, new = ({(r.parent, r.code): r for r in one.records()} for one in (first, idle))
    # The tree comes back whole; one round more has visited some of it again.
    assert set(old) <= set(new)
    root_before, root_after = old[-1, -1], new[-1, -1]
    assert root_after.visits > root_before.visits
    grown = [key for key in old if new[key].visits > old[key].visits]
    assert 0 < len(grown) < len(old)
    for key in set(old) - set(grown):
        assert new[key].total == old[key].total


def test_states_are_not_closed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    from sr4mdl.search import readout

    closed: list[object] = []
    quick = readout.Readout.quick

    def noting(self: readout.Readout, state: object) -> object:
        closed.append(state.key)  # type: ignore[attr-defined]
        return quick(self, state)  # type: ignore[arg-type]

    monkeypatch.setattr(readout.Readout, "quick", noting)
    memory = search(table(), settings(n=40)).memory
    n_first = len(closed)
    search(table(), settings(n=40), memory=memory)
    assert n_first > 10
    assert not set(closed[:n_first]) & set(closed[n_first:])


def test_other_data_or_settings_keep_the_formulas_only() -> None:
    first = search(table(), settings())
    changed = search(table(noise=0.01), settings(), memory=first.memory)
    assert "not the same as in the earlier search: the table;" in changed.notes[-1]
    assert changed.statistics.n_quick <= 31
    other = search(
        table(), settings(max_length=40, random_state=1), memory=first.memory
    )
    assert "search: random_state, max_length;" in other.notes[-1]
    assert other.best.bits <= first.best.bits
    # Formulas of columns that are not there any more are left out.
    fewer = Dataset.from_arrays(table().X[:, :1], table().y, ["a"])
    assert search(fewer, settings(n=1), memory=first.memory).best.expression.variables


def test_formulas_that_are_not_allowed_any_more_are_out() -> None:
    memory = search(table(), settings()).memory
    again = search(table(), settings(max_length=1), memory=memory)
    assert all(one.length == 1 for one in (again.best, *again.front))


def test_only_the_most_visited_nodes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(table(), settings(n=60)).memory
    monkeypatch.setattr(memories, "MAX_NODES", 10)
    part = search(table(), settings(n=60)).memory
    assert 1 < len(part.nodes) <= 10 < len(whole.nodes)
    least = min(record.visits for record in part.records())
    visits = sorted(record.visits for record in whole.records())
    assert least >= visits[-30]
    assert there_and_back(part)


def test_lines_of_nodes() -> None:
    record = NodeRecord(0, 17, 0.25, 3, 4, 1.5, 0.75, math.inf, 0.0, 0.5, 1)
    assert record.to_line() == "0 17 0.25 3 4 1.5 0.75 inf 0 0.5 1"
    assert NodeRecord.from_line(record.to_line()) == record
    with pytest.raises(ValueError, match="needs 11 numbers"):
        NodeRecord.from_line("1 2 3")
    for tier in ("4", "-1"):
        with pytest.raises(ValueError, match=f"must be 0 to 3, got {tier}"):
            NodeRecord.from_line(f"0 17 0.25 3 4 1.5 0.75 inf 0 0.5 {tier}")


def test_tiers_mean_in_files_what_they_meant_before() -> None:
    # Files from before there was a medium tier say 2 for a full closing.
    for tier, stored in ((UNCLOSED, "0"), (QUICK, "1"), (FULL, "2"), (MEDIUM, "3")):
        record = NodeRecord(0, 17, 0.25, 3, 4, 1.5, 0.75, 2.0, 0.0, 0.5, tier)
        assert record.to_line().split()[-1] == stored
        assert NodeRecord.from_line(record.to_line()).tier == tier


def test_a_full_closing_put_off_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from sr4mdl.search import readout

    full = readout.Readout.full
    closed: list[object] = []

    def noting(self: readout.Readout, state: object, *rest: object) -> object:
        closed.append(state.key)  # type: ignore[attr-defined]
        return full(self, state, *rest)  # type: ignore[arg-type]

    with monkeypatch.context() as put_off:
        put_off.setattr(readout.Readout, "full", lambda *_: None)
        memory = search(table(), settings(n=20)).memory
    root = next(memory.records())
    assert root.tier == QUICK
    monkeypatch.setattr(readout.Readout, "full", noting)
    # A round closes up to five states, and every sixteenth closes one in full.
    again = search(table(), settings(n=100), memory=memory).memory
    assert next(again.records()).tier == FULL
    assert len(closed) == len(set(closed)) > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nodes", ["1 1 1 1 1 1 1 1 1 1 1"]),
        ("nodes", ["text"]),
        ("nodes", "text"),
        ("formulas", ["a +"]),
        ("statistics", {"history": []}),
        ("random", {"bit_generator": "other"}),
        ("seconds", "long"),
    ],
)
def test_damaged_memories_are_refused(name: str, value: object) -> None:
    memory = search(table(), settings(n=2)).memory.to_dict()
    with pytest.raises((KeyError, TypeError, ValueError)):
        SearchMemory.from_dict({**memory, name: value})


def test_moves_that_are_not_there_are_skipped() -> None:
    memory = search(table(), settings()).memory
    lines = list(memory.nodes)
    lines[1] = NodeRecord(0, 10**6, 1.0, 1, 1, 1.0, 1.0, 1.0, 0.0, 1.0, 0).to_line()
    damaged = replace(memory, nodes=tuple(lines))
    assert search(table(), settings(n=3), memory=damaged).memory.nodes


def test_stores_come_every_few_seconds() -> None:
    now = [0.0]
    budget = Budget(None, 10, clock=lambda: now[0])
    stored: list[float] = []

    def store(_: object) -> None:
        stored.append(now[0])
        now[0] += 0.5  # a slow disk: 5 % of the time at most

    keep = Keeper(lambda: None, store, budget)  # type: ignore[arg-type, return-value]
    for now[0] in [0.0, 0.9, 1.1, 3.0, 11.5, 11.7]:
        keep()
    assert stored == [1.1, 11.7]


def test_a_search_stores_what_it_knows() -> None:
    stored: list[SearchMemory] = []
    config = replace(settings(n=10_000), max_time=2.5)
    result = search(table(), config, store=stored.append)
    assert len(stored) == 1
    assert set(stored[0].formulas) & set(result.memory.formulas)
    assert there_and_back(stored[0]).nodes


def test_data_of_extreme_size_go_on_too() -> None:
    small = table(noise=0.05)
    assert small.y is not None
    huge = Dataset.from_arrays(small.X * 1e200, small.y * 1e-100, small.names)
    stored: list[SearchMemory] = []
    config = replace(settings(n=10_000), max_time=2.5)
    first = search(huge, config, store=stored.append)
    # Formulas are in the units of the data.
    best = evaluate_one(parse(stored[-1].formulas[0]), huge.X, huge.names)
    assert huge.y is not None
    assert np.std(best - huge.y) < 1.01 * np.std(huge.y)
    second = search(huge, config, memory=there_and_back(first.memory))
    assert "searched in other units" in second.notes[-1]
    assert not any("not the same" in note for note in second.notes)
    assert second.statistics.n_nodes > first.statistics.n_nodes
    # A shorter code may be one that fits a little less.
    assert second.best.bits <= first.best.bits + 1e-6
