"""Searches of a fit: one for each target, one after another or in processes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.utils.parallel import Parallel, delayed

from sr4mdl.data import Dataset
from sr4mdl.mdlformer.guide import Guide, OnnxGuide
from sr4mdl.operators import adopt_operators, user_operators
from sr4mdl.regressor.outcomes import Table
from sr4mdl.search import (
    Listener,
    SearchConfig,
    SearchMemory,
    SearchResult,
    search,
)
from sr4mdl.search.budget import holding_interrupts
from sr4mdl.search.config import GUIDED_MODES

Store = Callable[[SearchMemory], None]


def run_searches(
    tables: list[Table],
    config: SearchConfig,
    *,
    guide: Any,
    n_jobs: int | None,
    callbacks: list[Callable[..., Any]],
    verbose: bool,
    memories: Mapping[str, SearchMemory],
    store: Store | None,
) -> list[SearchResult]:
    """Search for the formula of each target.

    Parameters
    ----------
    tables : list of Table
        One for each target.
    config : SearchConfig
        Settings of every search.
    guide : Guide, str, Path or None
        As in ``SymbolicRegressor``.
    n_jobs : int or None
        Processes for several targets, threads of the network for one.
    callbacks : list of callable
        Told of progress.
    verbose : bool
        Whether to show progress on standard error.
    memories : mapping of str to SearchMemory
        By target, what an earlier search knows.
    store : callable or None
        Takes the memory of a search that runs every few seconds; searches in other
        processes have none.
    """
    n_workers = effective_n_jobs(n_jobs)
    if n_workers > 1 and len(tables) > 1:
        if callbacks or verbose:
            raise ValueError(
                "callbacks and verbose cannot follow searches in other processes: "
                "leave them out or use n_jobs=1"
            )
        opened = open_guide(guide, config.mode, 1)
        known = user_operators()
        with TemporaryDirectory(prefix="sr4mdl-") as folder:
            flag = Path(folder) / "stop"
            with holding_interrupts(flag.touch):
                found: list[SearchResult] = Parallel(min(n_workers, len(tables)))(
                    delayed(_run_elsewhere)(
                        table, config, opened, flag, memories.get(table.target), known
                    )
                    for table in tables
                )
        return found
    opened = open_guide(guide, config.mode, n_workers)
    results: list[SearchResult] = []
    for table in tables:
        if results and results[-1].stop_reason == "interrupted":
            # Who interrupts does not want to wait for the other targets.
            config = replace(config, max_evaluations=1)
        with _display(table, verbose) as displays:
            results.append(
                run_search(
                    table,
                    config,
                    opened,
                    tell_all([*displays, *callbacks]),
                    memories.get(table.target),
                    store,
                )
            )
    return results


@contextmanager
def _display(table: Table, verbose: bool) -> Iterator[list[Callable[..., Any]]]:
    """Yield the display of a search, if one is asked for."""
    if not verbose:
        yield []
        return
    from sr4mdl.live import open_display

    with open_display(table.target) as display:
        yield [display]


def run_search(
    table: Table,
    config: SearchConfig,
    guide: Guide | None,
    listener: Listener | None,
    memory: SearchMemory | None = None,
    store: Store | None = None,
) -> SearchResult:
    """Search for the formula of one target."""
    dataset = Dataset.from_arrays(table.X, table.y, table.names, target=table.target)
    return search(dataset, config, guide, listener, memory=memory, store=store)


def _run_elsewhere(
    table: Table,
    config: SearchConfig,
    guide: Guide | None,
    flag: Path,
    memory: SearchMemory | None,
    operators: Sequence[Mapping[str, Any]],
) -> SearchResult:
    """Search in a process of its own until the time is over or the flag is there."""
    adopt_operators(operators)

    def look(_event: object) -> None:
        if flag.exists():
            raise KeyboardInterrupt

    return run_search(table, config, guide, look, memory)


def tell_all(callbacks: list[Callable[..., Any]]) -> Listener | None:
    """Return a listener that tells all callbacks; None if there are none."""
    if not callbacks:
        return None

    def tell(event: Any) -> None:
        for callback in callbacks:
            callback(event)

    return tell


def open_guide(guide: Any, mode: str, n_threads: int) -> Guide | None:
    """Return the guide of a mode, opened if a file is given; None without one."""
    if mode not in GUIDED_MODES:
        if guide is not None:
            raise ValueError(
                f"guide must be None in mode {mode!r}, which uses none, got {guide!r}"
            )
        return None
    if guide is None or isinstance(guide, (str, Path)):
        return OnnxGuide(guide, n_threads=n_threads)
    if not hasattr(guide, "score"):
        raise TypeError(f"guide must be a Guide or a path, got {guide!r}")
    opened: Guide = guide
    return opened
