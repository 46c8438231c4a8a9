from collections.abc import Iterator

import numpy as np
import pytest

from search_fakes import state
from sr4mdl import moves
from sr4mdl.operators import get_operator, register_operator, unregister_operator
from sr4mdl.search.actions import (
    DROP_ALL,
    DROP_FIRST,
    DROP_SECOND,
    ActionTable,
    association,
    least_useful,
)
from sr4mdl.search.state import ColumnTable, State
from sr4mdl.selection.limits import Limits

ROWS = {"a": [1.0, 2.0, 3.0], "b": [2.0, 5.0, 4.0], "c": [0.0, -1.0, 2.0]}
STATE = state(ROWS, [1.0, 2.0, 4.0])


def unary(column: int, name: str, constant: float | None = None) -> int:
    for number, action in enumerate(moves.COLUMN_ACTIONS):
        if (
            action.operator.name == name
            and action.constant == constant
            and not action.constant_first
            and not action.peels_target
        ):
            return moves.column_move_id(column, number)
    raise AssertionError(name)


def peel(column: int, name: str) -> int:
    for number, action in enumerate(moves.COLUMN_ACTIONS):
        if action.operator.name == name and action.peels_target:
            return moves.column_move_id(column, number)
    raise AssertionError(name)


def pair(name: str, first: int, second: int) -> int:
    return moves.pair_move_id(
        moves.PAIR_OPERATORS.index(get_operator(name)), first, second
    )


def target(name: str) -> int:
    return moves.target_move_id(moves.TARGET_TRANSFORMS.index(get_operator(name)))


def make(one: State = STATE, **settings: object) -> ActionTable:
    return ActionTable(ColumnTable(), one.columns, **settings)  # type: ignore[arg-type]


def child(table: ActionTable, one: State, code: int) -> State:
    result = table.apply(one, code)
    assert isinstance(result, State), result
    return result


def shown(one: State) -> list[str]:
    return [str(column.expression) for column in one.columns]


def test_moves_make_columns() -> None:
    table = make()
    square = child(table, STATE, unary(1, "square"))
    assert shown(square) == ["a", "b", "c", "b^2"]
    assert square.columns[3].values.tolist() == [4.0, 25.0, 16.0]
    assert shown(child(table, STATE, pair("sub", 2, 0)))[-1] == "c - a"
    assert shown(child(table, STATE, unary(0, "add", 2.0)))[-1] == "a + 2"
    for number, action in enumerate(moves.COLUMN_ACTIONS):
        if action.constant_first and action.constant == 1.0:
            turned = child(table, STATE, moves.column_move_id(0, number))
            assert shown(turned)[-1] == "1 - a"
            assert turned.columns[-1].values.tolist() == [0.0, -1.0, -2.0]


def test_moves_on_the_target() -> None:
    table = make()
    root = child(table, STATE, target("sqrt"))
    assert root.columns == STATE.columns
    assert root.target.values.tolist() == [1.0, np.sqrt(2.0), 2.0]
    assert [step.operator for step in root.target.steps] == ["sqrt"]
    peeled = child(table, STATE, peel(1, "sub"))
    assert peeled.target.values.tolist() == [-1.0, -3.0, 0.0]
    assert str(peeled) == "{a, b, c} -> sub[b].y"


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (unary(2, "sqrt"), "not finite"),
        (unary(2, "inv"), "not finite"),
        (peel(2, "div"), "not invertible"),
        (target("sin"), "not invertible"),
        (peel(0, "sub"), ""),
    ],
)
def test_moves_that_lead_nowhere_say_why(code: int, cause: str) -> None:
    result = make().apply(STATE, code)
    assert (result if isinstance(result, str) else "") == cause


def test_constants_and_duplicates_are_refused() -> None:
    table = make()
    mirror = state({"a": [1.0, 2.0, 3.0], "m": [3.0, 2.0, 1.0]}, [1.0, 2.0, 4.0])
    assert table.apply(mirror, pair("add", 0, 1)) == "constant"
    same = state({"a": [1.0, 0.0, 1.0], "b": [2.0, 5.0, 4.0]}, [1.0, 2.0, 4.0])
    assert table.apply(same, unary(0, "square")) == "duplicate column"
    solved = state({"a": [1.0, 2.0, 3.0]}, [2.0, 3.0, 4.0])
    assert table.apply(solved, peel(0, "sub")) == "target constant"


def test_lengths_and_depths_are_bounded() -> None:
    table = make(max_length=3, max_outer_steps=1)
    sum_ = child(table, STATE, pair("add", 0, 1))
    assert table.apply(sum_, pair("mul", 2, 3)) == "too long"
    peeled = child(table, STATE, target("square"))
    assert table.apply(peeled, target("inv")) == "target too deep"


def full_state(n_columns: int) -> State:
    rng = np.random.default_rng(0)
    columns = {f"v{i}": rng.uniform(1, 2, 5).tolist() for i in range(n_columns)}
    return state(columns, rng.uniform(1, 2, 5).tolist())


def test_crowded_states_offer_to_drop_operands() -> None:
    roomy, crowded = full_state(7), full_state(8)
    table = make(crowded)
    assert np.array_equal(table.codes(roomy), np.flatnonzero(moves.legal_moves(7)))
    codes = table.codes(crowded)
    dropping = codes[codes >= table.n_base] % table.n_base
    assert len(np.unique(codes)) == len(codes)
    # Moves on the target use up no column.
    on_target = [table.decode(int(code)).on_target for code in dropping]
    assert not any(on_target)
    assert len(dropping) == moves.legal_moves(8).sum() - 8 * 4 - 8
    code = pair("mul", 1, 3) + DROP_ALL * table.n_base
    assert shown(child(table, crowded, code)) == [
        "v0", "v2", "v4", "v5", "v6", "v7", "v1*v3",
    ]  # fmt: skip


def test_a_full_state_gives_up_what_lives_on_inside_another_column() -> None:
    one = full_state(10)
    table = make(one)
    assert table.apply(one, pair("mul", 1, 3)) == "no room"
    nine = full_state(9)
    ten = child(table, nine, pair("mul", 1, 3))
    assert len(ten.columns) == 10
    eleventh = child(table, ten, unary(0, "square"))
    assert len(eleventh.columns) == 10
    gone = set(shown(ten)) - set(shown(eleventh))
    assert gone <= {"v1", "v3"}
    assert len(gone) == 1
    weaker = min(
        (column for column in ten.columns if str(column.expression) in ("v1", "v3")),
        key=lambda column: association(column.values, ten.target.values),
    )
    assert gone == {str(weaker.expression)}
    assert least_useful(nine.columns, [], nine.columns[0], nine.target) is not None


def test_correlation_by_hand() -> None:
    assert association(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])) == (
        pytest.approx(1.0)
    )
    # Covariance 1 * 1 against sqrt(2) * sqrt(2/3) * ... = 0.5.
    assert association(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])) == (
        pytest.approx(0.5)
    )
    assert association(np.array([1e-200, 2e-200]), np.array([-1e200, 1e200])) == (
        pytest.approx(1.0)
    )


def test_the_papers_style_offers_all_variants_and_leaves_the_target() -> None:
    table = make(paper=True)
    codes = table.codes(STATE)
    variants, base = np.divmod(codes, table.n_base)
    n_moves = np.sum(variants == 0)
    # 3 columns x 29 actions that make a column; pairs: 2 x 3 ordered, 3 x 6.
    assert n_moves == 3 * 29 + 2 * 3 + 3 * 6
    assert np.sum(variants == DROP_ALL) == n_moves
    assert np.sum(variants == DROP_FIRST) == np.sum(variants == DROP_SECOND) == 24
    assert not any(table.decode(int(code)).on_target for code in base)


def test_the_papers_style_protects_few_variables_and_brings_them_back() -> None:
    table = make(paper=True)
    square = unary(1, "square")
    assert table.apply(STATE, square + DROP_ALL * table.n_base) == "nothing to drop"
    many = full_state(6)
    table = ActionTable(ColumnTable(), many.columns, paper=True)
    less = child(table, many, square + DROP_ALL * table.n_base)
    assert shown(less) == ["v0", "v2", "v3", "v4", "v5", "v1^2"]
    assert [str(one.expression) for one in table.operands(less)] == [
        *shown(less), "v1",
    ]  # fmt: skip
    # v1 as an operand, though it is no column any more.
    both = child(table, less, pair("mul", 0, 6))
    assert shown(both)[-1] == "v0*v1"


def test_pairs_can_give_up_either_operand() -> None:
    many = full_state(6)
    table = ActionTable(ColumnTable(), many.columns, paper=True)
    code = pair("div", 2, 0)
    first = child(table, many, code + DROP_FIRST * table.n_base)
    second = child(table, many, code + DROP_SECOND * table.n_base)
    assert shown(first) == ["v0", "v1", "v3", "v4", "v5", "v2/v0"]
    assert shown(second) == ["v1", "v2", "v3", "v4", "v5", "v2/v0"]


def test_operators_can_be_restricted() -> None:
    table = make(operators=("add", "sin", "sqrt"))
    names = {
        (table.decode(int(code)).operator.name, table.decode(int(code)).on_target)
        for code in table.codes(STATE)
    }
    # Squaring y is undone by a root, taking a column off by adding it again.
    assert names == {
        ("add", False), ("sin", False), ("sqrt", False), ("square", True),
        ("sub", True),
    }  # fmt: skip


def test_columns_and_targets_keep_to_the_nesting() -> None:
    table = make(limits=Limits(nesting={"sin": {"sin": 0}, "exp": {"exp": 1}}))
    once = child(table, STATE, unary(0, "sin"))
    assert str(once.columns[-1].expression) == "sin(a)"
    assert table.apply(once, unary(3, "sin")) == "nesting"
    assert isinstance(table.apply(once, unary(3, "cos")), State)
    # What log peels off y, exp puts on: exp(exp(...)) may be, a third one not.
    steep = state({"a": [1.0, 2.0, 3.0]}, [1e3, 1e9, 1e27])
    table = make(steep, limits=Limits(nesting={"exp": {"exp": 1}}))
    twice = child(table, child(table, steep, target("log")), target("log"))
    assert table.apply(twice, target("log")) == "target nesting"


def test_columns_are_no_longer_than_formulas_may_be() -> None:
    table = make(limits=Limits(max_length=2))
    assert isinstance(table.apply(STATE, unary(0, "sin")), State)
    assert table.apply(STATE, pair("add", 0, 1)) == "too long"


@pytest.fixture
def doubled() -> Iterator[None]:
    register_operator("twice", lambda x: x + x)
    register_operator("across", np.hypot, arity=2, commutes=True)
    yield
    unregister_operator("twice")
    unregister_operator("across")


@pytest.mark.usefixtures("doubled")
def test_registered_operators_are_moves_without_prior() -> None:
    table = make()
    codes = table.codes(STATE)
    own = codes[codes >= moves.N_MOVES]
    assert len(own) == 3 + 3
    assert {shown(child(table, STATE, int(code)))[-1] for code in own} == {
        "twice(a)", "twice(b)", "twice(c)",
        "across(a, b)", "across(a, c)", "across(b, c)",
    }  # fmt: skip
    policy = np.where(moves.legal_moves(3), 0.0, -np.inf)
    priors = table.priors(STATE, codes, policy, 0.0)
    assert priors.sum() == pytest.approx(1.0)
    assert priors[codes >= moves.N_MOVES] == pytest.approx(np.full(6, 0.1 / 6))
    none = make(operators=("add", "across"))
    assert np.sum(none.codes(STATE) >= moves.N_MOVES) == 3


def test_priors_follow_the_policy_by_hand() -> None:
    table = make()
    codes = table.codes(STATE)
    policy = np.full(moves.N_MOVES, -np.inf)
    policy[[unary(0, "sin"), pair("add", 0, 1)]] = np.log([0.6, 0.2])
    priors = table.priors(STATE, codes, policy, 0.2)
    n = len(codes)
    # 0.6 : 0.2 is 3 : 1 of the 80 % that the policy has to give.
    assert priors[codes == unary(0, "sin")] == pytest.approx(0.6 + 0.2 / n)
    assert priors[codes == pair("add", 0, 1)] == pytest.approx(0.2 + 0.2 / n)
    assert priors[codes == unary(0, "cos")] == pytest.approx(0.2 / n)
    assert priors.sum() == pytest.approx(1.0)


def test_variants_share_the_prior_of_their_move() -> None:
    crowded = full_state(8)
    table = make(crowded)
    codes = table.codes(crowded)
    policy = np.full(moves.N_MOVES, -np.inf)
    policy[[unary(0, "sin"), target("sqrt")]] = np.log([0.5, 0.5])
    priors = table.priors(crowded, codes, policy, 0.0)
    assert priors[codes == target("sqrt")] == pytest.approx(0.5)
    assert priors[codes % table.n_base == unary(0, "sin")] == (
        pytest.approx([0.25, 0.25])
    )


def test_a_policy_that_knows_none_of_the_moves_leaves_them_equal() -> None:
    table = make(operators=("add",))
    codes = table.codes(STATE)
    policy = np.full(moves.N_MOVES, -np.inf)
    assert table.priors(STATE, codes, policy, 0.0) == (
        pytest.approx(np.full(len(codes), 1 / len(codes)))
    )
