"""A time limit on a block of code, by an alarm signal (main thread only)."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class OutOfTimeError(BaseException):
    """A block took too long.

    Not an ``Exception``, so that no handler inside sympy can swallow it.
    """


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`OutOfTimeError` in the block after so many seconds."""

    def ring(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
