"""A trained network as one ONNX file that reads raw numbers.

Features, standardisation and tokens are inside the graph; numbers of states, rows and
columns are free. The card travels in the file's metadata and beside it as JSON.
"""

import json
import logging
import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from sr4mdl.mdlformer.card import (
    TrainingFacts,
    facts_of,
    file_entry,
    make_card,
    write_atomically,
)
from sr4mdl.mdlformer.checkpoint import json_bytes, load_model
from sr4mdl.mdlformer.layers import KERNELS
from sr4mdl.mdlformer.network import Network
from sr4mdl.mdlformer.onnx_int8 import Feeds, with_integer_products

INPUT_NAMES: Final = ("columns", "target", "column_mask", "row_mask")
OUTPUT_NAMES: Final = ("value_mean", "value_log_spread", "policy")
CARD_KEY: Final = "sr4mdl_card"
OPSET: Final = 20
ENCODER_PREFIX: Final = "/layers."
"""Names of the nodes inside the encoder's layers begin so."""
HALF_ABOVE_BYTES: Final = 20_000_000
"""Files that would be larger store their big tensors in half precision."""


class _Plain(nn.Module):
    """The network with plain tensors in and out."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, columns: Tensor, target: Tensor, column_mask: Tensor, row_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return self.network.compute(columns, target, column_mask, row_mask)[:3]


def export_onnx(
    network: Network,
    path: Path | str,
    facts: TrainingFacts,
    *,
    half: bool | None = None,
    feeds: Feeds | None = None,
) -> Path:
    """Write the network as ONNX with a JSON card beside it; return the ONNX path.

    Parameters
    ----------
    network : Network
        On the CPU; exported as in evaluation.
    path : Path or str
        Ends in ``.onnx``; the card gets the same name with ``.json``.
    facts : TrainingFacts
        Told in the card.
    half : bool, optional
        Whether big tensors are stored in half precision (they are computed with in
        float32 all the same). By default if the file would pass 20 MB.
    feeds : iterable of mapping, optional
        States, by the names of the inputs. With them the encoder's layers multiply in
        eight-bit integers, whose scales are measured on these states: faster, and no
        longer equal to torch's answers to three digits.
    """
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"path must end in .onnx, got {path}")
    was_training = network.training
    network.eval()
    try:
        model = _trace(network)
    finally:
        network.train(was_training)
    _drop_traces(model)
    if feeds is not None:
        model = with_integer_products(model, feeds, ENCODER_PREFIX)
    if half is None:
        half = model.ByteSize() > HALF_ABOVE_BYTES
    if half:
        _store_half(model)
    card = make_card("onnx", network.config, facts)
    helper.set_model_props(model, {CARD_KEY: json.dumps(card)})
    content = model.SerializeToString()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    card["files"] = [file_entry(path.name, content)]
    write_atomically(path.with_suffix(".json"), json_bytes(card))
    return path


def export_checkpoint(
    checkpoint: Path | str,
    path: Path | str,
    *,
    half: bool | None = None,
    feeds: Feeds | None = None,
) -> Path:
    """Write a saved model as ONNX; its card is handed on.

    Parameters
    ----------
    checkpoint : Path or str
        Directory with ``model.json``, or the card itself.
    path : Path or str
        Ends in ``.onnx``.
    half, feeds : optional
        As in :func:`export_onnx`.
    """
    loaded = load_model(checkpoint)
    facts = facts_of(loaded.card)
    return export_onnx(loaded.network, path, facts, half=half, feeds=feeds)


def _trace(network: Network) -> onnx.ModelProto:
    states, rows, columns = 3, 7, 5
    mask = torch.ones(states, columns, dtype=torch.bool)
    mask[0, 2:] = False
    example = (
        torch.linspace(-2.0, 3.0, states * rows * columns).reshape(
            states, rows, columns
        ),
        torch.linspace(1.0, 2.0, states * rows).reshape(states, rows),
        mask,
        torch.ones(states, rows, dtype=torch.bool),
    )
    by_state, by_row = {0: "states"}, {0: "states", 1: "rows"}
    with _quiet_export(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traced.onnx"
        # The tracing exporter takes seconds where the newer one, with three free
        # axes, takes minutes. Once torch drops it: dynamo=True and dynamic_shapes.
        torch.onnx.export(
            _Plain(network).cpu(),
            example,
            path,
            input_names=list(INPUT_NAMES),
            output_names=list(OUTPUT_NAMES),
            opset_version=OPSET,
            dynamic_axes={
                "columns": {**by_row, 2: "columns"},
                "target": by_row,
                "column_mask": {0: "states", 1: "columns"},
                "row_mask": by_row,
                **dict.fromkeys(OUTPUT_NAMES, by_state),
            },
            dynamo=False,
        )
        return onnx.load_model(path)


@contextmanager
def _quiet_export() -> Iterator[None]:
    """Trace with plain matrix products, without the exporter's own chatter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    KERNELS.explicit = True
    try:
        with warnings.catch_warnings():
            # Deprecations inside the exporter are not ours to fix.
            warnings.simplefilter("ignore")
            yield
    finally:
        KERNELS.explicit = False
        logger.setLevel(level)


def _drop_traces(model: onnx.ModelProto) -> None:
    """Remove the source lines that the exporter attaches to every node."""
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    for tensor in model.graph.initializer:
        del tensor.metadata_props[:]
    del model.graph.metadata_props[:]


def _store_half(model: onnx.ModelProto) -> None:
    """Replace big float32 tensors by half precision ones that are cast when loaded."""
    graph = model.graph
    casts = []
    kept: list[Any] = []
    for tensor in graph.initializer:
        big = math.prod(tensor.dims) >= 1_024
        if tensor.data_type != TensorProto.FLOAT or not big:
            kept.append(tensor)
            continue
        values = numpy_helper.to_array(tensor)
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        if not np.isfinite(half).all():
            kept.append(tensor)
            continue
        name = f"{tensor.name}.half"
        kept.append(numpy_helper.from_array(half, name))
        casts.append(
            helper.make_node("Cast", [name], [tensor.name], to=TensorProto.FLOAT)
        )
    nodes = [*casts, *graph.node]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.node[:]
    graph.node.extend(nodes)
