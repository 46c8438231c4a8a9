"""Archive of the best formulas: short against accurate, and the choice in bits."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from sr4mdl.expressions import Expression, constant


class Scored(Protocol):
    """What the archive needs to know of a candidate."""

    @property
    def expression(self) -> Expression:
        """The formula."""

    @property
    def rmse(self) -> float:
        """Root mean square error."""

    @property
    def bits(self) -> float:
        """Total code length."""


def skeleton(expression: Expression) -> Expression:
    """Return the formula with every constant replaced by one and the same."""
    placeholder = constant(1.0)
    return expression.rebuild(
        lambda node: placeholder if node.value is not None else None
    )


T = TypeVar("T", bound=Scored)


@dataclass(frozen=True, slots=True)
class Choice(Generic[T]):
    """The chosen formula and what it was chosen over."""

    best: T
    """The candidate with the shortest code."""
    runner_up: T | None
    """The next best formula of another shape, if there is one."""
    gap_bits: float | None
    """How many bits longer the runner-up's code is."""


class ParetoArchive(Generic[T]):
    """Formulas of which none is both shorter and more accurate than another.

    Beside the front, the shortest codes of different shapes are kept, so that a
    runner-up can be named. Equal formulas are kept once; ties keep the first.

    Parameters
    ----------
    max_size : int, default=100
        Most formulas kept on the front and, separately, by code length.
    """

    def __init__(self, max_size: int = 100) -> None:
        if max_size < 2:
            raise ValueError(f"max_size must be 2 or more, got {max_size!r}")
        self.max_size = max_size
        self._by_length: dict[int, T] = {}
        self._by_shape: dict[Expression, T] = {}

    def add(self, candidate: T) -> bool:
        """Add a candidate; return whether it has the shortest code so far."""
        if not math.isfinite(candidate.rmse):
            return False
        length = candidate.expression.length
        rival = self._by_length.get(length)
        if rival is None or candidate.rmse < rival.rmse:
            self._by_length[length] = candidate
            self._prune()
        best = self.best
        shape = skeleton(candidate.expression)
        rival = self._by_shape.get(shape)
        if rival is None or candidate.bits < rival.bits:
            self._by_shape[shape] = candidate
            if len(self._by_shape) > self.max_size:
                worst = max(self._by_shape, key=lambda key: self._by_shape[key].bits)
                del self._by_shape[worst]
        return best is None or candidate.bits < best.bits

    def _prune(self) -> None:
        """Drop what a shorter formula fits as well, and the longest beyond the size."""
        least = math.inf
        for length in sorted(self._by_length):
            error = self._by_length[length].rmse
            if error >= least:
                del self._by_length[length]
            least = min(least, error)
        for length in sorted(self._by_length)[self.max_size :]:
            del self._by_length[length]

    @property
    def best(self) -> T | None:
        """The candidate with the shortest code, if there is any."""
        return min(self._by_shape.values(), key=lambda one: one.bits, default=None)

    def front(self) -> list[T]:
        """Return the front, shortest formula first."""
        return [self._by_length[length] for length in sorted(self._by_length)]

    def ranking(self) -> list[T]:
        """Return the kept formulas of different shapes, shortest code first."""
        return sorted(self._by_shape.values(), key=lambda one: one.bits)

    def choose(self) -> Choice[T]:
        """Return the best formula, the runner-up and the gap in bits.

        Raises
        ------
        ValueError
            If the archive is empty.
        """
        ranked = self.ranking()
        if not ranked:
            raise ValueError("the archive is empty: add a candidate first")
        if len(ranked) == 1:
            return Choice(ranked[0], None, None)
        return Choice(ranked[0], ranked[1], ranked[1].bits - ranked[0].bits)

    def __len__(self) -> int:
        return len(self._by_length)

    def __iter__(self) -> Iterator[T]:
        return iter(self.front())
