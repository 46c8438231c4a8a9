import numpy as np
import pytest

from search_fakes import state, table
from sr4mdl import moves
from sr4mdl.mdlformer.guide import FakeGuide
from sr4mdl.search import SearchConfig, api
from sr4mdl.search.actions import ActionTable
from sr4mdl.search.gp import Breeder, scaled_rewards
from sr4mdl.search.guided import GuideCaller
from sr4mdl.search.linear import LinearMap, fit_linear
from sr4mdl.search.plain import ETA, PlainSearch, linear_reward
from sr4mdl.search.tree import Node
from sr4mdl.selection.limits import Limits
from sr4mdl.text import parse


def test_the_reward_of_a_linear_law_by_hand() -> None:
    one = state({"a": [1.0, 2.0, 4.0], "b^2": [1.0, 0.0, 9.0]}, [7.0, 7.0, 25.0])
    # y = 2 a + ... is fitted by 2 columns and an intercept on 3 rows: R2 = 1.
    # Length: 1 intercept, a (1 + 3), b^2 (2 + 3).
    assert linear_reward(one.columns, one.target.values) == pytest.approx(ETA**10)


def test_the_reward_of_an_unrelated_column_by_hand() -> None:
    one = state({"a": [1.0, -1.0, 1.0, -1.0]}, [1.0, 1.0, -1.0, -1.0])
    # R2 = 0, so 2 - R2 = 2; length 1 + 1 + 3.
    assert linear_reward(one.columns, one.target.values) == pytest.approx(ETA**5 / 2)


def test_the_reward_of_half_the_variance_by_hand() -> None:
    # y = a + b with a, b orthogonal and of equal size: R2 of a alone is 1/2.
    one = state({"a": [1.0, -1.0, 1.0, -1.0]}, [2.0, 0.0, 0.0, -2.0])
    assert linear_reward(one.columns, one.target.values) == pytest.approx(ETA**5 / 1.5)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_rewards_do_not_depend_on_scale(scale: float) -> None:
    values = np.array([1.0, -1.0, 1.5, -1.0]), np.array([2.0, 0.0, 0.0, -2.0])
    plain = state({"a": values[0]}, values[1])
    other = state({"a": values[0] * scale}, values[1] / scale)
    assert linear_reward(other.columns, other.target.values) == pytest.approx(
        linear_reward(plain.columns, plain.target.values)
    )


def test_mdl_ranks_children_by_what_the_guide_says_of_them() -> None:
    data = table(lambda a, b: a * b, 2, n_rows=20)
    product = (data.X[:, 0] * data.X[:, 1]).astype(np.float32)

    def answer(
        columns: np.ndarray, target: np.ndarray
    ) -> tuple[float, dict[int, float]]:
        solved = any(
            np.allclose(columns[:, number], product)
            for number in range(columns.shape[1])
        )
        return (0.2 if solved else 8.0), {}

    guide = FakeGuide(answer)
    config = SearchConfig(mode="mdl", max_time=None, operators=("mul", "add", "sin"))
    run = api._Run(data, config, guide, None)
    root, _, _ = run.root(run.eligible())
    actions = ActionTable(
        run.columns, root.columns, operators=config.operators, paper=True
    )
    plain = PlainSearch(
        root, actions, GuideCaller(guide, run.data, run.budget), run.readout,
        run.stopper, run.reporter, SearchConfig(early_stop=False), run.rng,
    )  # fmt: skip
    plain.stopper.early = False
    node = Node(root, 0, 0)
    plain.expand(node)
    assert node.codes is not None
    assert node.priors is not None
    # An MDL below one symbol counts as one; all other children have prior 1/8.
    assert node.priors[0] == pytest.approx(1.0)
    assert node.priors[1:] == pytest.approx(np.full(len(node.priors) - 1, 0.125))
    assert int(node.codes[0]) % actions.n_base == moves.pair_move_id(2, 0, 1)
    # All children are scored, equal ones once, and those that lead nowhere not.
    # 2 x (sin, +1, +2, *2, *3, *pi), one sum, one product.
    assert guide.n_scored == len(node.codes) == 14


def test_genetic_rewards_by_hand() -> None:
    y = np.array([2.0, 0.0, 0.0, -2.0])
    values = np.array(
        [
            [5.0, 1.0, 1.0, -3.0],  # 2 y + 1: R2 = 1
            [1.0, -1.0, 1.0, -1.0],  # R2 = 1/2
            [3.0, 3.0, 3.0, 3.0],  # constant
            [1.0, np.nan, 1.0, 1.0],
            [1.0, np.inf, 1.0, 1.0],
        ]
    )
    rewards = scaled_rewards(values, y, [3, 1, 1, 1, 1])
    assert rewards[:2] == pytest.approx([ETA**3, ETA / 1.5])
    assert rewards[2:].tolist() == [0.0, 0.0, 0.0]


def breeder(operators: frozenset[str] | None = None, max_length: int = 9) -> Breeder:
    return Breeder(
        [parse("a"), parse("b")],
        Limits(operators),
        max_length,
        np.random.default_rng(0),
    )


def test_parts_are_grafted_unless_the_result_is_too_long() -> None:
    one = breeder(max_length=5)
    whole = parse("a + sin(b)")
    assert one.graft(whole, parse("b"), parse("a")) == parse("a + sin(a)")
    assert one.graft(whole, parse("sin(b)"), parse("a*b")) == parse("a + a*b")
    assert one.graft(whole, parse("b"), parse("a*b")) == whole


def test_individuals_stay_within_length_and_operators() -> None:
    allowed = frozenset({"add", "mul", "sin"})
    one = breeder(allowed)
    population = [one.grow(3) for _ in range(50)]
    for _ in range(300):
        pick = one.rng.integers(len(population), size=2)
        child = one.vary(population[pick[0]], population[pick[1]])
        assert child.length <= max(9, population[pick[0]].length)
        assert {
            node.operator.name
            for node in child.subexpressions()
            if node.operator is not None
        } <= allowed
        assert child.variables <= {"a", "b"}


def test_shaking_changes_constants_only() -> None:
    shaken = breeder().shake(parse("2*a + 3"))
    assert shaken.variables == {"a"}
    assert shaken.length == 5
    assert shaken != parse("2*a + 3")


def test_the_linear_map_by_hand() -> None:
    # y = 3 + 2 a - b, exactly.
    columns = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 5.0], [4.0, 2.0]])
    fitted = fit_linear(columns, 3.0 + 2.0 * columns[:, 0] - columns[:, 1])
    assert fitted.intercept == pytest.approx(3.0)
    assert fitted.coefficients == pytest.approx([2.0, -1.0])
    assert fitted.r2 == pytest.approx(1.0)
    assert fitted.values == pytest.approx([5.0, 6.0, 4.0, 9.0])


def test_terms_that_do_nothing_are_not_written() -> None:
    fitted = LinearMap(1e-20, np.array([2.0, 1e-30, -1.0]), np.zeros(3), 1.0)
    expressions = [parse("a"), parse("b"), parse("c")]
    assert fitted.write(expressions, np.array([1.0, 1.0, 1.0])) == parse("2*a - c")
    # A small coefficient of a large column is a term like others.
    large = fitted.write(expressions, np.array([1.0, 1e31, 1.0]))
    assert large.variables == {"a", "b", "c"}
