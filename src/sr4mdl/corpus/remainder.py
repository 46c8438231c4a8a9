"""What is still missing of a formula, as a tree over columns, in compiled code.

Owns the rules: how many symbols are missing, which moves are correct, and what is
left after one. ``derivation`` walks with it. A working tree is a set of flat
arrays (kind, argument, start, count, child, sign); nodes 0 .. 63 are the columns, the
formula's nodes follow, so that arguments always have lower numbers than what uses
them. See ``states`` for what counts as a correct move.
"""

from typing import Final

import numpy as np
from numba import njit

from sr4mdl import moves
from sr4mdl.corpus.skeletons import COLUMN, CONSTANT, POWER, PRODUCT, SUM, UNARY
from sr4mdl.operators import get_operator

MAX_COLUMN_IDS: Final = 64
FIRST_NODE: Final = MAX_COLUMN_IDS
MAX_FOUND: Final = 256

ADD, SUB, MUL, DIV, POW = (
    get_operator(name).opcode for name in ("add", "sub", "mul", "div", "pow")
)
SQRT, SQUARE, CUBE, INV, NEG, ABS = (
    get_operator(name).opcode
    for name in ("sqrt", "square", "cube", "inv", "neg", "abs")
)
EXP, LOG, SIN, COS, TAN = (
    get_operator(name).opcode for name in ("exp", "log", "sin", "cos", "tan")
)
ARCSIN, ARCCOS, ARCTAN, SINH, COSH, TANH = (
    get_operator(name).opcode
    for name in ("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")
)

# Types of moves inside this module.
COLUMN_MOVE: Final = 0
PAIR_MOVE: Final = 1
TARGET_MOVE: Final = 2

N_UNARY_ACTIONS = sum(
    action.constant is None and not action.peels_target
    for action in moves.COLUMN_ACTIONS
)
ACTION_OPCODE = np.array([a.operator.opcode for a in moves.COLUMN_ACTIONS], np.int64)
ACTION_CONSTANT = np.array(
    [0.0 if a.constant is None else a.constant for a in moves.COLUMN_ACTIONS]
)
ACTION_CONSTANT_FIRST = np.array([a.constant_first for a in moves.COLUMN_ACTIONS])
ACTION_PEELS = np.array([a.peels_target for a in moves.COLUMN_ACTIONS])
PAIR_OPCODE = np.array([op.opcode for op in moves.PAIR_OPERATORS], np.int64)
PAIR_COMMUTES = np.array([op.commutes for op in moves.PAIR_OPERATORS])
TARGET_OPCODE = np.array([op.opcode for op in moves.TARGET_TRANSFORMS], np.int64)
N_ACTIONS: Final = moves.N_COLUMN_ACTIONS
N_PAIRS: Final = moves.N_PAIR_OPERATORS

# Tables by opcode: which action a unary operator is, which transform undoes it.
_UNARY_ACTION = np.full(64, -1, np.int64)
for _number in range(N_UNARY_ACTIONS):
    _UNARY_ACTION[ACTION_OPCODE[_number]] = _number
_UNDO = np.full(64, -1, np.int64)
for _opcode, _undoing in (
    (SQRT, SQUARE), (INV, INV), (EXP, LOG), (LOG, EXP),
    (ARCSIN, SIN), (ARCCOS, COS), (ARCTAN, TAN),
):  # fmt: skip
    _UNDO[_opcode] = int(np.flatnonzero(_undoing == TARGET_OPCODE)[0])
_UNDO_SQUARE: Final = int(np.flatnonzero(TARGET_OPCODE == SQRT)[0])
_UNDO_INVERSE: Final = int(np.flatnonzero(TARGET_OPCODE == INV)[0])
_EVEN = np.zeros(64, np.bool_)
_EVEN[[SQUARE, ABS, COS, COSH]] = True
_ODD = np.zeros(64, np.bool_)
_ODD[[SIN, TAN, ARCSIN, ARCTAN, SINH, TANH, CUBE, INV]] = True
_INVERTS_THROUGH = np.zeros(64, np.bool_)
_INVERTS_THROUGH[[SQUARE, CUBE, SQRT, ABS]] = True
_POSITIVE = np.zeros(64, np.bool_)
_POSITIVE[[EXP, SQRT, SQUARE, ABS, COSH]] = True


@njit(cache=True)
def mark_alive(  # type: ignore[no-untyped-def]
    root, kind, start, count, child, alive
):
    """Mark the nodes that what is missing still needs, the columns included."""
    alive[:] = False
    alive[root] = True
    for node in range(root, -1, -1):
        if alive[node] and kind[node] != COLUMN:
            for edge in range(start[node], start[node] + count[node]):
                alive[child[edge]] = True


@njit(cache=True)
def missing_symbols(root, kind, start, count, child, sign, alive):  # type: ignore[no-untyped-def]
    """Return the symbols still missing; 0 if the target is a column."""
    if kind[root] == COLUMN:
        return 0
    length = np.zeros(root + 1, np.int64)
    for node in range(root + 1):
        if not alive[node]:
            continue
        what = kind[node]
        if what <= COLUMN:
            length[node] = 1
        elif what in (SUM, PRODUCT):
            total = count[node] - 1
            positive = False
            for edge in range(start[node], start[node] + count[node]):
                total += length[child[edge]]
                positive = positive or sign[edge] > 0
            length[node] = total if positive else total + 1
        else:
            total = 1
            for edge in range(start[node], start[node] + count[node]):
                total += length[child[edge]]
            length[node] = total
    return length[root]


@njit(cache=True)
def mark_free(  # type: ignore[no-untyped-def]
    root, kind, argument, start, count, child, sign, alive, sign_free, inverse_free
):
    """Mark where turning the sign, or inverting, costs no symbol."""
    sign_free[:] = True
    inverse_free[:] = True
    inverse_free[root] = False
    for node in range(root, -1, -1):
        if not alive[node] or kind[node] <= COLUMN:
            continue
        first, last = start[node], start[node] + count[node]
        what = kind[node]
        if what in (SUM, PRODUCT):
            n_positive = 0
            has_constant = False
            for edge in range(first, last):
                n_positive += sign[edge] > 0
                has_constant = has_constant or kind[child[edge]] == CONSTANT
            for edge in range(first, last):
                below = child[edge]
                turns = sign[edge] < 0 or n_positive >= 2
                if what == SUM:
                    sign_free[below] &= turns or sign_free[node]
                    inverse_free[below] = False
                else:
                    sign_free[below] &= sign_free[node] or has_constant
                    inverse_free[below] &= turns or inverse_free[node]
        elif what == UNARY:
            below = child[first]
            opcode = argument[node]
            if opcode != NEG and not _EVEN[opcode]:
                sign_free[below] &= _ODD[opcode] and sign_free[node]
            if _INVERTS_THROUGH[opcode]:
                inverse_free[below] &= inverse_free[node]
            elif opcode == LOG:
                inverse_free[below] &= sign_free[node]
            elif opcode != INV:
                inverse_free[below] = False
        else:
            for edge in range(first, last):
                sign_free[child[edge]] = False
                inverse_free[child[edge]] = False


@njit(cache=True)
def find_moves(  # type: ignore[no-untyped-def]
    root, kind, argument, start, count, child, sign, constants,
    alive, sign_free, inverse_free, root_turned, found,
):  # fmt: skip
    """Write (type, number, first, second) of every correct move; return how many."""
    n = 0
    for node in range(FIRST_NODE, root + 1):
        if not alive[node] or kind[node] <= COLUMN:
            continue
        first = start[node]
        what = kind[node]
        if what == UNARY:
            below = child[first]
            if kind[below] == COLUMN and _UNARY_ACTION[argument[node]] >= 0:
                n = _add(
                    found,
                    n,
                    COLUMN_MOVE,
                    _UNARY_ACTION[argument[node]],
                    argument[below],
                    0,
                )
        elif what == POWER:
            one, two = child[first], child[first + 1]
            if (
                kind[one] == COLUMN
                and kind[two] == COLUMN
                and argument[one] != argument[two]
            ):
                n = _add(
                    found,
                    n,
                    PAIR_MOVE,
                    _pair_number(POW),
                    argument[child[first]],
                    argument[child[first + 1]],
                )
        else:
            n = _find_chain_moves(
                root,
                node,
                kind,
                argument,
                start,
                count,
                child,
                sign,
                constants,
                sign_free[node] if what == SUM else inverse_free[node],
                found,
                n,
            )
    return _find_target_moves(
        root, kind, argument, start, count, child, sign, root_turned, found, n
    )


@njit(cache=True)
def _add(found, n, move_type, number, first, second):  # type: ignore[no-untyped-def]
    if n < MAX_FOUND:
        found[n, 0] = move_type
        found[n, 1] = number
        found[n, 2] = first
        found[n, 3] = second
        n += 1
    return n


@njit(cache=True)
def _pair_number(opcode):  # type: ignore[no-untyped-def]
    for number in range(N_PAIRS):
        if PAIR_OPCODE[number] == opcode:
            return number
    return -1


@njit(cache=True)
def _find_chain_moves(  # type: ignore[no-untyped-def]
    root, node, kind, argument, start, count, child, sign, constants,
    turning_free, found, n,
):  # fmt: skip
    """Moves that join two members of a sum or of a product."""
    first, last = start[node], start[node] + count[node]
    is_sum = kind[node] == SUM
    join = ADD if is_sum else MUL
    split = SUB if is_sum else DIV
    n_positive = 0
    for edge in range(first, last):
        n_positive += sign[edge] > 0
    at_top = node == root
    if not is_sum and not at_top and kind[root] == SUM:
        # A factor of a term of the top sum is a coefficient that closing fits.
        for edge in range(start[root], start[root] + count[root]):
            at_top = at_top or child[edge] == node
    for edge in range(first, last):
        one = child[edge]
        if kind[one] != COLUMN:
            continue
        for other_edge in range(first, last):
            other = child[other_edge]
            if other_edge == edge:
                continue
            if kind[other] == COLUMN and argument[other] != argument[one]:
                if sign[edge] == sign[other_edge]:
                    if edge < other_edge:
                        n = _add(
                            found,
                            n,
                            PAIR_MOVE,
                            _pair_number(join),
                            argument[one],
                            argument[other],
                        )
                elif sign[edge] > 0 or turning_free or n_positive >= 2:
                    n = _add(
                        found,
                        n,
                        PAIR_MOVE,
                        _pair_number(split),
                        argument[one],
                        argument[other],
                    )
            elif kind[other] == CONSTANT and not at_top:
                n = _find_constant_moves(
                    is_sum,
                    argument[one],
                    sign[edge],
                    constants[argument[other]],
                    sign[other_edge],
                    turning_free,
                    n_positive,
                    found,
                    n,
                )
    return n


@njit(cache=True)
def _find_constant_moves(  # type: ignore[no-untyped-def]
    is_sum, column, column_sign, value, value_sign, turning_free, n_positive, found, n
):
    """Moves that join a column with a small constant beside it."""
    if is_sum and value < 0:
        value = -value
        value_sign = -value_sign
    for number in range(N_UNARY_ACTIONS, N_ACTIONS):
        if ACTION_PEELS[number] or ACTION_CONSTANT[number] != value:
            continue
        opcode = ACTION_OPCODE[number]
        result_sign = _constant_move_sign(
            is_sum, opcode, ACTION_CONSTANT_FIRST[number], column_sign, value_sign
        )
        if result_sign == 0:
            continue
        if result_sign < 0 and column_sign != value_sign:
            # Joined the other way round: needs a place for the sign.
            others = n_positive - 1
            if not (turning_free or others >= 1):
                continue
        n = _add(found, n, COLUMN_MOVE, number, column, 0)
    return n


@njit(cache=True)
def _constant_move_sign(is_sum, opcode, constant_first, column_sign, value_sign):  # type: ignore[no-untyped-def]
    """Return the sign of the joined pair in the chain, 0 if the action does not fit."""
    if is_sum:
        if opcode == ADD:
            return column_sign if column_sign == value_sign else 0
        if opcode == SUB and column_sign != value_sign:
            return value_sign if constant_first else column_sign
        return 0
    if opcode == MUL:
        return column_sign if column_sign == value_sign else 0
    if opcode == DIV and column_sign != value_sign:
        return column_sign
    return 0


@njit(cache=True)
def _find_target_moves(  # type: ignore[no-untyped-def]
    root, kind, argument, start, count, child, sign, root_turned, found, n
):
    """Moves on the target's side: undo the outermost operator, peel a column.

    Where the target's sign is open (``root_turned``), only what leaves a product.
    """
    first, last = start[root], start[root] + count[root]
    what = kind[root]
    if root_turned and (what != PRODUCT or count[root] < 3):
        return n
    if what == UNARY:
        undo = _UNDO[argument[root]]
        if undo >= 0:
            return _add(found, n, TARGET_MOVE, undo, 0, 0)
        below = child[first]
        if (
            argument[root] == SQUARE
            and kind[below] == UNARY
            and _POSITIVE[argument[below]]
        ):
            return _add(found, n, TARGET_MOVE, _UNDO_SQUARE, 0, 0)
        return n
    if what != SUM and what != PRODUCT:
        return n
    any_positive = False
    for edge in range(first, last):
        any_positive = any_positive or sign[edge] > 0
    if what == PRODUCT and not any_positive:
        n = _add(found, n, TARGET_MOVE, _UNDO_INVERSE, 0, 0)
    for edge in range(first, last):
        if kind[child[edge]] != COLUMN:
            continue
        if what == SUM:
            opcode = SUB if sign[edge] > 0 else ADD
        else:
            opcode = DIV if sign[edge] > 0 else MUL
        for number in range(N_ACTIONS):
            if ACTION_PEELS[number] and ACTION_OPCODE[number] == opcode:
                n = _add(found, n, COLUMN_MOVE, number, argument[child[edge]], 0)
    return n


@njit(cache=True)
def _shrink(  # type: ignore[no-untyped-def]
    root, node, kind, argument, start, count, child, sign, constants, may_turn
):
    """Replace a chain that has become one column by that column.

    Returns whether the target's sign turned with it.
    """
    if count[node] != 1:
        return False
    edge = start[node]
    is_sum = kind[node] == SUM
    if sign[edge] < 0 and not may_turn:
        argument[node] = NEG if is_sum else INV
        kind[node] = UNARY
        sign[edge] = 1
        return False
    argument[node] = argument[child[edge]]
    kind[node] = COLUMN
    count[node] = 0
    if sign[edge] < 0:
        return _absorb(
            root, node, is_sum, kind, argument, start, count, child, sign, constants
        )
    return False


@njit(cache=True)
def _absorb(  # type: ignore[no-untyped-def]
    root, node, is_sign, kind, argument, start, count, child, sign, constants
):
    """Let what uses a node absorb that it was negated, or inverted.

    Only called where ``mark_free`` found room for it. Returns whether the sign went
    up to the root, where it stays: closing fits a factor.
    """
    negated = np.zeros(root + 1, np.bool_)
    inverted = np.zeros(root + 1, np.bool_)
    if is_sign:
        negated[node] = True
    else:
        inverted[node] = True
    for user in range(max(node + 1, FIRST_NODE), root + 1):
        if kind[user] <= COLUMN:
            continue
        for edge in range(start[user], start[user] + count[user]):
            below = child[edge]
            if negated[below]:
                if kind[user] == SUM:
                    sign[edge] = -sign[edge]
                elif kind[user] == PRODUCT:
                    if not _negate_constant(
                        user, kind, argument, start, count, child, constants
                    ):
                        negated[user] = not negated[user]
                elif kind[user] == UNARY and (
                    _ODD[argument[user]] or argument[user] == NEG
                ):
                    negated[user] = True
            elif inverted[below]:
                if kind[user] == PRODUCT:
                    sign[edge] = -sign[edge]
                elif kind[user] == UNARY and (
                    _INVERTS_THROUGH[argument[user]] or argument[user] == INV
                ):
                    inverted[user] = True
                elif kind[user] == UNARY and argument[user] == LOG:
                    negated[user] = True
    return negated[root]


@njit(cache=True)
def _negate_constant(user, kind, argument, start, count, child, constants):  # type: ignore[no-untyped-def]
    """Turn the sign of a product's constant, if it has one."""
    for edge in range(start[user], start[user] + count[user]):
        if kind[child[edge]] == CONSTANT:
            slot = argument[child[edge]]
            constants[slot] = -constants[slot]
            return True
    return False


@njit(cache=True)
def join_everywhere(  # type: ignore[no-untyped-def]
    root, chain_kind, splits, first_column, second_column, made,
    kind, argument, start, count, child, sign, constants, sign_free, inverse_free,
):  # fmt: skip
    """Join two columns in every chain that holds both with fitting signs."""
    turned = False
    for node in range(FIRST_NODE, root + 1):
        if kind[node] != chain_kind:
            continue
        begin, end = start[node], start[node] + count[node]
        one, two = -1, -1
        for edge in range(begin, end):
            if kind[child[edge]] == COLUMN:
                if argument[child[edge]] == first_column and one < 0:
                    one = edge
                elif argument[child[edge]] == second_column and two < 0:
                    two = edge
        if one < 0 or two < 0 or (sign[one] != sign[two]) != splits:
            continue
        _replace_pair(node, one, two, made, start, count, child, sign)
        free = sign_free[node] if chain_kind == SUM else inverse_free[node]
        turned ^= _shrink(
            root, node, kind, argument, start, count, child, sign, constants, free
        )
    return turned


@njit(cache=True)
def _replace_pair(node, one, two, made, start, count, child, sign):  # type: ignore[no-untyped-def]
    """Put column ``made`` in place of edge ``one``, drop edge ``two``."""
    child[one] = made
    last = start[node] + count[node] - 1
    child[two] = child[last]
    sign[two] = sign[last]
    count[node] -= 1


@njit(cache=True)
def join_constant_everywhere(  # type: ignore[no-untyped-def]
    root, number, column, made, kind, argument, start, count, child, sign, constants,
    sign_free, inverse_free,
):  # fmt: skip
    """Join a column and a small constant in every chain that holds both."""
    opcode = ACTION_OPCODE[number]
    chain_kind = SUM if opcode in (ADD, SUB) else PRODUCT
    turned = False
    for node in range(FIRST_NODE, root + 1):
        if kind[node] != chain_kind:
            continue
        begin, end = start[node], start[node] + count[node]
        one, two = -1, -1
        value_sign = 1
        for edge in range(begin, end):
            below = child[edge]
            if kind[below] == COLUMN and argument[below] == column:
                one = edge
            elif kind[below] == CONSTANT:
                value = constants[argument[below]]
                negative = chain_kind == SUM and value < 0
                if (-value if negative else value) == ACTION_CONSTANT[number]:
                    two = edge
                    value_sign = -sign[edge] if negative else sign[edge]
        if one < 0 or two < 0:
            continue
        result = _constant_move_sign(
            chain_kind == SUM,
            opcode,
            ACTION_CONSTANT_FIRST[number],
            sign[one],
            value_sign,
        )
        if result == 0:
            continue
        sign[one] = result
        _replace_pair(node, one, two, made, start, count, child, sign)
        free = sign_free[node] if chain_kind == SUM else inverse_free[node]
        turned ^= _shrink(
            root, node, kind, argument, start, count, child, sign, constants, free
        )
    return turned


@njit(cache=True)
def peel_root(root, number, column, kind, argument, start, count, child, sign):  # type: ignore[no-untyped-def]
    """Take a column off the outermost chain; return the new root."""
    begin = start[root]
    last = begin + count[root] - 1
    for edge in range(begin, last + 1):
        if kind[child[edge]] == COLUMN and argument[child[edge]] == column:
            child[edge] = child[last]
            sign[edge] = sign[last]
            count[root] -= 1
            break
    if count[root] == 1:
        if sign[begin] > 0:
            return child[begin]
        argument[root] = NEG if kind[root] == SUM else INV
        kind[root] = UNARY
        sign[begin] = 1
    return root


@njit(cache=True)
def undo_root(root, kind, start, count, child, sign):  # type: ignore[no-untyped-def]
    """Undo the outermost operator; return the new root."""
    if kind[root] == UNARY:
        return child[start[root]]
    for edge in range(start[root], start[root] + count[root]):
        sign[edge] = -sign[edge]
    return root
