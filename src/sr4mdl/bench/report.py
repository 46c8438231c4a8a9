"""Reports: result rows into Markdown tables and pictures.

Tables are made here, pictures in ``pictures``. Published figures come from the
package's facts and always stand apart from measured ones.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from sr4mdl.bench.metrics import pareto_ranks
from sr4mdl.bench.problems import read_published
from sr4mdl.bench.results import Row
from sr4mdl.bench.summary import (
    Group,
    by_problem,
    group_rows,
    is_data_missing,
    label_of,
)
from sr4mdl.errors import DataError

REPORT_NAME: Final = "report.md"
_TIMES: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_MAX_LISTED: Final = 12

Table = tuple[list[str], list[list[str]]]


def write_report(rows: Sequence[Row], out: Path) -> list[Path]:
    """Write the report and its pictures; return the paths, the report first.

    Parameters
    ----------
    rows : sequence of dict
        Result rows of any suites, methods and budgets.
    out : Path
        Folder; made if it is not there.

    Raises
    ------
    DataError
        If there are no rows.
    """
    if not rows:
        raise DataError("the result files hold no rows")
    from sr4mdl.bench import pictures

    out.mkdir(parents=True, exist_ok=True)
    rows = name_budgets(rows)
    suites: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        suites[row["suite"]].append(row)
    parts = ["# Benchmark report", _overview(rows)]
    written: list[Path] = []

    def draw(name: str, title: str, paint: Callable[[Path], bool]) -> None:
        if paint(out / name):
            written.append(out / name)
            parts.append(f"![{title}]({name})")

    published = read_published()
    if truth := suites.get("groundtruth"):
        parts.append("## Recovery on the ground-truth problems")
        for group, members in _with_total(truth):
            parts.append(f"### {_GROUP_TITLES.get(group, group)}")
            parts.append(to_markdown(recovery_table(members)))
        draw(
            "recovery_by_noise.png",
            "Recovery by noise",
            lambda path: pictures.recovery_by_noise(
                group_rows(truth), published["recovery"], path
            ),
        )
        parts.append("### Published rates, for comparison")
        parts.append(_PUBLISHED_NOTE)
        parts.append(to_markdown(published_table(published["recovery"])))
        parts.append("### Recovery against time")
        parts.append(to_markdown(time_table(truth)))
        draw(
            "recovery_by_time.png",
            "Recovery against time",
            lambda path: pictures.recovery_by_time(truth, published["recovery"], path),
        )
    if classic := suites.get("classic"):
        parts.append("## Recovery on the classic problems")
        for group, members in _with_total(classic):
            parts.append(f"### {_GROUP_TITLES.get(group, group)}")
            parts.append(to_markdown(recovery_table(members)))
    judged = [row for row in rows if row["suite"] != "blackbox"]
    if modes := mode_table(judged):
        parts.append("## Modes")
        parts.append(
            "Problems that a mode recovers in more (gained) or fewer (lost) trials "
            "than the method's first mode, over the runs that both have."
        )
        parts.append(to_markdown(modes))
        draw(
            "modes.png",
            "Recovery by mode",
            lambda path: pictures.modes(group_rows(judged), path),
        )
    if tables := suites.get("blackbox"):
        parts.append("## Black-box problems")
        entries = blackbox_entries(group_rows(tables), published["blackbox"])
        n_sets = len(by_problem(row for row in tables if not is_data_missing(row)))
        parts.append(
            f"Measured on {n_sets} data sets. Mean over data sets of the median over "
            "trials; the Pareto rank weighs mean test R2 against mean size."
        )
        parts.append(to_markdown(blackbox_table(entries)))
        draw(
            "blackbox.png",
            "R2 against complexity",
            lambda path: pictures.blackbox(entries, path),
        )
    parts += _failures(rows)
    parts += ["## Commands", "```\n" + "\n".join(commands(rows)) + "\n```"]
    report = out / REPORT_NAME
    report.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return [report, *written]


_GROUP_TITLES: Final = {
    "all": "All problems",
    "feynman": "Feynman",
    "strogatz": "Strogatz",
}
_PUBLISHED_NOTE: Final = (
    "Symbolic solution rate in percent. Budgets, seeds and subsets differ between "
    "sources; SRBench's methods had up to 8 hours a problem."
)


def name_budgets(rows: Sequence[Row]) -> list[Row]:
    """Return rows whose mode names the time limit where there are several."""
    budgets: dict[tuple[str, str, str], set[float]] = defaultdict(set)
    for row in rows:
        key = (row["suite"], row["method"], row["mode"])
        budgets[key].add(row["budget"]["time_s"])
    named = []
    for row in rows:
        if len(budgets[row["suite"], row["method"], row["mode"]]) > 1:
            row = {**row, "mode": f"{row['mode']}, {row['budget']['time_s']:g} s"}
        named.append(row)
    return named


def to_markdown(table: Table) -> str:
    """Return a table in Markdown."""
    header, body = table
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _with_total(rows: list[Row]) -> Iterable[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["group"] or "other"].append(row)
    yield "all", rows
    if len(groups) > 1:
        yield from sorted(groups.items())


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def recovery_table(rows: Iterable[Row]) -> Table:
    """Return rates with intervals, R2, size and time by method and noise."""
    header = ["method", "noise", "problems", "runs", "recovered %", "95 % interval"]
    header += ["numeric %", "median R2", "median size", "mean time (s)", "errors"]
    body = [
        [
            group.label,
            f"{group.noise:g}",
            str(group.n_problems),
            str(group.n_runs),
            _percent(group.rate),
            f"{_percent(group.rate_low)} to {_percent(group.rate_high)}",
            _percent(group.rate_numeric),
            _number(group.r2_median, 4),
            _number(group.complexity_median, 1),
            _number(group.time_mean_s, 1),
            str(group.n_errors),
        ]
        for group in group_rows(rows)
    ]
    return header, body


def published_table(rates: Iterable[dict[str, Any]]) -> Table:
    """Return published rates by method, one column a noise level, the best first."""
    cells: dict[str, dict[tuple[str, float], dict[str, Any]]] = defaultdict(dict)
    for rate in rates:
        cells[rate["method"]][rate["group"], rate["noise"]] = rate
    levels = (0.0, 0.001, 0.01, 0.1)

    def order(method: str) -> float:
        entries = cells[method]
        first = entries.get(("all", 0.0)) or entries.get(("feynman", 0.0))
        return -first["rate"] if first else 0.0

    header = ["method", "problems", *(f"noise {level:g}" for level in levels), "note"]
    body = []
    for method in sorted(cells, key=order):
        entries = cells[method]
        group = "all" if any(key[0] == "all" for key in entries) else "feynman"
        notes = {entry["note"] for entry in entries.values() if entry.get("note")}
        body.append(
            [
                method,
                "both" if group == "all" else "Feynman",
                *(
                    f"{entries[group, level]['rate']:.1f}"
                    if (group, level) in entries
                    else "-"
                    for level in levels
                ),
                "; ".join(sorted(notes)),
            ]
        )
    return header, body


def recovered_within(rows: Sequence[Row], seconds: float) -> float:
    """Return the share of runs that were recovered in at most that time."""
    hits: int = sum(
        bool(row.get("recovered"))
        and row.get("time_s") is not None
        and row["time_s"] <= seconds
        for row in rows
    )
    return hits / len(rows)


def time_table(rows: Iterable[Row]) -> Table:
    """Return the share recovered within growing times, by method and noise."""
    parts: dict[tuple[str, float], list[Row]] = defaultdict(list)
    for row in rows:
        if not is_data_missing(row):
            label = label_of(row["method"], row["mode"])
            parts[label, row["noise"]].append(row)
    longest = max(
        (row["time_s"] for part in parts.values() for row in part if row.get("time_s")),
        default=0.0,
    )
    times = [t for t in _TIMES if t < longest]
    times += [t for t in _TIMES if t >= longest][:1]
    header = ["method", "noise", *(f"{t} s" for t in times)]
    body = [
        [label, f"{noise:g}", *(_percent(recovered_within(part, t)) for t in times)]
        for (label, noise), part in sorted(parts.items())
    ]
    return header, body


def mode_table(rows: Sequence[Row]) -> Table | None:
    """Return a comparison of modes, or None where no method has several."""
    groups: dict[tuple[str, float], dict[str, list[Row]]] = defaultdict(dict)
    for row in rows:
        if not is_data_missing(row):
            modes = groups[row["method"], row["noise"]]
            modes.setdefault(row["mode"], []).append(row)
    body = []
    for (method, noise), modes in sorted(groups.items()):
        if len(modes) < 2:
            continue
        first, *_ = modes
        for mode, part in modes.items():
            gained, lost, shared = _compare(part, modes[first])
            (group,) = group_rows(part)
            body.append(
                [
                    method,
                    mode,
                    f"{noise:g}",
                    str(group.n_problems),
                    _percent(group.rate),
                    f"{_percent(group.rate_low)} to {_percent(group.rate_high)}",
                    _percent(group.rate_numeric),
                    "-" if mode == first else f"{gained} / {lost} of {shared}",
                    _number(group.time_mean_s, 1),
                ]
            )
    if not body:
        return None
    header = ["method", "mode", "noise", "problems", "recovered %", "95 % interval"]
    header += ["numeric %", "gained / lost", "mean time (s)"]
    return header, body


def _compare(rows: list[Row], base: list[Row]) -> tuple[int, int, int]:
    """Return problems gained, lost and shared, over the trials that both have."""
    solved: dict[tuple[str, int], bool] = {
        (row["problem"], row["seed"]): bool(row.get("recovered")) for row in base
    }
    change: dict[str, int] = defaultdict(int)
    for row in rows:
        key = (row["problem"], row["seed"])
        if key in solved:
            change[row["problem"]] += int(bool(row.get("recovered"))) - solved[key]
    gained = sum(value > 0 for value in change.values())
    lost = sum(value < 0 for value in change.values())
    return gained, lost, len(change)


def blackbox_entries(
    groups: Sequence[Group], published: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return measured and published black-box scores with their Pareto ranks.

    Published figures are those over the sets that are easily had (119 of 122) where
    there are such, else over all 122.
    """
    entries: list[dict[str, Any]] = [
        {
            "method": group.label
            if group.noise == 0
            else f"{group.label}, noise {group.noise:g}",
            "measured": True,
            "datasets": group.n_problems,
            "r2_mean": group.r2_mean,
            "r2_median": group.r2_median,
            "complexity_mean": group.complexity_mean,
            "time_mean_s": group.time_mean_s,
            "note": f"{group.n_errors} errors" if group.n_errors else "",
        }
        for group in groups
        if group.r2_mean is not None and group.complexity_mean is not None
    ]
    chosen: dict[str, dict[str, Any]] = {}
    for score in published:
        if score["method"] not in chosen or score["subset"] == "available_119":
            chosen[score["method"]] = score
    entries += [{"measured": False, **score} for score in chosen.values()]
    ranks = pareto_ranks(
        [entry["r2_mean"] for entry in entries],
        [entry["complexity_mean"] for entry in entries],
    )
    for entry, rank in zip(entries, ranks, strict=True):
        entry["rank"] = rank
    return sorted(entries, key=lambda entry: (entry["rank"], -entry["r2_mean"]))


def blackbox_table(entries: Iterable[dict[str, Any]]) -> Table:
    """Return the black-box comparison."""
    header = ["Pareto rank", "method", "source", "data sets", "mean R2", "median R2"]
    header += ["mean size", "mean time (s)", "note"]
    body = [
        [
            str(entry["rank"]),
            f"**{entry['method']}**" if entry["measured"] else entry["method"],
            "measured" if entry["measured"] else "published",
            str(entry["datasets"]),
            _number(entry["r2_mean"], 3),
            _number(entry.get("r2_median"), 3),
            _number(entry["complexity_mean"], 1),
            _number(entry.get("time_mean_s"), 1),
            entry.get("note", ""),
        ]
        for entry in entries
    ]
    return header, body


def commands(rows: Sequence[Row]) -> list[str]:
    """Return the commands that make these rows again."""
    parts: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        budget = row["budget"]
        mode = row["mode"].partition(",")[0]
        key = (row["suite"], row["method"], mode, *sorted(budget.items()))
        parts[key].append(row)
    lines = []
    for (suite, method, mode, *_), part in sorted(parts.items()):
        budget = part[0]["budget"]
        noises = ",".join(f"{level:g}" for level in sorted({r["noise"] for r in part}))
        line = f"sr4mdl bench {suite} --method {method}"
        if mode != "default":
            line += f" --mode {mode}"
        line += f" --seeds {len({row['seed'] for row in part})} --noise {noises}"
        line += f" --time {budget['time_s']:g}"
        if suite == "groundtruth":
            line += f" --rows {budget['n_rows']}"
        if suite != "classic":
            line += f" --train-rows {budget['max_train_rows']} --data DIR"
        lines.append(line)
    return lines


def _overview(rows: Sequence[Row]) -> str:
    versions: Counter[str] = Counter()
    for row in rows:
        for name, version in (row.get("versions") or {}).items():
            versions[f"{name} {version}"] += 1
    return (
        f"{len(rows)} runs on {len(by_problem(rows))} problems. "
        f"Versions: {', '.join(sorted(versions)) or 'not recorded'}."
    )


def _failures(rows: Sequence[Row]) -> list[str]:
    errors: dict[tuple[str, str], list[str]] = defaultdict(list)
    missing = set()
    unjudged = []
    for row in rows:
        if is_data_missing(row):
            missing.add(row["problem"])
        elif row.get("error"):
            errors[row["method"], row["error"]].append(row["problem"])
        elif str(row.get("verdict") or "").startswith(("time-out", "judge failed")):
            unjudged.append(row["problem"])
    parts = ["## Failures"]
    if errors:
        body = [
            [method, error.replace("|", "/"), str(len(names)), _listed(names)]
            for (method, error), names in sorted(errors.items())
        ]
        parts.append(to_markdown((["method", "error", "runs", "problems"], body)))
    if missing:
        parts.append(f"Data sets missing: {_listed(missing)}.")
    if unjudged:
        parts.append(
            f"Verdict not reached in {len(unjudged)} runs, counted as not recovered: "
            f"{_listed(unjudged)}."
        )
    if len(parts) == 1:
        parts.append("None.")
    return parts


def _listed(names: Iterable[str]) -> str:
    unique = sorted(set(names))
    shown = ", ".join(unique[:_MAX_LISTED])
    more = len(unique) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
