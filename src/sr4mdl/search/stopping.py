"""Early stop: when the code cannot get shorter.

Two cases. An exact formula with plain constants: only another exact formula with
fewer symbols could be better, and a few more readouts look for one unless it is short
already. Or residuals that look like noise, while some readouts in a row have brought
nothing: the smoother, which knows the noise from all rows, sees no structure in them,
or, where there is none, the probe does not; or neighbours in a small table no longer
have similar residuals, although they do have similar targets.
"""

import math
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.search.budget import Budget, StopReason
from sr4mdl.search.judge import Judge
from sr4mdl.search.rows import Rows, rows_that_count

if TYPE_CHECKING:
    from sr4mdl.search.probe import ResidualProbe

VISIBLE: Final = 0.5
"""Neighbour ratio of y up to which the table shows structure at all."""
SHORT_LENGTH: Final = 10
"""An exact formula of at most so many symbols ends a search at once."""
NOISE_PATIENCE: Final = 20
"""Readouts without gain, and as many as the best formula took, after which a search
ends whose residuals are noise by a test on all rows."""
LAW_BITS: Final = 120.0
"""Length up to which a formula may well be a law; a longer one is more likely a fit
that comes near, and is waited with the longer, by the square of its length."""
SHORT_BITS: Final = 60.0
"""Length of a formula than which there are few shorter ones."""
SHORT_PATIENCE: Final = 8
"""What ``NOISE_PATIENCE`` is for such a formula."""
CONVINCING_R2: Final = 0.999
"""Share of the variance that no short formula explains by chance,"""
CONVINCING_BITS: Final = 120.0
"""and the length up to which it is short for that."""
MIN_ROWS: Final = 30
"""Rows below which noise cannot be told from structure."""


def neighbour_ratio(X: FloatArray, values: FloatArray) -> float:
    """Return half the mean squared difference to the nearest row, over the variance.

    About 1 where neighbouring rows are unrelated, near 0 where values are smooth.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        The table; columns are compared on the scale of their spread.
    values : ndarray of shape (n_rows,)
        What is tested for structure.
    """
    centred = values - values.mean()
    size = np.max(np.abs(centred))
    if size == 0.0:
        return 0.0
    centred = centred / size
    spread = np.ptp(X, axis=0)
    scaled = X[:, spread > 0] / spread[spread > 0]
    squares = np.sum(scaled * scaled, axis=1)
    distance = squares[:, None] + squares - 2.0 * scaled @ scaled.T
    np.fill_diagonal(distance, np.inf)
    nearest = np.argmin(distance, axis=1)
    differences = centred - centred[nearest]
    return float(np.mean(differences**2) / (2.0 * np.mean(centred**2)))


class Stopper:
    """Says when a search ends and why."""

    def __init__(
        self,
        judge: Judge,
        budget: Budget,
        rows: Rows,
        *,
        early: bool,
        patience: int,
        exact_patience: int = 0,
    ) -> None:
        self.judge = judge
        self.budget = budget
        self.rows = rows
        self.early = early
        self.patience = patience
        # A readout takes the longer, the more variables there are.
        self.exact_patience = exact_patience // rows.X.shape[1]
        self._asked_at = 0
        self._tested_at = 0
        self._noise_since: int | None = None

    def reason(self) -> StopReason | None:
        """Return why the search has to end now, or None."""
        reason = self.budget.reason()
        if reason is not None or not self.early:
            return reason
        if self.judge.settled:
            assert self.judge.best is not None
            short = self.judge.best.length <= SHORT_LENGTH
            waited = self.budget.n_evaluations - self.judge.last_gain
            patient = waited < self.exact_patience
            return None if patient and not short else "exact"
        return "noise floor" if self.only_noise_left() else None

    def only_noise_left(self) -> bool:
        """Return whether nothing was gained for long and the residuals are noise."""
        if not self._shown_by_many:
            return False
        n_evaluations = self.budget.n_evaluations
        last_gain = self.judge.last_gain
        if self._noise_since == last_gain:
            return True
        found = False
        waited = n_evaluations - max(last_gain, self._tested_at)
        if waited >= max(self.noise_patience, last_gain):
            self._tested_at = n_evaluations
            found = self.leaves_noise()
        if n_evaluations - max(last_gain, self._asked_at) >= self.patience:
            self._asked_at = n_evaluations
            found = found or self.at_noise_floor()
        if found:
            # Whoever asks until the next gain gets the same answer.
            self._noise_since = last_gain
        return found

    @property
    def noise_patience(self) -> int:
        """Readouts without gain before the test on all rows."""
        best = self.judge.best
        if best is None:
            return NOISE_PATIENCE
        if best.formula_bits <= SHORT_BITS:
            return SHORT_PATIENCE
        return round(NOISE_PATIENCE * max(1.0, best.formula_bits / LAW_BITS) ** 2)

    def leaves_noise(self) -> bool:
        """Return whether all rows together show the best formula to leave noise."""
        data = self.judge.data
        if self.judge.best is None:
            return False
        test = self._probe if data.smoother is None else data.smoother
        if test is None:
            return False
        residuals = self.judge.residuals(data.all)
        if not np.all(np.isfinite(residuals)):
            return False
        return not test.sees_structure(residuals)

    @cached_property
    def _shown_by_many(self) -> bool:
        """Whether enough rows carry the target's variance.

        All tests compare squares: where a few rows outweigh the others, they see
        nothing of what a formula leaves of those.
        """
        return rows_that_count(self.judge.data.all.y) >= MIN_ROWS

    @cached_property
    def _probe(self) -> "ResidualProbe | None":
        # It needs scipy, whose import takes longer than an exact formula does.
        from sr4mdl.search.probe import make_probe

        everything = self.judge.data.all
        return make_probe(everything.X, everything.y)

    @property
    def convinced(self) -> bool:
        """Whether a short formula explains all but little noise."""
        best = self.judge.best
        return (
            self.early
            and best is not None
            and self._shown_by_many
            and best.r2 >= CONVINCING_R2
            and best.formula_bits <= CONVINCING_BITS
            and self.leaves_noise()
        )

    @property
    def solved(self) -> bool:
        """Whether all that is left to do is to look for a shorter form."""
        return self.early and self.judge.settled

    def at_noise_floor(self) -> bool:
        """Return whether what the best formula leaves looks like noise."""
        rows = self.rows
        if len(rows) < MIN_ROWS or self.judge.best is None:
            return False
        if neighbour_ratio(rows.X, rows.y) > VISIBLE:
            return False
        residuals = self.judge.residuals(rows)
        ratio = neighbour_ratio(rows.X, residuals)
        return ratio > 1.0 - 2.0 / math.sqrt(len(rows))
