"""Weights on disk: safetensors files of bounded size and one JSON card.

``<stem>.json`` is the card; it lists ``<stem>-<hash>.safetensors`` files and which
tensor lies where (a big tensor may lie in pieces). Files are named by content and the
card is replaced last, so a crash leaves the old checkpoint whole. Nothing is ever
unpickled. The format is described in docs/training.md.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from sr4mdl.errors import CheckpointError
from sr4mdl.mdlformer.card import (
    Kind,
    TrainingFacts,
    card_config,
    file_entry,
    make_card,
    read_card,
    read_listed_file,
    write_atomically,
)
from sr4mdl.mdlformer.network import Network, build_network

MODEL_STEM: Final = "model"
TRAINING_STEM: Final = "training"
AVERAGE: Final = "average/"
"""Starts the names of the averaged weights in a training checkpoint."""
MAX_FILE_BYTES: Final = 15 * 2**20

_SCALES: Final = "#scales"
"""Ends the name of the scales of a matrix in eight bits."""

StoredDtype = Literal["float32", "bfloat16", "float16"]
STORED_DTYPES: Final[Mapping[str, torch.dtype]] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class LoadedModel:
    """A network with its card."""

    network: Network
    """In evaluation mode."""
    card: dict[str, Any]
    """As read."""


def stored(tensors: Mapping[str, Tensor], dtype: StoredDtype) -> dict[str, Tensor]:
    """Return the tensors in host memory, floats in the given type.

    Raises
    ------
    CheckpointError
        If a number is not finite in that type.
    """
    result = {}
    for name, tensor in tensors.items():
        kept = tensor.detach().cpu()
        if kept.is_floating_point():
            kept = kept.to(STORED_DTYPES[dtype])
            if not bool(torch.isfinite(kept).all()):
                raise CheckpointError(f"{name} is not finite as {dtype}")
        result[name] = kept
    return result


def in_eight_bits(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with matrices of floats as int8, one scale a row.

    A quarter of the size, to keep and carry a checkpoint; readers turn them back. Each
    number is off by at most 1/254 of the largest of its row.
    """
    result = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or tensor.ndim != 2:
            result[name] = tensor
            continue
        scales = tensor.float().abs().amax(1, keepdim=True) / 127.0
        safe = torch.where(scales > 0, scales, torch.ones_like(scales))
        result[name] = torch.round(tensor.float() / safe).to(torch.int8)
        result[name + _SCALES] = scales
    return result


def _from_eight_bits(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo ``in_eight_bits``; KeyError if the scales of a matrix are missing."""
    result = {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.int8:
            result[name] = tensor.float() * tensors[name + _SCALES]
        elif not name.endswith(_SCALES):
            result[name] = tensor
    return result


def write_store(
    directory: Path,
    stem: str,
    tensors: Mapping[str, Tensor],
    card: Mapping[str, Any],
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Path:
    """Write tensors and their card; return the card's path.

    Parameters
    ----------
    directory : Path
        Made if missing.
    stem : str
        Start of the files' names.
    tensors : mapping of str to Tensor
        In host memory.
    card : mapping
        From ``make_card``; files and places of tensors are added.
    max_file_bytes : int
        No weights file is larger (up to a small header).
    """
    directory.mkdir(parents=True, exist_ok=True)
    places: dict[str, Any] = {
        name: {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "pieces": [],
        }
        for name, tensor in tensors.items()
    }
    entries = []
    for number, pieces in enumerate(_pack(tensors, max_file_bytes)):
        content = save_safetensors({key: piece for _, key, piece in pieces})
        entry = file_entry("", content)
        entry["name"] = f"{stem}-{entry['sha256'][:12]}.safetensors"
        write_atomically(directory / entry["name"], content)
        entries.append(entry)
        for name, key, _ in pieces:
            places[name]["pieces"].append([number, key])
    whole = {**card, "files": entries, "tensors": places}
    path = directory / f"{stem}.json"
    write_atomically(path, json_bytes(whole))
    kept = {entry["name"] for entry in entries}
    for old in directory.glob(f"{stem}-*.safetensors"):
        if old.name not in kept:
            old.unlink()
    return path


def read_store(path: Path, kind: Kind) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the card and the tensors of a checkpoint, after checking both.

    Parameters
    ----------
    path : Path
        The card.
    kind : str
        What the card must be of.
    """
    card = read_card(path, kind)
    try:
        contents = [read_listed_file(path.parent, entry) for entry in card["files"]]
        loaded = [load_safetensors(content) for content in contents]
        tensors = _from_eight_bits(
            {name: _assemble(place, loaded) for name, place in card["tensors"].items()}
        )
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} lists a damaged weights file: {error}"
        ) from error
    except (KeyError, IndexError, TypeError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"{path} does not match its files: {error}") from error
    return card, tensors


def save_model(
    directory: Path,
    network: Network,
    facts: TrainingFacts,
    *,
    state: Mapping[str, Tensor] | None = None,
    dtype: StoredDtype = "float32",
) -> Path:
    """Write a network's weights and card; return the card's path.

    Parameters
    ----------
    directory : Path
        Gets ``model.json`` and its weights files.
    network : Network
        Its config is stored, and its weights unless ``state`` is given.
    facts : TrainingFacts
        Told in the card.
    state : mapping of str to Tensor, optional
        Other weights for the same network, such as averaged ones.
    dtype : {"float32", "bfloat16", "float16"}, default="float32"
        How numbers are stored.
    """
    tensors = network.state_dict() if state is None else state
    card = make_card("model", network.config, facts)
    return write_store(directory, MODEL_STEM, stored(tensors, dtype), card)


def load_model(path: Path | str, *, device: str = "cpu") -> LoadedModel:
    """Return the network of a checkpoint, in evaluation mode.

    Parameters
    ----------
    path : Path or str
        A directory with ``model.json``, or the card itself; ``training.json`` will do,
        and then the network has the averaged weights.
    device : str, default="cpu"
        Where the network is put.
    """
    path = model_card_path(Path(path))
    if path.stem == TRAINING_STEM:
        card, stored_state = read_store(path, "training")
        tensors = {
            name.removeprefix(AVERAGE): tensor
            for name, tensor in stored_state.items()
            if name.startswith(AVERAGE)
        }
    else:
        card, tensors = read_store(path, "model")
    network = build_network(card_config(card, str(path)))
    load_weights(network, tensors, str(path))
    return LoadedModel(network.to(device).eval(), card)


def card_path(path: Path, stem: str) -> Path:
    """Return the card's path for a directory or a card."""
    return path / f"{stem}.json" if path.is_dir() else path


def model_card_path(path: Path) -> Path:
    """Return the card that tells of a model: of a training where nothing else is."""
    model, training = (card_path(path, stem) for stem in (MODEL_STEM, TRAINING_STEM))
    return training if training.exists() and not model.exists() else model


def read_model_card(path: Path) -> dict[str, Any]:
    """Return the card of ``model_card_path``, checked."""
    path = model_card_path(path)
    return read_card(path, "training" if path.stem == TRAINING_STEM else "model")


def load_weights(
    module: torch.nn.Module, tensors: Mapping[str, Tensor], origin: str
) -> None:
    """Put stored weights into a module; all must be there and fit."""
    floats = {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }
    try:
        module.load_state_dict(floats, strict=True)
    except RuntimeError as error:
        raise CheckpointError(
            f"{origin} does not fit its own config: {error}"
        ) from error


def json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return indented JSON."""
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def _pack(
    tensors: Mapping[str, Tensor], max_file_bytes: int
) -> Iterator[list[tuple[str, str, Tensor]]]:
    """Yield lists of (tensor's name, key, flat piece), one list a file."""
    current: list[tuple[str, str, Tensor]] = []
    room = max_file_bytes
    for name, tensor in tensors.items():
        flat = tensor.contiguous().flatten()
        start, piece_number = 0, 0
        while start < len(flat) or piece_number == 0:
            fitting = room // flat.element_size()
            if fitting == 0:
                yield current
                current, room = [], max_file_bytes
                continue
            piece = flat[start : start + fitting].clone()
            current.append((name, f"{name}:{piece_number}", piece))
            room -= piece.numel() * piece.element_size()
            start += max(piece.numel(), 1)
            piece_number += 1
    yield current


def _assemble(place: Mapping[str, Any], files: list[dict[str, Tensor]]) -> Tensor:
    pieces = [files[number][key] for number, key in place["pieces"]]
    shape = place["shape"]
    whole = torch.cat(pieces) if pieces else torch.empty(0)
    if whole.numel() != math.prod(shape):
        raise CheckpointError(f"a tensor has {whole.numel()} numbers, not {shape}")
    if str(whole.dtype) != f"torch.{place['dtype']}":
        raise CheckpointError(f"a tensor is {whole.dtype}, not {place['dtype']}")
    return whole.reshape(shape)
