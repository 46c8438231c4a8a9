"""Put a trained network into the package: half-precision weights and an ONNX file.

    python scripts/ship_model.py runs/a

writes ``model.json`` with its weights and ``default.onnx`` with its card. In the ONNX
file the encoder multiplies in integers; how large its activations become is measured on
generated states, with pairs among them if the network was trained on such.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from sr4mdl.mdlformer.card import facts_of
from sr4mdl.mdlformer.checkpoint import load_model, save_model
from sr4mdl.mdlformer.guide import DEFAULT_PATH
from sr4mdl.mdlformer.onnx_export import INPUT_NAMES, export_checkpoint
from sr4mdl.training.source_table import SourceRequest, draw_batches

N_BATCHES = 4
SEED = 2_000_003
"""Apart from those of training and of held-out states."""
SHARED_SETTINGS = ("paper_share", "formula_constants")
"""Settings of the source that decide what states look like."""


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, help="directory with model.json")
    parser.add_argument("--out", type=Path, default=DEFAULT_PATH.parent)
    args = parser.parse_args()
    loaded = load_model(args.checkpoint)
    save_model(args.out, loaded.network, facts_of(loaded.card), dtype="float16")
    # From the weights as shipped, so that both files hold the same network.
    export_checkpoint(
        args.out,
        args.out / DEFAULT_PATH.name,
        half=True,
        feeds=generated_feeds(loaded.network.config.n_rows, loaded.card["data"]),
    )
    for written in sorted(args.out.iterdir()):
        print(f"{written.stat().st_size:>10,}  {written}")


def generated_feeds(n_rows: int, data: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return inputs of states generated as those of training were."""
    options = {key: str(data[key]) for key in SHARED_SETTINGS if key in data}
    request = SourceRequest(
        batch_size=256, n_rows=n_rows, device=torch.device("cpu"), seed=SEED,
        options=options,
    )  # fmt: skip
    return [
        {name: getattr(batch, name).numpy() for name in INPUT_NAMES}
        for batch in draw_batches("corpus", request, N_BATCHES)
    ]


if __name__ == "__main__":
    main()
