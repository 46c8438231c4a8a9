"""Live progress: a bar on a terminal, one line a run elsewhere."""

import sys
import time
from itertools import pairwise
from typing import IO, Any, Protocol

from sr4mdl.bench.results import Row


class Progress(Protocol):
    """What the runner tells about its progress."""

    def start(self, n_runs: int, n_skipped: int) -> None:
        """Say how many runs there are to do and how many are done already."""

    def finished(self, row: Row, seconds_left: float) -> None:
        """Say that a run ended."""

    def stop(self) -> None:
        """Clean up the display."""


def format_duration(seconds: float) -> str:
    """Return a duration in the two largest of d, h, min, s.

    Examples
    --------
    >>> format_duration(59.6), format_duration(3725), format_duration(90061)
    ('1 min 0 s', '1 h 2 min', '1 d 1 h')
    """
    whole = round(seconds)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for (name, size), (next_name, next_size) in pairwise(units):
        if whole >= size:
            count, rest = divmod(whole, size)
            return f"{count} {name} {rest // next_size} {next_name}"
    return f"{whole} s"


def describe_row(row: Row) -> str:
    """Return one line about a row."""
    what = f"{row['problem']} seed {row['seed']} noise {row['noise']:g}"
    who = (
        row["method"] if row["mode"] == "default" else f"{row['method']}/{row['mode']}"
    )
    parts = []
    if row.get("recovered") is not None:
        parts.append("recovered" if row["recovered"] else "not recovered")
    if row.get("r2_test") is not None:
        parts.append(f"R2 {row['r2_test']:.4f}")
    if row.get("time_s") is not None:
        parts.append(f"{row['time_s']:.1f} s")
    if row.get("error"):
        parts.append(f"error: {row['error']}")
    return f"{what} {who}: {', '.join(parts) or 'no result'}"


class PlainProgress:
    """One line a run."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._total = 0
        self._done = 0

    def start(self, n_runs: int, n_skipped: int) -> None:
        """Say how many runs there are to do and how many are done already."""
        self._total = n_runs
        self._write(f"{n_runs} runs to do, {n_skipped} done before")

    def finished(self, row: Row, seconds_left: float) -> None:
        """Say that a run ended."""
        self._done += 1
        left = format_duration(seconds_left)
        self._write(
            f"[{self._done}/{self._total}] {describe_row(row)}; about {left} left"
        )

    def stop(self) -> None:
        """Nothing to clean up."""

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class BarProgress:
    """A bar with counts and the time left, drawn by rich."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        self._console = Console(stderr=True)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[note]}"),
            console=self._console,
        )
        self._task: Any = None
        self._recovered = 0
        self._errors = 0
        self._since = time.monotonic()

    def start(self, n_runs: int, n_skipped: int) -> None:
        """Show the bar."""
        self._since = time.monotonic()
        self._console.print(f"{n_runs} runs to do, {n_skipped} done before")
        self._task = self._bar.add_task("runs", total=n_runs, note="")
        self._bar.start()

    def finished(self, row: Row, seconds_left: float) -> None:
        """Advance the bar and print the row above it."""
        self._recovered += bool(row.get("recovered"))
        self._errors += bool(row.get("error"))
        self._console.print(describe_row(row), markup=False, highlight=False)
        note = (
            f"{self._recovered} recovered, {self._errors} errors, "
            f"{format_duration(time.monotonic() - self._since)} passed, "
            f"about {format_duration(seconds_left)} left"
        )
        self._bar.update(self._task, advance=1, note=note)

    def stop(self) -> None:
        """Leave the terminal as it was."""
        self._bar.stop()


def make_progress() -> Progress:
    """Return a bar where standard error is a terminal, else plain lines."""
    return BarProgress() if sys.stderr.isatty() else PlainProgress()
