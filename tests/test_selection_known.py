"""Known values: what naming them costs, and that they reach the answer."""

import numpy as np
import pytest

from sr4mdl.data import Dataset
from sr4mdl.search import SearchConfig, search
from sr4mdl.selection.bits import constant_bits
from sr4mdl.selection.known import KnownValues
from sr4mdl.selection.snapping import snap_constants
from sr4mdl.text import parse

GRAVITY = 9.80665
CHARGE = 1.602176634e-19


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (GRAVITY, 8.0 + 1.0 + 1.0),  # a name, one of two, first power
        (-GRAVITY, 8.0 + 1.0 + 1.0 + 1.0),  # a sign
        (1.0 / GRAVITY, 8.0 + 1.0 + 2.0),
        (CHARGE**2, 8.0 + 1.0 + 3.0),
        (CHARGE**0.5, 8.0 + 1.0 + 4.0),
        # A rational has a prefix of 3 bits and 2 + 2*log2(1*2).
        (GRAVITY / 2.0, 8.0 + 1.0 + 1.0 + 3.0 + 4.0),
    ],
)
def test_bits_of_named_numbers_by_hand(value: float, bits: float) -> None:
    assert KnownValues((GRAVITY, CHARGE)).bits(value) == pytest.approx(bits)


def test_other_numbers_cost_what_they_did() -> None:
    known = KnownValues((GRAVITY, 0.0, float("inf")))
    for value in (0.0, 2.0, -1.0 / 3.0, 9.81, 1e200, 9.80666):
        assert known.bits(value) == constant_bits(value)
        assert KnownValues().bits(value) == constant_bits(value)


def test_the_saving_counts_every_occurrence() -> None:
    known = KnownValues((GRAVITY,))
    saved = constant_bits(GRAVITY) - 9.0
    assert known.saving(parse("9.80665*x + y/9.80665")) == pytest.approx(2.0 * saved)
    assert known.saving(parse("9.81*x + 2")) == 0.0
    assert KnownValues().saving(parse("9.80665*x")) == 0.0


def free_fall(share: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    t = rng.uniform(1.0, 3.0, (300, 1))
    y = share * GRAVITY * t[:, 0] ** 2
    return t, y * (1.0 + noise * rng.standard_normal(300))


def test_a_constant_within_its_uncertainty_becomes_the_known_value() -> None:
    t, y = free_fall(0.5, 1e-3)
    inputs = {parse("t"): t[:, 0]}
    start = parse("4.9*t^2")
    plain = snap_constants(start, inputs, y, 1)
    named = snap_constants(start, inputs, y, 1, known=KnownValues((GRAVITY,)))
    assert plain is not None
    assert named is not None
    assert str(named.expression) == "4.903325*t^2"
    assert str(plain.expression) != str(named.expression)
    assert named.bits < plain.bits
    # A value that is too far off is not taken.
    other = snap_constants(start, inputs, y, 1, known=KnownValues((GRAVITY * 1.01,)))
    assert other is not None
    assert other.expression is plain.expression


def test_known_values_reach_the_answer_of_a_search() -> None:
    t, y = free_fall(1.0, 1e-3)
    data = Dataset.from_arrays(t, y, ["t"])
    settings = {"mode": "uniform", "max_time": 20.0, "max_evaluations": 20}
    named = search(data, SearchConfig(**settings, physical_constants=(GRAVITY,)))
    assert str(named.best.expression) == "9.80665*t^2"
    plain = search(data, SearchConfig(**settings))
    assert "9.80665" not in str(plain.best.expression)
