"""Pursuit against brute force."""

import numpy as np
import pytest

from pursuit_data import N_MEMBERS, N_ROWS, brute_force_error, draw_members
from sr4mdl.closing.pursuit import (
    Dictionary,
    Found,
    PursuitSettings,
    Regression,
    pursue,
)


@pytest.fixture
def data():
    return draw_members()


def test_one_member_is_the_best_of_all(data):
    rng, values, weights, dictionary = data
    target = rng.normal(size=N_ROWS)
    regression = Regression(target, weights, np.ones((1, N_ROWS)))
    found, n_scored = pursue([regression], dictionary, PursuitSettings(max_terms=1))
    assert n_scored == N_MEMBERS
    best = min(found, key=lambda one: one.error)
    errors = [
        brute_force_error(values, target, weights, (m,)) for m in range(N_MEMBERS)
    ]
    assert best.members == (int(np.argmin(errors)),)
    assert best.error == pytest.approx(min(errors), rel=1e-9)
    (empty,) = [one for one in found if not one.members]
    assert empty.error == pytest.approx(
        brute_force_error(values, target, weights, ()), rel=1e-9
    )


def test_a_sum_is_found_and_its_error_is_exact(data):
    _, values, weights, dictionary = data
    target = 2.0 * values[3] - 0.5 * values[7] + values[9] + 4.0
    regression = Regression(target, weights, np.ones((1, N_ROWS)))
    found, _ = pursue([regression], dictionary, PursuitSettings(max_terms=3))
    assert sorted(found[0].members) == [3, 7, 9]
    assert found[0].error < 1e-20


def test_the_best_states_go_on_while_that_helps(data):
    rng, values, weights, dictionary = data
    target = values[[1, 3, 4, 7, 9]].sum(0)
    regression = Regression(target, weights, np.ones((1, N_ROWS)))
    short = PursuitSettings(max_terms=2)
    assert (
        max(len(one.members) for one in pursue([regression], dictionary, short)[0]) == 2
    )
    settings = PursuitSettings(max_terms=2, max_tail=8)
    found, _ = pursue([regression], dictionary, settings)
    exact = [one for one in found if sorted(one.members) == [1, 3, 4, 7, 9]]
    assert exact[0].error < 1e-20
    # Of noise every member takes a little: nobody goes on.
    noise = Regression(rng.normal(size=N_ROWS), weights, np.ones((1, N_ROWS)))
    found, _ = pursue([noise], dictionary, settings)
    assert max(len(one.members) for one in found) == 2


def test_forced_columns_are_always_in(data):
    _, values, weights, dictionary = data
    extra = np.linspace(0.0, 1.0, N_ROWS)
    target = 5.0 * extra + 2.0 * values[4] + 1.0
    forced = np.array([np.ones(N_ROWS), extra])
    found, _ = pursue(
        [Regression(target, weights, forced)], dictionary, PursuitSettings(max_terms=1)
    )
    assert found[0].members == (4,)
    assert found[0].error < 1e-20


def test_targets_do_not_mix(data):
    _, values, weights, dictionary = data
    ones = np.ones((1, N_ROWS))
    regressions = [
        Regression(values[2] * 3.0, weights, ones),
        Regression(values[5] - 1.0, np.ones(N_ROWS), ones),
    ]
    found, _ = pursue(regressions, dictionary, PursuitSettings(max_terms=1))
    best = {
        number: min(
            (one for one in found if one.regression == number),
            key=lambda one: one.error,
        ).members
        for number in (0, 1)
    }
    assert best == {0: (2,), 1: (5,)}


def test_of_equal_members_the_cheaper_wins():
    rng = np.random.default_rng(0)
    column = rng.normal(size=N_ROWS)
    dictionary = Dictionary(
        np.array([column, 2.0 * column, column + 7.0]), np.array([30.0, 5.0, 30.0])
    )
    regression = Regression(3.0 * column, np.ones(N_ROWS), np.ones((1, N_ROWS)))
    settings = PursuitSettings(max_terms=1, branch=1)
    found, _ = pursue([regression], dictionary, settings)
    assert [one.members for one in found if one.members] == [(1,)]


def test_a_seed_joins_the_beam(data):
    _, values, weights, dictionary = data
    target = values[1] + values[2] + values[3]
    regression = Regression(target, weights, np.ones((1, N_ROWS)))
    narrow = PursuitSettings(max_terms=3, beam=1, per_regression=1, branch=1)
    seed = Found(0, (1, 3), 0.0)
    found, _ = pursue([regression], dictionary, narrow, seeds=[seed])
    assert sorted(found[0].members) == [1, 2, 3]


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scales(data, scale):
    _, values, weights, dictionary = data
    regression = Regression(scale * values[6], weights, np.ones((1, N_ROWS)))
    found, _ = pursue([regression], dictionary, PursuitSettings(max_terms=1))
    assert found[0].members == (6,)


def test_a_passed_deadline_stops_the_search(data):
    _, values, weights, dictionary = data
    regression = Regression(values[0], weights, np.ones((1, N_ROWS)))
    found, n_scored = pursue([regression], dictionary, PursuitSettings(), deadline=0.0)
    assert n_scored == 0
    assert [one.members for one in found] == [()]
