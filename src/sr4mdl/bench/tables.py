"""The numbers of a problem: regenerated, simulated, sampled or read from a file.

Owns how rows are made. Splitting, noise and scaling are in ``protocol``. Every table
is the same for all methods and seeds, except that classic problems draw their few
training rows anew for each seed.
"""

import hashlib
import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.bench.problems import Axis, Problem
from sr4mdl.data import read_pmlb
from sr4mdl.errors import DataError
from sr4mdl.expressions import Expression
from sr4mdl.text import parse

PMLB_ROWS: Final = 100_000
"""Rows of a Feynman table in PMLB."""
N_TEST_DRAWS: Final = 1_000
"""Test rows of a classic problem whose list names no test set."""
TRAJECTORY_STEP: Final = 0.1
TRAJECTORY_POINTS: Final = 100
_MAX_ROUNDS: Final = 100


class MissingTableError(DataError):
    """The data set of a problem is not there; the run becomes a row that says so."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a problem. Where a test set is given, no split is made."""

    X: FloatArray
    """Features, of shape (n_rows, n_features)."""
    y: FloatArray
    """Target, of shape (n_rows,)."""
    names: tuple[str, ...]
    """Names of the columns of ``X``."""
    source: str
    """Where the rows come from, in a few words."""
    X_test: FloatArray | None = None
    """Features of a test set that belongs to the problem."""
    y_test: FloatArray | None = None
    """Target of that test set."""


def evaluate(expression: Expression, columns: Mapping[str, FloatArray]) -> FloatArray:
    """Return the values of an expression; NaN or inf outside its domain.

    Parameters
    ----------
    expression : Expression
        The formula.
    columns : mapping of str to ndarray of shape (n_rows,)
        Values of every variable of the formula.
    """
    shape = np.broadcast_shapes(*(np.shape(column) for column in columns.values()))
    values: dict[Expression, Any] = {}
    with np.errstate(all="ignore"):
        for node in expression.subexpressions():
            if node.name is not None:
                if node.name not in columns:
                    raise ValueError(f"no column for the variable {node.name!r}")
                values[node] = np.asarray(columns[node.name], dtype=np.float64)
            elif node.operator is not None:
                values[node] = node.operator.numpy(
                    *(values[argument] for argument in node.arguments)
                )
            else:
                values[node] = np.float64(node.value)
    return np.array(np.broadcast_to(values[expression], shape), dtype=np.float64)


def problem_generator(name: str, *salt: int) -> np.random.Generator:
    """Return a generator fixed by a problem's name and further numbers."""
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng([int.from_bytes(digest[:8], "big"), *salt])


def load_table(
    problem: Problem,
    *,
    data_dir: Path | None = None,
    n_rows: int = PMLB_ROWS,
    seed: int = 0,
) -> Table:
    """Return the rows of a problem.

    Parameters
    ----------
    problem : Problem
        The problem.
    data_dir : Path, optional
        Folder in PMLB layout, ``<dir>/<name>/<name>.tsv.gz`` with column ``target``.
    n_rows : int
        Rows to regenerate where the formula and the ranges are the definition.
    seed : int
        Seed of the training rows of classic problems; others do not depend on it.

    Raises
    ------
    MissingTableError
        If the rows can only come from a file and it is not there.
    """
    if problem.train:
        return _sample_classic(problem, seed)
    if problem.system:
        if data_dir is not None and _pmlb_file(data_dir, problem.name).is_file():
            return _read_file(problem, data_dir)
        return _simulate(problem)
    if problem.formula is not None:
        return _regenerate(problem, n_rows)
    if data_dir is not None:
        if not _pmlb_file(data_dir, problem.name).is_file():
            raise MissingTableError(
                f"data set missing: {problem.name} is not in the PMLB folder given"
            )
        return _read_file(problem, data_dir)
    return _fetch(problem)


def box_of(problem: Problem, table: Table) -> list[tuple[float, float]]:
    """Return the range of every column: the problem's own, else what was seen."""
    if problem.variables:
        return [(variable.low, variable.high) for variable in problem.variables]
    low, high = table.X.min(axis=0), table.X.max(axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _pmlb_file(data_dir: Path, name: str) -> Path:
    return data_dir / name / f"{name}.tsv.gz"


def _read_file(problem: Problem, data_dir: Path) -> Table:
    dataset = read_pmlb(data_dir, problem.name)
    assert dataset.y is not None
    return Table(dataset.X, dataset.y, dataset.names, "PMLB file")


def _fetch(problem: Problem) -> Table:
    if importlib.util.find_spec("pmlb") is None:
        raise MissingTableError(
            f"data set missing: {problem.name} needs --data DIR in PMLB layout, or "
            "the package pmlb (pip install pmlb)"
        )
    pmlb = importlib.import_module("pmlb")
    frame = pmlb.fetch_data(problem.name)
    names = tuple(str(name) for name in frame.columns if name != "target")
    X = np.asarray(frame[list(names)], dtype=np.float64)
    return Table(X, np.asarray(frame["target"], dtype=np.float64), names, "pmlb")


def _formula_of(problem: Problem) -> Expression:
    assert problem.formula is not None
    return parse(problem.formula)


def _columns(problem: Problem, X: FloatArray) -> dict[str, FloatArray]:
    names = [variable.name for variable in problem.variables]
    return dict(zip(names, X.T, strict=True))


def _draw_finite(
    problem: Problem,
    box: list[tuple[float, float]],
    n_rows: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draw uniform rows; those at which the formula is not finite are drawn again."""
    expression = _formula_of(problem)
    low, high = np.array(box, dtype=np.float64).T
    kept_X: list[FloatArray] = []
    kept_y: list[FloatArray] = []
    missing = n_rows
    for _ in range(_MAX_ROUNDS):
        X = rng.uniform(low, high, size=(missing, len(box)))
        y = evaluate(expression, _columns(problem, X))
        finite = np.isfinite(y)
        kept_X.append(X[finite])
        kept_y.append(y[finite])
        missing -= int(finite.sum())
        if missing == 0:
            return np.concatenate(kept_X), np.concatenate(kept_y)
    raise DataError(
        f"{problem.name}: {missing} of {n_rows} rows still without a finite value "
        f"after {_MAX_ROUNDS} draws"
    )


def _regenerate(problem: Problem, n_rows: int) -> Table:
    if n_rows < 8:
        raise ValueError(f"n_rows must be at least 8, got {n_rows}")
    box = [(variable.low, variable.high) for variable in problem.variables]
    X, y = _draw_finite(problem, box, n_rows, problem_generator(problem.name))
    names = tuple(variable.name for variable in problem.variables)
    return Table(X, y, names, f"regenerated, {n_rows} rows")


def _simulate(problem: Problem) -> Table:
    """Follow the differential equations from the starts, with an exact right side."""
    from scipy.integrate import solve_ivp

    names = [variable.name for variable in problem.variables]
    sides = [parse(side) for side in problem.system]

    def rate(_: float, state: FloatArray) -> FloatArray:
        columns = {name: np.atleast_1d(v) for name, v in zip(names, state, strict=True)}
        return np.array([evaluate(side, columns)[0] for side in sides])

    times = TRAJECTORY_STEP * np.arange(TRAJECTORY_POINTS)
    parts = []
    for start in problem.starts:
        solution = solve_ivp(
            rate, (0.0, times[-1]), start, t_eval=times, rtol=1e-8, atol=1e-10
        )
        parts.append(solution.y.T)
    X = np.concatenate(parts)
    y = evaluate(_formula_of(problem), _columns(problem, X))
    finite = np.isfinite(y) & np.isfinite(X).all(axis=1)
    return Table(
        np.ascontiguousarray(X[finite]), y[finite], tuple(names), "simulated trajectory"
    )


def _grid(axes: tuple[Axis, ...]) -> FloatArray:
    lines = [np.linspace(axis.low, axis.high, axis.points) for axis in axes]
    return np.stack([part.ravel() for part in np.meshgrid(*lines, indexing="ij")], 1)


def _sample_axes(
    problem: Problem, axes: tuple[Axis, ...], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    if all(axis.kind == "grid" for axis in axes):
        X = _grid(axes)
        y = evaluate(_formula_of(problem), _columns(problem, X))
        finite = np.isfinite(y)
        return X[finite], y[finite]
    box = [(axis.low, axis.high) for axis in axes]
    return _draw_finite(problem, box, axes[0].points, rng)


def _sample_classic(problem: Problem, seed: int) -> Table:
    X, y = _sample_axes(problem, problem.train, problem_generator(problem.name, seed))
    rng = problem_generator(problem.name, seed, 1)
    if problem.test:
        X_test, y_test = _sample_axes(problem, problem.test, rng)
    else:
        box = [(axis.low, axis.high) for axis in problem.train]
        X_test, y_test = _draw_finite(problem, box, N_TEST_DRAWS, rng)
    names = tuple(variable.name for variable in problem.variables)
    return Table(X, y, names, "sampled as listed", X_test, y_test)
