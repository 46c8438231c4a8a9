"""Formulas with their measures, and the table that holds them."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.evaluate import evaluate_one
from sr4mdl.expressions import Expression
from sr4mdl.selection.bits import (
    error_floor,
    formula_bits,
    mean_of,
    r2_of,
    residual_bits,
    root_mean_square,
)

COLUMNS: Final = (
    "target",
    "formula",
    "length",
    "error",
    "r2",
    "bits",
    "formula_bits",
    "residual_bits",
    "validation_error",
)
"""Columns of a table of equations, in order."""
EXACT_FLOORS: Final = 4.0
"""Errors up to so many floors are round-off."""


@dataclass(frozen=True, slots=True)
class Equation:
    """A formula of a target and how well it does."""

    target: str
    """Name of what it explains."""
    expression: Expression
    """The formula."""
    error: float
    """Root mean square error on the rows it was fitted to, in units of the target."""
    r2: float
    """Share of the variance explained on these rows."""
    formula_bits: float
    """Bits of its symbols and constants."""
    residual_bits: float
    """Bits of what it leaves unexplained."""
    validation_error: float | None = None
    """Root mean square error on held-out rows, if there are any."""

    @property
    def formula(self) -> str:
        """The formula as text that ``sr4mdl.parse`` reads back exactly."""
        return str(self.expression)

    @property
    def length(self) -> int:
        """Number of symbols."""
        return self.expression.length

    @property
    def bits(self) -> float:
        """Total code length: formula and residuals."""
        return self.formula_bits + self.residual_bits

    def __str__(self) -> str:
        return f"{self.target} = {self.formula}"


def measure(
    expression: Expression,
    X: FloatArray,
    y: FloatArray,
    names: Sequence[str],
    target: str,
) -> Equation | None:
    """Return a formula with its measures; None where it is not finite on every row."""
    values = evaluate_one(expression, X, names)
    if not np.all(np.isfinite(values)):
        return None
    error = root_mean_square(values - y)
    floor = error_floor(y)
    spread = root_mean_square(y - mean_of(y)) if np.ptp(y) > 0.0 else 0.0
    if spread > 0.0:
        r2 = r2_of(error, spread)
    else:
        r2 = 1.0 if error <= EXACT_FLOORS * floor else -math.inf
    return Equation(
        target,
        expression,
        error,
        r2,
        formula_bits(expression, len(names)),
        residual_bits(error, len(y), floor),
    )


class EquationTable(Sequence[Equation]):
    """Equations in rows; reads like a list and prints like a table.

    Parameters
    ----------
    equations : sequence of Equation
        The rows.
    best : sequence of int, optional
        Rows to mark as chosen.
    """

    def __init__(self, equations: Sequence[Equation], best: Sequence[int] = ()) -> None:
        self._equations = tuple(equations)
        self._best = frozenset(best)

    @overload
    def __getitem__(self, row: int) -> Equation: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[Equation]: ...

    def __getitem__(self, row: int | slice) -> Equation | Sequence[Equation]:
        return self._equations[row]

    def __len__(self) -> int:
        return len(self._equations)

    def __iter__(self) -> Iterator[Equation]:
        return iter(self._equations)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EquationTable):
            return NotImplemented
        return self._equations == other._equations and self._best == other._best

    def __hash__(self) -> int:
        return hash((self._equations, self._best))

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per row, with the names of ``COLUMNS`` as keys."""
        return [
            {column: getattr(equation, column) for column in COLUMNS}
            for equation in self
        ]

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame; pandas must be installed."""
        import pandas

        return pandas.DataFrame.from_records(self.records(), columns=list(COLUMNS))

    def to_csv(self) -> str:
        """Return the table as CSV text with a header; numbers in full."""
        output = io.StringIO()
        writer = csv.writer(output, lineterminator="\n")
        writer.writerow(COLUMNS)
        for record in self.records():
            writer.writerow(
                ""
                if value is None
                else repr(value)
                if isinstance(value, float)
                else value
                for value in record.values()
            )
        return output.getvalue()

    def __repr__(self) -> str:
        if not self._equations:
            return "EquationTable(no rows)"
        head = ("", "", "target", "length", "error", "R2", "bits", "formula")
        rows = [
            (
                ">" if row in self._best else "",
                str(row),
                equation.target,
                str(equation.length),
                f"{equation.error:.4g}",
                f"{equation.r2:.6g}",
                f"{equation.bits:.1f}",
                equation.formula,
            )
            for row, equation in enumerate(self)
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        left = {0, 2, 7}
        lines = [
            "  ".join(
                cell.ljust(width) if place in left else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (head, *rows)
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from sr4mdl.report.page import equation_rows

        return equation_rows(self, self._best)
