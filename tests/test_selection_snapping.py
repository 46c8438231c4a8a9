"""Rounding of constants: what is accepted, and that it shortens the code."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sr4mdl.expressions import variable
from sr4mdl.selection.bits import formula_bits, residual_bits
from sr4mdl.selection.known import KnownValues
from sr4mdl.selection.snapping import offers, snap_constants
from sr4mdl.text import parse

RNG = np.random.default_rng(5)
N_ROWS = 200
INPUTS = {variable(name): RNG.uniform(1.0, 4.0, N_ROWS) for name in "xyz"}
X_VALUES, Y_VALUES, Z_VALUES = (INPUTS[variable(name)] for name in "xyz")
NOISE = RNG.normal(size=N_ROWS)


def noisy(target, level):
    return target + level * math.sqrt(np.mean(target**2)) * NOISE


def snapped_text(text, target):
    result = snap_constants(parse(text), INPUTS, target, 3)
    assert result is not None
    return str(result.expression)


def test_offers_near_a_fitted_half():
    numbers, bits = offers(0.5003, 0.001)
    best = numbers[np.argmin(bits)]
    assert best == 0.5
    assert 0.0 not in numbers
    assert np.all(np.abs(numbers - 0.5003) <= 0.009)


def test_offers_keep_the_sign_and_hold_zero_only_when_near():
    numbers, bits = offers(-2.0001, 1e-3)
    assert numbers[np.argmin(bits)] == -2.0
    assert min(bits) == pytest.approx(5.0)
    assert 0.0 in offers(0.01, 0.1)[0]


def test_physical_values_only_on_request():
    speed = 299792458.0
    numbers, bits = offers(speed + 0.2, 1.0, KnownValues((speed,)))
    # 8 bits for a name, none for the choice among one, 1 for the first power.
    assert bits[np.flatnonzero(numbers == speed)].min() == 9.0
    _, without = offers(speed + 0.2, 1.0)
    assert without.min() > 12.0


@pytest.mark.parametrize("level", [0.0, 1e-3, 1e-2])
def test_clean_constants_come_back_at_every_noise_level(level):
    target = noisy(2.0 * X_VALUES + Y_VALUES / 3.0, level)
    result = snap_constants(parse("2.02*x + 0.35*y + 0.01"), INPUTS, target, 3)
    slopes = [node.value for node in result.expression.prefix() if node.value]
    assert sorted(slopes) == [1 / 3, 2.0]


def test_multiples_of_pi_where_the_data_support_them():
    target = X_VALUES * Y_VALUES / (4.0 * math.pi)
    result = snap_constants(parse("0.08*(x*y)"), INPUTS, target, 3)
    assert result.expression is parse(f"{1 / (4 * math.pi)!r}*(x*y)")
    assert result.residual_bits < 1e-3


def test_an_exponent_becomes_a_power_of_its_own():
    assert snapped_text("1.1*x^1.9", 3.0 * X_VALUES**2) == "3*x^2"
    assert snapped_text("1.1*x^0.6", 3.0 * np.sqrt(X_VALUES)) == "3*sqrt(x)"


def test_a_term_without_effect_goes():
    target = noisy(2.0 * X_VALUES, 0.01)
    assert snapped_text("1.9*x + 0.01*z", target) == "2*x"


def test_a_decimal_keeps_the_digits_that_the_data_support():
    slope = 0.123456789
    exact = snap_constants(parse("0.1*x"), INPUTS, slope * X_VALUES, 3)
    assert exact.expression is parse("0.123456789*x")
    rough = snap_constants(parse("0.1*x"), INPUTS, noisy(slope * X_VALUES, 0.01), 3)
    (value,) = [node.value for node in rough.expression.prefix() if node.value]
    assert abs(value - slope) < 3e-4
    assert len(repr(value)) <= len("0.1234")


def test_other_constants_are_fitted_again_after_one_is_fixed():
    target = 0.5 * np.exp(-2.0 * X_VALUES) + 3.0
    result = snap_constants(parse("0.47*exp(-1.93*x) + 3.01"), INPUTS, target, 3)
    numbers = sorted(n.value for n in result.expression.prefix() if n.value is not None)
    assert numbers == [-2.0, 0.5, 3.0]


def test_the_code_is_what_the_parts_say():
    target = noisy(2.0 * X_VALUES, 0.05)
    result = snap_constants(parse("1.9*x"), INPUTS, target, 3)
    assert result.formula_bits == formula_bits(result.expression, 3)
    floor = 2.0**-40 * math.sqrt(np.mean(target**2))
    assert result.residual_bits == pytest.approx(
        residual_bits(result.rmse, N_ROWS, floor)
    )
    assert result.bits == result.formula_bits + result.residual_bits
    assert result.n_constants == 1


def test_a_simple_constant_is_taken_as_meant_unless_told_otherwise():
    target = 2.3 * X_VALUES + 1.0
    kept = snap_constants(parse("2.2*x + 2"), INPUTS, target, 3)
    assert 2.0 in [node.value for node in kept.expression.prefix()]
    moved = snap_constants(parse("2.2*x + 2"), INPUTS, target, 3, refit_simple=True)
    assert moved.rmse < 1e-10
    assert 1.0 in [node.value for node in moved.expression.prefix()]


def test_an_undefined_formula_is_declined():
    assert snap_constants(parse("1.5*log(x - 9.1)"), INPUTS, X_VALUES, 3) is None


def test_noise_free_data_prefer_the_exact_formula_to_a_near_one():
    target = np.sin(X_VALUES)
    exact = snap_constants(parse("1.1*sin(x)"), INPUTS, target, 3)
    near = snap_constants(parse("1.1*(x - 0.16*x^3 + 0.008*x^5.1)"), INPUTS, target, 3)
    assert exact.bits + 1000 < near.bits


@pytest.mark.parametrize("level", [0.001, 0.01, 0.1])
def test_an_overfitted_sum_is_longer(level):
    target = noisy(X_VALUES * Y_VALUES, level)
    true = snap_constants(parse("1.1*(x*y)"), INPUTS, target, 3)
    over = snap_constants(
        parse("1.1*(x*y) + 0.1*sin(z) + 0.1*x^2.1 + 0.1*cos(y*z) + 0.1*exp(-z)"),
        INPUTS,
        target,
        3,
    )
    assert true.bits <= over.bits


@settings(max_examples=25, deadline=None)
@given(st.integers(-12, 12), st.integers(1, 12), st.sampled_from([0.0, 1e-3]))
def test_any_small_rational_slope_is_found(top, bottom, level):
    if top == 0:
        return
    slope = top / bottom
    target = noisy(slope * X_VALUES, level)
    result = snap_constants(parse(f"{slope * 1.001 + 1e-5}*x"), INPUTS, target, 3)
    full = formula_bits(parse(f"{slope!r}*x"), 3)
    assert result.formula_bits <= full + 1e-9
    if level == 0.0:
        assert result.rmse < 1e-10


@pytest.mark.parametrize("size", [1e160, 1e250])
def test_errors_of_any_size_are_weighed(size):
    # The square of such an error is no double any more.
    x = np.linspace(1.0, 2.0, 50)
    y = size * (3.0 * x + np.sin(50.0 * x))
    snapped = snap_constants(parse("1.5*x"), {variable("x"): x}, y, 1)
    assert snapped is not None
    assert np.isfinite(snapped.bits)
