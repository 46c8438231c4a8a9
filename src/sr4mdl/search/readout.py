"""The readout: closing of states, wired to budget, judge and statistics.

All modes read their answers out here. Every new state may be closed quickly; states
that look close to the answer are closed with a larger pool, and the most promising of
these in full, on more rows.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing import ClosingProblem, ClosingResult, Tier, close_state
from sr4mdl.evaluate import evaluate
from sr4mdl.search.budget import Budget
from sr4mdl.search.config import Families
from sr4mdl.search.judge import Judge
from sr4mdl.search.linear import fit_linear
from sr4mdl.search.rows import Rows, SearchData
from sr4mdl.search.state import State
from sr4mdl.selection.bits import (
    error_floor,
    mean_of,
    r2_of,
    residual_bits,
    root_mean_square,
)

MIN_FULL_TIME: Final = 0.3
"""Seconds that must be left for a full closing to start."""
N_JUDGED_QUICK: Final = 3
"""Candidates of a quick or medium closing that go to the judge."""
N_JUDGED_FULL: Final = 10
"""Candidates of a full closing that go to the judge."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a readout says of a state."""

    gain: float
    """Share of the target's bits that the best candidate saves, from 0 to 1."""
    r2: float
    """R2 of the best candidate; 0 if there is none."""
    length: int
    """Symbols of the best candidate; 1 if there is none."""
    bits: float = math.inf
    """Code length of the best candidate on the rows it was found on."""


NOTHING: Final = Reading(0.0, 0.0, 1)
"""What is said of a state that could not be closed."""


class Readout:
    """Closes states within the budget and hands the candidates to the judge."""

    def __init__(
        self,
        data: SearchData,
        judge: Judge,
        budget: Budget,
        families: Families = "all",
    ) -> None:
        self.data = data
        self.judge = judge
        self.budget = budget
        self.families = families

    def quick(self, state: State) -> Reading:
        """Close a state on its search rows with the quick families."""
        self.budget.statistics.n_quick += 1
        return self._on_search_rows(state, "quick")

    def medium(self, state: State) -> Reading:
        """Close a state on its search rows with a pool between quick and full."""
        self.budget.statistics.n_medium += 1
        return self._on_search_rows(state, "medium")

    def _on_search_rows(self, state: State, tier: Tier) -> Reading:
        with self.budget.phase(f"{tier} closing"), np.errstate(all="ignore"):
            problem = self._problem(state, self.data.search)
            if self.families == "linear":
                return self._close_linearly(problem)
            limit = self.budget.closing_limit()
            result = close_state(problem, tier, limit, self.judge.limits)
        return self._take(result, problem.y, N_JUDGED_QUICK)

    def full(self, state: State, time_share: float = 0.25) -> Reading | None:
        """Close a state on the judge rows with all families; None if time is short.

        Parameters
        ----------
        state : State
            The state.
        time_share : float, default=0.25
            Most of the whole search's time that it may take.
        """
        if self.budget.time_left < MIN_FULL_TIME:
            return None
        with self.budget.phase("full closing"), np.errstate(all="ignore"):
            self.budget.statistics.n_full += 1
            problem = self._problem(state, self.data.judge)
            if self.families == "linear":
                return self._close_linearly(problem)
            limit = self.budget.closing_limit(time_share)
            result = close_state(problem, "full", limit, self.judge.limits)
        return self._take(result, problem.y, N_JUDGED_FULL)

    def _problem(self, state: State, rows: Rows) -> ClosingProblem:
        expressions = tuple(column.expression for column in state.columns)
        if rows is self.data.search:
            columns = np.stack([column.values for column in state.columns], axis=1)
        else:
            # Columns that are not finite on the larger draw are left out later.
            result = evaluate(expressions, rows.X, rows.names, backend="numpy")
            columns = np.ascontiguousarray(result.values.T)
        return ClosingProblem(
            rows.X,
            rows.names,
            columns,
            expressions,
            rows.y,
            state.target.steps,
            rows.smoothed,
            self.data.noise,
        )

    def _take(self, result: ClosingResult, y: FloatArray, n_judged: int) -> Reading:
        self.budget.statistics.n_candidates += result.n_examined
        for failure in result.failures:
            family, kind, _ = failure.split(": ", 2)
            self.budget.statistics.reject(f"closing: {family}: {kind}")
        with self.budget.phase("judging"), np.errstate(all="ignore"):
            for candidate in result.candidates[:n_judged]:
                self.judge.consider(candidate.expression)
        if not result.candidates:
            return NOTHING
        best = result.candidates[0]
        gain = _gain(y, best.rmse)
        return Reading(gain, best.r2, best.expression.length, best.bits)

    def _close_linearly(self, problem: ClosingProblem) -> Reading:
        """Close a state by the linear map of all its columns."""
        self.budget.statistics.n_candidates += 1
        usable = np.all(np.isfinite(problem.columns), axis=0)
        usable &= np.any(problem.columns != 0.0, axis=0)
        places = np.flatnonzero(usable)
        outer = problem.resolve()
        if outer is None or not len(places):
            return NOTHING
        columns = problem.columns[:, places]
        fitted = fit_linear(columns, outer.values)
        prediction = outer.undo_values(fitted.values)
        if not np.all(np.isfinite(prediction)):
            return NOTHING
        written = fitted.write(
            [problem.expressions[place] for place in places],
            np.max(np.abs(columns), axis=0),
        )
        expression = outer.undo(written)
        self.judge.consider(expression)
        rmse = root_mean_square(prediction - problem.y)
        spread = root_mean_square(problem.y - mean_of(problem.y))
        r2 = r2_of(rmse, spread)
        return Reading(_gain(problem.y, rmse), r2, expression.length)


def _gain(y: FloatArray, rmse: float) -> float:
    """Return the share of the target's bits that a fit with this error saves."""
    spread = root_mean_square(y - mean_of(y))
    floor = error_floor(y)
    whole = residual_bits(spread, len(y), floor)
    left = residual_bits(rmse, len(y), floor)
    return min(max(1.0 - left / whole, 0.0), 1.0) if whole > 0.0 else 0.0
