"""What the families of closing share: target, pool, dictionaries and drafts."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing.drafts import (
    EXACT,
    Draft,
    Scale,
)
from sr4mdl.closing.pool import Pool
from sr4mdl.closing.power_dictionary import PowerDictionary
from sr4mdl.closing.problem import OuterStep, ResolvedOuter
from sr4mdl.closing.pursuit import (
    Dictionary,
    Found,
    PursuitSettings,
    Regression,
)
from sr4mdl.expressions import Expression
from sr4mdl.selection.bits import residual_bits, supported_constant_bits
from sr4mdl.selection.limits import Limits
from sr4mdl.selection.tidying import tidy


@dataclass(frozen=True, slots=True)
class FamilySettings:
    """How much work the families do."""

    pursuit: PursuitSettings
    """Sums."""
    n_pair_members: int
    """Members of which all pairs are tried in sums and power laws; 0 for none."""
    n_triple_firsts: int
    """Members that are tried there beside each of these pairs; 0 for none."""
    n_scales: int
    """Monomials by which y is divided for scaled functions; 0 for none."""
    n_denominators: int
    """Denominators of quotients; 0 for none."""
    n_power_terms: int
    """Pool members in a power law."""
    n_peels: int
    """Cheap members added to or taken from y before a power law is tried."""
    n_drafts: int
    """Fits of each family that become drafts."""


@dataclass(slots=True, kw_only=True)
class Workbench:
    """What the families share: the state's target, the pool, and their drafts."""

    outer: ResolvedOuter
    """The state's target on the screening rows."""
    pool: Pool
    scale: Scale
    settings: FamilySettings
    deadline: float
    known: Mapping[Expression, FloatArray]
    """Values of variables and columns on the screening rows."""
    dictionary: Dictionary
    """The pool as a dictionary of sums."""
    logs: PowerDictionary
    """The pool as a dictionary of power laws."""
    drafts: list[Draft] = field(default_factory=list)
    n_examined: int = 0
    factors: list[dict[int, float]] = field(default_factory=list)
    """Sets of columns that seem to enter y as pure powers, with their exponents."""
    limits: Limits = field(default_factory=Limits)
    """What a formula may look like."""

    def add(self, draft: Draft | None) -> None:
        """Keep a draft, if there is one and it can become a formula allowed."""
        if draft is None:
            return
        if not self.limits.any or any(
            self.limits.may_become(tidy(written)) for written in draft.write()
        ):
            self.drafts.append(draft)

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return perf_counter() > self.deadline

    @property
    def exact(self) -> bool:
        """Whether a draft fits to round-off."""
        limit = EXACT * self.scale.size
        return any(draft.rmse <= limit for draft in self.drafts)


def transformed(outer: ResolvedOuter, names: Sequence[str]) -> list[ResolvedOuter]:
    """Return the chain itself and with each transform that can be undone."""
    chains = [outer]
    for name in names:
        chain = outer.then(OuterStep(name))
        if chain is not None:
            chains.append(chain)
    return chains


def intercept_regression(
    outer: ResolvedOuter, size: float, *more: FloatArray
) -> Regression:
    """Return the regression of a chain's target on 1 and some further columns."""
    forced = np.array([np.ones_like(outer.values), *more])
    return Regression(outer.values, outer.slope / size, forced)


def shortlist(
    bench: Workbench, found: Sequence[Found], member_bits: FloatArray
) -> list[Found]:
    """Return the fits whose code would be shortest, by the error of the pursuit.

    ``member_bits`` are the bits of the dictionary's members.
    """
    scale = bench.scale
    n_screen = len(scale.y)

    def bits(one: Found) -> float:
        rmse = math.hypot(scale.size * math.sqrt(one.error / n_screen), scale.noise)
        support = supported_constant_bits(rmse, scale.n_rows, scale.size)
        symbols = sum(float(member_bits[m]) for m in one.members)
        constants = (support + 6.0) * len(one.members)
        return symbols + constants + residual_bits(rmse, scale.n_rows, scale.floor)

    best = heapq.nsmallest(bench.settings.n_drafts, found, key=bits)
    return best + [
        one for one in found[: bench.settings.n_drafts // 2] if one not in best
    ]
