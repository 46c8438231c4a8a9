"""Pairs and triples that explain a target only together: all are scored."""

import itertools

import numpy as np
import pytest

from pursuit_data import N_MEMBERS, N_ROWS, brute_force_error, draw_members
from sr4mdl.closing.groups import Subset, explaining_together
from sr4mdl.closing.pursuit import Dictionary, PursuitSettings, Regression, pursue


@pytest.fixture
def data():
    return draw_members()


def errors_of_all(values, target, weights, size):
    return {
        members: brute_force_error(values, target, weights, members)
        for members in itertools.combinations(range(len(values)), size)
    }


def regression_on(target, weights):
    return Regression(target, weights, np.ones((1, N_ROWS)))


def assert_best(found, errors):
    expected = sorted(errors, key=errors.get)[: len(found)]
    assert [tuple(sorted(one.members)) for one in found] == expected
    for one in found:
        assert one.error == pytest.approx(errors[tuple(sorted(one.members))], rel=1e-7)


def test_all_pairs_match_brute_force(data):
    rng, values, weights, dictionary = data
    target = rng.normal(size=N_ROWS)
    found, n_scored = explaining_together(
        regression_on(target, weights), 0, dictionary, np.arange(N_MEMBERS), n_pairs=3
    )
    assert n_scored == N_MEMBERS * (N_MEMBERS - 1) // 2
    assert_best(found, errors_of_all(values, target, weights, 2))


def test_all_triples_match_brute_force(data):
    rng, values, weights, dictionary = data
    target = rng.normal(size=N_ROWS)
    subset = Subset.of(
        regression_on(target, weights), 7, dictionary, np.arange(N_MEMBERS)
    )
    found, n_scored = subset.triples(5, N_MEMBERS)
    # Each triple once, whichever of its members comes first.
    assert n_scored == 220
    assert {one.regression for one in found} == {7}
    assert_best(found, errors_of_all(values, target, weights, 3))


def test_triples_hold_one_of_the_first(data):
    _, values, weights, dictionary = data
    target = 9.0 * values[4] + values[7] - values[8]
    subset = Subset.of(
        regression_on(target, weights), 0, dictionary, np.arange(N_MEMBERS)
    )
    found, n_scored = subset.triples(100, 1)
    assert n_scored == 11 * 10 // 2
    assert len(found) == n_scored
    assert all(one.members[0] == 4 for one in found)
    assert sorted(found[0].members) == [4, 7, 8]
    assert found[0].error == pytest.approx(0.0, abs=1e-8)


def test_of_equal_members_the_cheapest_and_each_pair_adds_something(data):
    _, values, weights, _ = data
    twice = np.concatenate([values, 2.0 * values[[2]]])
    bits = np.ones(N_MEMBERS + 1)
    bits[2] = 50.0
    target = values[2] + values[5]
    found, _ = explaining_together(
        regression_on(target, weights),
        0,
        Dictionary(twice, bits),
        np.arange(N_MEMBERS + 1),
        n_pairs=200,
    )
    assert found[0].members == (5, 12)
    assert (2, 12) not in [one.members for one in found]


def test_a_triple_that_no_member_hints_at_is_found():
    """The sum of three, each hidden by the others: greedy steps look elsewhere."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(2, N_ROWS))
    parts = rng.normal(size=(3, N_ROWS))
    hidden = np.array(
        [parts[0] + 9 * shared[0], parts[1] - 9 * shared[0] + 9 * shared[1],
         parts[2] - 9 * shared[1]]
    )  # fmt: skip
    target = hidden.sum(axis=0)
    values = np.concatenate([target + rng.normal(size=(40, N_ROWS)), hidden])
    dictionary = Dictionary(values, np.ones(len(values)))
    regression = regression_on(target, np.ones(N_ROWS))
    settings = PursuitSettings(max_terms=3, beam=10, per_regression=10, branch=4)
    alone, _ = pursue([regression], dictionary, settings)
    assert alone[0].error > 1e-3
    seeds, _ = explaining_together(
        regression,
        0,
        dictionary,
        np.arange(len(values)),
        n_pairs=5,
        n_first=len(values),
    )
    found, _ = pursue([regression], dictionary, settings, seeds=seeds)
    assert sorted(found[0].members) == [40, 41, 42]
    assert found[0].error < 1e-18
