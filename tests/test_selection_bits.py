"""Code length: answers computed by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sr4mdl.expressions import variable
from sr4mdl.operators import all_operators, get_operator
from sr4mdl.selection.bits import (
    RELATIVE_FLOOR,
    SPECIAL_FACTORS,
    constant_bits,
    decimal_form,
    error_floor,
    formula_bits,
    nearest_short,
    operator_bits,
    r2_of,
    residual_bits,
    root_mean_square,
    small_rational,
    supported_constant_bits,
    variable_bits,
)
from sr4mdl.text import parse

TOTAL = 42.35
"""Sum of the weights of all symbols."""


def test_a_sum_of_two_variables_by_hand():
    expected = math.log2(TOTAL / 4.0) + 2 * (math.log2(TOTAL / 10.0) + 1.0)
    assert formula_bits(parse("x + y"), 2) == pytest.approx(expected)


def test_a_variable_is_named_among_all_variables_of_the_data():
    assert variable_bits(8) - variable_bits(2) == pytest.approx(2.0)
    assert formula_bits(variable("x"), 8) == pytest.approx(variable_bits(8))


def test_a_constant_costs_its_symbol_and_its_value():
    expected = math.log2(TOTAL / 5.0) + 1.0 + 1.0 + 2.0 * math.log2(3.0)
    assert formula_bits(parse("3"), 4) == pytest.approx(expected)


def test_an_operator_on_numbers_costs_the_number_it_gives():
    assert formula_bits(parse("2*pi"), 3) == formula_bits(parse(repr(2 * math.pi)), 3)
    assert formula_bits(parse("x*(1/4)"), 3) == formula_bits(parse("x*0.25"), 3)


def test_repeated_parts_count_each_time():
    once = formula_bits(parse("sin(x)"), 1)
    twice = formula_bits(parse("sin(x)*sin(x)"), 1)
    assert twice == pytest.approx(2 * once + operator_bits(get_operator("mul")))


def test_every_builtin_operator_has_a_weight_of_its_own():
    names = [operator.name for operator in all_operators() if operator.builtin]
    share = sum(2.0 ** -operator_bits(get_operator(name)) for name in names)
    share += 15.2 / TOTAL  # variables, constants and operators of the user
    assert share == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (0.0, 4.0),
        (1.0, 2.0),
        (-1.0, 3.0),
        (2.0, 4.0),
        (4.0, 6.0),
        (8.0, 4.0 + math.log2(10)),  # shorter as a decimal of one digit
        (0.5, 7.0),  # 1/2: prefix 3, whole numbers 1 and 2
        (-0.5, 8.0),
        (1 / 3, 5.0 + 2 * math.log2(3)),
        (math.pi, 8.5),
        (2 * math.pi, 10.5),
        (1 / (4 * math.pi), 13.0),
        # 5e-2: prefix 2, one digit, its count, exponent 2 with sign
        (0.05, 2 + math.log2(10) + 1 + (1 + 2 * math.log2(3)) + 1),
    ],
)
def test_numbers_by_hand(value, bits):
    assert constant_bits(value) == pytest.approx(bits)


def test_a_long_decimal_costs_its_digits():
    assert constant_bits(0.123456789) > constant_bits(0.1234) + 5 * math.log2(9.9)


@pytest.mark.parametrize(
    ("value", "form"),
    [(0.05, (1, -2)), (1200.0, (2, 3)), (1.25e-30, (3, -30)), (9.0, (1, 0))],
)
def test_decimal_form_counts_digits_and_finds_the_power_of_ten(value, form):
    assert decimal_form(value) == form


def test_the_codes_of_numbers_share_one_unit():
    numbers = {float(k) for k in range(-300, 301)}
    rationals = {p / q for q in range(1, 13) for p in range(1, 60)}
    numbers |= rationals | {-r for r in rationals}
    numbers |= {r * factor for r in rationals for _, factor, _ in SPECIAL_FACTORS}
    numbers |= {
        float(f"{mantissa}e{exponent}")
        for mantissa in range(1, 1000)
        for exponent in range(-6, 6)
    }
    assert sum(2.0 ** -constant_bits(number) for number in numbers) <= 1.0


@given(st.floats(min_value=-1e12, max_value=1e12))
def test_a_sign_costs_a_bit_and_no_number_is_free(value):
    bits = constant_bits(value)
    assert bits >= 1.0
    if value > 0:
        assert constant_bits(-value) == pytest.approx(bits + 1.0)


def test_small_rationals():
    assert small_rational(0.75) == (3, 4)
    assert small_rational(1 / 24) == (1, 24)
    assert small_rational(math.sqrt(2)) is None
    assert small_rational(5 / 24) is None  # neither a small denominator nor numerator


def test_round_off_is_taken_off_a_short_number():
    assert nearest_short(0.9999999999999998) == 1.0
    assert nearest_short(-2.0000000000000004) == -2.0
    assert nearest_short(1.00001) == 1.00001
    assert nearest_short(0.33333333333333331) == 1 / 3


def test_residual_bits_by_hand():
    assert residual_bits(0.0, 10, 1e-3) == 0.0
    assert residual_bits(1e-3, 10, 1e-3) == pytest.approx(5.0)
    assert residual_bits(math.sqrt(3.0), 10, 1.0) == pytest.approx(10.0)
    assert residual_bits(math.inf, 10, 1.0) == math.inf


def test_twice_the_error_costs_a_bit_a_row_and_nothing_below_the_floor():
    many = residual_bits(2e-3, 100, 1e-9) - residual_bits(1e-3, 100, 1e-9)
    assert many == pytest.approx(100.0)
    assert residual_bits(1e-12, 100, 1e-9) < 1e-3


def test_residual_bits_of_a_target_that_is_zero():
    assert residual_bits(0.0, 10, 0.0) == 0.0
    assert residual_bits(1e-9, 10, 0.0) == math.inf


@pytest.mark.parametrize("rmse", [-1.0, math.nan])
def test_residual_bits_refuse_what_is_no_error(rmse):
    with pytest.raises(ValueError, match="rmse must be 0 or more"):
        residual_bits(rmse, 10, 1.0)


def test_sizes_at_the_ends_of_the_range():
    assert root_mean_square(np.array([3e300, 4e300])) == pytest.approx(
        math.sqrt(12.5) * 1e300
    )
    assert root_mean_square(np.array([3e-300, 4e-300])) == pytest.approx(
        math.sqrt(12.5) * 1e-300
    )
    assert root_mean_square(np.zeros(3)) == 0.0
    assert error_floor(np.array([2.0, -2.0])) == pytest.approx(2.0 * RELATIVE_FLOOR)


def test_a_fitted_constant_is_known_better_with_more_rows_and_less_noise():
    few = supported_constant_bits(0.01, 100, 1.0)
    assert few == pytest.approx(4.0 + math.log2(1000.0))
    assert supported_constant_bits(0.01, 400, 1.0) == pytest.approx(few + 1.0)
    assert supported_constant_bits(0.0, 10**6, 1.0) <= 53.0


def test_r2_by_hand() -> None:
    assert r2_of(1.0, 2.0) == 0.75
    assert r2_of(0.0, 3.0) == 1.0
    assert r2_of(1e200, 1e-10) == -math.inf


def test_what_varies_by_little_is_not_taken_for_round_off():
    x = np.linspace(0.0, 1.0, 101)
    # Spread of x by hand: sqrt((101^2 - 1) / 12) / 100 = 0.29155.
    assert error_floor(1e8 + x) == pytest.approx(0.29155 * 2.0**-20, rel=1e-4)
    # Where even that is round-off, of 1e12, it is that.
    assert error_floor(1e12 + x) == pytest.approx(1e12 * 2.0**-51, rel=1e-6)
    # What varies by a part in ten thousand is measured as ever.
    assert error_floor(1e4 + x) == pytest.approx(10000.5 * RELATIVE_FLOOR, rel=1e-6)
    assert error_floor(np.full(9, 5.0)) == 5.0 * RELATIVE_FLOOR
