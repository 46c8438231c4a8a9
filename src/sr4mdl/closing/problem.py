"""What closing is given, and the outer transforms that lie between y and the state.

A search state may have peeled its target: the state's target is g(y) for a chain of
outer steps g. ``resolve`` applies a chain to numbers, declines it where it cannot be
undone on these data, and remembers the branch, so that a formula of g(y) can be
turned into a formula of y. Errors are always measured on y itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.expressions import Expression, apply, variable
from sr4mdl.selection.fitting import Form

MAX_EXPONENT: Final = 200.0
"""Largest |y| whose exponential is taken as an outer transform."""

PEELS: Final = ("add", "sub", "mul", "div")
"""Binary operators that may combine the target with a subformula."""

TRANSFORMS: Final = (
    "square", "sqrt", "inv", "inverse_square", "log", "exp", "sin", "cos", "tan",
    "arcsin", "arccos", "arctan", "neg",
)  # fmt: skip
"""Unary outer transforms; ``inverse_square`` is 1/y^2."""


@dataclass(frozen=True, slots=True)
class OuterStep:
    """One step of the chain that leads from y to the state's target.

    Parameters
    ----------
    operator : str
        One of ``TRANSFORMS``, or of ``PEELS`` with an operand.
    operand : Expression or None
        For a peel, what y is combined with: the step gives ``operator(y, operand)``.
    """

    operator: str
    operand: Expression | None = None

    def __post_init__(self) -> None:
        allowed = TRANSFORMS if self.operand is None else PEELS
        if self.operator not in allowed:
            raise ValueError(
                f"operator of an outer step must be one of {', '.join(allowed)}, "
                f"got {self.operator!r}"
            )


@dataclass(frozen=True, slots=True)
class ResolvedStep:
    """A step with what the data say about undoing it."""

    step: OuterStep
    sign: float = 1.0
    """Branch of the inverse: -1 where y was negative before squaring or the log."""
    operand_values: FloatArray | None = None
    """Values of a peel's operand, shape (n_rows,)."""

    def undo_values(self, values: FloatArray) -> FloatArray:
        """Return the target before the step; not finite where there is none."""
        operand = self.operand_values
        with np.errstate(all="ignore"):
            match self.step.operator:
                case "square":
                    return self.sign * np.sqrt(values)
                case "sqrt":
                    return np.square(values)
                case "inv":
                    return 1.0 / values
                case "inverse_square":
                    return self.sign / np.sqrt(values)
                case "log":
                    return self.sign * np.exp(values)
                case "exp":
                    return np.log(values)
                case "sin":
                    return np.arcsin(values)
                case "cos":
                    return np.arccos(values)
                case "tan":
                    return np.arctan(values)
                case "arcsin":
                    return np.sin(values)
                case "arccos":
                    return np.cos(values)
                case "arctan":
                    return np.tan(values)
                case "neg":
                    return -values
            assert operand is not None
            match self.step.operator:
                case "add":
                    return values - operand
                case "sub":
                    return values + operand
                case "mul":
                    return values / operand
                case _:
                    return values * operand

    def undo(self, expression: Expression) -> Expression:
        """Return the formula of the target before the step."""
        operand = self.step.operand
        match self.step.operator:
            case "square":
                return _signed(self.sign, apply("sqrt", expression))
            case "sqrt":
                return apply("square", expression)
            case "inverse_square":
                return _signed(self.sign, apply("inv", apply("sqrt", expression)))
            case "log":
                return _signed(self.sign, apply("exp", expression))
            case "inv" | "neg" as name:
                return apply(name, expression)
            case "exp":
                return apply("log", expression)
            case "sin" | "cos" | "tan" as name:
                return apply(f"arc{name}", expression)
            case "arcsin" | "arccos" | "arctan" as name:
                return apply(name.removeprefix("arc"), expression)
        assert operand is not None
        match self.step.operator:
            case "add":
                return apply("sub", expression, operand)
            case "sub":
                return apply("add", expression, operand)
            case "mul":
                return apply("div", expression, operand)
            case _:
                return apply("mul", expression, operand)


def _signed(sign: float, expression: Expression) -> Expression:
    return expression if sign > 0 else apply("neg", expression)


@dataclass(frozen=True, slots=True)
class ResolvedOuter:
    """A chain of steps applied to a target."""

    steps: tuple[ResolvedStep, ...]
    values: FloatArray
    """The state's target, shape (n_rows,)."""
    slope: FloatArray
    """Derivative of y by the state's target, absolute, shape (n_rows,)."""

    def undo(self, expression: Expression) -> Expression:
        """Return the formula of y from a formula of the state's target."""
        for step in reversed(self.steps):
            expression = step.undo(expression)
        return expression

    def undo_values(self, values: FloatArray) -> FloatArray:
        """Return predictions of y from predictions of the state's target."""
        for step in reversed(self.steps):
            values = step.undo_values(values)
        return values

    def then(
        self, step: OuterStep, operand_values: FloatArray | None = None
    ) -> "ResolvedOuter | None":
        """Return the chain with one step more, or None if it cannot be undone."""
        applied = _apply_step(step, self.values, operand_values)
        if applied is None:
            return None
        values, derivative, sign = applied
        with np.errstate(all="ignore"):
            slope = self.slope / np.abs(derivative)
        # Where the step is flat the slope has no bound; a few rows must not drown
        # the others in a weighted fit.
        usable = np.isfinite(slope)
        if not np.any(usable):
            return None
        limit = 30.0 * float(np.median(slope[usable]))
        slope = np.where(usable, np.minimum(slope, limit), limit)
        resolved = ResolvedStep(step, sign, operand_values)
        return ResolvedOuter((*self.steps, resolved), values, slope)


def _apply_step(
    step: OuterStep, y: FloatArray, operand: FloatArray | None
) -> tuple[FloatArray, FloatArray, float] | None:
    """Return values, derivative and branch of a step; None if it is not invertible."""
    lowest, highest = float(np.min(y)), float(np.max(y))
    sign = -1.0 if highest <= 0.0 else 1.0
    one_sign = lowest >= 0.0 or highest <= 0.0
    never_zero = bool(np.all(y != 0.0))
    half_pi = math.pi / 2
    ones = np.ones_like(y)
    with np.errstate(all="ignore"):
        match step.operator:
            case "square" if one_sign:
                values, slope = y * y, 2.0 * y
            case "sqrt" if lowest >= 0.0:
                values = np.sqrt(y)
                slope = 0.5 / values
            case "inv" if never_zero:
                values = 1.0 / y
                slope = values * values
            case "inverse_square" if one_sign and never_zero:
                values = 1.0 / (y * y)
                slope = 2.0 * values / y
            case "log" if one_sign and never_zero:
                values, slope = np.log(np.abs(y)), 1.0 / y
            case "exp" if max(abs(lowest), abs(highest)) < MAX_EXPONENT:
                values = np.exp(y)
                slope = values
            case "sin" if -half_pi <= lowest and highest <= half_pi:
                values, slope = np.sin(y), np.cos(y)
            case "cos" if lowest >= 0.0 and highest <= math.pi:
                values, slope = np.cos(y), np.sin(y)
            case "tan" if -half_pi < lowest and highest < half_pi:
                values = np.tan(y)
                slope = 1.0 + values * values
            case "arcsin" | "arccos" as name if lowest >= -1.0 and highest <= 1.0:
                values = np.arcsin(y) if name == "arcsin" else np.arccos(y)
                slope = 1.0 / np.sqrt(1.0 - y * y)
            case "arctan":
                values, slope = np.arctan(y), 1.0 / (1.0 + y * y)
            case "neg":
                values, slope = -y, ones
            case "add" if operand is not None:
                values, slope = y + operand, ones
            case "sub" if operand is not None:
                values, slope = y - operand, ones
            case "mul" if operand is not None and np.all(operand != 0.0):
                values, slope = y * operand, operand
            case "div" if operand is not None and np.all(operand != 0.0):
                values, slope = y / operand, 1.0 / operand
            case _:
                return None
    if not np.all(np.isfinite(values)):
        return None
    return values, slope, sign


def identity_outer(y: FloatArray) -> ResolvedOuter:
    """Return the empty chain on a target."""
    return ResolvedOuter((), y, np.ones_like(y))


@dataclass(frozen=True)
class ClosingProblem:
    """A search state to be closed: columns, and a target that may have been peeled.

    Parameters
    ----------
    inputs : ndarray of shape (n_rows, n_variables)
        The table.
    variables : tuple of str
        Names of the table's columns.
    columns : ndarray of shape (n_rows, n_columns)
        Values of the state's columns.
    expressions : tuple of Expression
        Their formulas in the variables.
    y : ndarray of shape (n_rows,)
        The original target.
    outer : tuple of OuterStep, default=()
        Steps from y to the state's target, first applied first.
    smoothed : ndarray of shape (n_rows,), optional
        The original target without most of its noise, for those who look for forms;
        formulas are fitted to and compared on ``y``.
    noise : float, default=0.0
        Standard deviation of what ``smoothed`` leaves out.
    """

    inputs: FloatArray
    variables: tuple[str, ...]
    columns: FloatArray
    expressions: tuple[Expression, ...]
    y: FloatArray
    outer: tuple[OuterStep, ...] = field(default=())
    smoothed: FloatArray | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        n_rows = len(self.y)
        if self.y.ndim != 1 or n_rows == 0:
            raise ValueError(
                f"y must have shape (n_rows,) with 1 row or more, got {self.y.shape}"
            )
        for name, array, width in (
            ("inputs", self.inputs, len(self.variables)),
            ("columns", self.columns, len(self.expressions)),
        ):
            if array.shape != (n_rows, width):
                raise ValueError(
                    f"{name} must have shape ({n_rows}, {width}), got {array.shape}"
                )
        for name, array in (("y", self.y), ("inputs", self.inputs)):
            if not np.all(np.isfinite(array)):
                raise ValueError(f"{name} must hold finite numbers only")
        if self.smoothed is not None and self.smoothed.shape != self.y.shape:
            raise ValueError(
                f"smoothed must have shape {self.y.shape}, got {self.smoothed.shape}"
            )
        if not (math.isfinite(self.noise) and self.noise >= 0.0):
            raise ValueError(f"noise must be 0 or more, got {self.noise!r}")

    @property
    def seen(self) -> FloatArray:
        """The target that families look at: smoothed where there is noise."""
        return self.y if self.smoothed is None else self.smoothed

    @classmethod
    def root(
        cls, inputs: FloatArray, y: FloatArray, variables: tuple[str, ...]
    ) -> "ClosingProblem":
        """Return the problem whose columns are the variables themselves."""
        table = np.asarray(inputs, dtype=np.float64)
        expressions = tuple(variable(name) for name in variables)
        target = np.asarray(y, dtype=np.float64)
        return cls(table, variables, table, expressions, target)

    @cached_property
    def known(self) -> Mapping[Expression, FloatArray]:
        """Values of the variables and of the columns, by formula."""
        values = dict(zip(self.expressions, self.columns.T, strict=True))
        values.update(
            (variable(name), column)
            for name, column in zip(self.variables, self.inputs.T, strict=True)
        )
        return {key: np.ascontiguousarray(column) for key, column in values.items()}

    def take(self, rows: IntArray) -> "ClosingProblem":
        """Return the problem on some of its rows."""
        return replace(
            self,
            inputs=self.inputs[rows],
            columns=self.columns[rows],
            y=self.y[rows],
            smoothed=None if self.smoothed is None else self.smoothed[rows],
        )

    def resolve(self) -> ResolvedOuter | None:
        """Return the state's target, or None if its steps cannot be undone here."""
        resolved: ResolvedOuter | None = identity_outer(self.seen)
        for step in self.outer:
            operand_values = None
            if step.operand is not None:
                form = Form(step.operand, self.known, len(self.y))
                operand_values = form.predict(form.values)
            assert resolved is not None
            resolved = resolved.then(step, operand_values)
            if resolved is None:
                return None
        return resolved
