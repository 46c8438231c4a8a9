"""A sine and a cosine of one angle are one wave."""

import math

import numpy as np
import pytest

from sr4mdl.closing import ClosingProblem, close_state
from sr4mdl.closing.drafts import write_sum
from sr4mdl.closing.waves import amplitude_and_phase, merged_waves, within_half_turn
from sr4mdl.evaluate import evaluate_one
from sr4mdl.text import parse


def test_amplitude_and_phase_by_hand() -> None:
    """3, 4 and 5; a wave turned by half has the other sign."""
    assert amplitude_and_phase(3.0, 4.0) == pytest.approx((5.0, math.atan2(4.0, 3.0)))
    assert amplitude_and_phase(-3.0, -4.0) == pytest.approx(
        (-5.0, math.atan2(4.0, 3.0))
    )
    assert amplitude_and_phase(-2.0, 0.0) == pytest.approx((-2.0, 0.0))
    assert within_half_turn(1.0, 2.0 * math.pi + 0.25) == pytest.approx((1.0, 0.25))
    assert within_half_turn(1.0, math.pi - 0.25) == pytest.approx((-1.0, -0.25))


@pytest.mark.parametrize("cosine", [-2.0, 0.5, 3.0])
@pytest.mark.parametrize("sine", [-1.5, 0.7])
@pytest.mark.parametrize("factor", ["", "b*"])
def test_both_forms_have_the_same_values(
    cosine: float, sine: float, factor: str
) -> None:
    terms = [
        (2.0, parse("a")),
        (cosine, parse(f"{factor}cos(a*b)")),
        (sine, parse(f"{factor}sin(a*b)")),
    ]
    X = np.random.default_rng(0).uniform(0.5, 3.0, (20, 2))
    plain, *ways = write_sum(0.25, terms)
    expected = evaluate_one(plain, X, ("a", "b"))
    assert sum(str(way).count("cos") + str(way).count("sin") == 1 for way in ways) >= 2
    for way in ways:
        np.testing.assert_allclose(evaluate_one(way, X, ("a", "b")), expected)


def test_other_angles_and_factors_stay_apart() -> None:
    for first, second in [
        ("cos(a)", "sin(b)"),
        ("b*cos(a)", "sin(a)"),
        ("cos(a)", "tan(a)"),
        ("cos(a)", "cos(a)"),
    ]:
        assert merged_waves([(1.0, parse(first)), (2.0, parse(second))]) == []


def test_the_wave_with_plain_numbers_is_chosen() -> None:
    X = np.random.default_rng(1).uniform(-3.0, 3.0, (200, 2))
    a, b = X.T
    y = 1.35 * a * b + 5.5 * np.sin(a - b + 1.0)
    best = close_state(ClosingProblem.root(X, y, ("a", "b"))).candidates[0]
    assert best.r2 == 1.0
    values = [node.value for node in best.expression.prefix()]
    assert {abs(value) for value in values if value is not None} == {1.35, 5.5, 1.0}
