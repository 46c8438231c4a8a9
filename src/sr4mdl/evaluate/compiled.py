"""The compiled back end: programs scheduled onto few registers, run by ``kernels``.

A schedule is a program after three changes: what does not depend on the data is
computed once, powers with a convenient constant become cheaper instructions, and
registers are reused as soon as nothing reads them any more. It runs in blocks of rows
that stay in the processor's cache. Operators registered by a user run through their
numpy form between stretches of compiled instructions.
"""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import types

from sr4mdl._typing import BoolArray, FloatArray, IntArray
from sr4mdl.errors import BudgetExceededError
from sr4mdl.evaluate import kernels
from sr4mdl.evaluate.programs import Program
from sr4mdl.evaluate.vectors import LANES
from sr4mdl.operators import MAX_BUILTIN_OPCODES, Operator, operator_of_opcode

BLOCK_ROWS: Final = 256
"""Rows per block: a register of 2 KiB, so that those in use stay in the cache."""
BLOCK_ROWS_WITH_USER_OPERATORS: Final = 4096
"""Longer blocks where each costs a call into numpy."""
_KEPT_WORKSPACE_BYTES: Final = 16 * 2**20
_CACHE_LINE: Final = 64

_POWERS: Final = {
    -2.0: kernels.INVERSE_SQUARE,
    -1.0: kernels.OPCODES["inv"],
    0.5: kernels.ROOT,
    1.0: kernels.COPY,
    2.0: kernels.OPCODES["square"],
    3.0: kernels.OPCODES["cube"],
    4.0: kernels.FOURTH,
}
"""Exponents with an instruction of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A program as ``kernels.run_rows`` takes it."""

    opcodes: IntArray
    """Operators and the kernel's internal opcodes."""
    first: IntArray
    """First operand: a register, a column of X or an index of ``scalars``."""
    second: IntArray
    """Second operand."""
    destination: IntArray
    """Register written; never one of the operands."""
    output: IntArray
    """Row of the result that receives a copy, -2 - row if nothing else is to, or -1."""
    scalars: FloatArray
    """Numbers that do not depend on the data."""
    n_slots: int
    """Registers needed."""
    repeated: tuple[IntArray, IntArray]
    """Rows of the result that are copies, and the rows they are copies of."""
    user_steps: tuple[tuple[int, Operator], ...]
    """Positions of instructions that run through numpy, with their operators."""


def schedule_program(program: Program) -> Schedule:
    """Return the program scheduled for the kernel."""
    n_variables = len(program.variables)
    uniform = np.zeros(program.n_registers, dtype=np.bool_)
    uniform[n_variables : program.first_output] = True
    _mark_uniform(
        program.opcodes, program.first, program.second, program.first_output, uniform
    )
    scalars = _compute_scalars(program, uniform)
    opcodes, first, reads_second = _choose_powers(program, uniform, scalars)
    distinct, repeated = _first_occurrences(program.outputs)
    limit = program.n_instructions + program.n_registers + program.outputs.size
    code = np.empty((5, limit), dtype=np.int64)
    counts = np.zeros(2, dtype=np.int64)
    _allocate(
        opcodes,
        first,
        program.second,
        reads_second,
        uniform,
        n_variables,
        program.first_output,
        distinct,
        code,
        counts,
    )
    n_steps, n_slots = counts.tolist()
    code = np.ascontiguousarray(code[:, :n_steps])
    user_steps = tuple(
        (int(position), operator_of_opcode(int(code[0, position])))
        for position in np.flatnonzero(code[0] >= MAX_BUILTIN_OPCODES)
    )
    return Schedule(
        opcodes=code[0],
        first=code[1],
        second=code[2],
        destination=code[3],
        output=code[4],
        scalars=scalars,
        n_slots=n_slots,
        repeated=repeated,
        user_steps=user_steps,
    )


def _first_occurrences(
    outputs: IntArray,
) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """Return (register, row) pairs that are new, and the rows that repeat others."""
    registers, first_rows, inverse = np.unique(
        outputs, return_index=True, return_inverse=True
    )
    source = first_rows[inverse]
    copies = np.flatnonzero(source != np.arange(outputs.size))
    return np.stack([registers, first_rows]), (copies, source[copies])


def _compute_scalars(program: Program, uniform: BoolArray) -> FloatArray:
    """Return the value of every register that does not depend on the data.

    The rest of the array is NaN and never read. The last entry is 1.
    """
    n_variables = len(program.variables)
    steps = np.flatnonzero(uniform[program.first_output :])
    width = LANES
    table = np.full(
        (program.n_registers + kernels.SCRATCH_ROWS, width), np.nan, dtype=np.float64
    )
    table[n_variables : program.first_output] = program.constants[:, None]
    kernels.run_rows(
        program.opcodes[steps],
        program.first[steps],
        program.second[steps],
        program.first_output + steps,
        np.full(steps.size, -1, dtype=np.int64),
        np.empty(0),
        np.empty((1, 0)),
        table.reshape(-1),
        np.zeros(program.n_registers, dtype=np.bool_),
        np.empty((0, 1)),
        width,
        0,
        steps.size,
        0,
        1,
    )
    return np.append(table[: program.n_registers, 0], 1.0)


def _choose_powers(
    program: Program, uniform: BoolArray, scalars: FloatArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Return opcodes, first operands and whether the second operand is read.

    Powers of constants, and with constant exponents, become cheaper instructions.
    """
    opcodes, first = program.opcodes.copy(), program.first.copy()
    reads_second = program.first != program.second
    one = scalars.size - 1
    is_power = opcodes == kernels.OPCODES["pow"]
    constant_base, constant_exponent = uniform[program.first], uniform[program.second]
    for step in np.flatnonzero(is_power & constant_exponent & ~constant_base).tolist():
        value = float(scalars[program.second[step]])
        if value == 0.0:
            opcodes[step], first[step] = kernels.FILL, one
        elif value in _POWERS:
            opcodes[step] = _POWERS[value]
        else:
            continue
        reads_second[step] = False
    for step in np.flatnonzero(is_power & constant_base & ~constant_exponent).tolist():
        value = float(scalars[program.first[step]])
        if value == 1.0:
            opcodes[step], first[step] = kernels.FILL, one
            reads_second[step] = False
        elif value != 0.0 and math.isfinite(value):
            opcodes[step] = kernels.UNIFORM_BASE
    return opcodes, first, reads_second


_INTEGERS: Final = types.Array(types.int64, 1, "C", readonly=True)
_FLAGS: Final = types.Array(types.boolean, 1, "C", readonly=True)


@kernels.cached_jit(
    _INTEGERS, _INTEGERS, _INTEGERS, types.int64, types.Array(types.boolean, 1, "C")
)
def _mark_uniform(
    opcodes: Any, first: Any, second: Any, first_output: int, uniform: Any
) -> None:
    """Mark the instructions that do not depend on the data.

    Those of user operators are left out: the kernel does not run them.
    """
    for i in range(opcodes.size):
        if opcodes[i] < MAX_BUILTIN_OPCODES:
            uniform[first_output + i] = uniform[first[i]] and uniform[second[i]]


@kernels.cached_jit(
    _INTEGERS,
    _INTEGERS,
    _INTEGERS,
    _FLAGS,
    _FLAGS,
    types.int64,
    types.int64,
    types.Array(types.int64, 2, "C"),
    types.Array(types.int64, 2, "C"),
    types.Array(types.int64, 1, "C"),
)
def _allocate(
    opcodes: Any,
    first: Any,
    second: Any,
    reads_second: Any,
    uniform: Any,
    n_variables: int,
    first_output: int,
    distinct: Any,
    code: Any,
    counts: Any,
) -> None:
    """Write the scheduled instructions to ``code``, their number and that of slots.

    Uniform registers and variables are loaded into a slot before their first use and
    leave it after their last, like results of instructions.
    """
    n_registers = first_output + opcodes.size
    output_of = np.full(n_registers, -1)
    needed = np.zeros(n_registers, dtype=np.bool_)
    for i in range(distinct.shape[1]):
        output_of[distinct[0, i]] = distinct[1, i]
        needed[distinct[0, i]] = True
    last_use = np.full(n_registers, -1)
    operands = np.empty(2, dtype=np.int64)
    for i in range(opcodes.size - 1, -1, -1):
        register = first_output + i
        if uniform[register] or not needed[register] or opcodes[i] == kernels.FILL:
            continue
        needed[first[i]] = True
        last_use[first[i]] = max(last_use[first[i]], i)
        if reads_second[i]:
            needed[second[i]] = True
            last_use[second[i]] = max(last_use[second[i]], i)
    slot_of = np.full(n_registers, -1)
    free = np.empty(n_registers + 1, dtype=np.int64)
    n_free = 0
    n_slots = 0
    n_steps = 0
    # First the instructions, then the outputs that are variables or uniform.
    for i in range(opcodes.size + distinct.shape[1]):
        n_operands = 0
        if i < opcodes.size:
            register = first_output + i
            if uniform[register] or not needed[register]:
                continue
            if opcodes[i] != kernels.FILL:
                operands[0] = first[i]
                operands[1] = second[i]
                n_operands = 2 if reads_second[i] else 1
        else:
            register = distinct[0, i - opcodes.size]
            if register >= n_variables and not uniform[register]:
                continue
        for k in range(n_operands + 1):
            # The operands that are not there yet, then the instruction itself.
            is_result = k == n_operands
            target = register if is_result else operands[k]
            if not is_result and slot_of[target] >= 0:
                continue
            if n_free > 0:
                n_free -= 1
                slot = free[n_free]
            else:
                slot = n_slots
                n_slots += 1
            if target < n_variables:
                code[0, n_steps] = kernels.LOAD
                code[1, n_steps] = target
                code[2, n_steps] = 0
            elif uniform[target] or n_operands == 0:
                code[0, n_steps] = kernels.FILL
                code[1, n_steps] = target if uniform[target] else first[i]
                code[2, n_steps] = 0
            else:
                code[0, n_steps] = opcodes[i]
                code[1, n_steps] = slot_of[first[i]]
                # One operand: the second is either the same or not read.
                code[2, n_steps] = slot_of[operands[n_operands - 1]]
            code[3, n_steps] = slot
            code[4, n_steps] = output_of[target] if is_result else -1
            if is_result and last_use[target] < 0 and output_of[target] >= 0:
                code[4, n_steps] = -2 - output_of[target]
            n_steps += 1
            slot_of[target] = slot
        for k in range(n_operands):
            slot = slot_of[operands[k]]
            if last_use[operands[k]] == i and slot >= 0:
                free[n_free] = slot
                n_free += 1
                slot_of[operands[k]] = -1
        if i >= opcodes.size or last_use[register] < 0:
            free[n_free] = slot_of[register]
            n_free += 1
            slot_of[register] = -1
    counts[0] = n_steps
    counts[1] = n_slots


_local = threading.local()


def _workspace(size: int) -> FloatArray:
    """Return memory for registers; small ones are kept for this thread's next run."""
    kept: FloatArray | None = getattr(_local, "workspace", None)
    if kept is None or kept.size < size:
        # Vectors that straddle two lines of the cache would cost twice.
        memory = np.empty(size + _CACHE_LINE // 8)
        skip = -memory.ctypes.data % _CACHE_LINE // 8
        kept = memory[skip : skip + size]
        if kept.nbytes <= _KEPT_WORKSPACE_BYTES:
            _local.workspace = kept
    return kept[:size]


def run_compiled(
    schedule: Schedule,
    X: FloatArray,
    values: FloatArray,
    spare_bytes: int,
    n_threads: int,
) -> None:
    """Fill ``values`` with the program's results.

    Parameters
    ----------
    schedule : Schedule
        What to run.
    X : ndarray of shape (n_rows, n_variables)
        The data.
    values : ndarray of shape (n_expressions, n_rows)
        Receives the results.
    spare_bytes : int
        Memory that the registers of all threads may take.
    n_threads : int
        Most threads to use.
    """
    n_rows = X.shape[0]
    n_threads = min(n_threads, -(-n_rows // LANES))
    row_bytes = 8 * (schedule.n_slots + kernels.SCRATCH_ROWS)
    largest = BLOCK_ROWS_WITH_USER_OPERATORS if schedule.user_steps else BLOCK_ROWS
    width = min(
        _padded(min(largest, -(-n_rows // n_threads))),
        spare_bytes // n_threads // row_bytes // LANES * LANES,
    )
    if width == 0:
        raise BudgetExceededError(
            f"registers take {row_bytes * LANES} bytes in each of {n_threads} "
            f"thread(s), {spare_bytes} of max_bytes are left beside the result"
        )
    if n_threads == 1:
        _run_range(schedule, X, values, width, 0, n_rows)
    else:
        share = _padded(-(-n_rows // n_threads))
        with ThreadPoolExecutor(n_threads) as pool:
            futures = [
                pool.submit(
                    _run_range,
                    schedule,
                    X,
                    values,
                    width,
                    start,
                    min(start + share, n_rows),
                )
                for start in range(0, n_rows, share)
            ]
            for future in futures:
                future.result()
    copies, sources = schedule.repeated
    if copies.size:
        values[copies] = values[sources]


def _padded(n_rows: int) -> int:
    return -(-n_rows // LANES) * LANES


def _run_range(
    schedule: Schedule,
    X: FloatArray,
    values: FloatArray,
    width: int,
    row_start: int,
    row_stop: int,
) -> None:
    dead = np.zeros(schedule.n_slots, dtype=np.bool_)
    workspace = _workspace((schedule.n_slots + kernels.SCRATCH_ROWS) * width)

    def run(start: int, stop: int, first_row: int, last_row: int) -> None:
        kernels.run_rows(
            schedule.opcodes,
            schedule.first,
            schedule.second,
            schedule.destination,
            schedule.output,
            schedule.scalars,
            X,
            workspace,
            dead,
            values,
            width,
            start,
            stop,
            first_row,
            last_row,
        )

    n_steps = schedule.opcodes.size
    if not schedule.user_steps:
        run(0, n_steps, row_start, row_stop)
        return
    registers = workspace.reshape(-1, width)
    for first_row in range(row_start, row_stop, width):
        last_row = min(first_row + width, row_stop)
        done = 0
        for step, operator in schedule.user_steps:
            run(done, step, first_row, last_row)
            _run_user_step(schedule, step, operator, registers, last_row - first_row)
            dead[schedule.destination[step]] = False
            row = schedule.output[step]
            row = row if row >= -1 else -2 - row
            if row >= 0:
                result = registers[schedule.destination[step]]
                values[row, first_row:last_row] = result[: last_row - first_row]
            done = step + 1
        run(done, n_steps, first_row, last_row)


def _run_user_step(
    schedule: Schedule,
    step: int,
    operator: Operator,
    registers: FloatArray,
    n_rows: int,
) -> None:
    """Apply a user's numpy function to one block."""
    slots = (schedule.first[step], schedule.second[step])[: operator.arity]
    # Copies, so that a function that writes to its arguments does no harm.
    operands = [registers[slot, :n_rows].copy() for slot in slots]
    with np.errstate(all="ignore"):
        result = operator.numpy(*operands)
    target = registers[schedule.destination[step]]
    target[:n_rows] = result
    target[n_rows : _padded(n_rows)] = target[n_rows - 1]
