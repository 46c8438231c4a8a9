import hashlib
import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

import sr4mdl
from sr4mdl import cli
from sr4mdl.cli import COMMANDS, Command, UsageError, main

EXAMPLE = Path(__file__).parents[1] / "examples" / "pendulum.csv"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("x,t\n1,1\n4,2.5\n-1,0\n")
    return path


def configure_failing(parser: ArgumentParser) -> None:
    """A command that fails in the way that is asked for."""
    parser.add_argument("how")
    parser.set_defaults(run=fail)


def fail(arguments: Namespace) -> int:
    faults = {
        "usage": UsageError("no such thing\nas this"),
        "file": PermissionError(13, "Permission denied", "t.csv"),
        "interrupt": KeyboardInterrupt(),
        "bug": ZeroDivisionError("a fault of ours"),
    }
    raise faults[arguments.how]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "failing_command", sys.modules[__name__])
    row = Command("fail", "fail", "failing_command:configure_failing")
    monkeypatch.setattr(cli, "COMMANDS", (*COMMANDS, row))


def test_evaluate_by_hand(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    assert main(["evaluate", "sqrt(x)", str(table), "--target", "t"]) == 0
    # On the two rows that have a value: errors 0 and -0.5, spread 2 * 0.75^2.
    assert capsys.readouterr().out.splitlines() == [
        "formula  sqrt(x)",
        "length   2 symbols",
        "rows     3, of them 2 with a finite value",
        "rmse     0.353553",
        "R2       0.777777777778",
    ]


def test_evaluate_values(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    assert main(["evaluate", "sqrt(x)", str(table), "--values"]) == 0
    assert capsys.readouterr().out.split() == ["1.0", "2.0", "nan"]


def test_evaluate_without_target(
    capsys: pytest.CaptureFixture[str], table: Path
) -> None:
    assert main(["evaluate", "x/0", str(table)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "rows     3, of them 0 with a finite value"
    )


def test_evaluate_a_constant(capsys: pytest.CaptureFixture[str], table: Path) -> None:
    assert main(["evaluate", "1e200", str(table), "--target", "t"]) == 0
    assert "rmse     inf" in capsys.readouterr().out


def test_missing_rows_are_dropped_on_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,t\n1,1\n,2\n")
    arguments = ["evaluate", "x", str(path), "--target", "t"]
    assert main(arguments) == 2
    assert "missing='drop'" in capsys.readouterr().err
    assert main([*arguments, "--missing", "drop"]) == 0
    assert "note     1 of 2 rows dropped: 'x' 1 NaN" in capsys.readouterr().out


def test_the_shipped_example(capsys: pytest.CaptureFixture[str]) -> None:
    formula = "2*pi*sqrt(length/gravity)"
    assert main(["evaluate", formula, str(EXAMPLE), "--target", "period"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "rows     200, of them 200 with a finite value" in lines
    assert "R2       1" in lines


def test_simplify(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simplify", "x*x + 2*x*x"]) == 0
    shorter = sr4mdl.parse(capsys.readouterr().out)
    assert shorter.length < sr4mdl.parse("x*x + 2*x*x").length


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert f"sr4mdl {sr4mdl.__version__}\n" in out
    assert " cores\n" in out
    assert "numpy " in out
    assert "default.onnx\n" in out
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    weights = Path(facts["network"]["file"]).read_bytes()
    assert facts["network"]["sha256"] == hashlib.sha256(weights).hexdigest()
    assert facts["devices"][0].startswith("cpu, ")
    assert main(["info", "--network", "no.onnx"]) == 2
    assert "no.json does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "x +", "TABLE"], "found the end at position 3 of 'x +'"),
        (["evaluate", "z", "TABLE"], "no column 'z'"),
        (["evaluate", "t", "TABLE", "--target", "t"], "also among the features"),
        (["evaluate", "x", "no.csv"], "No such file or directory: 'no.csv'"),
        (["evaluate", "x", "t.xlsx"], "cannot tell the format"),
        (["simplify", "sin("], "at position 4"),
    ],
)
def test_faults_of_the_user_take_one_line(
    capsys: pytest.CaptureFixture[str], table: Path, arguments: list[str], message: str
) -> None:
    arguments = [str(table) if word == "TABLE" else word for word in arguments]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith(f"sr4mdl {arguments[0]}: error: ")
    assert message in captured.err


@pytest.mark.parametrize(
    "arguments", [[], ["nothing"], ["evaluate", "x"], ["info", "--nothing"], ["--vers"]]
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: sr4mdl" in capsys.readouterr().err


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit) as caught:
            main([command.name, "--help"])
        assert caught.value.code == 0
        assert f"usage: sr4mdl {command.name}" in capsys.readouterr().out


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"sr4mdl {sr4mdl.__version__}\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(command.name in out and command.help in out for command in COMMANDS)


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize(
    ("how", "code", "line"),
    [
        ("usage", 2, "sr4mdl fail: error: no such thing as this\n"),
        ("file", 2, "sr4mdl fail: error: [Errno 13] Permission denied: 't.csv'\n"),
        ("interrupt", 130, "sr4mdl fail: interrupted\n"),
    ],
)
def test_exit_codes(
    capsys: pytest.CaptureFixture[str], how: str, code: int, line: str
) -> None:
    assert main(["fail", how]) == code
    assert capsys.readouterr().err == line


@pytest.mark.usefixtures("failing")
def test_faults_of_the_program_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        main(["fail", "bug"])


def test_as_a_module(table: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "sr4mdl", "evaluate", "x", str(table), "--values"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert result.stdout.split() == ["1.0", "4.0", "-1.0"]


def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,t\n" + "1,2\n" * 100_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "sr4mdl", "evaluate", "x", str(path), "--values"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"1.0\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141
