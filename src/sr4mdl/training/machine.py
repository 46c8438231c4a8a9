"""What this machine can take: batch sizes and workers where none are asked for.

Rules of thumb from measured trainings (see the log): small batches are held up by
launching kernels, and too few workers leave a GPU waiting.
"""

import os
from typing import Final

import torch

from sr4mdl.mdlformer.config import Architecture, ModelConfig

CPU_BATCH_SIZE: Final = 64
"""States a batch without a GPU."""
WARMUP_STEPS: Final = 100
"""Fewer steps of warm-up than that have broken trainings with large batches."""
_MOST_STATES: Final[dict[Architecture, int]] = {
    "cells": 24_000,
    "rows": 4_096,
    "tokens": 1_024,
}
"""Larger batches gain nothing, or were never tried; 1,024 is the paper's."""
_BYTES_PER_UNIT: Final[dict[Architecture, int]] = {
    "cells": 160,
    "rows": 40,
    "tokens": 40,
}
"""Memory of a training step for each row of a state, unit of width and layer: 41 GB for
16,000 states of 32 rows in cells of width 128 in 4 layers, 10 GB for 1,024 pairs of 64
rows in width 512 and 8 layers. Rows were not measured."""
_SHARE_OF_MEMORY: Final = 0.6
_STEP: Final = 64


def gpu_batch_size(model: ModelConfig, n_rows: int, memory: int) -> int:
    """Return how many states to train on at once on a GPU.

    Parameters
    ----------
    model : ModelConfig
        The network.
    n_rows : int
        Rows a state has at most, at any time of the plan.
    memory : int
        Bytes that the GPU has; all of them, free or not, so that a resumed training
        gets the same batches.
    """
    per_state = (
        _BYTES_PER_UNIT[model.architecture] * n_rows * model.width * model.n_layers
    )
    fitting = int(_SHARE_OF_MEMORY * memory / per_state) // _STEP * _STEP
    return max(_STEP, min(_MOST_STATES[model.architecture], fitting))


def gpu_memory(device: torch.device) -> int:
    """Return the bytes of memory that a GPU has."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def gpu_workers(n_cores: int, n_trainings: int, *, whole_formulas: bool) -> int:
    """Return how many processes should make the formulas of one training.

    Parameters
    ----------
    n_cores : int
        Cores that may be used.
    n_trainings : int
        Training processes that share them.
    whole_formulas : bool
        Whether every state is a formula of its own, as in the paper's pairs; formulas
        with many states each need half the workers.
    """
    share = n_cores // n_trainings
    return max(1, share - 2 if whole_formulas else share // 2)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
