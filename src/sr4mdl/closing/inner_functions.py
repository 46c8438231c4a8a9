"""Functions with one inner constant: values, derivative, formula and grid.

Grids are laid on the range of the argument p, not on numbers that formulas like:
what counts is how far c p moves over the data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.expressions import Expression, apply


@dataclass(frozen=True, slots=True)
class InnerFunction:
    """A function with one inner constant."""

    name: str
    values: Callable[[Any, FloatArray], FloatArray]
    """Values for constants (k, 1) and an argument (n,), shape (k, n)."""
    slope: Callable[[Any, FloatArray], FloatArray]
    """Derivative by the constant, same shapes."""
    build: Callable[[float, Expression], Expression]
    grid: Callable[[FloatArray], FloatArray]
    """Constants to try for an argument."""
    n_arguments: int = 30
    """Pool members that are tried inside."""


def scaled(c: float, p: Expression) -> Expression:
    """Return c times p."""
    return apply("mul", c, p)


def _wave_grid(p: FloatArray) -> FloatArray:
    # Neighbours differ by about a radian at the end of the range, so that one of
    # them lies in the basin of the best frequency.
    return np.arange(1.2, 60.0, 1.2) / float(np.ptp(p))


def _growth_grid(p: FloatArray) -> FloatArray:
    steps = np.array([0.6, 1.2, 2.2, 4.0, 7.0, 12.0, 25.0, 50.0])
    return np.concatenate([steps, -steps]) / np.ptp(p)


def _shift_grid(p: FloatArray) -> FloatArray:
    steps = np.array([0.4, 1.0, 2.2, 5.0, 12.0, 40.0]) / np.max(np.abs(p))
    return np.concatenate([steps, -0.7 * steps[:2]])


def _step_grid(p: FloatArray) -> FloatArray:
    return np.array([0.8, 1.3, 2.0, 3.0, 4.5, 8.0]) / float(np.max(np.abs(p)))


def _power_grid(p: FloatArray) -> FloatArray:
    steps = np.array([0.25, 0.75, 1.25, 1.7, 2.3, 2.7, 3.3])
    return np.concatenate([steps, -steps])


def _one_plus(c: float, p: Expression) -> Expression:
    return apply("add", 1.0, scaled(c, p))


FUNCTIONS: Final = (
    InnerFunction(
        "sin",
        lambda c, p: np.sin(c * p),
        lambda c, p: p * np.cos(c * p),
        lambda c, p: apply("sin", scaled(c, p)),
        _wave_grid,
        32,
    ),
    InnerFunction(
        "cos",
        lambda c, p: np.cos(c * p),
        lambda c, p: -p * np.sin(c * p),
        lambda c, p: apply("cos", scaled(c, p)),
        _wave_grid,
        32,
    ),
    InnerFunction(
        "exp",
        lambda c, p: np.exp(c * p),
        lambda c, p: p * np.exp(c * p),
        lambda c, p: apply("exp", scaled(c, p)),
        _growth_grid,
        100,
    ),
    InnerFunction(
        "inv",
        lambda c, p: 1.0 / (1.0 + c * p),
        lambda c, p: -p / np.square(1.0 + c * p),
        lambda c, p: apply("inv", _one_plus(c, p)),
        _shift_grid,
    ),
    InnerFunction(
        "log",
        lambda c, p: np.log(1.0 + c * p),
        lambda c, p: p / (1.0 + c * p),
        lambda c, p: apply("log", _one_plus(c, p)),
        _shift_grid,
    ),
    InnerFunction(
        "sqrt",
        lambda c, p: np.sqrt(1.0 + c * p),
        lambda c, p: 0.5 * p / np.sqrt(1.0 + c * p),
        lambda c, p: apply("sqrt", _one_plus(c, p)),
        _shift_grid,
    ),
    InnerFunction(
        "tanh",
        lambda c, p: np.tanh(c * p),
        lambda c, p: p * (1.0 - np.square(np.tanh(c * p))),
        lambda c, p: apply("tanh", scaled(c, p)),
        _step_grid,
    ),
    InnerFunction(
        "pow",
        lambda c, p: np.power(p, c),
        lambda c, p: np.power(p, c) * np.log(p),
        lambda c, p: apply("pow", p, c),
        _power_grid,
        12,
    ),
)
"""Functions with an inner constant; sin and cos together make up any phase."""
