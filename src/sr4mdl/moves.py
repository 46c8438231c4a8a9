"""The table of moves that corpus, network and search share.

A state is up to ``MAX_COLUMNS`` columns and a target. A move makes a new column from
one or two columns, or replaces the target by a transform of it:

=============  ==============================  ==========================
kind           what it does                    id
=============  ==============================  ==========================
column         a unary operator on column i,   ``i * N_COLUMN_ACTIONS + a``
               column i with a small constant,
               or the target combined with
               column i (peeling it off)
pair           a binary operator on columns    ``FIRST_PAIR + (p * MAX_COLUMNS
               i and j (i < j if it commutes)  + i) * MAX_COLUMNS + j``
target         an outer transform of the       ``FIRST_TARGET + t``
               target
=============  ==============================  ==========================

The order of actions is part of the weights format: a network's policy head has one
logit per id. ``MOVES_VERSION`` changes when the table does.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from sr4mdl._typing import BoolArray
from sr4mdl.operators import Operator, get_operator

MAX_COLUMNS: Final = 10
MOVES_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ColumnAction:
    """Something done to one column; exactly one of the three forms below."""

    operator: Operator
    """What is applied."""
    constant: float | None = None
    """The other operand of a binary operator, or None."""
    constant_first: bool = False
    """Whether the constant is the first operand, as in 1 - column."""
    peels_target: bool = False
    """Whether it replaces the target y by ``operator(y, column)``."""


_UNARY_NAMES: Final = (
    "sqrt", "square", "cube", "inv", "neg", "abs", "exp", "log", "sin", "cos", "tan",
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
)  # fmt: skip

COLUMN_ACTIONS: Final[tuple[ColumnAction, ...]] = (
    *(ColumnAction(get_operator(name)) for name in _UNARY_NAMES),
    ColumnAction(get_operator("add"), 1.0),
    ColumnAction(get_operator("sub"), 1.0),
    ColumnAction(get_operator("sub"), 1.0, constant_first=True),
    ColumnAction(get_operator("add"), 2.0),
    ColumnAction(get_operator("sub"), 2.0),
    ColumnAction(get_operator("sub"), 2.0, constant_first=True),
    ColumnAction(get_operator("mul"), 2.0),
    ColumnAction(get_operator("div"), 2.0),
    ColumnAction(get_operator("mul"), 3.0),
    ColumnAction(get_operator("div"), 3.0),
    ColumnAction(get_operator("mul"), math.pi),
    ColumnAction(get_operator("div"), math.pi),
    ColumnAction(get_operator("add"), peels_target=True),
    ColumnAction(get_operator("sub"), peels_target=True),
    ColumnAction(get_operator("mul"), peels_target=True),
    ColumnAction(get_operator("div"), peels_target=True),
)
"""Actions on one column, in the order of the network's column head."""

PAIR_OPERATORS: Final[tuple[Operator, ...]] = tuple(
    get_operator(name) for name in ("add", "sub", "mul", "div", "pow")
)
"""Binary operators on two columns, in the order of the network's pair head."""

TARGET_TRANSFORMS: Final[tuple[Operator, ...]] = tuple(
    get_operator(name)
    for name in ("square", "sqrt", "inv", "log", "exp", "sin", "cos", "tan")
)
"""Outer transforms of the target, in the order of the network's target head."""

N_COLUMN_ACTIONS: Final = len(COLUMN_ACTIONS)
N_PAIR_OPERATORS: Final = len(PAIR_OPERATORS)
N_TARGET_TRANSFORMS: Final = len(TARGET_TRANSFORMS)
FIRST_PAIR: Final = MAX_COLUMNS * N_COLUMN_ACTIONS
FIRST_TARGET: Final = FIRST_PAIR + N_PAIR_OPERATORS * MAX_COLUMNS * MAX_COLUMNS
N_MOVES: Final = FIRST_TARGET + N_TARGET_TRANSFORMS


@dataclass(frozen=True, slots=True)
class Move:
    """One move in full."""

    kind: Literal["column", "pair", "target"]
    operator: Operator
    first: int | None = None
    """Column of the first operand; None for target transforms."""
    second: int | None = None
    """Column of the second operand of a pair."""
    action: ColumnAction | None = None
    """The action of a column move."""


def column_move_id(column: int, action: int) -> int:
    """Return the id of action number ``action`` on ``column``."""
    return column * N_COLUMN_ACTIONS + action


def pair_move_id(operator: int, first: int, second: int) -> int:
    """Return the id of pair operator number ``operator`` on two columns."""
    if PAIR_OPERATORS[operator].commutes and first > second:
        first, second = second, first
    return FIRST_PAIR + (operator * MAX_COLUMNS + first) * MAX_COLUMNS + second


def target_move_id(transform: int) -> int:
    """Return the id of outer transform number ``transform`` of the target."""
    return FIRST_TARGET + transform


def decode_move(move_id: int) -> Move:
    """Return the move with that id."""
    if not 0 <= move_id < N_MOVES:
        raise ValueError(f"move_id must be from 0 to {N_MOVES - 1}, got {move_id}")
    if move_id < FIRST_PAIR:
        column, number = divmod(move_id, N_COLUMN_ACTIONS)
        action = COLUMN_ACTIONS[number]
        return Move("column", action.operator, first=column, action=action)
    if move_id < FIRST_TARGET:
        number, pair = divmod(move_id - FIRST_PAIR, MAX_COLUMNS * MAX_COLUMNS)
        first, second = divmod(pair, MAX_COLUMNS)
        return Move("pair", PAIR_OPERATORS[number], first=first, second=second)
    return Move("target", TARGET_TRANSFORMS[move_id - FIRST_TARGET])


def legal_moves(n_columns: int) -> BoolArray:
    """Return the mask of shape (N_MOVES,) of the moves a state of n columns has."""
    if not 1 <= n_columns <= MAX_COLUMNS:
        raise ValueError(f"n_columns must be from 1 to {MAX_COLUMNS}, got {n_columns}")
    mask = np.zeros(N_MOVES, dtype=np.bool_)
    mask[: n_columns * N_COLUMN_ACTIONS] = True
    for number, operator in enumerate(PAIR_OPERATORS):
        for first in range(n_columns):
            for second in range(n_columns):
                if first < second or (first != second and not operator.commutes):
                    mask[pair_move_id(number, first, second)] = True
    mask[FIRST_TARGET:] = True
    return mask
