"""The runner: every run in a process of its own, every outcome a row.

Knows no method and no suite by name. It starts workers, holds them to their limits,
merges what they send into rows and appends the rows to the result file. Runs that
have a row already are skipped, so a killed runner is simply started again.
"""

import os
import selectors
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Final

from sr4mdl.bench.isolation import Child
from sr4mdl.bench.progress import Progress
from sr4mdl.bench.results import SCHEMA_VERSION, ResultFile, Row, RunSpec, key_of

_ROW_FIELDS: Final = (
    "schema",
    *("suite", "group", "problem", "seed", "noise", "method", "mode", "budget"),
    *("formula", "recovered", "recovered_numeric", "verdict"),
    *("r2_test", "r2_train", "r2_test_formula"),
    *("complexity", "complexity_simplified", "length"),
    *("time_s", "cpu_s", "stop_reason", "error"),
    *("n_train", "n_test", "n_features", "data_source", "versions", "checker"),
)
"""Fields that every row has, in this order; None where not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerConfig:
    """Limits and surroundings of the runs; none of it changes what a run is."""

    n_jobs: int = 1
    """Runs at the same time."""
    n_threads: int = 1
    """Threads that numerical libraries may use in a run."""
    memory_gib: float | None = 8.0
    """Limit on a run's address space; None for none."""
    start_limit: float = 300.0
    """Seconds to import and to load the data."""
    grace: float = 30.0
    """Seconds, beside half the time limit, after which a fit is killed."""
    step_limit: float = 60.0
    """Seconds for each sympy step of the verdict."""
    judge_slack: float = 30.0
    """Seconds, beside four steps, after which a verdict is killed."""
    data_dir: str | None = None
    """Folder in PMLB layout."""

    def __post_init__(self) -> None:
        for name in ("n_jobs", "n_threads"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}"
                )
        for name in ("memory_gib", "start_limit", "grace", "step_limit", "judge_slack"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above 0, got {value}")

    def fit_limit(self, time_s: float) -> float:
        """Return the seconds after which a fit is killed."""
        return 1.5 * time_s + self.grace

    @property
    def judge_limit(self) -> float:
        """Seconds after which a verdict is killed."""
        return 4 * self.step_limit + self.judge_slack

    def cpu_limit(self, time_s: float) -> float:
        """Return processor seconds after which the system itself kills a run."""
        seconds = self.start_limit + self.fit_limit(time_s) + 2 * self.judge_limit
        return seconds * max(self.n_threads, os.cpu_count() or 1)


def plan_runs(
    suite: str,
    problems: Sequence[str],
    methods: Sequence[tuple[str, str]],
    *,
    seeds: Sequence[int],
    noises: Sequence[float],
    time_s: float,
    n_rows: int,
    max_train_rows: int,
) -> list[RunSpec]:
    """Return all runs in an order in which early results are of use.

    Seeds are outermost, then noise levels. Within these the problems come in a random
    order, the same each time, with all methods of a problem together: a table that was
    cut off is a fair sample of the problems, and compares methods on the same ones.

    Parameters
    ----------
    suite : str
        Name of the suite.
    problems : sequence of str
        Names of the problems.
    methods : sequence of (str, str)
        Pairs of method and mode.
    seeds, noises : sequence
        Seeds of the trials and noise levels.
    time_s : float
        Time limit of a fit.
    n_rows, max_train_rows : int
        Rows regenerated, and cap on training rows.
    """
    shuffled = sorted(problems, key=lambda name: sha256(name.encode()).digest())
    return [
        RunSpec(
            suite=suite,
            problem=problem,
            seed=seed,
            noise=noise,
            method=method,
            mode=mode,
            time_s=time_s,
            n_rows=n_rows,
            max_train_rows=max_train_rows,
        )
        for seed in seeds
        for noise in noises
        for problem in shuffled
        for method, mode in methods
    ]


@dataclass
class _Run:
    """A run under way."""

    spec: RunSpec
    child: Child
    deadline: float
    limit: float
    stage: str = "starting"
    row: Row = field(default_factory=dict)


def run_all(
    specs: Iterable[RunSpec],
    results: ResultFile,
    config: RunnerConfig,
    progress: Progress,
) -> list[Row]:
    """Do every run that has no row yet; return the new rows.

    Parameters
    ----------
    specs : iterable of RunSpec
        The runs; doubles are done once.
    results : ResultFile
        Where the rows go.
    config : RunnerConfig
        Limits and number of jobs.
    progress : Progress
        What is told of each row.
    """
    wanted = {key_of(spec.to_row()): spec for spec in specs}
    waiting = [spec for key, spec in wanted.items() if key not in results.done]
    progress.start(len(waiting), len(wanted) - len(waiting))
    new: list[Row] = []
    clock = _Clock(len(waiting))
    try:
        for row in _rows(waiting, config):
            results.append(row)
            new.append(row)
            clock.count()
            progress.finished(row, clock.seconds_left())
    finally:
        progress.stop()
    return new


class _Clock:
    """Estimates the time left from the pace so far."""

    def __init__(self, n_runs: int) -> None:
        self._left = n_runs
        self._done = 0
        self._since = time.monotonic()

    def count(self) -> None:
        self._left -= 1
        self._done += 1

    def seconds_left(self) -> float:
        return (time.monotonic() - self._since) / self._done * self._left


def _rows(waiting: Sequence[RunSpec], config: RunnerConfig) -> Iterator[Row]:
    """Yield rows as runs end, with up to ``n_jobs`` under way."""
    queue = iter(waiting)
    running: list[_Run] = []
    selector = selectors.DefaultSelector()
    try:
        while True:
            while len(running) < config.n_jobs:
                spec = next(queue, None)
                if spec is None:
                    break
                run = _start(spec, config)
                running.append(run)
                selector.register(run.child, selectors.EVENT_READ, run)
            if not running:
                return
            now = time.monotonic()
            timeout = max(0.0, min(run.deadline for run in running) - now)
            for key, _ in selector.select(timeout):
                _receive(key.data, config)
            now = time.monotonic()
            for run in list(running):
                if run.child.ended or now >= run.deadline:
                    selector.unregister(run.child)
                    row = _end(run)
                    running.remove(run)
                    yield row
    finally:
        selector.close()
        for run in running:
            run.child.close()


def _start(spec: RunSpec, config: RunnerConfig) -> _Run:
    request: dict[str, Any] = {
        "kind": "run",
        "spec": asdict(spec),
        "data_dir": config.data_dir,
        "memory_gib": config.memory_gib,
        "cpu_seconds": config.cpu_limit(spec.time_s),
        "step_limit": config.step_limit,
    }
    child = Child(request, n_threads=config.n_threads)
    limit = config.start_limit
    return _Run(spec, child, time.monotonic() + limit, limit)


def _receive(run: _Run, config: RunnerConfig) -> None:
    for message in run.child.read():
        run.row.update(message.get("row", {}))
        if "stage" in message:
            run.stage = message["stage"]
            fitting = run.stage == "fitting"
            run.limit = (
                config.fit_limit(run.spec.time_s) if fitting else config.judge_limit
            )
            run.deadline = time.monotonic() + run.limit


def _end(run: _Run) -> Row:
    """Collect a run that has ended or passed its limit, and make its row."""
    in_time = run.child.ended
    if in_time:
        trouble = run.child.wait()
    else:
        run.child.kill()
        trouble = f"killed at the hard limit of {run.limit:g} s while {run.stage}"
    run.child.close()
    if trouble is not None and run.stage == "judging":
        # The fit is whole; SRBench counts a failed assessment as not solved. What is
        # not a matter of time may be a fault of the installation: that is an error.
        run.row["verdict"] = f"judge failed: {trouble}"
        if in_time:
            run.row["error"] = run.row["verdict"]
    elif trouble is not None:
        run.row["error"] = trouble
        run.row.setdefault("stop_reason", "failed")
    from sr4mdl.bench.verdict import CHECKER_VERSION

    row = {
        "schema": SCHEMA_VERSION,
        "checker": CHECKER_VERSION,
        **run.spec.to_row(),
        **run.row,
    }
    return {name: row.get(name) for name in _ROW_FIELDS}
