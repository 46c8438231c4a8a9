"""The JSON card beside weights: what they are, and how to tell that they are whole.

A card names format, version and kind, the network's config, the table of moves it was
trained for, what it saw and how well it did, and the size and SHA-256 of every weights
file. No torch here: the runtime reads cards too.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from sr4mdl import __version__
from sr4mdl.errors import CheckpointError, VocabularyMismatchError
from sr4mdl.mdlformer.config import ModelConfig
from sr4mdl.mdlformer.tokens import TOKENS_VERSION
from sr4mdl.moves import (
    COLUMN_ACTIONS,
    MAX_COLUMNS,
    MOVES_VERSION,
    PAIR_OPERATORS,
    TARGET_TRANSFORMS,
)

FORMAT: Final = "sr4mdl-mdlformer"
VERSION: Final = 1
Kind = Literal["model", "training", "onnx"]


@cache
def moves_fingerprint() -> str:
    """Return a SHA-256 of the table of moves, in the order of ids."""
    table = {
        "max_columns": MAX_COLUMNS,
        "column": [
            [
                action.operator.name,
                action.constant,
                action.constant_first,
                action.peels_target,
            ]
            for action in COLUMN_ACTIONS
        ],
        "pair": [[operator.name, operator.commutes] for operator in PAIR_OPERATORS],
        "target": [operator.name for operator in TARGET_TRANSFORMS],
    }
    return hashlib.sha256(json.dumps(table).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """What is told about where weights come from."""

    samples: int = 0
    """States seen in training."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the data."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """How well the weights did, on what."""
    commit: str | None = None
    """Commit of the code that trained them."""


def facts_of(card: Mapping[str, Any]) -> TrainingFacts:
    """Return the facts that a card tells, to hand them on."""
    return TrainingFacts(
        **{entry.name: card[entry.name] for entry in fields(TrainingFacts)}
    )


def make_card(kind: Kind, config: ModelConfig, facts: TrainingFacts) -> dict[str, Any]:
    """Return a card without files; the writer adds them."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "package_version": __version__,
        "commit": facts.commit,
        "config": config.to_dict(),
        "moves_version": MOVES_VERSION,
        "moves_fingerprint": moves_fingerprint(),
        "tokens_version": TOKENS_VERSION,
        "samples": facts.samples,
        "data": dict(facts.data),
        "training": dict(facts.training),
        "metrics": dict(facts.metrics),
        "files": [],
    }


def check_card(card: Any, kind: Kind, origin: str) -> dict[str, Any]:
    """Return the card if it is one of ours, of that kind, for today's moves.

    Raises
    ------
    CheckpointError
        If it is foreign, damaged, of another kind or newer than this package.
    VocabularyMismatchError
        If it was made for another table of moves or tokens.
    """
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise CheckpointError(f"{origin} is not a card of format {FORMAT!r}")
    if card.get("version") != VERSION:
        raise CheckpointError(
            f"{origin} has version {card.get('version')!r}, "
            f"this package reads {VERSION}"
        )
    if card.get("kind") != kind:
        raise CheckpointError(f"{origin} is of kind {card.get('kind')!r}, not {kind!r}")
    if (
        card.get("moves_version") != MOVES_VERSION
        or card.get("moves_fingerprint") != moves_fingerprint()
    ):
        raise VocabularyMismatchError(
            f"{origin} was made for another table of moves "
            f"(version {card.get('moves_version')!r}, this package has {MOVES_VERSION})"
        )
    if card.get("tokens_version") != TOKENS_VERSION:
        raise VocabularyMismatchError(
            f"{origin} was made for another table of tokens "
            f"(version {card.get('tokens_version')!r}, "
            f"this package has {TOKENS_VERSION})"
        )
    return card


def card_config(card: Mapping[str, Any], origin: str) -> ModelConfig:
    """Return the network's config that the card states."""
    try:
        return ModelConfig.from_dict(card["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{origin} states no usable config: {error}") from error


def read_card(path: Path, kind: Kind) -> dict[str, Any]:
    """Read and check a card file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    try:
        card = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    return check_card(card, kind, str(path))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def file_entry(name: str, content: bytes) -> dict[str, Any]:
    """Return what a card says about a file."""
    return {
        "name": name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def read_listed_file(directory: Path, entry: Any) -> bytes:
    """Return the content of a file that a card lists, after checking it."""
    if (
        not isinstance(entry, dict)
        or not {"name", "bytes", "sha256"} <= entry.keys()
        or not isinstance(entry["name"], str)
        or Path(entry["name"]).name != entry["name"]
    ):
        raise CheckpointError(f"card lists a file in a way not understood: {entry!r}")
    path = directory / entry["name"]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if len(content) != entry["bytes"]:
        raise CheckpointError(
            f"{path} has {len(content)} bytes, its card says {entry['bytes']}: "
            "it was cut short or exchanged"
        )
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise CheckpointError(f"{path} is damaged: its SHA-256 is not the card's")
    return content


def current_commit() -> str | None:
    """Return the commit of the working tree this package runs from, if there is one."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
