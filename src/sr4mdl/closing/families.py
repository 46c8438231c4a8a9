"""Families of closing forms that are sums, each a source of drafts.

Every family works on numbers alone and adds its drafts to the workbench; one that
finds nothing leaves the others as they are. All run through the same pursuit, with
different targets and dictionaries:

- sums: g(y) = a + sum of b_j p_j over pool members p_j;
- scaled functions: y = m * h(a + b p) for monomials m and outer functions h;
- quotients: g(y) = (a + sum of b_j p_j) / (1 + c q).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing.drafts import (
    draft_quotient,
    draft_sum,
)
from sr4mdl.closing.groups import explaining_together
from sr4mdl.closing.monomials import power_product
from sr4mdl.closing.pool import GROUPS
from sr4mdl.closing.problem import OuterStep, ResolvedOuter
from sr4mdl.closing.pursuit import (
    Dictionary,
    Found,
    PursuitSettings,
    Regression,
    pursue,
)
from sr4mdl.closing.workbench import (
    Workbench,
    intercept_regression,
    shortlist,
    transformed,
)
from sr4mdl.expressions import Expression

SUM_TRANSFORMS: Final = (
    "square", "inv", "inverse_square", "log", "sqrt", "exp", "sin", "cos", "tan",
    "arcsin", "arccos",
)  # fmt: skip
"""Outer transforms under which sums are tried, besides none."""
SCALED_TRANSFORMS: Final = ("", "inv", "square", "inverse_square", "sqrt", "exp")
"""Outer transforms tried on y divided by a monomial."""


def close_linear(bench: Workbench) -> None:
    """Draft the linear map over the state's columns, with and without intercept."""
    columns = np.flatnonzero(bench.pool.group == GROUPS.index("column"))
    members = tuple(int(index) for index in columns)
    for outer in transformed(bench.outer, SUM_TRANSFORMS[:5]):
        bench.n_examined += 2
        if len(members) < len(outer.values):
            for with_intercept in (True, False):
                bench.add(
                    draft_sum(
                        "linear",
                        outer,
                        bench.pool,
                        members,
                        bench.scale,
                        with_intercept=with_intercept,
                    )
                )


def close_sums(bench: Workbench) -> None:
    """Draft sparse sums of pool members under every outer transform."""
    dictionary = bench.dictionary
    outers = transformed(bench.outer, SUM_TRANSFORMS)
    size = bench.scale.size
    regressions = [intercept_regression(outer, size) for outer in outers]
    seeds: list[Found] = []
    if bench.settings.n_pair_members:
        subset = bench.pool.cheapest(bench.settings.n_pair_members)
        for number, regression in enumerate(regressions[:5]):
            if bench.late:
                return
            together, n_scored = explaining_together(
                regression,
                number,
                dictionary,
                subset,
                n_more=len(subset) // 2,
                n_pairs=60,
                n_first=bench.settings.n_triple_firsts,
            )
            seeds += together
            bench.n_examined += n_scored
    found, n_scored = pursue(
        regressions, dictionary, bench.settings.pursuit, bench.deadline, seeds
    )
    bench.n_examined += n_scored
    for one in shortlist(bench, found, bench.pool.bits):
        bench.add(
            draft_sum(
                "sparse", outers[one.regression], bench.pool, one.members, bench.scale
            )
        )


@dataclass(slots=True)
class ScaledTargets:
    """The target divided by many monomials, under some outer transforms."""

    bench: Workbench
    labels: list[tuple[Expression, FloatArray, str]]
    """Divisor, its values, and the transform ('' for none)."""
    regressions: list[Regression]

    def outer(self, number: int) -> ResolvedOuter | None:
        """Return the chain of one target."""
        divisor, values, name = self.labels[number]
        chain = self.bench.outer.then(OuterStep("div", divisor), values)
        if chain is not None and name:
            chain = chain.then(OuterStep(name))
        return chain


def scaled_targets(
    bench: Workbench, count: int, transforms: Sequence[str]
) -> ScaledTargets:
    """Return the target divided by its pure factors and by monomials, by rank."""
    pool = bench.pool
    members = pool.members("column", "monomial", "function")
    members = members[np.all(pool.values[members] != 0.0, axis=1)][:count]
    divisors = [(pool.expression(int(index)), pool.values[index]) for index in members]
    divisors[:0] = _factor_products(bench)
    outer, size = bench.outer, bench.scale.size
    ones = np.ones((1, len(outer.values)))
    result = ScaledTargets(bench, [], [])
    for divisor, values in divisors:
        with np.errstate(all="ignore"):
            quotient = outer.values / values
            slope = outer.slope * np.abs(values) / size
        if not np.all(np.isfinite(quotient)) or not np.all(np.isfinite(slope)):
            continue
        low, high = float(quotient.min()), float(quotient.max())
        for name in transforms:
            scored = _quick_transform(name, quotient, slope, low, high)
            if scored is not None:
                result.labels.append((divisor, values, name))
                result.regressions.append(Regression(scored[0], scored[1], ones))
    return result


def _quick_transform(
    name: str, values: FloatArray, slope: FloatArray, low: float, high: float
) -> tuple[FloatArray, FloatArray] | None:
    """Return target and weights of an outer transform, as ``OuterStep`` has them."""
    one_sign = low > 0.0 or high < 0.0
    if name == "":
        return values, slope
    if name == "inv" and one_sign:
        target = 1.0 / values
        weights = slope * np.square(values)
    elif name == "square" and one_sign:
        target = np.square(values)
        weights = slope / np.abs(values)
    elif name == "inverse_square" and one_sign:
        target = 1.0 / np.square(values)
        weights = slope * np.abs(values) ** 3
    elif name == "sqrt" and low > 0.0:
        target = np.sqrt(values)
        weights = slope * target
    elif name == "exp" and max(abs(low), abs(high)) < 50.0:
        target = np.exp(values)
        weights = slope / target
    else:
        return None
    limit = 30.0 * float(np.median(weights))
    return target, np.minimum(weights, limit)


def _factor_products(bench: Workbench) -> list[tuple[Expression, FloatArray]]:
    """Return the products of pure factors."""
    pool = bench.pool
    products: list[tuple[Expression, FloatArray]] = []
    for factors in bench.factors:
        product = power_product([(pool.expression(i), a) for i, a in factors.items()])
        with np.errstate(all="ignore"):
            values = np.prod([pool.values[i] ** a for i, a in factors.items()], axis=0)
        if np.all(np.isfinite(values)):
            products.append((product, values))
    return products


def close_scaled(bench: Workbench) -> None:
    """Draft y = m * h(a + b p [+ c q + d r]) for monomials m."""
    targets = scaled_targets(bench, bench.settings.n_scales, SCALED_TRANSFORMS)
    settings = PursuitSettings(max_terms=3, beam=120, per_regression=4, branch=4)
    found, n_scored = pursue(
        targets.regressions, bench.dictionary, settings, bench.deadline
    )
    bench.n_examined += n_scored
    for one in shortlist(bench, found, bench.pool.bits):
        outer = targets.outer(one.regression)
        if outer is not None:
            bench.add(draft_sum("scaled", outer, bench.pool, one.members, bench.scale))


def close_quotients(bench: Workbench) -> None:
    """Draft quotients of sums, linearised: y = a + sum b p - c y q."""
    pool = bench.pool
    terms = np.concatenate(
        [
            pool.members("column"),
            pool.members("monomial")[:220],
            pool.members("function")[:80],
        ]
    )
    dictionary = Dictionary(pool.values[terms], pool.bits[terms])
    denominators = pool.cheapest(bench.settings.n_denominators)
    outer = bench.outer
    regressions = []
    for index in denominators:
        # Centred, the denominators have mean 1, so that their errors compare.
        values = pool.values[index]
        centred = outer.values * (values - values.mean())
        regressions.append(intercept_regression(outer, bench.scale.size, centred))
    seeds: list[Found] = []
    first = np.arange(min(len(terms), 90))
    for number, regression in enumerate(regressions):
        together, n_scored = explaining_together(
            regression, number, dictionary, first, n_pairs=4
        )
        seeds += together
        bench.n_examined += n_scored
        if bench.late:
            return
    settings = PursuitSettings(max_terms=5, beam=240, per_regression=8, branch=8)
    found, n_scored = pursue(regressions, dictionary, settings, bench.deadline, seeds)
    bench.n_examined += n_scored
    for one in shortlist(bench, found, pool.bits[terms]):
        bench.add(
            draft_quotient(
                outer,
                pool,
                (int(denominators[one.regression]),),
                tuple(int(terms[member]) for member in one.members),
                bench.scale,
            )
        )
