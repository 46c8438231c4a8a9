"""Reports: result rows into Markdown tables and pictures.

Tables are made here, pictures in ``pictures``. Published figures come from the
package's facts and always stand apart from measured ones.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from sr4mdl.bench import measures
from sr4mdl.bench.documents import Document
from sr4mdl.bench.gains import gain_table, gains
from sr4mdl.bench.measures import Table
from sr4mdl.bench.methods import ONLY_MODE, mode_place
from sr4mdl.bench.metrics import pareto_ranks
from sr4mdl.bench.problems import read_published
from sr4mdl.bench.results import Row
from sr4mdl.bench.suite_command import DEFAULT_ROWS, DEFAULT_TRAIN_ROWS
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


def write_report(
    rows: Sequence[Row],
    out: Path,
    documents: Sequence[Document] = (),
    published: dict[str, Any] | None = None,
) -> list[Path]:
    """Write the report and its pictures; return the paths, the report first.

    Parameters
    ----------
    rows : sequence of dict
        Result rows of any suites, methods and budgets.
    out : Path
        Folder; made if it is not there.
    documents : sequence of dict
        Documents of the measuring commands.
    published : dict, optional
        Published figures; by default those that come with the package.

    Raises
    ------
    DataError
        If there are neither rows nor documents.
    """
    if not rows and not documents:
        raise DataError("the result files hold no rows")
    rows = name_budgets(rows)
    if published is None:
        published = read_published()
    suites: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        suites[row["suite"]].append(row)
    draft = _Draft(out)
    draft.add("# Benchmark report")
    if rows:
        draft.add(_overview(rows))
    if truth := suites.get("groundtruth"):
        _write_groundtruth(draft, truth, published["recovery"])
    if classic := suites.get("classic"):
        draft.add("## Recovery on the classic problems")
        _write_groups(draft, classic)
    _write_modes(draft, [row for row in rows if row["suite"] != "blackbox"])
    if tables := suites.get("blackbox"):
        _write_blackbox(draft, tables, published["blackbox"])
    _write_network(draft, documents)
    if rows:
        draft.add(*_failures(rows))
        draft.add("## Commands", "```\n" + "\n".join(commands(rows)) + "\n```")
    return draft.save(REPORT_NAME)


class _Draft:
    """A report as it grows: paragraphs and pictures."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._parts: list[str] = []
        self._pictures: list[Path] = []
        out.mkdir(parents=True, exist_ok=True)

    def add(self, *paragraphs: str) -> None:
        self._parts += paragraphs

    def table(self, table: Table) -> None:
        self.add(to_markdown(table))

    def picture(self, name: str, title: str, paint: Callable[[Path], bool]) -> None:
        """Have a picture painted and show it if there was anything to paint."""
        path = self.out / name
        if paint(path):
            self._pictures.append(path)
            self.add(f"![{title}]({name})")

    def save(self, name: str) -> list[Path]:
        path = self.out / name
        path.write_text("\n\n".join(self._parts) + "\n", encoding="utf-8")
        return [path, *self._pictures]


def _write_groups(draft: _Draft, rows: list[Row]) -> None:
    for group, members in _with_total(rows):
        draft.add(f"### {_GROUP_TITLES.get(group, group)}")
        draft.table(recovery_table(members))


def _write_groundtruth(
    draft: _Draft, rows: list[Row], published: Sequence[dict[str, Any]]
) -> None:
    from sr4mdl.bench import pictures

    draft.add("## Recovery on the ground-truth problems")
    _write_groups(draft, rows)
    draft.picture(
        "recovery_by_noise.png",
        "Recovery by noise",
        lambda path: pictures.recovery_by_noise(group_rows(rows), published, path),
    )
    draft.add("### Published rates, for comparison", _PUBLISHED_NOTE)
    draft.table(published_table(published))
    draft.add("### Recovery against time")
    draft.table(time_table(rows))
    draft.picture(
        "recovery_by_time.png",
        "Recovery against time",
        lambda path: pictures.recovery_by_time(rows, published, path),
    )
    if entries := gains(rows):
        draft.add("## What the network adds", _GAINS_NOTE)
        draft.table(gain_table(entries))


def _write_modes(draft: _Draft, rows: list[Row]) -> None:
    from sr4mdl.bench import pictures

    table = mode_table(rows)
    if table is None:
        return
    draft.add(
        "## Modes",
        "Problems that a mode recovers in more (gained) or fewer (lost) trials "
        "than the method's first mode, over the runs that both have.",
    )
    draft.table(table)
    draft.picture(
        "modes.png",
        "Recovery by mode",
        lambda path: pictures.modes(group_rows(rows), path),
    )


def _write_blackbox(
    draft: _Draft, rows: list[Row], published: Sequence[dict[str, Any]]
) -> None:
    from sr4mdl.bench import pictures

    entries = blackbox_entries(group_rows(rows), published)
    n_sets = len(by_problem(row for row in rows if not is_data_missing(row)))
    draft.add(
        "## Black-box problems",
        f"Measured on {n_sets} data sets. Mean over data sets of the median over "
        "trials; the Pareto rank weighs mean test R2 against mean size.",
    )
    draft.table(blackbox_table(entries))
    draft.picture(
        "blackbox.png",
        "R2 against complexity",
        lambda path: pictures.blackbox(entries, path),
    )


def _write_network(draft: _Draft, documents: Sequence[Document]) -> None:
    """Write what the measuring commands said of the network and the speed."""
    from sr4mdl.bench import network_pictures

    if guided := measures.of_kind(documents, "guidance"):
        draft.add("## Guidance", _GUIDANCE_NOTE)
        draft.table(measures.guidance_table(guided))
    if valued := measures.of_kind(documents, "mdlformer"):
        draft.add("## Estimated lengths")
        draft.table(measures.value_table(valued))
        for panel in dict.fromkeys(name for one in valued for name in one["panels"]):
            draft.add(f"### By {panel}")
            draft.table(measures.panel_table(valued, panel))
        draft.picture(
            "ablation.png",
            "Estimated lengths by setting",
            lambda path: network_pictures.ablation(valued, path),
        )
    for number, document in enumerate(measures.of_kind(documents, "casestudy")):
        cases = document["cases"]
        draft.add("## Case studies", _CASE_NOTE)
        draft.picture(
            f"casestudy{number or ''}.png",
            "Estimates along derivations",
            partial(network_pictures.casestudy, cases),
        )
        for case in cases:
            draft.add(f"### {case['problem']}: `{case['formula']}`")
            draft.table(measures.casestudy_table(case))
    for document in measures.of_kind(documents, "speed"):
        draft.add("## Speed")
        draft.table(measures.speed_table(document))


_GROUP_TITLES: Final = {
    "all": "All problems",
    "feynman": "Feynman",
    "strogatz": "Strogatz",
}
_PUBLISHED_NOTE: Final = (
    "Symbolic solution rate in percent. Budgets, seeds and subsets differ between "
    "sources; SRBench's methods had up to 8 hours a problem."
)

_GAINS_NOTE: Final = (
    "Runs of each mode beside the same runs of `closing`, which reads the formula off "
    "the variables without a search. The runs that closing does not solve show what "
    "the search and its guide are worth."
)
_GUIDANCE_NOTE: Final = (
    "States met on derivations of known formulas: the share in which a correct move is "
    "ranked so high, ties counted as a random order would."
)
_CASE_NOTE: Final = (
    "Estimates after each right move (red) and after every wrong one (grey; blue where "
    "at or below the right one, their share written above). `policy prefers` is the "
    "share of wrong moves that the policy finds at least as likely as the right one."
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
        names = sorted(modes, key=lambda mode: mode_place(method, mode))
        first = names[0]
        for mode in names:
            part = modes[mode]
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
    """Return the commands that make these rows again; modes run alike are one."""
    parts: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        budget = row["budget"]
        mode = row["mode"].partition(",")[0]
        key = (row["suite"], row["method"], mode, *sorted(budget.items()))
        parts[key].append(row)
    lines: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (suite, method, mode, *_), part in sorted(parts.items()):
        budget = part[0]["budget"]
        noises = ",".join(f"{level:g}" for level in sorted({r["noise"] for r in part}))
        options = f" --seeds {len({row['seed'] for row in part})} --noise {noises}"
        options += f" --time {budget['time_s']:g}"
        if suite == "groundtruth" and budget["n_rows"] != DEFAULT_ROWS:
            options += f" --rows {budget['n_rows']}"
        if suite != "classic" and budget["max_train_rows"] != DEFAULT_TRAIN_ROWS:
            options += f" --train-rows {budget['max_train_rows']}"
        if suite != "classic":
            options += " --data DIR"
        lines[f"sr4mdl bench {suite} --method {method}", options].append(mode)
    return [
        start
        + (f" --mode {','.join(modes)}" if modes != list(ONLY_MODE) else "")
        + options
        for (start, options), modes in lines.items()
    ]


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
