"""Parameters and data of a fit: checked, named, turned into what the search takes."""

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sr4mdl._typing import FloatArray, IntArray


def list_callbacks(given: Any) -> list[Callable[..., Any]]:
    """Return one callback or several as a list; what cannot be called is refused."""
    if given is None:
        return []
    callbacks = [given] if callable(given) else list(given)
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"callbacks must be callable, got {callback!r}")
    return callbacks


def canonical_order(X: FloatArray, y: FloatArray) -> IntArray:
    """Return the order of rows by their values, whatever order they come in."""
    columns = np.column_stack([X, y])
    return np.lexsort(columns.T[::-1])


def make_seed(random_state: Any) -> int:
    """Return a seed for the search, drawn if no number is given."""
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def check_real(name: str, value: Any, below: float) -> None:
    """Refuse what is neither None nor a number between 0 and ``below``."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be None or a number, got {value!r}")
    if not 0.0 < float(value) < below:
        limit = "finite" if below == math.inf else f"less than {below:g}"
        raise ValueError(f"{name} must be more than 0 and {limit}, got {value!r}")


def check_length(name: str, value: Any) -> None:
    """Refuse what is neither None nor a whole number of 1 or more."""
    if value is None:
        return
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or int(value) < 1:
        raise ValueError(
            f"{name} must be None or a whole number of 1 or more, got {value!r}"
        )


def tuple_of(values: Any, name: str) -> tuple[Any, ...]:
    """Return a sequence as a tuple; text and single values are refused."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name} must be a sequence, got {values!r}")
    return tuple(
        float(value) if isinstance(value, np.floating) else value for value in values
    )


def check_constants(values: tuple[Any, ...]) -> None:
    """Refuse what is not a finite number."""
    for value in values:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not math.isfinite(value):
            raise ValueError(f"constants must be finite numbers, got {value!r}")


def target_names(y: Any) -> list[str] | None:
    """Return the names that the target brings, from a Series or a frame."""
    names = getattr(y, "columns", None)
    if names is None:
        name = getattr(y, "name", None)
        names = [name] if isinstance(name, str) and name else None
    if names is None or not all(isinstance(name, str) and name for name in names):
        return None
    return list(names)


def name_targets(
    given: list[str] | None, y: FloatArray, features: tuple[str, ...]
) -> list[str]:
    """Return a name for each target, other than those of the features."""
    n_targets = y.shape[1] if y.ndim == 2 else 1
    if given is None or len(given) != n_targets:
        given = ["y"] if y.ndim == 1 else [f"y{place}" for place in range(n_targets)]
    names: list[str] = []
    for name in given:
        name = name.replace("`", "'")
        while name in features or name in names:
            name += "_"
        names.append(name)
    return names


def plain_value(value: Any) -> Any:
    """Return a parameter as JSON holds it, or None if it does not."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (tuple, list, np.ndarray)):
        values = [plain_value(one) for one in value]
        return None if any(one is None for one in values) else values
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    return value if isinstance(value, (bool, int, float, str)) else None
