"""The answer for one target: the equations, the choice among them, and why.

The search ranks formulas by bits. Here what the user knows beside the table comes in:
the noise, held-out rows, the greatest length, formulas of an earlier fit.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.evaluate import evaluate_one
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.regressor.equations import EXACT_FLOORS, Equation, measure
from sr4mdl.search import SearchMemory, SearchResult
from sr4mdl.selection.bits import (
    constant_bits,
    error_floor,
    mean_of,
    residual_bits,
    root_mean_square,
)
from sr4mdl.selection.limits import Limits
from sr4mdl.selection.pareto import skeleton
from sr4mdl.simplify import simplify

LeftOver = Literal["nothing", "noise", "structure", "unknown"]
"""What a formula leaves: round-off, noise, more than noise, or nobody can tell."""

_STEP: Final = 6e-6
"""Relative step of central differences, about the cube root of the round-off."""
_SAME: Final = 1e-12
"""Values that differ by less than this share of the target are the same."""
UNFINISHED: Final = "unfinished"
"""Stop reason of a search that still runs, or was killed."""
_MAX_PARTIAL: Final = 12
"""Formulas measured for a checkpoint."""
_MAX_WRITTEN: Final = 1_000
"""Rows whose targets are written down; they take more bits than any formula."""
_MAX_ROWS: Final = 10_000
"""Rows on which the standard errors are computed."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number in a formula."""

    text: str
    """As it stands in the formula."""
    value: float
    """Its value."""
    standard_error: float | None
    """From the curvature of the squared error; None where the data do not tell."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one target as the choice sees them."""

    X: FloatArray
    """(n_rows, n_features) inputs."""
    y: FloatArray
    """(n_rows,) target."""
    names: tuple[str, ...]
    """Names of the features."""
    target: str
    """Name of the target."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found for one target."""

    target: str
    """Name of the target."""
    equations: tuple[Equation, ...]
    """Shortest first."""
    best: int
    """Row of the chosen one."""
    runner_up: int | None
    """Row of the next best formula of another shape."""
    constants: tuple[Constant, ...]
    """Numbers of the chosen formula."""
    ranges: dict[str, tuple[float, float]]
    """Least and greatest value of each feature in the rows of the fit."""
    target_range: tuple[float, float]
    """Least and greatest value of the target."""
    n_rows: int
    """Rows of the fit."""
    n_validation: int
    """Rows held out."""
    stop_reason: str
    """Why the search ended."""
    seconds: float
    """How long it took."""
    statistics: dict[str, Any]
    """What the search did, as plain values."""
    notes: tuple[str, ...]
    """What was noticed about the data."""
    left_over: LeftOver = "unknown"
    """What the chosen formula leaves of the target: ``nothing`` but round-off,
    ``noise``, ``structure`` (there is more to the law), or ``unknown``."""
    memory: SearchMemory | None = None
    """What a later search needs to go on; None for results of older versions."""

    @property
    def chosen(self) -> Equation:
        """The chosen equation."""
        return self.equations[self.best]

    @property
    def gap_bits(self) -> float | None:
        """How many bits longer the runner-up's code is."""
        if self.runner_up is None:
            return None
        return self.equations[self.runner_up].bits - self.chosen.bits


def make_outcome(
    result: SearchResult,
    table: Table,
    *,
    earlier: Sequence[Expression],
    limits: Limits,
    noise: float | None,
    held_out: Table | None,
) -> Outcome:
    """Return the outcome of a search.

    Parameters
    ----------
    result : SearchResult
        What the search found on the table.
    table : Table
        The rows of the fit.
    earlier : sequence of Expression
        Formulas of an earlier fit, which compete.
    limits : Limits
        What a formula may look like.
    noise, held_out
        As in :func:`choose`.
    """
    solutions = [result.best, *result.front]
    if result.runner_up is not None:
        solutions.append(result.runner_up)
    candidates = [
        Equation(
            table.target,
            _allowed_form(one.expression, limits),
            one.rmse,
            one.r2,
            one.formula_bits,
            one.residual_bits,
        )
        for one in solutions
    ]
    for expression in earlier:
        if expression.variables <= set(table.names):
            found = measure(expression, table.X, table.y, table.names, table.target)
            if found is not None:
                candidates.append(found)
    return _outcome(
        candidates,
        table,
        limits=limits,
        noise=noise,
        held_out=held_out,
        memory=result.memory,
        # Lists and plain numbers, as they come back from a file.
        statistics=json.loads(json.dumps(asdict(result.statistics))),
        stop_reason=result.stop_reason,
        seconds=result.seconds,
        notes=result.notes,
    )


def make_partial_outcome(
    memory: SearchMemory,
    table: Table,
    *,
    limits: Limits,
    noise: float | None,
    held_out: Table | None,
) -> Outcome:
    """Return the outcome of a search that still runs, from what it knows.

    Parameters
    ----------
    memory : SearchMemory
        What it knows.
    table : Table
        The rows of the fit.
    limits, noise, held_out
        As in :func:`make_outcome`.
    """
    measured = [
        measure(expression, table.X, table.y, table.names, table.target)
        for expression in memory.expressions(table.names)[:_MAX_PARTIAL]
    ]
    return _outcome(
        [one for one in measured if one is not None],
        table,
        limits=limits,
        noise=noise,
        held_out=held_out,
        memory=memory,
        statistics=dict(memory.statistics),
        stop_reason=UNFINISHED,
        seconds=memory.seconds,
        notes=(),
    )


def _outcome(
    candidates: Sequence[Equation],
    table: Table,
    *,
    limits: Limits,
    noise: float | None,
    held_out: Table | None,
    memory: SearchMemory,
    statistics: dict[str, Any],
    stop_reason: str,
    seconds: float,
    notes: tuple[str, ...],
) -> Outcome:
    equations, best, runner_up = choose(
        candidates, table, limits=limits, noise=noise, held_out=held_out
    )
    low, high = table.X.min(axis=0), table.X.max(axis=0)
    return Outcome(
        target=table.target,
        equations=equations,
        best=best,
        runner_up=runner_up,
        constants=find_constants(equations[best].expression, table),
        ranges={
            name: (float(low[place]), float(high[place]))
            for place, name in enumerate(table.names)
        },
        target_range=(float(table.y.min()), float(table.y.max())),
        n_rows=len(table.y),
        n_validation=0 if held_out is None else len(held_out.y),
        stop_reason=stop_reason,
        seconds=seconds,
        statistics=statistics,
        notes=(*notes, *_notes_on_chance(equations[best], table)),
        left_over=(
            "unknown"
            if stop_reason == UNFINISHED
            else _left_over(equations[best], table)
        ),
        memory=memory,
    )


def _notes_on_chance(equation: Equation, table: Table) -> tuple[str, ...]:
    """Say so where writing the target down takes no more than the formula does.

    Then it explains nothing: for any such column there is a formula of that length.
    """
    rows = np.column_stack([table.X, table.y])[:_MAX_WRITTEN]
    targets = np.unique(rows, axis=0)[:, -1]
    bits = sum(constant_bits(value) for value in targets.tolist())
    if equation.length == 1 or equation.formula_bits < bits:
        return ()
    return (
        f"the formula takes {equation.formula_bits:.0f} bits, the {len(targets)} "
        f"values of {table.target} themselves only {bits:.0f}: it may fit by chance",
    )


def _left_over(equation: Equation, table: Table) -> LeftOver:
    if equation.error <= EXACT_FLOORS * error_floor(table.y):
        return "nothing"
    from sr4mdl.search.probe import judge_residuals  # scipy: not for exact answers

    values = evaluate_one(equation.expression, table.X, table.names)
    return judge_residuals(table.X, table.y, table.y - values)


def _allowed_form(expression: Expression, limits: Limits) -> Expression:
    """Return the shortest form of a formula whose usual form is not allowed."""
    if limits.permits(expression):
        return expression
    return simplify(expression)


def choose(
    candidates: Sequence[Equation],
    table: Table,
    *,
    limits: Limits,
    noise: float | None,
    held_out: Table | None,
) -> tuple[tuple[Equation, ...], int, int | None]:
    """Return the equations allowed, shortest first, the best row and the runner-up.

    Parameters
    ----------
    candidates : sequence of Equation
        Measured on the table; repeated formulas count once.
    table : Table
        The rows of the fit.
    limits : Limits
        What a formula may look like; others are out.
    noise : float or None
        Standard deviation of the noise in the target, if it is known.
    held_out : Table or None
        Rows on which the residuals are measured instead, if there are any.
    """
    kept: dict[Expression, Equation] = {}
    for candidate in candidates:
        if not limits.permits(candidate.expression):
            continue
        judged = _judge(candidate, table, noise, held_out)
        if judged is not None:
            kept.setdefault(judged.expression, judged)
    kept = _distinct(kept, table)
    if not kept:
        mean = measure(
            constant(mean_of(table.y)), table.X, table.y, table.names, table.target
        )
        assert mean is not None
        judged = _judge(mean, table, noise, held_out)
        assert judged is not None
        kept[judged.expression] = judged
    rows = sorted(kept.values(), key=lambda one: (one.length, one.error, one.formula))
    ranking = sorted(range(len(rows)), key=lambda row: (rows[row].bits, row))
    best = ranking[0]
    shape = skeleton(rows[best].expression)
    others = (row for row in ranking if skeleton(rows[row].expression) != shape)
    return tuple(rows), best, next(others, None)


def _distinct(
    kept: dict[Expression, Equation], table: Table
) -> dict[Expression, Equation]:
    """Leave out other spellings of a formula: equal values, and a longer code."""
    tolerance = _SAME * root_mean_square(table.y)
    distinct: dict[Expression, Equation] = {}
    seen: list[tuple[float, FloatArray]] = []
    for one in sorted(kept.values(), key=lambda one: (one.bits, one.length)):
        values = evaluate_one(one.expression, table.X, table.names)
        if not any(
            abs(error - one.error) <= tolerance
            and np.max(np.abs(other - values)) <= tolerance
            for error, other in seen
        ):
            seen.append((one.error, values))
            distinct[one.expression] = one
    return distinct


def _judge(
    candidate: Equation, table: Table, noise: float | None, held_out: Table | None
) -> Equation | None:
    """Return the equation with the residual bits that count, or None if refused."""
    error = candidate.error
    if held_out is not None:
        values = evaluate_one(candidate.expression, held_out.X, held_out.names)
        if not np.all(np.isfinite(values)):
            return None
        error = root_mean_square(values - held_out.y)
        candidate = replace(candidate, validation_error=error)
    if held_out is None and noise is None:
        return candidate
    floor = error_floor(table.y)
    n_rows = len(table.y)
    if noise is None:
        return replace(candidate, residual_bits=residual_bits(error, n_rows, floor))
    return replace(
        candidate, residual_bits=known_noise_bits(error, n_rows, floor, noise)
    )


def known_noise_bits(error: float, n_rows: int, floor: float, noise: float) -> float:
    """Return the bits of residuals under Gaussian noise of a known size.

    Equal to the code for unknown noise where the error is the noise. Below it, less
    and less is gained; above it, the code grows with the square of the error.

    Parameters
    ----------
    error : float
        Root mean square of the residuals.
    n_rows : int
        Number of rows.
    floor : float
        Error per row that counts as none.
    noise : float
        Standard deviation of the noise, more than 0.
    """
    sigma = max(noise, _FLOORS_OF_NOISE * floor)
    ratio = error / sigma
    excess = ratio * ratio - 1.0
    return residual_bits(sigma, n_rows, floor) + 0.5 * n_rows * excess / math.log(2.0)


_FLOORS_OF_NOISE: Final = 4.0
"""Noise below so many floors is round-off; it also keeps all codes above 0 bits."""


def find_constants(expression: Expression, table: Table) -> tuple[Constant, ...]:
    """Return the numbers of a formula with their standard errors.

    A number is a largest part without variables, so ``2*pi`` is one. The errors are
    those of least squares with the formula linearised in its numbers.
    """
    found: list[Expression] = []
    marks: list[str] = []
    opened = _open_constants(expression, found, marks, set(table.names))
    if not found:
        return ()
    texts = [str(part) for part in found]
    start = np.array([_value(part) for part in found])
    if not np.all(np.isfinite(start)):
        return ()
    chosen = np.unique(
        np.linspace(0, len(table.y) - 1, min(len(table.y), _MAX_ROWS)).astype(int)
    )
    X, y = table.X[chosen], table.y[chosen]
    errors = _standard_errors(opened, X, y, [*table.names, *marks], start)
    return tuple(
        Constant(text, float(value), error)
        for text, value, error in zip(texts, start, errors, strict=True)
    )


def _open_constants(
    node: Expression, found: list[Expression], marks: list[str], taken: set[str]
) -> Expression:
    """Return the formula with every occurrence of a number replaced by a variable."""
    if not node.variables:
        mark = f"constant {len(found)}"
        while mark in taken:
            mark += "'"
        found.append(node)
        marks.append(mark)
        return variable(mark)
    if node.operator is None:
        return node
    return apply(
        node.operator,
        *(_open_constants(part, found, marks, taken) for part in node.arguments),
    )


def _value(part: Expression) -> float:
    return float(evaluate_one(part, np.zeros((1, 1)), ["x"])[0])


def _standard_errors(
    opened: Expression,
    X: FloatArray,
    y: FloatArray,
    names: Sequence[str],
    start: FloatArray,
) -> list[float | None]:
    unknown: list[float | None] = [None] * len(start)
    n_rows, n_constants = len(y), len(start)
    if n_rows <= n_constants:
        return unknown

    def values(numbers: FloatArray) -> FloatArray:
        return evaluate_one(
            opened, np.hstack([X, np.tile(numbers, (n_rows, 1))]), names
        )

    jacobian = np.empty((n_rows, n_constants))
    for place in range(n_constants):
        step = np.zeros(n_constants)
        step[place] = _STEP * (abs(start[place]) or 1e-8)
        with np.errstate(all="ignore"):
            change = values(start + step) - values(start - step)
            jacobian[:, place] = change / (2.0 * step[place])
    if not np.all(np.isfinite(jacobian)):
        return unknown
    sizes = np.array([root_mean_square(column) for column in jacobian.T])
    sizes *= math.sqrt(n_rows)
    if not np.all(np.isfinite(sizes)) or np.any(sizes == 0.0):
        return unknown
    scaled = jacobian / sizes
    singular = np.linalg.svd(scaled, compute_uv=False)
    if singular[-1] < 1e-6 * singular[0]:
        return unknown  # constants that make up for each other
    error = root_mean_square(values(start) - y)
    error *= math.sqrt(n_rows / (n_rows - n_constants))
    covariance = np.linalg.inv(scaled.T @ scaled)
    deviations = error * np.sqrt(np.maximum(np.diag(covariance), 0.0)) / sizes
    return [float(one) for one in deviations]
