"""The numpy back end: one array operation per instruction.

Runs every operator, those registered by a user too, needs nothing to be compiled, and
is what small work and the tests use.
"""

from typing import Any

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.errors import BudgetExceededError
from sr4mdl.evaluate.programs import Program
from sr4mdl.operators import operator_of_opcode


def run_numpy(
    program: Program, X: FloatArray, values: FloatArray, spare_bytes: int
) -> None:
    """Fill ``values`` with the program's results, in chunks of rows.

    Parameters
    ----------
    program : Program
        What to run.
    X : ndarray of shape (n_rows, n_variables)
        The data.
    values : ndarray of shape (n_expressions, n_rows)
        Receives the results.
    spare_bytes : int
        Memory that the registers may take.
    """
    last_use = _last_uses(program)
    n_rows = X.shape[0]
    chunk = n_rows
    if 8 * program.n_registers * n_rows > spare_bytes:
        row_bytes = 8 * _most_alive(program, last_use)
        chunk = spare_bytes // row_bytes
        if chunk == 0:
            raise BudgetExceededError(
                f"registers take {row_bytes} bytes per row, {spare_bytes} of max_bytes "
                "are left beside the result"
            )
    with np.errstate(all="ignore"):
        for start in range(0, n_rows, chunk):
            stop = min(start + chunk, n_rows)
            _run_chunk(program, last_use, X[start:stop], values[:, start:stop])


def _last_uses(program: Program) -> IntArray:
    """Return, for each register, the last instruction that reads it (-1: none)."""
    last_use = np.full(program.n_registers, -1, dtype=np.int64)
    position = np.arange(program.n_instructions)
    np.maximum.at(last_use, program.first, position)
    np.maximum.at(last_use, program.second, position)
    # Outputs stay until the end; the results are copied out then.
    last_use[program.outputs] = program.n_instructions
    return last_use


def _most_alive(program: Program, last_use: IntArray) -> int:
    """Return the largest number of arrays that exist at a time."""
    change = np.zeros(program.n_instructions + 2, dtype=np.int64)
    created = np.arange(program.n_instructions)
    change[: program.n_instructions] += 1
    # Not even read once: gone after its own instruction.
    removed = np.maximum(last_use[program.first_output :], created)
    np.add.at(change, removed + 1, -1)
    # Columns of X that are copied to be contiguous, and one array inside an operator.
    return int(np.cumsum(change).max(initial=0)) + len(program.variables) + 1


def _run_chunk(
    program: Program, last_use: IntArray, X: FloatArray, values: FloatArray
) -> None:
    n_rows = X.shape[0]
    registers: list[Any] = [
        np.ascontiguousarray(column) if last_use[index] >= 0 else None
        for index, column in enumerate(X.T)
    ]
    registers += [np.float64(constant) for constant in program.constants]
    steps = zip(
        program.opcodes.tolist(),
        program.first.tolist(),
        program.second.tolist(),
        strict=True,
    )
    ends = last_use.tolist()
    for position, (opcode, first, second) in enumerate(steps):
        operator = operator_of_opcode(opcode)
        operands = (registers[first], registers[second])[: operator.arity]
        if not operator.builtin or operator.name == "pow":
            # A user's function is promised arrays of one shape. And numpy takes the
            # square root for a scalar exponent 1/2, which differs for -0.0 and -inf.
            operands = tuple(np.broadcast_to(a, (n_rows,)).copy() for a in operands)
        registers.append(operator.numpy(*operands))
        if ends[first] == position:
            registers[first] = None
        if ends[second] == position:
            registers[second] = None
    for index, register in enumerate(program.outputs.tolist()):
        values[index] = registers[register]
