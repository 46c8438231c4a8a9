"""Random training formulas: distribution, structure hashes, reproducibility."""

import random
from collections import Counter

import numpy as np
import pytest

from sr4mdl.corpus import formulas
from sr4mdl.corpus.structure import (
    flatten_product,
    flatten_sum,
    held_out_hashes,
    structure_hash,
)
from sr4mdl.expressions import variable
from sr4mdl.simplify import simplify
from sr4mdl.text import parse


def test_binary_trees_are_uniform() -> None:
    """There are 5 shapes of trees with 3 operators; each must come equally often."""
    rng = random.Random(0)

    def shape(tree: object) -> str:
        if tree is None:
            return "."
        assert isinstance(tree, list)
        return f"({shape(tree[1])}{shape(tree[2])})"

    counts = Counter(
        shape(formulas.random_binary_tree(rng, 3, lambda _: "add")[0])
        for _ in range(5000)
    )
    assert len(counts) == 5
    expected = 1000.0
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 18.5  # 0.1 % point of chi-square with 4 degrees of freedom


def test_flattening_by_hand() -> None:
    a, b, c = (variable(name) for name in "abc")
    assert flatten_sum(parse("a - (b - c)")) == [(a, 1), (b, -1), (c, 1)]
    assert flatten_product(parse("a/(b*c)")) == [(a, 1), (b, -1), (c, -1)]
    assert flatten_product(parse("a/(b/c)")) == [(a, 1), (b, -1), (c, 1)]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a*b + c", "z + x*y"),
        ("2*sin(a)/b", "3.5*sin(u)/v"),
        ("a - b*c", "-(x*y) + z"),
    ],
)
def test_structure_ignores_names_order_and_constants(one: str, two: str) -> None:
    assert structure_hash(parse(one)) == structure_hash(parse(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [("a*b + c", "a*b - c"), ("a/b", "a*b"), ("sin(a)", "cos(a)"), ("a*a", "a*b")],
)
def test_structure_tells_formulas_apart(one: str, two: str) -> None:
    assert structure_hash(parse(one)) != structure_hash(parse(two))


def test_hash_is_the_same_on_every_machine() -> None:
    assert f"{structure_hash(parse('a*sin(b + 1)')):016x}" == "ddcefabbd15cf739"


def test_benchmark_formulas_are_held_out() -> None:
    from sr4mdl.bench.problems import load_suite

    held_out = held_out_hashes()
    for suite in ("groundtruth", "classic"):
        for problem in load_suite(suite):
            if problem.formula is not None:
                expression = simplify(parse(problem.formula))
                assert structure_hash(expression) in held_out, problem.name


@pytest.mark.parametrize("distribution", ["default", "paper"])
def test_sampled_formulas_are_fit_to_train_on(
    distribution: formulas.Distribution,
) -> None:
    rng = random.Random(3)
    drawn = [formulas.sample_formula(rng, distribution) for _ in range(200)]
    again = random.Random(3)
    assert drawn == [formulas.sample_formula(again, distribution) for _ in range(200)]
    for formula in drawn:
        expression = formula.expression
        assert expression.variables <= set(
            formulas.VARIABLE_NAMES[: formula.n_variables]
        )
        assert expression.variables
        assert expression.length <= formulas.MAX_LENGTH
        assert simplify(expression) is expression
        assert structure_hash(expression) not in held_out_hashes()


def test_paper_formulas_have_the_papers_counts() -> None:
    rng = random.Random(1)
    drawn = [formulas.paper_formula(rng) for _ in range(400)]
    assert {formula.n_variables for formula in drawn} == set(range(1, 11))
    assert {formula.n_unary for formula in drawn} == set(range(5))
    for formula in drawn:
        assert 0 <= formula.n_binary <= formula.n_variables + 3
        # Kamienny's generator refuses formulas that do not use all variables.
        assert len(formula.expression.variables) == formula.n_variables
    # The published generator's labels have mean 27.6 (25 in the paper).
    assert 24 < np.mean([formula.expression.length for formula in drawn]) < 34


@pytest.mark.parametrize(
    ("constants", "median"), [("decades", 4.54), ("uniform", 50.0)]
)
def test_constants_of_paper_formulas(
    constants: formulas.PaperConstants, median: float
) -> None:
    """Below m lie a third, m/9.99 of a third and m/99.9 of a third: half for 4.54."""
    rng = random.Random(5)
    drawn = np.array([formulas.PAPER_CONSTANTS[constants](rng) for _ in range(4000)])
    assert np.all(drawn != 0.0)
    assert np.abs(drawn).max() <= 100.0
    assert abs(np.mean(np.sign(drawn))) < 0.06
    assert np.median(np.abs(drawn)) == pytest.approx(median, rel=0.1)


def test_formulas_have_the_constants_asked_for() -> None:
    """Most uniform constants are above 10; of three decades few are."""
    shares = []
    for constants in formulas.PAPER_CONSTANTS:
        rng = random.Random(6)
        drawn = [formulas.sample_formula(rng, "paper", constants) for _ in range(50)]
        sizes = [
            abs(node.value)
            for formula in drawn
            for node in formula.expression.prefix()
            if node.value is not None
        ]
        shares.append(np.mean(np.array(sizes) > 10.0))
    assert shares[0] < 0.5 < shares[1]


def test_counts_of_paper_formulas_can_be_given() -> None:
    rng = random.Random(2)
    for n_binary in (0, 4, 12):
        for _ in range(20):
            formula = formulas.paper_formula(rng, n_binary=n_binary, n_unary=1)
            assert (formula.n_binary, formula.n_unary) == (n_binary, 1)
            assert n_binary - 3 <= formula.n_variables <= n_binary + 1
    with pytest.raises(ValueError, match="n_binary must be at least 4 to join 5"):
        formulas.paper_formula(rng, n_variables=5, n_binary=3)
