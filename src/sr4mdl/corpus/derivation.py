"""Random derivations of one skeleton, in compiled code: labelled states on the way.

A derivation starts at the variables and takes one correct move after another until
nothing is left; any state on the way can be emitted. What is still missing is kept as
a tree (see ``remainder``) whose symbol count is the value label and whose correct moves
are the policy label. A move is applied wherever it fits, so equal parts are built once.

Junk columns (random operators on columns) and variables that are no longer needed
stay in the state with given rates, because a search meets such states all the time.
"""

from typing import Final

import numpy as np
from numba import njit

from sr4mdl import moves
from sr4mdl.corpus.program_writer import (
    FIRST_MOVE_CONSTANT,
    FIRST_OUTPUT,
    MAX_INSTRUCTIONS,
    MOVE_CONSTANTS,
    N_CONSTANT_REGISTERS,
    write,
    write_formula,
    write_latents,
)
from sr4mdl.corpus.remainder import (
    ACTION_CONSTANT_FIRST,
    ACTION_OPCODE,
    ACTION_PEELS,
    ADD,
    COLUMN_MOVE,
    DIV,
    FIRST_NODE,
    MAX_COLUMN_IDS,
    MAX_FOUND,
    N_ACTIONS,
    N_UNARY_ACTIONS,
    PAIR_COMMUTES,
    PAIR_MOVE,
    PAIR_OPCODE,
    POW,
    SUB,
    TARGET_MOVE,
    TARGET_OPCODE,
    find_moves,
    join_constant_everywhere,
    join_everywhere,
    mark_alive,
    mark_free,
    missing_symbols,
    peel_root,
    undo_root,
)
from sr4mdl.corpus.skeletons import (
    COLUMN,
    MAX_CONSTANTS,
    POWER,
    PRODUCT,
    SUM,
    UNARY,
    VARIABLE,
)

MAX_MOVES: Final = 64
"""Correct moves that a state is labelled with at most."""
MAX_VALUE: Final = 50
"""Missing symbols up to which a state is emitted."""

_ACTION_REGISTER = np.array(
    [
        0
        if a.constant is None
        else FIRST_MOVE_CONSTANT + MOVE_CONSTANTS.index(a.constant)
        for a in moves.COLUMN_ACTIONS
    ],
    np.int64,
)
_MAX_COLUMNS: Final = moves.MAX_COLUMNS
_FIRST_PAIR: Final = moves.FIRST_PAIR
_FIRST_TARGET: Final = moves.FIRST_TARGET
_N_MOVES: Final = moves.N_MOVES


@njit(cache=True)
def derive(  # type: ignore[no-untyped-def]
    bank, formula, out, row, last_row, redraw, decimal_share, latent_rate, junk_rate,
    drop_rate, root_rate, emit_rate, shuffle,
):  # fmt: skip
    """Walk one derivation, emitting states from ``row`` on; return the next row."""
    n_nodes = FIRST_NODE + bank.n_nodes[formula]
    n_edges = bank.child_node.shape[1]
    kind = np.full(n_nodes, COLUMN, np.int64)
    argument = np.arange(n_nodes)
    start = np.zeros(n_nodes, np.int64)
    count = np.zeros(n_nodes, np.int64)
    child = np.zeros(n_edges, np.int64)
    sign = np.zeros(n_edges, np.int64)
    for node in range(FIRST_NODE, n_nodes):
        kind[node] = bank.kind[formula, node - FIRST_NODE]
        argument[node] = bank.argument[formula, node - FIRST_NODE]
        start[node] = bank.child_start[formula, node - FIRST_NODE]
        count[node] = bank.child_count[formula, node - FIRST_NODE]
    for edge in range(n_edges):
        child[edge] = FIRST_NODE + bank.child_node[formula, edge]
        sign[edge] = bank.child_sign[formula, edge]
    root = n_nodes - 1
    n_variables = bank.n_variables[formula]

    constants = np.zeros(N_CONSTANT_REGISTERS)
    anew = redraw > 0.0 and np.random.random() < redraw
    for slot in range(bank.n_constants[formula]):
        value = bank.constants[formula, slot]
        if anew and bank.constant_free[formula, slot]:
            value = _draw_constant(value, decimal_share)
        constants[slot] = value
    for slot in range(len(MOVE_CONSTANTS)):
        constants[MAX_CONSTANTS + slot] = MOVE_CONSTANTS[slot]

    operations = np.zeros(MAX_INSTRUCTIONS, np.int64)
    firsts = np.zeros(MAX_INSTRUCTIONS, np.int64)
    seconds = np.zeros(MAX_INSTRUCTIONS, np.int64)
    variable_register = np.arange(n_variables)
    n = 0
    if np.random.random() < latent_rate:
        n = write_latents(
            n_variables, variable_register, constants, operations, firsts, seconds, n
        )
    target_register, n = write_formula(
        root, kind, argument, start, count, child, sign, variable_register, operations,
        firsts, seconds, n,
    )  # fmt: skip
    if target_register < 0:
        return row

    # From here on variables are columns: ids 0 .. n_variables - 1.
    column_register = np.zeros(MAX_COLUMN_IDS, np.int64)
    column_register[:n_variables] = variable_register
    in_state = np.zeros(MAX_COLUMN_IDS, np.bool_)
    in_state[:n_variables] = True
    n_ids = n_variables
    for node in range(FIRST_NODE, n_nodes):
        if kind[node] == VARIABLE:
            kind[node] = COLUMN

    # What is missing may need a constant with the other sign than the formula has.
    missing_constants = constants[:MAX_CONSTANTS].copy()
    alive = np.zeros(n_nodes, np.bool_)
    sign_free = np.zeros(n_nodes, np.bool_)
    inverse_free = np.zeros(n_nodes, np.bool_)
    needed = np.zeros(MAX_COLUMN_IDS, np.bool_)
    found = np.zeros((MAX_FOUND, 4), np.int64)
    root_turned = False
    step = 0
    while True:
        mark_alive(root, kind, start, count, child, alive)
        needed[:] = False
        for node in range(root + 1):
            if alive[node] and kind[node] == COLUMN:
                needed[argument[node]] = True
        value = missing_symbols(root, kind, start, count, child, sign, alive)
        n_found = 0
        if value > 0:
            mark_free(
                root, kind, argument, start, count, child, sign, alive, sign_free,
                inverse_free,
            )  # fmt: skip
            n_found = find_moves(
                root, kind, argument, start, count, child, sign, missing_constants,
                alive, sign_free, inverse_free, root_turned, found,
            )  # fmt: skip
        while (
            np.random.random() < junk_rate
            and n < MAX_INSTRUCTIONS - 4
            and n_ids < MAX_COLUMN_IDS - 2
        ):
            grown = _junk(
                in_state, n_ids, column_register, operations, firsts, seconds, n, found,
                n_found,
            )  # fmt: skip
            if grown > n:
                n = grown
                column_register[n_ids] = FIRST_OUTPUT + n - 1
                in_state[n_ids] = True
                needed[n_ids] = False
                n_ids += 1
        rate = root_rate if step == 0 else emit_rate
        if value <= MAX_VALUE and np.random.random() < rate:
            emitted = _emit(
                row, out, formula, step, value, target_register, n, in_state, needed,
                n_ids, column_register, found, n_found, operations, firsts, seconds,
                constants, n_variables, shuffle,
            )  # fmt: skip
            row += emitted
            if row == last_row:
                return row
        if n_found == 0 or n >= MAX_INSTRUCTIONS - 3 or n_ids >= MAX_COLUMN_IDS - 1:
            return row
        # One correct move, drawn at random.
        pick = np.random.randint(0, n_found)
        move_type, number = found[pick, 0], found[pick, 1]
        first, second = found[pick, 2], found[pick, 3]
        if move_type == TARGET_MOVE:
            n = write(
                operations, firsts, seconds, n, TARGET_OPCODE[number], target_register,
                0,
            )  # fmt: skip
            target_register = FIRST_OUTPUT + n - 1
            root = undo_root(root, kind, start, count, child, sign)
        elif move_type == COLUMN_MOVE and ACTION_PEELS[number]:
            n = write(
                operations, firsts, seconds, n, ACTION_OPCODE[number], target_register,
                column_register[first],
            )  # fmt: skip
            target_register = FIRST_OUTPUT + n - 1
            root = peel_root(
                root, number, first, kind, argument, start, count, child, sign
            )
        else:
            n, turned = _build_column(
                root, move_type, number, first, second, n_ids, column_register, kind,
                argument, start, count, child, sign, missing_constants, sign_free,
                inverse_free, operations, firsts, seconds, n,
            )  # fmt: skip
            root_turned ^= turned
            column_register[n_ids] = FIRST_OUTPUT + n - 1
            in_state[n_ids] = True
            n_ids += 1
        # Operands may go once nothing needs them.
        mark_alive(root, kind, start, count, child, alive)
        needed[:] = False
        for node in range(root + 1):
            if alive[node] and kind[node] == COLUMN:
                needed[argument[node]] = True
        for number in range(n_ids):
            if not needed[number] and np.random.random() < drop_rate:
                in_state[number] = False
        step += 1


@njit(cache=True)
def _build_column(  # type: ignore[no-untyped-def]
    root, move_type, number, first, second, new_id, column_register,
    kind, argument, start, count, child, sign, constants, sign_free, inverse_free,
    operations, firsts, seconds, n,
):  # fmt: skip
    """Apply a column or pair move wherever it fits.

    Returns the number of instructions and whether the target's sign turned.
    """
    if move_type == COLUMN_MOVE:
        opcode = ACTION_OPCODE[number]
        if number < N_UNARY_ACTIONS:
            n = write(operations, firsts, seconds, n, opcode, column_register[first], 0)
            for node in range(FIRST_NODE, root + 1):
                if kind[node] == UNARY and argument[node] == opcode:
                    below = child[start[node]]
                    if kind[below] == COLUMN and argument[below] == first:
                        kind[node] = COLUMN
                        argument[node] = new_id
                        count[node] = 0
            return n, False
        other = _ACTION_REGISTER[number]
        if ACTION_CONSTANT_FIRST[number]:
            n = write(
                operations, firsts, seconds, n, opcode, other, column_register[first]
            )
        else:
            n = write(
                operations, firsts, seconds, n, opcode, column_register[first], other
            )
        turned = join_constant_everywhere(
            root, number, first, new_id, kind, argument, start, count, child, sign,
            constants, sign_free, inverse_free,
        )  # fmt: skip
        return n, turned
    opcode = PAIR_OPCODE[number]
    n = write(
        operations, firsts, seconds, n, opcode, column_register[first],
        column_register[second],
    )  # fmt: skip
    if opcode == POW:
        for node in range(FIRST_NODE, root + 1):
            if kind[node] == POWER:
                one, two = child[start[node]], child[start[node] + 1]
                if (
                    kind[one] == COLUMN
                    and argument[one] == first
                    and kind[two] == COLUMN
                    and argument[two] == second
                ):
                    kind[node] = COLUMN
                    argument[node] = new_id
                    count[node] = 0
        return n, False
    chain_kind = SUM if opcode in (ADD, SUB) else PRODUCT
    turned = join_everywhere(
        root,
        chain_kind,
        opcode in (SUB, DIV),
        first,
        second,
        new_id,
        kind,
        argument,
        start,
        count,
        child,
        sign,
        constants,
        sign_free,
        inverse_free,
    )
    return n, turned


@njit(cache=True)
def _junk(  # type: ignore[no-untyped-def]
    in_state, n_ids, column_register, operations, firsts, seconds, n, found, n_found
):
    """Write one random column that is not a correct move; return instructions."""
    listed = np.flatnonzero(in_state[:n_ids])
    if len(listed) == 0:
        return n
    one = listed[np.random.randint(0, len(listed))]
    if np.random.random() < 0.45 or len(listed) == 1:
        number = np.random.randint(0, N_ACTIONS)
        if ACTION_PEELS[number]:
            return n
        for index in range(n_found):
            if (
                found[index, 0] == COLUMN_MOVE
                and found[index, 1] == number
                and found[index, 2] == one
            ):
                return n
        other = _ACTION_REGISTER[number]
        if ACTION_CONSTANT_FIRST[number]:
            return write(
                operations, firsts, seconds, n, ACTION_OPCODE[number], other,
                column_register[one],
            )  # fmt: skip
        return write(
            operations, firsts, seconds, n, ACTION_OPCODE[number], column_register[one],
            other,
        )  # fmt: skip
    two = listed[np.random.randint(0, len(listed))]
    if one == two:
        return n
    number = np.random.randint(0, 4)
    for index in range(n_found):
        same = found[index, 2] == one and found[index, 3] == two
        swapped = found[index, 2] == two and found[index, 3] == one
        if (
            found[index, 0] == PAIR_MOVE
            and found[index, 1] == number
            and (same or swapped)
        ):
            return n
    return write(
        operations, firsts, seconds, n, PAIR_OPCODE[number], column_register[one],
        column_register[two],
    )  # fmt: skip


@njit(cache=True)
def _emit(  # type: ignore[no-untyped-def]
    row, out, formula, step, value, target_register, n_instructions,
    in_state, needed, n_ids, column_register, found, n_found,
    operations, firsts, seconds, constants, n_inputs, shuffle,
):  # fmt: skip
    """Write one labelled state; return False if it has too many columns."""
    n_needed = 0
    for number in range(n_ids):
        n_needed += needed[number]
    if n_needed > _MAX_COLUMNS:
        return False
    chosen = np.zeros(_MAX_COLUMNS, np.int64)
    n_columns = 0
    for number in range(n_ids):
        if needed[number]:
            chosen[n_columns] = number
            n_columns += 1
    order = np.random.permutation(n_ids)
    for number in order:
        if in_state[number] and not needed[number] and n_columns < _MAX_COLUMNS:
            chosen[n_columns] = number
            n_columns += 1
    if n_columns == 0:
        return False
    shuffled = np.sort(chosen[:n_columns])
    if shuffle:
        shuffled = shuffled[np.random.permutation(n_columns)]
    slot = np.full(n_ids, -1, np.int64)
    for position in range(n_columns):
        slot[shuffled[position]] = position
    out.opcodes[row, :n_instructions] = operations[:n_instructions]
    out.opcodes[row, n_instructions:] = 0
    out.first[row, :n_instructions] = firsts[:n_instructions]
    out.first[row, n_instructions:] = 0
    out.second[row, :n_instructions] = seconds[:n_instructions]
    out.second[row, n_instructions:] = 0
    out.constants[row] = constants
    out.columns[row] = 0
    for position in range(n_columns):
        out.columns[row, position] = column_register[shuffled[position]]
    out.n_columns[row] = n_columns
    out.target[row] = target_register
    out.value[row] = value
    out.n_inputs[row] = n_inputs
    out.formula[row] = formula
    out.step[row] = step
    seen = np.zeros(_N_MOVES, np.bool_)
    for index in range(n_found):
        if found[index, 0] == COLUMN_MOVE:
            move = slot[found[index, 2]] * N_ACTIONS + found[index, 1]
        elif found[index, 0] == PAIR_MOVE:
            one, two = slot[found[index, 2]], slot[found[index, 3]]
            if PAIR_COMMUTES[found[index, 1]] and one > two:
                one, two = two, one
            move = _FIRST_PAIR + (
                (found[index, 1] * _MAX_COLUMNS + one) * _MAX_COLUMNS + two
            )
        else:
            move = _FIRST_TARGET + found[index, 1]
        seen[move] = True
    n_moves = 0
    out.moves[row] = -1
    for move in np.flatnonzero(seen):
        if n_moves < MAX_MOVES:
            out.moves[row, n_moves] = move
            n_moves += 1
    return True


@njit(cache=True)
def _draw_constant(value, decimal_share):  # type: ignore[no-untyped-def]
    """Draw a new value for a free constant, of the sign it had."""
    draw = np.random.random() / (1.0 - decimal_share) if decimal_share < 1.0 else 1.0
    if draw < 0.35 / 0.75:
        size = np.random.uniform(0.05, 5.0)
    elif draw < 1.0:
        size = 10.0 ** np.random.uniform(-2.0, 2.0)
    else:
        size = np.random.randint(1, 1000) * 10.0 ** np.random.randint(-3, 0)
    return size if value > 0 else -size
