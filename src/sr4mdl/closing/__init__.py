"""Closing: from the columns of a search state to formulas of the target."""

from sr4mdl.closing.problem import ClosingProblem, OuterStep
from sr4mdl.closing.state import Candidate, ClosingResult, close_state
from sr4mdl.closing.tiers import Tier

__all__ = [
    "Candidate",
    "ClosingProblem",
    "ClosingResult",
    "OuterStep",
    "Tier",
    "close_state",
]
