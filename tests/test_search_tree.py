"""Hand-computed selection and back-up, and golden trees under fake guides.

``python tests/test_search_tree.py`` writes the golden files anew.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from search_fakes import hidden_formula_guide, state, table
from sr4mdl.mdlformer.guide import UniformGuide
from sr4mdl.search import SearchConfig, api
from sr4mdl.search.budget import Statistics
from sr4mdl.search.guided import GuidedSearch
from sr4mdl.search.plain import PlainSearch
from sr4mdl.search.state import State
from sr4mdl.search.tree import Edge, Node, Puct, Tree, Ucb
from sr4mdl.text import parse

GOLDEN = Path(__file__).parent / "golden"


def named(name: str) -> State:
    """Return a state that is told from others by its one column."""
    seed = sum(ord(letter) * 31**place for place, letter in enumerate(name))
    return state({name: np.random.default_rng(seed).uniform(1, 2, 4)}, [1, 2, 3, 5])


GRAPH = {
    ("r", 0): "a",
    ("r", 1): "b",
    ("r", 2): "not finite",
    ("a", 0): "c",
    ("b", 0): "c",
    ("c", 0): "r",
}


def step(one: State, code: int) -> State | str:
    target = GRAPH.get((str(one.columns[0].expression), code), "no move")
    return named(target) if len(target) == 1 else target


def make(rule: Any = Puct(1.41), backup: Any = "mean") -> Tree:  # noqa: B008
    return Tree(named("r"), step, rule, Statistics(), backup)


def rank(node: Node, *priors: float) -> None:
    node.rank(np.arange(len(priors)), np.array(priors))


def test_puct_by_hand() -> None:
    rule = Puct(1.41)
    # 0.5 + 1.41 * 0.2 * sqrt(9) / (2 + 1)
    assert rule.score(0.5, 0.2, 2, 9) == pytest.approx(0.5 + 0.282)
    # A move not tried yet counts as good as its parent.
    assert rule.fresh(0.3, 0.2, 9) == pytest.approx(0.3 + 1.41 * 0.2 * 3.0)


def test_the_papers_puct_by_hand() -> None:
    rule = Puct(1.41, optimistic=False)
    # Q/N = 0.7, MDL = 12, sum N = 16, N = 3: 0.7 + 1.41 / 12 * 4 / 4.
    assert rule.score(0.7, 1 / 12, 3, 16) == pytest.approx(0.7 + 1.41 / 12)
    assert rule.fresh(0.9, 1 / 12, 16) == pytest.approx(1.41 / 12 * 4.0)


def test_ucb_by_hand() -> None:
    # 0.6 + sqrt(ln 8 / 2)
    assert Ucb().score(0.6, 0.0, 2, 8) == pytest.approx(
        0.6 + math.sqrt(math.log(8) / 2)
    )
    assert Ucb().score(0.6, 0.0, 0, 8) == math.inf
    assert Ucb().fresh(0.6, 0.0, 8) == math.inf


def test_the_first_walk_ends_at_the_root() -> None:
    tree = make()
    path = tree.walk()
    assert path == [(tree.root, None)]


def test_moves_are_tried_in_order_of_their_prior() -> None:
    tree = make()
    rank(tree.root, 0.3, 0.6, 0.1)
    path = tree.walk()
    assert path is not None
    (first, edge), (leaf, end) = path
    assert (first, end) == (tree.root, None)
    assert edge is not None
    assert (edge.code, edge.prior) == (1, pytest.approx(0.6))
    assert str(leaf.state.columns[0].expression) == "b"


def test_ties_keep_the_order_of_codes() -> None:
    tree = make()
    rank(tree.root, 0.2, 0.2, 0.2)
    assert tree.root.codes is not None
    assert tree.root.codes.tolist() == [0, 1, 2]


def test_back_up_by_hand() -> None:
    tree = make()
    rank(tree.root, 0.5, 0.4)
    values = [0.2, 0.8, 0.3]
    for value in values[:2]:
        path = tree.walk()
        assert path is not None
        tree.back_up(path, value)
    a, b = (edge.child for edge in tree.root.edges)
    assert (a.visits, a.total, b.visits, b.total) == (1, 0.2, 1, 0.8)
    assert (tree.root.visits, tree.root.total, tree.root.best) == (2, 1.0, 0.8)
    assert tree.root.quality("mean") == 0.5
    assert tree.root.quality("max") == 0.8
    # Now a scores 0.2 + 1.41 * 0.5 * sqrt(2) / 2 = 0.70, b 0.8 + 0.40 = 1.20.
    rank(b, 1.0)
    path = tree.walk()
    assert path is not None
    tree.back_up(path, values[2])
    assert [edge.visits for edge in tree.root.edges] == [1, 2]
    assert (b.visits, b.total) == (2, pytest.approx(1.1))
    assert tree.root.total == pytest.approx(1.3)


def test_selection_weighs_visits_against_priors() -> None:
    tree = make()
    a, b = Node(named("a"), 1, 1), Node(named("b"), 2, 1)
    tree.root.edges = [Edge(0, 0.9, a, visits=8), Edge(1, 0.1, b, visits=1)]
    rank(tree.root)
    a.visits, a.total = 8, 4.0
    b.visits, b.total = 1, 0.6
    # a: 0.5 + 1.41 * 0.9 * 3 / 9 = 0.923; b: 0.6 + 1.41 * 0.1 * 3 / 2 = 0.8115.
    edge = tree.choose(tree.root, set())
    assert edge is not None
    assert edge.child is a
    # Three walks under way through a: Q falls to 4/11, and 9 becomes 12 visits:
    # 0.364 + 1.41 * 0.9 * 3.464 / 12 = 0.730 against 0.6 + 0.244.
    a.pending = 3
    edge = tree.choose(tree.root, set())
    assert edge is not None
    assert edge.child is b


def test_walks_under_way_count_as_nothing_found() -> None:
    node = Node(named("a"), 0, 0)
    node.visits, node.total, node.best = 2, 1.0, 0.7
    node.pending = 2
    assert node.quality("mean") == 0.25
    assert node.quality("max") == 0.35
    node.visits = node.pending = 0
    assert node.quality("mean") == 0.0


def test_equal_states_are_one_node() -> None:
    tree = make()
    rank(tree.root, 0.5, 0.5)
    for name in "ab":
        path = tree.walk()
        assert path is not None
        assert str(path[-1][0].state.columns[0].expression) == name
        rank(path[-1][0], 1.0)
        tree.back_up(path, 0.5)
    first, second = tree.walk(), None
    assert first is not None
    tree.back_up(first, 0.1)
    second = tree.walk()
    assert second is not None
    assert first[1][0] is not second[1][0]
    assert first[-1][0] is second[-1][0]
    assert str(first[-1][0].state.columns[0].expression) == "c"
    assert tree.statistics.n_nodes == len(tree.nodes) == 4


def test_moves_that_lead_nowhere_are_counted_and_skipped() -> None:
    tree = make()
    rank(tree.root, 0.2, 0.1, 0.9)
    path = tree.walk()
    assert path is not None
    assert str(path[-1][0].state.columns[0].expression) == "a"
    assert tree.statistics.rejects == {"not finite": 1}


def test_circles_are_not_walked_and_dead_ends_are_left() -> None:
    tree = make()
    rank(tree.root, 0.9, 0.1)
    for name in ["a", "c"]:
        path = tree.walk()
        assert path is not None
        leaf = path[-1][0]
        assert str(leaf.state.columns[0].expression) == name
        rank(leaf, 1.0)
        tree.back_up(path, 0.9)
    # c leads back to the root only, so a is spent too, and b is what is left.
    path = tree.walk()
    assert path is not None
    assert str(path[-1][0].state.columns[0].expression) == "b"
    assert tree.statistics.rejects["cycle"] == 1
    rank(path[-1][0], 1.0)
    assert tree.walk() is None


def test_two_moves_to_one_child_are_one_edge() -> None:
    tree = Tree(named("r"), lambda one, code: named("a"), Ucb(), Statistics())
    rank(tree.root, 0.5, 0.5)
    path = tree.walk()
    assert path is not None
    tree.back_up(path, 0.5)
    path = tree.walk()
    assert path is not None
    assert len(tree.root.edges) == 1
    assert tree.statistics.rejects == {"same child": 1}


def test_memory_is_given_back_and_rankings_can_be_made_again() -> None:
    tree = make()
    rank(tree.root, 0.5, 0.4)
    for _ in range(2):
        path = tree.walk()
        assert path is not None
        rank(path[-1][0], 1.0)
        tree.back_up(path, 0.5)
    first, second = (edge.child for edge in tree.root.edges)
    first.visits = 5
    tree.forget_least_visited(2)
    assert tree.root.ranked
    assert first.ranked
    assert not second.ranked
    rank(tree.root, 0.5, 0.4)
    # What has been tried is not offered twice.
    assert tree.root.codes is not None
    assert len(tree.root.codes) == 0
    assert len(tree.root.edges) == 2


def dump(node: Node) -> dict[str, Any]:
    return {
        "state": str(node.state),
        "visits": node.visits,
        "total": round(node.total, 9),
        "edges": [
            [edge.code, round(edge.prior, 6), edge.visits, str(edge.child.state)]
            for edge in node.edges
        ],
    }


def grow_tree(kind: str) -> list[dict[str, Any]]:
    """Return the nodes of a small search with linear closing, in order."""
    data = table(lambda a, b: a * b + np.sin(b), 2, n_rows=40)
    guide: Any = hidden_formula_guide(parse("x0*x1 + sin(x1)"), data.X, data.names)
    if kind == "uniform":
        guide = UniformGuide()
    config = SearchConfig(
        mode="mdl" if kind == "mdl" else "policy",
        max_time=None,
        max_nodes=40 if kind != "mdl" else 12,
        batch_size=4,
        n_quick=2,
        early_stop=False,
        operators=("add", "mul", "sin", "square"),
        n_playouts=2,
        playout_depth=2,
        families="linear",
    )
    run = api._Run(data, config, guide, None)
    trees: list[Tree] = []
    search: type[GuidedSearch] | type[PlainSearch]
    search = PlainSearch if kind == "mdl" else GuidedSearch
    original = search.run

    def remember(self: Any) -> Any:
        trees.append(self.tree)
        return original(self)

    search.run = remember  # type: ignore[method-assign]
    try:
        run.run()
    finally:
        search.run = original  # type: ignore[method-assign]
    return [dump(node) for node in trees[0].nodes.values() if node.visits]


@pytest.mark.parametrize("kind", ["policy", "uniform", "mdl"])
def test_golden_trees(kind: str) -> None:
    grown = grow_tree(kind)
    expected = json.loads((GOLDEN / f"search_{kind}.json").read_text())
    assert json.loads(json.dumps(grown)) == expected


def test_the_golden_policy_tree_goes_straight_to_the_formula() -> None:
    # What the files hold must make sense, not only stay the same.
    expected = json.loads((GOLDEN / "search_policy.json").read_text())
    root = expected[0]
    most = max(root["edges"], key=lambda edge: edge[2])
    assert most[3] in ("{x0, x1, x0*x1} -> y", "{x0, x1, sin(x1)} -> y")
    assert sum(edge[2] for edge in root["edges"]) == root["visits"] - 1


if __name__ == "__main__":
    for name in ("policy", "uniform", "mdl"):
        text = json.dumps(grow_tree(name), indent=1)
        (GOLDEN / f"search_{name}.json").write_text(text + "\n")
        sys.stdout.write(f"{name}: {len(text)} characters\n")
