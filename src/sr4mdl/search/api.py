"""The search as one call: data and settings in, the answer with its history out."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing.threads import single_thread
from sr4mdl.data import Dataset
from sr4mdl.expressions import constant, variable
from sr4mdl.mdlformer.guide import Guide, OnnxGuide, UniformGuide
from sr4mdl.moves import MAX_COLUMNS
from sr4mdl.search.actions import ActionTable, allowed_operators
from sr4mdl.search.budget import Budget, Statistics, StopReason, noting_interrupts
from sr4mdl.search.config import SearchConfig
from sr4mdl.search.events import Listener, Reporter
from sr4mdl.search.gp import GeneticSearch
from sr4mdl.search.guided import GuideCaller, GuidedSearch
from sr4mdl.search.judge import Judge, Solution
from sr4mdl.search.plain import PlainSearch
from sr4mdl.search.readout import Reading, Readout
from sr4mdl.search.rows import SearchData
from sr4mdl.search.screening import choose, importance, newcomers
from sr4mdl.search.state import Column, ColumnTable, State, Target, usable
from sr4mdl.search.stopping import Stopper

DEFAULT_GUIDE_ROWS: Final = 100
"""Rows shown to a guide that does not say how many it wants."""
MAX_WIDE_COLUMNS: Final = 60
"""Variables closed together, quickly, when there are more than ten."""
MAX_ROUNDS: Final = 3
"""Times that a screened root may change."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer of a search."""

    best: Solution
    """The formula with the shortest code."""
    front: tuple[Solution, ...]
    """Formulas of which none is both shorter and more accurate, shortest first."""
    runner_up: Solution | None
    """The next best formula of another shape."""
    gap_bits: float | None
    """How many bits longer the runner-up's code is."""
    stop_reason: StopReason
    """Why the search ended."""
    statistics: Statistics
    """What was done: states, calls, seconds by phase, refusals by cause."""
    mode: str
    """The mode that ran."""
    notes: tuple[str, ...]
    """What was noticed about the data, and what was screened out."""
    seconds: float
    """Wall time of the search, the last verdict included."""


def search(
    dataset: Dataset,
    config: SearchConfig | None = None,
    guide: Guide | None = None,
    listener: Listener | None = None,
) -> SearchResult:
    """Find the formula of a dataset's target with the shortest code.

    Parameters
    ----------
    dataset : Dataset
        The table; it must have a target.
    config : SearchConfig, optional
        Settings; the defaults otherwise.
    guide : Guide, optional
        Scores states in modes ``policy`` and ``mdl``; by default the network that
        comes with the package. Other modes do not use one.
    listener : callable, optional
        Called with a :class:`ProgressEvent` at new phases, at each new best formula
        and about twice a second. KeyboardInterrupt, raised by it or by the user, ends
        the search with the best formula so far.

    Returns
    -------
    SearchResult
        The best formula, the front, and what was done.

    Examples
    --------
    >>> x = np.linspace(1.0, 3.0, 20)
    >>> data = Dataset.from_arrays(x.reshape(-1, 1), 2.0 * x**2, ["t"])
    >>> str(search(data, SearchConfig(mode="uniform", max_time=5.0)).best.expression)
    '2*t^2'
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(f"dataset must be a Dataset, got {type(dataset).__name__}")
    config = SearchConfig() if config is None else config
    if dataset.y is None:
        raise ValueError("dataset must have a target to search for, got y=None")
    return _Run(dataset, config, guide, listener).run()


class _Run:
    """One call of :func:`search`."""

    def __init__(
        self,
        dataset: Dataset,
        config: SearchConfig,
        guide: Guide | None,
        listener: Listener | None,
    ) -> None:
        self.budget = Budget(config.max_time, config.max_nodes, config.max_evaluations)
        self.config = config
        self.rng = np.random.default_rng(config.random_state)
        self.guide = self._guide(guide)
        self.data = SearchData(
            dataset,
            max_search_rows=config.max_search_rows,
            max_judge_rows=config.max_judge_rows,
            n_guide_rows=int(getattr(self.guide, "n_rows", DEFAULT_GUIDE_ROWS)),
            rng=self.rng,
        )
        self.notes = list(dataset.notes)
        self.reporter = Reporter(listener, self.budget)
        self.judge = Judge(
            self.data,
            self.budget,
            self.reporter,
            operators=allowed_operators(config.operators),
            physical_constants=config.physical_constants,
        )
        self.readout = Readout(self.data, self.judge, self.budget, config.families)
        self.stopper = Stopper(
            self.judge,
            self.budget,
            self.data.search,
            early=config.early_stop,
            patience=config.patience,
        )
        self.columns = ColumnTable()
        self.smoothing_tried = False

    def _guide(self, guide: Guide | None) -> Guide | None:
        if self.config.mode in ("policy", "mdl"):
            return OnnxGuide() if guide is None else guide
        return UniformGuide() if self.config.mode == "uniform" else None

    def run(self) -> SearchResult:
        reason: StopReason
        try:
            with noting_interrupts(self.budget):
                reason = self.search()
        except KeyboardInterrupt:
            reason = "interrupted"
        if self.judge.best is None:
            self.judge.consider_mean()
        self.reporter.enter("verdict")
        with self.budget.phase("verdict"):
            choice, front = self.judge.verdict()
        self.reporter.enter("done")
        return SearchResult(
            best=choice.best,
            front=tuple(front),
            runner_up=choice.runner_up,
            gap_bits=choice.gap_bits,
            stop_reason=reason,
            statistics=self.budget.statistics,
            mode=self.config.mode,
            notes=tuple(self.notes),
            seconds=self.budget.elapsed,
        )

    def search(self) -> StopReason:
        self.judge.consider_mean()
        y = self.data.all.y
        if np.all(y == y[0]):
            if len(y) == 1:
                self.notes.append("one row: nothing but a constant can be told")
            self.judge.consider(constant(float(y[0])))
            return "constant target"
        if usable(self.data.search.y):
            # All variation is in few rows; look at the rows where it is.
            self.notes.append("the target hardly varies on the rows drawn for search")
            return "exhausted"
        eligible = self.eligible()
        if not eligible:
            self.notes.append("no column varies: nothing but a constant can be told")
            return "exhausted"
        self.reporter.enter("closing")
        root, reading, tier = self.root(eligible)
        reason = self.stopper.reason()
        if reason is not None:
            return reason
        self.reporter.enter("search")
        return self.loop(root, reading, tier)

    def eligible(self) -> dict[int, Column]:
        """Return the variables that vary and are the first of their values."""
        rows = self.data.search
        found: dict[bytes, int] = {}
        eligible: dict[int, Column] = {}
        for place, name in enumerate(rows.names):
            values = np.ascontiguousarray(rows.X[:, place])
            if usable(values):
                self.budget.statistics.reject(f"variable: {usable(values)}")
                continue
            column = self.columns.intern(variable(name), values)
            if column.key in found:
                self.budget.statistics.reject("variable: duplicate")
                continue
            found[column.key] = place
            eligible[place] = column
        return eligible

    def root(self, eligible: dict[int, Column]) -> tuple[State, Reading, int]:
        """Choose the root and read it out; with many variables, grow it."""
        kept = list(eligible)
        scores = np.zeros(len(self.data.names))
        crowded = len(eligible) > MAX_COLUMNS
        if crowded:
            self.reporter.enter("screening")
            with self.budget.phase("screening"):
                scores = importance(self.data.judge, self.config.random_state)
            ranked = sorted(eligible, key=lambda place: (-scores[place], place))
            wide = sorted(ranked[:MAX_WIDE_COLUMNS])
            self.readout.quick(
                State.of(tuple(eligible[p] for p in wide), self.target())
            )
            kept = self.choose(scores, eligible)
        for number in range(MAX_ROUNDS):
            columns = tuple(eligible[place] for place in kept)
            root, reading, tier = self.read_root(columns)
            if not crowded or self.stopper.reason() is not None:
                break
            grown = self.grow(scores, eligible, kept)
            if grown == kept or number == MAX_ROUNDS - 1:
                break
            kept = grown
        if crowded:
            self.note_screening(eligible, kept)
        return root, reading, tier

    def read_root(self, columns: tuple[Column, ...]) -> tuple[State, Reading, int]:
        """Close the root; if not solved at once, without noise and in full."""
        root = State.of(columns, self.target())
        reading = self.readout.quick(root)
        if self.stopper.reason() is not None:
            return root, reading, 1
        if self.smooth():
            root = State.of(columns, self.target())
            reading = self.readout.quick(root)
        full = self.readout.full(root, time_share=0.5)
        return (root, reading, 1) if full is None else (root, full, 2)

    def target(self) -> Target:
        rows = self.data.search
        return Target.original(rows.y if rows.smoothed is None else rows.smoothed)

    def smooth(self) -> bool:
        """Smooth the target once, if all families may look at it."""
        if self.smoothing_tried or self.config.families != "all":
            return False
        self.smoothing_tried = True
        with self.budget.phase("smoothing"), single_thread():
            return self.data.smooth(self.rng)

    def choose(self, scores: FloatArray, eligible: dict[int, Column]) -> list[int]:
        assert self.judge.best is not None
        used = self.judge.best.expression.variables
        needed = [p for p in eligible if self.data.names[p] in used]
        return choose(scores, needed, list(eligible), self.config.n_screened)

    def grow(
        self, scores: FloatArray, eligible: dict[int, Column], kept: list[int]
    ) -> list[int]:
        """Return the root's variables with those that explain what is left over."""
        rows = self.data.judge
        residuals = self.judge.residuals(rows)
        if np.ptp(residuals) == 0.0:
            return kept
        raised = scores.copy()
        for order, place in enumerate(newcomers(rows.X, residuals, kept)):
            raised[place] += 2.0 / (1.0 + order)
        return self.choose(raised, eligible)

    def note_screening(self, eligible: dict[int, Column], kept: list[int]) -> None:
        names = self.data.names
        left_out = [names[place] for place in eligible if place not in kept]
        shown = ", ".join(left_out[:20])
        more = f" and {len(left_out) - 20} more" if len(left_out) > 20 else ""
        self.notes.append(
            f"{len(eligible)} variables screened: the search starts from "
            f"{', '.join(names[place] for place in kept)}; "
            f"closed together but not searched further: {shown}{more}"
        )

    def loop(self, root: State, reading: Reading, tier: int) -> StopReason:
        """Run the mode's own search."""
        config = self.config
        if config.mode == "gp":
            return GeneticSearch(
                root, self.columns, self.readout, self.stopper, self.reporter,
                config, self.rng,
            ).run()  # fmt: skip
        paper = config.mode in ("mdl", "error")
        actions = ActionTable(
            self.columns,
            root.columns,
            operators=config.operators,
            paper=paper,
            max_length=config.max_column_length,
            max_outer_steps=config.max_outer_steps,
        )
        caller = None
        if self.guide is not None:
            caller = GuideCaller(self.guide, self.data, self.budget)
        if paper:
            return PlainSearch(
                root, actions, caller, self.readout, self.stopper, self.reporter,
                config, self.rng,
            ).run()  # fmt: skip
        assert caller is not None
        guided = GuidedSearch(
            root, actions, caller, self.readout, self.stopper, self.reporter, config
        )
        guided.start(reading.gain, tier)
        return guided.run()
