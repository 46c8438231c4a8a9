"""Logarithms of a pool: the dictionary of power laws.

Every power law holds all columns of the state, so members that differ only by a
power of the columns are kept once, and only what they add to the columns is stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.closing.drafts import (
    Factor,
)
from sr4mdl.closing.pool import GROUPS, Pool
from sr4mdl.closing.pursuit import (
    Dictionary,
)


@dataclass(slots=True)
class PowerDictionary:
    """Logs of the pool members that are never 0, then members for exponentials."""

    pool: Pool
    bases: IntArray
    """Columns of the state that are never 0: always in a power law."""
    logs: FloatArray
    """Their logarithms, shape (n_bases, n_rows)."""
    powers: IntArray
    """Members that may enter as powers."""
    exponents: IntArray
    """Members that may enter in an exponential."""
    bits: FloatArray
    """Bits of the dictionary's members."""
    dictionary: Dictionary

    @classmethod
    def of(cls, pool: Pool, n_exponents: int = 1500) -> "PowerDictionary":
        """Return the dictionary of a pool."""
        never_zero = np.all(pool.values != 0.0, axis=1)
        columns = np.flatnonzero(pool.group == GROUPS.index("column"))
        bases = columns[never_zero[columns]]
        base_logs = np.log(np.abs(pool.values[bases]))
        powers = np.flatnonzero(never_zero & (pool.group != GROUPS.index("monomial")))
        logs = np.log(np.abs(pool.values[powers]))
        kept, logs = _distinct_outside(logs, base_logs, pool.bits[powers])
        powers = powers[kept]
        exponents = pool.members("column", "monomial", "function", "ratio", "sum")
        exponents = np.concatenate([exponents, pool.members("inner", "product")])
        exponents = exponents[:n_exponents]
        bits = np.concatenate([pool.bits[powers], pool.bits[exponents] + 10.0])
        values = np.concatenate([logs, pool.values[exponents]])
        dictionary = Dictionary(values, bits)
        return cls(pool, bases, base_logs, powers, exponents, bits, dictionary)

    def factor(self, index: int) -> Factor:
        """Return a member of the pool as a factor."""
        pool = self.pool
        return Factor(
            pool.values[index],
            lambda: pool.expression(index),
            float(pool.bits[index]),
        )

    def split(self, members: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the pool members that enter as powers and in the exponential."""
        first = len(self.powers)
        powers = [int(self.powers[one]) for one in members if one < first]
        exponential = [
            int(self.exponents[one - first]) for one in members if one >= first
        ]
        return powers, exponential


def _distinct_outside(
    logs: FloatArray, base_logs: FloatArray, bits: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the rows that differ after the bases are projected out, and what is left.

    Of 1 + x, x + x^2 and 1 + 1/x only one is needed in a power law in x. The bases
    are part of every power law, so the rest of a row serves as well as the row.
    """
    basis = np.concatenate([np.ones((1, logs.shape[1])), base_logs])
    orthonormal = np.linalg.qr(basis.T)[0]
    rest = logs - (logs @ orthonormal) @ orthonormal.T
    norms = np.sqrt(np.einsum("ij,ij->i", rest, rest))
    before = np.sqrt(np.einsum("ij,ij->i", logs, logs))
    probes = np.random.default_rng(1).normal(size=(logs.shape[1], 2))
    with np.errstate(all="ignore"):
        projected = (rest @ probes) / norms[:, None]
    keys = np.rint(np.abs(projected) * 1e7)
    seen: set[tuple[float, float]] = set()
    kept: list[int] = []
    for row in np.argsort(bits, kind="stable"):
        if not norms[row] > 1e-8 * before[row]:
            continue
        key = (float(keys[row, 0]), float(keys[row, 1]))
        if key not in seen:
            seen.add(key)
            kept.append(int(row))
    chosen = np.array(kept, dtype=np.int64)
    return chosen, rest[chosen]
