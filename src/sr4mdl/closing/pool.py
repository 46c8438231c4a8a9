"""A bounded pool of columns derived from the columns of a state.

Members are made in groups, cheap ones first: the columns, functions of one column,
monomials, sums of two monomials, one plus or minus a member, functions of those, and
products of two members. Values are computed a block at a time; members that are not
finite, (nearly) constant, or equal to an earlier one up to scale are dropped and
counted. Formulas are built only when asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sr4mdl._typing import BoolArray, FloatArray, IntArray
from sr4mdl.closing.monomials import monomial_exponents, power_product
from sr4mdl.expressions import Expression, apply
from sr4mdl.operators import get_operator
from sr4mdl.selection.bits import operator_bits, variable_bits
from sr4mdl.selection.limits import Limits

_FLAT: Final = 1e-9
"""Spread relative to size below which a member counts as constant."""
_LARGEST: Final = 1e120
"""Largest size of a member: its square must stay finite."""
_SAME_DECIMALS: Final = 9


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one pool member."""

    numpy: Callable[..., Any]
    build: Callable[[Expression], Expression]
    bits: float


def _operator_function(name: str) -> Function:
    operator = get_operator(name)
    return Function(
        operator.numpy, lambda inner: apply(operator, inner), operator_bits(operator)
    )


_BITS: Final = {
    name: operator_bits(get_operator(name))
    for name in ("add", "sub", "mul", "div", "neg", "exp")
}
_ONE_BITS: Final = 5.0

FUNCTIONS: Final[dict[str, Function]] = {
    **{
        name: _operator_function(name)
        for name in (
            "square", "cube", "sqrt", "inv", "exp", "log", "sin", "cos", "tan",
            "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
        )
    },
    "exp_neg": Function(
        lambda x: np.exp(-x),
        lambda inner: apply("exp", apply("neg", inner)),
        _BITS["exp"] + _BITS["neg"],
    ),
    "one_plus": Function(
        lambda x: 1.0 + x,
        lambda inner: apply("add", 1.0, inner),
        _BITS["add"] + _ONE_BITS,
    ),
    "one_minus": Function(
        lambda x: 1.0 - x,
        lambda inner: apply("sub", 1.0, inner),
        _BITS["sub"] + _ONE_BITS,
    ),
}  # fmt: skip
"""Functions of one member, by name."""

COLUMN_FUNCTIONS: Final = (
    "sqrt", "exp", "log", "sin", "cos", "exp_neg", "tanh", "tan",
    "one_plus", "one_minus", "arctan", "sinh", "cosh", "arcsin", "arccos",
)  # fmt: skip
MONOMIAL_FUNCTIONS: Final = (
    "exp", "square", "cos", "sin", "exp_neg", "sqrt", "tanh", "cosh",
)  # fmt: skip
SUM_FUNCTIONS: Final = (
    "sqrt", "inv", "square", "cos", "sin", "exp", "exp_neg", "log",
)  # fmt: skip
_FUNCTION_RANK: Final = 9.0
"""Rank of functions of one column on the scale of the monomials' ranks."""
_PERIODIC: Final = ("sin", "cos")
_SMOOTH: Final = (
    "sin", "cos", "exp", "log", "exp_neg", "tanh", "one_plus", "one_minus",
)  # fmt: skip


@dataclass(slots=True)
class Pool:
    """Members of a pool and how they came about.

    Attributes
    ----------
    values : ndarray of shape (n_members, n_rows)
        Their values.
    bits : ndarray of shape (n_members,)
        About how many bits their formulas cost.
    group : ndarray of shape (n_members,)
        Index into ``GROUPS``.
    rank : ndarray of shape (n_members,)
        Order in which members are worth trying; low first.
    n_made : int
        Members computed, including those dropped.
    n_dropped : int
        Members dropped as not finite, constant or equal to another.
    """

    columns: tuple[Expression, ...]
    values: FloatArray
    bits: FloatArray
    group: IntArray
    rank: FloatArray
    recipes: list[tuple[Any, ...]]
    n_made: int
    n_dropped: int
    _built: dict[int, Expression] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def members(self, *names: str) -> IntArray:
        """Return the members of some groups, by rank."""
        wanted = np.isin(self.group, [GROUPS.index(name) for name in names])
        members = np.flatnonzero(wanted)
        result: IntArray = members[np.argsort(self.rank[members], kind="stable")]
        return result

    def cheapest(self, count: int) -> IntArray:
        """Return the members that cost the fewest bits."""
        result: IntArray = np.argsort(self.bits, kind="stable")[:count]
        return result

    def expression(self, index: int) -> Expression:
        """Return the formula of a member."""
        known = self._built.get(index)
        if known is not None:
            return known
        kind, *rest = self.recipes[index]
        built: Expression
        if kind == "column":
            built = self.columns[rest[0]]
        elif kind == "monomial":
            built = power_product([(self.columns[i], a) for i, a in rest[0]])
        elif kind in FUNCTIONS:
            built = FUNCTIONS[kind].build(self.expression(rest[0]))
        else:
            built = apply(kind, self.expression(rest[0]), self.expression(rest[1]))
        self._built[index] = built
        return built

    def within(self, limits: Limits) -> "Pool":
        """Return the pool without members that a formula may not contain."""
        if not limits.any:
            return self
        kept = [
            place
            for place in range(len(self))
            if place < len(self.columns) or limits.permits(self.expression(place))
        ]
        return Pool(
            self.columns,
            self.values[kept],
            self.bits[kept],
            self.group[kept],
            self.rank[kept],
            [self.recipes[place] for place in kept],
            self.n_made,
            self.n_dropped + len(self) - len(kept),
            # Recipes name places of the whole pool, so all formulas are built here.
            {new: self.expression(old) for new, old in enumerate(kept)},
        )


GROUPS: Final = (
    "column", "function", "monomial", "sum", "shift", "ratio", "inner", "product",
)  # fmt: skip
"""Groups of members: columns; functions of one; products of powers; sums of two
members; one plus or minus a member; a sum times or over a column; functions of the
foregoing; products of those with functions."""


class _Builder:
    """Collects members group by group."""

    def __init__(self, n_rows: int, seed: int) -> None:
        self.blocks: list[FloatArray] = []
        self.bits: list[FloatArray] = []
        self.ranks: list[FloatArray] = []
        self.groups: list[IntArray] = []
        self.recipes: list[tuple[Any, ...]] = []
        self.n_made = 0
        self.n_dropped = 0
        self.total = 0
        self.probes = np.random.default_rng(seed).normal(size=(n_rows, 2))
        self.seen: set[tuple[int, int]] = set()

    def values(self) -> FloatArray:
        if len(self.blocks) > 1:
            self.blocks = [np.concatenate(self.blocks)]
        return self.blocks[0]

    def all_bits(self) -> FloatArray:
        if len(self.bits) > 1:
            self.bits = [np.concatenate(self.bits)]
        return self.bits[0]

    def add(
        self,
        values: FloatArray,
        recipes: Sequence[tuple[Any, ...]],
        bits: FloatArray,
        group: str,
        ranks: FloatArray | None = None,
        keep_all: bool = False,
    ) -> IntArray:
        """Add a block; return the indices of the members kept."""
        self.n_made += len(values)
        good = np.ones(len(values), dtype=np.bool_)
        if not keep_all:
            good = self._worth_keeping(values)
        chosen = np.flatnonzero(good)
        keys = self._keys(values[chosen])
        kept: list[int] = []
        for place, key in zip(chosen.tolist(), keys, strict=True):
            if keep_all or key not in self.seen:
                self.seen.add(key)
                kept.append(place)
        self.n_dropped += len(values) - len(kept)
        first = self.total
        if kept:
            self.blocks.append(values[kept])
            self.bits.append(bits[kept])
            self.ranks.append((bits if ranks is None else ranks)[kept])
            self.groups.append(np.full(len(kept), GROUPS.index(group)))
            self.recipes += [recipes[place] for place in kept]
            self.total += len(kept)
        return np.arange(first, self.total)

    @staticmethod
    def _worth_keeping(values: FloatArray) -> BoolArray:
        with np.errstate(all="ignore"):
            low, high = values.min(axis=1), values.max(axis=1)
            size = np.maximum(np.abs(low), np.abs(high))
            # NaN fails every comparison, so it is dropped here as well.
            good: BoolArray = (
                (size < _LARGEST)
                & (size > 1.0 / _LARGEST)
                & (high - low > _FLAT * size)
            )
        return good

    def _keys(self, values: FloatArray) -> list[tuple[int, int]]:
        """Return hashes that are equal for members equal up to scale and sign."""
        if not len(values):
            return []
        size = np.max(np.abs(values), axis=1, keepdims=True)
        size[size == 0.0] = 1.0
        unit = values / size
        norm = np.sqrt(np.einsum("ij,ij->i", unit, unit))
        norm[norm == 0.0] = 1.0
        projected = (unit @ self.probes) / norm[:, None]
        sign = np.where(projected[:, :1] < 0.0, -1.0, 1.0)
        rounded = np.rint(projected * sign * 10.0**_SAME_DECIMALS).astype(np.int64)
        return list(map(tuple, rounded.tolist()))

    def cheapest(self, members: IntArray, count: int) -> IntArray:
        bits = self.all_bits()[members]
        result: IntArray = members[np.argsort(bits, kind="stable")[:count]]
        return result


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """How many members of each group a pool may have."""

    functions: int = 200
    monomials: int = 1200
    sums: int = 500
    ratios: int = 120
    shifts: int = 800
    inner_monomials: int = 1000
    inner_sums: int = 500
    products: int = 2600
    late_shifts: int = 900


FULL_PLAN: Final = PoolPlan()
MEDIUM_PLAN: Final = PoolPlan(50, 300, 125, 30, 200, 250, 125, 650, 225)
QUICK_PLAN: Final = PoolPlan(80, 60, 40, 0, 24, 30, 0, 40, 0)


def build_pool(
    columns: FloatArray,
    expressions: tuple[Expression, ...],
    plan: PoolPlan = FULL_PLAN,
    seed: int = 0,
) -> Pool:
    """Build the pool of a state.

    Parameters
    ----------
    columns : ndarray of shape (n_columns, n_rows)
        Values of the state's columns, finite.
    expressions : tuple of Expression
        Their formulas.
    plan : PoolPlan
        How many members of each group to make; the columns are always members.
    seed : int, default=0
        Seed of the probes that tell equal members.

    Returns
    -------
    Pool
        The members, the columns first.
    """
    n_columns, n_rows = columns.shape
    builder = _Builder(n_rows, seed)
    bits = np.full(n_columns, variable_bits(n_columns))
    recipes = [("column", index) for index in range(n_columns)]
    base = builder.add(columns, recipes, bits, "column", keep_all=True)
    monomials, plain = _add_monomials(builder, columns, plan.monomials)
    simple = _add_functions(builder, COLUMN_FUNCTIONS, base, plan.functions, "function")
    simple_waves = _of_functions(builder, simple, _PERIODIC)
    squares = _add_functions(
        builder, ("square",), simple_waves, plan.functions, "function"
    )
    join = np.concatenate
    column_sums = _add_pairs(builder, ("add", "sub"), base, base, plan.sums // 3, "sum")
    ratios = _add_pairs(
        builder, ("mul", "div"), column_sums, base, plan.ratios, "ratio"
    )
    squared = _single_powers(builder, monomials, 2.0)
    alike = _add_pairs(builder, ("add", "sub"), squared, squared, plan.sums // 5, "sum")
    low = builder.cheapest(join([base, monomials]), 4 + _side(plan.sums))
    sums = _add_pairs(builder, ("add", "sub"), low, low, plan.sums // 2, "sum")
    smooth = _of_functions(builder, simple, _SMOOTH)
    low = builder.cheapest(join([base, smooth]), 4 + _side(plan.sums))
    more = _add_pairs(builder, ("add", "sub"), low, low, plan.sums // 3, "sum")
    sums = join([column_sums, alike, sums, more])
    shifts = _add_functions(
        builder,
        ("one_plus", "one_minus"),
        join([simple, _without_inverses(builder, monomials)])[: plan.shifts // 2],
        plan.shifts,
        "shift",
    )
    inner = _add_functions(
        builder, MONOMIAL_FUNCTIONS, plain, plan.inner_monomials, "inner"
    )
    close = join([column_sums, ratios])[: plan.inner_sums // 8]
    inner_sums = _add_functions(builder, SUM_FUNCTIONS, close, plan.inner_sums, "inner")
    near = builder.cheapest(join([sums, shifts, monomials]), plan.inner_sums // 8)
    more = _add_functions(
        builder, SUM_FUNCTIONS, near, plan.inner_sums - len(inner_sums), "inner"
    )
    inner_sums = join([inner_sums, more])
    waves = _of_functions(builder, join([inner, inner_sums]), _PERIODIC)
    waves = builder.cheapest(waves, plan.products // 40)
    wave_squares = _add_functions(builder, ("square",), waves, len(waves), "inner")
    products = _add_products(
        builder, plan.products, base, plain, inner, smooth, squares, waves, wave_squares
    )
    _add_functions(
        builder,
        ("one_minus", "one_plus"),
        join(
            [
                builder.cheapest(join([waves, inner]), plan.late_shifts // 6),
                *(builder.cheapest(kind, plan.late_shifts // 9) for kind in products),
            ]
        ),
        plan.late_shifts,
        "shift",
    )
    return Pool(
        expressions,
        builder.values(),
        builder.all_bits(),
        np.concatenate(builder.groups),
        np.concatenate(builder.ranks),
        builder.recipes,
        builder.n_made,
        builder.n_dropped,
    )


def _add_products(
    builder: _Builder,
    budget: int,
    base: IntArray,
    plain: IntArray,
    inner: IntArray,
    smooth: IntArray,
    squares: IntArray,
    waves: IntArray,
    wave_squares: IntArray,
) -> list[IntArray]:
    """Add products of monomials with functions, and of two functions, by kind."""
    join = np.concatenate
    pairs = builder.cheapest(plain, budget // 80)
    roots = builder.cheapest(_of_functions(builder, inner, ("sqrt",)), budget // 160)
    simple = _of_functions(builder, smooth, ("sin", "cos", "exp", "exp_neg", "log"))
    groups = (
        (join([base, pairs]), join([smooth, squares]), budget // 4),
        (roots, simple, budget // 12),
        (simple, simple, budget // 8),
        (join([base, pairs[: budget // 200]]), waves, budget // 2),
        (base, wave_squares, budget // 12),
    )
    return [
        _add_pairs(builder, ("mul",), left, right, count, "product")
        for left, right, count in groups
    ]


def _side(pairs: int) -> int:
    """Return how many members have about so many pairs."""
    return int(pairs**0.5)


def _single_powers(builder: _Builder, monomials: IntArray, exponent: float) -> IntArray:
    """Return the monomials of one column to some exponent."""
    kept = [
        member
        for member in monomials.tolist()
        if len(builder.recipes[member][1]) == 1
        and builder.recipes[member][1][0][1] == exponent
    ]
    return np.array(kept, dtype=np.int64)


def _of_functions(
    builder: _Builder, members: IntArray, names: Sequence[str]
) -> IntArray:
    """Return those members that are one of some functions."""
    kept = [member for member in members if builder.recipes[member][0] in names]
    return np.array(kept, dtype=np.int64)


def _without_inverses(builder: _Builder, monomials: IntArray) -> IntArray:
    """Return one of each monomial and its inverse: 1 + 1/m is (1 + m)/m."""
    seen: set[tuple[Any, ...]] = set()
    kept: list[int] = []
    for member in monomials.tolist():
        exponents = builder.recipes[member][1]
        if tuple((column, -power) for column, power in exponents) not in seen:
            seen.add(exponents)
            kept.append(member)
    return np.array(kept, dtype=np.int64)


def _add_functions(
    builder: _Builder,
    names: Sequence[str],
    members: IntArray,
    budget: int,
    group: str,
) -> IntArray:
    """Add functions of members, the cheapest combinations within the budget."""
    if not len(members) or budget <= 0:
        return np.arange(0)
    bits = builder.all_bits()
    cost = np.array([FUNCTIONS[name].bits for name in names])[:, None] + bits[members]
    order = np.argsort(cost.ravel(), kind="stable")[:budget]
    which, sources = order // len(members), members[order % len(members)]
    values = builder.values()
    result = np.empty((len(order), values.shape[1]))
    with np.errstate(all="ignore"):
        for place, name in enumerate(names):
            rows = np.flatnonzero(which == place)
            result[rows] = FUNCTIONS[name].numpy(values[sources[rows]])
    recipes = [
        (names[place], source)
        for place, source in zip(which.tolist(), sources.tolist(), strict=True)
    ]
    bits = cost.ravel()[order]
    ranks = bits
    if group == "function":
        ranks = np.full(len(order), _FUNCTION_RANK)
    return builder.add(result, recipes, bits, group, ranks)


def _add_monomials(
    builder: _Builder, columns: FloatArray, budget: int
) -> tuple[IntArray, IntArray]:
    """Add monomials; return all, and those of one column or with exponents 1, -1."""
    entries = monomial_exponents(len(columns), budget)
    needed = {factor for exponents, _, _ in entries for factor in exponents}
    with np.errstate(all="ignore"):
        powers = {(i, power): columns[i] ** power for i, power in needed}
        values = np.empty((len(entries), columns.shape[1]))
        for row, (exponents, _, _) in enumerate(entries):
            product = powers[exponents[0]]
            for factor in exponents[1:]:
                product = product * powers[factor]
            values[row] = product
    kept = builder.add(
        values,
        [("monomial", exponents) for exponents, _, _ in entries],
        np.array([bits for _, bits, _ in entries]),
        "monomial",
        np.array([rank for _, _, rank in entries]),
    )
    plain = [
        member
        for member in kept.tolist()
        if len(builder.recipes[member][1]) == 1
        or all(abs(power) == 1.0 for _, power in builder.recipes[member][1])
    ]
    return kept, np.array(plain, dtype=np.int64)


def _add_pairs(
    builder: _Builder,
    names: Sequence[str],
    left: IntArray,
    right: IntArray,
    budget: int,
    group: str,
) -> IntArray:
    """Add operators on pairs, the cheapest combinations within the budget."""
    if not len(left) or not len(right) or budget <= 0:
        return np.arange(0)
    bits = builder.all_bits()
    first = np.repeat(left, len(right))
    second = np.tile(right, len(left))
    if left is right:
        pairs = first < second
        first, second = first[pairs], second[pairs]
    cost = bits[first] + bits[second]
    order = np.argsort(cost, kind="stable")[: max(1, budget // len(names))]
    first, second, cost = first[order], second[order], cost[order]
    values = builder.values()
    blocks, recipes, all_bits = [], [], []
    with np.errstate(all="ignore"):
        for name in names:
            operator = get_operator(name)
            blocks.append(operator.numpy(values[first], values[second]))
            recipes += [
                (name, i, j)
                for i, j in zip(first.tolist(), second.tolist(), strict=True)
            ]
            all_bits.append(cost + _BITS[name])
    return builder.add(np.concatenate(blocks), recipes, np.concatenate(all_bits), group)
