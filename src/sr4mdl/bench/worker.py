"""One run in a process of its own: ``python -m sr4mdl.bench.worker``.

Reads one JSON request from standard input and writes JSON messages to what was its
standard output; whatever else prints goes to standard error. A run sends its row
piece by piece, so that what is known survives when a later step has to be killed.
Errors are not caught: the traceback's last line becomes the row's error.
"""

import contextlib
import dataclasses
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, Final

GIB: Final = 1 << 30


class Channel:
    """Writes messages to the parent."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def send(self, **message: Any) -> None:
        """Send one message; NaN and infinity are refused."""
        self._stream.write(json.dumps(message, allow_nan=False).encode() + b"\n")
        self._stream.flush()


def _claim_stdout() -> Channel:
    """Keep the real standard output for messages and point prints to stderr."""
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return Channel(stream)


def _die_with_parent() -> None:
    """End this process group when the parent's end of standard input closes."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(os.getpgid(0), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def limit_resources(memory_gib: float | None, cpu_seconds: float | None) -> None:
    """Limit address space and processor time of this process and its children."""
    import resource

    if memory_gib is not None:
        limit = int(memory_gib * GIB)
        # Not every system lets the address space be limited; the time limit remains.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if cpu_seconds is not None:
        seconds = max(1, int(cpu_seconds))
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def perform_run(request: dict[str, Any], channel: Channel) -> None:
    """Load, fit, score and judge one run, sending the row as it grows."""
    import numpy as np

    from sr4mdl.bench import metrics, verdict
    from sr4mdl.bench.methods import create_method, method_versions
    from sr4mdl.bench.problems import find_problem
    from sr4mdl.bench.protocol import split_table
    from sr4mdl.bench.results import RunSpec
    from sr4mdl.bench.tables import MissingTableError, box_of, evaluate, load_table
    from sr4mdl.text import parse

    spec = RunSpec(**request["spec"])
    problem = find_problem(spec.suite, spec.problem)
    channel.send(row={"group": problem.group})
    data_dir = request.get("data_dir")
    try:
        table = load_table(
            problem,
            data_dir=None if data_dir is None else Path(data_dir),
            n_rows=spec.n_rows,
            seed=spec.seed,
        )
    except MissingTableError as error:
        channel.send(row={"error": str(error), "stop_reason": "data missing"})
        return
    split = split_table(
        table,
        spec.seed,
        noise=spec.noise,
        scale=spec.suite == "blackbox",
        max_train_rows=spec.max_train_rows,
    )
    method = create_method(spec.method, spec.mode)
    channel.send(
        stage="fitting",
        row={
            "versions": method_versions(method),
            "data_source": table.source,
            "n_train": len(split.y_train),
            "n_test": len(split.y_test),
            "n_features": len(table.names),
        },
    )
    before = time.monotonic(), time.process_time()
    result = method.fit(
        split.X_train.copy(),
        split.y_train.copy(),
        table.names,
        time_limit=spec.time_s,
        random_state=spec.seed,
    )
    wall, cpu = time.monotonic() - before[0], time.process_time() - before[1]
    channel.send(
        stage="scoring",
        row={
            "formula": result.formula,
            "stop_reason": result.stop_reason,
            "time_s": round(wall, 3),
            "cpu_s": round(cpu, 3),
            "complexity": result.complexity,
        },
    )
    test = split.to_units(np.asarray(result.predict(split.X_test), dtype=np.float64))
    train = split.to_units(np.asarray(result.predict(split.X_train), dtype=np.float64))
    r2_test = metrics.r2_score(split.y_test, test)
    scores: dict[str, Any] = {
        "r2_test": r2_test,
        "r2_train": metrics.r2_score(split.y_train_scored, train),
    }
    n_bad = int((~np.isfinite(test)).sum())
    if n_bad:
        scores["error"] = f"prediction not finite on {n_bad} of {len(test)} test rows"
    channel.send(row=scores)
    if result.formula is None:
        channel.send(row={"verdict": "no formula"})
        return
    expression = parse(result.formula)
    channel.send(row={"length": expression.length})
    columns = dict(zip(table.names, split.X_test.T, strict=True))
    printed = split.to_units(evaluate(expression, columns))
    channel.send(row={"r2_test_formula": metrics.r2_score(split.y_test, printed)})
    # From here on sympy may hang: the parent kills after the time for a verdict.
    channel.send(
        stage="judging", row={"recovered": False} if problem.formula is not None else {}
    )
    if problem.formula is not None:
        truth = parse(problem.formula)
        channel.send(
            row={
                "recovered_numeric": verdict.numerically_equal(
                    truth, expression, box_of(problem, table), table.names, spec.noise
                )
            }
        )
    channel.send(row={"complexity": verdict.complexity(expression)})
    if problem.formula is None:
        return
    outcome = verdict.judge(problem.formula, expression, r2_test, request["step_limit"])
    channel.send(
        row={
            "recovered": outcome.recovered,
            "verdict": outcome.reason,
            "complexity_simplified": outcome.complexity_simplified,
        }
    )


def perform_judge(request: dict[str, Any], channel: Channel) -> None:
    """Judge one formula."""
    from sr4mdl.bench.verdict import judge

    outcome = judge(
        request["truth"],
        request["prediction"],
        request["r2_test"],
        request["step_limit"],
    )
    channel.send(verdict=dataclasses.asdict(outcome))


def main() -> int:
    """Serve one request."""
    channel = _claim_stdout()
    line = b""
    while not line.endswith(b"\n"):
        # Byte by byte would be slow and a buffered reader would hide the pipe's end.
        chunk = os.read(0, 1 << 16)
        if not chunk:
            return 1
        line += chunk
    _die_with_parent()
    request = json.loads(line)
    limit_resources(request.get("memory_gib"), request.get("cpu_seconds"))
    if request["kind"] == "run":
        perform_run(request, channel)
    else:
        perform_judge(request, channel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
