"""Constants of a formula as parameters: values, derivatives, least squares.

``Form`` splits a formula into its shape and its constants, one parameter per
occurrence, and evaluates it with analytic derivatives (forward mode) with respect to
the free ones. ``fit_constants`` runs Levenberg-Marquardt on them. Parts without free
constants are evaluated once. Non-finite values never pass silently: a step that
leads to one is refused, a start that gives one is reported as a failed fit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sr4mdl._typing import BoolArray, FloatArray
from sr4mdl.expressions import Expression, apply, constant
from sr4mdl.operators import Operator
from sr4mdl.selection.bits import root_mean_square

Array = Any
"""A float array of shape (n_rows,), or a scalar where all rows agree."""
_UNARY_DERIVATIVES: Final[dict[str, Callable[[Array, Array], Array]]] = {
    # name: derivative from the argument x and the value f(x)
    "sqrt": lambda x, f: 0.5 / f,
    "square": lambda x, f: 2.0 * x,
    "cube": lambda x, f: 3.0 * x * x,
    "inv": lambda x, f: -f * f,
    "neg": lambda x, f: np.full_like(x, -1.0),
    "abs": lambda x, f: np.sign(x),
    "exp": lambda x, f: f,
    "log": lambda x, f: 1.0 / x,
    "sin": lambda x, f: np.cos(x),
    "cos": lambda x, f: -np.sin(x),
    "tan": lambda x, f: 1.0 + f * f,
    "arcsin": lambda x, f: 1.0 / np.sqrt(1.0 - x * x),
    "arccos": lambda x, f: -1.0 / np.sqrt(1.0 - x * x),
    "arctan": lambda x, f: 1.0 / (1.0 + x * x),
    "sinh": lambda x, f: np.cosh(x),
    "cosh": lambda x, f: np.sinh(x),
    "tanh": lambda x, f: 1.0 - f * f,
}


def unary_derivative(operator: Operator, x: Array, value: Array) -> Array:
    """Return the derivative of a unary operator at x, where its value is known."""
    rule = _UNARY_DERIVATIVES.get(operator.name)
    if rule is not None:
        return rule(x, value)
    step = 1e-6 * np.maximum(np.abs(x), 1e-6)
    result: Array = (operator.numpy(x + step) - operator.numpy(x - step)) / (2 * step)
    return result


def binary_derivatives(
    operator: Operator,
    first: Array,
    second: Array,
    value: Array,
    wants: tuple[bool, bool],
) -> tuple[Array | None, Array | None]:
    """Return the derivatives of a binary operator by its two arguments.

    Only those in ``wants`` are computed; a derivative that is the same everywhere
    comes as a float.
    """
    match operator.name:
        case "add":
            return 1.0, 1.0
        case "sub":
            return 1.0, -1.0
        case "mul":
            return second, first
        case "div":
            return (
                1.0 / second if wants[0] else None,
                -value / second if wants[1] else None,
            )
        case "pow":
            return (
                second * np.power(first, second - 1.0) if wants[0] else None,
                # 0^b stays 0 when b moves, so its derivative is 0, not 0 * -inf.
                np.where(first == 0.0, 0.0, value * np.log(first))
                if wants[1]
                else None,
            )
    results: list[Array | None] = []
    for place in (0, 1):
        if not wants[place]:
            results.append(None)
            continue
        moved = [np.asarray(first), np.asarray(second)]
        step = 1e-6 * np.maximum(np.abs(moved[place]), 1e-6)
        upper, lower = list(moved), list(moved)
        upper[place] = moved[place] + step
        lower[place] = moved[place] - step
        results.append((operator.numpy(*upper) - operator.numpy(*lower)) / (2 * step))
    return results[0], results[1]


class Form:
    """A formula with its constants taken out, bound to the rows of a table.

    Parameters
    ----------
    expression : Expression
        The formula.
    inputs : mapping of Expression to ndarray of shape (n_rows,)
        Values of the variables, and of any subformulas already evaluated.
    n_rows : int
        Number of rows.

    Attributes
    ----------
    values : ndarray of shape (n_constants,)
        The constants in prefix order, one for each occurrence.
    n_rows : int
        Number of rows.
    """

    def __init__(
        self,
        expression: Expression,
        inputs: Mapping[Expression, FloatArray],
        n_rows: int,
    ) -> None:
        self.expression = expression
        self.n_rows = n_rows
        self._has_constant: dict[Expression, bool] = {}
        for node in expression.subexpressions():
            self._has_constant[node] = node.value is not None or any(
                self._has_constant[arg] for arg in node.arguments
            )
        self.values: FloatArray = np.array(
            [node.value for node in expression.prefix() if node.value is not None],
            dtype=np.float64,
        )
        self._inputs = inputs
        self._known: dict[Expression, FloatArray] = {}

    @property
    def n_constants(self) -> int:
        """Number of constants."""
        return len(self.values)

    def with_values(self, values: Sequence[float] | FloatArray) -> Expression:
        """Return the formula with other constants, in prefix order."""
        given = iter(values)

        def build(node: Expression) -> Expression:
            if not self._has_constant[node]:
                return node
            if node.operator is None:
                return constant(float(next(given)))
            return apply(node.operator, *[build(arg) for arg in node.arguments])

        return build(self.expression)

    def predict(self, values: FloatArray) -> FloatArray:
        """Return the values of shape (n_rows,), not finite where undefined."""
        with np.errstate(all="ignore"):
            result, _ = self._forward(values, np.zeros(len(values), dtype=np.bool_))
        return result

    def differentiate(
        self, values: FloatArray, free: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return values (n_rows,) and derivatives by the free constants, in columns."""
        with np.errstate(all="ignore"):
            result, derivatives = self._forward(values, free)
        order = np.flatnonzero(free)
        jacobian = np.zeros((self.n_rows, len(order)))
        for place, parameter in enumerate(order):
            column = derivatives.get(int(parameter))
            if column is not None:
                jacobian[:, place] = column
        return result, jacobian

    def _fixed(self, node: Expression) -> FloatArray:
        """Return the values of a part without constants, evaluated once."""
        known = self._inputs.get(node)
        if known is None:
            known = self._known.get(node)
        if known is None:
            if node.operator is None:
                raise ValueError(f"no values given for variable {node.name!r}")
            known = node.operator.numpy(*(self._fixed(arg) for arg in node.arguments))
            self._known[node] = known
        return known

    def _forward(
        self, values: FloatArray, free: BoolArray
    ) -> tuple[FloatArray, dict[int, Array]]:
        counter = [0]

        def visit(node: Expression) -> tuple[Array, dict[int, Array]]:
            if not self._has_constant[node]:
                return self._fixed(node), {}
            if node.operator is None:
                index = counter[0]
                counter[0] += 1
                return float(values[index]), ({index: 1.0} if free[index] else {})
            parts = [visit(arg) for arg in node.arguments]
            arrays = [
                np.float64(part[0]) if isinstance(part[0], float) else part[0]
                for part in parts
            ]
            value = node.operator.numpy(*arrays)
            derivatives: dict[int, Array] = {}
            if len(parts) == 1:
                inner = parts[0][1]
                if inner:
                    slope = unary_derivative(node.operator, arrays[0], value)
                    for index, part in inner.items():
                        derivatives[index] = slope * part
                return value, derivatives
            wants = (bool(parts[0][1]), bool(parts[1][1]))
            if any(wants):
                slopes = binary_derivatives(
                    node.operator, arrays[0], arrays[1], value, wants
                )
                for place in (0, 1):
                    slope_part = slopes[place]
                    for index, part in parts[place][1].items():
                        assert slope_part is not None
                        derivatives[index] = slope_part * part
            return value, derivatives

        result, derivatives = visit(self.expression)
        if np.ndim(result) == 0:
            result = np.full(self.n_rows, float(result))
        return np.asarray(result, dtype=np.float64), derivatives


_EXACT: Final = 2.0**-100
"""Mean square error, relative to y, below which there is nothing left to fit."""


def _solve(hessian: FloatArray, gradient: FloatArray, damping: float) -> FloatArray:
    """Return the damped Newton step; the diagonal of ``hessian`` is 1."""
    damped = hessian + damping * np.eye(len(gradient))
    try:
        step = np.linalg.solve(damped, -gradient)
    except np.linalg.LinAlgError:
        step = np.linalg.lstsq(damped, -gradient, rcond=1e-12)[0]
    return np.asarray(step, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Fit:
    """Result of :func:`fit_constants`."""

    values: FloatArray
    """All constants in prefix order, shape (n_constants,)."""
    rmse: float
    """Root mean square error on y; inf where the formula is not finite."""
    covariance: FloatArray
    """Inverse of J'J for the free constants, shape (n_free, n_free)."""
    n_evaluations: int
    """Evaluations of the formula with its derivatives."""
    ok: bool
    """Whether the constants, the formula on every row and the sum of the squared errors
    that the fit began with are finite."""


def fit_constants(
    form: Form,
    y: FloatArray,
    free: BoolArray | None = None,
    *,
    values: FloatArray | None = None,
    max_iterations: int = 30,
    tolerance: float = 1e-7,
) -> Fit:
    """Fit the free constants of a form to y by Levenberg-Marquardt.

    Parameters
    ----------
    form : Form
        The formula bound to its inputs.
    y : ndarray of shape (n_rows,)
        The target.
    free : ndarray of bool of shape (n_constants,), optional
        The constants that may move; all by default.
    values : ndarray of shape (n_constants,), optional
        Where to start; the formula's own constants by default.
    max_iterations : int, default=30
        Most steps tried.
    tolerance : float, default=1e-7
        Relative decrease of the squared error below which it stops.

    Returns
    -------
    Fit
        The best constants met, never worse than the start.
    """
    current = np.array(form.values if values is None else values, dtype=np.float64)
    if free is None:
        free = np.ones(len(current), dtype=np.bool_)
    order = np.flatnonzero(free)
    scale = root_mean_square(y) or 1.0
    target = y / scale
    no_covariance = np.full((len(order), len(order)), np.inf)
    if not np.all(np.isfinite(current)):
        # The formula may be finite all the same, as 1/inf is.
        return Fit(current, math.inf, no_covariance, 0, False)
    prediction, jacobian = form.differentiate(current, free)
    evaluations = 1
    if not np.all(np.isfinite(prediction)) or not np.all(np.isfinite(jacobian)):
        finite = bool(np.all(np.isfinite(prediction)))
        rmse = root_mean_square(prediction - y) if finite else math.inf
        return Fit(current, rmse, no_covariance, evaluations, finite)
    residual = prediction / scale - target
    with np.errstate(over="ignore"):
        cost = float(residual @ residual)
    if not math.isfinite(cost):
        # No step could be told to be better.
        rmse = root_mean_square(residual) * scale
        return Fit(current, rmse, no_covariance, evaluations, False)
    damping = 1e-6
    for _ in range(max_iterations):
        if not len(order) or cost <= form.n_rows * _EXACT:
            break
        scaled = jacobian / scale
        norms = np.sqrt(np.einsum("ij,ij->j", scaled, scaled))
        norms[norms == 0.0] = 1.0
        if not np.all(np.isfinite(norms)):
            break
        unit = scaled / norms
        gradient = unit.T @ residual
        hessian = unit.T @ unit
        improved = False
        gain = 0.0
        for _ in range(6):
            step = _solve(hessian, gradient, damping)
            if -float(step @ gradient) <= tolerance * cost:
                break
            trial = current.copy()
            with np.errstate(over="ignore"):
                trial[order] += step / norms
            new_prediction, new_jacobian = form.differentiate(trial, free)
            evaluations += 1
            new_residual = new_prediction / scale - target
            with np.errstate(all="ignore"):
                new_cost = float(new_residual @ new_residual)
            # A constant that runs away may leave a finite formula behind.
            arrays = (trial, new_jacobian)
            finite = all(bool(np.all(np.isfinite(array))) for array in arrays)
            if finite and new_cost < cost:
                gain = cost - new_cost
                current, residual, jacobian = trial, new_residual, new_jacobian
                cost = new_cost
                damping = max(damping * 0.05, 1e-15)
                improved = True
                break
            damping = max(damping, 1e-12) * 20.0
        if not improved or gain <= tolerance * (cost + gain):
            break
    rmse = scale * math.sqrt(cost / max(form.n_rows, 1))
    return Fit(current, rmse, _covariance(jacobian, no_covariance), evaluations, True)


def _covariance(jacobian: FloatArray, unknown: FloatArray) -> FloatArray:
    """Return the inverse of J'J, scaled column by column against overflow."""
    if not jacobian.shape[1]:
        return np.zeros((0, 0))
    norms = np.array([root_mean_square(column) for column in jacobian.T])
    norms *= math.sqrt(len(jacobian))
    if not np.all(np.isfinite(norms)):
        return unknown
    without_effect = norms == 0.0
    norms[without_effect] = 1.0
    unit = jacobian / norms
    inverse = np.linalg.pinv(unit.T @ unit, rcond=1e-14, hermitian=True)
    with np.errstate(over="ignore"):
        result: FloatArray = inverse / norms / norms[:, None]
    result[without_effect, without_effect] = np.inf
    return result
