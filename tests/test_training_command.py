"""``sr4mdl train`` from arguments to files."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sr4mdl.cli import main  # noqa: E402
from sr4mdl.errors import CheckpointError  # noqa: E402
from sr4mdl.mdlformer.card import read_card  # noqa: E402
from sr4mdl.mdlformer.checkpoint import load_model  # noqa: E402
from sr4mdl.mdlformer.config import PRESETS  # noqa: E402
from sr4mdl.training import command  # noqa: E402
from sr4mdl.training.command import configure, less_time, make_train_config  # noqa: E402
from sr4mdl.training.loop import TrainingError  # noqa: E402


def parse(*texts):
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(texts)


def train(*texts):
    arguments = parse(
        "--preset", "tiny", "--data", "toy", "--device", "cpu", "--quiet",
        "--batch-size", "32", "--held-out", "1", *texts,
    )  # fmt: skip
    return arguments.run(arguments)


def test_train_resume_and_files(tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        train("--max-samples", "96", "--total-samples", "192", "--out", str(out)) == 0
    )
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["reason"] == "samples"
    assert document["samples"] == 96
    assert 0.0 <= document["held_out_top10"] <= 1.0
    assert train("--total-samples", "192", "--resume", str(out)) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["reason"] == "plan"
    assert document["samples"] == 192
    assert load_model(out).card["data"]["source"] == "toy"
    records = [json.loads(x) for x in (out / "metrics.jsonl").read_text().splitlines()]
    assert [r["event"] for r in records] == ["start", "train", "evaluate"] * 2
    assert records[0]["model"]["width"] == 32
    assert read_card(out / "training.json", "training")["progress"]["step"] == 6
    assert max(file.stat().st_size for file in out.iterdir()) < 16 * 2**20


def test_settings_of_the_network_can_be_changed(tmp_path):
    out = str(tmp_path)
    train("--max-samples", "32", "--out", out, "--set", "width=48", "--set",
          "dropout=0.1", "--rows", "5")  # fmt: skip
    config = load_model(tmp_path).network.config
    assert (config.width, config.dropout, config.n_rows) == (48, 0.1, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of --max-time"),
        (["--max-time", "5s", "--set", "widht=3"], "did you mean 'width'"),
        (["--max-time", "5s", "--set", "width=wide"], "--set width must be a int"),
        (["--max-time", "5s", "--set", "width"], "KEY=VALUE"),
        (["--max-time", "5s", "--device", "tpu"], "device must be"),
        (["--max-time", "5s", "--data-option", "max_columns=99"], "max_columns"),
        (["--max-time", "5s", "--count-weight", "1"], "--count-weight must be 0"),
        (["--max-time", "5s", "--write-weight", "1"], "--write-weight must be 0"),
        (
            [
                "--max-time",
                "5s",
                "--preset",
                "tiny-tokens",
                "--write-weight",
                "1",
                "--strategy",
                "predict-only",
            ],
            "--write-weight must be 0 for --strategy",
        ),
        (["--max-time", "5s", "--writer-layers", "0"], "writer_layers must be at"),
        (["--max-time", "5s", "--onnx", "a.onnx"], "--onnx needs --out"),
        (["--max-time", "5s", "--out", "x", "--onnx", "a.bin"], "end in .onnx"),
        (["--max-time", "5s", "--out", "x", "--onnx", "no/a.onnx"], "no folder"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(TrainingError, match=message):
        train(*arguments)


def test_the_limit_counts_from_the_start_of_the_call():
    config = make_train_config(
        parse("--max-time", "100"), PRESETS["tiny"], torch.device("cpu")
    )
    less = less_time(config, 30.0)
    assert (less.max_time, less.schedule.total_time) == (70.0, 70.0)
    planned = make_train_config(
        parse("--max-time", "100", "--total-time", "1h"),
        PRESETS["tiny"],
        torch.device("cpu"),
    )
    less = less_time(planned, 120.0)
    assert (less.max_time, less.schedule.total_time) == (1.0, 3600.0)
    endless = make_train_config(
        parse("--max-samples", "64"), PRESETS["tiny"], torch.device("cpu")
    )
    assert less_time(endless, 30.0) == endless


def test_start_from_a_model_by_command(tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    assert train("--total-samples", "64", "--out", str(first)) == 0
    last = ("--total-samples", "128", "--init", str(first), "--out", str(second))
    assert train(*last) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["samples"] == 128
    with pytest.raises(TrainingError, match="exclude each other"):
        train("--max-time", "5s", "--resume", str(first), "--init", str(first))
    with pytest.raises(CheckpointError, match="nowhere"):
        train("--max-time", "5s", "--init", str(tmp_path / "nowhere"))


def test_a_trained_network_guides_a_fit(tmp_path, capsys):
    out, guide = tmp_path / "run", tmp_path / "own.onnx"
    train("--total-samples", "64", "--out", str(out), "--onnx", str(guide))
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert document["onnx"] == str(guide)
    table = tmp_path / "table.csv"
    rng = np.random.default_rng(0)
    rows = rng.uniform(1.0, 2.0, (40, 2))
    noise = rng.normal(size=40)
    lines = [f"{a},{b},{c}" for (a, b), c in zip(rows, noise, strict=True)]
    table.write_text("\n".join(["a,b,y", *lines]))
    assert main(["fit", str(table), "--target", "y", "--time", "2", "--quiet",
                 "--guide", str(guide), "--json"]) == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["formula"]


def test_nothing_to_resume(tmp_path):
    with pytest.raises(CheckpointError, match="nothing to resume"):
        train("--max-time", "5s", "--resume", str(tmp_path))


@pytest.mark.parametrize(
    "texts",
    [("--max-time", "soon"), ("--batch-size", "0"), ("--max-samples", "1.5"),
     ("--column-widths", "4,12"), ("--preset", "huge"), ("--workers", "0"),
     ("--rows", "0")],
)  # fmt: skip
def test_arguments_that_are_not_understood(texts, capsys):
    with pytest.raises(SystemExit):
        parse(*texts)
    assert "error" in capsys.readouterr().err


def test_what_is_not_given_depends_on_the_network(monkeypatch):
    monkeypatch.setattr(command, "gpu_memory", lambda device: 149_000_000_000)
    arguments = parse("--max-time", "9m", "--max-samples", "80M")
    small = make_train_config(arguments, PRESETS["small"], torch.device("cpu"))
    paper = make_train_config(arguments, PRESETS["paper"], torch.device("cpu"))
    assert small.schedule.total_time == small.max_time == 540
    assert small.schedule.total_samples == 80_000_000
    assert small.schedule.strategy == "predict-only"
    assert small.loss.value_loss == "likelihood"
    assert paper.schedule.strategy == "sequential"
    assert paper.loss.value_loss == "squared"
    on_gpu = make_train_config(arguments, PRESETS["small"], torch.device("cuda"))
    assert (small.compile, on_gpu.compile) == ("none", "parts")
    # A hundred steps of 24,000 states; with two processes a step has twice as many.
    warmups = [small.schedule.warmup_samples, on_gpu.schedule.warmup_samples]
    assert warmups == [2_000, 2_400_000]
    paired = make_train_config(
        arguments, PRESETS["small"], torch.device("cuda"), n_processes=2
    )
    assert paired.schedule.warmup_samples == 4_800_000
    assert (small.column_shares, on_gpu.column_shares) == ((1.0,), (0.4, 0.42, 0.18))
    given = parse(
        "--total-time", "1h", "--max-time", "9m", "--learning-rate", "0.01",
        "--compile", "whole", "--strategy", "concurrent", "--warmup", "5k",
        "--clip-norm", "2", "--average-decay", "0.9", "--value-weight", "0.7",
        "--policy-weight", "0.5", "--uniform-share", "0.3", "--temperature", "0.1",
        "--align-share", "0.4", "--weight-decay", "0.2", "--decay", "linear",
        "--column-parts", "0.7,0.3", "--column-widths", "5,10", "--precision", "fp32",
        "--stored-weights", "bfloat16", "--stored-moments", "none", "--seed", "8",
        "--log-every", "3s", "--evaluate-every", "4s", "--save-every", "5s",
    )  # fmt: skip
    config = make_train_config(given, PRESETS["paper"], torch.device("cpu"))
    schedule, loss = config.schedule, config.loss
    assert (schedule.total_time, config.max_time) == (3600, 540)
    assert (schedule.learning_rate, schedule.warmup_samples) == (0.01, 5000)
    assert (schedule.strategy, schedule.align_share) == ("concurrent", 0.4)
    assert schedule.decay == "linear"
    assert (loss.value_weight, loss.policy_weight) == (0.7, 0.5)
    assert (loss.uniform_share, loss.temperature) == (0.3, 0.1)
    assert (config.clip_norm, config.average_decay, config.weight_decay) == (
        2,
        0.9,
        0.2,
    )
    assert (config.compile, config.precision, config.seed) == ("whole", "fp32", 8)
    assert (config.column_shares, config.column_widths) == ((0.7, 0.3), (5, 10))
    assert (config.stored_weights, config.stored_moments) == ("bfloat16", "none")
    assert (config.log_every, config.evaluate_every, config.save_every) == (3, 4, 5)


def test_batches_and_workers_depend_on_the_machine(monkeypatch):
    monkeypatch.setattr(command, "gpu_memory", lambda device: 40_000_000_000)
    monkeypatch.setattr(command, "usable_cores", lambda: 16)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    cpu, gpu = torch.device("cpu"), torch.device("cuda")

    def asked(preset, device, *texts):
        request = command._request(
            parse("--max-time", "9m", *texts), PRESETS[preset], device, 0
        )
        return request.batch_size, request.n_workers

    assert asked("small", cpu) == (64, None)
    # 24e9 bytes / (160 x 32 x 128 x 4) = 9,155 states, 143 x 64 = 9,152.
    assert asked("small", gpu) == (9152, 8)
    # The rows that a state ever has count: 24e9 / (40 x 200 x 512 x 8) = 732 pairs.
    late = ("--data-option", "late_rows=200")
    assert asked("paper", gpu, *late) == (704, 14)
    # Rows by option replace those of the preset: 24e9 / (40 x 48 x 512 x 8) = 3,051.
    assert asked("paper", gpu, "--data-option", "n_rows=48") == (1024, 14)
    assert asked("small", gpu, "--data-option", "n_rows=64") == (4544, 8)
    assert asked("small", gpu, "--batch-size", "96", "--workers", "3") == (96, 3)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert asked("paper", gpu, *late) == (704, 2)


PROGRAM = """
import argparse, sys
from sr4mdl.training.command import configure
parser = argparse.ArgumentParser()
configure(parser)
arguments = parser.parse_args()
sys.exit(arguments.run(arguments))
"""


@pytest.mark.slow
def test_two_processes_share_a_run(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone",
         "--nproc-per-node", "2", str(program), "--preset", "tiny", "--data", "toy",
         "--device", "cpu", "--quiet", "--batch-size", "32", "--max-samples", "256",
         "--column-parts", "2", "--out", str(tmp_path / "run")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    document = json.loads(result.stdout.splitlines()[-1])
    # Four steps of two processes with 32 states each.
    assert document["samples"] == 256
    assert read_card(tmp_path / "run" / "training.json", "training")["progress"][
        "step"
    ] == 4  # fmt: skip
