"""Closing a search state: from its columns to ranked formulas of the target."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

import numpy as np

from sr4mdl._typing import IntArray
from sr4mdl.closing.drafts import EXACT, Draft, Scale
from sr4mdl.closing.monomials import power_product
from sr4mdl.closing.pool import Pool, build_pool
from sr4mdl.closing.power_dictionary import PowerDictionary
from sr4mdl.closing.problem import ClosingProblem, OuterStep
from sr4mdl.closing.pruning import shortened, without_idle_abs
from sr4mdl.closing.pursuit import Dictionary
from sr4mdl.closing.threads import single_thread
from sr4mdl.closing.tiers import FIRST_STAGES, TIERS, Stage, Tier, TierSettings
from sr4mdl.closing.workbench import Workbench
from sr4mdl.expressions import Expression, constant
from sr4mdl.selection.bits import (
    RELATIVE_FLOOR,
    error_floor,
    formula_bits,
    mean_of,
    nearest_short,
    r2_of,
    residual_bits,
    root_mean_square,
    supported_constant_bits,
)
from sr4mdl.selection.fitting import Form, fit_constants
from sr4mdl.selection.limits import Limits
from sr4mdl.selection.pareto import skeleton
from sr4mdl.selection.snapping import Snapped, snap_constants
from sr4mdl.selection.tidying import tidy
from sr4mdl.simplify import simplify

_T = TypeVar("_T")
FAILURES: Final = (np.linalg.LinAlgError, ArithmeticError)
"""What families and fits may break off with: no solution, overflow and the like."""
SHORT_BITS: Final = 80.0
"""Length of an exact formula below which no shorter one is looked for."""
FAMILIES_SHARE: Final = 0.75
"""Share of the time limit after which no family starts, so that what was found is
written, fitted and rounded."""
MAX_ZERO_SHARE: Final = 0.1
"""Share of rows that may be left out of the screening for the zeros in them."""
MAX_PRUNINGS: Final = 3
"""Parts left out of the best formula, one after the other."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A formula of the original target with its code length."""

    expression: Expression
    """The formula. Its constants are rounded, except those of an inexact fit of a
    tier below the full one, which are charged what the data support."""
    n_constants: int
    """Constants in it."""
    rmse: float
    """Root mean square error on the original target, verdict rows."""
    r2: float
    """Share of the variance explained, 1 - SSE/SST; 1 for a constant fitted."""
    formula_bits: float
    """Bits of symbols and constants."""
    residual_bits: float
    """Bits of what is left unexplained."""
    family: str
    """Which family found it."""

    @property
    def bits(self) -> float:
        """Total code length."""
        return self.formula_bits + self.residual_bits


@dataclass(frozen=True, slots=True)
class ClosingResult:
    """What closing found."""

    candidates: tuple[Candidate, ...]
    """Shortest code first; empty if the state was declined."""
    n_examined: int
    """Fits scored by numbers."""
    n_pool: int
    """Members of the largest pool."""
    seconds: float
    """Wall time."""
    exact: bool
    """Whether the best formula fits to round-off."""
    declined: str = ""
    """Why there are no candidates, if there are none."""
    stages: tuple[tuple[str, float], ...] = ()
    """Seconds of each stage."""
    failures: tuple[str, ...] = ()
    """Families that broke off, and why."""


def _rows(n_rows: int, count: int) -> IntArray:
    """Return ``count`` rows spread at random but always the same, in order."""
    if n_rows <= count:
        return np.arange(n_rows)
    rng = np.random.default_rng(n_rows)
    return np.sort(rng.choice(n_rows, size=count, replace=False))


def _rows_without_zeros(problem: ClosingProblem, count: int) -> IntArray:
    """Return rows to look for forms on, without zeros in columns where there are few.

    Where a factor of y is 0, its logarithm and y divided by it are not defined. Such
    rows say little about the other factors, and the verdict has them all.
    """
    kept = np.flatnonzero(np.all(problem.columns != 0.0, axis=1))
    if len(kept) < (1.0 - MAX_ZERO_SHARE) * len(problem.y) or np.any(
        np.ptp(problem.columns[kept], axis=0) == 0.0
    ):
        kept = np.arange(len(problem.y))
    return kept[_rows(len(kept), count)]


def close_state(
    problem: ClosingProblem,
    tier: Tier = "full",
    time_limit: float | None = None,
    limits: Limits | None = None,
) -> ClosingResult:
    """Return formulas of the original target built from a state's columns.

    Parameters
    ----------
    problem : ClosingProblem
        The state.
    tier : {"quick", "medium", "full"}, default="full"
        "quick" tries the linear map, small sums and power laws (about 10 ms);
        "medium" all families but inner constants on a quarter of the large pool (a
        sixth of the time of "full", in which it solves six of ten states that "full"
        solves); "full" goes on to the large pool unless the quick families are exact.
    time_limit : float, optional
        Seconds after which no further family starts.
    limits : Limits, optional
        What a formula may look like; all candidates keep to it.

    Returns
    -------
    ClosingResult
        Candidates, shortest code first.
    """
    if tier not in TIERS:
        raise ValueError(
            f"tier must be one of {', '.join(map(repr, TIERS))}, got {tier!r}"
        )
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit must be a positive number, got {time_limit!r}")
    start = perf_counter()
    deadline = start + (math.inf if time_limit is None else time_limit)
    # Numbers that overflow or are undefined are data here: they are masked, counted
    # or rejected where they arise.
    with np.errstate(all="ignore"), single_thread():
        return _Closer(problem, tier, start, deadline, limits).run()


def divide_out(
    problem: ClosingProblem, pool: Pool, factors: Mapping[int, float]
) -> ClosingProblem | None:
    """Return the problem with pure factors divided out of the target.

    The columns that are pure factors leave the state, so that the others get a
    richer pool; None if none would be left or the quotient cannot be formed.
    """
    rest = [i for i in range(len(problem.expressions)) if i not in factors]
    if not rest:
        return None
    operand = power_product([(pool.columns[i], a) for i, a in factors.items()])
    reduced = replace(
        problem,
        columns=problem.columns[:, rest],
        expressions=tuple(problem.expressions[i] for i in rest),
        outer=(*problem.outer, OuterStep("div", operand)),
    )
    return reduced if reduced.resolve() is not None else None


class _Closer:
    """One run of :func:`close_state`."""

    def __init__(
        self,
        problem: ClosingProblem,
        tier: Tier,
        start: float,
        deadline: float,
        limits: Limits | None = None,
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.tier = tier
        self.start = start
        self.deadline = deadline
        self.families_deadline = start + FAMILIES_SHARE * (deadline - start)
        settings = TIERS[tier][-1]
        finite = np.all(np.isfinite(problem.columns), axis=0)
        finite &= np.ptp(problem.columns, axis=0) > 0.0 if len(finite) else finite
        places = np.flatnonzero(finite)
        self.problem = replace(
            problem,
            columns=problem.columns[:, places],
            expressions=tuple(problem.expressions[place] for place in places),
        )
        self.verdict = self.problem.take(_rows(len(problem.y), settings.n_verdict))
        self.size = root_mean_square(problem.y)
        self.floor = error_floor(problem.y)
        self.n_examined = 0
        self.n_pool = 0
        self.stages: list[tuple[str, float]] = []
        self.failures: list[str] = []
        self.candidates: list[Candidate] = []
        self.without_zeros = bool(np.any(self.problem.columns == 0.0))

    def run(self) -> ClosingResult:
        self.consider_constant()
        declined = ""
        if np.ptp(self.problem.y) == 0.0:
            declined = "y is constant"
        elif self.problem.resolve() is None:
            declined = "the outer steps cannot be undone on these data"
        elif not len(self.problem.expressions):
            declined = "no column is finite and varies"
        elif self.run_tiers() and not self.exact and self.without_zeros:
            # What was exact fails where columns are 0, and kept others from trying.
            self.without_zeros = False
            self.run_tiers()
        ranked = sorted(self.candidates, key=lambda one: one.bits)
        return ClosingResult(
            tuple(ranked),
            self.n_examined,
            self.n_pool,
            perf_counter() - self.start,
            bool(ranked) and self.fits(ranked[0]),
            "" if ranked else declined,
            tuple(self.stages),
            tuple(self.failures),
        )

    def run_tiers(self) -> bool:
        """Run the families, from cheap to dear, until one is exact.

        Return whether one was, on the screening rows.
        """
        drafts: list[Draft] = []
        for settings in TIERS[self.tier]:
            benches = self.run_families(settings)
            for bench in benches:
                drafts += bench.drafts
            if any(self.done(bench) and not bench.late for bench in benches):
                self.judge([draft for draft in drafts if self.is_exact(draft)])
                if self.exact:
                    return True
            if perf_counter() > self.families_deadline:
                break
        self.judge(drafts)
        return any(self.is_exact(draft) for draft in drafts)

    def run_families(self, settings: TierSettings) -> list[Workbench]:
        """Return the benches of a tier, of the state and of the state reduced."""
        bench = self.open_bench(settings, self.problem)
        benches = [bench]
        self.run_stages(bench, FIRST_STAGES)
        if self.done(bench) or not settings.later:
            return benches
        for factors in bench.factors:
            problem = divide_out(self.problem, bench.pool, factors)
            if problem is not None:
                reduced = self.open_bench(settings, problem)
                benches.append(reduced)
                self.run_stages(reduced, FIRST_STAGES)
                if self.done(reduced):
                    return benches
        # Reduced states have the richer pool, where their factors are right.
        best = min(benches, key=self.best_bits)
        self.run_stages(best, settings.later)
        return benches

    def is_exact(self, draft: Draft) -> bool:
        return draft.rmse <= EXACT / RELATIVE_FLOOR * self.floor

    def done(self, bench: Workbench) -> bool:
        """Whether the time is up or a draft is exact and too short to be an accident.

        A long exact draft may be a roundabout form of something shorter.
        """
        return bench.late or any(
            self.is_exact(draft) and draft.formula_bits < SHORT_BITS
            for draft in bench.drafts
        )

    def best_bits(self, bench: Workbench) -> float:
        n_rows = len(self.verdict.y)
        return min(
            (draft.bits(n_rows, self.floor) for draft in bench.drafts),
            default=math.inf,
        )

    @property
    def exact(self) -> bool:
        return any(self.fits(one) for one in self.candidates)

    def fits(self, candidate: Candidate | Snapped) -> bool:
        return candidate.rmse <= 4.0 * self.floor

    def consider_constant(self) -> None:
        """Keep the constant formula, the yardstick every other has to beat."""
        mean = mean_of(self.verdict.y)
        snapped = snap_constants(
            constant(mean), {}, self.verdict.y, len(self.problem.variables)
        )
        if snapped is not None:
            self.keep(snapped, "constant")

    def keep(self, snapped: Snapped, family: str) -> None:
        spread = root_mean_square(self.verdict.y - mean_of(self.verdict.y))
        r2 = r2_of(snapped.rmse, spread) if spread > 0.0 else 1.0
        expression = snapped.expression.rebuild(
            lambda node: (
                None if node.value is None else constant(nearest_short(node.value))
            )
        )
        self.candidates.append(
            Candidate(
                expression,
                snapped.n_constants,
                snapped.rmse,
                r2,
                snapped.formula_bits,
                snapped.residual_bits,
                family,
            )
        )

    def open_bench(self, settings: TierSettings, problem: ClosingProblem) -> Workbench:
        """Return a bench with the pool of a problem on the screening rows."""
        began = perf_counter()
        chosen = _rows(len(problem.y), settings.n_screen)
        if self.without_zeros:
            chosen = _rows_without_zeros(problem, settings.n_screen)
        screen = problem.take(chosen)
        outer = screen.resolve()
        assert outer is not None, "it could be undone on all rows"
        pool = build_pool(
            np.ascontiguousarray(screen.columns.T), screen.expressions, settings.plan
        ).within(self.limits)
        self.n_pool = max(self.n_pool, len(pool))
        bench = Workbench(
            outer=outer,
            pool=pool,
            scale=Scale(
                screen.seen,
                self.size,
                self.floor,
                len(self.verdict.y),
                screen.noise,
            ),
            settings=settings.families,
            deadline=self.families_deadline,
            known=screen.known,
            dictionary=Dictionary(pool.values, pool.bits),
            logs=PowerDictionary.of(pool),
            limits=self.limits,
        )
        self.stages.append(("pool", perf_counter() - began))
        return bench

    def run_stages(self, bench: Workbench, stages: Sequence[Stage]) -> None:
        """Run families on a bench until one is exact or the time is up."""
        for name, stage in stages:
            if self.done(bench):
                break
            began, before = perf_counter(), bench.n_examined
            try:
                stage(bench)
            except FAILURES as error:
                # One family must not cost the others their drafts.
                self.fail(name, error)
            self.n_examined += bench.n_examined - before
            self.stages.append((name, perf_counter() - began))

    def judge(self, drafts: list[Draft]) -> None:
        """Write the best drafts as formulas, fit and round their constants."""
        began = perf_counter()
        n_rows = len(self.verdict.y)
        ranked = sorted(drafts, key=lambda draft: draft.bits(n_rows, self.floor))
        settings = TIERS[self.tier][-1]
        seen: set[Expression] = set()
        n_refused = 0
        written: list[tuple[Snapped, Expression, str]] = []
        for draft in ranked:
            # What the limits refuse leaves room for others, but not without end.
            n_tried = len(seen) - n_refused + n_refused // 5
            # However late it is, the best draft is not thrown away.
            if n_tried >= settings.n_polished or (self.late and written):
                break
            for way in self.attempt(draft.family, draft.write) or []:
                tidied = tidy(way)
                shape = skeleton(tidied)
                if shape in seen:
                    continue
                seen.add(shape)
                if not self.limits.may_become(tidied):
                    n_refused += 1
                    continue
                # Families that work on transforms of y fit it to first order
                # only: what counts is the fit after polishing.
                polished = self.attempt(draft.family, partial(self.polish, way))
                if polished is not None:
                    written.append((polished, way, draft.family))
        written.sort(key=lambda one: one[0].bits)
        for polished, way, family in written[: settings.n_snapped]:
            quickly = self.late or (self.tier != "full" and not self.fits(polished))
            if quickly and self.limits.permits(polished.expression):
                # Not worth rounding: whoever wants the formula rounds it.
                self.keep(polished, family)
            else:
                self.attempt(family, partial(self.round, way, family))
        if self.tier == "full" and not self.late:
            self.attempt("pruned", self.prune)
        self.stages.append(("verdict", perf_counter() - began))

    def attempt(self, family: str, action: Callable[[], _T]) -> _T | None:
        """Return what an action gives, or None where it breaks off, which is noted."""
        try:
            return action()
        except FAILURES as error:
            self.fail(family, error)
            return None

    def fail(self, family: str, error: Exception) -> None:
        self.failures.append(f"{family}: {type(error).__name__}: {error}")

    @property
    def late(self) -> bool:
        return perf_counter() > self.deadline

    def round(self, written: Expression, family: str) -> None:
        """Fit and round the constants of a formula, and keep it if it is finite."""
        variables = len(self.problem.variables)
        known, y = self.verdict.known, self.verdict.y
        snapped = snap_constants(written, known, y, variables)
        if snapped is None:
            return
        shorter = simplify(without_idle_abs(snapped.expression, known, len(y)))
        if shorter is not snapped.expression:
            # Algebra may merge constants or move a factor: round those anew.
            again = snap_constants(shorter, known, y, variables)
            if again is not None and (
                again.bits <= snapped.bits
                or not self.limits.permits(snapped.expression)
            ):
                snapped = again
        if self.limits.permits(snapped.expression):
            self.keep(snapped, family)

    def prune(self) -> None:
        """Try the best formula with a term or factor left out, while that helps."""
        for _ in range(MAX_PRUNINGS):
            best = min(self.candidates, key=lambda one: one.bits)
            estimates: list[tuple[float, Expression]] = []
            for variant in shortened(best.expression):
                if self.late:
                    return
                polished = self.polish(variant)
                if polished is not None and polished.bits < best.bits:
                    estimates.append((polished.bits, variant))
            if not estimates:
                return
            self.round(min(estimates, key=lambda one: one[0])[1], best.family)
            if min(one.bits for one in self.candidates) >= best.bits:
                return

    def polish(self, expression: Expression) -> Snapped | None:
        """Return a formula with its constants fitted but not rounded.

        Each constant is charged what the data support; None if it is not finite.
        """
        y = self.verdict.y
        form = Form(expression, self.verdict.known, len(y))
        fit = fit_constants(form, y, max_iterations=6)
        if not fit.ok:
            return None
        support = supported_constant_bits(fit.rmse, len(y), self.size)
        fitted = tidy(form.with_values(fit.values))
        return Snapped(
            fitted,
            formula_bits(fitted, len(self.problem.variables), support),
            residual_bits(fit.rmse, len(y), self.floor),
            fit.rmse,
            sum(node.value is not None for node in fitted.prefix()),
        )
