"""Search states with labels, made from skeletons by compiled code.

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

The value label is the number of symbols still missing: 0 when the target itself is a
column. See ``derivation`` for the walk and ``program_writer`` for the programs that
compute columns and target.
"""

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sr4mdl import moves
from sr4mdl.corpus.derivation import MAX_MOVES, derive
from sr4mdl.corpus.program_writer import MAX_INSTRUCTIONS, N_CONSTANT_REGISTERS
from sr4mdl.corpus.remainder import MAX_COLUMN_IDS
from sr4mdl.corpus.skeletons import SkeletonBank


@njit(cache=True)
def _fill(  # type: ignore[no-untyped-def]
    seed, bank, n_filled, out, n_states, redraw, decimal_share, latent_rate, junk_rate,
    drop_rate, root_rate, emit_rate, shuffle,
):  # fmt: skip
    np.random.seed(seed)
    row = 0
    while row < n_states:
        formula = np.random.randint(0, n_filled)
        row = derive(
            bank, formula, out, row, n_states, redraw, decimal_share, latent_rate,
            junk_rate, drop_rate, root_rate, emit_rate, shuffle,
        )  # fmt: skip


@njit(cache=True)
def _walk(seed, bank, formula, out, n_states, drop_rate):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    return derive(
        bank, formula, out, 0, n_states, 0.0, 0.0, 0.0, 0.0, drop_rate, 1.0, 1.0, False
    )


@njit(cache=True)
def _roots(seed, bank, n_filled, out, made, latent_rate):  # type: ignore[no-untyped-def]
    np.random.seed(seed)
    for formula in range(n_filled):
        row = derive(
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
            columns=np.zeros((n_states, moves.MAX_COLUMNS), np.uint8),
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
