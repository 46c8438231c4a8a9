"""Sources by name: what the training command asks for and who answers."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import torch

from sr4mdl.training.batch import ClosableSource, DeviceBatch, Source, ToySource


@dataclass(frozen=True, kw_only=True)
class SourceRequest:
    """What the training command asks of a source."""

    batch_size: int
    """States a batch, per process."""
    n_rows: int
    """Rows a state."""
    device: torch.device
    """Where batches are wanted."""
    seed: int
    """Same seed, same states; differs between processes and for held-out states."""
    with_formulas: bool = False
    """Whether ``formula_tokens`` are needed."""
    n_workers: int | None = None
    """Processes that make formulas; None lets the source choose."""
    paper: bool = False
    """Whether the paper's distribution of formulas is wanted."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further settings, as given on the command line."""


@dataclass(frozen=True)
class OpenedSource:
    """A source with its settings, for the card."""

    source: Source
    """Where batches come from."""
    settings: Mapping[str, Any]
    """Plain JSON values."""


def open_toy_source(request: SourceRequest) -> OpenedSource:
    """Return a toy source."""
    max_columns = int(request.options.get("max_columns", "5"))
    source = ToySource(
        request.batch_size,
        request.n_rows,
        request.device,
        seed=request.seed,
        max_columns=max_columns,
    )
    return OpenedSource(source, {"source": "toy", "max_columns": max_columns})


def open_corpus_source(request: SourceRequest) -> OpenedSource:
    """Return the source of random formulas; options are settings of its config."""
    from sr4mdl.training.source import CorpusSource
    from sr4mdl.training.source_config import FEWEST_ROWS, SourceConfig

    settings: dict[str, Any] = {
        "batch_size": request.batch_size,
        "n_rows": request.n_rows,
        "with_formula": request.with_formulas,
        "seed": request.seed,
    }
    if request.paper:
        settings |= {
            "distribution": "paper", "noise_rate": 0.0, "batches_per_draw": 4,
        }  # fmt: skip
    if request.n_workers is not None:
        settings["n_workers"] = request.n_workers
    kinds: dict[str, Any] = {entry.name: entry.type for entry in fields(SourceConfig)}
    for key, text in request.options.items():
        if key not in kinds:
            raise ValueError(
                f"--data-option {key} is unknown; known are {', '.join(kinds)}"
            )
        if key == "batch_size":  # the plan needs it too
            raise ValueError(f"--data-option {key} must be given as --batch-size")
        kind = kinds[key] if kinds[key] in (int, float) else str
        settings[key] = kind(text)
    n_rows = settings["n_rows"]
    settings.setdefault("n_candidates", max(n_rows, n_rows * 5 // 3))
    settings.setdefault("min_rows", min(FEWEST_ROWS, n_rows))
    config = SourceConfig(**settings)
    source = CorpusSource(config, request.device, compile=request.device.type == "cuda")
    return OpenedSource(source, {"source": "corpus", **asdict(config)})


SOURCES: Final[Mapping[str, Callable[[SourceRequest], OpenedSource]]] = {
    "corpus": open_corpus_source,
    "toy": open_toy_source,
}
"""Functions that open a source, by name."""


_OF_THE_PLAN: Final = ("small_until", "late_rows", "late_from")
"""Options by which batches change in the course of a training."""


def draw_batches(name: str, request: SourceRequest, count: int) -> list[DeviceBatch]:
    """Return the first batches of a source of its own, which is closed again.

    What changes in the course of a training is left out: formulas have their full
    size and tables the rows of the beginning.
    """
    options = {k: v for k, v in request.options.items() if k not in _OF_THE_PLAN}
    source = SOURCES[name](replace(request, options=options)).source
    try:
        return [source.next_batch() for _ in range(count)]
    finally:
        if isinstance(source, ClosableSource):
            source.close()
