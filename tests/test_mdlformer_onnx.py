"""ONNX files: the same answers as torch, for any shape, and damage is noticed."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from sr4mdl.errors import CheckpointError, VocabularyMismatchError  # noqa: E402
from sr4mdl.mdlformer.card import TrainingFacts  # noqa: E402
from sr4mdl.mdlformer.checkpoint import save_model  # noqa: E402
from sr4mdl.mdlformer.config import PRESETS  # noqa: E402
from sr4mdl.mdlformer.guide import DEFAULT_PATH, OnnxGuide  # noqa: E402
from sr4mdl.mdlformer.network import build_network  # noqa: E402
from sr4mdl.mdlformer.onnx_export import CARD_KEY, export_checkpoint, export_onnx  # noqa: E402
from sr4mdl.mdlformer.onnx_int8 import with_integer_products  # noqa: E402

CONFIGS = {
    "cells": replace(PRESETS["tiny"], n_layers=1),
    "rows": replace(PRESETS["tiny-rows"], n_layers=1),
    "tokens": replace(PRESETS["tiny-tokens"], n_layers=1),
}


@pytest.fixture(scope="module", params=CONFIGS)
def exported(request, tmp_path_factory):
    torch.manual_seed(5)
    network = build_network(CONFIGS[request.param]).eval()
    path = tmp_path_factory.mktemp("onnx") / f"{request.param}.onnx"
    export_onnx(network, path, TrainingFacts(samples=42), half=False)
    return network, path


def copy_of(path, folder):
    folder.mkdir(exist_ok=True)
    for suffix in (".onnx", ".json"):
        (folder / path.name).with_suffix(suffix).write_bytes(
            path.with_suffix(suffix).read_bytes()
        )
    return folder / path.name


def test_agrees_with_torch(exported):
    network, path = exported
    guide = OnnxGuide(path)
    rng = np.random.default_rng(0)
    for n, rows, columns in ((1, 2, 1), (2, 32, 5), (17, 50, 10), (3, 7, 2)):
        scale = 10.0 ** rng.uniform(-6, 6, size=(n, 1, columns))
        x = (rng.normal(size=(n, rows, columns)) * scale).astype(np.float32)
        x[0, 0, 0] = 0.0
        y = rng.normal(size=(n, rows)).astype(np.float32) * 1e3
        counts = rng.integers(1, columns + 1, size=n)
        row_mask = np.arange(rows) < rng.integers(max(rows // 2, 1), rows + 1, (n, 1))
        result = guide.score(x, counts, y, row_mask)
        with torch.no_grad():
            expected = network(
                torch.from_numpy(x),
                torch.from_numpy(y),
                torch.from_numpy(np.arange(columns) < counts[:, None]),
                torch.from_numpy(row_mask),
            )
        np.testing.assert_allclose(result.value_mean, expected.value_mean, atol=1e-3)
        np.testing.assert_allclose(
            result.value_spread, expected.value_log_spread.exp(), atol=1e-3
        )
        legal = np.isfinite(result.log_probabilities)
        logs = expected.policy.double().log_softmax(-1).numpy()
        np.testing.assert_allclose(
            result.log_probabilities[legal], logs[legal], atol=1e-3
        )
        assert (logs[~legal] < -1000).all()
        np.testing.assert_allclose(np.exp(result.log_probabilities).sum(1), 1.0)


def test_extreme_numbers_give_finite_scores(exported):
    guide = OnnxGuide(exported[1], n_threads=2, batch_size=2)
    x = np.array([[[1e300, 0.0], [1e-300, 0.0], [-1e30, 0.0], [1.0, 0.0]]] * 3)
    y = np.array([[0.0, 0.0, 0.0, 0.0], [1e38, -1e38, 1e-38, 1], [5.0, 5.0, 5.0, 5.0]])
    output = guide.score(x, [2, 2, 1], y)
    assert np.isfinite(output.value_mean).all()
    assert np.isfinite(output.value_spread).all()
    assert not np.isnan(output.log_probabilities).any()
    assert output.log_probabilities.max(1).min() > -np.inf


def test_threads_change_no_answer(exported):
    rng = np.random.default_rng(3)
    counts = rng.integers(1, 5, 23)
    columns, targets = rng.normal(size=(23, 16, 4)), rng.normal(size=(23, 16))
    alone = OnnxGuide(exported[1]).score(columns, counts, targets)
    for n_threads in (2, 3, 40):
        guide = OnnxGuide(exported[1], n_threads=n_threads)
        shared = guide.score(columns, counts, targets)
        for name in ("value_mean", "value_spread", "log_probabilities"):
            np.testing.assert_allclose(
                getattr(shared, name), getattr(alone, name), rtol=1e-4, atol=1e-4
            )


def test_card_travels_along(exported):
    guide = OnnxGuide(exported[1])
    assert guide.card["samples"] == 42
    assert guide.n_rows == 8
    again = pickle.loads(pickle.dumps(guide))
    assert again.card == guide.card


def test_half_precision_weights(exported, tmp_path):
    network, path = exported
    half = export_onnx(network, tmp_path / "half.onnx", TrainingFacts(), half=True)
    assert half.stat().st_size < 0.9 * path.stat().st_size
    rng = np.random.default_rng(1)
    states = rng.normal(size=(4, 9, 3)), [3] * 4, rng.normal(size=(4, 9))
    one, other = OnnxGuide(path).score(*states), OnnxGuide(half).score(*states)
    np.testing.assert_allclose(one.value_mean, other.value_mean, atol=0.05)


def graph_of(products, x):
    """Return the graph of y = sum of x W + b over the pairs (W, b)."""
    nodes, constants = [], []
    for number, (weight, bias) in enumerate(products):
        product, total = f"product{number}", f"sum{number}"
        constants += [
            onnx.numpy_helper.from_array(np.float32(weight), f"w{number}"),
            onnx.numpy_helper.from_array(np.float32(bias), f"b{number}"),
        ]
        nodes += [
            onnx.helper.make_node(
                "MatMul", ["x", f"w{number}"], [product], name=f"/layers.{number}/p"
            ),
            # The exporter writes the bias first.
            onnx.helper.make_node("Add", [f"b{number}", product], [total], name=total),
        ]
    names = [f"sum{number}" for number in range(len(products))]
    nodes.append(onnx.helper.make_node("Sum", names, ["y"], name="all"))
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", 1, list(x.shape))], [value("y", 1, None)], constants
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10
    )


def run_graph(model, x):
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(["y"], {"x": x})[0]


def test_integer_products_by_hand():
    # 256 steps from -1 to 1.55 are 0.01 each: 0.5 and -1 are exact, 9 is cut to 1.55.
    x = np.zeros((3, 64), np.float32)
    x[0, :2], x[1, 0], x[2, 5] = (0.5, -1.0), 1.55, 9.0
    weight = np.diag(np.linspace(0.5, 2.0, 64))
    model = graph_of([(weight, np.full(64, 3.0)), (-weight, np.zeros(64))], x)
    feeds = [{"x": np.clip(x, -1.0, 1.55)}]
    integer = with_integer_products(model, feeds, "/layers.0")
    kinds = [node.op_type for node in integer.graph.node]
    assert kinds == ["QuantizeLinear", "MatMulIntegerToFloat", "MatMul", "Add", "Sum"]
    alone = graph_of([(weight, np.full(64, 3.0))], x)
    result = run_graph(with_integer_products(alone, feeds, "/layers"), x)
    expected = 3.0 + np.clip(x, -1.0, 1.55) @ weight
    np.testing.assert_allclose(result, expected, atol=1e-5)
    # Both products read the same integers; the weights are gone as floats.
    both = with_integer_products(model, feeds, "/layers")
    kinds = [node.op_type for node in both.graph.node]
    assert kinds.count("QuantizeLinear") == 1
    assert "Add" not in kinds
    assert not {"w0", "w1"} & {tensor.name for tensor in both.graph.initializer}
    np.testing.assert_allclose(run_graph(both, x), np.full((3, 64), 3.0), atol=1e-5)


def test_integer_network_is_near_and_states_do_not_touch_each_other(tmp_path):
    torch.manual_seed(3)
    config = replace(PRESETS["tiny"], width=64, feed_forward=128, n_layers=2)
    network = build_network(config).eval()
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 4, 24)
    states = rng.normal(size=(24, 9, 3)), counts, rng.normal(size=(24, 9))
    feed = {
        "columns": np.float32(states[0]),
        "target": np.float32(states[2]),
        "column_mask": np.arange(3) < counts[:, None],
        "row_mask": np.ones((24, 9), bool),
    }
    facts = TrainingFacts()
    plain = export_onnx(network, tmp_path / "float.onnx", facts)
    integer = export_onnx(network, tmp_path / "integer.onnx", facts, feeds=[feed])
    assert integer.stat().st_size < 0.8 * plain.stat().st_size
    one, other = OnnxGuide(plain).score(*states), OnnxGuide(integer).score(*states)
    assert not np.array_equal(one.value_mean, other.value_mean)
    np.testing.assert_allclose(one.value_mean, other.value_mean, atol=0.3)
    np.testing.assert_allclose(
        np.exp(one.log_probabilities), np.exp(other.log_probabilities), atol=0.02
    )
    single = OnnxGuide(integer).score(states[0][5:6], states[1][5:6], states[2][5:6])
    np.testing.assert_allclose(single.value_mean, other.value_mean[5:6], atol=1e-5)


def test_shipped_files_hold_the_same_network(tmp_path):
    exact = export_checkpoint(DEFAULT_PATH.parent, tmp_path / "exact.onnx")
    rng = np.random.default_rng(0)
    columns = rng.uniform(0.5, 3.0, size=(60, 32, 3))
    a, b, c = np.moveaxis(columns, 2, 0)
    makers = (a * b, a / b + c, np.sin(a) * b, np.exp(-a) + b * c, np.sqrt(a + b) / c)
    target = np.stack([makers[i % len(makers)][i] for i in range(60)])
    one = OnnxGuide().score(columns, [3] * 60, target)
    other = OnnxGuide(exact).score(columns, [3] * 60, target)
    # The shipped one multiplies in integers.
    assert 1e-3 < np.abs(one.value_mean - other.value_mean).max() < 1.0
    chances = np.exp(one.log_probabilities), np.exp(other.log_probabilities)
    assert np.abs(chances[0] - chances[1]).max() < 0.2
    same = chances[0].argmax(1) == chances[1].argmax(1)
    assert same.mean() > 0.9


def test_saved_model_is_exported_with_its_card(exported, tmp_path):
    network, path = exported
    facts = TrainingFacts(samples=7, metrics={"top1": 0.25}, commit="abc")
    save_model(tmp_path, network, facts)
    other = export_checkpoint(tmp_path, tmp_path / "exported.onnx")
    guide = OnnxGuide(other)
    assert (guide.card["samples"], guide.card["commit"]) == (7, "abc")
    assert guide.card["metrics"] == {"top1": 0.25}
    rng = np.random.default_rng(1)
    states = rng.normal(size=(2, 9, 3)), [3, 2], rng.normal(size=(2, 9))
    np.testing.assert_allclose(
        guide.score(*states).value_mean, OnnxGuide(path).score(*states).value_mean
    )


def test_damage_is_noticed(exported, tmp_path):
    _, original = exported
    path = copy_of(original, tmp_path / "cut")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="cut short"):
        OnnxGuide(path)
    path = copy_of(original, tmp_path / "flipped")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        OnnxGuide(path)
    path = copy_of(original, tmp_path / "bare")
    path.with_suffix(".json").unlink()
    assert OnnxGuide(path).n_rows == 8  # a file alone is enough
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(CheckpointError):
        OnnxGuide(path)


def with_card(path, folder, change):
    target = copy_of(path, folder)
    target.with_suffix(".json").unlink()
    model = onnx.load(target)
    for entry in model.metadata_props:
        if entry.key == CARD_KEY:
            entry.value = change(json.loads(entry.value))
    onnx.save(model, target)
    return target


def test_other_cards_are_refused(exported, tmp_path):
    _, path = exported
    other_moves = with_card(
        path, tmp_path / "a", lambda card: json.dumps({**card, "moves_version": 0})
    )
    with pytest.raises(VocabularyMismatchError):
        OnnxGuide(other_moves)
    with pytest.raises(CheckpointError, match="damaged card"):
        OnnxGuide(with_card(path, tmp_path / "b", lambda _: "{"))
    foreign = copy_of(path, tmp_path / "c")
    foreign.with_suffix(".json").unlink()
    model = onnx.load(foreign)
    del model.metadata_props[:]
    onnx.save(model, foreign)
    with pytest.raises(CheckpointError, match="no card"):
        OnnxGuide(foreign)


def test_path_must_be_onnx(exported, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.onnx"):
        export_onnx(exported[0], tmp_path / "model.bin", TrainingFacts())
