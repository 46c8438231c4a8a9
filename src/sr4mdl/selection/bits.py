"""Description length in bits: the one yardstick for formulas.

A formula's code has two parts. ``formula_bits`` counts its symbols under a fixed
prior over operators and its constants by how simply they can be written;
``residual_bits`` counts what the formula leaves unexplained, per row, down to a
floor a little above float64 round-off, so that an exact formula costs 0 and none
costs minus infinity. Both are measured on the same scale, so no setting trades
length against error: noise-free data prefer the exact formula, noisy data the
shortest one that leaves only noise.

Every code here is a prefix code up to rounding (the shares sum to at most one), which
is what makes bits of a snapped constant and bits of a long decimal comparable.
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.expressions import Expression
from sr4mdl.operators import Operator

RELATIVE_FLOOR: Final = 2.0**-40
"""Error, relative to the root mean square of y, below which a fit is exact."""

_LEAST_SPREAD: Final = 2.0**-20
"""An error of more than this share of the spread is never exact,"""
_ROUND_OFF: Final = 2.0**-51
"""unless it is less than this share of the root mean square, which is round-off."""

_VARIABLE_WEIGHT: Final = 10.0
_CONSTANT_WEIGHT: Final = 5.0
_OTHER_WEIGHT: Final = 0.2
_OPERATOR_WEIGHTS: Final[dict[str, float]] = {
    "add": 4.0, "sub": 3.0, "mul": 6.0, "div": 4.0, "pow": 0.5, "sqrt": 1.2,
    "square": 2.0, "cube": 0.5, "inv": 0.8, "neg": 1.0, "abs": 0.1, "exp": 1.0,
    "log": 0.6, "sin": 0.8, "cos": 0.8, "tan": 0.15, "arcsin": 0.1, "arccos": 0.1,
    "arctan": 0.1, "sinh": 0.1, "cosh": 0.1, "tanh": 0.2,
}  # fmt: skip
_TOTAL_WEIGHT: Final = (
    _VARIABLE_WEIGHT
    + _CONSTANT_WEIGHT
    + _OTHER_WEIGHT
    + sum(_OPERATOR_WEIGHTS.values())
)
_VARIABLE_BITS: Final = math.log2(_TOTAL_WEIGHT / _VARIABLE_WEIGHT)
_CONSTANT_BITS: Final = math.log2(_TOTAL_WEIGHT / _CONSTANT_WEIGHT)
_OPERATOR_BITS: Final = {
    name: math.log2(_TOTAL_WEIGHT / weight)
    for name, weight in _OPERATOR_WEIGHTS.items()
}
_OTHER_BITS: Final = math.log2(_TOTAL_WEIGHT / _OTHER_WEIGHT)

# Prefixes that say how a number is written; 2^-1 + 2^-2 + 2^-3 < 1, and the special
# factors share what is left.
_WHOLE_PREFIX: Final = 1.0
DECIMAL_PREFIX: Final = 2.0
_RATIONAL_PREFIX: Final = 3.0
_SIGN_BITS: Final = 1.0
_ZERO_BITS: Final = 4.0

MAX_DENOMINATOR: Final = 12
"""Largest denominator of a small rational, unless the numerator is below 5."""
MAX_UNIT_DENOMINATOR: Final = 200
"""Largest denominator under a numerator below 5."""
MAX_NUMERATOR: Final = 400
"""Largest numerator of a small rational."""

SPECIAL_FACTORS: Final[tuple[tuple[str, float, float], ...]] = (
    ("pi", math.pi, 6.5),
    ("1/pi", 1.0 / math.pi, 7.0),
    ("pi^2", math.pi**2, 12.0),
    ("1/pi^2", math.pi**-2, 12.0),
    ("sqrt(2)", math.sqrt(2.0), 12.0),
    ("sqrt(3)", math.sqrt(3.0), 13.0),
    ("sqrt(pi)", math.sqrt(math.pi), 13.0),
    ("1/sqrt(pi)", 1.0 / math.sqrt(math.pi), 13.0),
    ("sqrt(2*pi)", math.sqrt(2.0 * math.pi), 13.0),
    ("1/sqrt(2*pi)", 1.0 / math.sqrt(2.0 * math.pi), 13.0),
    ("e", math.e, 13.0),
)
"""Name, value and bits of the numbers that a small rational may multiply."""

_FACTORS: Final = np.array([1.0, *(value for _, value, _ in SPECIAL_FACTORS)])
_FACTOR_BITS: Final = np.array(
    [_RATIONAL_PREFIX, *(bits for _, _, bits in SPECIAL_FACTORS)]
)
_POWER_OF_PI: Final = [
    "pi" in name and "sqrt" not in name for name, _, _ in SPECIAL_FACTORS
]
# Roots and e are multiplied by the smallest rationals only: nobody means e/22.
_LARGEST_NUMERATORS: Final = np.array(
    [[MAX_NUMERATOR], *([36 if power else 12] for power in _POWER_OF_PI)]
)
_LARGEST_UNIT_DENOMINATORS: Final = np.array(
    [[MAX_UNIT_DENOMINATOR], *([64 if power else 0] for power in _POWER_OF_PI)]
)
_DENOMINATORS: Final = np.arange(1.0, MAX_DENOMINATOR + 1.0)
_SMALL_NUMERATORS: Final = np.arange(1.0, 5.0)
_SAME: Final = 4e-15


def operator_bits(operator: Operator) -> float:
    """Return the bits of naming an operator."""
    return _OPERATOR_BITS.get(operator.name, _OTHER_BITS)


def variable_bits(n_variables: int) -> float:
    """Return the bits of naming one of ``n_variables`` variables."""
    return _VARIABLE_BITS + math.log2(max(n_variables, 1))


def whole_bits(number: int) -> float:
    """Return the bits of a whole number of 1 or more (Elias gamma, smoothed)."""
    return 1.0 + 2.0 * math.log2(number)


def decimal_bits(digits: int, exponent: int) -> float:
    """Return the bits of a decimal with so many digits, without prefix and sign.

    Parameters
    ----------
    digits : int
        Significant digits, 1 or more.
    exponent : int
        Power of ten of the first digit: -2 for 0.05.
    """
    return (
        digits * math.log2(10.0)
        + whole_bits(digits)
        + whole_bits(abs(exponent) + 1)
        + (_SIGN_BITS if exponent else 0.0)
    )


def decimal_form(value: float) -> tuple[int, int]:
    """Return (significant digits, power of ten of the first) of the shortest text."""
    mantissa, _, exponent_text = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    exponent = (int(exponent_text) if exponent_text else 0) + len(whole) - 1
    return len(digits.rstrip("0")) or 1, exponent - leading_zeros


@lru_cache(maxsize=65536)
def constant_bits(value: float) -> float:
    """Return the bits of a number: the shortest of all the ways to write it.

    The ways are a whole number, a rational with a small denominator, such a rational
    times pi, a root or e (see ``SPECIAL_FACTORS``), or a decimal. The sign of a
    constant costs one bit.
    """
    if value == 0.0:
        return _ZERO_BITS
    size = abs(value)
    sign = _SIGN_BITS if value < 0 else 0.0
    if size == math.floor(size) and size < 2.0**53:
        best = _WHOLE_PREFIX + whole_bits(int(size))
        return sign + min(best, DECIMAL_PREFIX + decimal_bits(*decimal_form(size)))
    best = DECIMAL_PREFIX + decimal_bits(*decimal_form(size))
    numbers, bits = rational_multiples(size)
    same = np.abs(numbers - size) <= _SAME * size
    if np.any(same):
        best = min(best, float(np.min(bits[same])))
    return best + sign


@lru_cache(maxsize=65536)
def nearest_short(value: float) -> float:
    """Return the short number that a value equals up to round-off, or the value."""
    size = abs(value)
    if value == 0.0 or not math.isfinite(value):
        return value
    near = float(round(size)) if size < 2.0**53 else size
    if near and abs(near - size) <= _SAME * size:
        return math.copysign(near, value)
    numbers, bits = rational_multiples(size)
    same = np.flatnonzero(np.abs(numbers - size) <= _SAME * size)
    if not len(same):
        return value
    return math.copysign(float(numbers[same[np.argmin(bits[same])]]), value)


def rational_multiples(size: float) -> tuple[FloatArray, FloatArray]:
    """Return the small rationals nearest to a positive size, and their bits.

    Plain ones and those times a special factor; the nearest one for each factor and
    denominator. Bits are without the sign.
    """
    ratios = size / _FACTORS
    numerators = np.rint(np.outer(ratios, _DENOMINATORS))
    values = numerators / _DENOMINATORS * _FACTORS[:, None]
    good = (numerators >= 1.0) & (numerators <= _LARGEST_NUMERATORS)
    with np.errstate(divide="ignore", over="ignore"):
        bits = 2.0 + 2.0 * np.log2(numerators * _DENOMINATORS) + _FACTOR_BITS[:, None]
        bottoms = np.rint(_SMALL_NUMERATORS / ratios[:, None])
        unit_values = _SMALL_NUMERATORS / bottoms * _FACTORS[:, None]
        unit_bits = (
            2.0 + 2.0 * np.log2(_SMALL_NUMERATORS * bottoms) + _FACTOR_BITS[:, None]
        )
    unit_good = (bottoms > MAX_DENOMINATOR) & (bottoms <= _LARGEST_UNIT_DENOMINATORS)
    return (
        np.concatenate([values[good], unit_values[unit_good]]),
        np.concatenate([bits[good], unit_bits[unit_good]]),
    )


def small_rational(value: float) -> tuple[int, int] | None:
    """Return (numerator, denominator) if a positive value is a small rational."""
    for bottom in range(1, MAX_DENOMINATOR + 1):
        top = round(value * bottom) if value * bottom <= MAX_NUMERATOR else 0
        if top and abs(top / bottom - value) <= _SAME * value:
            return top, bottom
    for top in range(1, 5):
        bottom = round(top / value) if top <= value * MAX_UNIT_DENOMINATOR else 0
        if bottom and abs(top / bottom - value) <= _SAME * value:
            return top, bottom
    return None


def formula_bits(
    expression: Expression,
    n_variables: int,
    real_constant_bits: float | None = None,
) -> float:
    """Return the bits of a formula: its symbols and its constants.

    An operator applied to numbers only counts as the number it gives, so ``2*pi``
    and 6.283185307179586 cost the same.

    Parameters
    ----------
    expression : Expression
        The formula; repeated parts count each time.
    n_variables : int
        Number of variables that the data have, not only those in the formula.
    real_constant_bits : float, optional
        Most bits that any one constant may cost: what the data support for a fitted
        constant that has not been rounded yet.

    Returns
    -------
    float
        The bits; lower is shorter.
    """
    name_bits = variable_bits(n_variables)
    bits: dict[Expression, float] = {}
    numbers: dict[Expression, float] = {}
    for node in expression.subexpressions():
        value = _number(node, numbers)
        if value is not None:
            numbers[node] = value
            cost = constant_bits(value)
            if real_constant_bits is not None:
                cost = min(cost, real_constant_bits)
            bits[node] = _CONSTANT_BITS + cost
        elif node.operator is None:
            bits[node] = name_bits
        else:
            bits[node] = operator_bits(node.operator) + sum(
                bits[argument] for argument in node.arguments
            )
    return bits[expression]


def _number(node: Expression, numbers: dict[Expression, float]) -> float | None:
    """Return the finite value of a constant or of an operator on constants."""
    if node.value is not None:
        return node.value
    if node.operator is None or any(arg not in numbers for arg in node.arguments):
        return None
    with np.errstate(all="ignore"):
        value = float(
            node.operator.numpy(*(np.float64(numbers[arg]) for arg in node.arguments))
        )
    return value if math.isfinite(value) else None


def error_floor(y: FloatArray) -> float:
    """Return the error per row below which a fit of y counts as exact.

    That is ``RELATIVE_FLOOR`` of its root mean square; less where y varies by little
    of its size, so that what varies is not taken for round-off unless it is.
    """
    size = root_mean_square(y)
    floor = RELATIVE_FLOOR * size
    with np.errstate(over="ignore", invalid="ignore"):
        spread = root_mean_square(y - mean_of(y))
    if 0.0 < _LEAST_SPREAD * spread < floor:
        return max(_LEAST_SPREAD * spread, _ROUND_OFF * size)
    return floor


def root_mean_square(values: FloatArray) -> float:
    """Return the root of the mean square, safe at scales of 1e-300 and 1e300."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(float(np.mean(np.square(values / largest))))


def mean_of(values: FloatArray) -> float:
    """Return the mean, exact for equal values, safe at scales of 1e-300 and 1e300."""
    first = float(values[0])
    with np.errstate(over="ignore", invalid="ignore"):
        mean = first + float(np.mean(values - first))
    if math.isfinite(mean):
        return mean
    largest = float(np.max(np.abs(values)))
    return largest * float(np.mean(values / largest))


def r2_of(rmse: float, spread: float) -> float:
    """Return 1 - (rmse / spread)^2, minus infinity where that is out of range."""
    ratio = rmse / spread
    # A power would raise an error where a product is infinite.
    return 1.0 - ratio * ratio


def residual_bits(rmse: float, n_rows: int, floor: float) -> float:
    """Return the bits of the residuals of n rows.

    Parameters
    ----------
    rmse : float
        Root mean square of the residuals, 0 or more; inf gives inf.
    n_rows : int
        Number of rows.
    floor : float
        Error per row that counts as none, from :func:`error_floor`.

    Returns
    -------
    float
        ``n/2 * log2(1 + (rmse/floor)^2)``: 0 for an exact fit, half a bit per row at
        the floor, one bit per row more for each doubling of the error.
    """
    if not rmse >= 0.0:
        raise ValueError(f"rmse must be 0 or more, got {rmse!r}")
    if floor == 0.0:
        return 0.0 if rmse == 0.0 else math.inf
    ratio = rmse / floor
    if ratio > 1e100:
        return n_rows * math.log2(ratio) if math.isfinite(ratio) else math.inf
    return 0.5 * n_rows * math.log2(1.0 + ratio * ratio)


def supported_constant_bits(rmse: float, n_rows: int, scale: float) -> float:
    """Return the bits of a fitted constant at the precision the data support.

    A constant on which the whole of y depends is known to about
    ``rmse / (scale * sqrt(n))`` of itself.
    """
    if scale <= 0.0:
        return 53.0
    relative = max(rmse / scale, RELATIVE_FLOOR) / math.sqrt(max(n_rows, 1))
    return min(53.0, 4.0 + max(0.0, -math.log2(relative)))
