"""Pictures of what the network knows: case studies and ablation panels."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sr4mdl.bench.measures import setting_text
from sr4mdl.bench.pictures import new_figure, save

_PANEL_TITLES: Final = {
    "rows": "rows",
    "noise": "feature noise",
    "variables": "variables",
    "unary": "unary operators",
    "binary": "binary operators",
    "strategy": "training strategy",
}
_NORMALISED: Final = ("variables", "unary", "binary")
"""Panels in which the paper also draws RMSE over the mean length."""


def casestudy(cases: Sequence[dict[str, Any]], path: Path) -> bool:
    """Draw one panel a derivation: the right moves' estimates among the wrong ones'."""
    if not cases:
        return False
    n_rows = (len(cases) + 1) // 2
    n_columns = min(2, len(cases))
    figure = new_figure(6.2 * n_columns, 4.6 * n_rows)
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axes in panels[len(cases) :]:
        axes.set_visible(False)
    for axes, case in zip(panels, cases, strict=False):
        _draw_case(axes, case)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return save(figure, path)


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


def ablation(documents: Sequence[dict[str, Any]], path: Path) -> bool:
    """Draw RMSE and AUC of ``bench mdlformer`` over each panel; True if drawn.

    One line a document. With several, as for training strategies, their figures on the
    plain pairs stand first as bars.
    """
    names = [
        panel
        for panel in _PANEL_TITLES
        if any(panel in document["panels"] for document in documents)
    ]
    several = int(len(documents) > 1)
    n_columns = len(names) + several
    if n_columns == 0:
        return False
    figure = new_figure(3.1 * n_columns + 0.6, 5.6)
    axes = figure.subplots(2, n_columns, squeeze=False)
    if several:
        for row, measure in enumerate(("rmse", "auc")):
            for number, document in enumerate(documents):
                axes[row, 0].bar(number, document[measure], color=f"C{number}")
            labels = [document["name"] for document in documents]
            axes[row, 0].set_xticks(range(len(documents)), labels, rotation=20)
        axes[0, 0].set_title("network", fontsize=10)
    for column, panel in enumerate(names, start=several):
        for number, document in enumerate(documents):
            records = document["panels"].get(panel, [])
            _draw_panel(axes[:, column], panel, records, number, document["name"])
        axes[0, column].set_title(_PANEL_TITLES[panel], fontsize=10)
        axes[0, column].set_ylim(0, 1.15 * axes[0, column].dataLim.ymax)
    axes[0, 0].set_ylabel("RMSE (symbols)")
    axes[1, 0].set_ylabel("AUC")
    for one in axes[1]:
        one.set_ylim(min(0.5, one.dataLim.ymin - 0.02) if names else 0.5, 1.0)
    # Panels at the end have the most kinds of lines.
    handles, labels = axes[0, -1].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
    return save(figure, path)


def _draw_panel(
    axes: Any, panel: str, records: Sequence[dict[str, Any]], number: int, name: str
) -> None:
    if panel == "strategy":
        _draw_strategies(axes, records)
        return
    places: list[float] = [record[panel] for record in records]
    if panel in ("rows", "noise"):
        # Their settings are spread over decades; equal steps are easier to read.
        places = list(range(len(records)))
        ticks = [setting_text(record[panel]) for record in records]
        for one in axes:
            one.set_xticks(places, ticks)
    else:
        for one in axes:
            one.set_xticks(places)
    style = {"color": f"C{number}", "marker": "o", "markersize": 4}
    axes[0].plot(places, [r["rmse"] for r in records], **style, label=name)
    axes[1].plot(places, [r["auc"] for r in records], **style)
    if panel in _NORMALISED:
        scaled = [10 * record["relative_rmse"] for record in records]
        axes[0].plot(
            places, scaled, "--", color=f"C{number}", lw=1,
            label=f"{name}: 10 x RMSE / mean length",
        )  # fmt: skip


def _draw_strategies(axes: Any, records: Sequence[dict[str, Any]]) -> None:
    """Draw a point for each network, those of one strategy above each other."""
    names = list(dict.fromkeys(record["strategy"] for record in records))
    places = [names.index(record["strategy"]) for record in records]
    for one, measure in zip(axes, ("rmse", "auc"), strict=True):
        one.plot(places, [record[measure] for record in records], "ko", markersize=4)
        one.set_xticks(range(len(names)), names, rotation=20)
