"""Tidying keeps values and drops what has become idle."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from sr4mdl.evaluate import evaluate_one
from sr4mdl.selection.tidying import present, present_number, tidy
from sr4mdl.text import parse
from strategies import expressions


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ("0 + x", "x"),
        ("x - 0", "x"),
        ("0 - x", "-x"),
        ("1*x + 0*y", "x"),
        ("x*2", "2*x"),
        ("2*(3*x)", "6*x"),
        ("x/4", "0.25*x"),
        ("x + -2*y", "x - 2*y"),
        ("-1*x + y", "y - x"),
        ("x - -3", "x + 3"),
        ("pow(x, 2)", "x^2"),
        ("x^0.5", "sqrt(x)"),
        ("x^-1", "1/x"),
        ("x^1", "x"),
        ("-(-x)", "x"),
        ("-(x - y)", "y - x"),
        ("cos(-x)", "cos(x)"),
        ("log(exp(x))", "x"),
        ("1/(1/x)", "x"),
        ("2/(4*x)", "0.5/x"),
        ("2 + 3", "5"),
    ],
)
def test_by_hand(text, tidied):
    assert str(tidy(parse(text))) == tidied


def test_an_undefined_number_is_left_alone():
    assert str(tidy(parse("log(0) + x"))) == "log(0) + x"


@settings(max_examples=200, deadline=None)
@given(expressions())
def test_values_stay_where_the_formula_is_defined(formula):
    names = sorted(formula.variables)
    rows = np.random.default_rng(0).uniform(-2.0, 2.0, (20, max(len(names), 1)))
    names = names or ["x"]
    with np.errstate(all="ignore"):
        before = evaluate_one(formula, rows, names)
        after = evaluate_one(tidy(formula), rows, names)
    good = np.isfinite(before) & (np.abs(before) < 1e8)
    close = np.isclose(before[good], after[good], rtol=1e-6, atol=1e-8)
    # Ill-conditioned formulas may amplify the last digit of a folded constant.
    assert np.mean(close) > 0.9 if len(close) else True


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1 / 3, "1/3"),
        (-2 / 3, "-2/3"),
        (0.25, "0.25"),
        (math.pi, "pi"),
        (2 * math.pi, "2*pi"),
        (math.pi / 4, "pi/4"),
        (1 / (4 * math.pi), "1/(4*pi)"),
        (-3 / (2 * math.pi), "-3/(2*pi)"),
        (math.sqrt(2) / 2, "sqrt(2)/2"),
        (1 / math.sqrt(2 * math.pi), "1/sqrt(2*pi)"),
        (0.123456789, "0.123456789"),
        (0.0, "0"),
    ],
)
def test_numbers_as_people_write_them(value, text):
    assert str(present_number(value)) == text


def test_a_presented_formula_parses_back_to_the_same_values():
    formula = parse(f"{2 * math.pi!r}*x + {1 / 3!r}")
    shown = present(formula)
    assert str(shown) == "2*pi*x + 1/3"
    rows = np.linspace(0, 1, 5)[:, None]
    np.testing.assert_allclose(
        evaluate_one(parse(str(shown)), rows, ["x"]),
        evaluate_one(formula, rows, ["x"]),
        rtol=1e-14,
    )
