"""Outer steps: domains, branches and their undoing."""

import math

import numpy as np
import pytest

from sr4mdl.closing.problem import (
    TRANSFORMS,
    ClosingProblem,
    OuterStep,
    identity_outer,
)
from sr4mdl.evaluate import evaluate_one
from sr4mdl.expressions import variable
from sr4mdl.text import parse

RANGES = {
    "square": (-3.0, -1.0),
    "sqrt": (0.5, 3.0),
    "inv": (-2.0, -0.5),
    "inverse_square": (-2.0, -0.5),
    "log": (-3.0, -0.5),
    "exp": (-2.0, 2.0),
    "sin": (-1.5, 1.5),
    "cos": (0.1, 3.1),
    "tan": (-1.5, 1.5),
    "arcsin": (-0.9, 0.9),
    "arccos": (-0.9, 0.9),
    "arctan": (-4.0, 4.0),
    "neg": (-1.0, 1.0),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_step_is_undone_in_numbers_and_in_formulas(name):
    y = np.linspace(*RANGES[name], 21)
    chain = identity_outer(y).then(OuterStep(name))
    assert chain is not None
    np.testing.assert_allclose(
        chain.undo_values(chain.values), y, rtol=1e-12, atol=1e-15
    )
    formula = chain.undo(variable("t"))
    again = evaluate_one(formula, chain.values[:, None], ["t"])
    np.testing.assert_allclose(again, y, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_slope_is_the_derivative_of_y(name):
    y = np.linspace(*RANGES[name], 21)
    chain = identity_outer(y).then(OuterStep(name))
    step = 1e-6 * np.maximum(np.abs(chain.values), 1e-3)
    slope = chain.undo_values(chain.values + step) - chain.undo_values(
        chain.values - step
    )
    inside = slice(3, -3)
    np.testing.assert_allclose(
        chain.slope[inside], np.abs(slope / (2 * step))[inside], rtol=1e-4
    )


@pytest.mark.parametrize(
    ("name", "y"),
    [
        ("square", [-1.0, 2.0]),  # the sign would be lost
        ("sqrt", [-1.0, 2.0]),
        ("inv", [0.0, 2.0]),
        ("inverse_square", [-1.0, 2.0]),
        ("log", [-1.0, 2.0]),
        ("log", [0.0, 2.0]),
        ("exp", [0.0, 800.0]),
        ("sin", [0.0, 2.0]),  # beyond pi/2 the arcsine gives another angle
        ("cos", [-0.5, 2.0]),
        ("tan", [0.0, 2.0]),
        ("arcsin", [0.0, 1.5]),
    ],
)
def test_a_step_that_cannot_be_undone_is_declined(name, y):
    assert identity_outer(np.array(y)).then(OuterStep(name)) is None


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_a_peel_is_undone(name):
    y, operand = np.array([1.0, -2.0, 3.0]), np.array([2.0, 4.0, -8.0])
    chain = identity_outer(y).then(OuterStep(name, variable("u")), operand)
    np.testing.assert_allclose(chain.undo_values(chain.values), y)
    rows = np.array([chain.values, operand]).T
    again = evaluate_one(chain.undo(variable("t")), rows, ["t", "u"])
    np.testing.assert_allclose(again, y)


def test_dividing_by_a_column_with_a_zero_is_declined():
    chain = identity_outer(np.array([1.0, 2.0]))
    step = OuterStep("div", variable("u"))
    assert chain.then(step, np.array([0.0, 1.0])) is None


def test_steps_are_undone_last_first():
    y = np.array([1.0, 2.0, 4.0])
    chain = identity_outer(y).then(OuterStep("inv"))
    chain = chain.then(OuterStep("sub", parse("x")), np.array([0.5, 0.25, 0.125]))
    assert chain.values.tolist() == [0.5, 0.25, 0.125]
    assert str(chain.undo(variable("t"))) == "1/(t + x)"


def test_a_wrong_step_lists_what_is_allowed():
    with pytest.raises(ValueError, match="inverse_square"):
        OuterStep("gamma")
    with pytest.raises(ValueError, match="add, sub, mul, div"):
        OuterStep("pow", variable("x"))


def test_a_problem_checks_its_shapes():
    rows = np.ones((4, 2))
    names = ("a", "b")
    with pytest.raises(ValueError, match=r"y must have shape"):
        ClosingProblem.root(rows, np.ones((4, 1)), names)
    with pytest.raises(ValueError, match=r"inputs must have shape \(3, 2\)"):
        ClosingProblem.root(rows, np.ones(3), names)
    with pytest.raises(ValueError, match="y must hold finite numbers"):
        ClosingProblem.root(rows, np.array([1.0, math.nan, 1.0, 1.0]), names)


def test_a_problem_applies_its_outer_steps():
    rows = np.array([[1.0], [2.0], [4.0]])
    y = np.array([2.0, 8.0, 32.0])
    problem = ClosingProblem(
        rows,
        ("x",),
        rows,
        (variable("x"),),
        y,
        (OuterStep("div", parse("x^2")), OuterStep("log")),
    )
    np.testing.assert_allclose(problem.resolve().values, np.log([2.0, 2.0, 2.0]))
    assert problem.take(np.array([2])).y.tolist() == [32.0]
