"""Fitted regressors as JSON: there and back, old files, damaged files."""

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sr4mdl import DataError, Dataset, SymbolicRegressor, evaluate_one
from sr4mdl.regressor.saving import from_result, write_files

GOLDEN = Path(__file__).parent / "golden" / "result_1.json"


def fit(**changes: Any) -> SymbolicRegressor:
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 2.0, (40, 2))
    settings = {"mode": "uniform", "max_time": 10.0, "random_state": 3, **changes}
    return SymbolicRegressor(**settings).fit(X, X[:, 0] / X[:, 1])


def test_there_and_back(tmp_path: Path) -> None:
    model = fit(operators=("div", "mul", "add"), constants=(9.81,), validation=0.25)
    path = tmp_path / "model.json"
    model.save(path)
    again = SymbolicRegressor.load(path)
    assert again.get_params() == model.get_params()
    assert again.outcomes_ == model.outcomes_
    assert again.equations_ == model.equations_
    X = np.array([[1.0, 3.0], [2.0, 5.0]])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.explain() == model.explain()
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_no_limit_of_time_is_kept(tmp_path: Path) -> None:
    model = fit(max_time=None, max_evaluations=2)
    model.save(tmp_path / "model.json")
    assert SymbolicRegressor.load(tmp_path / "model.json").max_time is None


def test_several_targets_and_numbers_that_are_not_finite(tmp_path: Path) -> None:
    X = np.linspace(1.0, 2.0, 20).reshape(-1, 1)
    Y = np.column_stack([np.full(20, 0.1), 2.0 * X[:, 0]])
    model = SymbolicRegressor(mode="uniform", max_time=5.0).fit(X, Y)
    outcome = model.outcomes_[0]
    assert all(math.isfinite(one.bits) for one in outcome.equations)
    model.save(tmp_path / "model.json")
    again = SymbolicRegressor.load(tmp_path / "model.json")
    assert again.predict(X).shape == (20, 2)
    assert again.outcomes_ == model.outcomes_


def test_a_search_goes_on_from_a_file(tmp_path: Path) -> None:
    model = fit()
    model.save(tmp_path / "model.json")
    again = SymbolicRegressor.load(tmp_path / "model.json")
    again.set_params(warm_start=True, max_evaluations=1, early_stop=False)
    again.set_params(search_options={"families": "linear"})
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 2.0, (40, 2))
    again.fit(X, X[:, 0] / X[:, 1])
    assert again.best_.formula == model.best_.formula == "x0/x1"


def test_the_tree_goes_on_from_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(1.0, 2.0, (60, 2))
    y = np.sin(3.0 * X[:, 0]) * X[:, 1] + rng.normal(0.0, 0.1, 60)
    model = SymbolicRegressor(
        mode="uniform", max_time=None, max_evaluations=12, validation=0.2
    )
    bits = [model.fit(X, y).best_.bits]
    n_nodes = [model.statistics_["n_nodes"]]
    for _ in range(2):
        model.save(tmp_path / "model.json")
        model = SymbolicRegressor.load(tmp_path / "model.json")
        # The seed was drawn; it is remembered, so that rows and split are the same.
        model.set_params(warm_start=True, max_evaluations=4).fit(X, y)
        assert not model.outcomes_[0].notes
        bits.append(model.best_.bits)
        n_nodes.append(model.statistics_["n_nodes"])
    assert bits == sorted(bits, reverse=True)
    assert n_nodes[0] < n_nodes[1] < n_nodes[2]


def test_checkpoints_are_results(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(1.0, 2.0, (60, 2))
    data = Dataset.from_arrays(X, np.sin(3.0 * X[:, 0]) * X[:, 1] + rng.normal(size=60))
    path = tmp_path / "new" / "best.json"
    model = SymbolicRegressor(mode="uniform", max_time=2.5, random_state=0)
    model.fit_dataset(data, checkpoint=path)
    stored = SymbolicRegressor.load(path)
    assert stored.stop_reason_ == "unfinished"
    assert "cut off" in stored.explain()
    values = evaluate_one(stored.best_.expression, data.X, data.names)
    assert np.all(np.isfinite(values))
    assert stored.outcomes_[0].memory is not None
    assert [one.name for one in path.parent.iterdir()] == ["best.json"]


def test_files_of_version_1_are_read() -> None:
    model = SymbolicRegressor.load(GOLDEN)
    assert model.best_.formula == "2*pi*sqrt(length/gravity)"
    assert list(model.feature_names_in_) == ["length", "gravity", "mass"]
    values = model.predict(_frame([[1.0, 9.81, 3.0]]))
    assert values[0] == pytest.approx(2 * math.pi * math.sqrt(1 / 9.81), abs=1e-12)


def _frame(rows: list[list[float]]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(rows, columns=["length", "gravity", "mass"])


def golden() -> Any:
    return json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(format="other"), "is not a result of sr4mdl"),
        (lambda data: data.update(version=2), "has version 2; this sr4mdl reads 1"),
        (lambda data: data.pop("targets"), "is damaged: KeyError"),
        (lambda data: data.update(targets=[]), "no targets or no features"),
        (lambda data: data["targets"][0].update(best=77), "is damaged: IndexError"),
        (lambda data: data["targets"][0].update(best=-1), "is damaged: IndexError"),
        (
            lambda data: data["targets"][0]["equations"][0].update(error="much"),
            "is damaged: KeyError",
        ),
        (
            lambda data: data["targets"][0]["equations"][0]["expression"].update(
                nodes=[["unheard", 0]]
            ),
            "formula that is damaged",
        ),
    ],
)
def test_damaged_files(change: Any, message: str, tmp_path: Path) -> None:
    data = golden()
    change(data)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(data))
    with pytest.raises(DataError, match=message):
        SymbolicRegressor.load(path)


def test_what_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match="is not JSON"):
        SymbolicRegressor.load(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not JSON"):
        SymbolicRegressor.load(tmp_path / "b.json")
    with pytest.raises(DataError, match="is not a result"):
        from_result([], "it")


def test_files_are_written_in_full_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    write_files({first: "old", second: "old"})
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.txt", "b.txt"]
    calls = []

    def interrupt(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_files({first: "new", second: "new"})
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.txt", "b.txt"]
    assert first.read_text() == second.read_text() == "old"


def test_links_are_followed_and_pipes_written_to(tmp_path: Path) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "real.txt")
    write_files({link: "one"})
    assert link.is_symlink()
    assert (tmp_path / "real.txt").read_text() == "one"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_files({pipe: "two"})
    reader.join(10.0)
    assert found == ["two"]
    assert pipe.is_fifo()
