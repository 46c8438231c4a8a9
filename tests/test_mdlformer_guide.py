"""Guides that need no network: checks of arguments, masks, probabilities."""

import subprocess
import sys

import numpy as np
import pytest

from sr4mdl.errors import CheckpointError
from sr4mdl.mdlformer.guide import (
    FakeGuide,
    OnnxGuide,
    UniformGuide,
    even_shares,
    log_softmax_legal,
)
from sr4mdl.moves import FIRST_TARGET, N_MOVES, column_move_id, legal_moves


def make_states():
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 6, 4)), np.array([1, 4, 2]), rng.normal(size=(3, 6))


def test_uniform_guide_by_hand():
    output = UniformGuide(value=7.0, spread=2.0).score(*make_states())
    assert output.value_mean.tolist() == [7.0] * 3
    assert output.value_spread.tolist() == [2.0] * 3
    for row, count in enumerate((1, 4, 2)):
        legal = legal_moves(count)
        expected = np.where(legal, -np.log(legal.sum()), -np.inf)
        np.testing.assert_allclose(output.log_probabilities[row], expected)


def test_log_softmax_survives_large_logits():
    logits = np.zeros((1, N_MOVES))
    logits[0, 0] = 5000.0
    logits[0, FIRST_TARGET] = 4999.0
    logits[0, column_move_id(3, 0)] = 1e6  # illegal with one column
    result = log_softmax_legal(logits, np.array([1]))
    assert result[0, 0] == pytest.approx(-np.log(1 + np.exp(-1)))
    assert result[0, FIRST_TARGET] == pytest.approx(-1 - np.log(1 + np.exp(-1)))
    assert result[0, column_move_id(3, 0)] == -np.inf


def test_fake_guide_sees_only_what_exists():
    columns, counts, targets = make_states()
    rows = np.ones((3, 6), dtype=bool)
    rows[1, 4:] = False
    columns[1, 4:] = np.nan
    targets[1, 4:] = np.inf
    columns[0, :, 1:] = np.nan
    seen = []

    def function(state, target):
        seen.append((state.shape, target.shape))
        return float(state[0, 0]), {FIRST_TARGET + 1: 2.0}

    guide = FakeGuide(function, spread=0.5)
    output = guide.score(columns, counts, targets, rows)
    assert seen == [((6, 1), (6,)), ((4, 4), (4,)), ((6, 2), (6,))]
    np.testing.assert_allclose(output.value_mean, columns[:, 0, 0], rtol=1e-6)
    assert (output.log_probabilities.argmax(1) == FIRST_TARGET + 1).all()
    np.testing.assert_allclose(np.exp(output.log_probabilities).sum(1), 1.0)
    assert guide.n_scored == 3


def test_no_states():
    empty = UniformGuide().score(
        np.zeros((0, 5, 2)), np.zeros(0, int), np.zeros((0, 5))
    )
    assert empty.value_mean.shape == (0,)
    assert empty.log_probabilities.shape == (0, N_MOVES)


def test_arguments_are_not_changed():
    columns, counts, targets = make_states()
    columns[0, 0, 0] = 1e200
    copies = [array.copy() for array in (columns, counts, targets)]
    UniformGuide().score(columns, counts, targets)
    for array, copy in zip((columns, counts, targets), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_huge_numbers_are_cut_as_in_training():
    seen = []

    def function(state, target):
        seen.append((state, target))
        return 1.0, {}

    guide = FakeGuide(function)
    guide.score([[[1e200], [-1e35]]], [1], [[1e-300, 5e40]])
    state, target = seen[0]
    assert state[:, 0].tolist() == pytest.approx([1e30, -1e30])
    assert target.tolist() == pytest.approx([0.0, 1e30])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, n, y: (c[0], n, y), "3 axes"),
        (lambda c, n, y: (c, n[:2], y), r"column_counts must have shape \(3,\)"),
        (lambda c, n, y: (c, n * 0, y), "from 1 to 4, got 0 to 0"),
        (lambda c, n, y: (c, n + 3, y), "from 1 to 4, got 4 to 7"),
        (lambda c, n, y: (c, n, y[:, :2]), r"targets must have shape \(3, 6\)"),
        (lambda c, n, y: (c * np.nan, n, y), "columns must be finite"),
        (lambda c, n, y: (c, n, y / 0.0), "targets must be finite"),
        (lambda c, n, y: (c, n, y, np.ones((3, 5))), "row_mask must have shape"),
        (lambda c, n, y: (c, n, y, np.zeros((3, 6))), "at least one row"),
    ],
)
def test_wrong_arguments(change, message):
    with np.errstate(all="ignore"):
        arguments = change(*make_states())
    with pytest.raises(ValueError, match=message):
        UniformGuide().score(*arguments)


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be read"):
        OnnxGuide(tmp_path / "none.onnx")
    path = tmp_path / "foreign.onnx"
    path.write_bytes(b"not a protobuf at all")
    with pytest.raises(CheckpointError, match="not a usable ONNX file"):
        OnnxGuide(path)
    with pytest.raises(ValueError, match="n_threads"):
        OnnxGuide(path, n_threads=0)


def test_shares_of_equal_work_by_hand():
    # By columns 1, 1, 2, 3, 5 at places 4, 1, 3, 0, 2: 12 units of work. Middles at
    # 0.5, 1.5, 3, 5.5, 9.5, and the second half begins at 6.
    counts = np.array([3, 1, 5, 2, 1])
    shares = even_shares(counts, 2)
    assert [share.tolist() for share in shares] == [[1, 4, 3, 0], [2]]
    assert [share.tolist() for share in even_shares(counts, 1)] == [[1, 4, 3, 0, 2]]
    # More workers than states: nobody gets nothing.
    assert [share.tolist() for share in even_shares(np.array([2, 2]), 5)] == [[0], [1]]


def test_a_failure_in_a_thread_is_told(monkeypatch):
    guide = OnnxGuide(n_threads=2)

    def fail(*_):
        raise MemoryError("none left")

    monkeypatch.setattr(guide, "_score_share", fail)
    with pytest.raises(MemoryError, match="none left"):
        guide.score(np.ones((4, 5, 1)), [1] * 4, np.ones((4, 5)))


def test_guide_does_not_need_torch():
    code = (
        "import sys, sr4mdl.mdlformer.guide as g; "
        "assert 'torch' not in sys.modules and 'onnxruntime' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
