"""The display of progress: a panel on a terminal, plain lines elsewhere."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from sr4mdl import parse
from sr4mdl.live import LivePanel, PlainLines, open_display, panel
from sr4mdl.search import ProgressEvent

EVENT = ProgressEvent(
    phase="search",
    expression=parse("2*x^2"),
    bits=41.26,
    r2=0.75,
    n_nodes=120,
    nodes_per_second=60.0,
    seconds=2.0,
    time_left=8.0,
    improved=True,
)


def test_plain_lines_tell_of_new_formulas_and_signs_of_life() -> None:
    stream = io.StringIO()
    show = PlainLines("y", stream)
    show(replace(EVENT, expression=None))
    show(EVENT)
    show(replace(EVENT, improved=False, seconds=5.0))
    show(replace(EVENT, improved=False, seconds=12.0, time_left=math.inf))
    assert stream.getvalue().splitlines() == [
        "    2.0 s  41.3 bits, R2 0.75: y = 2*x^2",
        "   12.0 s  120 states, 12 s",
    ]


def test_a_search_goes_on_without_listeners() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    closed = io.StringIO()
    closed.close()
    for stream in (Broken(), closed):
        PlainLines("y", stream)(EVENT)


def test_without_standard_error_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with open_display("y") as show:
        show(EVENT)


def test_panel_shows_formula_bits_speed_and_time() -> None:
    stream = io.StringIO()
    Console(file=stream, width=100).print(panel("y", EVENT))
    text = stream.getvalue()
    for piece in ("y = 2*x^2", "41.3 bits", "R2 0.75", "60 states/s", "8 s left"):
        assert piece in text
    early = replace(EVENT, expression=None, bits=math.inf, r2=math.nan)
    Console(file=stream, width=100).print(panel("[y]", early))
    assert "[y] = ..." in stream.getvalue()
    assert "no code yet" in stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_stream_decides() -> None:
    with open_display("y", io.StringIO()) as display:
        assert isinstance(display, PlainLines)
    terminal = Terminal()
    with open_display("y", terminal) as display:
        assert isinstance(display, LivePanel)
        display(EVENT)
    assert "y = 2*x^2" in terminal.getvalue()


def test_constants_are_written_as_people_do() -> None:
    stream = io.StringIO()
    event = replace(EVENT, expression=parse("6.283185307179586*sqrt(x)"))
    PlainLines("y", stream)(event)
    assert "y = 2*pi*sqrt(x)" in stream.getvalue()
