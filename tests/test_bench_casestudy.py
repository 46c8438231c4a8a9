"""Case studies: estimates of the states that moves lead to."""

import json

import numpy as np
import pytest

from sr4mdl import moves
from sr4mdl.bench import casestudy, guidance
from sr4mdl.bench.children import ChildFinder, estimate
from sr4mdl.bench.problems import find_problem, select_problems
from sr4mdl.bench.suite_command import BenchOptionError
from sr4mdl.cli import main
from sr4mdl.mdlformer.guide import GuideOutput


class NearGuide:
    """Says 1 if a column is the target up to a factor, else 7; prefers products."""

    def score(self, columns, column_counts, targets, row_mask=None):
        values = np.empty(len(targets))
        for place, count in enumerate(column_counts):
            with np.errstate(divide="ignore"):
                ratio = columns[place, :, :count] / targets[place][:, None]
            values[place] = 1.0 if (np.ptp(ratio, axis=0) < 1e-9).any() else 7.0
        policy = np.full((len(targets), moves.N_MOVES), -9.0)
        policy[:, moves.pair_move_id(2, 0, 1)] = 0.0
        return GuideOutput(values, np.full(len(targets), 0.5), policy)


class FlatGuide:
    """Says the same of every state."""

    def score(self, columns, column_counts, targets, row_mask=None):
        n = len(targets)
        return GuideOutput(np.full(n, 3.0), np.ones(n), np.zeros((n, moves.N_MOVES)))


def table_of(problem, n_rows=40):
    rng = np.random.default_rng(0)
    low = [one.low for one in problem.variables]
    high = [one.high for one in problem.variables]
    return rng.uniform(low, high, (n_rows, len(low)))


def test_children_are_what_the_search_would_make():
    x = np.array([1.0, 2.0, 3.0, 5.0])
    z = np.array([2.0, 1.0, 4.0, 3.0])
    finder = ChildFinder(x * z)
    state = finder.state(np.column_stack([x, z]))
    codes, children = finder.children(state)
    product = list(codes).index(moves.pair_move_id(2, 0, 1))
    child = children[product]
    assert str(child) == "{c0, c1, c0*c1} -> y"
    np.testing.assert_array_equal(child.columns[2].values, x * z)
    # abs leaves a positive column as it is; log(3 - ...) is no move; arcsin of 2 is
    # undefined.
    assert moves.column_move_id(0, 5) not in codes
    assert moves.column_move_id(0, 11) not in codes
    assert len(set(codes.tolist())) == len(codes) == len(children)


def test_estimates_average_over_draws_of_rows():
    class Mean:
        def score(self, columns, column_counts, targets, row_mask=None):
            value = targets.mean(axis=1)
            policy = np.zeros((len(targets), moves.N_MOVES))
            return GuideOutput(value, 2 * value, policy)

    target = np.array([1.0, 2.0, 6.0])
    finder = ChildFinder(target)
    state = finder.state(np.array([[1.0], [4.0], [9.0]]))
    found = estimate(Mean(), [state, state], [np.array([0, 1]), np.array([2])])
    # Means of the draws are 1.5 and 6.
    np.testing.assert_allclose(found.mean, [3.75, 3.75])
    np.testing.assert_allclose(found.spread, [7.5, 7.5])


def test_a_product_of_two_by_hand():
    problem = find_problem("groundtruth", "feynman_I_12_1")
    draws = [np.arange(20)]
    first, last = casestudy.study(problem, NearGuide(), table_of(problem), draws)
    assert sorted(first.columns) == ["Nn", "mu"]
    assert (first.missing, first.estimate, first.spread) == (3.0, 7.0, 0.5)
    assert first.move in ("mu*Nn", "Nn*mu")
    assert (first.right, first.right_spread) == (1.0, 0.5)
    assert set(first.wrong) == {7.0}
    assert first.share_at_or_below == 0.0
    assert first.share_by_policy == 0.0
    assert last.move is None
    assert last.right is None
    assert last.estimate == 1.0


def test_ties_count_as_wrong_turns():
    problem = find_problem("groundtruth", "feynman_I_12_1")
    first, _ = casestudy.study(problem, FlatGuide(), table_of(problem), [np.arange(20)])
    assert first.share_at_or_below == 1.0
    assert first.share_by_policy == 1.0


@pytest.mark.parametrize("name", casestudy.CASES)
def test_derivations_of_the_cases_leave_the_target_alone(name):
    arrays = casestudy.derive(find_problem("groundtruth", name))
    assert len(set(arrays.target.tolist())) == 1
    assert (np.diff(arrays.value) < 0).all()
    assert arrays.step.tolist() == list(range(len(arrays.value)))


def test_command_writes_its_document(tmp_path, capsys):
    output = tmp_path / "deep" / "case.json"
    words = ["bench", "casestudy", "--problems", "feynman_I_12_1", "--draws", "1"]
    assert main([*words, "--output", str(output), "--json"]) == 0
    document = json.loads(output.read_text())
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == document
    assert document["bench"] == "casestudy"
    (case,) = document["cases"]
    assert case["problem"] == "feynman_I_12_1"
    # The shipped network sees that the product is the whole formula.
    assert case["steps"][0]["right"] < 1.5
    assert case["steps"][0]["share_at_or_below"] < 0.1


def test_wrong_options_are_refused():
    run = casestudy.run
    from argparse import ArgumentParser

    parser = ArgumentParser()
    casestudy.add_arguments(parser)
    with pytest.raises(BenchOptionError, match="--draws"):
        run(parser.parse_args(["--draws", "0"]))
    with pytest.raises(BenchOptionError, match="--rows: must be from 2 to 300"):
        run(parser.parse_args(["--rows", "1000"]))
    with pytest.raises(BenchOptionError, match="--problems"):
        run(parser.parse_args(["--problems", "feynman_0"]))


def test_moves_ranked_by_value():
    problems = select_problems("groundtruth", ["feynman_I_12_1"])
    states = guidance.collect_states(problems, n_rows=16, n_walks=1)
    best = guidance.measure_by_value(states, NearGuide(), 100)
    assert best["all"]["top1"] == 1.0
    blind = guidance.measure_by_value(states, FlatGuide(), 1)
    assert blind["all"]["n_states"] == 1
    assert blind["all"]["top1"] == pytest.approx(blind["all"]["by_chance"])
    assert 0 < blind["all"]["by_chance"] < 0.2
