"""Moves of a state: which there are, and what each leads to.

The table of ``sr4mdl.moves`` gives ids to moves on up to ten columns; operators that
a user registered follow it. A *code* is a move in one of four variants that say which
operands the child state gives up:

=======  ==================  ===========================================
variant  name                operands left out of the child
=======  ==================  ===========================================
0        keep                none; a full state gives up its least useful
                             other column instead
1        drop all            all operands
2        drop first          the first of a pair
3        drop second         the second of a pair
=======  ==================  ===========================================

The default style offers "keep", beside it "drop all" where columns run short; the
paper's style offers every variant, lets raw variables come back as operands, and does
not touch the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from sr4mdl import moves
from sr4mdl._typing import BoolArray, FloatArray, IntArray
from sr4mdl.closing.problem import OuterStep
from sr4mdl.expressions import Expression, apply, variable
from sr4mdl.operators import Operator, all_operators
from sr4mdl.search.state import Column, ColumnTable, State, Target, usable
from sr4mdl.selection.limits import Limits

KEEP, DROP_ALL, DROP_FIRST, DROP_SECOND = range(4)
N_VARIANTS: Final = 4
_PAIRS: Final = moves.MAX_COLUMNS * moves.MAX_COLUMNS
_CROWDED: Final = moves.MAX_COLUMNS - 2
"""Columns from which on the default style offers to drop operands."""
USER_SHARE: Final = 0.1
"""Share of the prior for operators that the guide does not know."""
_REST: Final = variable("the rest")
"""Stands for what a target is still to be explained by."""
MAX_KEPT_VARIABLES: Final = 5
"""Up to so many variables, the paper's style never gives one up."""


@dataclass(frozen=True, slots=True)
class Action:
    """A code in full; operands are places in the operand list of a state."""

    operator: Operator
    operands: tuple[int, ...]
    constant: float | None
    constant_first: bool
    on_target: bool
    variant: int


class ActionTable:
    """Codes of all moves under some allowed operators.

    Parameters
    ----------
    columns : ColumnTable
        Where new columns are looked up.
    variables : sequence of Column
        The raw variables of the tree.
    operators : sequence of str, optional
        Names of the operators allowed; None for all.
    paper : bool, default=False
        Whether to use the paper's style.
    max_length : int, default=25
        Most symbols of a column.
    max_outer_steps : int, default=4
        Most steps on the target.
    limits : Limits, optional
        What formulas may look like; columns and what is peeled off the target keep
        to its nesting and length.
    """

    def __init__(
        self,
        columns: ColumnTable,
        variables: Sequence[Column],
        *,
        operators: Sequence[str] | None = None,
        paper: bool = False,
        max_length: int = 25,
        max_outer_steps: int = 4,
        limits: Limits | None = None,
    ) -> None:
        self.columns = columns
        self.variables = tuple(variables)
        self.paper = paper
        self.limits = Limits() if limits is None else limits
        longest = self.limits.max_length
        self.max_length = max_length if longest is None else min(max_length, longest)
        self.max_outer_steps = 0 if paper else max_outer_steps
        names = None if operators is None else set(operators)
        user = [operator for operator in all_operators() if not operator.builtin]
        self.user_operators = tuple(
            operator for operator in user if names is None or operator.name in names
        )
        self.n_base = moves.N_MOVES + _PAIRS * len(self.user_operators)
        self._allowed = _allowed_moves(names, paper)
        self._codes: dict[tuple[int, int], IntArray] = {}
        protected = paper and len(self.variables) <= MAX_KEPT_VARIABLES
        self._protected = frozenset(
            column.key for column in self.variables if protected
        )

    def operands(self, state: State) -> tuple[Column, ...]:
        """Return what moves of a state may be applied to.

        The columns; in the paper's style also the raw variables that are not among
        them, as far as ids reach.
        """
        if not self.paper:
            return state.columns
        present = state.key[0]
        missing = [column for column in self.variables if column.key not in present]
        return (state.columns + tuple(missing))[: moves.MAX_COLUMNS]

    def codes(self, state: State) -> IntArray:
        """Return the codes of all moves that the shape of a state admits."""
        shape = (len(state.columns), len(self.operands(state)))
        if shape not in self._codes:
            self._codes[shape] = self._make_codes(*shape)
        return self._codes[shape]

    def _make_codes(self, n_columns: int, n_operands: int) -> IntArray:
        base, pairs = self._base(n_operands)
        if self.paper:
            parts = [
                base + KEEP * self.n_base,
                base + DROP_ALL * self.n_base,
                base[pairs] + DROP_FIRST * self.n_base,
                base[pairs] + DROP_SECOND * self.n_base,
            ]
        elif n_columns < _CROWDED:
            parts = [base]
        else:
            parts = [base, base[~self._on_target(base)] + DROP_ALL * self.n_base]
        codes = np.concatenate(parts)
        codes.flags.writeable = False
        return codes

    def priors(
        self, state: State, codes: IntArray, policy: FloatArray, uniform_share: float
    ) -> FloatArray:
        """Return the prior of each code, summing to 1.

        Parameters
        ----------
        state : State
            The state.
        codes : ndarray of shape (n_codes,)
            From :meth:`codes`.
        policy : ndarray of shape (N_MOVES,)
            The guide's log-probabilities.
        uniform_share : float
            Share spread evenly over all codes.
        """
        if len(codes) == 0:
            return np.zeros(0)
        base = codes % self.n_base
        known = base < moves.N_MOVES
        logits = np.where(known, policy[np.minimum(base, moves.N_MOVES - 1)], -np.inf)
        top = np.max(logits, initial=-np.inf)
        weights = np.zeros(len(codes))
        if np.isfinite(top):
            # The variants of a move share its probability.
            variants = np.bincount(base, minlength=self.n_base)[base]
            weights = np.exp(logits - top) / variants
            weights /= weights.sum()
        if not np.all(known):
            share = USER_SHARE if np.isfinite(top) else 1.0
            weights = (1.0 - share) * weights + share * ~known / np.sum(~known)
        elif not np.isfinite(top):
            weights += 1.0 / len(codes)
        return np.asarray((1.0 - uniform_share) * weights + uniform_share / len(codes))

    def decode(self, code: int) -> Action:
        """Return the action of a code."""
        variant, base = divmod(code, self.n_base)
        if base >= moves.N_MOVES:
            number, pair = divmod(base - moves.N_MOVES, _PAIRS)
            operator = self.user_operators[number]
            places = divmod(pair, moves.MAX_COLUMNS)[: operator.arity]
            return Action(operator, places, None, False, False, variant)
        move = moves.decode_move(base)
        if move.kind == "target":
            return Action(move.operator, (), None, False, True, variant)
        assert move.first is not None
        if move.kind == "pair":
            assert move.second is not None
            operands = (move.first, move.second)
            return Action(move.operator, operands, None, False, False, variant)
        assert move.action is not None
        return Action(
            move.operator,
            (move.first,),
            move.action.constant,
            move.action.constant_first,
            move.action.peels_target,
            variant,
        )

    def apply(self, state: State, code: int) -> State | str:
        """Return the state that a move leads to, or why it leads nowhere."""
        action = self.decode(code)
        operands = self.operands(state)
        if action.on_target:
            return self._change_target(state, action, operands)
        chosen = [operands[place] for place in action.operands]
        formulas: list[Expression | float] = [column.expression for column in chosen]
        values: list[FloatArray | float] = [column.values for column in chosen]
        if action.constant is not None:
            place = 0 if action.constant_first else 1
            formulas.insert(place, action.constant)
            values.insert(place, action.constant)
        expression = apply(action.operator, *formulas)
        if expression.length > self.max_length:
            return "too long"
        if not self.limits.nests(expression):
            return "nesting"
        with np.errstate(all="ignore"):
            result = np.asarray(action.operator.numpy(*values), dtype=np.float64)
        cause = usable(result)
        if cause:
            return cause
        column = self.columns.intern(expression, result)
        if column.key in state.key[0]:
            return "duplicate column"
        kept = self._keep(state, action, chosen, column)
        if isinstance(kept, str):
            return kept
        return State.of((*kept, column), state.target)

    def _keep(
        self, state: State, action: Action, chosen: list[Column], column: Column
    ) -> tuple[Column, ...] | str:
        """Return the old columns that stay beside a new one."""
        dropped = {
            KEEP: [],
            DROP_ALL: chosen,
            DROP_FIRST: chosen[:1],
            DROP_SECOND: chosen[1:],
        }[action.variant]
        leaving = {one.key for one in dropped} - self._protected
        kept = tuple(one for one in state.columns if one.key not in leaving)
        if action.variant != KEEP and len(kept) == len(state.columns):
            return "nothing to drop"
        if len(kept) < moves.MAX_COLUMNS:
            return kept
        victim = least_useful(kept, chosen, column, state.target)
        if victim is None or self.paper:
            return "no room"
        return tuple(one for one in kept if one is not victim)

    def _change_target(
        self, state: State, action: Action, operands: tuple[Column, ...]
    ) -> State | str:
        outer = state.target.outer
        if len(outer.steps) >= self.max_outer_steps:
            return "target too deep"
        operand = operands[action.operands[0]] if action.operands else None
        step = OuterStep(
            action.operator.name, None if operand is None else operand.expression
        )
        resolved = outer.then(step, None if operand is None else operand.values)
        if resolved is None:
            return "not invertible"
        if self.limits.nesting and not self.limits.nests(resolved.undo(_REST)):
            return "target nesting"
        cause = usable(resolved.values)
        if cause:
            return f"target {cause}"
        return State.of(state.columns, Target.of(resolved))

    def _base(self, n_operands: int) -> tuple[IntArray, BoolArray]:
        """Return the base ids for so many operands, and which are on two columns."""
        mask = np.zeros(self.n_base, dtype=np.bool_)
        mask[: moves.N_MOVES] = moves.legal_moves(n_operands) & self._allowed
        for number, operator in enumerate(self.user_operators):
            grid = np.zeros((moves.MAX_COLUMNS, moves.MAX_COLUMNS), dtype=np.bool_)
            if operator.arity == 1:
                grid[:n_operands, 0] = True
            else:
                grid[:n_operands, :n_operands] = True
                grid &= ~np.eye(moves.MAX_COLUMNS, dtype=np.bool_)
                if operator.commutes:
                    grid = np.triu(grid)
            start = moves.N_MOVES + number * _PAIRS
            mask[start : start + _PAIRS] = grid.ravel()
        base = np.flatnonzero(mask)
        pairs = [len(self.decode(int(code)).operands) == 2 for code in base]
        return base, np.array(pairs, dtype=np.bool_)

    def _on_target(self, base: IntArray) -> BoolArray:
        known = base < moves.N_MOVES
        return np.asarray(known & _target_moves()[np.minimum(base, moves.N_MOVES - 1)])


def least_useful(
    kept: Sequence[Column], chosen: Sequence[Column], column: Column, target: Target
) -> Column | None:
    """Return the column that a full state can best do without, or None.

    Only columns that live on inside another column come into question: first derived
    ones, then variables; among them the one that goes least with the target.
    """
    used = set(column.expression.subexpressions())
    for one in kept:
        used.update(
            part for part in one.expression.subexpressions() if part != one.expression
        )
    spare = {one.key for one in chosen}
    candidates = [
        one for one in kept if one.expression in used and one.key not in spare
    ]
    derived = [one for one in candidates if one.expression.operator is not None]
    return min(
        derived or candidates,
        key=lambda one: association(one.values, target.values),
        default=None,
    )


def association(values: FloatArray, target: FloatArray) -> float:
    """Return the absolute correlation of two columns that vary."""
    first = values / np.max(np.abs(values))
    second = target / np.max(np.abs(target))
    first = first - first.mean()
    second = second - second.mean()
    size = np.sqrt(np.dot(first, first) * np.dot(second, second))
    return float(abs(np.dot(first, second)) / size) if size > 0.0 else 0.0


@cache
def _target_moves() -> BoolArray:
    mask = np.zeros(moves.N_MOVES, dtype=np.bool_)
    mask[moves.FIRST_TARGET :] = True
    for number, action in enumerate(moves.COLUMN_ACTIONS):
        if action.peels_target:
            mask[number : moves.FIRST_PAIR : moves.N_COLUMN_ACTIONS] = True
    return mask


# What undoing an outer transform of y writes into the formula.
_UNDONE_BY: Final = {
    "square": "sqrt", "sqrt": "square", "inv": "inv", "log": "exp", "exp": "log",
    "sin": "arcsin", "cos": "arccos", "tan": "arctan", "add": "sub", "sub": "add",
    "mul": "div", "div": "mul",
}  # fmt: skip


def _allowed_moves(names: set[str] | None, paper: bool) -> BoolArray:
    mask = np.ones(moves.N_MOVES, dtype=np.bool_)
    for move_id in range(moves.N_MOVES):
        on_target = bool(_target_moves()[move_id])
        if on_target and paper:
            mask[move_id] = False
        elif names is not None:
            name = moves.decode_move(move_id).operator.name
            mask[move_id] = (_UNDONE_BY[name] if on_target else name) in names
    return mask
