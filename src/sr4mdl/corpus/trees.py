"""Random expressions of a given length over the whole operator table.

They know nothing of what formulas people write: tests and benchmarks use them to
reach every corner. Training formulas come from ``corpus.formulas``.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.operators import Operator, all_operators

_Item = TypeVar("_Item")

_SMALL_CONSTANTS = (1.0, 2.0, 3.0, 0.5, -1.0, -2.0, 4.0, float(np.pi), 0.0)


def random_expression(
    rng: np.random.Generator,
    length: int,
    variables: Sequence[str] = ("x0", "x1", "x2"),
    *,
    operators: Sequence[Operator] | None = None,
    constant_rate: float = 0.25,
) -> Expression:
    """Return a random expression of exactly ``length`` symbols.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    length : int
        Number of symbols, at least 1.
    variables : sequence of str
        Names to draw from.
    operators : sequence of Operator, optional
        Operators to draw from (cost 1); all built-in ones by default.
    constant_rate : float, default=0.25
        Share of constants among the leaves; half of them small whole numbers and
        the like, half drawn from a wide normal distribution.
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    if operators is None:
        operators = [operator for operator in all_operators() if operator.builtin]
    unary = [operator for operator in operators if operator.arity == 1]
    binary = [operator for operator in operators if operator.arity == 2]
    return _grow(rng, length, variables, unary, binary, constant_rate)


def _pick(rng: np.random.Generator, items: Sequence[_Item]) -> _Item:
    return items[int(rng.integers(len(items)))]


def _grow(
    rng: np.random.Generator,
    length: int,
    variables: Sequence[str],
    unary: Sequence[Operator],
    binary: Sequence[Operator],
    constant_rate: float,
) -> Expression:
    if length == 1:
        if rng.random() >= constant_rate:
            return variable(_pick(rng, variables))
        if rng.random() < 0.5:
            return constant(_pick(rng, _SMALL_CONSTANTS))
        return constant(round(float(rng.normal(scale=10.0)), 3))
    if length == 2 or rng.random() < 0.35:
        operator = _pick(rng, unary)
        inner = _grow(rng, length - 1, variables, unary, binary, constant_rate)
        return apply(operator, inner)
    left = int(rng.integers(1, length - 1))
    operator = _pick(rng, binary)
    return apply(
        operator,
        _grow(rng, left, variables, unary, binary, constant_rate),
        _grow(rng, length - 1 - left, variables, unary, binary, constant_rate),
    )
