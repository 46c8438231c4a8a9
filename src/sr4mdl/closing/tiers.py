"""How much each tier of closing does: quick, medium and full."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from sr4mdl.closing.families import (
    close_linear,
    close_quotients,
    close_scaled,
    close_sums,
)
from sr4mdl.closing.inner import close_inner
from sr4mdl.closing.polynomials import close_polynomials
from sr4mdl.closing.pool import FULL_PLAN, MEDIUM_PLAN, QUICK_PLAN, PoolPlan
from sr4mdl.closing.power_laws import close_peeled_power_laws, close_power_laws
from sr4mdl.closing.pursuit import PursuitSettings
from sr4mdl.closing.workbench import FamilySettings, Workbench

Tier = Literal["quick", "medium", "full"]

Stage = tuple[str, Callable[[Workbench], None]]
FIRST_STAGES: Final[tuple[Stage, ...]] = (
    ("linear", close_linear),
    ("power law", close_power_laws),
    ("polynomials", close_polynomials),
    ("sums", close_sums),
)
_LATER_STAGES: Final[tuple[Stage, ...]] = (
    ("peeled", close_peeled_power_laws),
    ("scaled", close_scaled),
    ("quotients", close_quotients),
    ("inner", close_inner),
)


@dataclass(frozen=True, slots=True)
class TierSettings:
    """The work of one round of closing."""

    families: FamilySettings
    """How wide the families look."""
    plan: PoolPlan
    """The pool they look in."""
    later: tuple[Stage, ...]
    """What follows the first stages, on the state or on what is left of it without
    its pure factors."""
    n_screen: int
    """Rows on which families work."""
    n_verdict: int
    """Rows on which formulas are fitted and compared."""
    n_polished: int
    """Drafts that are written and fitted."""
    n_snapped: int
    """Formulas whose constants are rounded."""


_QUICK: Final = TierSettings(
    FamilySettings(
        pursuit=PursuitSettings(max_terms=3, beam=24, per_regression=6, branch=4),
        n_pair_members=0,
        n_triple_firsts=0,
        n_scales=0,
        n_denominators=0,
        n_power_terms=1,
        n_peels=0,
        n_drafts=6,
    ),
    plan=QUICK_PLAN,
    later=(),
    n_screen=100,
    n_verdict=300,
    n_polished=3,
    n_snapped=2,
)
_MEDIUM: Final = TierSettings(
    FamilySettings(
        pursuit=PursuitSettings(max_terms=4, beam=60, per_regression=15, branch=6),
        n_pair_members=0,
        n_triple_firsts=0,
        n_scales=40,
        n_denominators=30,
        n_power_terms=2,
        n_peels=8,
        n_drafts=8,
    ),
    plan=MEDIUM_PLAN,
    later=_LATER_STAGES[:3],
    n_screen=100,
    n_verdict=300,
    n_polished=4,
    n_snapped=2,
)
_FULL: Final = TierSettings(
    FamilySettings(
        pursuit=PursuitSettings(
            max_terms=4, beam=100, per_regression=30, branch=8, max_tail=12
        ),
        n_pair_members=500,
        n_triple_firsts=16,
        n_scales=120,
        n_denominators=60,
        n_power_terms=3,
        n_peels=24,
        n_drafts=40,
    ),
    plan=FULL_PLAN,
    later=_LATER_STAGES,
    n_screen=160,
    n_verdict=2000,
    n_polished=16,
    n_snapped=6,
)
TIERS: Final[dict[Tier, tuple[TierSettings, ...]]] = {
    "quick": (_QUICK,),
    "medium": (_MEDIUM,),
    "full": (_QUICK, _FULL),
}
"""The rounds of each tier, one after the other; the last one judges the drafts."""
