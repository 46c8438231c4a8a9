"""The report's pictures, drawn by matplotlib, which is imported only here."""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sr4mdl.bench.methods import require
from sr4mdl.bench.results import Row
from sr4mdl.bench.summary import Group, is_data_missing, label_of

_LEVELS: Final = (0.0, 0.001, 0.01, 0.1)
_N_PUBLISHED: Final = 8
_DPI: Final = 150


def _figure(width: float = 7.0, height: float = 4.5) -> tuple[Any, Any]:
    """Return a figure and its axes, without touching pyplot's global state."""
    figure = require("matplotlib.figure", "bench").Figure(
        figsize=(width, height), layout="constrained"
    )
    return figure, figure.subplots()


def _save(figure: Any, path: Path) -> bool:
    figure.savefig(path, dpi=_DPI)
    return True


def recovery_by_noise(
    groups: Sequence[Group], published: Sequence[dict[str, Any]], path: Path
) -> bool:
    """Draw recovery rates with intervals over the noise levels; True if drawn."""
    measured: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if group.rate is not None:
            measured[group.label].append(group)
    if not measured:
        return False
    levels = sorted({*_LEVELS, *(group.noise for group in groups)})
    figure, axes = _figure()
    for method, rates in _leading(published):
        points = [(levels.index(noise), rate) for noise, rate in rates]
        axes.plot(*zip(*points, strict=True), ":", marker=".", lw=1, label=method)
    for label, part in measured.items():
        part = sorted(part, key=lambda group: group.noise)
        rate = [100 * group.rate for group in part if group.rate is not None]
        low = [100 * group.rate_low for group in part if group.rate_low is not None]
        high = [100 * group.rate_high for group in part if group.rate_high is not None]
        spread = [
            [value - end for value, end in zip(rate, low, strict=True)],
            [end - value for value, end in zip(rate, high, strict=True)],
        ]
        places = [levels.index(group.noise) for group in part]
        axes.errorbar(places, rate, spread, marker="o", capsize=3, lw=2, label=label)
    axes.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
    axes.set_xlabel("noise on training targets")
    axes.set_ylabel("recovered (%)")
    axes.set_ylim(0, 100)
    axes.legend(fontsize="x-small", ncols=2)
    return _save(figure, path)


def _leading(
    published: Sequence[dict[str, Any]],
) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return the published methods with the highest rates over both groups."""
    rates: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for rate in published:
        if rate["group"] == "all":
            rates[rate["method"]].append((rate["noise"], rate["rate"]))
    best = sorted(rates, key=lambda method: -max(rate for _, rate in rates[method]))
    return [(method, sorted(rates[method])) for method in best[:_N_PUBLISHED]]


def recovery_by_time(
    rows: Sequence[Row], published: Sequence[dict[str, Any]], path: Path
) -> bool:
    """Draw the share recovered over time at the lowest noise; True if drawn."""
    rows = [row for row in rows if not is_data_missing(row)]
    if not rows:
        return False
    noise = min(row["noise"] for row in rows)
    curves: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["noise"] == noise:
            curves[label_of(row["method"], row["mode"])].append(row)
    figure, axes = _figure()
    for label, part in curves.items():
        times = sorted(
            max(row["time_s"], 1e-2)
            for row in part
            if row.get("recovered") and row.get("time_s") is not None
        )
        end = max((row["time_s"] or 0.0 for row in part), default=0.0)
        steps = [100 * (i + 1) / len(part) for i in range(len(times))]
        last = steps[-1] if steps else 0.0
        axes.step([*times, max(end, 1e-2)], [*steps, last], where="post", label=label)
    for rate in published:
        if rate["group"] == "all" and rate["noise"] == noise and "time_s" in rate:
            axes.plot(rate["time_s"], rate["rate"], "x", color="gray")
            axes.annotate(
                rate["method"], (rate["time_s"], rate["rate"]), fontsize="x-small"
            )
    axes.set_xscale("log")
    axes.set_xlabel("time (s); crosses: published mean times")
    axes.set_ylabel(f"recovered (%), noise {noise:g}")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
    return _save(figure, path)


def modes(groups: Sequence[Group], path: Path) -> bool:
    """Draw one panel a method with a bar for each mode and noise; True if drawn."""
    methods: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if group.rate is not None:
            methods[group.method].append(group)
    methods = {
        method: part
        for method, part in methods.items()
        if len({group.mode for group in part}) > 1
    }
    if not methods:
        return False
    figure = require("matplotlib.figure", "bench").Figure(
        figsize=(7.0, 3.5 * len(methods)), layout="constrained"
    )
    panels = figure.subplots(len(methods), squeeze=False)[:, 0]
    for axes, (method, part) in zip(panels, methods.items(), strict=True):
        names = list(dict.fromkeys(group.mode for group in part))
        levels = sorted({group.noise for group in part})
        width = 0.8 / len(names)
        for number, mode in enumerate(names):
            chosen = [group for group in part if group.mode == mode]
            places = [levels.index(group.noise) + width * number for group in chosen]
            heights = [100 * (group.rate or 0.0) for group in chosen]
            below = [
                100 * ((group.rate or 0.0) - (group.rate_low or 0.0))
                for group in chosen
            ]
            above = [
                100 * ((group.rate_high or 0.0) - (group.rate or 0.0))
                for group in chosen
            ]
            axes.bar(places, heights, width, yerr=[below, above], capsize=2, label=mode)
        middle = 0.4 - width / 2
        axes.set_xticks(
            [place + middle for place in range(len(levels))],
            [f"noise {level:g}" for level in levels],
        )
        axes.set_ylabel("recovered (%)")
        axes.set_title(method)
        axes.legend(fontsize="small")
    return _save(figure, path)


def blackbox(entries: Sequence[dict[str, Any]], path: Path) -> bool:
    """Draw mean test R2 against mean size, coloured by Pareto rank; True if drawn."""
    shown = [entry for entry in entries if entry["r2_mean"] > 0]
    if not shown:
        return False
    figure, axes = _figure(7.5, 5.0)
    for entry in shown:
        point = entry["complexity_mean"], entry["r2_mean"]
        axes.plot(
            *point,
            "*" if entry["measured"] else "o",
            markersize=14 if entry["measured"] else 6,
            color=f"C{min(entry['rank'], 6) - 1}",
        )
        axes.annotate(
            entry["method"], point, fontsize="x-small", xytext=(4, 4),
            textcoords="offset points",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("mean size (nodes)")
    axes.set_ylabel("mean test R2")
    axes.set_title("Stars: measured. Colour: Pareto rank (first in blue)")
    return _save(figure, path)


def casestudy(cases: Sequence[dict[str, Any]], path: Path) -> bool:
    """Draw one panel a derivation: the right moves' estimates among the wrong ones'."""
    if not cases:
        return False
    n_rows = (len(cases) + 1) // 2
    n_columns = min(2, len(cases))
    figure = require("matplotlib.figure", "bench").Figure(
        figsize=(6.2 * n_columns, 4.6 * n_rows), layout="constrained"
    )
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axes in panels[len(cases) :]:
        axes.set_visible(False)
    for axes, case in zip(panels, cases, strict=False):
        _draw_case(axes, case)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return _save(figure, path)


def _draw_case(axes: Any, case: dict[str, Any]) -> None:
    steps = case["steps"]
    jitter = random.Random(0)
    top = 0.0
    for number, step in enumerate(steps[:-1], start=1):
        misleading = [value for value in step["wrong"] if value <= step["right"]]
        others = [value for value in step["wrong"] if value > step["right"]]
        for values, color, label in (
            (others, "0.75", "after a wrong move"),
            (misleading, "C0", "wrong move at or below the right one"),
        ):
            spots = [number + jitter.uniform(-0.22, 0.22) for _ in values]
            axes.plot(
                spots, values, ".", color=color, markersize=4, zorder=1,
                label=label if number == 1 else None,
            )  # fmt: skip
        top = max(top, *step["wrong"], step["right"])
    line = [steps[0]["estimate"], *(step["right"] for step in steps[:-1])]
    spread = [steps[0]["spread"], *(step["right_spread"] for step in steps[:-1])]
    places = range(len(line))
    axes.errorbar(
        places, line, spread, color="C3", marker="o", lw=2, capsize=3, zorder=3,
        label="after the right move, with the network's spread",
    )  # fmt: skip
    missing = [step["missing"] for step in steps]
    axes.plot(places, missing, "k--", lw=1, zorder=2, label="true missing length")
    top = max(top, *missing, *(a + b for a, b in zip(line, spread, strict=True)))
    for number, step in enumerate(steps[:-1], start=1):
        axes.text(
            number, 1.03 * top, f"{100 * step['share_at_or_below']:.1f} %",
            ha="center", va="bottom", fontsize=9, color="C0",
        )  # fmt: skip
    names = ["start", *(_shorten(step["move"]) for step in steps[:-1])]
    axes.set_xticks(places, names, fontsize=8, rotation=20, ha="right")
    axes.set_xlim(-0.5, len(line) - 0.5)
    low = min(a - b for a, b in zip(line, spread, strict=True))
    axes.set_ylim(min(-0.5, low - 0.2), 1.15 * top)
    axes.set_ylabel("missing symbols (estimate)")
    axes.set_title(f"{case['problem']}: {case['formula']}", fontsize=10)


def _shorten(text: str, most: int = 30) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
