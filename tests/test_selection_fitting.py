"""Derivatives and Levenberg-Marquardt against differences and closed forms."""

import math
import warnings

import numpy as np
import pytest

from sr4mdl.expressions import apply, constant, variable
from sr4mdl.operators import all_operators, register_operator, unregister_operator
from sr4mdl.selection import fitting
from sr4mdl.selection.fitting import Form, fit_constants
from sr4mdl.text import parse

X = variable("x")
Y = variable("y")


@pytest.fixture
def inputs():
    rng = np.random.default_rng(3)
    return {X: rng.uniform(0.2, 0.8, 40), Y: rng.uniform(0.3, 0.9, 40)}


def check_derivatives(form):
    free = np.ones(form.n_constants, dtype=bool)
    values, jacobian = form.differentiate(form.values, free)
    assert jacobian.shape == (40, form.n_constants)
    for place in range(form.n_constants):
        upper, lower = form.values.copy(), form.values.copy()
        upper[place] += 1e-6
        lower[place] -= 1e-6
        slope = (form.predict(upper) - form.predict(lower)) / 2e-6
        np.testing.assert_allclose(jacobian[:, place], slope, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(values, form.predict(form.values))


@pytest.mark.parametrize(
    "operator",
    [one for one in all_operators() if one.builtin],
    ids=lambda one: one.name,
)
def test_derivative_of_every_operator(operator, inputs):
    inner = parse("0.3*x + 0.2")
    if operator.arity == 1:
        formula = apply(operator, inner)
    else:
        formula = apply(operator, inner, parse("0.7*y + 0.4"))
    check_derivatives(Form(formula, inputs, 40))


def test_equal_constants_are_parameters_of_their_own(inputs):
    form = Form(parse("2*x + 2*y + sin(2*x)"), inputs, 40)
    assert form.values.tolist() == [2.0, 2.0, 2.0]
    assert str(form.with_values([1.0, 5.0, 3.0])) == "1*x + 5*y + sin(3*x)"
    check_derivatives(form)


def test_only_free_constants_have_derivatives(inputs):
    form = Form(parse("2*x + 3*y"), inputs, 40)
    _, jacobian = form.differentiate(form.values, np.array([False, True]))
    np.testing.assert_allclose(jacobian, inputs[Y][:, None])


def test_an_operator_of_the_user_is_differentiated_by_differences(inputs):
    register_operator("soft", lambda x: np.log1p(np.exp(x)))
    try:
        check_derivatives(Form(parse("1.5*soft(2*x + 1)"), inputs, 40))
    finally:
        unregister_operator("soft")


def test_a_formula_of_constants_only():
    form = Form(constant(2.5), {}, 3)
    assert form.predict(form.values).tolist() == [2.5, 2.5, 2.5]


def test_a_missing_variable_is_named(inputs):
    form = Form(parse("x + z"), inputs, 40)
    with pytest.raises(ValueError, match="'z'"):
        form.predict(form.values)


def test_known_subformulas_are_not_evaluated_again():
    form = Form(parse("2*sin(x)"), {parse("sin(x)"): np.array([1.0, 2.0])}, 2)
    assert form.predict(form.values).tolist() == [2.0, 4.0]


def test_a_line_is_fitted_as_by_least_squares(inputs):
    rng = np.random.default_rng(0)
    target = 3.0 * inputs[X] - 2.0 * inputs[Y] + 1.0 + rng.normal(size=40)
    form = Form(parse("0.5*x + 0.5*y + 0.5"), inputs, 40)
    fit = fit_constants(form, target, tolerance=1e-15)
    matrix = np.array([inputs[X], inputs[Y], np.ones(40)]).T
    expected = np.linalg.lstsq(matrix, target, rcond=None)[0]
    np.testing.assert_allclose(fit.values, expected, rtol=1e-6)
    np.testing.assert_allclose(
        fit.covariance, np.linalg.inv(matrix.T @ matrix), rtol=1e-6
    )


def test_inner_constants_are_found_to_round_off(inputs):
    target = 1.7 * np.exp(-2.3 * inputs[X]) + 0.4 * np.sin(3.1 * inputs[Y])
    form = Form(parse("1.5*exp(-2*x) + 0.5*sin(3*y)"), inputs, 40)
    fit = fit_constants(form, target)
    np.testing.assert_allclose(fit.values, [1.7, -2.3, 0.4, 3.1], rtol=1e-9)


def test_fixed_constants_stay(inputs):
    target = 3.0 * inputs[X] + 1.0
    form = Form(parse("2*x + 5"), inputs, 40)
    fit = fit_constants(form, target, np.array([False, True]), tolerance=1e-15)
    assert fit.values[0] == 2.0
    assert fit.values[1] == pytest.approx(float(np.mean(target - 2 * inputs[X])))


def test_a_step_out_of_the_domain_is_refused():
    rows = {X: np.linspace(0.0, 1.0, 20)}
    target = np.log(rows[X] + 1e-3)
    fit = fit_constants(Form(parse("log(x + 0.5)"), rows, 20), target)
    assert fit.ok
    assert fit.values[0] == pytest.approx(1e-3, rel=1e-4)


def test_an_undefined_start_is_reported_not_hidden(inputs):
    fit = fit_constants(Form(parse("log(x - 5)"), inputs, 40), inputs[X])
    assert not fit.ok
    assert fit.rmse == np.inf


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scales(inputs, scale):
    form = Form(parse("1*x + 1*y"), inputs, 40)
    fit = fit_constants(form, scale * (2.0 * inputs[X] - inputs[Y]))
    np.testing.assert_allclose(fit.values, [2.0 * scale, -scale], rtol=1e-9)


def test_a_constant_without_effect_has_no_known_precision(inputs):
    form = Form(parse("x + 0*(3*y)"), inputs, 40)
    fit = fit_constants(form, inputs[X], np.array([False, True]))
    assert fit.covariance[0, 0] == np.inf


def test_a_start_whose_squared_error_is_no_double_is_no_fit() -> None:
    x = np.linspace(1.0, 2.0, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        form = Form(parse("1.5e155*x"), {variable("x"): x}, len(x))
        fit = fit_constants(form, 3.0 * x)
        assert not fit.ok
        # sqrt of the mean of x^2 over 20 steps from 1 to 2, by hand 1.53039.
        assert fit.rmse == pytest.approx(1.5e155 * 1.53039, rel=1e-4)
        near = Form(parse("1.5e150*x"), {variable("x"): x}, len(x))
        assert fit_constants(near, 3.0 * x).values == pytest.approx([3.0])


def test_constants_stay_finite_where_infinite_ones_would_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.linspace(1.0, 2.0, 20)
    form = Form(parse("tanh(2*x)"), {variable("x"): x}, len(x))

    def leap(_hessian: object, gradient: np.ndarray, _damping: float) -> np.ndarray:
        return np.where(gradient < 0.0, 1.7e308, -1.7e308)

    monkeypatch.setattr(fitting, "_solve", leap)
    fit = fit_constants(form, np.ones(len(x)))
    assert np.all(np.isfinite(fit.values))
    assert fit.ok


@pytest.mark.parametrize("start", [math.inf, -math.inf, math.nan])
def test_constants_that_are_not_finite_are_no_start(start: float) -> None:
    # The formula itself would be finite: 1/inf is 0.
    x = np.linspace(1.0, 2.0, 20)
    form = Form(parse("1/(3*x) + 2"), {variable("x"): x}, len(x))
    fit = fit_constants(form, np.full(len(x), 2.0), values=np.array([1.0, start, 2.0]))
    assert not fit.ok
    assert fit.rmse == math.inf
