"""Settings of a search: what to run, how long, and the few numbers that steer it."""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, Self, get_args

import numpy as np

from sr4mdl.operators import get_operator
from sr4mdl.selection.limits import (
    Limits,
    Nesting,
    allowed_operators,
    check_nesting,
)

Mode = Literal["policy", "mdl", "error", "uniform", "gp"]
GUIDED_MODES: Final[tuple[Mode, ...]] = ("policy", "mdl")
"""Modes that a network guides."""
Backup = Literal["mean", "max"]
Families = Literal["all", "linear"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig:
    """What a search does and when it stops.

    All fields are keywords. The first group is what people set; the rest has measured
    defaults.
    """

    mode: Mode = "policy"
    """``policy`` (moves ranked by the network), ``mdl`` (the paper's search),
    ``error`` (plain tree search), ``uniform`` (no guidance), ``gp`` (genetic
    programming)."""
    max_time: float | None = 60.0
    """Wall time in seconds, more than 0; None for no limit."""
    max_nodes: int = 100_000
    """Most search states, at least 1; in ``gp`` most individuals."""
    max_evaluations: int | None = None
    """Most readouts (states closed), at least 1; None for no limit."""
    random_state: int = 0
    """Seed, 0 or more."""
    operators: Sequence[str] | None = None
    """Names of the operators a formula may contain; None for all."""
    nesting: Nesting | None = None
    """For an outer operator, how deep each inner one may nest below it; operators
    that it does not name nest as they like."""
    max_length: int | None = None
    """Most symbols of a formula and of a column, at least 1; None for any number."""
    early_stop: bool = True
    """Whether to stop before the budget when the code cannot get shorter."""
    physical_constants: Sequence[float] = ()
    """Values that constants of the answer may be rounded to, beside short numbers:
    these, their inverses, squares and roots, and small rationals of them."""

    families: Families = "all"
    """What closing tries: all families, or the paper's linear map alone."""
    max_search_rows: int = 300
    """Rows on which columns are computed, at least 2."""
    max_judge_rows: int = 2000
    """Rows on which formulas are compared, at least ``max_search_rows``."""
    max_column_length: int = 25
    """Most symbols of a column, at least 2."""
    max_outer_steps: int = 4
    """Most steps peeled off the target, 0 or more."""
    max_expanded: int = 20_000
    """Most states whose ranked moves are kept in memory, at least 2."""
    n_screened: int = 8
    """Variables a tree starts from when there are more than ten, 1 to 10."""

    c_puct: float = 1.41
    """Weight of exploration, more than 0 (the paper's value)."""
    batch_size: int = 16
    """States the guide scores in one call, at least 1."""
    uniform_share: float = 0.05
    """Share of the prior spread evenly over all moves, from 0 to 1."""
    backup: Backup = "mean"
    """What a state's worth is: the mean or the best of what lies below it."""
    value_scale: float = 10.0
    """Missing symbols over which the worth of a state falls to 1/e, more than 0."""
    closing_weight: float = 0.3
    """Weight of the closing's gain beside the value head's, from 0 to 1."""
    n_quick: int = 4
    """States closed quickly after each batch, 0 or more."""
    n_medium: int = 1
    """States closed with a medium pool after each batch, 0 or more."""
    full_interval: int = 16
    """Batches between two full closings, at least 1; ``mdl`` and ``error`` count half
    of it times ``n_quick`` walks, ``gp`` twice as many closings."""
    patience: int = 400
    """Readouts without gain after which noise-level residuals end the search."""
    exact_patience: int = 24
    """Readouts without gain, 0 or more, that look for a shorter form of an exact
    formula of more than 10 symbols; divided by the number of variables."""
    n_playouts: int = 10
    """Random playouts per new state in ``mdl`` and ``error``, at least 1."""
    playout_depth: int = 5
    """Random moves per playout, 0 or more."""
    population_size: int = 300
    """Individuals of ``gp``, at least 4."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, np.generic):
                object.__setattr__(self, entry.name, value.item())
        constants = tuple(
            value.item() if isinstance(value, np.generic) else value
            for value in self.physical_constants
        )
        object.__setattr__(self, "physical_constants", constants)
        _check_choice("mode", self.mode, get_args(Mode))
        _check_choice("backup", self.backup, get_args(Backup))
        _check_choice("families", self.families, get_args(Families))
        if self.max_time is not None:
            _check_number("max_time", self.max_time, above=0.0)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if name in ("max_evaluations", "max_length") and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"{name} must be a whole number of {least} or more, got {value!r}"
                )
        for name in ("c_puct", "value_scale"):
            _check_number(name, getattr(self, name), above=0.0)
        for name in ("uniform_share", "closing_weight"):
            _check_number(name, getattr(self, name), above=-1e-300, most=1.0)
        if self.n_screened > 10:
            raise ValueError(f"n_screened must be at most 10, got {self.n_screened}")
        if self.max_judge_rows < self.max_search_rows:
            raise ValueError(
                f"max_judge_rows must be at least max_search_rows "
                f"({self.max_search_rows}), got {self.max_judge_rows}"
            )
        for value in self.physical_constants:
            _check_number("physical_constants", value)
        if self.operators is not None:
            if isinstance(self.operators, str):
                raise TypeError(
                    "operators must be a sequence of names, got the text "
                    f"{self.operators!r}"
                )
            names = tuple(get_operator(name).name for name in self.operators)
            object.__setattr__(self, "operators", names)
        if self.nesting is not None:
            object.__setattr__(self, "nesting", check_nesting(self.nesting))

    @property
    def limits(self) -> Limits:
        """What a formula may look like under these settings."""
        return Limits(
            allowed_operators(self.operators), self.nesting or {}, self.max_length
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dict of plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the settings of a dict; unknown keys are an error.

        Raises
        ------
        ValueError
            For a key that is no setting, with the nearest one that is.
        """
        known = [field.name for field in fields(cls)]
        for key in data:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"unknown setting {key!r}{hint}")
        values = dict(data)
        for key in ("operators", "physical_constants"):
            if values.get(key) is not None:
                values[key] = tuple(values[key])
        return cls(**values)


_LEAST = {
    "max_nodes": 1,
    "max_evaluations": 1,
    "max_length": 1,
    "random_state": 0,
    "max_search_rows": 2,
    "max_judge_rows": 2,
    "max_column_length": 2,
    "max_outer_steps": 0,
    "max_expanded": 2,
    "n_screened": 1,
    "batch_size": 1,
    "n_quick": 0,
    "n_medium": 0,
    "full_interval": 1,
    "patience": 1,
    "exact_patience": 0,
    "n_playouts": 1,
    "playout_depth": 0,
    "population_size": 4,
}


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def _check_number(
    name: str, value: object, above: float = -math.inf, most: float = math.inf
) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not (math.isfinite(value) and above < value <= most):
        low = "" if above == -math.inf else f" above {max(above, 0.0):g}"
        high = "" if most == math.inf else f" and at most {most:g}"
        raise ValueError(f"{name} must be a finite number{low}{high}, got {value!r}")
