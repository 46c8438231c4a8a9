"""Batches: the toy source tells the truth; splitting by columns loses nothing."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sr4mdl.mdlformer.tokens import tokens_to_formula  # noqa: E402
from sr4mdl.moves import decode_move, legal_moves  # noqa: E402
from sr4mdl.training.batch import (  # noqa: E402
    DeviceBatch,
    ResumableSource,
    Source,
    ToySource,
    split_by_columns,
)

CPU = torch.device("cpu")


def test_toy_labels_are_true():
    batch = ToySource(200, 6, CPU, seed=4).next_batch()
    names = [f"x{i}" for i in range(10)]
    for state in range(200):
        columns = batch.columns[state].double().numpy()
        target = batch.target[state].double().numpy()
        formula = tokens_to_formula(batch.formula_tokens[state].tolist(), names)
        a, b = (int(node.name[1:]) for node in formula.arguments)
        result = formula.operator.numpy(columns[:, a], columns[:, b])
        np.testing.assert_allclose(result, target, rtol=1e-3, atol=1e-4)
        (move,) = batch.moves[state].tolist()
        count = int(batch.column_mask[state].sum())
        if batch.value[state] == 1.0:
            assert move == -1
            np.testing.assert_array_equal(columns[:, count - 1], target)
            continue
        assert legal_moves(count)[move]
        decoded = decode_move(move)
        assert decoded.operator is formula.operator
        pair = {decoded.first, decoded.second}
        assert pair == {a, b}
        if not formula.operator.commutes:
            assert (decoded.first, decoded.second) == (a, b)


def test_toy_masks_and_shapes():
    batch = ToySource(50, 7, CPU).next_batch()
    assert batch.n_states == 50
    assert batch.columns.shape == (50, 7, 10)
    assert (batch.columns[~batch.column_mask[:, None, :].expand(50, 7, 10)] == 0).all()
    assert batch.row_mask.sum(1).min() >= 3
    assert torch.equal(batch.column_counts, batch.column_mask.sum(1))
    assert batch.weight.tolist() == [1.0] * 50


def test_toy_source_is_seeded_and_resumable():
    one, other = ToySource(5, 4, CPU, seed=1), ToySource(5, 4, CPU, seed=1)
    assert isinstance(one, Source)
    assert isinstance(one, ResumableSource)
    assert torch.equal(one.next_batch().columns, other.next_batch().columns)
    state = one.state_dict()
    expected = one.next_batch().target
    one.load_state_dict(state)
    assert torch.equal(one.next_batch().target, expected)
    different = ToySource(5, 4, CPU, seed=2).next_batch()
    assert not torch.equal(different.target, expected)
    with pytest.raises(ValueError, match="max_columns"):
        ToySource(5, 4, CPU, max_columns=10)


def numbered_batch(counts):
    n = len(counts)
    counts = torch.tensor(counts)
    return DeviceBatch(
        columns=torch.arange(n)[:, None, None] * 100.0
        + torch.arange(10.0).expand(n, 3, 10),
        target=torch.arange(n * 3.0).reshape(n, 3),
        column_mask=torch.arange(10) < counts[:, None],
        row_mask=torch.ones(n, 3, dtype=torch.bool),
        value=torch.arange(float(n)),
        moves=torch.arange(n)[:, None],
        weight=torch.ones(n),
        column_counts=counts,
    )


def test_split_by_hand():
    parts = split_by_columns(numbered_batch([5, 2, 9, 3, 1, 4]), (1 / 3,) * 3, (2, 6))
    assert [part.value.tolist() for part in parts] == [[4, 1], [3, 5], [0, 2]]
    # Two columns fit in 2, four in 6; nine fit in neither and keep all ten.
    assert [part.columns.shape for part in parts] == [(2, 3, 2), (2, 3, 6), (2, 3, 10)]
    assert [part.column_mask.shape[1] for part in parts] == [2, 6, 10]
    assert parts[0].columns[:, 0].tolist() == [[400, 401], [100, 101]]
    assert parts[1].column_counts.tolist() == [3, 4]
    assert parts[2].target.tolist() == [[0, 1, 2], [6, 7, 8]]
    assert parts[2].moves.tolist() == [[0], [2]]


def test_split_by_shares():
    batch = numbered_batch([5, 2, 9, 3, 1, 4, 1])
    # 0.3 * 7 rounds to 2 states, 0.8 * 7 to 6.
    parts = split_by_columns(batch, (0.3, 0.5, 0.2), (2, 6))
    assert [part.column_counts.tolist() for part in parts] == [
        [1, 1],
        [2, 3, 4, 5],
        [9],
    ]
    assert [part.columns.shape[2] for part in parts] == [2, 6, 10]
    # A part without states is left out.
    tiny = split_by_columns(numbered_batch([4, 1]), (0.1, 0.5, 0.4), (2, 6))
    assert [part.value.tolist() for part in tiny] == [[1], [0]]


def test_split_gives_up_when_it_cannot():
    batch = numbered_batch([1, 2, 3, 4])
    assert split_by_columns(batch, (1.0,), (10,)) == [batch]
    without = DeviceBatch(
        *(getattr(batch, name) for name in (
            "columns", "target", "column_mask", "row_mask", "value", "moves", "weight",
        ))
    )  # fmt: skip
    assert split_by_columns(without, (0.5, 0.5), (10,)) == [without]


def test_speed_prints_one_document_per_variant(capsys):
    import json

    from sr4mdl.training.speed import main

    arguments = [
        "--preset",
        "tiny",
        "--device",
        "cpu",
        "--batch-size",
        "8",
        "--rows",
        "5",
        "--columns",
        "3",
        "--steps",
        "1",
        "--compile",
        "none",
        "--profile",
        "4",
    ]
    assert main(arguments) == 0
    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    assert record["samples_per_second"] > 0
    assert record["columns"] == 3
    times = [entry["milliseconds"] for entry in record["profile"]]
    assert len(times) == 4
    assert times == sorted(times, reverse=True)
    assert times[-1] > 0
