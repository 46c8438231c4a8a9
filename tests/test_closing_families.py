"""Each family closes the form it is for; the others are switched off."""

import math

import numpy as np
import pytest

from sr4mdl.closing import ClosingProblem
from sr4mdl.closing.drafts import draft_power_law, draft_quotient, write_sum
from sr4mdl.closing.families import (
    close_linear,
    close_quotients,
    close_scaled,
    close_sums,
)
from sr4mdl.closing.inner import close_inner
from sr4mdl.closing.polynomials import close_polynomials
from sr4mdl.closing.power_laws import close_peeled_power_laws, close_power_laws
from sr4mdl.closing.state import _Closer
from sr4mdl.closing.tiers import TIERS
from sr4mdl.evaluate import evaluate_one
from sr4mdl.expressions import variable

RNG = np.random.default_rng(11)
ROWS = RNG.uniform(1.0, 3.0, (150, 3))
SIGNED = RNG.uniform(-2.0, 2.0, (150, 3))
A, B, C = ROWS.T
P, Q, R = SIGNED.T
NAMES = ("a", "b", "c")


def bench_of(rows, y, names=NAMES):
    problem = ClosingProblem.root(rows, y, names)
    closer = _Closer(problem, "full", 0.0, math.inf)
    return closer, closer.open_bench(TIERS["full"][-1], closer.problem)


def check(family, rows, y, n_columns=3):
    """Run one family; its best draft must be exact, also when written out."""
    names = NAMES[:n_columns]
    rows = rows[:, :n_columns]
    closer, bench = bench_of(rows, y, names)
    with np.errstate(all="ignore"):
        family(bench)
    assert bench.drafts
    best = min(bench.drafts, key=lambda draft: draft.bits(150, closer.floor))
    assert best.rmse <= 1e-9 * closer.size
    for formula in best.write():
        predicted = evaluate_one(formula, rows, names)
        np.testing.assert_allclose(predicted, y, rtol=1e-6, atol=1e-8 * closer.size)
    assert bench.n_examined > 0
    return best


@pytest.mark.parametrize(
    "y",
    [
        2.0 * A - 3.0 * B + 0.5 * C,
        2.0 * A - 3.0 * B + 0.5 * C + 7.0,
        np.sqrt(A + 2.0 * B + 3.0 * C),
        1.0 / (A + 2.0 * B + 3.0 * C),
        -np.sqrt(A + 2.0 * B + 3.0 * C),
    ],
)
def test_linear_map_under_outer_transforms(y):
    check(close_linear, ROWS, y)


@pytest.mark.parametrize(
    "y",
    [
        2.0 * A * B - 3.0 * np.sin(C),
        A**2 + B / C + np.exp(-A),
        np.sqrt(A**2 + B**2 + C**2),
        1.0 / (1.0 / A + B / C),
        np.exp(0.5 * A - B * C),
        np.log(A * B + C**2),
        np.arcsin(0.1 * A + 0.05 * B * C),
        np.arctan(A - B * C),
    ],
)
def test_sparse_sums_under_outer_transforms(y):
    check(close_sums, ROWS, y)


@pytest.mark.parametrize(
    "y",
    [
        3.0 * A**2 / np.sqrt(B * C),
        -2.0 * A * B**-3,
        0.1 * A ** (1 / 3) * B ** (-2 / 3),
        A**1.37 * C,
        A * B * (B + C),
        A / (1.0 - A * B * C),
        B * np.exp(-0.3 * A * C),
        A**2 * np.sin(B) / (1.0 + C),
    ],
)
def test_power_laws(y):
    check(close_power_laws, ROWS, y)


@pytest.mark.parametrize(
    "y",
    [
        P * Q**3 / R,
        -(P**2) / Q,
        np.sign(P) * np.abs(P) ** 0.5,  # the sign follows the base
        np.abs(P) ** 1.5 * Q,
        P * np.cos(Q),
    ],
)
def test_power_laws_of_columns_that_change_sign(y):
    check(close_power_laws, SIGNED, y)


def test_exponents_are_rounded_only_where_that_shortens_the_code():
    _, bench = bench_of(ROWS, 2.0 * A**1.5 / B)
    factors = [bench.logs.factor(int(index)) for index in bench.logs.bases]
    draft = draft_power_law(
        "", bench.outer, factors, [], bench.outer.values, bench.scale
    )
    (formula,) = draft.write()
    assert str(formula).endswith("*(sqrt(a^3)/b)")
    _, bench = bench_of(ROWS, 2.0 * A**1.531 / B)
    factors = [bench.logs.factor(int(index)) for index in bench.logs.bases]
    draft = draft_power_law(
        "", bench.outer, factors, [], bench.outer.values, bench.scale
    )
    numbers = [node.value for node in draft.write()[0].prefix() if node.value]
    assert any(number == pytest.approx(1.531, rel=1e-9) for number in numbers)


@pytest.mark.parametrize(
    "y",
    [
        B + A * C**2 * np.cos(B),
        np.sqrt(1.0 + 2.0 * A**2 / (B * C)),
        1.0 / (np.exp(0.3 * A * B / C) - 1.0),
        1.0 / (1.0 / A + (1.0 - np.cos(B)) / C**2),
    ],
)
def test_power_laws_with_something_taken_off_first(y):
    check(close_peeled_power_laws, ROWS, y)


@pytest.mark.parametrize(
    "y",
    [
        A * B * (1.5 + 0.5 * np.cos(C)),
        A / np.sqrt(1.0 + B**2 * C),
        A**2 / (np.exp(B * C) - 1.0),
    ],
)
def test_scaled_functions(y):
    check(close_scaled, ROWS, y)


@pytest.mark.parametrize(
    "y",
    [
        (A * B + C) / (1.0 + 0.7 * A),
        (2.0 - A + B * C) / (1.0 + 0.5 * B**2),
    ],
)
def test_quotients(y):
    check(close_quotients, ROWS, y)


@pytest.mark.parametrize(
    ("rows", "y", "n_columns"),
    [
        (SIGNED, P**3 - 2.0 * P * Q + 0.5 * Q**2 - 1.0, 2),
        (SIGNED, P**5 + P**4 + P**3 + P**2 + P, 1),
        (ROWS, A * (4.0 - A - B / (1.0 + A)), 2),
        (ROWS, np.sqrt(A**2 + A * B + 2.0), 2),
    ],
)
def test_polynomials_and_their_quotients(rows, y, n_columns):
    check(close_polynomials, rows, y, n_columns)


FEW = np.random.default_rng(5).uniform(0.1, 6.0, (50, 2))
U, V = FEW.T


@pytest.mark.parametrize(
    ("rows", "y", "n_columns"),
    [
        (ROWS, (A * B + 2.5 * C) / (1.3 + A + B * C), 3),
        (SIGNED, P**4 / (1.0 + P**4) + Q**4 / (1.0 + Q**4), 2),
        (FEW, ((U - 3.0) ** 4 + (V - 3.0) ** 3) / ((V - 2.0) ** 4 + 10.0), 2),
    ],
)
def test_quotients_of_two_polynomials(rows, y, n_columns):
    best = check(close_polynomials, rows, y, n_columns)
    assert best.family == "rational"


def test_noise_has_no_quotient_of_many_terms():
    y = A * B + 0.01 * np.random.default_rng(2).normal(size=150)
    _, bench = bench_of(ROWS, y)
    close_polynomials(bench)
    for draft in bench.drafts:
        assert all(str(way).count("/(") <= 1 for way in draft.write())
        assert draft.formula_bits < 400.0


def test_quotients_are_written_with_plain_coefficients():
    """x^2/(26 - 32*x + 24*x^2): over 26 no coefficient is short."""
    x = np.linspace(0.5, 4.0, 60)
    y = x**2 / (26.0 - 32.0 * x + 24.0 * x**2)
    closer, bench = bench_of(x[:, None], y, NAMES[:1])
    pool = bench.pool
    where = {str(pool.expression(one)): one for one in range(len(pool))}
    below, above = (where["a"], where["a^2"]), (where["a^2"],)
    draft = draft_quotient(bench.outer, pool, below, above, bench.scale)
    assert draft is not None
    assert draft.rmse < 1e-12
    values = {
        round(abs(node.value), 9)
        for way in draft.write()
        for node in way.prefix()
        if node.value is not None
    }
    # By 26, and by the least of the others below, 24/26.
    assert {
        round(24.0 / 26.0, 9),
        round(26.0 / 24.0, 9),
        round(32.0 / 24.0, 9),
    } <= values
    del closer


def test_a_few_rows_show_many_terms_if_they_are_exact():
    """Nine terms of twenty rows; with noise no more than five are tried."""
    x = np.linspace(-1.0, 1.0, 20)
    y = sum(x**power for power in range(1, 10))
    check(close_polynomials, x[:, None], y, 1)
    noisy = y + 1e-3 * np.random.default_rng(3).normal(size=20)
    _, bench = bench_of(x[:, None], noisy, NAMES[:1])
    close_polynomials(bench)
    assert bench.drafts
    for draft in bench.drafts:
        assert all(str(way).count("a") <= 6 for way in draft.write())


@pytest.mark.parametrize(
    ("y", "n_columns"),
    [
        (2.0 + 3.0 * np.exp(-1.3 * A), 1),
        (A * np.exp(0.7 * A * B) - A, 2),
        (1.5 * np.sin(2.3 * A + 0.6), 1),
        (B + 2.0 * np.tanh(0.8 * A), 2),
        (3.0 * np.log(1.0 + 0.25 * A * B), 2),
        (A / (1.7 + A) - 0.3 * B, 2),
        (1.1 * B + A**2.37, 2),
        (B / (1.0 + np.exp(-1.3 * A)), 2),
        (1.7 - 0.2 * np.exp(-21.0 * A), 1),
    ],
)
def test_inner_constants(y, n_columns):
    check(close_inner, ROWS, y, n_columns)


def test_a_wave_is_written_with_one_phase():
    best = check(close_inner, ROWS, 1.5 * np.sin(2.3 * A + 0.6), 1)
    sines = [way for way in best.write() if str(way).count("sin(") == 1]
    assert any("cos(" not in str(way) for way in sines)


def test_sums_are_written_plain_and_with_a_common_factor():
    terms = [(0.3, variable("x")), (-0.6, variable("y"))]
    plain, factored = write_sum(0.0, terms)
    assert str(plain) == "0.3*x - 0.6*y"
    assert factored.arguments[0].value in (0.3, -0.6)
    assert len(write_sum(0.0, [(2.0, variable("x")), (0.7131, variable("y"))])) == 1


def test_many_terms_are_found_one_by_one():
    y = P * Q + 2.0 * Q * R - P * R + P**3 + 4.0 * Q + 0.5 * R**2
    check(close_sums, SIGNED, y)
