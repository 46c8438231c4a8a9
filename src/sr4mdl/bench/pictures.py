"""The report's pictures, drawn by matplotlib, which is imported only here."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sr4mdl.bench.methods import mode_place, require
from sr4mdl.bench.results import Row
from sr4mdl.bench.summary import Group, is_data_missing, label_of

_LEVELS: Final = (0.0, 0.001, 0.01, 0.1)
_N_PUBLISHED: Final = 8
_MARKERS: Final = ".sv^<>dP"
_DPI: Final = 150
_LABEL_SPOTS: Final = ((5, 3, "left"), (5, -9, "left"), (-5, 3, "right"))
_LABEL_SPOTS_BELOW: Final = ((-5, -9, "right"), (0, 8, "center"), (0, -14, "center"))
_LETTER_WIDTH: Final = 4.4
_LETTER_HEIGHT: Final = 9.0
"""Size of a letter of the labels in points, roughly."""


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure, without touching pyplot's global state."""
    return require("matplotlib.figure", "bench").Figure(
        figsize=(width, height), layout="constrained"
    )


def save(figure: Any, path: Path) -> bool:
    """Write a figure and return True."""
    figure.savefig(path, dpi=_DPI)
    return True


def _figure(width: float = 7.0, height: float = 4.5) -> tuple[Any, Any]:
    figure = new_figure(width, height)
    return figure, figure.subplots()


def _label_points(axes: Any, labels: Sequence[tuple[str, float, float]]) -> None:
    """Write names beside points, where they hide no name or point if there is room."""
    scale = 72.0 / axes.figure.dpi
    taken: list[tuple[float, float, float, float]] = []
    for _, x, y in labels:
        px, py = (scale * value for value in axes.transData.transform((x, y)))
        taken.append((px - 4, py - 4, px + 4, py + 4))
    for text, x, y in sorted(labels, key=lambda label: (label[1], label[2])):
        px, py = (scale * value for value in axes.transData.transform((x, y)))
        width = _LETTER_WIDTH * len(text)
        spots = []
        for dx, dy, side in (*_LABEL_SPOTS, *_LABEL_SPOTS_BELOW):
            start = {"left": 0.0, "right": -width, "center": -width / 2}[side]
            left, bottom = px + dx + start, py + dy
            box = (left, bottom, left + width, bottom + _LETTER_HEIGHT)
            spots.append(
                (sum(_overlap(box, other) for other in taken), box, dx, dy, side)
            )
        _, box, dx, dy, side = min(spots, key=lambda spot: spot[0])
        taken.append(box)
        axes.annotate(
            text, (x, y), fontsize="x-small", xytext=(dx, dy), ha=side,
            textcoords="offset points",
        )  # fmt: skip


def _overlap(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float]
) -> float:
    """Return the area that two boxes (left, bottom, right, top) share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return width * height if width > 0 and height > 0 else 0.0


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
    figure, axes = _figure(9.0, 4.8)
    for number, (method, rates) in enumerate(_leading(published)):
        points = [(levels.index(noise), rate) for noise, rate in rates]
        axes.plot(
            *zip(*points, strict=True), ":", marker=_MARKERS[number], lw=1,
            markersize=4, color="0.55", label=f"{method}, published",
        )  # fmt: skip
    for number, (label, part) in enumerate(measured.items()):
        # Side by side, so that intervals do not hide each other.
        shift = 0.05 * (number - (len(measured) - 1) / 2)
        part = sorted(part, key=lambda group: group.noise)
        rate = [100 * group.rate for group in part if group.rate is not None]
        low = [100 * group.rate_low for group in part if group.rate_low is not None]
        high = [100 * group.rate_high for group in part if group.rate_high is not None]
        spread = [
            [value - end for value, end in zip(rate, low, strict=True)],
            [end - value for value, end in zip(rate, high, strict=True)],
        ]
        places = [levels.index(group.noise) + shift for group in part]
        axes.errorbar(places, rate, spread, marker="o", capsize=3, lw=2, label=label)
    axes.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
    axes.set_xlabel("noise on training targets")
    axes.set_ylabel("recovered (%)")
    axes.set_ylim(0, 100)
    figure.legend(fontsize="small", loc="outside right upper")
    return save(figure, path)


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
    labels: list[tuple[str, float, float]] = []
    for rate in published:
        if rate["group"] == "all" and rate["noise"] == noise and "time_s" in rate:
            axes.plot(rate["time_s"], rate["rate"], "x", color="gray")
            labels.append((rate["method"], rate["time_s"], rate["rate"]))
    axes.set_xscale("log")
    axes.set_xlabel("time (s); crosses: published mean times")
    axes.set_ylabel(f"recovered (%), noise {noise:g}")
    axes.set_ylim(0, 100)
    axes.legend(fontsize="small", loc="upper left")
    _label_points(axes, labels)
    return save(figure, path)


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
    figure = new_figure(7.0, 3.5 * len(methods))
    panels = figure.subplots(len(methods), squeeze=False)[:, 0]
    for axes, (method, part) in zip(panels, methods.items(), strict=True):
        names = sorted(
            {group.mode for group in part}, key=lambda mode: mode_place(method, mode)
        )
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
    return save(figure, path)


def blackbox(entries: Sequence[dict[str, Any]], path: Path) -> bool:
    """Draw mean test R2 against mean size, coloured by Pareto rank; True if drawn."""
    shown = [entry for entry in entries if entry["r2_mean"] > 0]
    if not shown:
        return False
    figure, axes = _figure(8.5, 5.5)
    labels: list[tuple[str, float, float]] = []
    for entry in shown:
        point = entry["complexity_mean"], entry["r2_mean"]
        axes.plot(
            *point,
            "*" if entry["measured"] else "o",
            markersize=14 if entry["measured"] else 6,
            color=f"C{min(entry['rank'], 6) - 1}",
        )
        labels.append((entry["method"], *point))
    axes.set_xscale("log")
    axes.set_xlabel("mean size (nodes)")
    axes.set_ylabel("mean test R2")
    axes.set_title("Stars: measured. Colour: Pareto rank (first in blue)")
    _label_points(axes, labels)
    return save(figure, path)
