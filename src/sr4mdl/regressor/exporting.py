"""Formulas of a fitted regressor in other languages: the methods that people call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sr4mdl import export
from sr4mdl.expressions import Expression
from sr4mdl.regressor.equations import Equation
from sr4mdl.regressor.outcomes import Outcome


class Exports:
    """Methods that write the formulas of ``outcomes_``.

    All take the row of an equation (the chosen one by default) and the place or name
    of the target, which is needed only if there are several.
    """

    outcomes_: list[Outcome]

    def sympy(
        self, equation: int | None = None, output: int | str | None = None
    ) -> Any:
        """Return a formula as a sympy expression.

        Parameters
        ----------
        equation : int, optional
            Row among the equations of the target; the chosen one by default.
        output : int or str, optional
            Place or name of the target; needed if there are several.
        """
        return export.to_sympy(self._expression(equation, output))

    def latex(
        self, equation: int | None = None, output: int | str | None = None
    ) -> str:
        """Return a formula as LaTeX; parameters as in :meth:`sympy`."""
        return export.to_latex(self._expression(equation, output))

    def to_numpy(
        self, equation: int | None = None, output: int | str | None = None
    ) -> Callable[..., Any]:
        """Return a function from X (n_rows, n_features) to values (n_rows,)."""
        return export.to_numpy(self._expression(equation, output), self._names())

    def to_torch(
        self, equation: int | None = None, output: int | str | None = None
    ) -> Callable[..., Any]:
        """Return a function on tensors of shape (n_rows, n_features)."""
        return export.to_torch(self._expression(equation, output), self._names())

    def to_c(
        self,
        equation: int | None = None,
        output: int | str | None = None,
        function_name: str = "f",
    ) -> str:
        """Return C source of a function with one parameter per feature."""
        expression = self._expression(equation, output)
        return export.to_c(expression, function_name, self._names())

    def to_excel_formula(
        self,
        cells: Mapping[str, str] | None = None,
        equation: int | None = None,
        output: int | str | None = None,
    ) -> str:
        """Return a formula for a spreadsheet.

        Parameters
        ----------
        cells : mapping of str to str, optional
            Cell of each feature; by default A2, B2, ... in the features' order.
        equation, output : optional
            As in :meth:`sympy`.
        """
        if cells is None:
            cells = {
                name: f"{_sheet_column(place)}2"
                for place, name in enumerate(self._names())
            }
        return export.to_excel_formula(self._expression(equation, output), cells)

    def _names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _output(self, output: int | str | None) -> int:
        """Return the place of a target given by place or name."""
        names = [outcome.target for outcome in self.outcomes_]
        if output is None and len(names) == 1:
            return 0
        if isinstance(output, str) and output in names:
            return names.index(output)
        if isinstance(output, (int, np.integer)) and 0 <= output < len(names):
            return int(output)
        raise ValueError(
            f"output must be the place or name of one of the targets "
            f"{', '.join(names)}, got {output!r}"
        )

    def _expression(self, equation: int | None, output: int | str | None) -> Expression:
        check_is_fitted(self)
        outcome = self.outcomes_[self._output(output)]
        return _pick(outcome, equation).expression

    def _chosen_equations(self, equation: int | Sequence[int] | None) -> list[Equation]:
        """Return one equation for each target."""
        outcomes = self.outcomes_
        if equation is None:
            return [outcome.chosen for outcome in outcomes]
        rows = [equation] if isinstance(equation, (int, np.integer)) else list(equation)
        if len(rows) != len(outcomes):
            raise ValueError(
                f"equation must name one row for each of {len(outcomes)} target(s), "
                f"got {equation!r}"
            )
        return [_pick(one, row) for one, row in zip(outcomes, rows, strict=True)]


def _pick(outcome: Outcome, row: int | None) -> Equation:
    if row is None:
        return outcome.chosen
    n_rows = len(outcome.equations)
    if isinstance(row, bool) or not -n_rows <= row < n_rows:
        raise ValueError(
            f"equation must be a row of the table, 0 to {n_rows - 1}, got {row!r}"
        )
    return outcome.equations[row]


def _sheet_column(place: int) -> str:
    """Return the letters of a column: 0 is A, 26 is AA."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
