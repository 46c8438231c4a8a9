"""Search states with labels, made from skeletons by compiled code.

A derivation starts at the variables and takes one correct move after another until
nothing is left; any state on the way can be emitted. What is still missing is kept as
a tree whose leaves are columns, constants and variables: its symbol count is the
value label (0 when the target itself is a column), the moves that take it down by all
the symbols they use are the policy label. A move is applied wherever it fits, so
equal parts are built once.

What counts as a correct move:

* a unary operator whose argument is a column;
* two terms of a sum, or two factors of a product, that are both columns, joined with
  the sign they have. The other order (b - a for a - b) is correct too where turning
  the sign, or inverting, costs nothing: inside an even function, beside a constant
  factor, beside another positive term, or at the top, where the closing step fits a
  factor anyway;
* a column with a small constant, unless the constant is at the top, where the
  closing step supplies it;
* on the target's side: undoing the outermost operator, or taking a column off an
  outermost sum or product.

Junk columns (random operators on columns) and variables that are no longer needed
stay in the state with given rates, because a search meets such states all the time.
Register programs compute columns and target from the inputs; see ``evaluate``.
"""

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sr4mdl import moves
from sr4mdl.corpus.remainder import (
    ABS,
    ACTION_CONSTANT_FIRST,
    ACTION_OPCODE,
    ACTION_PEELS,
    ADD,
    COLUMN_MOVE,
    COS,
    DIV,
    EXP,
    FIRST_NODE,
    INV,
    LOG,
    MAX_COLUMN_IDS,
    MAX_FOUND,
    MUL,
    N_ACTIONS,
    N_UNARY_ACTIONS,
    NEG,
    PAIR_COMMUTES,
    PAIR_MOVE,
    PAIR_OPCODE,
    POW,
    SIN,
    SQRT,
    SQUARE,
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
    CONSTANT,
    MAX_CONSTANTS,
    POWER,
    PRODUCT,
    SUM,
    UNARY,
    VARIABLE,
    SkeletonBank,
)

N_INPUTS: Final = moves.MAX_COLUMNS
FIRST_CONSTANT: Final = N_INPUTS
N_CONSTANT_REGISTERS: Final = MAX_CONSTANTS + 8
FIRST_OUTPUT: Final = FIRST_CONSTANT + N_CONSTANT_REGISTERS
MAX_INSTRUCTIONS: Final = 96
N_REGISTERS: Final = FIRST_OUTPUT + MAX_INSTRUCTIONS
MAX_MOVES: Final = 64
MAX_VALUE: Final = 50

# Constants of the moves have registers of their own after the formula's slots.
_MOVE_CONSTANTS: Final = (1.0, 2.0, 3.0, float(np.pi))
_FIRST_MOVE_CONSTANT: Final = FIRST_CONSTANT + MAX_CONSTANTS
_FIRST_LATENT_CONSTANT: Final = _FIRST_MOVE_CONSTANT + len(_MOVE_CONSTANTS)
_N_LATENT_CONSTANTS: Final = N_CONSTANT_REGISTERS - MAX_CONSTANTS - len(_MOVE_CONSTANTS)

_ACTION_REGISTER = np.array(
    [
        0
        if a.constant is None
        else _FIRST_MOVE_CONSTANT + _MOVE_CONSTANTS.index(a.constant)
        for a in moves.COLUMN_ACTIONS
    ],
    np.int64,
)
_MAX_COLUMNS: Final = moves.MAX_COLUMNS
_FIRST_PAIR: Final = moves.FIRST_PAIR
_FIRST_TARGET: Final = moves.FIRST_TARGET
_N_MOVES: Final = moves.N_MOVES
# Random functions of hidden variables draw from these.
_LATENT_UNARY = np.array([SQRT, SQUARE, INV, EXP, SIN, COS, LOG, ABS], np.int64)


@njit(cache=True)
def _write_formula(  # type: ignore[no-untyped-def]
    root, kind, argument, start, count, child, sign, variable_register,
    operations, firsts, seconds, n,
):  # fmt: skip
    """Write the program of the whole formula; return (register, instructions)."""
    register = np.zeros(root + 1, np.int64)
    for node in range(FIRST_NODE, root + 1):
        what = kind[node]
        begin, end = start[node], start[node] + count[node]
        if what == VARIABLE:
            register[node] = variable_register[argument[node]]
            continue
        if what == CONSTANT:
            register[node] = FIRST_CONSTANT + argument[node]
            continue
        if n + count[node] + 1 > MAX_INSTRUCTIONS:
            return -1, n
        if what == UNARY:
            n = _write(
                operations,
                firsts,
                seconds,
                n,
                argument[node],
                register[child[begin]],
                0,
            )
        elif what == POWER:
            n = _write(
                operations,
                firsts,
                seconds,
                n,
                POW,
                register[child[begin]],
                register[child[begin + 1]],
            )
        else:
            join = ADD if what == SUM else MUL
            split = SUB if what == SUM else DIV
            lead = begin
            for edge in range(begin, end):
                if sign[edge] > 0:
                    lead = edge
                    break
            total = register[child[lead]]
            for edge in range(begin, end):
                if edge != lead:
                    opcode = join if sign[edge] == sign[lead] else split
                    n = _write(
                        operations,
                        firsts,
                        seconds,
                        n,
                        opcode,
                        total,
                        register[child[edge]],
                    )
                    total = FIRST_OUTPUT + n - 1
            if sign[lead] < 0:
                n = _write(
                    operations,
                    firsts,
                    seconds,
                    n,
                    NEG if what == SUM else INV,
                    total,
                    0,
                )
        register[node] = FIRST_OUTPUT + n - 1
    return register[root], n


@njit(cache=True)
def _write(operations, firsts, seconds, n, opcode, first, second):  # type: ignore[no-untyped-def]
    operations[n] = opcode
    firsts[n] = first
    seconds[n] = second
    return n + 1


@njit(cache=True)
def _write_latents(  # type: ignore[no-untyped-def]
    n_variables, variable_register, constants, operations, firsts, seconds, n
):
    """Make the variables random functions of hidden ones; return instructions."""
    n_hidden = np.random.randint(1, n_variables + 1)
    for slot in range(_N_LATENT_CONSTANTS):
        constants[_FIRST_LATENT_CONSTANT - FIRST_CONSTANT + slot] = (
            np.random.normal() * 10.0 ** np.random.uniform(-1.0, 1.0)
        )
    for number in range(n_variables):
        register = number if number < n_hidden else np.random.randint(0, n_hidden)
        for _ in range(np.random.randint(0, 4)):
            draw = np.random.random()
            if draw < 0.45:
                opcode = _LATENT_UNARY[np.random.randint(0, len(_LATENT_UNARY))]
                n = _write(operations, firsts, seconds, n, opcode, register, 0)
            else:
                opcode = ADD + np.random.randint(0, 3)
                if draw < 0.7:
                    other = np.random.randint(0, n_hidden)
                else:
                    other = _FIRST_LATENT_CONSTANT + np.random.randint(
                        0, _N_LATENT_CONSTANTS
                    )
                n = _write(operations, firsts, seconds, n, opcode, register, other)
            register = FIRST_OUTPUT + n - 1
        variable_register[number] = register
    return n


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
            return _write(
                operations,
                firsts,
                seconds,
                n,
                ACTION_OPCODE[number],
                other,
                column_register[one],
            )
        return _write(
            operations,
            firsts,
            seconds,
            n,
            ACTION_OPCODE[number],
            column_register[one],
            other,
        )
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
    return _write(
        operations,
        firsts,
        seconds,
        n,
        PAIR_OPCODE[number],
        column_register[one],
        column_register[two],
    )


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
def _derive(  # type: ignore[no-untyped-def]
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
    for slot in range(len(_MOVE_CONSTANTS)):
        constants[MAX_CONSTANTS + slot] = _MOVE_CONSTANTS[slot]

    operations = np.zeros(MAX_INSTRUCTIONS, np.int64)
    firsts = np.zeros(MAX_INSTRUCTIONS, np.int64)
    seconds = np.zeros(MAX_INSTRUCTIONS, np.int64)
    variable_register = np.arange(n_variables)
    n = 0
    if np.random.random() < latent_rate:
        n = _write_latents(
            n_variables, variable_register, constants, operations, firsts, seconds, n
        )
    target_register, n = _write_formula(
        root,
        kind,
        argument,
        start,
        count,
        child,
        sign,
        variable_register,
        operations,
        firsts,
        seconds,
        n,
    )
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
                root,
                kind,
                argument,
                start,
                count,
                child,
                sign,
                alive,
                sign_free,
                inverse_free,
            )
            n_found = find_moves(
                root,
                kind,
                argument,
                start,
                count,
                child,
                sign,
                missing_constants,
                alive,
                sign_free,
                inverse_free,
                root_turned,
                found,
            )
        while (
            np.random.random() < junk_rate
            and n < MAX_INSTRUCTIONS - 4
            and n_ids < MAX_COLUMN_IDS - 2
        ):
            grown = _junk(
                in_state,
                n_ids,
                column_register,
                operations,
                firsts,
                seconds,
                n,
                found,
                n_found,
            )
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
            n = _write(
                operations,
                firsts,
                seconds,
                n,
                TARGET_OPCODE[number],
                target_register,
                0,
            )
            target_register = FIRST_OUTPUT + n - 1
            root = undo_root(root, kind, start, count, child, sign)
        elif move_type == COLUMN_MOVE and ACTION_PEELS[number]:
            n = _write(
                operations,
                firsts,
                seconds,
                n,
                ACTION_OPCODE[number],
                target_register,
                column_register[first],
            )
            target_register = FIRST_OUTPUT + n - 1
            root = peel_root(
                root, number, first, kind, argument, start, count, child, sign
            )
        else:
            n, turned = _build_column(
                root,
                move_type,
                number,
                first,
                second,
                n_ids,
                column_register,
                kind,
                argument,
                start,
                count,
                child,
                sign,
                missing_constants,
                sign_free,
                inverse_free,
                operations,
                firsts,
                seconds,
                n,
            )
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
            n = _write(
                operations, firsts, seconds, n, opcode, column_register[first], 0
            )
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
            n = _write(
                operations, firsts, seconds, n, opcode, other, column_register[first]
            )
        else:
            n = _write(
                operations, firsts, seconds, n, opcode, column_register[first], other
            )
        turned = join_constant_everywhere(
            root,
            number,
            first,
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
    opcode = PAIR_OPCODE[number]
    n = _write(
        operations,
        firsts,
        seconds,
        n,
        opcode,
        column_register[first],
        column_register[second],
    )
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
def _fill(  # type: ignore[no-untyped-def]
    seed, bank, n_filled, out, n_states, redraw, decimal_share, latent_rate, junk_rate,
    drop_rate, root_rate, emit_rate, shuffle,
):  # fmt: skip
    np.random.seed(seed)
    row = 0
    while row < n_states:
        formula = np.random.randint(0, n_filled)
        row = _derive(
            bank,
            formula,
            out,
            row,
            n_states,
            redraw,
            decimal_share,
            latent_rate,
            junk_rate,
            drop_rate,
            root_rate,
            emit_rate,
            shuffle,
        )


@njit(cache=True)
def _walk(seed, bank, formula, out, n_states, drop_rate):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    return _derive(
        bank, formula, out, 0, n_states, 0.0, 0.0, 0.0, 0.0, drop_rate, 1.0, 1.0, False
    )


@njit(cache=True)
def _roots(seed, bank, n_filled, out, made, latent_rate):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    for formula in range(n_filled):
        row = _derive(
            bank, formula, out, formula, formula + 1, 0.0, 0.0, latent_rate, 0.0, 0.0,
            1.0, 0.0, False,
        )  # fmt: skip
        made[formula] = row == formula + 1


class StateArrays(NamedTuple):
    """Labelled states as register programs, one row each.

    Registers: ``N_INPUTS`` inputs, ``N_CONSTANT_REGISTERS`` constants, then one per
    instruction. Opcode 0 is padding.
    """

    opcodes: NDArray[np.uint8]
    """(n, MAX_INSTRUCTIONS)"""
    first: NDArray[np.uint8]
    """(n, MAX_INSTRUCTIONS) register of the first operand"""
    second: NDArray[np.uint8]
    """(n, MAX_INSTRUCTIONS) register of the second operand"""
    constants: NDArray[np.float64]
    """(n, N_CONSTANT_REGISTERS)"""
    columns: NDArray[np.uint8]
    """(n, MAX_COLUMNS) register of each column of the state"""
    n_columns: NDArray[np.uint8]
    target: NDArray[np.uint8]
    """(n,) register of the target"""
    value: NDArray[np.float32]
    """(n,) symbols still missing"""
    moves: NDArray[np.int16]
    """(n, MAX_MOVES) ids of the correct moves, -1 behind them"""
    n_inputs: NDArray[np.uint8]
    """(n,) input registers in use"""
    formula: NDArray[np.int32]
    """(n,) row of the bank the state comes from"""
    step: NDArray[np.int16]
    """(n,) moves made before this state; 0 at the root"""

    @classmethod
    def empty(cls, n_states: int) -> "StateArrays":
        """Return arrays for ``n_states`` states, zeroed."""
        return cls(
            opcodes=np.zeros((n_states, MAX_INSTRUCTIONS), np.uint8),
            first=np.zeros((n_states, MAX_INSTRUCTIONS), np.uint8),
            second=np.zeros((n_states, MAX_INSTRUCTIONS), np.uint8),
            constants=np.zeros((n_states, N_CONSTANT_REGISTERS), np.float64),
            columns=np.zeros((n_states, _MAX_COLUMNS), np.uint8),
            n_columns=np.zeros(n_states, np.uint8),
            target=np.zeros(n_states, np.uint8),
            value=np.zeros(n_states, np.float32),
            moves=np.full((n_states, MAX_MOVES), -1, np.int16),
            n_inputs=np.zeros(n_states, np.uint8),
            formula=np.zeros(n_states, np.int32),
            step=np.zeros(n_states, np.int16),
        )

    def rows(self, count: int) -> "StateArrays":
        """Return the first ``count`` states."""
        return StateArrays._make(array[:count] for array in self)


class StateRates(NamedTuple):
    """How states are drawn along a derivation; all are probabilities."""

    redraw: float = 1.0
    """Free constants of a formula are drawn anew."""
    decimal: float = 0.25
    """A constant drawn anew has up to three decimal digits, as in the paper."""
    latent: float = 0.15
    """Variables are random functions of hidden variables."""
    junk: float = 0.3
    """One more junk column, asked again after each."""
    drop: float = 0.5
    """A column that nothing needs any more leaves the state."""
    root: float = 0.5
    """The root state is emitted."""
    emit: float = 0.35
    """A later state is emitted."""
    shuffle: bool = True
    """Whether the columns come in random order."""


PAIR_RATES: Final = StateRates(
    redraw=0.0, decimal=1.0, latent=0.0, junk=0.0, drop=0.0, root=1.0, emit=0.0,
    shuffle=False,
)  # fmt: skip
"""Only whole formulas over their variables in order: the paper's (x, y) pairs."""


def sample_states(
    bank: SkeletonBank, n_filled: int, n_states: int, seed: int, rates: StateRates
) -> StateArrays:
    """Return labelled states from the first ``n_filled`` skeletons of a bank.

    The same bank and seed give the same states.
    """
    if not 1 <= n_filled <= bank.capacity:
        raise ValueError(f"n_filled must be from 1 to {bank.capacity}, got {n_filled}")
    out = StateArrays.empty(n_states)
    _fill(seed, bank, n_filled, out, n_states, *rates)
    return out


def walk_derivation(bank: SkeletonBank, row: int, seed: int) -> StateArrays:
    """Return all states of one random derivation of one skeleton, root first."""
    out = StateArrays.empty(MAX_COLUMN_IDS)
    drop_rate = 0.5
    n_states = _walk(seed, bank, row, out, MAX_COLUMN_IDS, drop_rate)
    return out.rows(n_states)


def root_states(
    bank: SkeletonBank, n_filled: int, seed: int, *, latent_rate: float = 0.0
) -> tuple[StateArrays, NDArray[np.bool_]]:
    """Return the root state of each skeleton, row by row, and which could be made."""
    out = StateArrays.empty(n_filled)
    made = np.zeros(n_filled, np.bool_)
    _roots(seed, bank, n_filled, out, made, latent_rate)
    return out, made
