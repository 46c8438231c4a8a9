"""The README's block of results, written from result files so that no figure is typed.

The block stands between two comments; everything between them is replaced. It holds
only what the files hold, each part with the commands that make it again.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from sr4mdl.bench import measures
from sr4mdl.bench.documents import Document
from sr4mdl.bench.gains import gain_table, gains
from sr4mdl.bench.measures import Table
from sr4mdl.bench.metrics import median
from sr4mdl.bench.report import (
    blackbox_entries,
    blackbox_table,
    commands,
    name_budgets,
    to_markdown,
)
from sr4mdl.bench.results import Row
from sr4mdl.bench.summary import Group, group_rows, is_data_missing
from sr4mdl.errors import DataError

BEGIN: Final = "<!-- results: written by `sr4mdl bench report --readme` -->"
END: Final = "<!-- results end -->"
N_PUBLISHED: Final = 4
"""Published methods that are shown for comparison, beside the paper's."""
PAPER: Final = "SR4MDL (paper)"


def replace_block(text: str, block: str) -> str:
    """Return the text with the block between the two comments replaced.

    Raises
    ------
    DataError
        If the text has not exactly one pair of the comments, in order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after or END in after:
        raise DataError(f"the file must hold one {BEGIN!r} and after it one {END!r}")
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{after}"


def results_block(
    rows: Sequence[Row], documents: Sequence[Document], published: dict[str, Any]
) -> str:
    """Return the block of results in Markdown, without the comments."""
    rows = name_budgets(rows)
    truth = [row for row in rows if row["suite"] == "groundtruth"]
    tables = [row for row in rows if row["suite"] == "blackbox"]
    parts: list[str] = []
    if guided := measures.of_kind(documents, "guidance"):
        parts += [
            "Correct moves as ranked by the shipped network, on states met on the way "
            "to formulas that training never saw (`sr4mdl bench guidance`):",
            to_markdown(measures.guidance_table(guided)),
        ]
    if truth:
        parts += [
            "Recovered by SRBench's rule on its ground-truth problems, in percent of "
            f"the problems (95 % interval); {_described(truth)}:",
            to_markdown(recovery_by_noise(group_rows(truth), published["recovery"])),
            *_times(truth),
            _commands(truth),
        ]
        if entries := gains(truth):
            parts += [
                "What the search adds to closing, which reads formulas off the bare "
                "variables: the same runs, and those that closing does not solve:",
                to_markdown(gain_table(entries)),
            ]
    if tables:
        entries_blackbox = blackbox_entries(group_rows(tables), published["blackbox"])
        shown = [one for one in entries_blackbox if one["measured"] or one["rank"] == 1]
        parts += [
            "Black-box tables of PMLB, with the published methods of the first Pareto "
            f"rank; {_described(tables)}:",
            to_markdown(blackbox_table(shown)),
            _commands(tables),
        ]
    if valued := measures.of_kind(documents, "mdlformer"):
        parts += [
            "Lengths estimated on pairs of the paper's distribution "
            "(`sr4mdl bench mdlformer`):",
            to_markdown(measures.value_table(valued)),
        ]
    for document in measures.of_kind(documents, "speed"):
        parts += [
            "Speed, each against its baseline in one run (`sr4mdl bench speed`):",
            to_markdown(measures.speed_table(document)),
        ]
    if not parts:
        raise DataError("the files hold nothing for the block of results")
    return "\n\n".join(parts)


def recovery_by_noise(
    groups: Sequence[Group], published: Sequence[dict[str, Any]]
) -> Table:
    """Return measured and published rates, one column a noise level."""
    levels = sorted({group.noise for group in groups})
    measured: dict[str, dict[float, Group]] = defaultdict(dict)
    for group in groups:
        measured[group.label][group.noise] = group
    body = []
    by_rate = sorted(
        measured.items(), key=lambda item: -max(g.rate or 0.0 for g in item[1].values())
    )
    for label, by_level in by_rate:
        n_problems = max(group.n_problems for group in by_level.values())
        cells = [_rate(by_level.get(level), n_problems) for level in levels]
        body.append([f"**{label}**", str(n_problems), *cells])
    rates: dict[str, dict[float, float]] = defaultdict(dict)
    for rate in published:
        if rate["group"] == "all":
            rates[rate["method"]][rate["noise"]] = rate["rate"]
    order = sorted(
        rates, key=lambda method: -max(rates[method].get(one, 0.0) for one in levels)
    )
    chosen = [name for name in order if name != PAPER][:N_PUBLISHED]
    for method in [*([PAPER] if PAPER in rates else []), *chosen]:
        cells = [
            f"{rates[method][level]:.1f}" if level in rates[method] else "-"
            for level in levels
        ]
        body.append([f"{method}, published", "-", *cells])
    return ["method", "problems", *(f"noise {level:g}" for level in levels)], body


def _rate(group: Group | None, n_problems: int) -> str:
    """Return rate and interval, and on how many problems where not on all."""
    if group is None or group.rate is None:
        return "-"
    assert group.rate_low is not None
    assert group.rate_high is not None
    fewer = group.n_problems < n_problems
    return (
        f"{100 * group.rate:.1f} ({100 * group.rate_low:.1f} to "
        f"{100 * group.rate_high:.1f})"
        + (f"; {group.n_problems} problems" if fewer else "")
    )


def _described(rows: Sequence[Row]) -> str:
    """Return time limits and numbers of seeds in words."""
    limits = sorted({row["budget"]["time_s"] for row in rows})
    seeds: dict[tuple[str, str], set[int]] = defaultdict(set)
    for row in rows:
        seeds[row["method"], row["mode"]].add(row["seed"])
    counts = sorted({len(found) for found in seeds.values()})
    seconds = " or ".join(f"{limit:g} s" for limit in limits)
    trials = " or ".join(str(count) for count in counts)
    return f"{seconds} a fit, {trials} seed{'s' if counts != [1] else ''}"


def _times(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on numeric recovery and times at the lowest noise."""
    rows = [row for row in rows if not is_data_missing(row)]
    noise = min((row["noise"] for row in rows), default=0.0)
    parts: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["noise"] == noise and row["method"] == "sr4mdl":
            parts[row["mode"]].append(row)
    if not parts:
        return []
    mode, part = next(
        ((name, part) for name, part in parts.items() if name.startswith("policy")),
        next(iter(parts.items())),
    )
    seconds = median(row["time_s"] for row in part if row.get("recovered"))
    n_right = sum(bool(row.get("recovered_numeric")) for row in part)
    text = (
        f"Mode `{mode}`, noise {noise:g}: {n_right} of {len(part)} runs are right by "
        "numbers, inside and outside the training box"
    )
    if seconds is not None:
        text += f"; a recovery takes {seconds:.1f} s in the median"
    return [text + "."]


def _commands(rows: Sequence[Row]) -> str:
    return "```\n" + "\n".join(commands(rows)) + "\n```"
