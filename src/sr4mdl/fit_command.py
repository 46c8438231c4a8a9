"""``sr4mdl fit DATA --target COLUMN``: a table in, a formula and a report out."""

import json
import math
import os
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sr4mdl.cli import EXIT_INTERRUPTED, UsageError

if TYPE_CHECKING:
    from sr4mdl.data import Dataset, FileFormat, Missing
    from sr4mdl.regressor import SymbolicRegressor

STANDARD_INPUT: Final = "-"
CHECKPOINT: Final = "checkpoint.json"
"""Holds the best so far while a search runs; gone when it has come to its end."""
FORMATS: Final = ("csv", "tsv", "jsonl", "parquet")


def configure(parser: ArgumentParser) -> None:
    """Set up ``sr4mdl fit DATA --target COLUMN``."""
    add_source_arguments(parser)
    parser.add_argument(
        "--target",
        metavar="COLUMN",
        help="the column to explain (with --resume: that of before)",
    )
    add_column_arguments(parser)
    parser.add_argument(
        "--time",
        metavar="SECONDS",
        type=_positive,
        default=60.0,
        help="longest search (default: 60)",
    )
    parser.add_argument(
        "--mode",
        choices=["policy", "mdl", "error", "uniform", "gp"],
        help="how to search (default: policy, led by the network)",
    )
    parser.add_argument(
        "--operators",
        metavar="A,B,...",
        type=_names,
        help="operators that the formula may contain (default: all)",
    )
    parser.add_argument(
        "--nesting",
        metavar="A:B=N,...",
        type=_nesting,
        help="operator B at most N deep below A, such as sin:sin=0,exp:exp=0",
    )
    parser.add_argument(
        "--max-length", metavar="N", type=_whole, help="most symbols of the formula"
    )
    parser.add_argument(
        "--noise",
        metavar="SIZE",
        type=_positive,
        help="standard deviation of the noise in the target, if known",
    )
    parser.add_argument(
        "--validation",
        metavar="SHARE",
        type=_share,
        help="share of rows held out to choose the formula by",
    )
    parser.add_argument(
        "--guide",
        metavar="FILE",
        type=Path,
        help="the .onnx file of a network of your own (see sr4mdl train --onnx)",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=_whole,
        help="threads that the network's work is shared among (default: 1)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="folder for result.json, equations.csv and report.html; while the search "
        "runs, checkpoint.json there holds the best so far",
    )
    parser.add_argument(
        "--resume",
        metavar="DIR",
        type=Path,
        help="go on from what an earlier fit wrote into DIR, also one that was "
        "killed; settings not given are those of before, but for --time, --missing and "
        "--format (--out is DIR by default)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the answer as one line of JSON"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(run=run)


def add_source_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that say where the table comes from."""
    parser.add_argument(
        "data",
        metavar="DATA",
        help="CSV, TSV or JSON lines (also .gz) or Parquet; - for standard input",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="format of DATA (default: by the name's ending; csv for -)",
    )


def add_column_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that say what of the table is used, and how it is drawn."""
    parser.add_argument(
        "--features",
        metavar="A,B,...",
        type=_names,
        help="the columns to explain it by (default: all others)",
    )
    parser.add_argument(
        "--missing",
        choices=["refuse", "drop"],
        default="refuse",
        help="what to do with rows that are not finite (default: refuse)",
    )
    parser.add_argument(
        "--seed", metavar="N", type=_seed, help="random seed (default: 0)"
    )


def run(arguments: Namespace) -> int:
    """Read the table, search, write and print; return the exit code."""
    earlier = None
    if arguments.resume is not None:
        earlier = _load_earlier(arguments)
    elif arguments.target is None:
        raise UsageError("the following arguments are required: --target")
    if arguments.out is not None:
        check_folder(arguments.out)
    _check_settings(arguments)
    dataset = read_table(
        arguments.data,
        arguments.target,
        arguments.features,
        missing=arguments.missing,
        file_format=arguments.format,
    )
    _check_table(dataset, arguments.validation)
    for note in dataset.notes:
        _say(f"note: {note}")
    if dataset.n_columns > dataset.n_rows:
        _say(
            f"note: more columns ({dataset.n_columns}) than rows ({dataset.n_rows}); "
            "a formula may fit by chance"
        )
    model = _fit(arguments, dataset, earlier)
    (outcome,) = model.outcomes_
    written: list[Path] = []
    failure: OSError | None = None
    if arguments.out is not None:
        assert dataset.y is not None
        try:
            written = write_results(model, arguments.out, dataset)
            for name in (CHECKPOINT, f".{CHECKPOINT}.*"):  # also what a kill left over
                for path in arguments.out.glob(name):
                    path.unlink()
        except OSError as error:
            failure = error  # the answer is told all the same
    if arguments.json:
        _print(json.dumps(_summary(model, written), allow_nan=False))
    else:
        _print(_answer(model, written))
    if failure is not None:
        sys.stdout.flush()
        raise failure
    if outcome.stop_reason == "interrupted":
        _say("interrupted; this is the best formula so far")
        return EXIT_INTERRUPTED
    return 0


def _fit(
    arguments: Namespace, dataset: "Dataset", earlier: "SymbolicRegressor | None"
) -> "SymbolicRegressor":
    from sr4mdl.regressor import SymbolicRegressor
    from sr4mdl.search.config import GUIDED_MODES

    given = {
        "mode": arguments.mode,
        "operators": arguments.operators,
        "nesting": arguments.nesting,
        "max_length": arguments.max_length,
        "noise": arguments.noise,
        "validation": arguments.validation,
        "guide": arguments.guide,
        "n_jobs": arguments.jobs,
        "random_state": arguments.seed,
    }
    model = SymbolicRegressor(random_state=0) if earlier is None else earlier
    model.set_params(
        max_time=arguments.time,
        verbose=not arguments.quiet,
        warm_start=earlier is not None,
        **{name: value for name, value in given.items() if value is not None},
    )
    if arguments.guide is not None and model.mode not in GUIDED_MODES:
        raise UsageError(f"--guide: mode {model.mode!r} uses no network")
    checkpoint = None if arguments.out is None else arguments.out / CHECKPOINT
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "no checkpoint", RuntimeWarning)
        model.fit_dataset(dataset, checkpoint=checkpoint)
    for warning in caught:
        _say(f"warning: {warning.message}")
    model.set_params(warm_start=False)
    return model


def _load_earlier(arguments: Namespace) -> "SymbolicRegressor":
    """Return what an earlier fit left, and fill in the arguments it settles."""
    from sr4mdl.regressor import SymbolicRegressor

    folder: Path = arguments.resume
    # A checkpoint is there only if the last fit did not come to its end.
    paths = [folder / CHECKPOINT, folder / "result.json"]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise UsageError(f"--resume {folder}: no {CHECKPOINT} and no result.json there")
    model = SymbolicRegressor.load(path)
    if len(model.outcomes_) != 1:
        raise UsageError(f"--resume {folder}: the result has more than one target")
    target = model.outcomes_[0].target
    if arguments.target is None:
        arguments.target = target
    elif arguments.target != target:
        raise UsageError(
            f"--resume {folder}: that search was for {target!r}, not for "
            f"{arguments.target!r}"
        )
    if arguments.features is None:
        arguments.features = list(model.outcomes_[0].ranges)
    if arguments.out is None:
        arguments.out = folder
    return model


def _check_settings(arguments: Namespace) -> None:
    """Refuse what the search would refuse, before any work is done."""
    from sr4mdl.operators import get_operator

    nested = (
        name
        for outer, inside in (arguments.nesting or {}).items()
        for name in (outer, *inside)
    )
    for name in (*(arguments.operators or ()), *nested):
        try:
            get_operator(name)
        except ValueError as error:
            raise UsageError(str(error)) from error


def _check_table(dataset: "Dataset", validation: float | None) -> None:
    assert dataset.y is not None
    if dataset.n_rows < 2:
        raise UsageError("the table has one row; at least 2 are needed for a formula")
    if validation is not None:
        n_held = max(1, round(validation * dataset.n_rows))
        if dataset.n_rows - n_held < 2:
            raise UsageError(
                f"--validation {validation:g} leaves {dataset.n_rows - n_held} of "
                f"{dataset.n_rows} rows to search on; at least 2 are needed"
            )
    if (dataset.y == dataset.y[0]).all():
        raise UsageError(
            f"the target {dataset.target!r} is {dataset.y[0]:g} in every row: "
            "there is nothing to explain"
        )


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to, before the search runs."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UsageError(f"--out {folder}: {place} is not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"--out {folder}: no permission to write in {place}")


def write_results(
    model: "SymbolicRegressor", folder: Path, dataset: "Dataset"
) -> list[Path]:
    """Write result, equations and report into a folder, each in full or not at all."""
    from sr4mdl.regressor.saving import to_text, write_files
    from sr4mdl.report import make_report

    assert dataset.y is not None
    report = make_report(
        model.outcomes_, dataset.X, dataset.y.reshape(-1, 1), dataset.names
    )
    contents = {
        folder / "result.json": to_text(model.to_result()),
        folder / "equations.csv": model.equations_.to_csv(),
        folder / "report.html": report,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_files(contents)
    return list(contents)


def _answer(model: "SymbolicRegressor", written: Sequence[Path]) -> str:
    from sr4mdl.regressor.explanation import describe_left_over, describe_reason

    (outcome,) = model.outcomes_
    best = outcome.chosen
    lines = [
        f"{outcome.target} = {best.formula}",
        f"R2         {best.r2:.9g}",
        f"error      {best.error:.6g}",
        f"bits       {best.bits:.1f} ({best.formula_bits:.1f} formula, "
        f"{best.residual_bits:.1f} residuals)",
    ]
    if (left_over := describe_left_over(outcome)) is not None:
        lines.append(f"left over  {left_over}")
    if outcome.runner_up is None:
        lines.append("runner-up  none")
    else:
        rival = outcome.equations[outcome.runner_up]
        lines.append(f"runner-up  {rival.formula} ({outcome.gap_bits:.1f} bits more)")
    reason = describe_reason(outcome.stop_reason)
    lines.append(f"ended      after {outcome.seconds:.1f} s: {reason}")
    lines += [f"note       {note}" for note in outcome.notes]
    lines += [f"written    {path}" for path in written]
    return "\n".join(lines)


def _summary(model: "SymbolicRegressor", written: Sequence[Path]) -> dict[str, Any]:
    """Return the answer as a dict for scripts."""
    (outcome,) = model.outcomes_
    best = outcome.chosen
    rival = None if outcome.runner_up is None else outcome.equations[outcome.runner_up]
    return {
        "target": outcome.target,
        "formula": best.formula,
        "latex": model.latex(),
        "length": best.length,
        "r2": _finite(best.r2),
        "error": _finite(best.error),
        "bits": _finite(best.bits),
        "runner_up": None if rival is None else rival.formula,
        "gap_bits": _finite(outcome.gap_bits),
        "left_over": outcome.left_over,
        "notes": list(outcome.notes),
        "stop_reason": outcome.stop_reason,
        "seconds": round(outcome.seconds, 3),
        "files": [str(path) for path in written],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def read_table(
    source: str,
    target: str | None,
    features: Sequence[str] | None,
    *,
    missing: "Missing" = "refuse",
    file_format: "FileFormat | None" = None,
) -> "Dataset":
    """Return the dataset of a file or of standard input.

    Parameters
    ----------
    source : str
        Path of the file, or ``-``.
    target : str or None
        Name of the target; None for a table without one.
    features : sequence of str, optional
        Names of the feature columns; all but the target by default.
    missing : {"refuse", "drop"}, default="refuse"
        What to do with rows in which a number is missing or not finite.
    file_format : {"csv", "tsv", "jsonl", "parquet"}, optional
        By default told by the name's ending; csv for standard input.
    """
    from sr4mdl.data import Dataset

    if source == STANDARD_INPUT:
        return Dataset.from_stream(
            sys.stdin.buffer,
            target,
            features,
            missing=missing,
            file_format=file_format or "csv",
            label="standard input",
        )
    return Dataset.from_file(
        source, target, features, missing=missing, file_format=file_format
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ArgumentTypeError(f"must be names with commas between, got {text!r}")
    return names


def _nesting(text: str) -> dict[str, dict[str, int]]:
    nesting: dict[str, dict[str, int]] = {}
    for entry in _names(text):
        outer, colon, rest = entry.partition(":")
        inner, equals, most = rest.partition("=")
        if not (colon and equals and outer and inner and most.isdecimal()):
            raise ArgumentTypeError(
                f"must be entries like sin:sin=0 with commas between, got {text!r}"
            )
        nesting.setdefault(outer.strip(), {})[inner.strip()] = int(most)
    return nesting


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a number, got {text!r}") from None


def _positive(text: str) -> float:
    value = _number(text)
    if not 0.0 < value < math.inf:
        raise ArgumentTypeError(f"must be a finite number above 0, got {text!r}")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0.0 < value < 1.0:
        raise ArgumentTypeError(f"must be above 0 and below 1, got {text!r}")
    return value


def _at_least(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ArgumentTypeError(
            f"must be a whole number of {least} or more, got {text!r}"
        )
    return value


def _whole(text: str) -> int:
    return _at_least(text, 1)


def _seed(text: str) -> int:
    return _at_least(text, 0)


def _say(text: str) -> None:
    with suppress(OSError):  # nobody may be there to listen
        sys.stderr.write(f"sr4mdl fit: {text}\n")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
