"""Guides and closings that know what a test wants them to know."""

from collections.abc import Callable, Sequence

import numpy as np

from sr4mdl import moves
from sr4mdl.data import Dataset
from sr4mdl.evaluate import evaluate
from sr4mdl.expressions import Expression
from sr4mdl.mdlformer.guide import FakeGuide
from sr4mdl.search.state import Column, State, Target, fingerprint
from sr4mdl.text import parse


def column(text: str, values: Sequence[float]) -> Column:
    numbers = np.array(values, dtype=np.float64)
    return Column(parse(text), numbers, fingerprint(numbers))


def state(columns: dict[str, Sequence[float]], y: Sequence[float]) -> State:
    return State.of(
        tuple(column(text, values) for text, values in columns.items()),
        Target.original(np.array(y, dtype=np.float64)),
    )


def hidden_formula_guide(
    formula: Expression, X: np.ndarray, names: Sequence[str]
) -> FakeGuide:
    """Return a guide that knows the formula; it must be shown all rows of X, in order.

    Parts of the formula are found among the columns by their values. What is missing
    is the number of symbols of the formula in which such parts count one.
    """
    parts = list(formula.subexpressions())
    values = evaluate(parts, X, list(names), backend="numpy").values
    table = dict(zip(parts, values.astype(np.float32), strict=True))
    y = table[formula]

    def answer(
        columns: np.ndarray, target: np.ndarray
    ) -> tuple[float, dict[int, float]]:
        if target.shape != y.shape or not np.allclose(target, y, rtol=1e-4):
            return 30.0, {}
        place = {
            part: number
            for part in parts
            for number in range(columns.shape[1])
            if np.allclose(columns[:, number], table[part], rtol=1e-4, atol=1e-12)
        }
        if formula in place:
            return 0.0, {}
        missing, wanted, stack = 0, [], [formula]
        while stack:
            node = stack.pop()
            missing += 1
            if node not in place and node.operator is not None:
                wanted.append(node)
                stack.extend(node.arguments)
        logits = {}
        for node in wanted:
            places = [place.get(argument) for argument in node.arguments]
            move = _move(node, places)
            if move is not None:
                logits[move] = 6.0
        return float(missing), logits

    return FakeGuide(answer)


def _move(node: Expression, places: list[int | None]) -> int | None:
    """Return the id of the move that makes a node; places are its operands' columns."""
    assert node.operator is not None
    numbers = [argument.value for argument in node.arguments]
    known = [place for place in places if place is not None]
    if len(known) == 2 and known[0] != known[1]:
        operator = moves.PAIR_OPERATORS.index(node.operator)
        return moves.pair_move_id(operator, known[0], known[1])
    for number, action in enumerate(moves.COLUMN_ACTIONS):
        if action.operator is not node.operator or action.peels_target:
            continue
        if action.constant is None:
            if len(places) == 1 and known:
                return moves.column_move_id(known[0], number)
        elif numbers[0 if action.constant_first else 1] == action.constant and known:
            return moves.column_move_id(known[0], number)
    return None


def table(
    function: Callable[..., np.ndarray], n_variables: int, n_rows: int = 80
) -> Dataset:
    """Return a dataset of a function of variables drawn from 0.5 to 3."""
    X = np.random.default_rng(7).uniform(0.5, 3.0, (n_rows, n_variables))
    return Dataset.from_arrays(X, function(*X.T))
