"""The search: states, tree, budget, readout, and the choice in bits.

Everything a caller needs is :func:`search` with a :class:`SearchConfig`; the network
comes in as a guide, and without one the package's own is loaded.
"""

from sr4mdl.search.api import SearchResult, search
from sr4mdl.search.budget import Statistics, StopReason
from sr4mdl.search.config import Mode, SearchConfig
from sr4mdl.search.events import Listener, ProgressEvent
from sr4mdl.search.judge import Solution
from sr4mdl.search.memory import SearchMemory

__all__ = [
    "Listener",
    "Mode",
    "ProgressEvent",
    "SearchConfig",
    "SearchMemory",
    "SearchResult",
    "Solution",
    "Statistics",
    "StopReason",
    "search",
]
