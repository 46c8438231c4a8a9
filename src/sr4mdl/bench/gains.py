"""What guidance adds: modes compared where closing alone does not solve the problem.

Closing reads many formulas off the bare variables, whatever guides the search after it.
A comparison over all problems therefore hides what the search contributes; here it is
told apart, run by run, with the mode ``closing`` as the yardstick.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sr4mdl.bench.metrics import wilson_interval
from sr4mdl.bench.results import Row
from sr4mdl.bench.summary import is_data_missing

CLOSING: Final = "closing"

RunKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Gain:
    """One mode at one noise level, over the runs that closing has too."""

    mode: str
    noise: float
    n_runs: int
    """Runs of this mode whose problem and seed closing was run on."""
    n_recovered: int
    """Of these, recovered."""
    n_hard: int
    """Of these, not recovered by closing."""
    n_hard_recovered: int
    """Of the hard ones, recovered."""
    n_hard_numeric: int
    """Runs that closing does not get right by numbers."""
    n_hard_numeric_right: int
    """Of those, right by numbers."""


def gains(rows: Iterable[Row], method: str = "sr4mdl") -> list[Gain]:
    """Return the gain of each mode; empty where closing was not run by itself."""
    parts: dict[tuple[float, str], dict[RunKey, Row]] = defaultdict(dict)
    for row in rows:
        if row["method"] == method and not is_data_missing(row):
            key = (row["problem"], row["seed"])
            parts[row["noise"], row["mode"]][key] = row
    result = []
    for (noise, mode), runs in sorted(parts.items(), key=lambda item: item[0]):
        base = parts.get((noise, _closing_name(parts, noise, mode)))
        if base is None:
            continue
        shared = [key for key in runs if key in base]
        hard = [key for key in shared if not base[key].get("recovered")]
        numeric = [key for key in shared if not base[key].get("recovered_numeric")]
        result.append(
            Gain(
                mode=mode,
                noise=noise,
                n_runs=len(shared),
                n_recovered=_count(runs, shared, "recovered"),
                n_hard=len(hard),
                n_hard_recovered=_count(runs, hard, "recovered"),
                n_hard_numeric=len(numeric),
                n_hard_numeric_right=_count(runs, numeric, "recovered_numeric"),
            )
        )
    return result


def _closing_name(
    parts: dict[tuple[float, str], dict[RunKey, Row]], noise: float, mode: str
) -> str:
    """Return closing's name beside a mode; the report adds budgets to names."""
    budget = mode.partition(",")[1:]
    name = CLOSING + "".join(budget)
    return name if (noise, name) in parts else CLOSING


def _count(runs: dict[RunKey, Row], keys: Sequence[RunKey], field: str) -> int:
    return sum(bool(runs[key].get(field)) for key in keys)


def gain_table(entries: Sequence[Gain]) -> tuple[list[str], list[list[str]]]:
    """Return the comparison, the best on the hard runs first within a noise level."""
    header = [
        "mode",
        "noise",
        "runs",
        "recovered",
        "not by closing",
        "of these recovered",
    ]
    header += ["95 % interval", "of those wrong by numbers, right"]
    body = []
    for gain in sorted(entries, key=lambda g: (g.noise, -g.n_hard_recovered)):
        interval = "-"
        if gain.n_hard:
            low, high = wilson_interval(gain.n_hard_recovered, gain.n_hard)
            interval = f"{100 * low:.1f} to {100 * high:.1f}"
        body.append(
            [
                gain.mode,
                f"{gain.noise:g}",
                str(gain.n_runs),
                _share(gain.n_recovered, gain.n_runs),
                str(gain.n_hard),
                _share(gain.n_hard_recovered, gain.n_hard),
                interval,
                _share(gain.n_hard_numeric_right, gain.n_hard_numeric),
            ]
        )
    return header, body


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.1f} %)" if total else "-"
