"""Folding of operators applied to numbers, in the order in which they are written."""

import math
from collections.abc import Callable
from typing import Final

from sr4mdl.simplify.nodes import UnfitError, checked, number_power

_UNARY: Final[dict[str, Callable[[float], float]]] = {
    "sqrt": math.sqrt,
    "square": lambda x: x * x,
    "cube": lambda x: x * x * x,
    "inv": lambda x: 1.0 / x,
    "neg": lambda x: -x,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "arcsin": math.asin,
    "arccos": math.acos,
    "arctan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
}
_BINARY: Final[dict[str, Callable[[float, float], float]]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": number_power,
}


def fold(name: str, *values: float) -> float:
    """Return an operator applied to numbers.

    Raises
    ------
    UnfitError
        If it is undefined there, overflows, or comes near to over- or underflow.
    """
    try:
        if len(values) == 1:
            return checked(_UNARY[name](values[0]))
        return checked(_BINARY[name](*values))
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise UnfitError(f"{name} is undefined there") from error
