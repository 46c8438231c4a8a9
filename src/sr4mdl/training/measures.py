"""Measures of a run that stay on the device until they are asked for."""

import contextlib
import math
import time
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from sr4mdl.mdlformer.network import NetworkOutput
from sr4mdl.training.batch import DeviceBatch
from sr4mdl.training.losses import best_correct_ranks


def add(totals: dict[str, Tensor], name: str, value: Tensor) -> None:
    """Add to a named total, on the device."""
    totals[name] = totals[name] + value if name in totals else value


def count(totals: dict[str, Tensor], output: NetworkOutput, batch: DeviceBatch) -> None:
    """Add weighted counts from which :func:`shares` makes measures."""
    weight = batch.weight
    ranks = best_correct_ranks(output.policy, batch.moves)
    policy_weight = weight * (ranks > 0)
    for limit in (1, 3, 10, 30):
        hits = (policy_weight * (ranks <= limit)).sum()
        add(totals, f"count_top{limit}", hits)
    add(totals, "count_moves", policy_weight.sum())
    error = output.value_mean - batch.value
    scaled = error * torch.exp(-output.value_log_spread)
    add(totals, "count_error", (weight * error * error).sum())
    add(totals, "count_scaled", (weight * scaled * scaled).sum())
    add(totals, "count_states", weight.sum())


def shares(totals: Mapping[str, Tensor]) -> dict[str, float]:
    """Return errors of the value and shares of states by rank of the best move."""
    if not totals:
        return {}
    states = float(totals["count_states"])
    moves = float(totals["count_moves"])
    result = {}
    if states > 0:
        result["value_rmse"] = math.sqrt(float(totals["count_error"]) / states)
        # 1 when the stated spread is as large as the errors are.
        result["value_scaled_rmse"] = math.sqrt(float(totals["count_scaled"]) / states)
    if moves > 0:
        for limit in (1, 3, 10, 30):
            result[f"top{limit}"] = float(totals[f"count_top{limit}"]) / moves
    return result


class WaitMeter:
    """Share of time in which the device (or on the CPU: the loop) waits for data.

    On a GPU, time is taken on the device from the end of a step to the moment the
    next batch is ready there: idle time and the making of batches both count.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._waited = 0.0
        self._since = 0.0

    def start(self) -> None:
        """Begin anew."""
        self._since = time.perf_counter()
        self._waited = 0.0
        self._pairs = []

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of the block as waiting."""
        if self._cuda:
            before = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            after = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            before.record()
            yield
            after.record()
            self._pairs.append((before, after))
        else:
            begin = time.perf_counter()
            yield
            self._waited += time.perf_counter() - begin

    def share(self) -> float:
        """Return the share since the last call and begin anew."""
        if self._pairs:
            torch.cuda.synchronize()
            self._waited = sum(a.elapsed_time(b) for a, b in self._pairs) / 1000.0
        spent = time.perf_counter() - self._since
        result = self._waited / max(spent, 1e-9)
        self.start()
        return min(result, 1.0)
