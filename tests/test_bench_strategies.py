"""The panel of training strategies: its plan, and that nothing is done twice."""

import json

import pytest

torch = pytest.importorskip("torch")

from sr4mdl.bench.strategies import (  # noqa: E402
    STRATEGIES,
    measure_strategies,
    train_arguments,
)
from sr4mdl.errors import Sr4mdlError  # noqa: E402
from sr4mdl.mdlformer.checkpoint import load_model  # noqa: E402

TINY = "--preset tiny-tokens --data toy --device cpu --batch-size 16 --rows 8 --quiet"


def test_the_plan_is_the_papers(tmp_path):
    """A thousand rounds of 1,024, the first half of *sequential* for alignment."""
    arguments = train_arguments("sequential", 3, 1000, "uniform", [], tmp_path)
    assert (arguments.preset, arguments.strategy) == ("paper", "sequential")
    assert arguments.total_samples == 1_024_000
    assert arguments.align_share == 0.5
    assert arguments.seed == 3
    assert arguments.data_option == ["formula_constants=uniform"]
    given = ["--batch-size", "8", "--align-share", "0.25"]
    arguments = train_arguments("sequential", 0, 10, "decades", given, tmp_path)
    assert arguments.data_option == ["formula_constants=decades"]
    assert (arguments.total_samples, arguments.align_share) == (80, 0.25)


def measured(tmp_path, calls, **changes):
    def measure(path):
        calls.append(path.name)
        return {"rmse": float(load_model(path).card["samples"])}

    plan = {
        "rounds": 4, "n_seeds": 2, "given": TINY, "constants": "uniform",
        "pairs": {"rows": 16}, **changes,
    }  # fmt: skip
    return measure_strategies(tmp_path, measure=measure, **plan)


def test_every_strategy_is_trained_once(tmp_path):
    calls = []
    records = measured(tmp_path, calls)
    assert [(one["strategy"], one["seed"]) for one in records] == [
        (strategy, seed) for seed in (0, 1) for strategy in STRATEGIES
    ]
    assert {one["rmse"] for one in records} == {64.0}
    assert len(calls) == 6
    for strategy in STRATEGIES:
        training = load_model(tmp_path / f"{strategy}-1").card["training"]
        assert training["schedule"]["strategy"] == strategy
        assert training["seed"] == 1
    (tmp_path / "concurrent-1.json").unlink()
    again = measured(tmp_path, calls)
    assert again[:4] + again[5:] == records[:4] + records[5:]
    assert calls[6:] == ["concurrent-1"]
    for change in ({"rounds": 5}, {"constants": "decades"}, {"pairs": {"rows": 17}}):
        with pytest.raises(Sr4mdlError, match="of another plan, give another folder"):
            measured(tmp_path, calls, **change)


def test_a_training_that_was_stopped_is_not_measured(tmp_path):
    calls = []
    with pytest.raises(Sr4mdlError, match="sequential-0 was stopped"):
        measured(tmp_path, calls, given=f"{TINY} --max-samples 16")
    assert calls == []
    assert not list(tmp_path.glob("*.json"))


def test_the_panel_of_the_command(tmp_path, capsys):
    from sr4mdl.cli import main

    output = tmp_path / "strategy.json"
    arguments = ["bench", "mdlformer", "--pairs", "8", "--rows", "16"]
    arguments += ["--panels", "strategy", "--rounds", "2", "--train", TINY]
    arguments += ["--keep", str(tmp_path / "kept"), "--output", str(output)]
    assert main(arguments) == 0
    records = json.loads(output.read_text())["panels"]["strategy"]
    assert [record["strategy"] for record in records] == list(STRATEGIES)
    shown = capsys.readouterr().out
    for record in records:
        assert f"strategy {record['strategy']}: RMSE {record['rmse']:.2f}" in shown


def test_bad_arguments_are_named_before_any_work(tmp_path, capsys):
    from sr4mdl.cli import main

    assert main(["bench", "mdlformer", "--panels", "rows,strategies"]) != 0
    assert "--panels: must be of rows, noise" in capsys.readouterr().err
    with pytest.raises(Sr4mdlError, match="--rounds: must be at least 2, got 1"):
        measured(tmp_path, [], rounds=1)
