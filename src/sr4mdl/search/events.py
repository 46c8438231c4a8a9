"""Progress events: what a listener is told while a search runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sr4mdl.expressions import Expression
from sr4mdl.search.budget import Budget

QUIET_SECONDS: Final = 0.5
"""Time between two events when nothing has changed."""


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """A moment of a search."""

    phase: str
    """What is being done: screening, closing, search, verdict, done."""
    expression: Expression | None
    """The best formula so far."""
    bits: float
    """Its code length; inf before there is one."""
    r2: float
    """Share of the variance it explains; nan before there is one."""
    n_nodes: int
    """Search states so far."""
    nodes_per_second: float
    """Search states per second since the start of this run."""
    seconds: float
    """Since the start."""
    time_left: float
    """Seconds until the limit; inf without one."""
    improved: bool
    """Whether the best formula is new."""


Listener = Callable[[ProgressEvent], object]


class Reporter:
    """Tells a listener of phases, new best formulas, and now and then of progress.

    What a listener raises is not caught, so it can stop a search with
    KeyboardInterrupt; once the search has ended, there is nothing more to stop.
    """

    def __init__(self, listener: Listener | None, budget: Budget) -> None:
        self.listener = listener
        self.budget = budget
        self.phase = ""
        self.keeper: Callable[[], None] | None = None
        """Called at every event and round; stores the search now and then."""
        self.n_earlier_nodes = 0
        """States of earlier runs, which say nothing of the speed of this one."""
        self._best: tuple[Expression | None, float, float] = (
            None,
            float("inf"),
            float("nan"),
        )
        self._last = -QUIET_SECONDS

    def enter(self, phase: str) -> None:
        """Say that a phase begins."""
        if phase != self.phase:
            self.phase = phase
            self._send(improved=False)

    def best(self, expression: Expression, bits: float, r2: float) -> None:
        """Say that there is a new best formula."""
        self._best = (expression, bits, r2)
        if self.keeper is not None:
            self.keeper()
        self._send(improved=True)

    def tick(self) -> None:
        """Say that the search goes on, unless something was said just now."""
        if self.keeper is not None:
            self.keeper()
        if self.listener is not None:
            if self.budget.elapsed - self._last < QUIET_SECONDS:
                return
            self._send(improved=False)

    def _send(self, improved: bool) -> None:
        if self.listener is None:
            return
        seconds = self.budget.elapsed
        self._last = seconds
        n_nodes = self.budget.statistics.n_nodes
        fresh = n_nodes - self.n_earlier_nodes
        expression, bits, r2 = self._best
        event = ProgressEvent(
            phase=self.phase,
            expression=expression,
            bits=bits,
            r2=r2,
            n_nodes=n_nodes,
            nodes_per_second=fresh / seconds if seconds > 0 else 0.0,
            seconds=seconds,
            time_left=self.budget.time_left,
            improved=improved,
        )
        try:
            self.listener(event)
        except KeyboardInterrupt:
            if not self.budget.concluding:
                raise
