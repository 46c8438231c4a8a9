"""Data of extreme size, searched in other units.

Squares of numbers beyond about 1e150 leave the range of floats, and with them every
sum of squares. Columns and targets that are so large or so small are divided by a
power of ten before the search; the formulas of the answer get the powers back.
Ordinary data are not touched.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.data import Dataset
from sr4mdl.evaluate import evaluate
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.search.events import Listener, ProgressEvent
from sr4mdl.search.judge import Solution
from sr4mdl.selection.tidying import present, tidy
from sr4mdl.simplify import simplify

MAX_EXPONENT: Final = 60
"""Columns whose largest value lies within 10^-60 and 10^60 stay as they are."""
_LIMIT: Final = 300
_MAX_DIGITS: Final = 13
_ROUND_OFF: Final = 1e-15
TOLERANCE: Final = 1e-12
"""Largest relative difference that simplifying a restored formula may make."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Powers of ten by which the columns and the target of a dataset are divided."""

    original: Dataset
    """The data in their own units."""
    columns: tuple[int, ...]
    """Power of ten of every column; 0 for those that stay."""
    target: int
    """Power of ten of the target."""

    @classmethod
    def of(
        cls, dataset: Dataset, operators: Collection[str] | None = None
    ) -> "Scaling | None":
        """Return the scaling that data need.

        Parameters
        ----------
        dataset : Dataset
            The data, with a target.
        operators : collection of str, optional
            Operators allowed in the answer: without products nothing is scaled.

        Returns
        -------
        Scaling or None
            None if nothing needs scaling.
        """
        if operators is not None and "mul" not in operators:
            return None
        assert dataset.y is not None
        columns = tuple(_exponent(column) for column in dataset.X.T)
        target = _exponent(dataset.y)
        if target == 0 and not any(columns):
            return None
        return cls(dataset, columns, target)

    def dataset(self) -> Dataset:
        """Return the data in the new units."""
        assert self.original.y is not None
        factors = np.array([_ten(exponent) for exponent in self.columns])
        return replace(
            self.original,
            X=self.original.X / factors,
            y=self.original.y / _ten(self.target),
        )

    def restore(self, expression: Expression) -> Expression:
        """Return a formula of the scaled data as a formula of the data themselves."""
        replacements = {
            name: apply("mul", _ten(-exponent), variable(name))
            for name, exponent in zip(self.original.names, self.columns, strict=True)
            if exponent
        }
        safe = tidy(expression.substitute(replacements))
        if self.target:
            safe = tidy(apply("mul", _ten(self.target), safe))
        short = present(simplify(safe).rebuild(_rounded))
        wanted, got = self._values(safe), self._values(short)
        with np.errstate(all="ignore"):
            same = np.abs(got - wanted) <= TOLERANCE * np.abs(wanted)
        return short if np.all(same) else safe

    def scale(self, expression: Expression) -> Expression:
        """Return a formula of the data as a formula of the scaled data."""
        replacements = {
            name: apply("mul", _ten(exponent), variable(name))
            for name, exponent in zip(self.original.names, self.columns, strict=True)
            if exponent
        }
        scaled = tidy(expression.substitute(replacements))
        if self.target:
            scaled = tidy(apply("mul", _ten(-self.target), scaled))
        return scaled

    def restore_solution(self, solution: Solution) -> Solution:
        """Return a solution in the units of the data; its bits stay."""
        return replace(
            solution,
            expression=self.restore(solution.expression),
            rmse=solution.rmse * _ten(self.target),
        )

    def restoring(self, listener: Listener | None) -> Listener | None:
        """Return a listener that hears of formulas in the units of the data."""
        if listener is None:
            return None

        def tell(event: ProgressEvent) -> object:
            if event.expression is not None:
                event = replace(event, expression=self.restore(event.expression))
            return listener(event)

        return tell

    def note(self) -> str:
        """Return a sentence that says what was done."""
        names = [
            name
            for name, exponent in zip(self.original.names, self.columns, strict=True)
            if exponent
        ]
        if self.target:
            names.append(self.original.target or "the target")
        return f"searched in other units, because of their size: {', '.join(names)}"

    def _values(self, expression: Expression) -> FloatArray:
        data = self.original
        with np.errstate(all="ignore"):
            result = evaluate([expression], data.X, data.names, backend="numpy")
        values: FloatArray = result.values[0]
        return values


def _rounded(node: Expression) -> Expression | None:
    """Return a constant without the round-off of multiplied powers of ten."""
    if node.value is None:
        return None
    for digits in range(_MAX_DIGITS):
        number = float(f"{node.value:.{digits}e}")
        if abs(number - node.value) <= _ROUND_OFF * abs(node.value):
            return constant(number)
    return None


def _ten(exponent: int) -> float:
    # By the parser: 10.0**150 is one unit in the last place off.
    return float(f"1e{exponent}")


def _exponent(values: FloatArray) -> int:
    largest = float(np.max(np.abs(values)))
    if largest == 0.0:
        return 0
    exponent = math.floor(math.log10(largest))
    if abs(exponent) <= MAX_EXPONENT:
        return 0
    return max(-_LIMIT, min(_LIMIT, exponent))
