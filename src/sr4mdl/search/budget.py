"""Limits of a search and the clock: when to stop and why.

Every loop asks ``Budget.reason``; nothing else in the search reads the clock to
decide, so a search that ends by nodes or evaluations is the same every time.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

StopReason = Literal[
    "max_time",
    "max_nodes",
    "max_evaluations",
    "exact",
    "noise floor",
    "exhausted",
    "constant target",
    "interrupted",
]

FINAL_SHARE: Final = 0.02
"""Share of the time kept back for the last verdict, at most ``MAX_FINAL_TIME``."""
MAX_FINAL_TIME: Final = 0.3


@dataclass(slots=True)
class Statistics:
    """What a search has done; counts and seconds.

    Attributes
    ----------
    n_nodes : int
        States in the tree; in ``gp``, individuals made.
    n_guide_calls, n_guide_states : int
        Calls of the guide and states it scored.
    n_quick, n_medium, n_full : int
        States closed in each tier.
    n_candidates : int
        Fits that closing scored by numbers.
    n_judged : int
        Formulas compared in bits.
    seconds : dict of str to float
        Wall time by phase.
    rejects : dict of str to int
        Moves and formulas refused, by cause.
    history : list of tuple (float, float, str)
        Seconds, bits and formula of each new best; below 0 in runs before this one.
    """

    n_nodes: int = 0
    n_guide_calls: int = 0
    n_guide_states: int = 0
    n_quick: int = 0
    n_medium: int = 0
    n_full: int = 0
    n_candidates: int = 0
    n_judged: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    rejects: dict[str, int] = field(default_factory=dict)
    history: list[tuple[float, float, str]] = field(default_factory=list)

    @property
    def n_closed(self) -> int:
        """States closed, in all tiers."""
        return self.n_quick + self.n_medium + self.n_full

    def reject(self, cause: str) -> None:
        """Count one refusal."""
        self.rejects[cause] = self.rejects.get(cause, 0) + 1


class Budget:
    """Counts what is used and says when it is used up.

    Parameters
    ----------
    max_time : float or None
        Seconds from now on, a small share kept back for the last verdict.
    max_nodes : int
        Most states.
    max_evaluations : int or None
        Most readouts.
    clock : callable, default=time.perf_counter
        Seconds since some moment.
    """

    def __init__(
        self,
        max_time: float | None,
        max_nodes: int,
        max_evaluations: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self.start = clock()
        self.max_nodes = max_nodes
        self.max_evaluations = max_evaluations
        self.max_time = math.inf if max_time is None else max_time
        reserve = 0.0
        if max_time is not None:
            reserve = min(FINAL_SHARE * max_time, MAX_FINAL_TIME)
        self.deadline = self.start + self.max_time - reserve
        self.statistics = Statistics()
        self.interrupted = False
        """Whether the user asked to stop; see :func:`noting_interrupts`."""
        self.concluding = False
        """Whether the search has ended and the answer is being made."""

    def go_on(self, earlier: Statistics) -> None:
        """Count on from an earlier run; the limits are for what is done now."""
        self.statistics = earlier
        self.max_nodes += earlier.n_nodes
        if self.max_evaluations is not None:
            self.max_evaluations += earlier.n_closed

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self.start

    @property
    def time_left(self) -> float:
        """Seconds until the search has to end; inf without a limit, never below 0."""
        return max(0.0, self.deadline - self._clock())

    @property
    def n_evaluations(self) -> int:
        """Readouts so far."""
        return self.statistics.n_closed

    def reason(self) -> StopReason | None:
        """Return why the search has to end, or None."""
        if self.interrupted:
            return "interrupted"
        if self.statistics.n_nodes >= self.max_nodes:
            return "max_nodes"
        if (
            self.max_evaluations is not None
            and self.n_evaluations >= self.max_evaluations
        ):
            return "max_evaluations"
        if self._clock() >= self.deadline:
            return "max_time"
        return None

    def closing_limit(self, share: float = 1.0) -> float | None:
        """Return the time limit for one readout, or None if there is none.

        Parameters
        ----------
        share : float, default=1.0
            Most of the whole search's time that it may take.
        """
        left = min(share * self.max_time, self.time_left)
        return None if math.isinf(left) else max(left, 1e-3)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of a block to a phase."""
        began = self._clock()
        try:
            yield
        finally:
            seconds = self.statistics.seconds
            seconds[name] = seconds.get(name, 0.0) + self._clock() - began


@contextmanager
def noting_interrupts(budget: Budget) -> Iterator[None]:
    """Let Ctrl-C end the search even where Python drops the exception.

    A KeyboardInterrupt that is raised inside a weak reference's or a compiler's
    callback is printed and forgotten. So it is noted in the budget as well, which
    every loop asks. Once the budget is ``concluding`` it is only noted. Only the main
    thread's default handling, or that of :func:`holding_interrupts`, is replaced.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _may_replace(before):
        yield
        return
    budget.interrupted |= isinstance(before, _Hold) and before.rung

    def note(_number: int, _frame: object) -> None:
        budget.interrupted = True
        if not budget.concluding:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Hold:
    """A handler of Ctrl-C that only tells somebody."""

    def __init__(self, told: Callable[[], object]) -> None:
        self._told = told
        self.rung = False

    def __call__(self, _number: int, _frame: object) -> None:
        self.rung = True
        self._told()


@contextmanager
def holding_interrupts(told: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Let Ctrl-C end nothing but searches: an answer is to come out of what follows.

    Parameters
    ----------
    told : callable
        Called at each Ctrl-C outside of a search in this process; one that begins
        after it ends at once.
    """
    before = signal.getsignal(signal.SIGINT)
    if not _may_replace(before):
        yield
        return
    signal.signal(signal.SIGINT, _Hold(told))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _may_replace(handler: object) -> bool:
    """Return whether a handler of Ctrl-C is Python's or ours, and may be set here."""
    ours = handler is signal.default_int_handler or isinstance(handler, _Hold)
    return ours and threading.current_thread() is threading.main_thread()
