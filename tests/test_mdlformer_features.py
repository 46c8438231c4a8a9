"""Features: hand-computed values, masks, and no overflow anywhere."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from sr4mdl.mdlformer.features import (  # noqa: E402
    FEATURE_NAMES,
    N_FEATURES,
    clean_values,
    column_statistics,
    standardise,
    standardised_target,
    target_log_scale,
    value_features,
)


def features_of(columns, target, row_mask=None):
    """Features (R, C) of one state by name."""
    values = torch.tensor(columns, dtype=torch.float32).T[None]
    y = torch.tensor(target, dtype=torch.float32)[None, :, None]
    mask = torch.ones(1, y.shape[1], dtype=torch.bool)
    if row_mask is not None:
        mask = torch.tensor([row_mask])
    clean_y = clean_values(y, mask)
    scale = target_log_scale(column_statistics(clean_y, mask))
    clean = clean_values(values, mask)
    result = value_features(clean, column_statistics(clean, mask), mask, scale)
    assert result.shape == (1, values.shape[1], values.shape[2], N_FEATURES)
    return {name: result[0, :, :, i] for i, name in enumerate(FEATURE_NAMES)}


def test_hand_computed_values():
    # Column 1, -1, 0, 100: mean 25, deviation sqrt(mean square - 625).
    got = features_of([[1.0, -1.0, 0.0, 100.0]], [3.0, 4.0, 3.0, 4.0])
    column = {name: values[:, 0].tolist() for name, values in got.items()}
    deviation = math.sqrt(10002 / 4 - 625)
    assert column["sign"] == [1, -1, 0, 1]
    assert column["zero"] == [0, 0, 1, 0]
    assert column["log10"] == pytest.approx([0, 0, 0, 0.2], abs=1e-6)
    # Mean of the logarithms over the three numbers that have one: 2 / 3.
    assert column["log10_centred"] == pytest.approx(
        [-2 / 3, -2 / 3, 0, 4 / 3], abs=1e-6
    )
    assert column["standardised"] == pytest.approx(
        [(v - 25) / deviation for v in (1, -1, 0, 100)], abs=1e-3
    )
    rms = math.sqrt((9 + 16 + 9 + 16) / 4)
    assert column["target_scaled"] == pytest.approx(
        [1 / rms, -1 / rms, 0, 6.0], abs=1e-5
    )
    assert column["sin"] == pytest.approx(
        [math.sin(v) for v in (1, -1, 0, 100)], abs=1e-5
    )
    assert column["asinh"] == pytest.approx(
        [0.25 * math.asinh(v) for v in (1, -1, 0, 100)], abs=1e-6
    )
    assert column["sin_log10_1"] == pytest.approx([0, 0, 0, 0], abs=1e-5)
    assert column["cos_standardised_2"] == pytest.approx(
        [math.cos(2 * v) for v in column["standardised"]], abs=1e-5
    )


def test_absent_rows_do_not_touch_the_others():
    full = features_of([[1.0, 2.0, 5.0], [0.1, -3.0, 7.0]], [1.0, 2.0, 4.0])
    padded = features_of(
        [[1.0, 2.0, 5.0, math.nan, 1e38], [0.1, -3.0, 7.0, math.inf, 3.0]],
        [1.0, 2.0, 4.0, math.nan, 9.0],
        row_mask=[True, True, True, False, False],
    )
    for name in FEATURE_NAMES:
        np.testing.assert_allclose(
            padded[name][:3], full[name], atol=1e-6, err_msg=name
        )
        assert torch.isfinite(padded[name]).all(), name


numbers = st.one_of(
    st.sampled_from([0.0, 1e30, -1e30, 1e-30, -1e-30, 1e38, 1e-40, 1.0, 10.0]),
    st.floats(min_value=-(2.0**99), max_value=2.0**99, allow_nan=False, width=32),
)


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=6))
def test_always_finite_and_bounded(rows):
    a, b, y = zip(*rows, strict=True)
    for name, values in features_of([a, b], y).items():
        assert torch.isfinite(values).all(), name
        assert values.abs().max() <= 25.0, name


def test_scale_of_a_column_does_not_change_its_standardised_value():
    small = features_of([[1e-30, 3e-30, 7e-30]], [1.0, 2.0, 3.0])["standardised"]
    large = features_of([[1e29, 3e29, 7e29]], [1.0, 2.0, 3.0])["standardised"]
    np.testing.assert_allclose(small, large, rtol=1e-5)


def test_huge_phases_are_read_as_zero():
    got = features_of([[1e30, 10001.0, 9999.0]], [1.0, 2.0, 3.0])
    assert got["sin"][:2, 0].tolist() == [0.0, 0.0]
    assert got["cos"][:2, 0].tolist() == [1.0, 1.0]
    assert got["sin"][2, 0] == pytest.approx(math.sin(9999.0), abs=1e-4)


def test_standardised_target_by_hand():
    mask = torch.tensor([[True, True, True, False]])
    result = standardised_target(torch.tensor([[1.0, 2.0, 3.0, math.nan]]), mask)
    expected = math.sqrt(1.5)
    assert result[0, :, 0].tolist() == pytest.approx(
        [-expected, 0, expected, 0], rel=1e-6
    )
    constant = standardised_target(torch.full((1, 4), 0.1), mask)
    assert constant.abs().max() == 0.0


def test_standardise_has_mean_zero_and_deviation_one():
    values = clean_values(
        torch.randn(4, 50, 3, generator=torch.Generator().manual_seed(0)) * 1e20,
        torch.ones(4, 50, dtype=torch.bool),
    )
    mask = torch.ones(4, 50, dtype=torch.bool)
    result = standardise(column_statistics(values, mask))
    np.testing.assert_allclose(result.mean(1), 0.0, atol=1e-5)
    np.testing.assert_allclose(result.std(1, correction=0), 1.0, rtol=1e-3)
