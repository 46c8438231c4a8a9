"""The search as one call: data and settings in, the answer with its history out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing.threads import single_thread
from sr4mdl.data import Dataset
from sr4mdl.expressions import apply, constant, variable
from sr4mdl.mdlformer.guide import Guide, OnnxGuide, UniformGuide
from sr4mdl.moves import MAX_COLUMNS
from sr4mdl.search.actions import ActionTable
from sr4mdl.search.budget import Budget, Statistics, StopReason, noting_interrupts
from sr4mdl.search.config import GUIDED_MODES, SearchConfig
from sr4mdl.search.events import Listener, Reporter
from sr4mdl.search.extension import Extension
from sr4mdl.search.gp import GeneticSearch
from sr4mdl.search.guided import GuideCaller, GuidedSearch
from sr4mdl.search.judge import N_FINALISTS, NEAR_BITS, Judge, Solution
from sr4mdl.search.memory import (
    MAX_FORMULAS,
    Keeper,
    SearchMemory,
    fingerprint_of,
    plain_statistics,
    record_tree,
    restore_tree,
    shaping_settings,
)
from sr4mdl.search.origins import columns_with_origin, shift_to_zero
from sr4mdl.search.plain import PlainSearch
from sr4mdl.search.readout import NOTHING, Reading, Readout
from sr4mdl.search.rows import SearchData
from sr4mdl.search.scaling import Scaling
from sr4mdl.search.screening import choose, importance, newcomers
from sr4mdl.search.state import Column, ColumnTable, State, Target, usable
from sr4mdl.search.stopping import Stopper
from sr4mdl.search.tree import FULL, QUICK, Tree
from sr4mdl.text import parse

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
    memory: SearchMemory
    """What a later search needs to go on from here."""


def search(
    dataset: Dataset,
    config: SearchConfig | None = None,
    guide: Guide | None = None,
    listener: Listener | None = None,
    *,
    memory: SearchMemory | None = None,
    store: Callable[[SearchMemory], None] | None = None,
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
    memory : SearchMemory, optional
        Of an earlier search, to go on from: its formulas compete, and on the same
        table under the same settings its tree grows on. Limits of nodes and
        evaluations count what is done now.
    store : callable, optional
        Called with the memory of the moment every few seconds.

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
    scaling = Scaling.of(dataset, config.limits.operators)
    if scaling is None:
        return _Run(dataset, config, guide, listener, memory, store).run()
    told = scaling.restoring(listener)
    if memory is not None:
        memory = memory.with_formulas(scaling.scale, dataset.names)
    kept = None if store is None else _restoring_store(store, scaling)
    run = _Run(scaling.dataset(), config, guide, told, memory, kept)
    return _restored(run.run(), scaling)


def _restoring_store(
    store: Callable[[SearchMemory], None], scaling: Scaling
) -> Callable[[SearchMemory], None]:
    """Return a store that gets formulas in the units of the data."""
    return lambda known: store(
        known.with_formulas(scaling.restore, scaling.original.names)
    )


def _restored(result: SearchResult, scaling: Scaling) -> SearchResult:
    """Return the answer of a scaled search in the units of the data."""
    history = result.statistics.history
    history[:] = [
        (seconds, bits, str(scaling.restore(parse(formula))))
        for seconds, bits, formula in history
    ]
    runner_up = result.runner_up
    return replace(
        result,
        best=scaling.restore_solution(result.best),
        front=tuple(scaling.restore_solution(one) for one in result.front),
        runner_up=None if runner_up is None else scaling.restore_solution(runner_up),
        notes=(*result.notes, scaling.note()),
        memory=result.memory.with_formulas(scaling.restore, scaling.original.names),
    )


class _Run:
    """One call of :func:`search`."""

    def __init__(
        self,
        dataset: Dataset,
        config: SearchConfig,
        guide: Guide | None,
        listener: Listener | None,
        memory: SearchMemory | None = None,
        store: Callable[[SearchMemory], None] | None = None,
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
            limits=config.limits,
            physical_constants=config.physical_constants,
        )
        self.readout = Readout(self.data, self.judge, self.budget, config.families)
        # The modes for comparison end where the paper's search ends.
        guided = config.mode in ("policy", "uniform")
        self.stopper = Stopper(
            self.judge,
            self.budget,
            self.data.search,
            early=config.early_stop,
            patience=config.patience,
            exact_patience=config.exact_patience if guided else 0,
        )
        self.columns = ColumnTable()
        self.smoothing_tried = False
        self.tree: Tree | None = None
        self.genetic: GeneticSearch | None = None
        self.earlier = memory
        self.resumed: SearchMemory | None = None
        """The memory, if its tree is taken up as well."""
        if store is not None:
            self.reporter.keeper = Keeper(self.memory, store, self.budget)

    def memory(self) -> SearchMemory:
        """Return what a later search needs to go on from here."""
        best = [one.expression for one in self.judge.archive.ranking()]
        front = [one.expression for one in self.judge.archive.front()]
        formulas = dict.fromkeys([*self.judge.finalists, *best, *front])
        population = [] if self.genetic is None else self.genetic.population
        before = 0.0 if self.resumed is None else self.resumed.seconds
        root = () if self.tree is None else self.tree.root.state.columns
        return SearchMemory(
            data=fingerprint_of(self.data.dataset),
            settings=shaping_settings(self.config),
            formulas=tuple(map(str, formulas))[:MAX_FORMULAS],
            root=tuple(str(column.expression) for column in root),
            nodes=record_tree(self.tree),
            population=tuple(map(str, population)),
            statistics=plain_statistics(self.budget.statistics, before),
            seconds=before + self.budget.elapsed,
            random=self.rng.bit_generator.state,
        )

    def recall(self) -> None:
        """Let the formulas of an earlier search compete; take up its tree if it fits.

        Without a fitting tree the search begins anew, with a note why.
        """
        memory = self.earlier
        if memory is None:
            return
        differing = memory.differences(self.data.dataset, self.config)
        if differing:
            self.notes.append(
                f"not the same as in the earlier search: {', '.join(differing)}; its "
                "formulas compete, its tree is not taken up"
            )
        else:
            self.resumed = memory
            self.rng.bit_generator.state = memory.random
            self.budget.go_on(memory.restored_statistics())
            self.reporter.n_earlier_nodes = self.budget.statistics.n_nodes
        formulas = memory.expressions(self.data.names)
        self.judge.remembered = formulas[:N_FINALISTS]
        for formula in formulas:
            self.judge.consider(formula)
        self.judge.last_gain = self.budget.n_evaluations

    def take_up(self, search: GuidedSearch | PlainSearch, actions: ActionTable) -> None:
        """Give a search the tree of the earlier one."""
        self.tree = search.tree
        if self.resumed is None or not self.resumed.nodes:
            return
        # The counter has seen these nodes already, the root among them.
        n_nodes = self.budget.statistics.n_nodes - 1
        restore_tree(search.tree, actions.codes, self.resumed)
        self.budget.statistics.n_nodes = n_nodes
        search.take_up()

    def _guide(self, guide: Guide | None) -> Guide | None:
        if self.config.mode in GUIDED_MODES:
            return OnnxGuide() if guide is None else guide
        return UniformGuide() if self.config.mode == "uniform" else None

    def run(self) -> SearchResult:
        reason: StopReason
        with noting_interrupts(self.budget):
            try:
                reason = self.search()
            except KeyboardInterrupt:
                reason = "interrupted"
            # Whoever interrupts now gets the answer all the same: it is near.
            self.budget.concluding = True
            return self.conclude(reason)

    def conclude(self, reason: StopReason) -> SearchResult:
        """Choose among what was found."""
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
            memory=self.memory(),
        )

    def search(self) -> StopReason:
        self.judge.consider_mean()
        self.recall()
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
        if any(one.expression.name is None for one in root.columns):
            self.notes.append(
                "the table looks standardised: searched with its columns counted "
                "from where they begin"
            )
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
        if self.resumed is not None and self.resumed.root:
            columns = tuple(eligible.values())
            offered = {
                str(one.expression): one for one in (*columns, *self.from_zero(columns))
            }
            known = self.resumed.root
            if all(text in offered for text in known):
                # It was read out by the earlier search.
                if not self.stopper.solved:
                    self.smooth()
                again = tuple(offered[text] for text in known)
                return State.of(again, self.target()), NOTHING, FULL
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
        return self.read_from_zero(root, reading, tier)

    def from_zero(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Return variables with the standardised ones counted from where they begin.

        Nothing if the table is not standardised or sums are not allowed.
        """
        X, names = self.data.all.X, self.data.names
        places = {names[place]: place for place in columns_with_origin(X)}
        allowed = self.config.limits.operators
        if not places or (allowed is not None and "add" not in allowed):
            return ()
        counted = []
        for column in columns:
            place = places.get(str(column.expression))
            if place is not None:
                shift = shift_to_zero(X[:, place])
                moved = apply("add", column.expression, constant(shift))
                column = self.columns.intern(moved, column.values + shift)
            counted.append(column)
        return tuple(counted)

    def read_from_zero(
        self, root: State, reading: Reading, tier: int
    ) -> tuple[State, Reading, int]:
        """Close the root of a standardised table from its zeros as well.

        Return that root if its closing explained more, in a code that is not longer by
        far: with few rows shifts do not pay at once.
        """
        if self.stopper.reason() is not None or self.stopper.solved:
            return root, reading, tier
        if self.config.families != "all":
            return root, reading, tier
        columns = self.from_zero(root.columns)
        if not columns or self.stopper.convinced:
            return root, reading, tier
        other = self.read_root(columns, time_share=0.25)
        explains = other[1].gain > reading.gain
        better = explains and other[1].bits < reading.bits + NEAR_BITS
        return other if better else (root, reading, tier)

    def read_root(
        self, columns: tuple[Column, ...], time_share: float = 0.5
    ) -> tuple[State, Reading, int]:
        """Close the root; if not solved at once, without noise and in full."""
        root = State.of(columns, self.target())
        reading = self.readout.quick(root)
        # A full closing is dear; it is for what is not solved.
        if self.stopper.reason() is not None or self.stopper.solved:
            return root, reading, QUICK
        if self.smooth():
            root = State.of(columns, self.target())
            reading = self.readout.quick(root)
        if self.stopper.convinced:
            return root, reading, QUICK
        full = self.readout.full(root, time_share)
        return (root, reading, QUICK) if full is None else (root, full, FULL)

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
            self.genetic = GeneticSearch(
                root, self.columns, self.readout, self.stopper, self.reporter,
                config, self.rng,
            )  # fmt: skip
            if self.resumed is not None:
                self.genetic.population = self.resumed.expressions(
                    self.data.names, self.resumed.population
                )
            return self.genetic.run()
        paper = config.mode in ("mdl", "error")
        actions = ActionTable(
            self.columns,
            root.columns,
            operators=config.operators,
            paper=paper,
            max_length=config.max_column_length,
            max_outer_steps=config.max_outer_steps,
            limits=config.limits,
        )
        caller = None
        if self.guide is not None:
            caller = GuideCaller(self.guide, self.data, self.budget)
        if paper:
            plain = PlainSearch(
                root, actions, caller, self.readout, self.stopper, self.reporter,
                config, self.rng,
            )  # fmt: skip
            self.take_up(plain, actions)
            return plain.run()
        assert caller is not None
        extension = None
        if config.families == "all":
            extension = Extension(root, self.columns, self.readout, self.stopper)
        guided = GuidedSearch(
            root, actions, caller, self.readout, self.stopper, self.reporter, config,
            extension,
        )  # fmt: skip
        guided.start(reading.gain, tier)
        self.take_up(guided, actions)
        return guided.run()
