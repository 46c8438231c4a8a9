"""Inner constants: forms u(c * p) whose constant c is not 1.

The constant is scanned on a grid, so that u(c p) becomes one more dictionary for the
pursuit and the outer constants are solved in closed form; from there the best few
forms are refined by variable projection: Gauss-Newton steps of the inner constants
with the outer ones always solved exactly.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing.drafts import (
    Draft,
    outer_bits,
    solve_weighted,
    write_sum,
)
from sr4mdl.closing.families import scaled_targets
from sr4mdl.closing.inner_batch import scan_forms
from sr4mdl.closing.inner_functions import FUNCTIONS, InnerFunction, scaled
from sr4mdl.closing.pool import Pool
from sr4mdl.closing.problem import OuterStep, ResolvedOuter
from sr4mdl.closing.pursuit import (
    Dictionary,
    Found,
    PursuitSettings,
    Regression,
    pursue,
)
from sr4mdl.closing.waves import amplitude_and_phase, within_half_turn
from sr4mdl.closing.workbench import Workbench, transformed
from sr4mdl.expressions import Expression, apply

SCALED_TRANSFORMS: Final = ("", "inv")
"""Outer transforms of y over a monomial."""
N_SCALES: Final = 20
"""Monomials by which the target is divided."""
N_EXPONENTIAL_SCALES: Final = 400
"""Monomials by which the target is divided if only exponentials are tried."""
N_FITTED: Final = 12
"""Forms that are refined, of each number of terms."""
N_BESIDE: Final = 12
"""Cheap members beside which a wave of unknown phase is tried."""
MAX_PRODUCTS: Final = 3000
"""Products of two functions with an inner constant each."""
MAX_STEPS: Final = 12
"""Gauss-Newton steps of one form."""


@dataclass(frozen=True, slots=True)
class _Atom:
    """A function of a pool member with its inner constant, or the member itself."""

    function: InnerFunction | None
    argument: int
    constant: float = 1.0

    def values(self, pool: Pool, constant: float) -> FloatArray:
        argument: FloatArray = pool.values[self.argument]
        if self.function is None:
            return argument
        return self.function.values(constant, argument)

    def build(self, pool: Pool, constant: float) -> Expression:
        argument = pool.expression(self.argument)
        if self.function is None:
            return argument
        return self.function.build(constant, argument)


_Member = tuple[_Atom, ...]
"""A member of the grid dictionary: the product of one or two atoms."""


def _arguments(pool: Pool) -> list[int]:
    """Return the members that may stand inside, by rank."""
    sums = pool.members("sum")[:6]
    monomials = pool.members("monomial").tolist()
    plain = [m for m in monomials if all(abs(a) == 1 for _, a in pool.recipes[m][1])]
    others = [m for m in monomials if m not in set(plain)]
    columns = pool.members("column").tolist()
    return [*columns, *others[:4], *sums.tolist(), *plain, *others[4:]]


def _grid_members(
    pool: Pool, functions: Sequence[InnerFunction], n_plain: int
) -> tuple[list[_Member], FloatArray]:
    """Return the members of the grid dictionary and their values."""
    arguments = _arguments(pool)
    members: list[_Member] = []
    blocks: list[FloatArray] = []
    with np.errstate(all="ignore"):
        for function in functions:
            for argument in arguments[: function.n_arguments]:
                values = pool.values[argument]
                grid = function.grid(values)
                block = function.values(grid[:, None], values)
                size = np.max(np.abs(block), axis=1)
                good = (size < 1e60) & (np.ptp(block, axis=1) > 1e-6 * size)
                blocks.append(block[good])
                members += [(_Atom(function, argument, float(c)),) for c in grid[good]]
    plain = pool.cheapest(n_plain)
    members += [(_Atom(None, int(index)),) for index in plain]
    blocks.append(pool.values[plain])
    return members, np.concatenate(blocks)


def _damped_waves(pool: Pool) -> tuple[list[_Member], FloatArray]:
    """Return products of an exponential and a wave, or of two waves, of columns."""
    columns = pool.members("column").tolist()[:3]
    waves: list[tuple[_Atom, FloatArray]] = []
    growths: list[tuple[_Atom, FloatArray]] = []
    with np.errstate(all="ignore"):
        for column in columns:
            values = pool.values[column]
            for function in FUNCTIONS[:3]:
                wave = function.name != "exp"
                grid = function.grid(values)[:22] if wave else function.grid(values)
                block = function.values(grid[:, None], values)
                target = waves if wave else growths
                target += [
                    (_Atom(function, column, float(c)), row)
                    for c, row in zip(grid, block, strict=True)
                ]
    members: list[_Member] = []
    rows: list[FloatArray] = []
    for first, first_row in growths + waves[::2]:
        for second, second_row in waves:
            same = first.argument == second.argument
            if same and first.function is not FUNCTIONS[2]:
                continue
            if len(members) >= MAX_PRODUCTS:
                break
            members.append((first, second))
            rows.append(first_row * second_row)
    if not rows:
        return [], np.empty((0, pool.values.shape[1]))
    block = np.array(rows)
    size = np.max(np.abs(block), axis=1)
    good = np.isfinite(size) & (size < 1e60) & (np.ptp(block, axis=1) > 1e-6 * size)
    return [member for member, keep in zip(members, good, strict=True) if keep], block[
        good
    ]


def close_inner(bench: Workbench) -> None:
    """Draft y = m * h(a + b u(c p) + ...) with the inner constants fitted."""
    exponential = [function for function in FUNCTIONS if function.name == "exp"]
    others = [function for function in FUNCTIONS if function.name != "exp"]
    pool = bench.pool
    _close_simple(bench)
    if not bench.exact and not bench.late:
        _close(bench, *_grid_members(pool, exponential, 40), N_EXPONENTIAL_SCALES, 2)
    if not bench.exact and not bench.late:
        _close(bench, *_grid_members(pool, others, 120), N_SCALES, 3)
    if not bench.exact and not bench.late and len(pool.columns) <= 3:
        _close(bench, *_damped_waves(pool), 4, 2)


def _close_simple(bench: Workbench) -> None:
    """Draft forms with one function, an intercept and at most one column beside."""
    pool = bench.pool
    columns = pool.members("column").tolist()
    targets = transformed(bench.outer, ("inv",))
    for column in columns[:5]:
        if np.all(pool.values[column] != 0.0):
            step = OuterStep("div", pool.expression(column))
            chain = bench.outer.then(step, pool.values[column])
            if chain is not None:
                targets.append(chain)
    arguments = _arguments(pool)
    forms, n_scored = scan_forms(
        pool, targets, bench.scale.size, arguments, [None, *columns[:4]]
    )
    bench.n_examined += n_scored
    for form in forms[:N_FITTED]:
        atoms: list[_Member] = [(_Atom(form.function, form.argument, form.constant),)]
        if form.is_wave:
            cosine = next(one for one in FUNCTIONS if one.name == "cos")
            atoms.append((_Atom(cosine, form.argument, form.constant),))
        if form.beside is not None:
            atoms.append((_Atom(None, form.beside),))
        bench.add(_fit(bench, targets[form.target], atoms))
        if bench.late:
            break


def _close(
    bench: Workbench,
    members: list[_Member],
    values: FloatArray,
    n_scales: int,
    max_terms: int,
) -> None:
    if not members:
        return
    bits = np.array(
        [sum(float(bench.pool.bits[atom.argument]) for atom in one) for one in members]
    )
    dictionary = Dictionary(values, bits)
    targets = scaled_targets(bench, n_scales, SCALED_TRANSFORMS)
    alone = transformed(bench.outer, ("inv", "square"))
    ones = np.ones((1, len(bench.outer.values)))
    regressions = targets.regressions + [
        Regression(outer.values, outer.slope / bench.scale.size, ones)
        for outer in alone
    ]
    settings = PursuitSettings(
        max_terms=max_terms, beam=100, per_regression=8, branch=6
    )
    first = len(targets.regressions)
    seeds = _wave_seeds(regressions[first], first, dictionary, members)
    bench.n_examined += len(members)
    found, n_scored = pursue(regressions, dictionary, settings, bench.deadline, seeds)
    bench.n_examined += n_scored
    for one in _shortlist(found, members):
        if bench.late:
            break
        number = one.regression - len(targets.regressions)
        outer = alone[number] if number >= 0 else targets.outer(one.regression)
        if outer is not None:
            bench.add(_fit(bench, outer, [members[m] for m in one.members]))


def _wave_seeds(
    regression: Regression,
    number: int,
    dictionary: Dictionary,
    members: Sequence[_Member],
) -> list[Found]:
    """Return the best fits by a sine and cosine of one frequency, beside a member.

    A wave of unknown phase needs both at once, and either alone may explain nothing.
    """
    places: dict[tuple[int, float], dict[str, int]] = {}
    plain: list[int] = []
    for place, member in enumerate(members):
        atom = member[0]
        if atom.function is None:
            plain.append(place)
        elif len(member) == 1 and atom.function.name in ("sin", "cos"):
            key = (atom.argument, atom.constant)
            places.setdefault(key, {})[atom.function.name] = place
    pairs = np.array(
        [(one["sin"], one["cos"]) for one in places.values() if len(one) == 2]
    )
    if not len(pairs) or len(regression.target) < 6:
        return []
    weights = regression.weights
    seeds: list[Found] = []
    sines = dictionary.unit[pairs[:, 0]] * weights
    cosines = dictionary.unit[pairs[:, 1]] * weights
    for beside in (None, *plain[:N_BESIDE]):
        rows = (
            [weights]
            if beside is None
            else [weights, dictionary.unit[beside] * weights]
        )
        basis = np.linalg.qr(np.array(rows).T)[0].T
        residual = regression.target * weights
        residual = residual - (basis @ residual) @ basis
        first = sines - (sines @ basis.T) @ basis
        second = cosines - (cosines @ basis.T) @ basis
        aa = np.einsum("ij,ij->i", first, first)
        bb = np.einsum("ij,ij->i", second, second)
        ab = np.einsum("ij,ij->i", first, second)
        a, b = first @ residual, second @ residual
        with np.errstate(all="ignore"):
            gains = (a * a * bb - 2.0 * a * b * ab + b * b * aa) / (aa * bb - ab * ab)
        gains[~np.isfinite(gains)] = -1.0
        total = float(residual @ residual)
        for one in np.argsort(-gains)[:3]:
            chosen = (int(pairs[one, 0]), int(pairs[one, 1]))
            extra = () if beside is None else (beside,)
            error = max(total - float(gains[one]), 0.0)
            seeds.append(Found(number, (*extra, *chosen), error))
    seeds.sort(key=lambda seed: seed.error)
    return seeds[:12]


def _shortlist(found: list[Found], members: list[_Member]) -> list[Found]:
    """Return the best fits of different shapes, for each number of members."""
    chosen: list[Found] = []
    seen: set[tuple[object, ...]] = set()
    counts: dict[int, int] = {}
    for one in found:
        atoms = [atom for m in one.members for atom in members[m]]
        shape = (
            one.regression,
            *sorted(
                (atom.argument, atom.function.name if atom.function else "")
                for atom in atoms
            ),
        )
        inner = sum(atom.function is not None for atom in atoms)
        size = len(one.members)
        if not inner or shape in seen or counts.get(size, 0) >= N_FITTED:
            continue
        seen.add(shape)
        counts[size] = counts.get(size, 0) + 1
        chosen.append(one)
    return chosen


def _fit(
    bench: Workbench, outer: ResolvedOuter, members: list[_Member]
) -> Draft | None:
    """Return the draft with its constants refined on the screening rows."""
    pool = bench.pool
    atoms = [atom for member in members for atom in member]
    constants = np.array([atom.constant for atom in atoms])
    state = _solve(pool, outer, members, constants)
    if state is None:
        return None
    for _ in range(MAX_STEPS):
        step = _step(pool, outer, members, constants, state)
        if step is None:
            break
        gain = 0.0
        for _ in range(4):
            trial = _solve(pool, outer, members, constants + step)
            if trial is not None and trial.error < state.error:
                gain = 1.0 - trial.error / state.error
                constants, state = constants + step, trial
                break
            step = step * 0.25
        if gain < 1e-6 or state.error == 0.0:
            break
    rmse = bench.scale.rmse(outer.undo_values(state.solution @ state.columns))
    if not np.isfinite(rmse) or _nearly_linear(pool, atoms, constants):
        return None
    inner = [
        float(c)
        for c, atom in zip(constants, atoms, strict=True)
        if atom.function is not None
    ]
    bits = outer_bits(outer) + sum(
        float(pool.bits[atom.argument]) + 12.0 for atom in atoms
    )
    bits += bench.scale.constants_bits([*state.solution.tolist(), *inner], rmse)

    merged = _merge_phases(members, constants, state.solution)

    def write() -> list[Expression]:
        ways = plain() if merged is None else plain() + merged_way()
        return [outer.undo(way) for way in ways]

    def merged_way() -> list[Expression]:
        assert merged is not None
        ways = []
        for choice in merged:
            terms = [(size, build(pool)) for size, build in choice]
            ways.append(write_sum(float(state.solution[0]), terms)[0])
        return ways

    def plain() -> list[Expression]:
        starts = np.cumsum([0, *(len(member) for member in members)])
        terms = [
            (
                float(state.solution[1 + place]),
                _builder(member, constants[starts[place] : starts[place + 1]])(pool),
            )
            for place, member in enumerate(members)
        ]
        return write_sum(float(state.solution[0]), terms)

    return Draft("inner", rmse, bits, write)


def _nearly_linear(pool: Pool, atoms: Sequence[_Atom], constants: FloatArray) -> bool:
    """Return whether an inner constant is so small that the function is a line."""
    return any(
        atom.function is not None
        and atom.function.name != "pow"
        and abs(constant) * np.max(np.abs(pool.values[atom.argument])) < 0.02
        for atom, constant in zip(atoms, constants, strict=True)
    )


def _merge_phases(
    members: Sequence[_Member], constants: FloatArray, solution: FloatArray
) -> list[list[tuple[float, Callable[[Pool], Expression]]]] | None:
    """Return the terms with a sine and a cosine of one frequency made one wave.

    ``a*cos(c*p) + b*sin(c*p)`` is ``r*cos(c*p - f)`` with r and f from a and b, or
    the sine of that angle and a quarter turn: one of the two may have the simpler
    phase. None if no two members go together.
    """
    starts = np.cumsum([0, *(len(member) for member in members)])
    for i, first in enumerate(members):
        for j, second in enumerate(members):
            names = [
                [atom.function.name if atom.function else "" for atom in member]
                for member in (first, second)
            ]
            same = [atom.argument for atom in first] == [
                atom.argument for atom in second
            ]
            if not same or names[0][-1] != "cos" or names[1][-1] != "sin":
                continue
            if names[0][:-1] != names[1][:-1]:
                continue
            shared = 0.5 * (
                constants[starts[i] : starts[i + 1]]
                + constants[starts[j] : starts[j + 1]]
            )
            size, phase = amplitude_and_phase(
                float(solution[1 + i]), float(solution[1 + j])
            )
            turned, quarter = within_half_turn(size, phase - 0.5 * math.pi)
            rest = [
                (
                    float(solution[1 + k]),
                    _builder(member, constants[starts[k] : starts[k + 1]]),
                )
                for k, member in enumerate(members)
                if k not in (i, j)
            ]
            return [
                [(size, _wave_builder(first, shared, "cos", phase)), *rest],
                [(turned, _wave_builder(first, shared, "sin", quarter)), *rest],
            ]
    return None


def _wave_builder(
    member: _Member, constants: FloatArray, name: str, phase: float
) -> Callable[[Pool], Expression]:
    def build(pool: Pool) -> Expression:
        frequency = scaled(float(constants[-1]), pool.expression(member[-1].argument))
        wave = apply(name, apply("sub", frequency, phase))
        if len(member) == 1:
            return wave
        return apply("mul", member[0].build(pool, float(constants[0])), wave)

    return build


def _builder(member: _Member, constants: FloatArray) -> Callable[[Pool], Expression]:
    def build(pool: Pool) -> Expression:
        built = [
            atom.build(pool, float(c))
            for atom, c in zip(member, constants, strict=True)
        ]
        return built[0] if len(built) == 1 else apply("mul", built[0], built[1])

    return build


@dataclass(frozen=True, slots=True)
class _Solution:
    atoms: list[FloatArray]
    """Values of the atoms, each of shape (n_rows,)."""
    columns: FloatArray
    """1 and the members, shape (1 + n_members, n_rows)."""
    solution: FloatArray
    residual: FloatArray
    error: float


def _solve(
    pool: Pool,
    outer: ResolvedOuter,
    members: Sequence[_Member],
    constants: FloatArray,
) -> _Solution | None:
    """Return the outer constants for given inner ones, or None if undefined."""
    left = iter(constants.tolist())
    atoms: list[FloatArray] = []
    rows = [np.ones_like(outer.values)]
    with np.errstate(all="ignore"):
        for member in members:
            values = [atom.values(pool, next(left)) for atom in member]
            atoms += values
            rows.append(values[0] if len(values) == 1 else values[0] * values[1])
    columns = np.array(rows)
    if not np.all(np.isfinite(columns)):
        return None
    solution = solve_weighted(columns, outer.values, outer.slope)
    if solution is None:
        return None
    residual = (outer.values - solution @ columns) * outer.slope
    return _Solution(atoms, columns, solution, residual, float(residual @ residual))


def _step(
    pool: Pool,
    outer: ResolvedOuter,
    members: Sequence[_Member],
    constants: FloatArray,
    state: _Solution,
) -> FloatArray | None:
    """Return the Gauss-Newton step of the inner constants."""
    slopes: list[FloatArray] = []
    places: list[int] = []
    first = 0
    with np.errstate(all="ignore"):
        for number, member in enumerate(members):
            for offset, atom in enumerate(member):
                place = first + offset
                if atom.function is None:
                    continue
                slope = atom.function.slope(
                    constants[place], pool.values[atom.argument]
                )
                if len(member) == 2:
                    slope = slope * state.atoms[first + 1 - offset]
                slopes.append(state.solution[1 + number] * slope)
                places.append(place)
            first += len(member)
    rows = np.concatenate([state.columns, np.array(slopes)])
    if not np.all(np.isfinite(rows)):
        return None
    both = solve_weighted(rows, state.residual / outer.slope, outer.slope)
    if both is None:
        return None
    step = np.zeros(len(constants))
    step[places] = both[len(state.columns) :]
    return step
