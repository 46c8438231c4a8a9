"""The paper's phi: the linear map from columns to the target, by least squares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.expressions import Expression, apply, constant
from sr4mdl.selection.tidying import tidy

NEGLIGIBLE: Final = 1e-10
"""A term smaller than this share of the largest is not written."""


@dataclass(frozen=True, slots=True)
class LinearMap:
    """``intercept + sum of coefficient * column``."""

    intercept: float
    coefficients: FloatArray
    """(n_columns,)"""
    values: FloatArray
    """(n_rows,) what it predicts."""
    r2: float
    """Share of the target's variance explained, from 0 to 1."""

    def write(self, expressions: Sequence[Expression], sizes: FloatArray) -> Expression:
        """Return the formula of the map.

        Parameters
        ----------
        expressions : sequence of Expression
            The columns' formulas.
        sizes : ndarray of shape (n_columns,)
            Largest absolute value of each column, by which terms are compared.
        """
        shares = np.abs(self.coefficients) * sizes
        largest = max(abs(self.intercept), float(np.max(shares, initial=0.0)))
        total = constant(self.intercept)
        if abs(self.intercept) < NEGLIGIBLE * largest:
            total = constant(0.0)
        for expression, coefficient, share in zip(
            expressions, self.coefficients.tolist(), shares.tolist(), strict=True
        ):
            if share >= NEGLIGIBLE * largest:
                total = apply("add", total, apply("mul", coefficient, expression))
        return tidy(total)


def fit_linear(columns: FloatArray, target: FloatArray) -> LinearMap:
    """Return the least-squares map.

    Parameters
    ----------
    columns : ndarray of shape (n_rows, n_columns)
        Finite values; no column is 0 everywhere.
    target : ndarray of shape (n_rows,)
        Finite values, not all equal.
    """
    sizes = np.max(np.abs(columns), axis=0)
    scale = float(np.max(np.abs(target)))
    # Scaled and centred: neither units nor offsets cost precision.
    matrix = columns / sizes
    means = matrix.mean(axis=0)
    matrix = matrix - means
    y = target / scale
    mean = float(y.mean())
    y = y - mean
    solution = np.linalg.lstsq(matrix, y, rcond=1e-12)[0]
    fitted = matrix @ solution
    residual = y - fitted
    r2 = 1.0 - float(np.dot(residual, residual) / np.dot(y, y))
    return LinearMap(
        scale * (mean - float(np.dot(solution, means))),
        scale * (solution / sizes),
        scale * (fitted + mean),
        min(max(r2, 0.0), 1.0),
    )
