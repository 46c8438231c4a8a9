"""Progress of a search for people: a live panel on a terminal, plain lines elsewhere.

Displays are callables that take a ``ProgressEvent``; they write to standard error, so
that standard output holds results only.
"""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, TextIO

from rich.columns import Columns
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sr4mdl.search import ProgressEvent
from sr4mdl.selection.tidying import present

_PHASES: Final = {
    "screening": "choosing variables",
    "closing": "trying simple forms",
    "search": "searching",
    "verdict": "checking on all rows",
}
QUIET_SECONDS: Final = 10.0
"""Time after which plain lines say that the search goes on."""


class Display(Protocol):
    """Something that shows progress."""

    def __call__(self, event: ProgressEvent) -> None:
        """Show an event."""


@contextmanager
def open_display(target: str, stream: TextIO | None = None) -> Iterator[Display]:
    """Yield the display that fits a stream, and close it afterwards.

    Parameters
    ----------
    target : str
        Name of what is explained.
    stream : text stream, optional
        Where to write; standard error by default.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None:  # a program without a console
        yield lambda event: None
        return
    if not stream.isatty():
        yield PlainLines(target, stream)
        return
    console = Console(file=stream)
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield LivePanel(target, live)


class PlainLines:
    """One line for each new best formula, and now and then a sign of life.

    Should nobody take the lines any more, the search goes on without them.
    """

    def __init__(self, target: str, stream: TextIO) -> None:
        self._target = target
        self._stream = stream
        self._last = 0.0

    def __call__(self, event: ProgressEvent) -> None:
        """Write a line, if there is something to say."""
        if event.expression is None:
            return
        if event.improved:
            formula = f"{self._target} = {present(event.expression)}"
            line = f"{event.bits:.1f} bits, R2 {event.r2:.6g}: {formula}"
        elif event.seconds - self._last >= QUIET_SECONDS:
            line = f"{event.n_nodes} states, {_left(event)}"
        else:
            return
        self._last = event.seconds
        with suppress(OSError, ValueError):  # ValueError: it has been closed
            self._stream.write(f"{event.seconds:7.1f} s  {line}\n")
            self._stream.flush()


class LivePanel:
    """A panel that is drawn again at each event."""

    def __init__(self, target: str, live: Live) -> None:
        self._target = target
        self._live = live

    def __call__(self, event: ProgressEvent) -> None:
        """Draw the event."""
        self._live.update(panel(self._target, event))


def panel(target: str, event: ProgressEvent) -> Any:
    """Return an event as a panel that rich can show."""
    best = "..." if event.expression is None else str(present(event.expression))
    cells = [
        f"{event.bits:.1f} bits" if math.isfinite(event.bits) else "no code yet",
        "R2 -" if math.isnan(event.r2) else f"R2 {event.r2:.6g}",
        f"{event.n_nodes} states",
        f"{event.nodes_per_second:.0f} states/s",
        _left(event),
    ]
    # Columns go on in the next line where a terminal is narrow.
    facts = Columns([Text(cell, style="cyan") for cell in cells], padding=(0, 3))
    content = Table.grid()
    content.add_row(Text(f"{target} = {best}", style="bold"))
    content.add_row(Text(""))
    content.add_row(facts)
    doing = _PHASES.get(event.phase, event.phase)
    return Panel(content, title=f"sr4mdl: {doing}", title_align="left")


def _left(event: ProgressEvent) -> str:
    if math.isinf(event.time_left):
        return f"{event.seconds:.0f} s"
    return f"{event.time_left:.0f} s left"
