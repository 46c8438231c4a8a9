import gzip
import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import pytest

from sr4mdl.bench.command import COMMANDS, add_arguments
from sr4mdl.bench.suite_command import (
    BenchOptionError,
    choose_modes,
    find_data,
    read_noise,
)
from sr4mdl.errors import DataError

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def fakes_importable(monkeypatch):
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(TESTS), *([inherited] if inherited else [])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def bench(*words):
    parser = ArgumentParser()
    add_arguments(parser)
    arguments = parser.parse_args([str(word) for word in words])
    return arguments.run(arguments)


def test_suite_end_to_end_and_again(tmp_path, capsys):
    output = tmp_path / "rows.jsonl"
    words = ["classic", "--problems", "Keijzer-12,Nguyen-1", "--seeds", 2]
    words += ["--method", "bench_fakes:Product", "--mode", "other,plain"]
    words += ["--problems", "Neat-5", "--time", 1, "--jobs", 2, "--output", output]
    assert bench(*words, "--json") == 0
    captured = capsys.readouterr()
    summary = json.loads(captured.out.splitlines()[-1])
    assert summary["rows"] == summary["new_rows"] == 4
    assert summary["suite"] == "classic"
    assert {(g["mode"], g["n_runs"]) for g in summary["groups"]} == {
        ("plain", 2),
        ("other", 2),
    }
    assert "[4/4]" in captured.err
    assert bench(*words) == 0
    captured = capsys.readouterr()
    assert "0 runs to do, 4 done before" in captured.err
    assert "4 rows in" in captured.out
    assert len(output.read_text().splitlines()) == 4


def test_missing_data_sets_are_rows_and_named_in_the_summary(tmp_path, capsys):
    words = ["blackbox", "--problems", "1595_poker", "--method", "linear"]
    words += ["--data", tmp_path, "--output", tmp_path / "rows.jsonl", "--json"]
    assert bench(*words) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["missing_data"] == ["1595_poker"]
    assert summary["errors"] == 1
    assert summary["groups"] == []


def test_black_box_run_is_scaled_and_scored_in_units(tmp_path, capsys):
    rng = np.random.default_rng(1)
    X = rng.uniform(100, 900, size=(60, 2))
    folder = tmp_path / "1027_ESL"
    folder.mkdir()
    with gzip.open(folder / "1027_ESL.tsv.gz", "wt") as file:
        file.write("in1\tin2\ttarget\n")
        file.writelines(f"{a}\t{b}\t{3 * a - b + 7}\n" for a, b in X.tolist())
    words = ["blackbox", "--problems", "1027_ESL", "--method", "linear"]
    words += ["--data", tmp_path, "--output", tmp_path / "rows.jsonl"]
    assert bench(*words) == 0
    row = json.loads((tmp_path / "rows.jsonl").read_text())
    assert row["r2_test"] == pytest.approx(1.0)
    assert row["r2_test_formula"] == pytest.approx(1.0)
    assert row["recovered"] is None
    assert row["data_source"] == "PMLB file"
    assert "rows in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--noise", "a"], "--noise: 'a' is not a number"),
        (["--noise", "-1"], "must be 0 or more"),
        (["--noise", ""], "no level"),
        (["--time", "0"], "--time: must be above 0"),
        (["--seeds", "11"], "seeds must be from 1 to 10"),
        (["--jobs", "0"], "n_jobs must be at least 1"),
        (["--problems", "Nguyen-99"], "has no problem 'Nguyen-99'"),
        (["--method", "magic"], "method must be one of"),
        (
            ["--mode", "magic"],
            "no method has magic; allowed are all, closing, error, gp",
        ),
        (["--data", "/nowhere/at/all"], "no folder"),
        (["--rows", "1"], "--rows must be at least 8"),
    ],
)
def test_wrong_options_name_the_option(tmp_path, words, message):
    with pytest.raises(BenchOptionError, match=message):
        bench("classic", "--output", tmp_path / "rows.jsonl", *words)
    assert not (tmp_path / "rows.jsonl").exists()


def test_noise_levels():
    assert read_noise("0, 0.001,0.1") == [0.0, 0.001, 0.1]


def test_modes_are_chosen_per_method():
    assert choose_modes(["sr4mdl", "linear"], None) == [
        ("sr4mdl", "policy"),
        ("linear", "default"),
    ]
    assert choose_modes(["sr4mdl", "linear"], "uniform,mdl") == [
        ("sr4mdl", "uniform"),
        ("sr4mdl", "mdl"),
        ("linear", "default"),
    ]
    assert len(choose_modes(["sr4mdl"], "all")) == 6


def test_data_may_be_the_folder_above_the_tables(tmp_path):
    assert find_data(None) is None
    assert find_data(tmp_path) == tmp_path
    (tmp_path / "datasets").mkdir()
    assert find_data(tmp_path) == tmp_path / "datasets"


def test_report_command(tmp_path, capsys):
    words = ["classic", "--problems", "Neat-5", "--method", "bench_fakes:Product"]
    bench(*words, "--mode", "plain", "--output", tmp_path / "rows.jsonl")
    capsys.readouterr()
    assert bench("report", tmp_path / "rows.jsonl", "--out", tmp_path, "--json") == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["written"][0] == str(tmp_path / "report.md")
    assert bench("report", tmp_path / "rows.jsonl", "--out", tmp_path) == 0
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DataError, match="no rows"):
        bench("report", tmp_path / "empty.jsonl", "--out", tmp_path)


def test_a_command_may_have_an_option_called_suite(capsys):
    parser = ArgumentParser()
    add_arguments(parser)
    assert parser.parse_args(["guidance", "--suite", "classic"]).bench == "guidance"


def test_every_command_of_the_table_has_help(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as ending:
            bench(command.name, "--help")
        assert ending.value.code == 0
        assert "usage" in capsys.readouterr().out


def test_the_package_is_light_to_import():
    code = (
        "import sys, sr4mdl.bench.command as c; from argparse import ArgumentParser;"
        "p = ArgumentParser(); c.add_arguments(p); p.format_help();"
        "p.parse_args(['groundtruth', '--time', '5']);"
        "heavy = {'sklearn', 'sympy', 'scipy', 'matplotlib', 'pandas', 'torch',"
        "'onnxruntime', 'numba', 'rich', 'numpy'} & set(sys.modules);"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
