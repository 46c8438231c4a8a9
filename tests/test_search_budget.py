import contextlib
import math
import signal

import pytest

from sr4mdl.search import ProgressEvent
from sr4mdl.search.budget import Budget, noting_interrupts
from sr4mdl.search.events import Reporter
from sr4mdl.text import parse


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_runs_out_before_the_last_verdict_is_due() -> None:
    clock = Clock()
    budget = Budget(10.0, 100, clock=clock)
    # 2 % of ten seconds are kept back.
    assert budget.time_left == pytest.approx(9.8)
    clock.now += 9.7
    assert budget.reason() is None
    clock.now += 0.2
    assert budget.reason() == "max_time"
    assert budget.time_left == 0.0
    assert budget.elapsed == pytest.approx(9.9)


def test_the_share_kept_back_is_bounded() -> None:
    assert Budget(1000.0, 1, clock=Clock()).time_left == pytest.approx(999.7)


def test_nodes_and_evaluations_run_out() -> None:
    budget = Budget(None, 5, 3, clock=Clock())
    assert budget.time_left == math.inf
    assert budget.closing_limit() is None
    budget.statistics.n_quick = 1
    budget.statistics.n_medium = 1
    assert budget.reason() is None
    budget.statistics.n_full = 1
    assert budget.reason() == "max_evaluations"
    budget.statistics.n_nodes = 5
    assert budget.reason() == "max_nodes"


def test_a_readout_gets_its_share_or_what_is_left() -> None:
    clock = Clock()
    budget = Budget(10.0, 5, clock=clock)
    assert budget.closing_limit(0.25) == pytest.approx(2.5)
    clock.now += 9.0
    assert budget.closing_limit(0.25) == pytest.approx(0.8)
    clock.now += 9.0
    assert budget.closing_limit(0.25) == pytest.approx(1e-3)


def test_phases_add_up_even_when_interrupted() -> None:
    clock = Clock()
    budget = Budget(None, 5, clock=clock)
    with budget.phase("guide"):
        clock.now += 1.0

    def interrupted() -> None:
        with budget.phase("guide"):
            clock.now += 2.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert budget.statistics.seconds == {"guide": pytest.approx(3.0)}


def test_listeners_hear_phases_gains_and_now_and_then_progress() -> None:
    clock = Clock()
    events: list[ProgressEvent] = []
    budget = Budget(10.0, 50, clock=clock)
    reporter = Reporter(events.append, budget)
    reporter.enter("search")
    reporter.enter("search")
    reporter.tick()
    assert [event.phase for event in events] == ["search"]
    assert events[0].expression is None
    assert math.isnan(events[0].r2)
    clock.now += 2.0
    budget.statistics.n_nodes = 10
    reporter.best(parse("x^2"), 12.0, 0.5)
    reporter.tick()
    assert len(events) == 2
    assert events[1].improved
    assert (events[1].bits, events[1].r2) == (12.0, 0.5)
    assert events[1].nodes_per_second == pytest.approx(5.0)
    assert events[1].time_left == pytest.approx(7.8)
    clock.now += 0.6
    reporter.tick()
    assert len(events) == 3
    assert not events[2].improved


def test_without_a_listener_nothing_is_sent() -> None:
    reporter = Reporter(None, Budget(None, 1, clock=Clock()))
    reporter.enter("search")
    reporter.best(parse("x"), 1.0, 1.0)
    reporter.tick()


def test_an_interrupt_that_python_drops_is_still_noted() -> None:
    budget = Budget(60.0, 100)
    # A background job of a shell starts with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with noting_interrupts(budget):
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert budget.reason() == "interrupted"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
