"""A run's whole state on disk: weights, average, moments, random generators, counts.

What is read back continues the run as if it had not stopped (bit by bit if everything
is stored in float32). The files are those of ``mdlformer.checkpoint``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from sr4mdl.errors import CheckpointError
from sr4mdl.mdlformer.card import TrainingFacts, card_config, make_card
from sr4mdl.mdlformer.checkpoint import (
    AVERAGE,
    TRAINING_STEM,
    StoredDtype,
    card_path,
    in_eight_bits,
    load_weights,
    read_store,
    stored,
    write_store,
)
from sr4mdl.mdlformer.config import ModelConfig
from sr4mdl.mdlformer.network import Network
from sr4mdl.training.batch import ResumableSource

_STEP: Final = "step"
_NETWORK: Final = "network."
"""Starts the names of the network's weights in a learner."""


@dataclass
class Progress:
    """How far a run has come."""

    step: int = 0
    """Updates made."""
    samples: int = 0
    """States seen, over all processes."""
    elapsed: float = 0.0
    """Seconds spent over all calls."""
    phase: str = ""
    """Phase the run is in; empty before the first step."""
    phase_start: int = 0
    """Samples seen when the phase began (or the optimiser began anew)."""
    learning_rate: float = 0.0
    """Last learning rate."""


def write_state(
    directory: Path,
    model: ModelConfig,
    facts: TrainingFacts,
    progress: Progress,
    learner: nn.Module,
    average: Network,
    optimizers: Sequence[torch.optim.Optimizer],
    source: ResumableSource | None,
    *,
    weights: StoredDtype,
    moments: StoredDtype | Literal["none"],
    device: torch.device,
) -> Path:
    """Write everything a run needs to continue; return the card's path."""
    tensors = _prefixed("learner", stored(learner.state_dict(), weights))
    averaged = stored(average.state_dict(), weights)
    tensors |= {AVERAGE + name: tensor for name, tensor in averaged.items()}
    if moments != "none":
        tensors |= _prefixed(
            "optimizer", _optimizer_tensors(learner, optimizers, moments)
        )
    tensors |= _prefixed("random", _random_state(device))
    if source is not None:
        tensors |= _prefixed("source", source.state_dict())
    card = make_card("training", model, facts) | {"progress": asdict(progress)}
    return write_store(directory, TRAINING_STEM, tensors, card)


def packed_state(
    path: Path, *, teachers: bool = True
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return card and tensors of a training checkpoint, without what can be spared.

    Averaged weights stay, in eight bits; the raw weights of the network, the moments
    and the random generators go. ``teachers`` says whether what only training needs
    (the encoder and the writer of formulas, counts) stays as well.
    """
    card, tensors = read_store(card_path(path, TRAINING_STEM), "training")
    raw = f"learner/{_NETWORK}"
    wanted = (AVERAGE, "learner/") if teachers else (AVERAGE,)
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if name.startswith(wanted) and not name.startswith(raw)
    }
    return card, in_eight_bits(kept)


def read_state(
    path: Path,
    model: ModelConfig,
    learner: nn.Module,
    average: Network,
    optimizers: Sequence[torch.optim.Optimizer],
    source: ResumableSource | None,
    device: torch.device,
) -> Progress:
    """Put a stored state into freshly made objects; return the progress.

    A formula encoder that was stored but is no longer needed (prediction after
    alignment) is skipped, one that is needed but was not stored starts anew; so do
    moments that were not stored, with a warm-up. A network stored by its average alone
    (``packed_state``) goes on from that.
    """
    path = card_path(path, TRAINING_STEM)
    card, tensors = read_store(path, "training")
    found = card_config(card, str(path))
    if found != model:
        raise CheckpointError(
            f"{path} holds a network of another config: {found} instead of {model}"
        )
    parts = _by_prefix(tensors)
    for name, tensor in parts["average"].items():
        parts["learner"].setdefault(f"{_NETWORK}{name}", tensor)
    wanted = learner.state_dict()
    for teacher, _ in learner.named_children():
        if not any(name.startswith(f"{teacher}.") for name in parts["learner"]):
            parts["learner"] |= {
                name: tensor
                for name, tensor in wanted.items()
                if name.startswith(f"{teacher}.")
            }
        else:
            _check_teacher(teacher, wanted, parts["learner"], str(path))
    kept = {name: part for name, part in parts["learner"].items() if name in wanted}
    load_weights(learner, kept, str(path))
    load_weights(average, parts["average"], str(path))
    try:
        progress = Progress(**card["progress"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} states no usable progress: {error}") from error
    if "optimizer" in parts:
        _restore_optimizers(learner, optimizers, parts["optimizer"], str(path))
    else:
        progress.phase_start = progress.samples
    _restore_random(parts.get("random", {}), device)
    if source is not None and "source" in parts:
        source.load_state_dict(parts["source"])
    return progress


def _check_teacher(
    teacher: str, wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], path: str
) -> None:
    """Refuse a teacher of another depth than the one that was stored."""

    def layers(names: Iterable[str]) -> set[str]:
        start = f"{teacher}.layers."
        behind = (name.removeprefix(start) for name in names if name.startswith(start))
        return {name.split(".", 1)[0] for name in behind}

    asked, stored_layers = layers(wanted), layers(found)
    if asked != stored_layers:
        raise CheckpointError(
            f"{path} holds {len(stored_layers)} layers of the teacher {teacher!r}, "
            f"got {len(asked)}: --formula-layers and --writer-layers must be those of "
            "before"
        )


def _optimizer_tensors(
    learner: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    moments: StoredDtype,
) -> dict[str, Tensor]:
    result: dict[str, Tensor] = {}
    for name, parameter in learner.named_parameters():
        for optimizer in optimizers:
            state = {
                f"{name}/{key}": tensor
                for key, tensor in optimizer.state.get(parameter, {}).items()
            }
            step = state.pop(f"{name}/{_STEP}", None)
            result |= stored(state, moments)
            if step is not None:
                result[f"{name}/{_STEP}"] = step.detach().cpu()
    return result


def _restore_optimizers(
    learner: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    parts: Mapping[str, Tensor],
    path: str,
) -> None:
    states: dict[str, dict[str, Tensor]] = {}
    for full_name, tensor in parts.items():
        name, key = full_name.rsplit("/", 1)
        states.setdefault(name, {})[key] = tensor
    owners = {
        parameter: optimizer
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    for name, parameter in learner.named_parameters():
        if name not in states:
            continue
        optimizer = owners[parameter]
        by_adamw = _STEP in states[name]
        if by_adamw != isinstance(optimizer, torch.optim.AdamW):
            raise CheckpointError(
                f"{path} was written with another optimizer than it is resumed with"
            )
        # The fused optimiser counts steps on the device, the plain one in host memory.
        fused = bool(optimizer.defaults.get("fused"))
        optimizer.state[parameter] = {
            key: tensor if key == _STEP and not fused else tensor.to(parameter)
            for key, tensor in states[name].items()
        }


def _random_state(device: torch.device) -> dict[str, Tensor]:
    result = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        result["cuda"] = torch.cuda.get_rng_state(device)
    return result


def _restore_random(parts: Mapping[str, Tensor], device: torch.device) -> None:
    if "cpu" in parts:
        torch.set_rng_state(parts["cpu"])
    if "cuda" in parts and device.type == "cuda":
        torch.cuda.set_rng_state(parts["cuda"], device)


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _by_prefix(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    result: dict[str, dict[str, Tensor]] = {"learner": {}, "average": {}}
    for name, tensor in tensors.items():
        prefix, rest = name.split("/", 1)
        result.setdefault(prefix, {})[rest] = tensor
    return result
