"""``sr4mdl bench groundtruth|blackbox|classic``: options, then the runner."""

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sr4mdl.errors import Sr4mdlError

DEFAULT_TIME: Final = 60.0
DEFAULT_ROWS: Final = 100_000
DEFAULT_TRAIN_ROWS: Final = 10_000


class BenchOptionError(Sr4mdlError, ValueError):
    """An option of a benchmark command cannot be used; the message says why."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options that all suites share."""
    add = parser.add_argument
    add("--problems", metavar="NAME,NAME", help="problems or groups (default: all)")
    add("--seeds", type=int, default=1, metavar="COUNT", help="trials (default: 1)")
    add("--noise", default="0", metavar="LEVEL,LEVEL", help="levels (default: 0)")
    add(
        "--time",
        type=float,
        default=DEFAULT_TIME,
        metavar="SECONDS",
        help=f"time limit of a fit (default: {DEFAULT_TIME:g})",
    )
    add("--jobs", type=int, default=1, metavar="N", help="runs at once (default: 1)")
    add(
        "--method",
        default="sr4mdl",
        metavar="NAME,NAME",
        help="methods, or package.module:Class (default: sr4mdl)",
    )
    add("--mode", metavar="MODE,MODE", help="modes of the methods, or 'all'")
    add("--data", type=Path, metavar="DIR", help="folder in PMLB layout")
    add(
        "--output", type=Path, metavar="FILE", help="result file (default: SUITE.jsonl)"
    )
    add("--json", action="store_true", help="end with one JSON document on stdout")
    add(
        "--rows",
        type=int,
        default=DEFAULT_ROWS,
        metavar="N",
        help=f"rows regenerated from a formula (default: {DEFAULT_ROWS})",
    )
    add(
        "--train-rows",
        type=int,
        default=DEFAULT_TRAIN_ROWS,
        metavar="N",
        help=f"training rows drawn from larger tables (default: {DEFAULT_TRAIN_ROWS})",
    )
    add(
        "--memory",
        type=float,
        default=8.0,
        metavar="GIB",
        help="limit on a run's address space, 0 for none (default: 8)",
    )
    add(
        "--threads", type=int, default=1, metavar="N", help="threads a run (default: 1)"
    )
    add(
        "--verdict-time",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time limit of each sympy step (default: 60)",
    )
    add("--retry-errors", action="store_true", help="do failed runs again")


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def read_noise(text: str) -> list[float]:
    """Return the noise levels of an option such as ``0,0.01``."""
    levels = []
    for part in _split(text):
        try:
            level = float(part)
        except ValueError:
            raise BenchOptionError(f"--noise: {part!r} is not a number") from None
        if not 0 <= level < float("inf"):
            raise BenchOptionError(f"--noise: must be 0 or more, got {part}")
        levels.append(level)
    if not levels:
        raise BenchOptionError("--noise: no level given")
    return levels


def find_data(folder: Path | None) -> Path | None:
    """Return the folder that holds one folder a table: it, or ``datasets`` in it.

    PMLB's own repository keeps its tables in ``datasets``.
    """
    if folder is None:
        return None
    if not folder.is_dir():
        raise BenchOptionError(f"--data: no folder {str(folder)!r}")
    inner = folder / "datasets"
    return inner if inner.is_dir() else folder


def choose_modes(methods: Sequence[str], modes: str | None) -> list[tuple[str, str]]:
    """Return the pairs of method and mode that the options ask for."""
    from sr4mdl.bench.methods import ONLY_MODE, find_method

    pairs = []
    asked = None if modes is None else _split(modes)
    used: set[str] = set()
    for name in methods:
        known = find_method(name).modes
        if asked is None or known == ONLY_MODE:
            chosen: Sequence[str] = known[:1]
        elif asked == ["all"]:
            chosen = known
        else:
            chosen = [mode for mode in asked if mode in known]
        used.update(chosen)
        pairs += [(name, mode) for mode in chosen]
    if asked is not None and asked != ["all"] and set(asked) - used:
        wrong = ", ".join(sorted(set(asked) - used))
        known_modes = sorted(
            {mode for name in methods for mode in find_method(name).modes}
        )
        raise BenchOptionError(
            f"--mode: no method has {wrong}; allowed are all, {', '.join(known_modes)}"
        )
    return pairs


def run(arguments: Namespace) -> int:
    """Run a suite and print its summary."""
    from sr4mdl.bench.problems import select_problems
    from sr4mdl.bench.progress import make_progress
    from sr4mdl.bench.protocol import first_seeds
    from sr4mdl.bench.results import ResultFile, key_of
    from sr4mdl.bench.runner import RunnerConfig, plan_runs, run_all

    suite: str = arguments.bench
    noises = read_noise(arguments.noise)
    if not 0 < arguments.time < float("inf"):
        raise BenchOptionError(f"--time: must be above 0, got {arguments.time:g}")
    if arguments.rows < 8 or arguments.train_rows < 0:
        raise BenchOptionError("--rows must be at least 8, --train-rows at least 0")
    data_dir = find_data(arguments.data)
    try:
        names = None if arguments.problems is None else _split(arguments.problems)
        problems = select_problems(suite, names)
        seeds = first_seeds(arguments.seeds)
        methods = choose_modes(_split(arguments.method), arguments.mode)
        config = RunnerConfig(
            n_jobs=arguments.jobs,
            n_threads=arguments.threads,
            memory_gib=arguments.memory or None,
            step_limit=arguments.verdict_time,
            data_dir=None if data_dir is None else str(data_dir.resolve()),
        )
    except ValueError as error:
        raise BenchOptionError(str(error)) from error
    specs = plan_runs(
        suite,
        [problem.name for problem in problems],
        methods,
        seeds=seeds,
        noises=noises,
        time_s=arguments.time,
        n_rows=arguments.rows,
        max_train_rows=arguments.train_rows,
    )
    output = arguments.output or Path(f"{suite}.jsonl")
    since = time.monotonic()
    with ResultFile(output, retry_errors=arguments.retry_errors) as results:
        new = run_all(specs, results, config, make_progress())
        wanted = {key_of(spec.to_row()) for spec in specs}
        rows = [row for row in results.rows if key_of(row) in wanted]
    summary = summarize(suite, output, rows, len(new), time.monotonic() - since)
    _print(summary, as_json=arguments.json)
    return 0


def summarize(
    suite: str, output: Path, rows: list[dict[str, Any]], n_new: int, seconds: float
) -> dict[str, Any]:
    """Return the summary document of a command's rows."""
    from sr4mdl.bench.results import SCHEMA_VERSION
    from sr4mdl.bench.summary import group_rows, is_data_missing

    return {
        "schema": SCHEMA_VERSION,
        "suite": suite,
        "output": str(output),
        "rows": len(rows),
        "new_rows": n_new,
        "errors": sum(bool(row.get("error")) for row in rows),
        "missing_data": sorted({r["problem"] for r in rows if is_data_missing(r)}),
        "elapsed_s": round(seconds, 1),
        "groups": [group.to_dict() for group in group_rows(rows)],
    }


def _print(summary: dict[str, Any], *, as_json: bool) -> None:
    lines = []
    if not as_json:
        for group in summary["groups"]:
            name = f"{group['method']}/{group['mode']} noise {group['noise']:g}"
            parts = [f"{group['n_problems']} problems, {group['n_runs']} runs"]
            if group["rate"] is not None:
                parts.append(
                    f"recovered {100 * group['rate']:.1f} % "
                    f"({100 * group['rate_low']:.1f} to "
                    f"{100 * group['rate_high']:.1f})"
                )
            if group["r2_median"] is not None:
                parts.append(f"median R2 {group['r2_median']:.4f}")
            if group["n_errors"]:
                parts.append(f"{group['n_errors']} errors")
            lines.append(f"{name}: {', '.join(parts)}")
        if summary["missing_data"]:
            lines.append(f"data sets missing: {', '.join(summary['missing_data'])}")
        lines.append(f"{summary['rows']} rows in {summary['output']}")
    else:
        lines.append(json.dumps(summary, allow_nan=False))
    sys.stdout.write("\n".join(lines) + "\n")
