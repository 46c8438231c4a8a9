"""States that the moves of a state lead to, with the network's estimates.

This is the paper's way of choosing a move: look at every state that can be reached and
take the one with the shortest estimated remainder. Moves are those of the search, which
refuses what is undefined, constant or a column that is there already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl import moves
from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.expressions import Expression, variable
from sr4mdl.mdlformer.guide import Guide
from sr4mdl.search.actions import ActionTable
from sr4mdl.search.state import Column, ColumnTable, State, Target, pack_states

_CHUNK: Final = 256
_NO_LIMIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Estimates:
    """What the network says of some states."""

    mean: FloatArray
    """(n_states,) missing symbols, averaged over draws of rows."""
    spread: FloatArray
    """(n_states,) the network's own standard deviation, averaged over draws."""
    log_policy: FloatArray
    """(n_states, N_MOVES) log-probabilities of the moves, averaged over draws."""


class ChildFinder:
    """Makes states of columns and finds their children.

    Parameters
    ----------
    target : ndarray of shape (n_rows,)
        Values of the target at the root.
    """

    def __init__(self, target: FloatArray) -> None:
        self.target = Target.original(target)
        self.columns = ColumnTable()
        self.actions = ActionTable(
            self.columns, (), max_length=_NO_LIMIT, max_outer_steps=_NO_LIMIT
        )

    def state(
        self,
        columns: FloatArray,
        expressions: Sequence[Expression] | None = None,
        target: FloatArray | None = None,
    ) -> State:
        """Return the state of columns (n_rows, n_columns), in this order.

        Parameters
        ----------
        columns : ndarray of shape (n_rows, n_columns)
            Their values.
        expressions : sequence of Expression, optional
            What the columns are called; by default c0, c1 and so on.
        target : ndarray of shape (n_rows,), optional
            The target where it is no longer that of the root.
        """
        if expressions is None:
            expressions = [variable(f"c{n}") for n in range(columns.shape[1])]
        members: list[Column] = [
            self.columns.intern(expression, np.ascontiguousarray(values))
            for expression, values in zip(expressions, columns.T, strict=True)
        ]
        now = self.target if target is None else Target.original(target)
        return State.of(tuple(members), now)

    def children(self, state: State) -> tuple[IntArray, list[State]]:
        """Return the moves that lead somewhere, and the states that they lead to.

        No column is given up; a full state gives up its least useful one.
        """
        found: list[int] = []
        states: list[State] = []
        for code in self.actions.codes(state):
            if code >= moves.N_MOVES:
                # The other variants of a move, which give up operands.
                continue
            child = self.actions.apply(state, int(code))
            if isinstance(child, State):
                found.append(int(code))
                states.append(child)
        return np.array(found, dtype=np.int64), states


def estimate(
    guide: Guide, states: Sequence[State], row_draws: Sequence[IntArray]
) -> Estimates:
    """Return the estimates of states, averaged over draws of rows.

    Parameters
    ----------
    guide : Guide
        The network.
    states : sequence of State
        States over the same rows.
    row_draws : sequence of ndarray of int
        Places of the rows that the network sees, one array a draw.
    """
    mean = np.zeros((len(row_draws), len(states)))
    spread = np.zeros_like(mean)
    log_policy = np.zeros((len(states), moves.N_MOVES))
    for draw, rows in enumerate(row_draws):
        for start in range(0, len(states), _CHUNK):
            chunk = states[start : start + _CHUNK]
            output = guide.score(*pack_states(chunk, rows))
            part = slice(start, start + len(chunk))
            mean[draw, part] = output.value_mean
            spread[draw, part] = output.value_spread
            log_policy[part] += output.log_probabilities / len(row_draws)
    return Estimates(mean.mean(0), spread.mean(0), log_policy)
