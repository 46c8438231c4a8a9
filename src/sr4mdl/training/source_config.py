"""How training states are drawn: the settings that workers and device share."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from sr4mdl.corpus.formulas import (
    DEFAULT_CONSTANTS,
    MAX_LENGTH,
    PAPER_CONSTANTS,
    Distribution,
    PaperConstants,
)
from sr4mdl.corpus.states import PAIR_RATES, StateRates
from sr4mdl.training.batch import Phase

_MAX_TOKENS_WITH_DIGITS: Final = 80
"""None among 6,000 of the paper's formulas has more."""
_MAX_TOKENS: Final = -(-MAX_LENGTH // 8) * 8


FEWEST_ROWS: Final = 16
"""States that keep fewer rows are refused, unless told otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceConfig:
    """How training states are drawn."""

    distribution: Distribution = "default"
    """Which formulas; ``paper`` also means whole formulas only, on mixtures."""
    paper_share: float = 0.0
    """Share of states of the paper's distribution among those of the default one, so
    that a network that searches also knows how long whole formulas are."""
    formula_constants: PaperConstants = DEFAULT_CONSTANTS
    """How large the constants of the paper's formulas are: uniform up to 100, as its
    text says, or three decades alike, as in the generator that it takes."""
    batch_size: int = 8192
    """States per batch."""
    batches_per_draw: int = 1
    """Batches that are computed at once: small ones are held up by launches."""
    n_rows: int = 48
    """Rows a state has at most."""
    n_candidates: int = 80
    """Rows drawn, of which those inside the domain are kept."""
    min_rows: int = FEWEST_ROWS
    """States that keep fewer rows are refused."""
    small_until: float = 0.0
    """Share of the plan over which formulas of the paper's distribution grow from
    small ones to what they are; from 0 on they have their full size at once."""
    late_rows: int = 0
    """Rows a state has at most once ``late_from`` of the plan is over; 0 means that
    they stay as they are. Few rows teach more states in the same time, but what only
    many rows show must be seen too."""
    late_from: float = 0.8
    """Share of the plan after which ``late_rows`` hold."""
    fewer_rows_rate: float = 0.3
    """Share of states cut to a random number of rows."""
    noise_rate: float = 0.3
    """Share of states with noise on the target."""
    bank_capacity: int = 20_000
    """Skeletons a worker keeps."""
    first_fill: int = 500
    """Skeletons a worker makes before its first batch."""
    fresh_per_draw: int = 150
    """Skeletons a worker renews for each draw at least."""
    n_workers: int = 1
    """Worker processes."""
    latent_rate: float = 0.15
    """Share of states whose variables are random functions of hidden ones."""
    with_formula: bool = False
    """Whether batches carry the formula's tokens, for alignment."""
    constants: Literal["digits", "sign"] = "digits"
    """How these tokens tell constants: in three tokens, or by their sign alone."""
    seed: int = 0
    """Seed of everything; each worker derives its own."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_rows <= self.n_rows <= self.n_candidates:
            raise ValueError(
                "rows must satisfy 1 <= min_rows <= n_rows <= n_candidates, got "
                f"{self.min_rows}, {self.n_rows}, {self.n_candidates}"
            )
        if self.late_rows and self.late_rows < self.min_rows:
            raise ValueError(
                f"late_rows must be 0 or at least min_rows = {self.min_rows}, "
                f"got {self.late_rows}"
            )
        for name in ("late_from", "small_until"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        for name in (
            "batch_size", "batches_per_draw", "bank_capacity", "first_fill",
            "n_workers",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}"
                )
        if not 0.0 <= self.paper_share < 1.0:
            raise ValueError(f"paper_share must be in [0, 1), got {self.paper_share}")
        if self.paper_share > 0 and self.distribution == "paper":
            raise ValueError(
                "paper_share must be 0 if the distribution is paper, "
                f"got {self.paper_share}"
            )
        if self.formula_constants not in PAPER_CONSTANTS:
            raise ValueError(
                f"formula_constants must be {' or '.join(PAPER_CONSTANTS)}, "
                f"got {self.formula_constants!r}"
            )
        if self.constants not in ("digits", "sign"):
            raise ValueError(
                f"constants must be digits or sign, got {self.constants!r}"
            )

    @property
    def all_rows(self) -> bool:
        """Whether states have all rows or are refused."""
        return self.min_rows == self.n_rows and self.fewer_rows_rate == 0.0

    def at(self, position: float) -> "SourceConfig":
        """Return the settings for this position of the plan."""
        if not self.late_rows or position < self.late_from:
            return self
        share = self.n_candidates / self.n_rows
        candidates = max(self.late_rows, round(share * self.late_rows))
        return replace(
            self, n_rows=self.late_rows, n_candidates=candidates, late_rows=0
        )

    def growth(self, position: float) -> float:
        """Return the size of new formulas, of their full size, at this position."""
        if position >= self.small_until:
            return 1.0
        return position / self.small_until

    @property
    def draw_size(self) -> int:
        """States that are drawn and computed at once."""
        return self.batch_size * self.batches_per_draw

    def parts(self) -> "list[tuple[SourceConfig, int]]":
        """Return a config of one distribution and its states in a draw, for each."""
        n_pairs = round(self.paper_share * self.draw_size)
        alone = replace(self, paper_share=0.0)
        parts = [(alone, self.draw_size - n_pairs)]
        if n_pairs:
            parts.append((replace(alone, distribution="paper"), n_pairs))
        return parts

    @property
    def n_tokens(self) -> int:
        """Tokens a formula has at most; longer ones are drawn again."""
        return _MAX_TOKENS_WITH_DIGITS if self.constants == "digits" else _MAX_TOKENS

    def rates(self, phase: Phase) -> StateRates:
        """Return the rates for the state sampler in a phase of training.

        Alignment is on plain tables, and its formulas are told to the network with
        their constants and order of variables; prediction may vary both, which makes
        many pairs of one formula.
        """
        if self.distribution != "paper":
            return StateRates(latent=self.latent_rate)
        if phase == "align":
            return PAIR_RATES
        if phase == "both":
            return PAIR_RATES._replace(latent=self.latent_rate)
        # Constants drawn anew are of the decades.
        redraw = 0.5 if self.formula_constants == "decades" else 0.0
        return PAIR_RATES._replace(latent=self.latent_rate, redraw=redraw, shuffle=True)
