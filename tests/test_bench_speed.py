"""The speed suite on small work."""

import json
import sys
import time
from argparse import ArgumentParser

import pytest

from sr4mdl.bench import speed
from sr4mdl.bench.suite_command import BenchOptionError
from sr4mdl.cli import main


def test_the_best_of_the_rounds_counts():
    ticks = iter([0, 5, 10, 11, 20, 22, 30, 37])
    calls = []
    best = speed.best_seconds(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")},
        2,
        lambda: next(ticks),
    )
    assert best == {"a": 2, "b": 1}
    assert calls == ["a", "b"] * 3  # the first round warms up


def test_time_limit_ends_the_block():
    with pytest.raises(speed.OutOfTimeError), speed.time_limit(0.05):
        time.sleep(5)
    with speed.time_limit(5):
        pass
    time.sleep(0.01)


def test_evaluation_agrees_with_the_functions():
    result = speed.measure_evaluation(2, n_expressions=30, n_rows=20)
    assert result["ratio"] == pytest.approx(
        result["seconds_numpy_functions"] / result["seconds_program"]
    )
    assert result["share_equal"] > 0.99
    assert result["share_same_mask"] > 0.99


def test_simplify_is_timed_against_sympy():
    result = speed.measure_simplify(3, timeout=5.0)
    assert result["ratio"] > 1
    assert result["sympy_timeouts"] <= 3


def test_without_onnx_the_comparison_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "sr4mdl.mdlformer.onnx_export", raising=False)
    pytest.importorskip("torch")
    result = speed.measure_guide(1)
    assert result["states_per_s_1_thread"] > 0
    assert "sr4mdl[train]" in result["paper_missing"]
    assert "ratio_to_paper" not in result


@pytest.mark.slow
def test_whole_suite_is_one_json_line(tmp_path, capsys):
    pytest.importorskip("onnx")
    output = tmp_path / "speed.json"
    words = ["bench", "speed", "--parts", "guide,closing", "--repeats", "1"]
    assert main([*words, "--output", str(output), "--json"]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document == json.loads(output.read_text())
    # The default network is smaller in every way.
    assert document["guide"]["ratio_to_paper"] > 3
    for tier in ("quick", "medium", "full"):
        assert document["closing"][f"{tier}_candidates_per_s"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--parts", "magic"], "--parts"), (["--repeats", "0"], "--repeats")],
)
def test_wrong_options_are_refused(words, message):
    parser = ArgumentParser()
    speed.add_arguments(parser)
    with pytest.raises(BenchOptionError, match=message):
        speed.run(parser.parse_args(words))
