"""Values that the user knows: what it costs to name one of them in a formula.

A number that is a known value, its square, root or inverse, or a small rational (or
multiple of pi) of one of these, is written by naming that value. Such numbers are
offered when constants are rounded, and the code of a formula that contains them is
shorter by what the name saves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.expressions import Expression
from sr4mdl.selection.bits import constant_bits, rational_multiples

NAME_BITS: Final = 8.0
"""Bits of saying that a known value follows; which one costs log2 of their number."""
_POWERS: Final = (
    (1.0, 1.0), (-1.0, 2.0), (2.0, 3.0), (0.5, 4.0), (-2.0, 5.0), (-0.5, 5.0),
)  # fmt: skip
"""Powers of known values, with their bits."""
_LARGEST_RATIO: Final = 1e3
"""Numbers further from a known value than this factor are not multiples of it."""
_SAME: Final = 4e-15


@dataclass(frozen=True, slots=True)
class KnownValues:
    """Numbers that may be named.

    Parameters
    ----------
    values : sequence of float
        The known values; 0 and what is not finite are ignored.
    """

    values: Sequence[float] = ()

    def near(self, size: float) -> tuple[FloatArray, FloatArray]:
        """Return named numbers around a positive size, and their bits without sign."""
        numbers: list[FloatArray] = []
        bits: list[FloatArray] = []
        for value in self.values:
            for power, power_bits in _POWERS:
                factor = _power(abs(value), power)
                if not factor or not (
                    factor / _LARGEST_RATIO <= size <= factor * _LARGEST_RATIO
                ):
                    continue
                name_bits = NAME_BITS + math.log2(len(self.values)) + power_bits
                multiples, multiple_bits = rational_multiples(size / factor)
                numbers += [np.array([factor]), multiples * factor]
                bits += [np.array([name_bits]), multiple_bits + name_bits]
        if not numbers:
            return np.empty(0), np.empty(0)
        return np.concatenate(numbers), np.concatenate(bits)

    def bits(self, value: float) -> float:
        """Return the bits of a constant, named or written out."""
        written = constant_bits(value)
        if not self.values or value == 0.0:
            return written
        numbers, bits = self.near(abs(value))
        same = np.abs(numbers - abs(value)) <= _SAME * abs(value)
        if not np.any(same):
            return written
        return min(written, float(np.min(bits[same])) + (value < 0.0))

    def saving(self, expression: Expression) -> float:
        """Return the bits by which names shorten the code of a formula."""
        if not self.values:
            return 0.0
        return sum(
            constant_bits(node.value) - self.bits(node.value)
            for node in expression.prefix()
            if node.value is not None
        )


def _power(size: float, power: float) -> float:
    """Return a power, 0 where it is not a usable number."""
    try:
        result = math.pow(size, power)
    except (OverflowError, ValueError):
        return 0.0
    return result if math.isfinite(result) else 0.0
