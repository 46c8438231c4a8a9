"""Keep a training checkpoint small: ``python scripts/pack_checkpoint.py FROM TO``.

What is needed to measure the network and to train it further stays, in eight bits;
raw weights and moments go. ``sr4mdl train --resume TO`` continues the plan, ``--init
TO`` begins a new one, and ``sr4mdl bench mdlformer --weights TO`` measures the network.
"""

import argparse
import sys
from pathlib import Path

from sr4mdl.mdlformer.checkpoint import TRAINING_STEM, write_store
from sr4mdl.training.state import packed_state


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="directory of a training")
    parser.add_argument("target", type=Path, help="directory to write")
    parser.add_argument(
        "--network-alone", action="store_true",
        help="leave out the encoder and the writer of formulas, which start anew then",
    )  # fmt: skip
    arguments = parser.parse_args()
    card, tensors = packed_state(arguments.source, teachers=not arguments.network_alone)
    path = write_store(arguments.target, TRAINING_STEM, tensors, card)
    size = sum(file.stat().st_size for file in path.parent.glob(f"{TRAINING_STEM}*"))
    print(f"{path}: {card['samples']:,} samples, {size / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
