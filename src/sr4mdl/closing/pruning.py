"""Shorter variants of a formula: parts left out, absolute values that are idle."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.expressions import Expression, apply
from sr4mdl.selection.fitting import Form

_PRUNED: Final = frozenset({"add", "sub", "mul", "div"})


def shortened(expression: Expression) -> list[Expression]:
    """Return the formula with one side of a sum, product or quotient left out."""
    variants: dict[Expression, None] = {}
    for node in expression.subexpressions():
        if node.operator is None or node.operator.name not in _PRUNED:
            continue
        first, second = node.arguments
        keeps = [first]
        if node.operator.name in ("add", "mul"):
            keeps.append(second)
        elif node.operator.name == "sub":
            keeps.append(apply("neg", second))
        for kept in keeps:
            if kept.value is None or node is expression:
                variants[replace_node(expression, node, kept)] = None
    return list(variants)


def without_idle_abs(
    expression: Expression, known: Mapping[Expression, FloatArray], n_rows: int
) -> Expression:
    """Return the formula without absolute values of what never changes sign."""
    for node in list(expression.subexpressions()):
        if node.operator is None or node.operator.name != "abs":
            continue
        inside = node.arguments[0]
        form = Form(inside, known, n_rows)
        values = form.predict(form.values)
        if np.all(values >= 0.0):
            expression = replace_node(expression, node, inside)
        elif np.all(values <= 0.0):
            expression = replace_node(expression, node, apply("neg", inside))
    return expression


def replace_node(
    expression: Expression, old: Expression, new: Expression
) -> Expression:
    """Return the formula with one subformula replaced wherever it occurs."""
    rebuilt: dict[Expression, Expression] = {}
    for node in expression.subexpressions():
        if node is old:
            rebuilt[node] = new
        elif node.operator is None:
            rebuilt[node] = node
        else:
            rebuilt[node] = apply(
                node.operator, *(rebuilt[argument] for argument in node.arguments)
            )
    return rebuilt[expression]
