"""Power laws of the columns, times pool members and exponentials.

A power law is linear in logarithms: log|g(y)| = c + sum of a_i log|x_i| + ... with
weights that make its errors those of y. The exponents also show which columns are
pure factors of y, so that they can be divided out.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing.drafts import (
    draft_power_law,
    solve_weighted,
)
from sr4mdl.closing.groups import explaining_together
from sr4mdl.closing.problem import OuterStep, ResolvedOuter
from sr4mdl.closing.pursuit import (
    Found,
    PursuitSettings,
    Regression,
    pursue,
)
from sr4mdl.closing.workbench import (
    Workbench,
    shortlist,
    transformed,
)
from sr4mdl.expressions import constant

POWER_TRANSFORMS: Final = ("sin", "cos", "tan", "exp", "log")
"""Outer transforms under which power laws are tried, besides none."""
PEELED_TRANSFORMS: Final = ("inv", "square", "inverse_square", "sqrt", "exp", "log")
"""Outer transforms after which 1 or a column is added to or taken from the target."""


def close_power_laws(bench: Workbench) -> None:
    """Draft power laws of the columns, times pool members and exponentials."""
    outers = transformed(bench.outer, POWER_TRANSFORMS)
    best = _power_laws(bench, outers, bench.settings.n_power_terms)
    if best is not None and bench.settings.n_scales:
        # Equal weights see factors best, unless y comes near 0 in places.
        equal = np.ones_like(bench.outer.values)
        large = np.sqrt(np.abs(bench.outer.values) / bench.scale.size)
        choices = []
        for weights in (equal, large):
            alone, _ = _pure_factors(bench, (), weights)
            beside, tested = _pure_factors(bench, best.members, weights)
            both = {
                index: exponent
                for index, exponent in alone.items()
                if index not in tested or beside.get(index) == exponent
            }
            choices += [both or alone or beside, beside]
        choices.sort(key=len, reverse=True)
        for choice in choices:
            if choice and choice not in bench.factors and len(bench.factors) < 2:
                bench.factors.append(choice)


def close_peeled_power_laws(bench: Workbench) -> None:
    """Draft power laws of the target with 1 or a cheap member added or taken off."""
    ones = np.ones_like(bench.outer.values)
    pool = bench.pool
    members = [
        (pool.expression(int(index)), pool.values[index])
        for index in [*pool.members("column"), *pool.members("monomial", "function")][
            : bench.settings.n_peels
        ]
    ]
    one = (constant(1.0), ones)
    chains: list[ResolvedOuter] = []
    after_log: list[ResolvedOuter] = []
    for place, outer in enumerate(transformed(bench.outer, PEELED_TRANSFORMS)):
        for operand, values in [one, *members] if place <= 2 else [one]:
            for name in ("sub", "add"):
                chain = outer.then(OuterStep(name, operand), values)
                if chain is None:
                    continue
                chains.append(chain)
                logged = chain.then(OuterStep("log"))
                if operand is one[0] and logged is not None:
                    after_log.append(logged)
    _power_laws(bench, chains + after_log, 1)


def _power_laws(
    bench: Workbench,
    outers: Sequence[ResolvedOuter],
    max_terms: int,
) -> Found | None:
    """Draft power laws for some targets; return the best fit of the first."""
    logs = bench.logs
    kept: list[ResolvedOuter] = []
    regressions: list[Regression] = []
    for outer in outers:
        if np.any(outer.values == 0.0) or np.ptp(np.abs(outer.values)) == 0.0:
            continue
        target = np.log(np.abs(outer.values))
        weights = outer.slope * np.abs(outer.values) / bench.scale.size
        forced = np.concatenate([np.ones((1, len(target))), logs.logs])
        if len(forced) < len(target):
            kept.append(outer)
            regressions.append(Regression(target, weights, forced))
    seeds: list[Found] = []
    if max_terms > 1 and regressions and bench.settings.n_pair_members:
        # The powers stand in the order of their bits.
        cheap = np.arange(min(len(logs.powers), bench.settings.n_pair_members))
        seeds, n_scored = explaining_together(
            regressions[0],
            0,
            logs.dictionary,
            cheap,
            n_more=len(cheap),
            n_pairs=20,
            n_first=bench.settings.n_triple_firsts if max_terms > 2 else 0,
        )
        bench.n_examined += n_scored
    settings = PursuitSettings(
        max_terms=max_terms, beam=60, per_regression=40, branch=12
    )
    found, n_scored = pursue(
        regressions, logs.dictionary, settings, bench.deadline, seeds
    )
    bench.n_examined += n_scored + len(regressions)
    for one in shortlist(bench, found, logs.bits):
        powers, exponential = logs.split(one.members)
        bench.add(
            draft_power_law(
                "power law",
                kept[one.regression],
                [logs.factor(int(index)) for index in (*logs.bases, *powers)],
                [logs.factor(index) for index in exponential],
                regressions[one.regression].weights,
                bench.scale,
            )
        )
    if not kept or kept[0] is not outers[0]:
        return None
    return next((one for one in found if one.regression == 0 and one.members), None)


def _pure_factors(
    bench: Workbench, members: tuple[int, ...], weights: FloatArray
) -> tuple[dict[int, float], set[int]]:
    """Return the columns that a power-law fit shows to be pure powers, and all tested.

    A column that multiplies y and enters nowhere else has a clean exponent even if
    the rest of the fit is poor, because the rest does not depend on it.
    """
    outer, logs = bench.outer, bench.logs
    powers, exponential = logs.split(members)
    target = np.log(np.abs(outer.values))
    rows = [np.ones_like(target), *logs.logs]
    rows += [np.log(np.abs(bench.pool.values[index])) for index in powers]
    rows += [bench.pool.values[index] for index in exponential]
    columns = np.array(rows)
    solution = solve_weighted(columns, target, weights)
    if solution is None or len(columns) >= len(target):
        return {}, set()
    residual = (target - solution @ columns) * weights
    variance = float(residual @ residual) / (len(target) - len(columns))
    weighted = columns * weights
    gram = np.linalg.pinv(weighted @ weighted.T, hermitian=True)
    errors = np.sqrt(np.maximum(variance * np.diag(gram), 0.0))
    taken: set[str] = set()
    for index in (*powers, *exponential):
        taken |= bench.pool.expression(index).variables
    factors: dict[int, float] = {}
    tested: set[int] = set()
    for place, index in enumerate(logs.bases):
        if bench.pool.expression(int(index)).variables & taken:
            continue
        tested.add(int(index))
        exponent, error = float(solution[1 + place]), float(errors[1 + place])
        near = float(round(exponent))
        if error < 0.05 and abs(exponent - near) > 2.5 * error:
            near = round(2.0 * exponent) / 2.0
        if (
            near != 0.0
            and error < 0.2
            and abs(exponent - near) <= 2.5 * error + 1e-6
            and not _interacts(place, residual, weighted, logs.logs, weights)
        ):
            factors[int(index)] = near
    return factors, tested


def _interacts(
    place: int,
    residual: FloatArray,
    weighted: FloatArray,
    logs: FloatArray,
    weights: FloatArray,
) -> bool:
    """Return whether the residual depends on a base beyond its exponent.

    A test of the base's products with all bases: their share of the residual is
    compared with what as many random columns would explain.
    """
    crosses = (logs - logs.mean(axis=1, keepdims=True)) * (
        logs[place] - logs[place].mean()
    )
    orthonormal = np.linalg.qr(weighted.T)[0]
    rest = crosses * weights
    rest = rest - (rest @ orthonormal) @ orthonormal.T
    solution = np.linalg.lstsq(rest.T, residual, rcond=1e-9)[0]
    explained = float(np.sum(np.square(solution @ rest)))
    total = float(residual @ residual)
    if total == 0.0:
        return False
    count = len(crosses)
    share = explained / total * (len(residual) - len(weighted))
    return share > count + 3.0 * math.sqrt(2.0 * count)
