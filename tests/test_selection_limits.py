import numpy as np
import pytest

from sr4mdl.closing import ClosingProblem, close_state
from sr4mdl.selection.limits import Limits, allowed_operators, check_nesting
from sr4mdl.text import parse


def test_spellings_of_allowed_operators_are_allowed() -> None:
    assert allowed_operators(None) is None
    assert allowed_operators(("add", "sin")) == {"add", "sin"}
    assert allowed_operators(("add", "mul")) == {
        "add", "sub", "neg", "mul", "square", "cube",
    }  # fmt: skip
    assert allowed_operators(("sub", "mul", "div")) == {
        "sub", "neg", "mul", "square", "cube", "div", "inv",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "allowed"),
    [
        ("sin(x)", True),
        ("sin(x) + sin(y)", True),  # beside each other, not nested
        ("sin(sin(x))", False),
        ("sin(1 + 2*sin(x))", False),  # at any depth below
        ("sin(cos(x))", True),  # one level of cos in sin
        ("sin(cos(x) + cos(y))", True),  # two, but not on one way down
        ("sin(cos(cos(x)))", False),
        ("cos(sin(sin(x)))", False),
        ("cos(cos(cos(x)))", True),  # nothing is said of cos
        ("exp(sin(x))", True),
    ],
)
def test_nesting_counts_levels_below(formula: str, allowed: bool) -> None:
    limits = Limits(nesting={"sin": {"sin": 0, "cos": 1}})
    assert limits.permits(parse(formula)) is allowed
    assert limits.fault(parse(formula)) == ("" if allowed else "nesting")


def test_faults_by_name() -> None:
    limits = Limits(frozenset({"add", "sin"}), max_length=3)
    assert limits.fault(parse("x + y")) == ""
    assert limits.fault(parse("x*y")) == "operator"
    assert limits.fault(parse("x + sin(y)")) == "too long"
    assert not Limits().any
    assert limits.any


def test_a_factor_may_be_rounded_away() -> None:
    limits = Limits(max_length=3)
    assert limits.may_become(parse("1.5*x*y"))
    assert not limits.may_become(parse("x*y*z"))
    assert not limits.permits(parse("1.5*x*y"))


@pytest.mark.parametrize(
    ("nesting", "message"),
    [
        ({"sine": {"sin": 0}}, "sine"),
        ({"sin": {"sin": -1}}, "0 or more, got -1 for 'sin' in 'sin'"),
        ({"sin": {"sin": True}}, "got True"),
        ({"sin": {"sin": 1.0}}, "got 1.0"),
        ({"sin": "sin"}, "got 'sin' for 'sin'"),
        ("sin", "got 'sin'"),
    ],
)
def test_wrong_nesting_names_itself(nesting: object, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        check_nesting(nesting)


def test_closing_offers_only_what_is_allowed() -> None:
    X = np.random.default_rng(0).uniform(0.5, 3.0, (100, 2))
    y = np.sin(X[:, 0]) * X[:, 1]
    problem = ClosingProblem.root(X, y, ("a", "b"))
    free = close_state(problem, "quick")
    assert str(free.candidates[0].expression) in ("b*sin(a)", "sin(a)*b")
    for limits in (
        Limits(allowed_operators(("add", "mul"))),
        Limits(max_length=5),
        Limits(nesting={"mul": {"sin": 0}}),
    ):
        found = close_state(problem, "full", 60.0, limits).candidates
        assert found
        assert all(limits.permits(one.expression) for one in found)
        assert found[0].bits < next(
            one.bits for one in found if one.expression.length == 1
        )
