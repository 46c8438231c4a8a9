"""``sr4mdl train``: arguments to configs, sources and a run.

Registered by the command line through :func:`add_arguments` and :func:`run`. Under
torchrun it takes its place among the processes from the environment.
"""

import argparse
import json
import math
import os
import sys
import time
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch

from sr4mdl.errors import CheckpointError
from sr4mdl.mdlformer.card import card_config, read_card
from sr4mdl.mdlformer.checkpoint import (
    STORED_DTYPES,
    TRAINING_STEM,
    card_path,
    model_card_path,
    read_model_card,
)
from sr4mdl.mdlformer.config import PRESETS, ModelConfig, check_keys, get_preset
from sr4mdl.training.batch import (
    ClosableSource,
    DeviceBatch,
    ResumableSource,
    Source,
)
from sr4mdl.training.loop import TrainConfig, Trainer, TrainingError, World
from sr4mdl.training.losses import LossConfig, Strategy
from sr4mdl.training.machine import (
    CPU_BATCH_SIZE,
    WARMUP_STEPS,
    gpu_batch_size,
    gpu_memory,
    gpu_workers,
    usable_cores,
)
from sr4mdl.training.metrics_log import MetricsLog
from sr4mdl.training.optimizers import OPTIMIZERS
from sr4mdl.training.schedule import DECAYS, ScheduleConfig, parse_duration
from sr4mdl.training.side_stream import SideStreamSource
from sr4mdl.training.source_table import SOURCES, SourceRequest, draw_batches

_HELD_OUT_SEED: Final = 1_000_003


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sr4mdl train``."""
    model = parser.add_argument_group("network")
    model.add_argument("--preset", choices=list(PRESETS), default="small")
    model.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting of the preset, such as width=192",
    )
    run = parser.add_argument_group("run")
    run.add_argument("--device", default="auto", help="auto, cpu or cuda")
    run.add_argument("--out", type=Path, help="directory of checkpoints and metrics")
    run.add_argument(
        "--resume", type=Path, help="directory or training.json to continue from"
    )
    run.add_argument(
        "--init", type=Path, help="directory or model.json whose weights to start from"
    )
    run.add_argument(
        "--onnx", type=Path, metavar="FILE",
        help="write the averaged weights there in the end, for sr4mdl fit --guide",
    )  # fmt: skip
    run.add_argument(
        "--max-time", type=parse_duration, help="longest time of this call, as 9m"
    )
    run.add_argument("--max-samples", type=_count, help="stop after so many, as 80M")
    run.add_argument(
        "--total-time", type=parse_duration, help="time of the whole plan, over calls"
    )
    run.add_argument("--total-samples", type=_count, help="samples of the whole plan")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--compile", choices=("auto", "parts", "whole", "none"),
                     default="auto")  # fmt: skip
    run.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    data = parser.add_argument_group("data")
    data.add_argument("--data", choices=list(SOURCES), default="corpus")
    data.add_argument(
        "--data-option", action="append", default=[], metavar="KEY=VALUE",
        help="a setting handed to the source",
    )  # fmt: skip
    data.add_argument("--batch-size", type=_count,
                      help="per process (default: what the GPU takes)")  # fmt: skip
    data.add_argument("--rows", type=_count,
                      help="rows a state (default: the preset's)")  # fmt: skip
    data.add_argument("--workers", type=_count,
                      help="processes that make formulas")  # fmt: skip
    data.add_argument("--column-parts", type=_shares,
                      help="parts of a batch by columns, or their shares")  # fmt: skip
    data.add_argument("--column-widths", type=_widths, default=(3, 6, 10),
                      help="columns that parts are cut to")  # fmt: skip
    _add_learning_arguments(parser.add_argument_group("learning"))
    report = parser.add_argument_group("records and checkpoints")
    report.add_argument("--log-every", type=parse_duration, default=10.0)
    report.add_argument("--evaluate-every", type=parse_duration, default=60.0)
    report.add_argument("--save-every", type=parse_duration, default=120.0)
    report.add_argument("--held-out", type=int, default=4, help="held-out batches")
    report.add_argument("--stored-weights", choices=list(STORED_DTYPES),
                        default="float32")  # fmt: skip
    report.add_argument("--stored-moments", choices=[*STORED_DTYPES, "none"],
                        default="bfloat16")  # fmt: skip
    report.add_argument("--quiet", action="store_true", help="show no progress")


def _add_learning_arguments(group: Any) -> None:
    group.add_argument("--learning-rate", type=float)
    group.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw",
                       help="of the large matrices")  # fmt: skip
    group.add_argument("--weight-decay", type=float, default=0.01)
    group.add_argument("--warmup", type=_count, help="samples")
    group.add_argument("--decay", choices=DECAYS, default="cosine")
    group.add_argument("--clip-norm", type=float, default=1.0)
    group.add_argument("--average-decay", type=float, default=0.999)
    group.add_argument("--value-weight", type=float)
    group.add_argument("--policy-weight", type=float, default=1.0)
    group.add_argument("--align-weight", type=float, default=1.0)
    group.add_argument("--write-weight", type=float, default=0.0,
                       help="of writing formulas down, beside alignment")  # fmt: skip
    group.add_argument("--formula-layers", type=int,
                       help="of the formula encoder (default: as paper)")  # fmt: skip
    group.add_argument("--writer-layers", type=int, default=2,
                       help="of the writer of formulas")  # fmt: skip
    group.add_argument("--count-weight", type=float, default=0.0,
                       help="of telling how often operators occur")  # fmt: skip
    group.add_argument("--uniform-share", type=float, default=0.1)
    group.add_argument("--temperature", type=float, default=1.0)
    group.add_argument(
        "--strategy",
        choices=("sequential", "concurrent", "predict-only"),
        help="default: sequential for the paper's network, else predict-only",
    )
    group.add_argument(
        "--align-share", type=float,
        help="share of the plan that aligns, prediction alone follows (default: 0.75 "
        "of a sequential plan, all of a concurrent one)",
    )  # fmt: skip
    group.add_argument(
        "--predict-learning-rate", type=float,
        help="highest rate after alignment (default: --learning-rate)",
    )  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Set up the parser of the command, for the table of commands."""
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train as the arguments say; the last line of output is one JSON document."""
    document = train(args)
    if document is not None:
        sys.stdout.write(json.dumps(document) + "\n")
    return 0


def train(args: argparse.Namespace) -> dict[str, Any] | None:
    """Train as the arguments say; return how it ended, in the leading process.

    Raises
    ------
    TrainingError
        If the arguments do not fit each other or this machine.
    """
    began = time.monotonic()
    if args.onnx is not None:
        _check_onnx(args)
    try:
        world, device = _join(args.device)
        model, samples_before = _model_config(args)
        config = make_train_config(args, model, device, n_processes=world.size)
        # A source that cannot be put back to where it was must not start over.
        seed = args.seed + world.rank + samples_before
        request = _request(args, model, device, seed)
        opened = SOURCES[args.data](request)
    except ValueError as error:
        raise TrainingError(str(error)) from error
    source = opened.source
    if device.type == "cuda" and not isinstance(source, ResumableSource):
        source = SideStreamSource(source, device)
    if args.resume is not None and args.out is None:
        args.out = card_path(args.resume, TRAINING_STEM).parent
    log = MetricsLog(
        args.out / "metrics.jsonl" if args.out and world.leads else None,
        None if args.quiet or not world.leads else sys.stderr,
    )
    try:
        try:
            held_out = _held_out(args, request) if world.leads else []
            config = less_time(config, time.monotonic() - began)
            trainer = Trainer(
                model,
                config,
                source,
                device,
                out=args.out,
                held_out=held_out,
                log=log,
                data=opened.settings,
                resume=args.resume,
                initial=args.init,
                world=world,
            )
        except ValueError as error:
            raise TrainingError(str(error)) from error
        if args.out is not None and world.leads:
            log.write(_start_record(model, config, device, world, trainer))
        summary = trainer.run()
        if world.size > 1:
            # The leader still measures and saves: nobody leaves before the others.
            torch.distributed.barrier()
    finally:
        _close(source)
        log.close()
        if world.size > 1:
            torch.distributed.destroy_process_group()
    if not world.leads:
        return None
    if args.onnx is not None:
        from sr4mdl.mdlformer.onnx_export import export_checkpoint

        export_checkpoint(args.out, args.onnx)
    return {
        "reason": summary.reason,
        "samples": summary.samples,
        "elapsed": round(summary.elapsed, 1),
        "out": None if args.out is None else str(args.out),
        "onnx": None if args.onnx is None else str(args.onnx),
        **summary.metrics,
    }


def _check_onnx(args: argparse.Namespace) -> None:
    """Refuse what could not be written in the end, before any work is done."""
    if args.out is None and args.resume is None:
        raise TrainingError("--onnx needs --out: the file is made of what is saved")
    if args.onnx.suffix != ".onnx":
        raise TrainingError(f"--onnx must end in .onnx, got {str(args.onnx)!r}")
    if not args.onnx.parent.is_dir():
        raise TrainingError(f"--onnx {args.onnx}: there is no folder for it")
    if find_spec("onnx") is None:
        raise TrainingError(
            "--onnx needs the package onnx: pip install 'sr4mdl[train]'"
        )


def _held_out(args: argparse.Namespace, request: SourceRequest) -> list[DeviceBatch]:
    """Return batches of formulas that training does not see, the same at any resume."""
    if args.held_out < 1:
        return []
    other = replace(request, seed=args.seed + _HELD_OUT_SEED, n_workers=1)
    return draw_batches(args.data, other, args.held_out)


def make_train_config(
    args: argparse.Namespace,
    model: ModelConfig,
    device: torch.device,
    *,
    n_processes: int = 1,
) -> TrainConfig:
    """Return the settings of a run; what is not given depends on the network."""
    paper = model.architecture == "tokens"
    total_time, total_samples = args.total_time, args.total_samples
    if total_time is None and total_samples is None:
        total_time, total_samples = args.max_time, args.max_samples
    if total_time is None and total_samples is None:
        raise ValueError(
            "one of --max-time, --max-samples, --total-time, --total-samples is needed"
        )
    for name in ("count_weight", "write_weight"):
        if getattr(args, name) > 0 and not paper:
            raise ValueError(
                f"--{name.replace('_', '-')} must be 0 unless the network is of the "
                f"architecture tokens, got {getattr(args, name)} for "
                f"{model.architecture}"
            )
    if args.write_weight > 0 and _strategy(args, model) == "predict-only":
        raise ValueError(
            "--write-weight must be 0 for --strategy predict-only, which shows no "
            f"formulas, got {args.write_weight}"
        )
    on_gpu = device.type == "cuda"
    warmup = 2_000
    if on_gpu:
        step = _batch_size(args, model, device) * n_processes
        warmup = max(400_000, WARMUP_STEPS * step)
    return TrainConfig(
        schedule=ScheduleConfig(
            learning_rate=_given(args.learning_rate, 2e-4 if paper else 1e-3),
            warmup_samples=_given(args.warmup, warmup),
            decay=args.decay,
            total_samples=total_samples,
            total_time=total_time,
            strategy=_strategy(args, model),
            align_share=args.align_share,
            predict_learning_rate=args.predict_learning_rate,
        ),
        loss=LossConfig(
            value_loss="squared" if paper else "likelihood",
            value_weight=_given(args.value_weight, 1.0 if paper else 0.1),
            policy_weight=args.policy_weight,
            align_weight=args.align_weight,
            write_weight=args.write_weight,
            count_weight=args.count_weight,
            uniform_share=args.uniform_share,
            temperature=args.temperature,
        ),
        formula_layers=args.formula_layers,
        writer_layers=args.writer_layers,
        optimizer=args.optimizer,
        weight_decay=args.weight_decay,
        clip_norm=args.clip_norm,
        average_decay=args.average_decay,
        precision=args.precision,
        compile=_given(
            None if args.compile == "auto" else args.compile,
            "parts" if on_gpu else "none",
        ),
        column_shares=_given(
            args.column_parts,
            (0.4, 0.42, 0.18) if on_gpu and model.architecture == "cells" else (1.0,),
        ),
        column_widths=args.column_widths,
        max_time=args.max_time,
        max_samples=args.max_samples,
        log_every=args.log_every,
        evaluate_every=args.evaluate_every,
        save_every=args.save_every,
        stored_weights=args.stored_weights,
        stored_moments=args.stored_moments,
        seed=args.seed,
    )


def less_time(config: TrainConfig, spent: float) -> TrainConfig:
    """Return the settings with the seconds that went by before the first step.

    The limit is one of the call, loading and first batches included; a plan that is
    nothing but that limit shrinks with it.
    """
    if config.max_time is None:
        return config
    left = max(1.0, config.max_time - spent)
    schedule = config.schedule
    if schedule.total_time == config.max_time:
        schedule = replace(schedule, total_time=left)
    return replace(config, max_time=left, schedule=schedule)


def _strategy(args: argparse.Namespace, model: ModelConfig) -> Strategy:
    given: Strategy | None = args.strategy
    if given is not None:
        return given
    return "sequential" if model.architecture == "tokens" else "predict-only"


def _request(
    args: argparse.Namespace, model: ModelConfig, device: torch.device, seed: int
) -> SourceRequest:
    paper = model.architecture == "tokens"
    n_workers = args.workers
    if n_workers is None and device.type == "cuda":
        n_trainings = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        n_workers = gpu_workers(usable_cores(), n_trainings, whole_formulas=paper)
    return SourceRequest(
        batch_size=_batch_size(args, model, device),
        n_rows=_given(args.rows, model.n_rows),
        device=device,
        seed=seed,
        with_formulas=(
            _strategy(args, model) != "predict-only" or args.count_weight > 0
        ),
        n_workers=n_workers,
        paper=paper,
        options=_pairs(args.data_option, "--data-option"),
    )


def _batch_size(
    args: argparse.Namespace, model: ModelConfig, device: torch.device
) -> int:
    """Return the states of a batch: as asked for, else what the machine can take."""
    if args.batch_size is not None:
        return int(args.batch_size)
    if device.type != "cuda":
        return CPU_BATCH_SIZE
    # Those that are no numbers are refused where the source is opened.
    options = {
        name: int(value)
        for name, value in _pairs(args.data_option, "--data-option").items()
        if value.isdecimal()
    }
    rows = options.get("n_rows", _given(args.rows, model.n_rows))
    return gpu_batch_size(
        model, max(rows, options.get("late_rows", 0)), gpu_memory(device)
    )


def _model_config(args: argparse.Namespace) -> tuple[ModelConfig, int]:
    """Return config and samples seen: of the checkpoint if there is one, else new."""
    if args.resume is not None and args.init is not None:
        raise ValueError("--resume and --init exclude each other, got both")
    if args.resume is not None:
        path = card_path(args.resume, TRAINING_STEM)
        if not path.exists():
            raise CheckpointError(f"{path} does not exist: nothing to resume")
        card = read_card(path, "training")
        return card_config(card, str(path)), int(card["samples"])
    if args.init is not None:
        path = model_card_path(args.init)
        card = read_model_card(path)
        return card_config(card, str(path)), int(card["samples"])
    config = get_preset(args.preset)
    changes = {}
    kinds = {entry.name: type(getattr(config, entry.name)) for entry in fields(config)}
    overrides = _pairs(args.set, "--set")
    check_keys(overrides, ModelConfig)
    for key, text in overrides.items():
        try:
            changes[key] = kinds[key](text)
        except ValueError as error:
            raise ValueError(
                f"--set {key} must be a {kinds[key].__name__}, got {text!r}"
            ) from error
    if args.rows is not None:
        changes["n_rows"] = args.rows
    return replace(config, **changes), 0


def _join(name: str) -> tuple[World, torch.device]:
    """Return this process's place and device; join the others under torchrun."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be usable: torch sees no cuda device here")
    size = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if name == "cuda" else torch.device("cpu")
    if name == "cuda":
        torch.cuda.set_device(device)
    if size == 1:
        return World(), device
    torch.distributed.init_process_group("nccl" if name == "cuda" else "gloo")
    return World(torch.distributed.get_rank(), size), device


def _start_record(
    model: ModelConfig,
    config: TrainConfig,
    device: torch.device,
    world: World,
    trainer: Trainer,
) -> dict[str, Any]:
    hardware = "cpu"
    if device.type == "cuda":
        hardware = torch.cuda.get_device_name(device)
    return {
        "event": "start",
        "model": model.to_dict(),
        "training": config.to_dict(),
        "data": trainer.data,
        "hardware": hardware,
        "n_processes": world.size,
        "torch": torch.__version__,
    }


def _close(source: Source | None) -> None:
    if isinstance(source, ClosableSource):
        source.close()


def _given(value: Any, default: Any) -> Any:
    return default if value is None else value


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    result = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise ValueError(f"{option} must be KEY=VALUE, got {text!r}")
        result[key] = value
    return result


def _count(text: str) -> int:
    """Read a whole number, with k or M for thousands and millions."""
    scales = {"k": 1_000, "M": 1_000_000}
    scale = scales.get(text[-1:], 1)
    digits = text[:-1] if scale > 1 else text
    try:
        number = float(digits) * scale
    except ValueError:
        number = 0.0
    if number < 1 or number != int(number):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text!r}")
    return int(number)


def _shares(text: str) -> tuple[float, ...]:
    """Read a number of equal parts, or the share of each part."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) == 1 and numbers[0] >= 1 and numbers[0] == int(numbers[0]):
        return (1.0 / numbers[0],) * int(numbers[0])
    if not numbers or min(numbers) <= 0 or not math.isclose(sum(numbers), 1.0):
        raise argparse.ArgumentTypeError(
            f"must be a number of parts or shares that sum to 1, got {text!r}"
        )
    return numbers


def _widths(text: str) -> tuple[int, ...]:
    try:
        widths = tuple(sorted(int(part) for part in text.split(",")))
    except ValueError:
        widths = ()
    if not widths or widths[0] < 1 or widths[-1] > 10:
        raise argparse.ArgumentTypeError(
            f"must be numbers from 1 to 10 with commas, got {text!r}"
        )
    return widths
