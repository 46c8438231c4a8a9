"""The HTML page: formula, pictures, table of equations, and why."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from sr4mdl import __version__
from sr4mdl._typing import FloatArray
from sr4mdl.evaluate import evaluate_one
from sr4mdl.export import to_latex
from sr4mdl.regressor.equations import Equation
from sr4mdl.regressor.explanation import (
    describe_constant,
    describe_left_over,
    describe_reason,
)
from sr4mdl.regressor.outcomes import Outcome
from sr4mdl.report.charts import Chart, side_by_side, thin_out
from sr4mdl.report.mathml import to_mathml

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; background: #f5f7fa;
  margin: 0; }
main { max-width: 1180px; margin: 0 auto; padding: 24px; }
section { background: white; border: 1px solid #e4e7eb; border-radius: 10px;
  padding: 20px 24px; margin: 20px 0; overflow-x: auto; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 10px; }
math { font-size: 28px; margin: 18px 0;
  font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math", math; }
svg { max-width: 100%; height: auto; }
.facts { display: flex; flex-wrap: wrap; gap: 12px 32px; margin: 0; }
.facts div { min-width: 90px; } .facts dt { color: #616e7c; font-size: 13px; }
.facts dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: right; padding: 5px 12px; border-bottom: 1px solid #e4e7eb;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
td:first-child { font-family: ui-monospace, monospace; white-space: normal;
  overflow-wrap: anywhere; }
tr.best { background: #fff4e6; font-weight: 600; }
code { overflow-wrap: anywhere; } footer, .quiet { color: #616e7c; font-size: 13px; }
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG picture; shows itself in a notebook."""

    svg: str
    """The SVG document."""

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture to an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")


def make_picture(
    outcome: Outcome, X: FloatArray, y: FloatArray, names: Sequence[str]
) -> Picture:
    """Return fit, residuals and front of an outcome, side by side.

    Parameters
    ----------
    outcome : Outcome
        The answer for one target.
    X : ndarray of shape (n_rows, n_features)
        Inputs to show.
    y : ndarray of shape (n_rows,)
        The target on these.
    names : sequence of str
        Names of the features.
    """
    rows = thin_out(len(y))
    X, y = X[rows], y[rows]
    values = evaluate_one(outcome.chosen.expression, X, names)
    target = outcome.target
    used = [name for name in names if name in outcome.chosen.expression.variables]
    if len(used) == 1:
        column = list(names).index(used[0])
        order = np.argsort(X[:, column], kind="stable")
        fit = Chart("Data and formula", used[0], target)
        fit.points(X[:, column], y)
        fit.line(X[order, column], values[order], marked=True)
    else:
        fit = Chart("Predicted and measured", f"{target} predicted", target)
        ends = np.array([y.min(), y.max()])
        fit.line(ends, ends, marked=True)
        fit.points(values, y)
    residuals = Chart("Residuals", f"{target} predicted", "measured - predicted")
    residuals.points(values, y - values)
    return Picture(side_by_side([fit, residuals, _front(outcome)]))


def _front(outcome: Outcome) -> Chart:
    """Return length against error; an error of 0 is drawn at the smallest shown."""
    errors = np.array([one.error for one in outcome.equations])
    lengths = np.array([float(one.length) for one in outcome.equations])
    size = max(abs(outcome.target_range[0]), abs(outcome.target_range[1]), 1e-300)
    floor = max(size * 1e-16, 1e-290)
    chart = Chart("Length and error", "symbols", "error", log_y=True)
    shown = np.maximum(errors, floor)
    front = [
        place
        for place in range(len(errors))
        if errors[place] <= np.min(errors[: place + 1])
    ]
    chart.line(lengths[front], shown[front])
    chart.points(lengths, shown)
    best = [outcome.best]
    chart.points(lengths[best], shown[best], marked=True)
    return chart


def make_report(
    outcomes: Sequence[Outcome], X: FloatArray, y: FloatArray, names: Sequence[str]
) -> str:
    """Return a self-contained HTML page about the outcomes.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One for each target.
    X : ndarray of shape (n_rows, n_features)
        Inputs to show.
    y : ndarray of shape (n_rows, n_targets)
        The targets on these.
    names : sequence of str
        Names of the features.
    """
    title = ", ".join(outcome.target for outcome in outcomes)
    body = "".join(
        _outcome_sections(outcome, X, y[:, place], names)
        for place, outcome in enumerate(outcomes)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Formula of {escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}<footer>Made by sr4mdl {escape(__version__)}.</footer>"
        "</main></body></html>\n"
    )


def _outcome_sections(
    outcome: Outcome, X: FloatArray, y: FloatArray, names: Sequence[str]
) -> str:
    best = outcome.chosen
    facts = {
        "R2": f"{best.r2:.6g}",
        "error (rms)": f"{best.error:.4g}",
        "bits": f"{best.bits:.1f}",
        "symbols": str(best.length),
        "rows": str(outcome.n_rows),
    }
    if best.validation_error is not None:
        facts["error on held-out rows"] = f"{best.validation_error:.4g}"
    shown = "".join(
        f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>"
        for key, value in facts.items()
    )
    return (
        f"<section><h1>Formula of {escape(outcome.target)}</h1>"
        f"{to_mathml(best.expression, outcome.target)}"
        f'<dl class="facts">{shown}</dl></section>'
        f"<section>{make_picture(outcome, X, y, names).svg}</section>"
        f"<section><h2>Why this formula</h2>{_why(outcome)}</section>"
        "<section><h2>All equations</h2>"
        f"{equation_rows(outcome.equations, [outcome.best])}</section>"
        f"<section><h2>To copy</h2><p><code>{escape(best.formula)}</code></p>"
        f"<p><code>{escape(to_latex(best.expression))}</code></p></section>"
    )


def _why(outcome: Outcome) -> str:
    best = outcome.chosen
    lines = [
        f"Its code is the shortest found: {best.formula_bits:.1f} bits for the formula "
        f"and {best.residual_bits:.1f} bits for what it leaves unexplained."
    ]
    if (left_over := describe_left_over(outcome)) is not None:
        lines.append(f"{left_over[0].upper()}{left_over[1:]}.")
    if outcome.runner_up is not None and outcome.gap_bits is not None:
        rival = outcome.equations[outcome.runner_up]
        lines.append(
            f"The runner-up, {rival.formula}, is {outcome.gap_bits:.1f} bits longer."
        )
    lines += [f"Constant {describe_constant(one)}." for one in outcome.constants]
    used = [name for name in outcome.ranges if name in best.expression.variables]
    for name in used:
        low, high = outcome.ranges[name]
        lines.append(f"Seen for {name} from {low:.6g} to {high:.6g}.")
    unused = [name for name in outcome.ranges if name not in used]
    if unused:
        lines.append(f"Not used: {', '.join(unused)}.")
    lines.append(
        f"The search ended after {outcome.seconds:.1f} s: "
        f"{describe_reason(outcome.stop_reason)}."
    )
    lines += [f"Note: {note}." for note in outcome.notes]
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def equation_rows(equations: Iterable[Equation], best: Collection[int]) -> str:
    """Return an HTML table of equations; the rows in ``best`` are marked."""
    equations = list(equations)
    validated = any(one.validation_error is not None for one in equations)
    head = ["formula", "symbols", "error", "R2", "bits", *["held out"] * validated]
    lines = [f"<tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>"]
    for row, one in enumerate(equations):
        cells = [
            one.formula,
            str(one.length),
            f"{one.error:.4g}",
            f"{one.r2:.6g}",
            f"{one.bits:.1f}" if math.isfinite(one.bits) else str(one.bits),
        ]
        if validated:
            error = one.validation_error
            cells.append("" if error is None else f"{error:.4g}")
        mark = ' class="best"' if row in best else ""
        lines.append(
            f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        )
    return f"<table>{''.join(lines)}</table>"
