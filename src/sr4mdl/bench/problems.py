"""The problems of every suite, read from the package's own data files.

Owns what a problem is (name, formula, ranges, how to sample) and which problems a
suite holds. Numbers are made from it in ``tables``.
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from sr4mdl.errors import DataError

FACTS_VERSION: Final = 1
SUITES: Final = ("groundtruth", "blackbox", "classic")
"""Suites of problems that the runner knows."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable and its range."""

    name: str
    """Name, as it stands in the formula."""
    low: float
    """Least value."""
    high: float
    """Greatest value."""


@dataclass(frozen=True, slots=True)
class Axis:
    """How one variable of a classic problem is sampled."""

    kind: Literal["uniform", "grid"]
    """Random draws, or equal steps combined with those of the other variables."""
    low: float
    """Least value."""
    high: float
    """Greatest value."""
    points: int
    """Number of draws or steps."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a suite."""

    name: str
    """Name, unique within its suite."""
    suite: str
    """Suite that holds it."""
    group: str
    """Part of the suite, as ``feynman`` or ``strogatz``."""
    formula: str | None = None
    """True formula in this package's notation; None where nobody knows it."""
    variables: tuple[Variable, ...] = ()
    """Variables in column order; empty where the data file says."""
    published: bool = True
    """Whether SRBench's published tables include it."""
    system: tuple[str, ...] = ()
    """Right-hand sides of the differential equations it comes from."""
    starts: tuple[tuple[float, ...], ...] = ()
    """First points of the trajectories of that system."""
    train: tuple[Axis, ...] = ()
    """Sampling of the training rows (classic problems)."""
    test: tuple[Axis, ...] = ()
    """Sampling of the test rows; empty means fresh draws from the training box."""
    shape: tuple[int, int] | None = None
    """Rows and features of a data file, where known."""


def _read_facts(name: str) -> dict[str, Any]:
    file = resources.files("sr4mdl.bench") / "data" / f"{name}.json"
    facts: dict[str, Any] = json.loads(file.read_text(encoding="ascii"))
    assert facts["version"] == FACTS_VERSION
    return facts


def _axes(entries: list[list[Any]] | None) -> tuple[Axis, ...]:
    return tuple(Axis(*entry) for entry in entries or ())


@cache
def load_suite(suite: str) -> tuple[Problem, ...]:
    """Return all problems of a suite.

    Parameters
    ----------
    suite : {"groundtruth", "blackbox", "classic"}
        Name of the suite.
    """
    if suite not in SUITES:
        raise ValueError(f"suite must be one of {', '.join(SUITES)}, got {suite!r}")
    return tuple(
        Problem(
            name=entry["name"],
            suite=suite,
            group=entry["group"],
            formula=entry.get("formula"),
            variables=tuple(Variable(*item) for item in entry.get("variables", ())),
            published=entry.get("published", True),
            system=tuple(entry.get("system", ())),
            starts=tuple(tuple(start) for start in entry.get("starts", ())),
            train=_axes(entry.get("train")),
            test=_axes(entry.get("test")),
            shape=(entry["rows"], entry["features"]) if "rows" in entry else None,
        )
        for entry in _read_facts(suite)["problems"]
    )


def find_problem(suite: str, name: str) -> Problem:
    """Return one problem by name.

    Raises
    ------
    ValueError
        If the suite has none of that name; the message suggests a close one.
    """
    problems = {problem.name: problem for problem in load_suite(suite)}
    try:
        return problems[name]
    except KeyError:
        close = difflib.get_close_matches(name, problems, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"suite {suite!r} has no problem {name!r}{hint}") from None


def select_problems(suite: str, names: Sequence[str] | None) -> list[Problem]:
    """Return the named problems, or all; a group's name stands for its problems."""
    if not names:
        return list(load_suite(suite))
    chosen: dict[str, Problem] = {}
    for name in names:
        members = [problem for problem in load_suite(suite) if problem.group == name]
        for problem in members or [find_problem(suite, name)]:
            chosen[problem.name] = problem
    return list(chosen.values())


def read_published(path: Path | None = None) -> dict[str, Any]:
    """Return the published figures: keys ``recovery`` and ``blackbox``.

    Parameters
    ----------
    path : Path, optional
        A file in the form of the package's own ``bench/data/published.json``.

    Raises
    ------
    DataError
        If the file is not of that form.
    """
    if path is None:
        return _read_facts("published")
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: no published figures: {error}") from error
    if not isinstance(figures, dict) or not {"recovery", "blackbox"} <= set(figures):
        raise DataError(f"{path}: must hold lists under recovery and blackbox")
    return figures
