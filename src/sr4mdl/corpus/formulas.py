"""Random formulas to train on.

Two distributions:

* ``paper``: the algorithm of Kamienny et al. (2022) that the paper takes: a uniform
  binary tree over D variables, unary operators inserted over short subtrees, affine
  constants everywhere.
* ``default``: a mixture of that tree with few constants, of formulas built the way
  formulas in science are (products of powers, ratios, sums of like things, functions
  of dimensionless groups) and of small trees over the whole operator table.

All come out simplified. Formulas of the benchmark suites are refused by the hash of
their structure, so that training never sees them.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from sr4mdl.corpus.structure import held_out_hashes, structure_hash
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.simplify import simplify

Distribution = Literal["default", "paper"]
PaperConstants = Literal["decades", "uniform"]

MAX_VARIABLES: Final = 10
MAX_LENGTH: Final = 50
_ALL_USED_RATE: Final = 0.7
"""Share of default formulas whose tables hold no column that plays no part."""
VARIABLE_NAMES: Final = tuple(f"x{index}" for index in range(MAX_VARIABLES))

# Weights of the generator that the paper uses (Kamienny et al., 2022).
_PAPER_BINARY: Final = (("add", 1.0), ("sub", 1.0), ("mul", 1.0))
_PAPER_UNARY: Final = (
    ("abs", 1.0), ("inv", 3.0), ("sqrt", 5.0), ("log", 1.0), ("exp", 1.0),
    ("sin", 1.0), ("cos", 1.0), ("tan", 0.2), ("arctan", 0.2), ("square", 3.0),
    ("cube", 1.0),
)  # fmt: skip
_DEFAULT_BINARY: Final = (
    ("add", 1.0), ("sub", 0.9), ("mul", 2.0), ("div", 1.2), ("pow", 0.03),
)  # fmt: skip
_DEFAULT_UNARY: Final = (
    ("abs", 0.15), ("inv", 1.5), ("sqrt", 2.0), ("log", 1.0), ("exp", 1.5),
    ("sin", 1.3), ("cos", 1.3), ("tan", 0.3), ("arcsin", 0.25), ("arccos", 0.2),
    ("arctan", 0.25), ("sinh", 0.15), ("cosh", 0.15), ("tanh", 0.4), ("square", 3.0),
    ("cube", 0.7), ("neg", 0.2),
)  # fmt: skip
_ALL_UNARY: Final = tuple((name, 1.0) for name, _ in _DEFAULT_UNARY)


class _Chooser:
    """Draws names by weight, quicker than random.choices on every call."""

    def __init__(self, table: Sequence[tuple[str, float]]) -> None:
        self.names = [name for name, _ in table]
        total = 0.0
        self.cumulative = []
        for _, weight in table:
            total += weight
            self.cumulative.append(total)

    def __call__(self, rng: random.Random) -> str:
        return rng.choices(self.names, cum_weights=self.cumulative)[0]


_paper_binary = _Chooser(_PAPER_BINARY)
_paper_unary = _Chooser(_PAPER_UNARY)
_default_binary = _Chooser(_DEFAULT_BINARY)
_default_unary = _Chooser(_DEFAULT_UNARY)
_any_unary = _Chooser(_ALL_UNARY)


@dataclass(frozen=True, slots=True)
class Formula:
    """A simplified random formula."""

    expression: Expression
    n_variables: int
    """Variables are x0 .. x(n-1); the formula may use fewer."""
    n_unary: int
    """Unary operators drawn, before simplification."""
    n_binary: int
    """Binary operators drawn, before simplification."""


def random_binary_tree(
    rng: random.Random, n_operators: int, pick: Callable[[random.Random], str]
) -> list[object]:
    """Return a uniformly drawn binary tree as nested lists [name, left, right].

    Leaves are None. Remy's algorithm: every new operator is put over a uniformly
    drawn node, on a uniformly drawn side, which makes all shapes equally likely.
    """
    root: list[object] = [None]
    slots: list[tuple[list[object], int]] = [(root, 0)]
    for _ in range(n_operators):
        holder, position = slots[rng.randrange(len(slots))]
        below = holder[position]
        if rng.random() < 0.5:
            node: list[object] = [pick(rng), below, None]
            old, new = 1, 2
        else:
            node = [pick(rng), None, below]
            old, new = 2, 1
        holder[position] = node
        slots.append((node, old))
        slots.append((node, new))
    return root


def _leaf_count(n_binary: int) -> int:
    return n_binary + 1


def _constant_of_decades(rng: random.Random) -> float:
    """From 0.001 to 99.9, three decades alike: Kamienny's generator."""
    sign = 1.0 if rng.random() < 0.5 else -1.0
    return sign * rng.randint(1, 999) * 10.0 ** rng.randint(-3, -1)


def _uniform_constant(rng: random.Random) -> float:
    """From -100 to 100, all alike but 0: the paper's text."""
    return rng.choice((1.0, -1.0)) * rng.randint(1, 10_000) / 100.0


PAPER_CONSTANTS: Final[Mapping[PaperConstants, Callable[[random.Random], float]]] = {
    "decades": _constant_of_decades,
    "uniform": _uniform_constant,
}
"""How affine constants of the paper's formulas are drawn."""
DEFAULT_CONSTANTS: Final[PaperConstants] = "uniform"
"""What the paper says of its own formulas."""


def _build_tree(
    tree: object, leaves: list[Expression], wrap: Callable[[Expression], Expression]
) -> Expression:
    """Turn nested lists into an expression, wrapping every operand but the root."""
    if tree is None:
        return leaves.pop()
    assert isinstance(tree, list)
    name, left, right = tree
    first = wrap(_build_tree(left, leaves, wrap))
    second = wrap(_build_tree(right, leaves, wrap))
    return apply(str(name), first, second)


def _leaves(rng: random.Random, n_variables: int, n_leaves: int) -> list[Expression]:
    """Return the leaves in random order: every variable once first, then any."""
    chosen = list(range(n_variables))[:n_leaves]
    while len(chosen) < n_leaves:
        chosen.append(rng.randrange(n_variables))
    rng.shuffle(chosen)
    return [variable(VARIABLE_NAMES[index]) for index in chosen]


def _tree_formula(
    rng: random.Random,
    n_variables: int,
    n_binary: int,
    n_unary: int,
    binary: Callable[[random.Random], str],
    unary: Callable[[random.Random], str],
) -> Expression:
    """Draw the binary tree, put unary operators over short subtrees."""
    root = random_binary_tree(rng, n_binary, binary)
    n_nodes = 2 * n_binary + 1
    # Each unary operator goes over one of the operands, drawn at random; long
    # operands refuse it, as in the original, so the tail of the list is a reserve.
    planned = n_unary
    share = min(1.0, 1.5 * n_unary / max(1, n_nodes - 1))

    def wrap(operand: Expression) -> Expression:
        nonlocal planned
        while planned > 0 and operand.length < 6 and rng.random() < share:
            operand = apply(unary(rng), operand)
            planned -= 1
        return operand

    leaves = _leaves(rng, n_variables, _leaf_count(n_binary))
    expression = _build_tree(root[0], leaves, wrap)
    if n_binary == 0:
        while planned > 0:
            expression = apply(unary(rng), expression)
            planned -= 1
    return expression


def _is_sum(expression: Expression) -> bool:
    operator = expression.operator
    return operator is not None and operator.name in ("add", "sub")


def _add_paper_constants(
    rng: random.Random,
    expression: Expression,
    draw: Callable[[random.Random], float],
) -> Expression:
    """Put affine constants where Kamienny's generator puts them."""

    def change(node: Expression) -> Expression | None:
        operator = node.operator
        if operator is None:
            return None
        if operator.name in ("add", "sub"):
            return apply(
                operator,
                *(
                    argument if _is_sum(argument) else apply("mul", draw(rng), argument)
                    for argument in node.arguments
                ),
            )
        if operator.arity == 1:
            (inner,) = node.arguments
            if _is_sum(inner):
                return None
            scaled = apply("mul", draw(rng), inner)
            return apply(operator, apply("add", draw(rng), scaled))
        return None

    inside = expression.rebuild(change)
    if not _is_sum(inside):
        inside = apply("mul", draw(rng), inside)
    return apply("add", draw(rng), inside)


def paper_formula(
    rng: random.Random,
    n_variables: int | None = None,
    n_unary: int | None = None,
    n_binary: int | None = None,
    constants: PaperConstants = DEFAULT_CONSTANTS,
) -> Formula:
    """Draw a formula of the paper's distribution; the counts may be given.

    As in Kamienny's generator the formula uses all its variables, and their number is
    drawn once: formulas that lose a variable, or are longer than ``MAX_LENGTH``, are
    drawn again with the same number of variables and of unary operators.

    Raises
    ------
    ValueError
        If so few binary operators cannot join so many variables.
    """
    dimension = _paper_dimension(rng, n_binary) if n_variables is None else n_variables
    unary = rng.randint(0, 4) if n_unary is None else n_unary
    draw = PAPER_CONSTANTS[constants]
    if n_binary is not None and n_binary < dimension - 1:
        raise ValueError(
            f"n_binary must be at least {dimension - 1} to join {dimension} variables, "
            f"got {n_binary}"
        )
    while True:
        # Fewer operators than this cannot join all variables: no need to try them.
        binary = (
            rng.randint(dimension - 1, dimension + 3) if n_binary is None else n_binary
        )
        tree = _tree_formula(rng, dimension, binary, unary, _paper_binary, _paper_unary)
        expression = simplify(_add_paper_constants(rng, tree, draw))
        if len(expression.variables) == dimension and expression.length <= MAX_LENGTH:
            return Formula(expression, dimension, unary, binary)


def small_paper_formula(
    rng: random.Random, growth: float, constants: PaperConstants = DEFAULT_CONSTANTS
) -> Formula:
    """Draw as ``paper_formula`` does, but with this share of the operators at most.

    ``growth`` is from 0, one variable and hardly an operator, to 1, the paper's
    distribution.
    """
    if growth >= 1.0:
        return paper_formula(rng, constants=constants)
    dimension = rng.randint(1, 1 + round(growth * (MAX_VARIABLES - 1)))
    return paper_formula(
        rng,
        n_variables=dimension,
        n_unary=rng.randint(0, 1 + round(3 * growth)),
        n_binary=dimension - 1 + rng.randint(0, 1 + round(3 * growth)),
        constants=constants,
    )


def _paper_dimension(rng: random.Random, n_binary: int | None) -> int:
    """Draw a number of variables that so many binary operators can have."""
    if n_binary is None:
        return rng.randint(1, MAX_VARIABLES)
    return rng.randint(max(1, n_binary - 3), min(MAX_VARIABLES, n_binary + 1))


_SMALL: Final = (1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 0.5, math.pi, 2 * math.pi)


def _plain_constant(rng: random.Random) -> float:
    """A constant as people write them: small whole numbers, pi, or a measured one."""
    if rng.random() < 0.6:
        return rng.choice(_SMALL)
    if rng.random() < 0.5:
        return round(rng.uniform(0.05, 5.0), 2) or 1.0
    return float(f"{10.0 ** rng.uniform(-2.0, 2.0):.3g}")


def _dimension(rng: random.Random) -> int:
    return rng.choices(range(1, MAX_VARIABLES + 1), (8, 17, 20, 19, 14, 9, 6, 3, 2, 2))[
        0
    ]


def _sparse_tree_formula(rng: random.Random) -> Formula:
    """A tree as in the paper with the operators of science and few constants."""
    dimension = _dimension(rng)
    n_binary = rng.randint(max(0, dimension - 1), dimension + 3)
    n_unary = rng.choices((0, 1, 2, 3, 4), (2, 4, 3, 2, 1))[0]
    tree = _tree_formula(
        rng, dimension, n_binary, n_unary, _default_binary, _default_unary
    )
    rate = rng.choice((0.0, 0.0, 0.08, 0.2))

    def change(node: Expression) -> Expression | None:
        if rng.random() >= rate or node.is_constant:
            return None
        name = rng.choice(("add", "sub", "mul", "mul", "div"))
        if rng.random() < 0.3:
            return apply(name, _plain_constant(rng), node)
        return apply(name, node, _plain_constant(rng))

    return Formula(simplify(tree.rebuild(change)), dimension, n_unary, n_binary)


class _Science:
    """Grows formulas the way science writes them, from a budget of variable uses."""

    def __init__(self, rng: random.Random, n_variables: int) -> None:
        self.rng = rng
        self.fresh = [variable(name) for name in VARIABLE_NAMES[:n_variables]]
        rng.shuffle(self.fresh)
        self.used: list[Expression] = []
        self.n_unary = 0
        self.n_binary = 0

    def symbol(self) -> Expression:
        """A variable: a new one while there are any, else one used before."""
        if self.fresh and (not self.used or self.rng.random() < 0.8):
            self.used.append(self.fresh.pop())
            return self.used[-1]
        return self.rng.choice(self.used)

    def unary(self, name: str, inner: Expression) -> Expression:
        self.n_unary += 1
        return apply(name, inner)

    def binary(self, name: str, left: Expression, right: Expression) -> Expression:
        self.n_binary += 1
        return apply(name, left, right)

    def factor(self, depth: int) -> Expression:
        """One factor of a product: mostly a variable or a small power of one."""
        rng = self.rng
        draw = rng.random()
        if depth <= 0 or draw < 0.55:
            return self.symbol()
        if draw < 0.72:
            name = rng.choices(("square", "cube", "sqrt"), (6, 1, 2))[0]
            return self.unary(name, self.symbol())
        if draw < 0.86:
            return self.bracket(depth - 1)
        return self.function(depth - 1)

    def monomial(self, depth: int, most: int = 4) -> Expression:
        """A product of factors over a product of factors."""
        rng = self.rng
        n_above = rng.choices((1, 2, 3, 4), (4, 6, 4, 2))[0]
        n_below = rng.choices((0, 1, 2, 3), (7, 5, 3, 1))[0]
        n_above, n_below = min(n_above, most), min(n_below, most)
        above = self.product([self.factor(depth) for _ in range(n_above)])
        if n_below == 0:
            return above
        below = self.product([self.factor(depth) for _ in range(n_below)])
        return self.binary("div", above, below)

    def product(self, factors: list[Expression]) -> Expression:
        result = factors[0]
        for other in factors[1:]:
            result = self.binary("mul", result, other)
        return result

    def argument(self, depth: int) -> Expression:
        """What functions are taken of: groups, differences, scaled variables."""
        rng = self.rng
        draw = rng.random()
        if draw < 0.3:
            inner = self.symbol()
        elif draw < 0.65:
            inner = self.monomial(0, most=2)
        elif draw < 0.85:
            inner = self.bracket(depth)
        else:
            inner = self.monomial(depth, most=2)
        if rng.random() < 0.2:
            inner = self.binary(
                rng.choice(("mul", "div")), inner, constant(_plain_constant(rng))
            )
        return inner

    def function(self, depth: int) -> Expression:
        """A function of a group, sometimes squared, sometimes with a minus inside."""
        rng = self.rng
        inner = self.argument(depth)
        name = _default_unary(rng)
        if name in ("exp", "sqrt") and rng.random() < 0.25:
            inner = self.unary("neg", inner)
        result = self.unary(name, inner)
        if name in ("sin", "cos", "tan", "tanh", "log") and rng.random() < 0.2:
            result = self.unary("square", result)
        return result

    def like_terms(self, depth: int) -> Expression:
        """Sums of alike things: a^2 + b^2, a*b + c*d, (a - b)^2 + (c - d)^2."""
        rng = self.rng
        n_terms = rng.choices((2, 3, 4), (6, 3, 1))[0]
        draw = rng.random()
        terms = []
        for _ in range(n_terms):
            if draw < 0.35:
                terms.append(self.unary("square", self.symbol()))
            elif draw < 0.6:
                terms.append(self.binary("mul", self.symbol(), self.symbol()))
            elif draw < 0.75:
                gap = self.binary("sub", self.symbol(), self.symbol())
                terms.append(self.unary("square", gap))
            elif draw < 0.9:
                terms.append(self.symbol())
            else:
                terms.append(self.unary("inv", self.symbol()))
        result = terms[0]
        for term in terms[1:]:
            name = "add" if rng.random() < 0.75 else "sub"
            result = self.binary(name, result, term)
        del depth
        return result

    def bracket(self, depth: int) -> Expression:
        """A sum or difference: 1 - group, a - b, like terms, group + function."""
        rng = self.rng
        draw = rng.random()
        name = "add" if rng.random() < 0.55 else "sub"
        if draw < 0.35:
            one = constant(rng.choices((1.0, 2.0, _plain_constant(rng)), (8, 1, 2))[0])
            inner = (
                self.squared_group(depth) if rng.random() < 0.5 else self.group(depth)
            )
            if rng.random() < 0.5:
                return self.binary(name, one, inner)
            return self.binary(name, inner, one)
        if draw < 0.55:
            return self.binary(name, self.symbol(), self.symbol())
        if draw < 0.75:
            return self.like_terms(depth)
        return self.binary(name, self.group(depth), self.group(depth))

    def group(self, depth: int) -> Expression:
        rng = self.rng
        if depth > 0 and rng.random() < 0.35:
            if rng.random() < 0.5:
                return self.function(depth - 1)
            return self.binary("mul", self.symbol(), self.function(depth - 1))
        return self.monomial(0, most=2)

    def squared_group(self, depth: int) -> Expression:
        return self.unary("square", self.group(depth))

    def whole(self) -> Expression:
        """A monomial or a sum of a few, sometimes under an outer function."""
        rng = self.rng
        depth = rng.choices((1, 2, 3), (4, 5, 2))[0]
        draw = rng.random()
        if draw < 0.5:
            body = self.monomial(depth)
        elif draw < 0.8:
            n_terms = rng.choices((2, 3, 4), (6, 3, 1))[0]
            body = self.monomial(depth - 1, most=2)
            for _ in range(n_terms - 1):
                name = "add" if rng.random() < 0.55 else "sub"
                body = self.binary(name, body, self.monomial(depth - 1, most=2))
        elif draw < 0.9:
            body = self.binary("div", self.bracket(depth), self.bracket(depth))
        else:
            body = self.function(depth)
        if rng.random() < 0.15:
            body = self.unary(_default_unary(rng), body)
        if rng.random() < 0.35:
            scale = constant(_plain_constant(rng))
            body = self.binary(rng.choice(("mul", "div")), body, scale)
        return body


def _science_formula(rng: random.Random) -> Formula:
    n_variables = _dimension(rng)
    grower = _Science(rng, n_variables)
    expression = simplify(grower.whole())
    return Formula(expression, n_variables, grower.n_unary, grower.n_binary)


def _small_formula(rng: random.Random) -> Formula:
    """A short tree over all operators, so that none is unknown to the network."""
    n_variables = rng.randint(1, 4)
    n_binary = rng.randint(0, 3)
    n_unary = rng.randint(0 if n_binary else 1, 3)
    tree = _tree_formula(
        rng, n_variables, n_binary, n_unary, _default_binary, _any_unary
    )
    return Formula(simplify(tree), n_variables, n_unary, n_binary)


def default_formula(rng: random.Random) -> Formula:
    """Draw a formula of the default mixture."""
    draw = rng.random()
    if draw < 0.6:
        return _science_formula(rng)
    if draw < 0.88:
        return _sparse_tree_formula(rng)
    return _small_formula(rng)


def sample_formula(
    rng: random.Random,
    distribution: Distribution,
    constants: PaperConstants = DEFAULT_CONSTANTS,
    growth: float = 1.0,
) -> Formula:
    """Draw until a formula is fit to train on.

    Refused are constants, formulas longer than ``MAX_LENGTH`` symbols after
    simplification, and formulas with the structure of a benchmark problem.
    ``constants`` and ``growth`` are those of the paper's formulas; below 1, these are
    smaller (``small_paper_formula``).
    """
    held_out = held_out_hashes()
    while True:
        if distribution == "paper":
            formula = small_paper_formula(rng, growth, constants)
        else:
            formula = default_formula(rng)
        expression = formula.expression
        if not expression.variables or expression.length > MAX_LENGTH:
            continue
        if structure_hash(expression) in held_out:
            continue
        if distribution == "default" and rng.random() < _ALL_USED_RATE:
            return _without_unused(formula)
        return formula


def _without_unused(formula: Formula) -> Formula:
    """Renumber the variables so that none is idle."""
    used = sorted(formula.expression.variables)
    names = dict(zip(used, map(variable, VARIABLE_NAMES), strict=False))
    return replace(
        formula,
        expression=formula.expression.substitute(names),
        n_variables=len(used),
    )
