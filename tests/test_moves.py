import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sr4mdl.moves import (
    COLUMN_ACTIONS,
    FIRST_PAIR,
    FIRST_TARGET,
    MAX_COLUMNS,
    MOVES_VERSION,
    N_COLUMN_ACTIONS,
    N_MOVES,
    N_PAIR_OPERATORS,
    N_TARGET_TRANSFORMS,
    PAIR_OPERATORS,
    TARGET_TRANSFORMS,
    column_move_id,
    decode_move,
    legal_moves,
    pair_move_id,
    target_move_id,
)
from sr4mdl.operators import all_operators


def test_the_table_is_frozen() -> None:
    # The order is part of the weights format: a change needs a new MOVES_VERSION.
    assert MOVES_VERSION == 1
    assert [
        (action.operator.name, action.constant, action.constant_first)
        for action in COLUMN_ACTIONS
        if action.constant is not None
    ] == [
        ("add", 1.0, False),
        ("sub", 1.0, False),
        ("sub", 1.0, True),
        ("add", 2.0, False),
        ("sub", 2.0, False),
        ("sub", 2.0, True),
        ("mul", 2.0, False),
        ("div", 2.0, False),
        ("mul", 3.0, False),
        ("div", 3.0, False),
        ("mul", np.pi, False),
        ("div", np.pi, False),
    ]
    peeling = [action for action in COLUMN_ACTIONS if action.peels_target]
    assert [action.operator.name for action in peeling] == ["add", "sub", "mul", "div"]
    assert [operator.name for operator in PAIR_OPERATORS] == [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
    ]
    assert [operator.name for operator in TARGET_TRANSFORMS] == [
        "square",
        "sqrt",
        "inv",
        "log",
        "exp",
        "sin",
        "cos",
        "tan",
    ]


def test_counts_by_hand() -> None:
    assert N_COLUMN_ACTIONS == 17 + 12 + 4
    assert FIRST_PAIR == 10 * 33
    assert FIRST_TARGET == 330 + 5 * 100
    assert N_MOVES == 838


def test_every_unary_operator_is_an_action() -> None:
    unary = {row.name for row in all_operators() if row.builtin and row.arity == 1}
    actions = [
        action.operator.name
        for action in COLUMN_ACTIONS
        if action.constant is None and not action.peels_target
    ]
    assert sorted(actions) == sorted(unary)


def test_an_action_has_one_form() -> None:
    for action in COLUMN_ACTIONS:
        binary = action.constant is not None or action.peels_target
        assert action.operator.arity == (2 if binary else 1)
        assert not (action.peels_target and action.constant is not None)


def test_ids_by_hand() -> None:
    assert column_move_id(0, 0) == 0
    assert column_move_id(2, 5) == 2 * 33 + 5
    assert pair_move_id(0, 0, 1) == 330 + 1
    assert pair_move_id(0, 1, 0) == 330 + 1  # a + b is b + a
    assert pair_move_id(1, 1, 0) == 330 + 100 + 10  # a - b is not b - a
    assert pair_move_id(4, 9, 8) == 330 + 400 + 98
    assert target_move_id(0) == 830
    assert target_move_id(7) == N_MOVES - 1


def test_decoding_by_hand() -> None:
    move = decode_move(2 * 33 + 17)
    assert (move.kind, move.operator.name, move.first) == ("column", "add", 2)
    assert move.action is COLUMN_ACTIONS[17]
    assert move.second is None
    move = decode_move(330 + 300 + 47)
    assert (move.kind, move.operator.name, move.first, move.second) == (
        "pair",
        "div",
        4,
        7,
    )
    assert move.action is None
    move = decode_move(833)
    assert (move.kind, move.operator.name, move.first) == ("target", "log", None)


@given(st.integers(0, N_MOVES - 1))
def test_legal_moves_are_encoded_back(move_id: int) -> None:
    move = decode_move(move_id)
    if move.kind == "column":
        assert move.first is not None
        assert move.action is not None
        back = column_move_id(move.first, COLUMN_ACTIONS.index(move.action))
    elif move.kind == "pair":
        assert move.first is not None
        assert move.second is not None
        number = PAIR_OPERATORS.index(move.operator)
        back = pair_move_id(number, move.first, move.second)
    else:
        back = target_move_id(TARGET_TRANSFORMS.index(move.operator))
    # Of a commuting pair the id with first < second stands for both.
    assert back == move_id or (
        move.operator.commutes and not legal_moves(MAX_COLUMNS)[move_id]
    )


@pytest.mark.parametrize("bad", [-1, N_MOVES])
def test_ids_out_of_range_are_refused(bad: int) -> None:
    with pytest.raises(ValueError, match=f"from 0 to 837, got {bad}"):
        decode_move(bad)


@pytest.mark.parametrize("n_columns", range(1, MAX_COLUMNS + 1))
def test_legal_moves_use_only_columns_there_are(n_columns: int) -> None:
    mask = legal_moves(n_columns)
    assert mask.shape == (N_MOVES,)
    for move_id in np.flatnonzero(mask):
        move = decode_move(int(move_id))
        columns = [place for place in (move.first, move.second) if place is not None]
        assert all(place < n_columns for place in columns)
        assert len(set(columns)) == len(columns)
    n_pairs = n_columns * (n_columns - 1)
    n_commuting = sum(operator.commutes for operator in PAIR_OPERATORS)
    assert mask.sum() == (
        n_columns * N_COLUMN_ACTIONS
        + n_commuting * n_pairs // 2
        + (N_PAIR_OPERATORS - n_commuting) * n_pairs
        + N_TARGET_TRANSFORMS
    )


def test_legal_moves_of_two_columns_by_hand() -> None:
    pairs = np.flatnonzero(legal_moves(2)[FIRST_PAIR:FIRST_TARGET])
    assert pairs.tolist() == [1, 101, 110, 201, 301, 310, 401, 410]


@pytest.mark.parametrize("bad", [0, MAX_COLUMNS + 1])
def test_numbers_of_columns_out_of_range_are_refused(bad: int) -> None:
    with pytest.raises(ValueError, match=f"n_columns must be from 1 to 10, got {bad}"):
        legal_moves(bad)
