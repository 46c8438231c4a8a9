"""The commands fit, predict and examples: what people type, and what goes wrong."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sr4mdl import Dataset, SymbolicRegressor, evaluate_one, parse
from sr4mdl.cli import main
from sr4mdl.examples_command import EXAMPLES, example_csv

ROOT = Path(__file__).parents[1]
QUICK = ["--mode", "uniform", "--time", "5"]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = "".join(f"{x},{7 - x},{2 * x * x}\n" for x in range(1, 21))
    return write(tmp_path / "data.csv", f"x,z,y\n{rows}")


def run(
    arguments: list[Any], capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as error:  # argparse ends the program by itself
        code = int(str(error.code))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_fit_prints_and_writes(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "run"
    code, text, progress = run(
        ["fit", data, "--target", "y", "--out", out, *QUICK], capsys
    )
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == "y = 2*x^2"
    assert [line.split()[0] for line in lines[1:7]] == [
        "R2", "error", "bits", "left", "runner-up", "ended",
    ]  # fmt: skip
    assert lines[4] == "left over  it leaves nothing but round-off"
    assert "bits, R2" in progress
    names = sorted(path.name for path in out.iterdir())
    assert names == ["equations.csv", "report.html", "result.json"]
    result = json.loads((out / "result.json").read_text())
    assert result["targets"][0]["equations"][-1]["formula"] == "2*x^2"
    assert "2*x^2" in (out / "equations.csv").read_text()
    assert "<math" in (out / "report.html").read_text()
    # Once more into the same folder.
    assert run(["fit", data, "--target", "y", "--out", out, *QUICK], capsys)[0] == 0
    assert sorted(path.name for path in out.iterdir()) == names


def test_json_is_one_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["fit", data, "--target", "y", "--json", "--quiet", *QUICK]
    code, text, progress = run(command, capsys)
    assert code == 0
    assert progress == ""
    (line,) = text.splitlines()
    answer = json.loads(line)
    assert answer["formula"] == "2*x^2"
    assert answer["r2"] == 1.0
    assert answer["gap_bits"] > 0
    assert answer["files"] == []


def test_a_formula_that_may_fit_by_chance_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "few.csv", "x,y\n1,3\n2,5\n3,2\n4,7\n")
    _, text, _ = run(["fit", path, "--target", "y", *QUICK], capsys)
    assert text.splitlines()[-1].startswith("note       the formula takes ")
    _, text, _ = run(["fit", path, "--target", "y", "--json", *QUICK], capsys)
    (note,) = json.loads(text)["notes"]
    assert note.endswith("the 4 values of y themselves only 23: it may fit by chance")


def test_features_operators_and_length(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", data, "--target", "y", "--json", *QUICK]
    _, text, _ = run([*command, "--features", "z"], capsys)
    assert "x" not in json.loads(text)["formula"]
    _, text, _ = run([*command, "--max-length", "1"], capsys)
    assert json.loads(text)["length"] == 1
    _, text, _ = run([*command, "--operators", "add,mul"], capsys)
    assert json.loads(text)["formula"] in ("2*x^2", "2*x*x", "2*(x*x)")
    _, text, _ = run([*command, "--nesting", "mul:square=0,mul:mul=0"], capsys)
    assert json.loads(text)["formula"] not in ("2*x^2", "2*x*x", "2*(x*x)")
    _, text, _ = run([*command, "--noise", "1000"], capsys)
    assert json.loads(text)["length"] == 1
    _, text, _ = run([*command, "--jobs", "2"], capsys)
    assert json.loads(text)["formula"] == "2*x^2"
    _, text, _ = run([*command, "--validation", "0.5", "--seed", "4"], capsys)
    assert json.loads(text)["formula"] == "2*x^2"


JSON_LINES = "".join(
    json.dumps({"x": x, "y": 3 * x, "unit": 1.5}) + "\n" for x in range(1, 15)
)


def test_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "data.jsonl", JSON_LINES + "\n")
    code, text, progress = run(["fit", path, "--target", "y", *QUICK], capsys)
    assert code == 0
    assert text.startswith("y = 3*x\n")
    assert "note: constant columns: 'unit'" in progress


def test_tsv_parquet_and_other_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "x\ty\n" + "".join(f"{x}\t{3 * x}\n" for x in range(1, 15))
    for path, more in (
        (write(tmp_path / "data.tsv", table), []),
        (write(tmp_path / "data.txt", table), ["--format", "tsv"]),
    ):
        code, text, _ = run(["fit", path, "--target", "y", *QUICK, *more], capsys)
        assert (code, text.splitlines()[0]) == (0, "y = 3*x")
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    x = np.arange(1.0, 15.0)
    parquet.write_table(pyarrow.table({"x": x, "y": 3 * x}), tmp_path / "d.parquet")
    code, text, _ = run(
        ["fit", tmp_path / "d.parquet", "--target", "y", *QUICK], capsys
    )
    assert (code, text.splitlines()[0]) == (0, "y = 3*x")


@pytest.mark.parametrize("file_format", [None, "jsonl"])
def test_standard_input(
    file_format: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = JSON_LINES
    if file_format is None:
        text = "x,y\n" + "".join(f"{x},{3 * x}\n" for x in range(1, 15))
    stream = io.TextIOWrapper(io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stream)
    more = [] if file_format is None else ["--format", file_format]
    code, printed, _ = run(["fit", "-", "--target", "y", *QUICK, *more], capsys)
    assert (code, printed.splitlines()[0]) == (0, "y = 3*x")


def test_parquet_from_a_pipe(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    x = np.arange(1.0, 15.0)
    parquet.write_table(pyarrow.table({"x": x, "y": 3 * x}), tmp_path / "d.parquet")
    command = [sys.executable, "-m", "sr4mdl", "fit", "-", "--format", "parquet"]
    result = subprocess.run(
        [*command, "--target", "y", "--quiet", *QUICK],
        input=(tmp_path / "d.parquet").read_bytes(),
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(b"y = 3*x\n")


def test_more_columns_than_rows_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "wide.csv", "a,b,c,y\n1,2,5,3\n2,4,1,6\n")
    code, _, progress = run(["fit", path, "--target", "y", *QUICK], capsys)
    assert code == 0
    assert "note: more columns (3) than rows (2)" in progress


def test_nameless_columns_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{n},{x},{3 * x},\n" for n, x in enumerate(range(1, 15)))
    path = write(tmp_path / "index.csv", ",x,y,\n" + rows)
    code, text, progress = run(["fit", path, "--target", "y", *QUICK], capsys)
    assert code == 0
    assert text.startswith("y = 3*x\n")
    assert "note: left out, for want of a name: column 1, 4" in progress


def test_a_fit_of_plain_arrays_goes_on(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X = np.linspace(1.0, 3.0, 20).reshape(-1, 1)
    model = SymbolicRegressor(max_time=2.0, random_state=0).fit(X, 3.0 * X[:, 0])
    model.save(tmp_path / "result.json")
    rows = "".join(f"{x!r},{3.0 * x!r}\n" for x in X[:, 0].tolist())
    path = write(tmp_path / "plain.csv", "x0,y\n" + rows)
    code, text, _ = run(["fit", path, "--resume", tmp_path, *QUICK], capsys)
    assert code == 0
    assert text.startswith("y = 3*x0\n")


def test_columns_with_letters_that_a_console_lacks(tmp_path: Path) -> None:
    path = write(tmp_path / "theta.csv", "\u03b8,y\n1,3\n2,6\n3,9\n5,15\n")
    result = subprocess.run(
        [sys.executable, "-m", "sr4mdl", "fit", str(path), "--target", "y", "--quiet"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "cp1252"},
        check=True,
    )
    assert result.stdout.startswith(b"y = 3*`\\u03b8`")


BAD_TABLES = {
    "text column": ("x,y\na,1\nb,2\n", "not a number: 'a'"),
    "missing number": ("x,y\n1,\n2,2\n", "rows hold numbers that are missing"),
    "infinite number": ("x,y\n1,inf\n2,2\n", "1 infinite"),
    "empty file": ("", "no header"),
    "no rows": ("x,y\n", "no rows below the header"),
    "one row": ("x,y\n1,2\n", "the table has one row; at least 2"),
    "constant target": ("x,y\n1,2\n2,2\n", "'y' is 2 in every row"),
    "wrong column": ("x,z\n1,2\n2,3\n", "has no column 'y'; its columns are"),
    "only the target": ("y\n1\n2\n", "no column besides the target"),
    "ragged": ("x,y\n1,2,3\n", "3 cells, but the header names 2"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = BAD_TABLES[case]
    path = write(tmp_path / "data.csv", text)
    out = tmp_path / "out"
    code, printed, error = run(
        ["fit", path, "--target", "y", "--out", out, *QUICK], capsys
    )
    _check_refusal(code, printed, error, message)
    assert not out.exists()


def _check_refusal(code: int, printed: str, error: str, message: str) -> None:
    assert code == 2
    assert printed == ""
    assert message in error
    assert "Traceback" not in error
    (line,) = [line for line in error.splitlines() if "error:" in line]
    assert line.startswith("sr4mdl fit: error: ")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "no rows"),
        ('{"x": 1, "y": 2}\n{"x": "a", "y": 3}\n', "column 'x' must hold numbers"),
        ("{\n", "line 1: not JSON"),
        ("[1, 2]\n", "must be a JSON object"),
        ('{"x": 1, "y": 2}\n{"x": 1}\n', "'y' 1 NaN"),
    ],
)
def test_bad_json_lines(
    lines: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "data.jsonl", lines)
    _check_refusal(*run(["fit", path, "--target", "y", *QUICK], capsys), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.csv", "--target", "y"], "No such file"),
        (["DATA"], "required: --target"),
        (["DATA", "--target", "yy"], "did you mean 'y'?"),
        (["DATA", "--target", "y", "--features", "x,w"], "has no column 'w'"),
        (["DATA", "--target", "y", "--features", "y"], "also among the features"),
        (["DATA", "--target", "y", "--features", "x,,z"], "names with commas"),
        (["DATA", "--target", "y", "--operators", "add,plus"], "operator 'plus'"),
        (["DATA", "--target", "y", "--nesting", "sin"], "entries like sin:sin=0"),
        (["DATA", "--target", "y", "--nesting", "sin:sin=-1"], "entries like"),
        (["DATA", "--target", "y", "--nesting", "sin:sine=0"], "operator 'sine'"),
        (["DATA", "--target", "y", "--time", "0"], "a finite number above 0"),
        (["DATA", "--target", "y", "--time", "soon"], "must be a number"),
        (["DATA", "--target", "y", "--seed", "-1"], "whole number of 0 or more"),
        (["DATA", "--target", "y", "--max-length", "x"], "whole number of 1 or more"),
        (["DATA", "--target", "y", "--jobs", "0"], "whole number of 1 or more"),
        (["DATA", "--target", "y", "--validation", "1"], "below 1"),
        (["DATA", "--target", "y", "--validation", "0.99"], "rows to search on"),
        (["DATA", "--target", "y", "--guide", "DATA"], "not a usable ONNX file"),
        (["DATA", "--target", "y", "--guide", "none.onnx"], "none.onnx"),
        (
            ["DATA", "--target", "y", "--guide", "a.onnx", "--mode", "gp"],
            "mode 'gp' uses no network",
        ),
        (["DATA", "--target", "y", "--mode", "magic"], "invalid choice: 'magic'"),
        (["DATA", "--target", "y", "--format", "parquet"], "not a Parquet file"),
        (["DATA", "--target", "y", "--out", "DATA"], "is not a folder"),
        (["DATA", "--target", "y", "--out", "DATA/deep"], "is not a folder"),
        (["FOLDER", "--target", "y"], "error:"),
    ],
)
def test_bad_arguments(
    arguments: list[str],
    message: str,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [
        text.replace("DATA", str(data)).replace("FOLDER", str(tmp_path))
        for text in arguments
    ]
    code, printed, error = run(["fit", *filled], capsys)
    _check_refusal(code, printed, error, message)
    assert list(tmp_path.iterdir()) == [data]


def test_folder_without_permission(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The superuser may write anywhere, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    command = ["fit", data, "--target", "y", "--out", tmp_path / "out", *QUICK]
    _check_refusal(*run(command, capsys), "no permission to write in")


def test_a_full_disk_leaves_no_files_but_the_answer_is_told(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    out = tmp_path / "out"
    command = ["fit", data, "--target", "y", "--out", out, *QUICK]
    code, printed, error = run(command, capsys)
    assert printed.startswith("y = 2*x^2\n")
    _check_refusal(code, "", error, "No space left on device")
    assert list(out.iterdir()) == []


def test_interrupt_keeps_the_best_so_far(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4))
    text = "a,b,c,y\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    path = write(tmp_path / "noise.csv", text)
    out = tmp_path / "out"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "sr4mdl", "fit", str(path), "--target", "y",
            "--mode", "uniform", "--time", "60", "--out", str(out),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Background jobs of a shell ignore Ctrl-C, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    first = process.stderr.readline()  # the search is under way
    assert "bits" in first
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    printed, error = process.communicate(timeout=40)
    assert process.returncode == 130, error
    assert printed.startswith("y = ")
    assert "Traceback" not in error
    assert error.splitlines()[-1] == (
        "sr4mdl fit: interrupted; this is the best formula so far"
    )
    names = sorted(one.name for one in out.iterdir())
    assert names == ["equations.csv", "report.html", "result.json"]
    result = json.loads((out / "result.json").read_text())
    assert result["targets"][0]["stop_reason"] == "interrupted"


@pytest.mark.parametrize(
    "moment",
    [
        "sr4mdl.cli._build_parser",
        "sr4mdl.fit_command.read_table",
        "sr4mdl.regressor.estimator.run_searches",
        "sr4mdl.search.judge.Judge.verdict",
        "sr4mdl.regressor.estimator.make_outcome",
        "sr4mdl.report.make_report",
        "sr4mdl.regressor.saving.to_text",
        "sr4mdl.regressor.saving.token_hex",
        "os.fsync",
        "pathlib.Path.replace",
    ],
)
def test_interrupt_at_other_moments(
    moment: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(moment, interrupt)
    out = tmp_path / "out"
    code, printed, error = run(
        ["fit", data, "--target", "y", "--out", out, "--quiet", *QUICK], capsys
    )
    assert (code, printed) == (130, "")
    assert error.splitlines()[-1].endswith(": interrupted")
    assert "Traceback" not in error
    assert not out.exists() or list(out.iterdir()) == []


# resume


def noisy_table(folder: Path) -> Path:
    rng = np.random.default_rng(3)
    X = rng.uniform(0.5, 3.0, (80, 3))
    y = np.sin(X[:, 0] * X[:, 1]) / (1.0 + X[:, 2] ** 3) + rng.normal(0.0, 0.05, 80)
    rows = "".join(
        ",".join(map(repr, map(float, row))) + "\n" for row in np.column_stack([X, y])
    )
    return write(folder / "noisy.csv", f"a,b,c,y\n{rows}")


def best_bits(path: Path) -> float:
    (target,) = json.loads(path.read_text())["targets"]
    return float(target["equations"][target["best"]]["bits"])


def test_a_killed_search_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = noisy_table(tmp_path), tmp_path / "out"
    command = ["fit", path, "--target", "y", "--mode", "uniform", "--out", out]
    process = subprocess.Popen(
        [sys.executable, "-m", "sr4mdl", *map(str, command), "--time", "60"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    checkpoint = out / "checkpoint.json"
    deadline = time.monotonic() + 50.0
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.wait(timeout=10)
    assert [one.name for one in out.iterdir()] == ["checkpoint.json"]
    before = best_bits(checkpoint)
    (target,) = json.loads(checkpoint.read_text())["targets"]
    assert target["stop_reason"] == "unfinished"
    code, printed, _ = run(["predict", checkpoint, path], capsys)
    assert code == 0
    assert len(printed.splitlines()) == 81

    # Neither target nor mode nor seed need be said again.
    command = ["fit", path, "--resume", out, "--time", "2", "--quiet"]
    code, _, error = run(command, capsys)
    assert code == 0, error
    names = sorted(one.name for one in out.iterdir())
    assert names == ["equations.csv", "report.html", "result.json"]
    first = best_bits(out / "result.json")
    assert first <= before
    statistics = [target["statistics"]]
    for _ in range(2):
        result = json.loads((out / "result.json").read_text())
        assert result["parameters"]["mode"] == "uniform"
        assert not result["targets"][0]["notes"]
        statistics.append(result["targets"][0]["statistics"])
        code, _, error = run(command, capsys)
        assert code == 0, error
    assert best_bits(out / "result.json") <= first
    for earlier, later in itertools.pairwise(statistics):
        assert later["n_nodes"] > earlier["n_nodes"]
        assert later["n_quick"] > earlier["n_quick"]


def test_resumed_on_another_table(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["fit", data, "--target", "y", "--quiet", *QUICK]
    assert run([*command, "--out", out], capsys)[0] == 0
    more = write(tmp_path / "more.csv", data.read_text() + "30,1,1800\n")
    there = tmp_path / "there"
    command = ["fit", more, "--resume", out, "--out", there, "--json", "--quiet"]
    code, printed, _ = run(command, capsys)
    assert code == 0
    assert json.loads(printed)["formula"] == "2*x^2"
    (target,) = json.loads((there / "result.json").read_text())["targets"]
    assert "not the same as in the earlier search: the table" in target["notes"][-1]


def test_what_cannot_be_resumed(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", data, "--resume", tmp_path / "out"]
    _check_refusal(*run(command, capsys), "no checkpoint.json and no result.json")
    started = ["fit", data, "--target", "y", "--quiet", *QUICK]
    assert run([*started, "--out", tmp_path / "out"], capsys)[0] == 0
    other = [*command, "--target", "z"]
    _check_refusal(*run(other, capsys), "was for 'y', not for 'z'")
    write(tmp_path / "out" / "checkpoint.json", "{}")
    _check_refusal(*run(command, capsys), "is not a result of sr4mdl")


def test_a_checkpoint_that_cannot_be_written_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(contents: dict[Path, str]) -> None:
        if any(path.name == "checkpoint.json" for path in contents):
            raise OSError(28, "No space left on device")
        real(contents)

    from sr4mdl.regressor import saving

    real = saving.write_files
    monkeypatch.setattr(saving, "write_files", full)
    command = ["fit", noisy_table(tmp_path), "--target", "y", "--quiet"]
    command += ["--mode", "uniform", "--time", "2", "--out", tmp_path / "out"]
    code, printed, error = run(command, capsys)
    assert code == 0
    assert printed.startswith("y = ")
    assert error == (
        "sr4mdl fit: warning: no checkpoint could be written: "
        "[Errno 28] No space left on device\n"
    )


# predict


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    rows = "".join(f"{x},{7 - x},{x**0.5}\n" for x in range(1, 21))
    path = write(folder / "data.csv", f"x,z,y\n{rows}")
    command = ["fit", str(path), "--target", "y", "--out", str(folder), "--quiet"]
    assert main([*command, *QUICK]) == 0
    return folder / "result.json"


def test_predict(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The column that the formula does not use is not needed; text in others is no harm.
    data = write(tmp_path / "new.csv", "name,x\na,4\nb,9\n")
    code, text, _ = run(["predict", result, data], capsys)
    assert (code, text) == (0, "y\n2.0\n3.0\n")
    out = tmp_path / "deep" / "values.csv"
    code, text, _ = run(["predict", result, data, "--out", out], capsys)
    assert (code, text, out.read_text()) == (0, "", "y\n2.0\n3.0\n")
    code, text, _ = run(["predict", result, data, "--equation", "0"], capsys)
    assert code == 0
    assert len(set(text.splitlines()[1:])) == 1


def test_predict_outside_the_domain(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(tmp_path / "new.csv", "x\n-1\n9\n")
    code, text, error = run(["predict", result, data], capsys)
    assert (code, text) == (0, "y\nnan\n3.0\n")
    assert "undefined for 1 of 2 rows" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.json", "DATA"], "No such file"),
        (["DATA", "DATA"], "is not JSON"),
        (["RESULT", "nothing.csv"], "No such file"),
        (["RESULT", "DATA"], "has no column 'x'"),
        (["RESULT", "DATA", "--equation", "99"], "--equation must be 0 to"),
        (["RESULT", "DATA", "--out", "FOLDER"], "is a folder, not a file"),
    ],
)
def test_bad_predictions(
    arguments: list[str],
    message: str,
    result: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = write(tmp_path / "new.csv", "w\n1\n2\n")
    places = {"DATA": data, "RESULT": result, "FOLDER": tmp_path}
    filled = [str(places.get(text, text)) for text in arguments]
    code, printed, error = run(["predict", *filled], capsys)
    assert (code, printed) == (2, "")
    assert message in error
    assert len(error.splitlines()) == 1


# examples


def test_examples_are_listed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = run(["examples"], capsys)
    assert code == 0
    for example in EXAMPLES:
        assert f"{example.name} " in text
    code, text, _ = run(["examples", "all", "--out", tmp_path / "new"], capsys)
    assert code == 0
    written = sorted(path.stem for path in (tmp_path / "new").iterdir())
    assert written == sorted(example.name for example in EXAMPLES)
    code, _, error = run(["examples", "pendulums"], capsys)
    assert code == 2
    assert "no example 'pendulums'; there are pendulum" in error


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_shipped_examples_are_those_of_the_command(example: Any) -> None:
    shipped = ROOT / "examples" / f"{example.name}.csv"
    head, *rows = shipped.read_text().splitlines()
    assert head == ",".join(example.columns)
    numbers = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    made = np.array(
        [
            [float(cell) for cell in row.split(",")]
            for row in example_csv(example).splitlines()[1:]
        ]
    )
    # Another machine may round the last digit of a sine otherwise.
    np.testing.assert_allclose(made, numbers, rtol=1e-9, atol=1.1e-3)


@pytest.mark.parametrize(
    ("name", "target", "law"),
    [
        ("pendulum", "period", "2*pi*sqrt(length/gravity)"),
        ("kepler", "period", "axis^1.5"),
    ],
)
def test_laws_are_found(
    name: str, target: str, law: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "examples" / f"{name}.csv"
    command = ["fit", path, "--target", target, "--json", "--quiet", "--time", "3"]
    code, text, _ = run([*command, "--mode", "uniform"], capsys)
    assert code == 0
    data = Dataset.from_file(path, target)
    found = parse(json.loads(text)["formula"])
    np.testing.assert_allclose(
        evaluate_one(found, data.X, data.names),
        evaluate_one(parse(law), data.X, data.names),
        rtol=1e-12,
    )
