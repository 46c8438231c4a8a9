"""Functions on numpy arrays and torch tensors, made of the operators' own forms."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.expressions import Expression
from sr4mdl.operators import Operator

if TYPE_CHECKING:
    import torch


def _steps(
    expression: Expression, variables: Sequence[str]
) -> list[tuple[Operator | None, tuple[int, ...], float]]:
    """Return the formula as steps: operator and places, column, or number."""
    missing = expression.variables - set(variables)
    if missing:
        raise ValueError(
            f"variables must contain {sorted(missing)}, got {list(variables)}"
        )
    columns = {name: index for index, name in enumerate(variables)}
    places: dict[Expression, int] = {}
    steps: list[tuple[Operator | None, tuple[int, ...], float]] = []
    for node in expression.subexpressions():
        places[node] = len(steps)
        if node.operator is not None:
            operands = tuple(places[argument] for argument in node.arguments)
            steps.append((node.operator, operands, 0.0))
        elif node.name is not None:
            steps.append((None, (columns[node.name],), 0.0))
        else:
            assert node.value is not None
            steps.append((None, (), node.value))
    return steps


def to_numpy(
    expression: Expression, variables: Sequence[str]
) -> Callable[[FloatArray], FloatArray]:
    """Return a function from X of shape (n_rows, n_variables) to values (n_rows,).

    NaN and infinities outside the domain stay as they are, without a warning. For
    many formulas or many calls ``sr4mdl.evaluate`` is faster.
    """
    steps = _steps(expression, variables)
    n_variables = len(variables)

    def run(X: FloatArray) -> FloatArray:
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != n_variables:
            raise ValueError(
                f"X must have shape (n_rows, {n_variables}), got {table.shape}"
            )
        results: list[Any] = []
        with np.errstate(all="ignore"):
            for operator, places, value in steps:
                if operator is not None:
                    operands = [results[place] for place in places]
                    results.append(operator.numpy(*operands))
                elif places:
                    results.append(table[:, places[0]].copy())
                else:
                    results.append(np.full(table.shape[0], value))
        final: FloatArray = results[-1]
        return final

    return run


def to_torch(
    expression: Expression, variables: Sequence[str]
) -> "Callable[[torch.Tensor], torch.Tensor]":
    """Return a function from a tensor (n_rows, n_variables) to values (n_rows,).

    It keeps dtype and device, and gradients flow through it, unless an operator of a
    user has no torch form. Whole numbers and booleans become torch's default floats.
    """
    steps = _steps(expression, variables)
    n_variables = len(variables)

    def run(X: "torch.Tensor") -> "torch.Tensor":
        import torch

        if X.ndim != 2 or X.shape[1] != n_variables:
            raise ValueError(
                f"X must have shape (n_rows, {n_variables}), got {tuple(X.shape)}"
            )
        if not X.is_floating_point():
            X = X.to(torch.get_default_dtype())
        results: list[torch.Tensor] = []
        for operator, places, value in steps:
            if operator is not None:
                form = operator.torch
                function = getattr(torch, form) if isinstance(form, str) else form
                results.append(function(*(results[place] for place in places)))
            elif places:
                results.append(X[:, places[0]])
            else:
                results.append(X.new_full((X.shape[0],), value))
        return results[-1]

    return run
