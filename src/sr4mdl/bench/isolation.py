"""A process of one's own for a piece of work, with limits that hold.

The parent's side: start ``sr4mdl.bench.worker``, hand it a request, read its
messages, kill it with everything it started. The worker's side of the agreement is in
``worker``. Needs a POSIX system (process groups, resource limits).
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, Final, Self

_THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_ERROR_TAIL: Final = 4_000
_READ_SIZE: Final = 1 << 16
_EXIT_TIME: Final = 10.0
_POLL_TIME: Final = 0.01


class Child:
    """One worker process.

    Parameters
    ----------
    request : mapping
        What the worker is to do; must be JSON.
    n_threads : int, default=1
        Threads that numerical libraries may use in it.

    Notes
    -----
    The worker leads a session of its own, so that :meth:`kill` reaches its children.
    Its standard input stays open as long as this object lives: when the parent dies,
    however it dies, the worker reads the end of it and ends itself.
    """

    def __init__(self, request: Mapping[str, Any], *, n_threads: int = 1) -> None:
        if os.name != "posix":
            raise OSError("benchmarks need a POSIX system")
        environment = dict(os.environ)
        for name in _THREAD_VARIABLES:
            environment[name] = str(n_threads)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sr4mdl.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdout = self._process.stdout
        self._buffer = b""
        self._open = True
        self.started = time.monotonic()
        line = json.dumps(dict(request)).encode() + b"\n"
        # A worker that dies at once is reported by its exit, not by this pipe.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is a message."""
        return self._stdout.fileno()

    def read(self) -> list[dict[str, Any]]:
        """Return the messages that have arrived; call it when readable."""
        if not self._open:
            return []
        chunk = os.read(self._stdout.fileno(), _READ_SIZE)
        if not chunk:
            self._open = False
        self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines if line]

    @property
    def ended(self) -> bool:
        """Whether the worker has closed its side; no message will come any more."""
        return not self._open

    def wait(self) -> str | None:
        """Return None after a clean exit, else what went wrong. Call once ended."""
        if not self._exits_within(_EXIT_TIME):
            self.kill()
            return "worker did not exit after its last message"
        self.kill()
        code = self._process.returncode
        if code == 0:
            return None
        last = self._last_error_line()
        if code < 0:
            name = signal.Signals(-code).name
            return f"killed by {name}" + (f" ({last})" if last else "")
        return last or f"exit code {code}"

    def _exits_within(self, seconds: float) -> bool:
        """Wait for the exit without collecting it, so that its number stays taken."""
        deadline = time.monotonic() + seconds
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while self._process.returncode is None:
            if os.waitid(os.P_PID, self._process.pid, options) is not None:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_TIME)
        return True

    def finish(self, limit: float) -> tuple[list[dict[str, Any]], str | None]:
        """Wait for the end or kill; return all messages and what went wrong."""
        messages: list[dict[str, Any]] = []
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while not self.ended:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self.kill()
                    return messages, f"killed at the hard limit of {limit:g} s"
                messages += self.read()
        return messages, self.wait()

    def kill(self) -> None:
        """Kill the worker and whatever it started and left behind."""
        # Until it is waited for, the leader's number cannot belong to anybody else.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._open = False

    def close(self) -> None:
        """Kill the worker if it still runs, and free what belongs to it."""
        self.kill()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._stdout.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _last_error_line(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _ERROR_TAIL))
        text = self._stderr.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else ""
