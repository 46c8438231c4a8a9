"""The judge: every formula of every mode is compared here, on the same rows, in bits.

Closing rounds constants on few rows; the judge measures on more, fits the constants
of formulas that come near the best again, and keeps the archive. The last verdict is
on all rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.evaluate import evaluate
from sr4mdl.expressions import Expression, constant
from sr4mdl.search.budget import Budget
from sr4mdl.search.events import Reporter
from sr4mdl.search.rows import Rows, SearchData
from sr4mdl.selection.bits import (
    error_floor,
    formula_bits,
    mean_of,
    r2_of,
    residual_bits,
    root_mean_square,
    supported_constant_bits,
)
from sr4mdl.selection.conventions import conventional
from sr4mdl.selection.known import KnownValues
from sr4mdl.selection.limits import Limits
from sr4mdl.selection.pareto import Choice, ParetoArchive
from sr4mdl.selection.snapping import snap_constants
from sr4mdl.selection.tidying import present
from sr4mdl.simplify import simplify

NEAR_BITS: Final = 60.0
"""Formulas within so many bits of the best get their constants fitted again."""
EXACT: Final = 4.0
"""Errors up to so many floors are round-off."""
PLAIN_BITS: Final = 30.0
"""A constant of at most so many bits is one that people write."""
MAX_FIT_ROWS: Final = 10_000
"""Rows on which the answer's constants are fitted."""
MAX_FINAL_ROWS: Final = 100_000
"""Rows on which the last verdict measures; the answer is finite on all there are."""
N_POLISHED: Final = 5
"""Formulas that the last verdict polishes."""
FEW_CONSTANTS: Final = 12
"""Constants up to which a formula is fitted once more when the time is up: more take
seconds, and are those of a fit, not of a law."""
N_FINALISTS: Final = 12
"""Formulas that the last verdict ranks, beside the front."""
SAME_CODE: Final = 1e-3
"""Bits by which two spellings of a formula may differ through rounding."""
MAX_REMEMBERED: Final = 50_000
"""Formulas remembered as judged."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A formula of the target with its code length and error."""

    expression: Expression
    """The formula, in the dataset's names."""
    formula_bits: float
    """Bits of symbols and constants."""
    residual_bits: float
    """Bits of what it leaves unexplained."""
    rmse: float
    """Root mean square error."""
    r2: float
    """Share of the variance explained."""
    exact: bool
    """Whether the error is round-off."""

    @property
    def bits(self) -> float:
        """Total code length."""
        return self.formula_bits + self.residual_bits

    @property
    def length(self) -> int:
        """Number of symbols."""
        return self.expression.length

    @property
    def error(self) -> float:
        """Root mean square error."""
        return self.rmse


class Judge:
    """Compares formulas and keeps the best."""

    def __init__(
        self,
        data: SearchData,
        budget: Budget,
        reporter: Reporter,
        *,
        limits: Limits | None = None,
        physical_constants: Sequence[float] = (),
    ) -> None:
        self.data = data
        self.budget = budget
        self.reporter = reporter
        self.limits = Limits() if limits is None else limits
        self.known = KnownValues(tuple(physical_constants))
        self.archive: ParetoArchive[Solution] = ParetoArchive()
        self.best: Solution | None = None
        self.last_gain = 0
        """Readouts made when the best formula last changed."""
        self.settled = False
        """Whether the best formula is exact and its constants are plain."""
        self.remembered: list[Expression] = []
        """Formulas of an earlier run, which the verdict measures in any case."""
        self.finalists: list[Expression] = []
        """Formulas of the last verdict, shortest code first, as they were measured."""
        self._judged: set[Expression] = set()

    def measure(self, expression: Expression, rows: Rows) -> Solution | None:
        """Return a formula with its bits on some rows; None where it is not finite."""
        values = _values(expression, rows)
        if not np.all(np.isfinite(values)):
            return None
        rmse = root_mean_square(values - rows.y)
        return self._solution(expression, rmse, rows)

    def _solution(self, expression: Expression, rmse: float, rows: Rows) -> Solution:
        floor = error_floor(rows.y)
        spread = root_mean_square(rows.y - mean_of(rows.y))
        if spread > 0.0:
            r2 = r2_of(rmse, spread)
        else:
            r2 = 1.0 if rmse <= EXACT * floor else -math.inf
        return Solution(
            expression,
            formula_bits(expression, len(rows.names)) - self.known.saving(expression),
            residual_bits(rmse, len(rows), floor),
            rmse,
            r2,
            rmse <= EXACT * floor,
        )

    def consider(self, expression: Expression) -> Solution | None:
        """Judge a formula, fitting its constants again if it comes near the best.

        Returns
        -------
        Solution or None
            None if it was refused or judged before.
        """
        if expression in self._judged:
            return None
        if len(self._judged) >= MAX_REMEMBERED:
            self._judged.clear()
        self._judged.add(expression)
        statistics = self.budget.statistics
        if not self.permits(expression):
            fault = self.limits.fault(expression)
            expression = simplify(expression)
            if not self.permits(expression):
                statistics.reject(f"formula: {fault}")
                return None
        statistics.n_judged += 1
        found = self.measure(expression, self.data.judge)
        if found is None:
            statistics.reject("formula: not finite")
            return None
        if self.best is None or self._promise(found) < self.best.bits + NEAR_BITS:
            found = self.improve(found)
        return self._keep(found)

    def _promise(self, found: Solution) -> float:
        """Return about the bits once constants are rounded to what the data support."""
        rows = self.data.judge
        size = root_mean_square(rows.y)
        support = supported_constant_bits(found.rmse, len(rows), size)
        symbols = formula_bits(found.expression, len(rows.names), support)
        return symbols + found.residual_bits

    def improve(self, found: Solution) -> Solution:
        """Return a formula written as simply as it goes, its constants fitted again."""
        shorter = simplify(found.expression)
        if shorter != found.expression and self.permits(shorter):
            again = self.measure(shorter, self.data.judge)
            if again is not None and again.bits < found.bits:
                found = again
        if found.exact and self._is_plain(found.expression):
            return found
        if any(node.value is not None for node in found.expression.subexpressions()):
            found = self.refit(found, self.data.judge)
        return found

    def _keep(self, found: Solution) -> Solution:
        self.archive.add(found)
        if self.best is None or found.bits < self.best.bits:
            self.best = found
            self.settled = found.exact and self._is_plain(found.expression)
            self.last_gain = self.budget.n_evaluations
            seconds = self.budget.elapsed
            self.budget.statistics.history.append(
                (seconds, found.bits, str(found.expression))
            )
            self.reporter.best(found.expression, found.bits, found.r2)
        return found

    def consider_mean(self) -> None:
        """Judge the constant formula: there is an answer from the start."""
        self.consider(constant(mean_of(self.data.judge.y)))

    def permits(self, expression: Expression) -> bool:
        """Return whether a formula is one that the user allows."""
        return self.limits.permits(expression)

    def refit(self, solution: Solution, rows: Rows) -> Solution:
        """Return the formula with constants fitted again, if that is shorter.

        The solution must have been measured on these rows.
        """
        snapped = snap_constants(
            solution.expression,
            rows.inputs,
            rows.y,
            len(rows.names),
            known=self.known,
        )
        if snapped is None or not self.permits(snapped.expression):
            return solution
        again = self.measure(snapped.expression, rows)
        if again is None or again.bits >= solution.bits:
            return solution
        return again

    def residuals(self, rows: Rows) -> FloatArray:
        """Return what the best formula leaves on some rows."""
        assert self.best is not None
        return rows.y - _values(self.best.expression, rows)

    def verdict(self) -> tuple[Choice[Solution], list[Solution]]:
        """Return the choice and the front, measured on all rows.

        The best few are fitted on more rows and written more simply where that
        shortens the code. A formula that is not finite on every row is out.
        """
        final_rows = self._spread_rows(MAX_FINAL_ROWS)
        final: ParetoArchive[Solution] = ParetoArchive()
        ranking = self.archive.ranking()[:N_FINALISTS]
        polished = {solution.expression for solution in ranking[:N_POLISHED]}
        compared = [one.expression for one in (*ranking, *self.archive.front())]
        compared += [one for one in self.remembered if self.permits(one)]
        for expression in dict.fromkeys(compared):
            polish = expression in polished
            measured = self._finalist(expression, final_rows, polish)
            if measured is not None:
                final.add(measured)
        if final.best is None:
            mean = self.measure(constant(mean_of(final_rows.y)), final_rows)
            assert mean is not None
            final.add(mean)
        self.finalists = [one.expression for one in final.ranking()]
        choice = final.choose()
        runner_up = choice.runner_up
        return (
            Choice(
                self._presented(choice.best),
                None if runner_up is None else self._presented(runner_up),
                choice.gap_bits,
            ),
            [self._presented(one) for one in final.front()],
        )

    def _finalist(
        self, expression: Expression, final_rows: Rows, polish: bool
    ) -> Solution | None:
        measured = self.measure(expression, final_rows)
        if measured is None or not self._finite(expression):
            self.budget.statistics.reject("formula: not finite on all rows")
            return None
        if not polish:
            return measured
        tidier = simplify(expression)
        rivals = [tidier]
        if (
            len(self.data.all) > len(self.data.judge)
            and not measured.exact
            and (self.budget.time_left > 0.0 or _is_short(expression))
        ):
            fit_rows = self._spread_rows(MAX_FIT_ROWS)
            start = self.measure(expression, fit_rows)
            if start is not None:
                rivals.append(self.refit(start, fit_rows).expression)
        for rival in rivals:
            again = self.measure(rival, final_rows) if self.permits(rival) else None
            if again is None:
                continue
            # Of two spellings with one code the simplified one is easier to read.
            as_good = measured.bits + (SAME_CODE if rival is tidier else 0.0)
            if again.bits < as_good and self._finite(rival):
                measured = again
        return measured

    def _is_plain(self, expression: Expression) -> bool:
        return all(
            node.value is None or self.known.bits(node.value) <= PLAIN_BITS
            for node in expression.subexpressions()
        )

    def _finite(self, expression: Expression) -> bool:
        return bool(np.all(np.isfinite(_values(expression, self.data.all))))

    def _spread_rows(self, most: int) -> Rows:
        everything = self.data.all
        if len(everything) <= most:
            return everything
        chosen = np.arange(most) * len(everything) // most
        return Rows(self.data.dataset, chosen)

    def _presented(self, solution: Solution) -> Solution:
        """Return a formula in the form that people write, where that is allowed."""
        rows = self.data.all
        usual = conventional(solution.expression, rows.X, rows.names)
        for form in (usual, solution.expression):
            written = present(form)
            if self.permits(written):
                return replace(solution, expression=written)
        return solution


def _is_short(expression: Expression) -> bool:
    n_constants = sum(node.value is not None for node in expression.prefix())
    return n_constants <= FEW_CONSTANTS


def _values(expression: Expression, rows: Rows) -> FloatArray:
    # Always by the same back end: bits are compared, and small work is numpy's.
    result = evaluate([expression], rows.X, rows.names, backend="numpy")
    values: FloatArray = result.values[0]
    return values
