"""What a formula leaves over: its terms are closed again, together with the variables.

A sum of many terms under noise is found bit by bit: the strongest terms first, and
what they leave shows the others. The tree does not look there, since it grows columns
and not answers. So each new best formula is taken apart into its terms, and these and
the variables make a state that is closed like any other; as long as that shortens the
code, it is done again.
"""

from typing import Final

import numpy as np

from sr4mdl.evaluate import evaluate
from sr4mdl.expressions import Expression, apply
from sr4mdl.search.judge import Solution
from sr4mdl.search.readout import Readout
from sr4mdl.search.state import Column, ColumnTable, State, usable
from sr4mdl.search.stopping import Stopper

MAX_TERMS: Final = 8
"""Terms of a formula that are taken; one with more is not extended."""
TIME_SHARE: Final = 0.1
"""Most of the whole search's time that one full closing of terms may take."""


def terms_of(expression: Expression) -> list[Expression]:
    """Return the terms of a sum, without their coefficients and without constants.

    Examples
    --------
    >>> from sr4mdl.text import parse
    >>> [str(term) for term in terms_of(parse("3 - 0.5*(a + 2*sin(b)) - a*b/4"))]
    ['a', 'sin(b)', 'a*b']
    """
    bare = _without_coefficient(expression)
    if not bare.variables:
        return []
    if bare.operator is None or bare.operator.name not in ("add", "sub"):
        return [bare]
    parts = [term for argument in bare.arguments for term in terms_of(argument)]
    return list(dict.fromkeys(parts))


def _without_coefficient(expression: Expression) -> Expression:
    """Return a product without its constant factors and signs."""
    name = "" if expression.operator is None else expression.operator.name
    if name == "neg":
        return _without_coefficient(expression.arguments[0])
    if name not in ("mul", "div"):
        return expression
    first, second = map(_without_coefficient, expression.arguments)
    if not second.variables:
        return first
    if not first.variables:
        return second if name == "mul" else apply("inv", second)
    return apply(name, first, second)


class Extension:
    """Extends the best formula whenever it is a new one.

    Parameters
    ----------
    root : State
        Its columns join the terms; its target is the one that is closed.
    columns : ColumnTable
        Where columns are kept.
    readout : Readout
        Closes the states.
    stopper : Stopper
        Says when to end.
    """

    def __init__(
        self, root: State, columns: ColumnTable, readout: Readout, stopper: Stopper
    ) -> None:
        self.root = root
        self.columns = columns
        self.readout = readout
        self.stopper = stopper
        self._seen: Solution | None = None

    def run(self) -> None:
        """Extend the best formula until nothing is gained; each one once."""
        judge = self.readout.judge
        while judge.best is not self._seen:
            if self.stopper.reason() is not None or self.stopper.solved:
                return
            best = self._seen = judge.best
            state = None if best is None else self.state(best.expression)
            if state is None:
                return
            self.readout.quick(state)
            if judge.best is best and self.stopper.reason() is None:
                self.readout.full(state, TIME_SHARE)

    def state(self, expression: Expression) -> State | None:
        """Return the state of a formula's terms and the root's columns."""
        terms = terms_of(expression)
        if not 1 <= len(terms) <= MAX_TERMS:
            return None
        rows = self.readout.data.search
        with np.errstate(all="ignore"):
            values = evaluate(terms, rows.X, rows.names, backend="numpy").values
        found: dict[bytes, Column] = {one.key: one for one in self.root.columns}
        n_root = len(found)
        for term, column in zip(terms, np.ascontiguousarray(values), strict=True):
            if not usable(column):
                interned = self.columns.intern(term, column)
                found.setdefault(interned.key, interned)
        if len(found) == n_root:
            return None
        return State.of(tuple(found.values()), self.root.target)
