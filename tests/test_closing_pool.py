"""The pool: recipes give the values, and nothing useless is kept."""

import numpy as np
import pytest

from sr4mdl.closing.monomials import polynomial_exponents, power_product
from sr4mdl.closing.pool import (
    FULL_PLAN,
    QUICK_PLAN,
    build_pool,
)
from sr4mdl.evaluate import evaluate
from sr4mdl.expressions import variable


def make(n_columns, low=0.5, high=2.0, plan=QUICK_PLAN, n_rows=40):
    rng = np.random.default_rng(n_columns)
    columns = rng.uniform(low, high, (n_columns, n_rows))
    names = [f"x{i}" for i in range(n_columns)]
    expressions = tuple(variable(name) for name in names)
    return build_pool(columns, expressions, plan), columns, names


@pytest.mark.parametrize("n_columns", [1, 2, 3, 6, 10])
def test_the_formula_of_every_member_gives_its_values(n_columns):
    pool, columns, names = make(n_columns, -2.0, 2.0)
    formulas = [pool.expression(index) for index in range(len(pool))]
    values = evaluate(formulas, columns.T, names).values
    np.testing.assert_allclose(values, pool.values, rtol=1e-7, atol=1e-9)


def test_the_full_pool_is_bounded_and_its_formulas_hold():
    pool, columns, names = make(4, plan=FULL_PLAN)
    assert 3000 < len(pool) < 8000
    chosen = np.random.default_rng(0).choice(len(pool), 300, replace=False)
    formulas = [pool.expression(int(index)) for index in chosen]
    values = evaluate(formulas, columns.T, names).values
    np.testing.assert_allclose(values, pool.values[chosen], rtol=1e-8, atol=1e-10)


def test_the_columns_come_first_even_if_they_are_equal():
    column = np.linspace(1.0, 2.0, 30)
    pool = build_pool(
        np.array([column, column]), (variable("a"), variable("b")), QUICK_PLAN
    )
    assert pool.members("column").tolist() == [0, 1]


def test_members_are_finite_vary_and_differ():
    pool, _, _ = make(3, -2.0, 2.0, FULL_PLAN)
    assert np.all(np.isfinite(pool.values))
    spread = np.ptp(pool.values, axis=1)
    assert np.all(spread > 1e-9 * np.max(np.abs(pool.values), axis=1))
    unit = pool.values / np.linalg.norm(pool.values, axis=1, keepdims=True)
    rng = np.random.default_rng(9)
    for index in rng.choice(np.arange(3, len(pool)), 60, replace=False):
        cosines = np.abs(unit @ unit[index])
        cosines[index] = 0.0
        assert cosines.max() < 1.0 - 1e-15
    assert pool.n_made == len(pool) + pool.n_dropped
    assert pool.n_dropped > 0


def test_a_column_with_zeros_has_no_inverse():
    columns = np.array([[0.0, 1.0, 2.0, 3.0, 5.0]])
    pool = build_pool(columns, (variable("x"),), QUICK_PLAN)
    texts = {str(pool.expression(index)) for index in range(len(pool))}
    assert "x^2" in texts
    assert "1/x" not in texts
    assert "log(x)" not in texts


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scales_do_not_break_the_pool(scale):
    columns = np.random.default_rng(0).uniform(1, 2, (2, 30)) * scale
    pool = build_pool(columns, (variable("x"), variable("y")), QUICK_PLAN)
    texts = {str(pool.expression(index)) for index in range(len(pool))}
    assert {"x*y", "x/y", "x + y"} <= texts


def test_it_is_the_same_every_time():
    first, _, _ = make(3)
    second, _, _ = make(3)
    np.testing.assert_array_equal(first.values, second.values)
    assert first.recipes == second.recipes


@pytest.mark.parametrize(
    ("exponents", "text"),
    [
        ([1.0], "a"),
        ([-1.0], "1/a"),
        ([2.0, -1.0], "a^2/b"),
        ([0.5, 0.5], "sqrt(a*b)"),
        ([0.5, -0.5], "sqrt(a/b)"),
        ([1.0, -0.5], "a/sqrt(b)"),
        ([1.5, -2.0], "sqrt(a^3)/b^2"),
        ([1.25, 1.0], "a^1.25*b"),
    ],
)
def test_products_of_powers(exponents, text):
    bases = [variable(name) for name in "ab"]
    assert str(power_product(list(zip(bases, exponents, strict=False)))) == text


def test_polynomials_go_to_the_highest_degree_that_fits():
    assert polynomial_exponents(1, 4)[-1] == ((0, 4.0),)
    assert len(polynomial_exponents(2, 9)) == 9  # x, y, xx, xy, yy and four cubes
    assert polynomial_exponents(30, 10) == []
