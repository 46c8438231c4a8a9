import numpy as np
import pytest

from sr4mdl.corpus.trees import random_expression
from sr4mdl.operators import all_operators, get_operator


@pytest.mark.parametrize("length", [1, 2, 3, 7, 20, 50])
def test_length_is_exact(length: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert random_expression(rng, length).length == length


def test_same_seed_gives_the_same_formulas() -> None:
    first, second = np.random.default_rng(7), np.random.default_rng(7)
    for length in range(1, 30):
        assert random_expression(first, length) is random_expression(second, length)


def test_every_builtin_operator_is_reached() -> None:
    rng = np.random.default_rng(0)
    seen = {
        node.operator.name
        for _ in range(200)
        for node in random_expression(rng, 20).prefix()
        if node.operator is not None
    }
    assert seen == {operator.name for operator in all_operators() if operator.builtin}


def test_variables_and_operators_can_be_chosen() -> None:
    rng = np.random.default_rng(0)
    operators = [get_operator("add"), get_operator("sin")]
    for _ in range(50):
        formula = random_expression(rng, 9, ("a", "b"), operators=operators)
        assert formula.variables <= {"a", "b"}
        used = {node.operator for node in formula.prefix()} - {None}
        assert used <= set(operators)


@pytest.mark.parametrize(("rate", "share"), [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0)])
def test_constant_rate_is_the_share_of_constants(rate: float, share: float) -> None:
    rng = np.random.default_rng(0)
    leaves = [
        node.is_constant
        for _ in range(300)
        for node in random_expression(rng, 20, constant_rate=rate).prefix()
        if node.operator is None
    ]
    assert np.mean(leaves) == pytest.approx(share, abs=0.03)


def test_length_is_checked() -> None:
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        random_expression(np.random.default_rng(0), 0)
