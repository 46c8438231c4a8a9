"""Fitted regressors as JSON: a versioned form that later versions go on reading."""

import json
import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, get_args

from sr4mdl import __version__
from sr4mdl.errors import DataError, ParseError
from sr4mdl.expressions import from_json_object, to_json_object
from sr4mdl.regressor.equations import Equation
from sr4mdl.regressor.outcomes import Constant, LeftOver, Outcome
from sr4mdl.search import SearchMemory

RESULT_FORMAT: Final = "sr4mdl-result"
RESULT_VERSION: Final = 1
_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_result(
    outcomes: list[Outcome],
    features: list[str],
    named: bool,
    several: bool,
    parameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a fitted regressor as a dict that JSON can hold.

    Parameters
    ----------
    outcomes : list of Outcome
        One for each target.
    features : list of str
        Names of the columns, in order.
    named : bool
        Whether the names came with the data.
    several : bool
        Whether the target was a table, so that predictions are one.
    parameters : mapping
        Constructor parameters, plain values only.
    """
    return {
        "format": RESULT_FORMAT,
        "version": RESULT_VERSION,
        "made_by": f"sr4mdl {__version__}",
        "features": features,
        "features_named": named,
        "several_targets": several,
        "parameters": dict(parameters),
        "targets": [_outcome_to_json(outcome) for outcome in outcomes],
    }


def from_result(
    data: Any, source: str
) -> tuple[list[Outcome], list[str], bool, bool, dict[str, Any]]:
    """Return the arguments of :func:`to_result` from its dict.

    Raises
    ------
    DataError
        If it is something else, damaged, or of a later version.
    """
    if not isinstance(data, dict) or data.get("format") != RESULT_FORMAT:
        raise DataError(f"{source} is not a result of sr4mdl (no {RESULT_FORMAT!r})")
    version = data.get("version")
    if version != RESULT_VERSION:
        raise DataError(
            f"{source} has version {version!r}; this sr4mdl reads {RESULT_VERSION}"
        )
    try:
        outcomes = [_outcome_from_json(entry) for entry in data["targets"]]
        features = [str(name) for name in data["features"]]
        parameters = dict(data["parameters"])
        named, several = data["features_named"], data["several_targets"]
    except ParseError as error:
        raise DataError(f"{source} holds a formula that is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise DataError(
            f"{source} is damaged: {type(error).__name__} {error}"
        ) from error
    if not outcomes or not features:
        raise DataError(f"{source} is damaged: no targets or no features")
    return outcomes, features, bool(named), bool(several), parameters


def read_result(path: str | Path) -> Any:
    """Return the JSON content of a file.

    Raises
    ------
    DataError
        If it is not JSON.
    OSError
        If it cannot be read.
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}") from error


def write_files(contents: Mapping[Path, str]) -> None:
    """Write files so that each is there in full or not at all.

    All are written beside their places first and then renamed, so an error or an
    interrupt leaves the old files, or the new ones, and nothing in between. A link is
    followed; a pipe or device is written to, not replaced.
    """
    ready: list[tuple[Path, Path]] = []
    try:
        for given, text in contents.items():
            if given.exists() and not given.is_file():
                given.write_text(text, encoding="utf-8", newline="")
                continue
            path = given.resolve()
            temporary = path.with_name(f".{path.name}.{token_hex(4)}")
            # Noted before it exists: whatever happens, it is cleared away.
            ready.append((temporary, path))
            with temporary.open("x", encoding="utf-8", newline="") as handle:
                handle.write(text)
                handle.flush()
                os.fsync(handle.fileno())
        for temporary, path in ready:
            temporary.replace(path)
    finally:
        for temporary, _ in ready:
            temporary.unlink(missing_ok=True)


class CheckpointFile:
    """Writes what a running search knows into a file, again and again.

    Parameters
    ----------
    path : Path
        The file; its folder is made when it is first written.
    describe : callable
        Turns what the search knows into the dict of a result.
    """

    def __init__(
        self, path: Path, describe: Callable[[SearchMemory], Mapping[str, Any]]
    ) -> None:
        self.path = path
        self._describe = describe
        self._broken = False

    def __call__(self, memory: SearchMemory) -> None:
        """Write; a file that cannot be written is a warning, once."""
        if self._broken:
            return
        text = to_text(self._describe(memory))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_files({self.path: text})
        except OSError as error:
            # The search is worth more than its checkpoint.
            self._broken = True
            warnings.warn(
                f"no checkpoint could be written: {error}", RuntimeWarning, stacklevel=2
            )


def to_text(result: Mapping[str, Any]) -> str:
    """Return the dict of a result as JSON text."""
    return json.dumps(result, indent=1, allow_nan=False) + "\n"


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.target,
        "best": outcome.best,
        "runner_up": outcome.runner_up,
        "gap_bits": _number(outcome.gap_bits),
        "equations": [
            {
                "formula": equation.formula,
                "expression": to_json_object(equation.expression),
                "length": equation.length,
                "error": _number(equation.error),
                "r2": _number(equation.r2),
                "bits": _number(equation.bits),
                "formula_bits": _number(equation.formula_bits),
                "residual_bits": _number(equation.residual_bits),
                "validation_error": _number(equation.validation_error),
            }
            for equation in outcome.equations
        ],
        "constants": [
            {
                "text": constant.text,
                "value": _number(constant.value),
                "standard_error": _number(constant.standard_error),
            }
            for constant in outcome.constants
        ],
        "ranges": {name: list(limits) for name, limits in outcome.ranges.items()},
        "target_range": list(outcome.target_range),
        "n_rows": outcome.n_rows,
        "n_validation": outcome.n_validation,
        "stop_reason": outcome.stop_reason,
        "seconds": outcome.seconds,
        "statistics": outcome.statistics,
        "notes": list(outcome.notes),
        "left_over": outcome.left_over,
        "memory": None if outcome.memory is None else outcome.memory.to_dict(),
    }


def _outcome_from_json(entry: Any) -> Outcome:
    name = str(entry["name"])
    equations = tuple(_equation_from_json(row, name) for row in entry["equations"])
    best, runner_up = int(entry["best"]), entry["runner_up"]
    memory = entry.get("memory")  # results of 0.1 have none
    for row in (best, *(() if runner_up is None else (int(runner_up),))):
        if not 0 <= row < len(equations):
            raise IndexError(f"row {row} of {len(equations)} equations")
    return Outcome(
        target=name,
        equations=equations,
        best=best,
        runner_up=None if runner_up is None else int(runner_up),
        constants=tuple(
            Constant(
                str(one["text"]),
                _required(one["value"]),
                _optional(one["standard_error"]),
            )
            for one in entry["constants"]
        ),
        ranges={
            str(key): (float(low), float(high))
            for key, (low, high) in entry["ranges"].items()
        },
        target_range=(float(entry["target_range"][0]), float(entry["target_range"][1])),
        n_rows=int(entry["n_rows"]),
        n_validation=int(entry["n_validation"]),
        stop_reason=str(entry["stop_reason"]),
        seconds=float(entry["seconds"]),
        statistics=dict(entry["statistics"]),
        notes=tuple(str(note) for note in entry["notes"]),
        # Results of 0.1 do not say it; a word of a later version is not ours to read.
        left_over=entry["left_over"]
        if entry.get("left_over") in get_args(LeftOver)
        else "unknown",
        memory=None if memory is None else SearchMemory.from_dict(memory),
    )


def _equation_from_json(row: Any, target: str) -> Equation:
    return Equation(
        target=target,
        expression=from_json_object(row["expression"]),
        error=_required(row["error"]),
        r2=_required(row["r2"]),
        formula_bits=_required(row["formula_bits"]),
        residual_bits=_required(row["residual_bits"]),
        validation_error=_optional(row["validation_error"]),
    )


def _number(value: float | None) -> float | str | None:
    """Return a number as JSON can hold it: what is not finite as text."""
    if value is None or math.isfinite(value):
        return value
    return str(float(value))


def _required(value: Any) -> float:
    if isinstance(value, str):
        return _NOT_FINITE[value]
    return float(value)


def _optional(value: Any) -> float | None:
    return None if value is None else _required(value)
