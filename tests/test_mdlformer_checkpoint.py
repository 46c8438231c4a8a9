"""Weights on disk: they come back, and what is wrong with them is said."""

import json
import re

import pytest

torch = pytest.importorskip("torch")

from sr4mdl.errors import CheckpointError, VocabularyMismatchError  # noqa: E402
from sr4mdl.mdlformer.card import (  # noqa: E402
    TrainingFacts,
    check_card,
    make_card,
    moves_fingerprint,
)
from sr4mdl.mdlformer.checkpoint import (  # noqa: E402
    in_eight_bits,
    load_model,
    read_store,
    save_model,
    stored,
    write_store,
)
from sr4mdl.mdlformer.config import PRESETS  # noqa: E402
from sr4mdl.mdlformer.network import build_network  # noqa: E402

FACTS = TrainingFacts(
    samples=123, data={"rows": 8}, metrics={"top1": 0.5}, commit="abc"
)


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    network = build_network(PRESETS["tiny"])
    return network, save_model(tmp_path, network, FACTS)


def weights_file(card_path):
    (entry,) = json.loads(card_path.read_text())["files"]
    return card_path.parent / entry["name"]


def test_model_comes_back(saved):
    network, path = saved
    loaded = load_model(path.parent)
    assert loaded.network.config == network.config
    assert not loaded.network.training
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, loaded.network.state_dict()[name]), name
    card = loaded.card
    assert (card["samples"], card["commit"]) == (123, "abc")
    assert card["metrics"] == {"top1": 0.5}
    assert card["moves_fingerprint"] == moves_fingerprint()


def test_half_precision_is_half_the_size(tmp_path):
    torch.manual_seed(0)
    network = build_network(PRESETS["tiny"])
    full = save_model(tmp_path / "full", network, FACTS)
    half = save_model(tmp_path / "half", network, FACTS, dtype="float16")
    assert weights_file(half).stat().st_size < 0.6 * weights_file(full).stat().st_size
    other = load_model(half).network.state_dict()
    for name, tensor in network.state_dict().items():
        assert torch.allclose(tensor, other[name], atol=1e-3), name


def test_eight_bits_by_hand(tmp_path):
    matrix = torch.tensor([[1.27, -0.5, 0.004], [0.0, 0.0, 0.0], [-254.0, 2.0, 1.0]])
    vector = torch.tensor([0.1, 0.2])
    kept = in_eight_bits({"matrix": matrix, "vector": vector, "n": torch.tensor([3])})
    assert kept["matrix"].dtype == torch.int8
    # Ties go to the even number: 1.0 / 2.0 is half a step.
    assert kept["matrix"].tolist() == [[127, -50, 0], [0, 0, 0], [-127, 1, 0]]
    card = make_card("model", PRESETS["tiny"], FACTS)
    _, back = read_store(write_store(tmp_path, "model", kept, card), "model")
    assert sorted(back) == ["matrix", "n", "vector"]
    expected = torch.tensor([[1.27, -0.5, 0.0], [0.0, 0.0, 0.0], [-254.0, 2.0, 0.0]])
    assert torch.allclose(back["matrix"], expected)
    assert torch.equal(back["vector"], vector)
    del kept["matrix#scales"]
    path = write_store(tmp_path / "other", "model", kept, card)
    with pytest.raises(CheckpointError, match="does not match its files"):
        read_store(path, "model")


def test_truncated_file(saved):
    _, path = saved
    file = weights_file(path)
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="cut short"):
        load_model(path)


def test_flipped_bit(saved):
    _, path = saved
    file = weights_file(path)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged.*SHA-256"):
        load_model(path)


def test_missing_files(saved, tmp_path):
    _, path = saved
    weights_file(path).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_model(path)
    with pytest.raises(CheckpointError, match="does not exist"):
        load_model(tmp_path / "nowhere.json")


def change_card(path, **changes):
    card = json.loads(path.read_text())
    card.update(changes)
    path.write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "is not a card of format"),
        ({"version": 99}, "has version 99, this package reads 1"),
        ({"kind": "onnx"}, "is of kind 'onnx', not 'model'"),
        ({"config": {"widht": 1}}, "states no usable config"),
        ({"files": [{"name": "../x", "bytes": 1, "sha256": ""}]}, "not understood"),
        ({"files": 7}, "does not match its files"),
        ({"tensors": {}}, "does not fit its own config"),
    ],
)
def test_foreign_cards(saved, changes, message):
    _, path = saved
    change_card(path, **changes)
    with pytest.raises(CheckpointError, match=message):
        load_model(path)


def test_card_that_is_not_json(saved):
    _, path = saved
    path.write_text("{")
    with pytest.raises(CheckpointError, match="is not JSON"):
        load_model(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_model(path)


def test_weights_that_are_no_safetensors(saved):
    _, path = saved
    file = weights_file(path)
    content = b"hello, these are not weights"
    file.write_bytes(content)
    import hashlib

    entry = {
        "name": file.name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    change_card(path, files=[entry])
    with pytest.raises(CheckpointError, match="damaged weights file"):
        load_model(path)


@pytest.mark.parametrize(
    "changes",
    [{"moves_version": 0}, {"moves_fingerprint": "0" * 64}, {"tokens_version": 0}],
)
def test_other_table_of_moves_or_tokens(saved, changes):
    _, path = saved
    change_card(path, **changes)
    with pytest.raises(VocabularyMismatchError, match="another table"):
        load_model(path)


def test_fingerprint_depends_on_the_order_of_moves(monkeypatch):
    from sr4mdl.mdlformer import card

    before = moves_fingerprint()
    monkeypatch.setattr(card, "PAIR_OPERATORS", card.PAIR_OPERATORS[::-1])
    moves_fingerprint.cache_clear()
    changed = moves_fingerprint()
    moves_fingerprint.cache_clear()
    assert changed != before


def test_big_tensors_lie_in_pieces(tmp_path):
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "large": torch.randn(50, 7, generator=generator),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5),
        "bytes": torch.arange(9, dtype=torch.uint8),
        "half": torch.randn(11, generator=generator).to(torch.bfloat16),
    }
    card = make_card("training", PRESETS["tiny"], FACTS)
    path = write_store(tmp_path, "state", tensors, card, max_file_bytes=256)
    files = sorted(tmp_path.glob("state-*.safetensors"))
    assert len(files) == 6  # 1400 + 4 + 9 + 22 bytes, 256 a file
    _, back = read_store(path, "training")
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor), name
        assert back[name].dtype == tensor.dtype
        assert back[name].shape == tensor.shape


def test_new_checkpoint_replaces_the_old_one(tmp_path):
    card = make_card("training", PRESETS["tiny"], FACTS)
    write_store(tmp_path, "state", {"a": torch.zeros(3)}, card)
    path = write_store(tmp_path, "state", {"a": torch.ones(3)}, card)
    assert len(list(tmp_path.iterdir())) == 2
    assert torch.equal(read_store(path, "training")[1]["a"], torch.ones(3))


def test_failed_write_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    from sr4mdl.mdlformer import checkpoint

    card = make_card("training", PRESETS["tiny"], FACTS)
    path = write_store(tmp_path, "state", {"a": torch.zeros(3)}, card)

    def no_space(target, content):
        if target.suffix == ".json":
            raise OSError("no space left")
        target.write_bytes(content)

    monkeypatch.setattr(checkpoint, "write_atomically", no_space)
    with pytest.raises(OSError, match="no space"):
        write_store(tmp_path, "state", {"a": torch.ones(3)}, card)
    assert torch.equal(read_store(path, "training")[1]["a"], torch.zeros(3))


def test_numbers_that_are_not_finite_are_not_stored():
    with pytest.raises(CheckpointError, match="weight is not finite as float16"):
        stored({"weight": torch.tensor([1e6])}, "float16")
    with pytest.raises(CheckpointError, match="not finite"):
        stored({"weight": torch.tensor([float("nan")])}, "float32")


def test_check_card_refuses_what_is_no_card():
    for thing in (None, [], "card", {}):
        with pytest.raises(CheckpointError, match=re.escape("is not a card")):
            check_card(thing, "model", "here")
