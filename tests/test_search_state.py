import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_fakes import column, state
from sr4mdl import moves
from sr4mdl.closing.problem import OuterStep, identity_outer
from sr4mdl.search.state import ColumnTable, State, Target, fingerprint, usable
from sr4mdl.text import parse

X = np.array([0.3, 1.7, 2.2, -0.8])


def test_round_off_does_not_tell_columns_apart() -> None:
    assert fingerprint(X) == fingerprint(X * 3.0 / 3.0)
    assert fingerprint((X + 1.0) - 1.0) == fingerprint(X)
    assert fingerprint(X) != fingerprint(X * (1.0 + 1e-6))
    assert fingerprint(X) != fingerprint(-X)
    assert fingerprint(X) != fingerprint(X[::-1])


def test_a_cancelled_zero_is_zero() -> None:
    assert fingerprint(np.array([1.0, 1e-17])) == fingerprint(np.array([1.0, -0.0]))
    # But small values are values where all are small.
    assert fingerprint(np.array([1e-30, 2e-30])) != fingerprint(np.array([1e-30, 0.0]))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8),
    st.sampled_from([1e-30, 1.0, 1e30]),
)
def test_fingerprints_do_not_depend_on_how_the_array_lies(
    values: list[float], scale: float
) -> None:
    numbers = np.array(values) * scale
    wide = np.zeros((len(numbers), 3))
    wide[:, 1] = numbers
    assert fingerprint(wide[:, 1]) == fingerprint(numbers)


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ([1.0, np.nan], "not finite"),
        ([1.0, np.inf], "not finite"),
        ([1.0, 1e160], "not finite"),
        ([2.0, 2.0], "constant"),
        ([0.0, 0.0], "constant"),
        ([1.0, 1.0 + 1e-15], "constant"),
        ([1e-30, 2e-30], ""),
        ([1e30, 2e30], ""),
    ],
)
def test_what_can_be_a_column(values: list[float], cause: str) -> None:
    assert usable(np.array(values)) == cause


def test_equal_columns_are_one_under_the_shortest_formula() -> None:
    table = ColumnTable()
    longer = table.intern(parse("(x + 1) - 1"), (X + 1.0) - 1.0)
    shorter = table.intern(parse("x"), X)
    again = table.intern(parse("x*1"), X * 1.0)
    assert longer.key == shorter.key
    assert shorter.expression == parse("x")
    assert again is shorter
    assert len(table) == 1


def test_columns_that_nobody_holds_are_forgotten() -> None:
    table = ColumnTable()
    held = table.intern(parse("x"), X)
    table.intern(parse("x^2"), X * X)
    assert len(table) == 1
    assert table.intern(parse("x"), X) is held


def test_equal_states_have_one_key_in_any_order() -> None:
    a, b = column("a", [1.0, 2.0]), column("b", [3.0, 5.0])
    target = Target.original(np.array([1.0, 4.0]))
    assert State.of((a, b), target).key == State.of((b, a), target).key
    assert State.of((a,), target).key != State.of((a, b), target).key


def test_equal_targets_by_other_ways_are_one_state() -> None:
    y = np.array([1.0, 4.0, 9.0])
    outer = identity_outer(y).then(OuterStep("sqrt"))
    assert outer is not None
    back = outer.then(OuterStep("square"))
    assert back is not None
    assert Target.of(back).key == Target.original(y).key
    assert Target.of(outer).key != Target.original(y).key
    assert [step.operator for step in Target.of(back).steps] == ["sqrt", "square"]


def test_states_print_their_columns_and_steps() -> None:
    one = state({"x": [1.0, 2.0], "x^2": [1.0, 4.0]}, [1.0, 3.0])
    assert str(one) == "{x, x^2} -> y"
    outer = one.target.outer.then(OuterStep("div", parse("x")), np.array([1.0, 2.0]))
    assert outer is not None
    assert str(State.of(one.columns, Target.of(outer))) == "{x, x^2} -> div[x].y"


def test_the_table_of_moves_is_the_one_the_search_was_written_for() -> None:
    assert moves.MOVES_VERSION == 1
