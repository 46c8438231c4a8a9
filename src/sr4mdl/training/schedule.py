"""Learning rate and phase as functions of how far a run has come.

A run's position goes from 0 to 1 over its whole plan, by samples or by wall time,
whichever is further; a plan may span several resumed calls.
"""

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from sr4mdl.training.batch import Phase
from sr4mdl.training.losses import Strategy

Decay = Literal["cosine", "linear", "noam", "constant"]
DECAYS: Final = ("cosine", "linear", "noam", "constant")

_DURATION: Final = re.compile(
    r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?\Z"
)


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as ``90``, ``45s``, ``9m``, ``1h30m``.

    Raises
    ------
    ValueError
        If the text is not a positive duration.
    """
    match = _DURATION.match(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"duration must look like 90, 45s, 9m or 1h30m, got {text!r}")
    hours, minutes, seconds = (float(part) if part else 0.0 for part in match.groups())
    total = 3600.0 * hours + 60.0 * minutes + seconds
    if total <= 0:
        raise ValueError(f"duration must be positive, got {text!r}")
    return total


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleConfig:
    """How the learning rate moves."""

    learning_rate: float = 1e-3
    """Highest learning rate."""
    warmup_samples: int = 200_000
    """Samples over which it rises from 0, in each phase."""
    decay: Decay = "cosine"
    """How it falls towards the end; ``noam`` falls with the root of samples."""
    final_share: float = 0.0
    """Share of the highest rate that is left at the end (cosine, linear)."""
    total_samples: int | None = None
    """Planned samples of the whole run, over all calls."""
    total_time: float | None = None
    """Planned seconds of the whole run, over all calls."""
    strategy: Strategy = "predict-only"
    """``sequential``: align, then predict; ``concurrent``: both; ``predict-only``."""
    align_share: float | None = None
    """Share of the plan spent on alignment; then prediction alone follows. None is 0.75
    for ``sequential``, and all of it for ``concurrent``."""
    predict_learning_rate: float | None = None
    """Highest rate of the prediction that follows alignment (sequential only), None
    for the same one. A high rate undoes what alignment has taught."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "predict_learning_rate"):
            rate = getattr(self, name)
            if rate is not None and rate <= 0:
                raise ValueError(f"{name} must be positive, got {rate}")
        if self.predict_learning_rate is not None and self.strategy != "sequential":
            raise ValueError(
                "predict_learning_rate must be None unless strategy is sequential, "
                f"got {self.predict_learning_rate} for {self.strategy}"
            )
        if self.warmup_samples < 0:
            raise ValueError(
                f"warmup_samples must not be negative, got {self.warmup_samples}"
            )
        if self.decay not in DECAYS:
            raise ValueError(
                f"decay must be one of {', '.join(DECAYS)}, got {self.decay!r}"
            )
        if not 0.0 <= self.final_share <= 1.0:
            raise ValueError(f"final_share must be in [0, 1], got {self.final_share}")
        if self.total_samples is None and self.total_time is None:
            raise ValueError("total_samples or total_time must be given")
        for name in ("total_samples", "total_time"):
            planned = getattr(self, name)
            if planned is not None and planned <= 0:
                raise ValueError(f"{name} must be positive, got {planned}")
        if self.strategy not in ("sequential", "concurrent", "predict-only"):
            raise ValueError(
                "strategy must be sequential, concurrent or predict-only, "
                f"got {self.strategy!r}"
            )
        if self.align_share is not None and not 0.0 < self.align_share < 1.0:
            raise ValueError(f"align_share must be in (0, 1), got {self.align_share}")

    def position(self, samples: int, elapsed: float) -> float:
        """Return how far the plan has come, from 0 to 1."""
        shares = [0.0]
        if self.total_samples is not None:
            shares.append(samples / self.total_samples)
        if self.total_time is not None:
            shares.append(elapsed / self.total_time)
        return min(max(shares), 1.0)

    def phase(self, position: float) -> Phase:
        """Return which objectives count at this position."""
        if self.strategy == "predict-only" or position >= self._align_until():
            return "predict"
        return "both" if self.strategy == "concurrent" else "align"

    def _align_until(self) -> float:
        """Return the position at which alignment ends; above 1 if it never does."""
        if self.align_share is not None:
            return self.align_share
        return 0.75 if self.strategy == "sequential" else math.inf

    def rate(self, position: float, samples_in_phase: int) -> float:
        """Return the learning rate.

        Parameters
        ----------
        position : float
            Of the whole plan, 0 to 1.
        samples_in_phase : int
            Samples seen since the phase (or the run) began.
        """
        highest = self._highest_rate(self.phase(position))
        warm = 1.0
        if self.warmup_samples:
            warm = min(1.0, (samples_in_phase + 1) / self.warmup_samples)
        if self.decay == "noam":
            later = max(samples_in_phase, self.warmup_samples, 1)
            return highest * warm * math.sqrt(max(self.warmup_samples, 1) / later)
        share = self._position_in_phase(position)
        if self.decay == "constant":
            left = 1.0
        elif self.decay == "cosine":
            left = 0.5 * (1.0 + math.cos(math.pi * share))
        else:
            left = 1.0 - share
        left = self.final_share + (1.0 - self.final_share) * left
        return highest * warm * left

    def _highest_rate(self, phase: Phase) -> float:
        if phase == "predict" and self.predict_learning_rate is not None:
            return self.predict_learning_rate
        return self.learning_rate

    def _position_in_phase(self, position: float) -> float:
        if self.strategy != "sequential":
            # What is left of two objectives is no new beginning.
            return position
        until = self._align_until()
        if position < until:
            return position / until
        return (position - until) / (1.0 - until)
