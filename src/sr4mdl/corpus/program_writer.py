"""Register programs of search states, written by compiled code.

A program computes columns and target of a state from the inputs. Registers: the inputs
first, then constants (the formula's, those of the moves, those of hidden functions),
then one for each instruction. ``evaluate`` runs such programs.
"""

from typing import Final

import numpy as np
from numba import njit

from sr4mdl import moves
from sr4mdl.corpus.remainder import (
    ABS,
    ADD,
    COS,
    DIV,
    EXP,
    FIRST_NODE,
    INV,
    LOG,
    MUL,
    NEG,
    POW,
    SIN,
    SQRT,
    SQUARE,
    SUB,
)
from sr4mdl.corpus.skeletons import (
    CONSTANT,
    MAX_CONSTANTS,
    POWER,
    SUM,
    UNARY,
    VARIABLE,
)

N_INPUTS: Final = moves.MAX_COLUMNS
FIRST_CONSTANT: Final = N_INPUTS
N_CONSTANT_REGISTERS: Final = MAX_CONSTANTS + 8
FIRST_OUTPUT: Final = FIRST_CONSTANT + N_CONSTANT_REGISTERS
MAX_INSTRUCTIONS: Final = 96
N_REGISTERS: Final = FIRST_OUTPUT + MAX_INSTRUCTIONS

# Constants of the moves have registers of their own after the formula's slots.
MOVE_CONSTANTS: Final = (1.0, 2.0, 3.0, float(np.pi))
FIRST_MOVE_CONSTANT: Final = FIRST_CONSTANT + MAX_CONSTANTS
_FIRST_LATENT_CONSTANT: Final = FIRST_MOVE_CONSTANT + len(MOVE_CONSTANTS)
_N_LATENT_CONSTANTS: Final = N_CONSTANT_REGISTERS - MAX_CONSTANTS - len(MOVE_CONSTANTS)

# Random functions of hidden variables draw from these.
_LATENT_UNARY = np.array([SQRT, SQUARE, INV, EXP, SIN, COS, LOG, ABS], np.int64)


@njit(cache=True)
def write(operations, firsts, seconds, n, opcode, first, second):  # type: ignore[no-untyped-def]
    """Write instruction ``n``; return the number of instructions."""
    operations[n] = opcode
    firsts[n] = first
    seconds[n] = second
    return n + 1


@njit(cache=True)
def write_formula(  # type: ignore[no-untyped-def]
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
            n = write(
                operations, firsts, seconds, n, argument[node], register[child[begin]],
                0,
            )  # fmt: skip
        elif what == POWER:
            n = write(
                operations, firsts, seconds, n, POW, register[child[begin]],
                register[child[begin + 1]],
            )  # fmt: skip
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
                    n = write(
                        operations, firsts, seconds, n, opcode, total,
                        register[child[edge]],
                    )  # fmt: skip
                    total = FIRST_OUTPUT + n - 1
            if sign[lead] < 0:
                opcode = NEG if what == SUM else INV
                n = write(operations, firsts, seconds, n, opcode, total, 0)
        register[node] = FIRST_OUTPUT + n - 1
    return register[root], n


@njit(cache=True)
def write_latents(  # type: ignore[no-untyped-def]
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
                n = write(operations, firsts, seconds, n, opcode, register, 0)
            else:
                opcode = ADD + np.random.randint(0, 3)
                if draw < 0.7:
                    other = np.random.randint(0, n_hidden)
                else:
                    other = _FIRST_LATENT_CONSTANT + np.random.randint(
                        0, _N_LATENT_CONSTANTS
                    )
                n = write(operations, firsts, seconds, n, opcode, register, other)
            register = FIRST_OUTPUT + n - 1
        variable_register[number] = register
    return n
