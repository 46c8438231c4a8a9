"""Beam pursuit of sparse weighted least squares, many targets at once.

Each target t has weights w and a few forced columns; a dictionary is shared by all
targets. A state is a target with some members of the dictionary; one step scores
every member for every state by the decrease of the weighted squared error, from
matrix products alone, and keeps the best states. Weights stand on the side of the
states, so the dictionary is never copied.

Shapes: K targets, S states, N members, n rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from sr4mdl._typing import FloatArray

_DEPENDENT = 1e-5
"""Share of a member's square left after projection, below which it adds nothing."""
_TIE_BREAK = 3e-8
"""Share of a gain that a bit of a member's cost takes away: decides between equals."""
_CHUNK = 48
"""Targets scored in one matrix product."""
_TAIL_BEAM = 8
"""States that go on beyond the terms that a beam is pursued to,"""
_TAIL_LEFT = 0.85
"""while a member more leaves no more of the error than this: the best of thousands of
members takes a tenth of pure noise on the rows of a screening."""


@dataclass(frozen=True, slots=True)
class Regression:
    """One target of a pursuit."""

    target: FloatArray
    """Shape (n,)."""
    weights: FloatArray
    """Shape (n,); errors are measured as weights * (fit - target)."""
    forced: FloatArray
    """Columns that are always in the fit, shape (k, n)."""

    def start(self, number: int) -> "State | None":
        """Return the state without members; None if nothing is left to explain."""
        weighted = self.forced * self.weights
        basis: list[FloatArray] = []
        for column in weighted:
            vector = _orthogonal(column, basis)
            if vector is not None:
                basis.append(vector)
        stacked = np.array(basis).reshape(len(basis), len(self.target))
        residual = self.target * self.weights
        for _ in range(2):
            residual = residual - (stacked @ residual) @ stacked
        error = float(residual @ residual)
        if not np.isfinite(error):
            return None
        return State(number, (), stacked, residual, error)


@dataclass(frozen=True, slots=True)
class Found:
    """A fit met by the pursuit."""

    regression: int
    """Index of the target."""
    members: tuple[int, ...]
    """Indices into the dictionary."""
    error: float
    """Weighted sum of squares that is left."""


@dataclass(slots=True)
class State:
    """A fit on the way: what is in it and what it leaves."""

    regression: int
    """Index of the target."""
    members: tuple[int, ...]
    """Indices into the dictionary."""
    basis: FloatArray
    """Orthonormal, weighted, shape (k, n)."""
    residual: FloatArray
    """Weighted, shape (n,)."""
    error: float
    """Weighted sum of squares that is left."""
    spare: NDArray[np.float32] | None = None
    """Squares left of the weighted members, shape (N,)."""


class Dictionary:
    """The members that a pursuit may use.

    Parameters
    ----------
    values : ndarray of shape (n_members, n_rows)
        Finite values. Each row is centred, because every fit has an intercept, and
        scaled to a root mean square of 1.
    bits : ndarray of shape (n_members,)
        What the members cost; of members that explain the same, the cheapest wins.
    """

    def __init__(self, values: FloatArray, bits: FloatArray) -> None:
        size = np.max(np.abs(values), axis=1, keepdims=True)
        size[size == 0.0] = 1.0
        unit = values / size
        unit -= unit.mean(axis=1, keepdims=True)
        scale = np.sqrt(np.mean(unit * unit, axis=1, keepdims=True))
        scale[scale == 0.0] = 1.0
        self.unit: FloatArray = np.ascontiguousarray(unit / scale)
        # Scores decide an order only: single precision halves their cost.
        self.score_unit = self.unit.astype(np.float32)
        self.score_squares = np.square(self.score_unit)
        self.preference = (1.0 - _TIE_BREAK * bits).astype(np.float32)

    def __len__(self) -> int:
        return len(self.unit)


@dataclass(frozen=True, slots=True)
class PursuitSettings:
    """How wide and deep a pursuit goes."""

    max_terms: int = 4
    """Members in a fit, besides the forced columns."""
    beam: int = 150
    """States kept after each step."""
    per_regression: int = 30
    """States kept of one target."""
    branch: int = 8
    """Best members taken from one state."""
    max_tail: int = 0
    """Members up to which the best few states go on while that helps."""


def _start_all(regressions: Sequence[Regression]) -> list[State]:
    """Return the states without members; many at once if only 1 is forced."""
    simple = [n for n, one in enumerate(regressions) if len(one.forced) == 1]
    states: dict[int, State | None] = {}
    if simple:
        weights = np.array([regressions[n].weights for n in simple])
        targets = np.array([regressions[n].target for n in simple])
        basis = np.array([regressions[n].forced[0] for n in simple]) * weights
        size = np.max(np.abs(basis), axis=1, keepdims=True)
        size[size == 0.0] = 1.0
        basis /= size
        basis /= np.sqrt(np.einsum("ij,ij->i", basis, basis))[:, None]
        residuals = targets * weights
        for _ in range(2):
            inner = np.einsum("ij,ij->i", residuals, basis)
            residuals = residuals - inner[:, None] * basis
        errors = np.einsum("ij,ij->i", residuals, residuals)
        for place, number in enumerate(simple):
            if np.isfinite(errors[place]):
                states[number] = State(
                    number,
                    (),
                    basis[place : place + 1],
                    residuals[place],
                    float(errors[place]),
                )
    for number, regression in enumerate(regressions):
        if len(regression.forced) != 1:
            states[number] = regression.start(number)
    return [state for _, state in sorted(states.items()) if state is not None]


def _orthogonal(column: FloatArray, basis: Sequence[FloatArray]) -> FloatArray | None:
    """Return the unit part of a column outside a basis, or None if it has none."""
    size = float(np.max(np.abs(column)))
    if size == 0.0 or not np.isfinite(size):
        return None
    vector = column / size
    before = float(np.sqrt(vector @ vector))
    if len(basis):
        stacked = np.asarray(basis)
        for _ in range(2):
            vector = vector - (stacked @ vector) @ stacked
    norm = float(np.sqrt(vector @ vector))
    return vector / norm if norm > 1e-9 * before else None


def pursue(
    regressions: Sequence[Regression],
    dictionary: Dictionary,
    settings: PursuitSettings,
    deadline: float = float("inf"),
    seeds: Sequence[Found] = (),
) -> tuple[list[Found], int]:
    """Return the fits met, best first, and how many were scored.

    Parameters
    ----------
    regressions : sequence of Regression
        The targets.
    dictionary : Dictionary
        The members.
    settings : PursuitSettings
        Width and depth.
    deadline : float
        Value of ``time.perf_counter()`` after which no further step starts.
    seeds : sequence of Found
        Fits that join the beam beside those of the same number of members.

    Returns
    -------
    list of Found, int
        The fits, including those without members, and the number of (state, member)
        pairs scored.
    """
    states = _start_all(regressions)
    found = [Found(state.regression, (), state.error) for state in states]
    n_scored = 0
    least = [min((state.error for state in states), default=0.0)]
    for depth in range(max(settings.max_terms, settings.max_tail)):
        if depth >= settings.max_terms:
            if least[-1] > _TAIL_LEFT * least[-2]:
                break
            states = sorted(states, key=lambda state: state.error)[:_TAIL_BEAM]
        if not states or not len(dictionary) or perf_counter() > deadline:
            break
        proposals: list[tuple[float, int, int]] = []
        for first in range(0, len(states), _CHUNK):
            chunk = states[first : first + _CHUNK]
            gains = _gains(chunk, regressions, dictionary, keep_spare=depth > 0)
            n_scored += gains.size
            width = min(settings.branch, len(dictionary))
            best = np.argpartition(-gains, width - 1, axis=1)[:, :width]
            for row, state in enumerate(chunk):
                for member in best[row]:
                    gain = float(gains[row, member])
                    if gain > 1e-12 * state.error:
                        left = max(state.error - gain, 0.0)
                        proposals.append((left, first + row, int(member)))
            if perf_counter() > deadline:
                break
        states = _advance(states, proposals, regressions, dictionary, settings)
        states += _grow_seeds(seeds, depth + 1, states, regressions, dictionary)
        found += [
            Found(state.regression, state.members, state.error) for state in states
        ]
        least.append(min((state.error for state in states), default=0.0))
    found.sort(key=lambda one: one.error)
    return found, n_scored


def _grow_seeds(
    seeds: Sequence[Found],
    size: int,
    states: Sequence[State],
    regressions: Sequence[Regression],
    dictionary: Dictionary,
) -> list[State]:
    """Return the states of the seeds with so many members that the beam lacks."""
    have = {(state.regression, tuple(sorted(state.members))) for state in states}
    fresh = [
        seed
        for seed in seeds
        if len(seed.members) == size
        and (seed.regression, tuple(sorted(seed.members))) not in have
    ]
    starts = {
        number: regressions[number].start(number)
        for number in {seed.regression for seed in fresh}
    }
    grown: list[tuple[State, tuple[int, ...]]] = []
    for seed in fresh:
        start = starts[seed.regression]
        if start is not None:
            grown.append((start, seed.members))
    for place in range(size):
        by_size: dict[int, list[tuple[State, tuple[int, ...]]]] = {}
        for state, members in grown:
            by_size.setdefault(len(state.basis), []).append((state, members))
        grown = []
        for group in by_size.values():
            extended = _extend_all(
                [(state, members[place]) for state, members in group],
                regressions,
                dictionary,
            )
            grown += [
                (state, members)
                for state, (_, members) in zip(extended, group, strict=True)
                if state is not None
            ]
    # States of one step must agree on whether the squares left are known.
    if grown:
        for state in states:
            state.spare = None
    return [state for state, _ in grown]


def gains_alone(
    start: State, regression: Regression, dictionary: Dictionary
) -> FloatArray:
    """Return the decrease of a target's error by each member, shape (N,)."""
    gains: FloatArray = _gains(
        [start], [regression], dictionary, False, start.regression
    )[0]
    return gains


def _gains(
    states: Sequence[State],
    regressions: Sequence[Regression],
    dictionary: Dictionary,
    keep_spare: bool,
    first: int = 0,
) -> FloatArray:
    """Return the decrease of the error for every state and member, shape (S, N).

    ``first`` is the number of the first of the regressions given.
    """
    single = np.float32
    unit = dictionary.score_unit.T
    weights = np.array(
        [regressions[state.regression - first].weights for state in states]
    )
    # Scaled so that single precision holds the squares whatever the units are.
    weights /= np.max(weights, axis=1, keepdims=True)
    residuals = np.array([state.residual for state in states])
    size = np.max(np.abs(residuals), axis=1, keepdims=True)
    size[size == 0.0] = 1.0
    slopes = (residuals / size * weights).astype(single) @ unit
    if all(state.spare is not None for state in states):
        spare = np.array([state.spare for state in states])
        newest = np.array([state.basis[-1] for state in states])
        spare -= np.square((newest * weights).astype(single) @ unit)
    else:
        spare = np.square(weights).astype(single) @ dictionary.score_squares.T
        for place in range(max(len(state.basis) for state in states)):
            vectors = np.array(
                [
                    state.basis[place]
                    if place < len(state.basis)
                    else np.zeros_like(state.residual)
                    for state in states
                ]
            )
            spare -= np.square((vectors * weights).astype(single) @ unit)
    if keep_spare:
        for state, row in zip(states, spare, strict=True):
            state.spare = row
    floor = np.sum(np.square(weights), axis=1, keepdims=True) * _DEPENDENT
    with np.errstate(all="ignore"):
        np.square(slopes, out=slopes)
        slopes /= spare
        slopes *= dictionary.preference
    slopes[~(spare > floor.astype(single))] = -1.0
    gains: FloatArray = slopes * np.square(size)
    return gains


def _advance(
    states: Sequence[State],
    proposals: list[tuple[float, int, int]],
    regressions: Sequence[Regression],
    dictionary: Dictionary,
    settings: PursuitSettings,
) -> list[State]:
    """Return the best distinct successors, exact to round-off."""
    proposals.sort()
    counts: dict[int, int] = {}
    seen: set[tuple[int, tuple[int, ...]]] = set()
    chosen: list[tuple[State, int]] = []
    for _, row, member in proposals:
        parent = states[row]
        number = parent.regression
        if counts.get(number, 0) >= settings.per_regression:
            continue
        key = (number, tuple(sorted((*parent.members, member))))
        if member in parent.members or key in seen:
            continue
        seen.add(key)
        counts[number] = counts.get(number, 0) + 1
        chosen.append((parent, member))
        if len(chosen) >= settings.beam:
            break
    by_size: dict[int, list[tuple[State, int]]] = {}
    for parent, member in chosen:
        by_size.setdefault(len(parent.basis), []).append((parent, member))
    successors: list[State] = []
    for group in by_size.values():
        extended = _extend_all(group, regressions, dictionary)
        successors += [state for state in extended if state is not None]
    return successors


def _extend_all(
    group: Sequence[tuple[State, int]],
    regressions: Sequence[Regression],
    dictionary: Dictionary,
) -> list[State | None]:
    """Return states with one member more each; None where a member adds nothing.

    All parents have bases of one size.
    """
    weights = np.array([regressions[parent.regression].weights for parent, _ in group])
    vectors = dictionary.unit[[member for _, member in group]] * weights
    size = np.max(np.abs(vectors), axis=1, keepdims=True)
    size[size == 0.0] = 1.0
    vectors /= size
    before = np.sqrt(np.einsum("sn,sn->s", vectors, vectors))
    bases = np.array([parent.basis for parent, _ in group])
    for _ in range(2):
        inner = np.einsum("skn,sn->sk", bases, vectors)
        vectors -= np.einsum("skn,sk->sn", bases, inner)
    norms = np.sqrt(np.einsum("sn,sn->s", vectors, vectors))
    good = norms > 1e-9 * before
    with np.errstate(all="ignore"):
        vectors /= norms[:, None]
    residuals = np.array([parent.residual for parent, _ in group])
    for _ in range(2):
        inner = np.einsum("sn,sn->s", vectors, residuals)
        residuals -= inner[:, None] * vectors
    errors = np.einsum("sn,sn->s", residuals, residuals)
    return [
        State(
            parent.regression,
            (*parent.members, member),
            np.concatenate([parent.basis, vectors[row : row + 1]]),
            residuals[row],
            float(errors[row]),
            None if parent.spare is None else parent.spare.copy(),
        )
        if good[row] and np.isfinite(errors[row])
        else None
        for row, (parent, member) in enumerate(group)
    ]
