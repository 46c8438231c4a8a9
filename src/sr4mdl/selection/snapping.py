"""Rounding of fitted constants to what the data support, where it pays in bits.

Each constant is offered the numbers that are short to write: whole numbers, small
rationals, multiples of pi, roots and e, and decimals of every length. From the
derivatives at the optimum follows, for every offer at once, what the squared error
would become once the other constants are fitted again; the offer with the shortest
total code is taken, the others are refitted, and so on until every constant is
fixed. A rounding that lengthens the measured code is taken back.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import BoolArray, FloatArray
from sr4mdl.expressions import Expression
from sr4mdl.selection.bits import (
    DECIMAL_PREFIX,
    constant_bits,
    decimal_bits,
    error_floor,
    formula_bits,
    nearest_short,
    rational_multiples,
    residual_bits,
)
from sr4mdl.selection.fitting import Fit, Form, fit_constants
from sr4mdl.selection.known import KnownValues
from sr4mdl.selection.tidying import tidy

MAX_OFFERS: Final = 3
"""Offers tried per constant before it keeps its decimals."""
_SIMPLE_BITS: Final = 9.0
"""A constant of at most so many bits in the given formula is taken as meant."""

_SURE_BITS: Final = 0.05
"""Growth of the residual bits below which rounding a constant is no question."""
_NOTHING_KNOWN: Final = KnownValues()


@dataclass(frozen=True, slots=True)
class Snapped:
    """A formula with rounded constants and its code length."""

    expression: Expression
    """The tidied formula."""
    formula_bits: float
    """Bits of symbols and constants."""
    residual_bits: float
    """Bits of what it leaves unexplained."""
    rmse: float
    """Root mean square error on y."""
    n_constants: int
    """Constants that are left in the formula."""

    @property
    def bits(self) -> float:
        """Total code length."""
        return self.formula_bits + self.residual_bits


def offers(
    value: float, deviation: float, known: KnownValues = _NOTHING_KNOWN
) -> tuple[FloatArray, FloatArray]:
    """Return the short numbers within about eight deviations of a value.

    Parameters
    ----------
    value : float
        The fitted constant.
    deviation : float
        Its standard deviation; 0 if it is known exactly.
    known : KnownValues
        Values that may be named; none by default.

    Returns
    -------
    numbers, bits : ndarray of shape (n_offers,)
        Whole numbers, rationals, multiples of special numbers, decimals of 1 to 16
        digits, and 0, each only if near enough, with their bits. A number may occur
        more than once, as it may be written in more than one way.
    """
    numbers, bits = [0.0], [constant_bits(0.0)]
    if value == 0.0 or not math.isfinite(value):
        return np.array(numbers), np.array(bits)
    size, sign_bits = abs(value), 1.0 if value < 0 else 0.0
    if size < 1e15 and round(size):
        numbers.append(float(round(size)))
        bits.append(constant_bits(float(round(size))))
    exponent = math.floor(math.log10(size))
    for digits in range(1, 17):
        number = float(f"{size:.{digits - 1}e}")
        numbers.append(number)
        bits.append(DECIMAL_PREFIX + decimal_bits(digits, exponent))
        if number == size:
            break
    multiples, multiple_bits = rational_multiples(size)
    named, named_bits = known.near(size)
    all_numbers = np.concatenate([numbers, multiples, named])
    all_bits = np.concatenate([bits, multiple_bits, named_bits]) + sign_bits
    all_bits[0] -= sign_bits
    if value < 0:
        all_numbers = -all_numbers
    near = np.abs(all_numbers - value) <= 8.0 * deviation + 1e-9 * size
    return all_numbers[near], all_bits[near]


@dataclass(frozen=True, slots=True)
class _Offer:
    gain: float
    """Forecast of the bits saved."""
    index: int
    """Which constant."""
    number: float
    """What it would become."""
    bits: float
    """What that number costs."""
    loss: float
    """Forecast of the growth of the residual bits."""


class _Snapper:
    """The state of one run of :func:`snap_constants`."""

    def __init__(
        self,
        form: Form,
        y: FloatArray,
        n_variables: int,
        known: KnownValues,
    ) -> None:
        self.form = form
        self.y = y
        self.n_variables = n_variables
        self.known = known
        self.floor = error_floor(y)

    def residual_bits(self, fit: Fit) -> float:
        return residual_bits(fit.rmse, len(self.y), self.floor)

    def ranked_offers(self, fit: Fit, free: BoolArray) -> list[_Offer]:
        """Return the best offers of all free constants, largest gain first."""
        n_rows = len(self.y)
        # An exact fit knows its constants to round-off only: the floor stands in.
        noise = math.hypot(fit.rmse, self.floor)
        ranked: list[_Offer] = []
        for place, index in enumerate(np.flatnonzero(free)):
            value = float(fit.values[index])
            variance = float(fit.covariance[place, place])
            deviation = noise * math.sqrt(max(variance, 0.0))
            if not math.isfinite(deviation):
                deviation = abs(value)
            raw = self.known.bits(value)
            numbers, bits = offers(value, deviation, self.known)
            if variance > 0.0:
                # By how much the squared error grows, measured in its own size, once
                # the others are refitted.
                with np.errstate(over="ignore"):
                    steps = (numbers - value) / math.sqrt(variance) / noise
                    growth = np.square(steps) / n_rows
            else:
                growth = np.where(numbers == value, 0.0, np.inf)
            losses = 0.5 * n_rows * np.log2(1.0 + growth)
            gains = raw - bits - losses
            best = np.argsort(-gains, kind="stable")[:MAX_OFFERS]
            ranked += [
                _Offer(
                    float(gains[one]),
                    int(index),
                    float(numbers[one]),
                    float(bits[one]),
                    float(losses[one]),
                )
                for one in best
            ]
        ranked.sort(key=lambda offer: -offer.gain)
        return ranked


def snap_constants(
    expression: Expression,
    inputs: Mapping[Expression, FloatArray],
    y: FloatArray,
    n_variables: int,
    *,
    known: KnownValues = _NOTHING_KNOWN,
    refit_simple: bool = False,
) -> Snapped | None:
    """Fit and round the constants of a formula so that its code is shortest.

    Parameters
    ----------
    expression : Expression
        The formula with fitted constants.
    inputs : mapping of Expression to ndarray of shape (n_rows,)
        Values of the variables, and of subformulas already evaluated.
    y : ndarray of shape (n_rows,)
        The target.
    n_variables : int
        Variables that the data have.
    known : KnownValues
        Values that may be named; none by default.
    refit_simple : bool, default=False
        Whether constants that are simple already (small whole numbers, halves) may
        move too.

    Returns
    -------
    Snapped or None
        None if the formula is not finite on every row.
    """
    form = Form(expression, inputs, len(y))
    snapper = _Snapper(form, y, n_variables, known)
    free = np.array(
        [refit_simple or constant_bits(float(v)) > _SIMPLE_BITS for v in form.values],
        dtype=np.bool_,
    )
    start = np.array([nearest_short(float(value)) for value in form.values])
    fit = fit_constants(form, y, free, values=start)
    if not fit.ok:
        return None
    while np.any(free):
        ranked = snapper.ranked_offers(fit, free)
        sure = _fix_sure(snapper, fit, free, ranked)
        fit = _fix_one(snapper, fit, free, ranked) if sure is None else sure
    expression = tidy(form.with_values(fit.values))
    n_constants = sum(node.value is not None for node in expression.prefix())
    return Snapped(
        expression,
        formula_bits(expression, n_variables) - known.saving(expression),
        snapper.residual_bits(fit),
        fit.rmse,
        n_constants,
    )


def _fix_sure(
    snapper: _Snapper, fit: Fit, free: BoolArray, ranked: Sequence[_Offer]
) -> Fit | None:
    """Fix at once all constants whose best offer costs next to nothing.

    Returns None, and fixes nothing, if there are none or they do not go together.
    """
    best: dict[int, _Offer] = {}
    for offer in ranked:
        best.setdefault(offer.index, offer)
    sure = {
        index: offer
        for index, offer in best.items()
        if offer.loss < _SURE_BITS and offer.gain > 0.0
    }
    if not sure:
        return None
    values = fit.values.copy()
    left = free.copy()
    for index, offer in sure.items():
        values[index] = offer.number
        left[index] = False
    refit = fit_constants(snapper.form, snapper.y, left, values=values)
    growth = snapper.residual_bits(refit) - snapper.residual_bits(fit)
    if not refit.ok or growth > 0.5 + _SURE_BITS * len(sure):
        return None
    free[list(sure)] = False
    return refit


def _fix_one(
    snapper: _Snapper, fit: Fit, free: BoolArray, ranked: Sequence[_Offer]
) -> Fit:
    """Fix one constant at the number that shortens the code most, or as it is."""
    chosen = ranked[0].index if ranked else int(np.flatnonzero(free)[0])
    conditional = _conditional_shift(fit, free, chosen)
    free[chosen] = False
    before = snapper.residual_bits(fit)
    raw = snapper.known.bits(float(fit.values[chosen]))
    best: Fit | None = None
    best_gain = 0.0
    for offer in ranked:
        if offer.index != chosen:
            continue
        values = fit.values + conditional * (offer.number - fit.values[chosen])
        values[chosen] = offer.number
        refit = fit_constants(
            snapper.form, snapper.y, free, values=values, max_iterations=8
        )
        if not refit.ok:
            continue
        gain = raw + before - offer.bits - snapper.residual_bits(refit)
        if gain > best_gain:
            best, best_gain = refit, gain
        # The forecast is quadratic; where it came true, later offers are worse.
        if gain >= offer.gain - 1.0:
            break
    if best is None:
        return fit_constants(snapper.form, snapper.y, free, values=fit.values)
    return best


def _conditional_shift(fit: Fit, free: BoolArray, chosen: int) -> FloatArray:
    """Return how far every constant moves when the chosen one moves by 1."""
    shift = np.zeros(len(fit.values))
    order = np.flatnonzero(free)
    place = int(np.searchsorted(order, chosen))
    variance = fit.covariance[place, place]
    column = fit.covariance[:, place]
    if math.isfinite(variance) and variance > 0.0 and np.all(np.isfinite(column)):
        shift[order] = column / variance
    return shift
