"""How fast training steps are, without any making of data.

``python -m sr4mdl.training.speed --preset small --rows 32 --columns 6`` prints one
JSON line per variant: samples per second with the same batch again and again. With
``--profile 12`` it also says which twelve operations (on a GPU: kernels) take most of
a step's time.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from sr4mdl.mdlformer.config import PRESETS, ModelConfig, get_preset
from sr4mdl.mdlformer.network import count_parameters
from sr4mdl.moves import MAX_COLUMNS
from sr4mdl.training.batch import DeviceBatch, ToySource
from sr4mdl.training.loop import CompileMode, TrainConfig, Trainer
from sr4mdl.training.schedule import ScheduleConfig

_PROFILED_STEPS: Final = 3


class FixedSource:
    """The same batch again and again."""

    def __init__(self, batch: DeviceBatch) -> None:
        self._batch = batch

    def next_batch(self) -> DeviceBatch:
        """Return the batch."""
        return self._batch


def measure_speed(
    model: ModelConfig,
    device: torch.device,
    *,
    batch_size: int,
    n_rows: int,
    n_columns: int,
    compile: CompileMode = "none",
    n_steps: int = 20,
    n_profiled: int = 0,
) -> dict[str, Any]:
    """Return samples per second and what it took to get going.

    Parameters
    ----------
    model : ModelConfig
        The network.
    device : torch.device
        Where it trains.
    batch_size, n_rows, n_columns : int
        Shape of the batch; all columns and rows exist.
    compile : {"parts", "whole", "none"}, default="none"
        As in ``TrainConfig``.
    n_steps : int, default=20
        Timed steps, after three that are not.
    n_profiled : int, default=0
        How many of the operations that take longest are told, from further steps.
    """
    if not 2 <= n_columns <= MAX_COLUMNS:
        raise ValueError(f"n_columns must be from 2 to {MAX_COLUMNS}, got {n_columns}")
    batch = ToySource(batch_size, n_rows, device).next_batch()
    batch = replace(
        batch,
        columns=torch.randn(batch_size, n_rows, n_columns, device=device),
        column_mask=torch.ones(batch_size, n_columns, dtype=torch.bool, device=device),
        row_mask=torch.ones(batch_size, n_rows, dtype=torch.bool, device=device),
        all_rows=True,
        moves=torch.zeros_like(batch.moves),
        column_counts=None,
    )
    config = TrainConfig(schedule=ScheduleConfig(total_time=1e9), compile=compile)
    trainer = Trainer(model, config, FixedSource(batch), device)

    def steps(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            trainer.step(0.0)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - begin

    first = steps(3)
    spent = steps(n_steps)
    result: dict[str, Any] = {
        "samples_per_second": batch_size * n_steps / spent,
        "seconds_to_start": first,
        "parameters": count_parameters(trainer.learner.network),
    }
    if device.type == "cuda":
        result["peak_gigabytes"] = torch.cuda.max_memory_allocated(device) / 2**30
    if n_profiled:
        result["profile"] = _profile(lambda: steps(_PROFILED_STEPS), device, n_profiled)
    return result


def _profile(
    run: Callable[[], object], device: torch.device, count: int
) -> list[dict[str, Any]]:
    """Return the operations that take longest: name, calls and milliseconds a step."""
    on_gpu = device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU]
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        run()
    spent = []
    for event in profiler.key_averages():
        # On a GPU only what runs there: its launch is counted with it otherwise.
        if on_gpu and event.device_type.name != "CUDA":
            continue
        micros = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        spent.append((micros, event.count, event.key))
    spent.sort(reverse=True)
    return [
        {
            "name": name[:120],
            "calls": calls / _PROFILED_STEPS,
            "milliseconds": micros / 1000.0 / _PROFILED_STEPS,
        }
        for micros, calls, name in spent[:count]
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the arguments say; one JSON line per variant."""
    parser = argparse.ArgumentParser(prog="sr4mdl.training.speed")
    parser.add_argument("--preset", choices=list(PRESETS), default="small")
    parser.add_argument("--axial", choices=("sequential", "split"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--profile", type=int, default=0, metavar="COUNT")
    parser.add_argument(
        "--compile", nargs="+", choices=("parts", "whole", "none"), default=["parts"]
    )
    arguments = parser.parse_args(argv)
    model = get_preset(arguments.preset)
    if arguments.axial is not None:
        model = replace(model, axial=arguments.axial)
    for compile_mode in arguments.compile:
        torch._dynamo.reset()
        speed = measure_speed(
            model,
            torch.device(arguments.device),
            batch_size=arguments.batch_size,
            n_rows=arguments.rows,
            n_columns=arguments.columns,
            compile=compile_mode,
            n_steps=arguments.steps,
            n_profiled=arguments.profile,
        )
        record = {
            "preset": arguments.preset,
            "axial": model.axial,
            "compile": compile_mode,
            "rows": arguments.rows,
            "columns": arguments.columns,
            "batch_size": arguments.batch_size,
            **speed,
        }
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
