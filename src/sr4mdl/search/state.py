"""Search states: columns of numbers with their formulas, and a target.

Equal columns are one column and equal states one node: columns are compared by a
fingerprint of their values, rounded so that round-off does not tell them apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.closing.problem import OuterStep, ResolvedOuter, identity_outer
from sr4mdl.expressions import Expression

LARGEST: Final = 1e150
"""Values beyond it would overflow when squared; such columns are refused."""
_DROPPED_BITS: Final = 20
"""Bits of a mantissa that round-off may differ in; 32 of 52 are compared."""
_NEGLIGIBLE: Final = 1e-13
"""Share of a column's size below which a value is a cancelled zero."""

StateKey = tuple[frozenset[bytes], bytes]


def fingerprint(values: FloatArray) -> bytes:
    """Return 16 bytes that are equal for columns equal up to round-off."""
    size = np.max(np.abs(values))
    kept = np.where(np.abs(values) <= _NEGLIGIBLE * size, 0.0, values)
    rounded = (kept.view(np.int64) + (1 << (_DROPPED_BITS - 1))) >> _DROPPED_BITS
    return blake2b(rounded.tobytes(), digest_size=16).digest()


def usable(values: FloatArray) -> str:
    """Return why values cannot be a column or target, or an empty text."""
    size = np.max(np.abs(values))
    if not size <= LARGEST:
        return "not finite"
    spread = np.max(values) - np.min(values)
    # Round-off of a constant is no information.
    if spread <= _NEGLIGIBLE * size:
        return "constant"
    return ""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Column:
    """A subformula and its values."""

    expression: Expression
    values: FloatArray
    """On the search rows, shape (n_search_rows,)."""
    key: bytes
    """Fingerprint of the values."""


class ColumnTable:
    """All columns in use, each once, under the shortest formula seen.

    A column that no state holds any more is forgotten, so that playouts cost no
    memory.
    """

    def __init__(self) -> None:
        self._columns: WeakValueDictionary[bytes, Column] = WeakValueDictionary()

    def intern(self, expression: Expression, values: FloatArray) -> Column:
        """Return the column of these values."""
        key = fingerprint(values)
        known = self._columns.get(key)
        if known is not None and known.expression.length <= expression.length:
            return known
        shared = values if known is None else known.values
        column = Column(expression, shared, key)
        self._columns[key] = column
        return column

    def __len__(self) -> int:
        return len(self._columns)


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The data's y, or what is left of it after outer steps were peeled off."""

    outer: ResolvedOuter
    key: bytes

    @classmethod
    def of(cls, outer: ResolvedOuter) -> "Target":
        """Return the target of a chain of steps."""
        return cls(outer, fingerprint(outer.values))

    @classmethod
    def original(cls, y: FloatArray) -> "Target":
        """Return the data's own target."""
        return cls.of(identity_outer(y))

    @property
    def values(self) -> FloatArray:
        """On the search rows."""
        return self.outer.values

    @property
    def steps(self) -> tuple[OuterStep, ...]:
        """Steps from y to this target, first applied first."""
        return tuple(resolved.step for resolved in self.outer.steps)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Up to ten different columns and a target."""

    columns: tuple[Column, ...]
    target: Target
    key: StateKey

    @classmethod
    def of(cls, columns: tuple[Column, ...], target: Target) -> "State":
        """Return the state; columns must differ."""
        return cls(
            columns, target, (frozenset(column.key for column in columns), target.key)
        )

    def __str__(self) -> str:
        columns = ", ".join(str(column.expression) for column in self.columns)
        steps = "".join(
            f"{step.operator}" + (f"[{step.operand}]" if step.operand else "") + "."
            for step in reversed(self.target.steps)
        )
        return f"{{{columns}}} -> {steps}y"


def pack_states(
    states: Sequence[State], rows: IntArray
) -> tuple[FloatArray, list[int], FloatArray]:
    """Return columns (n, rows, C), their numbers and targets (n, rows) for a guide.

    Parameters
    ----------
    states : sequence of State
        States over the same rows.
    rows : ndarray of int
        Places of the rows to show.
    """
    counts = [len(state.columns) for state in states]
    columns = np.zeros((len(states), len(rows), max(counts)))
    for place, state in enumerate(states):
        for number, column in enumerate(state.columns):
            columns[place, :, number] = column.values[rows]
    return columns, counts, np.stack([one.target.values[rows] for one in states])
