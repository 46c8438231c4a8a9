"""Batches made on a GPU stream of their own, beside the network's work.

The loop queues a step and at once asks for the next batch; on a stream of its own the
batch is made while the step still runs, and a source that waits for its copies waits
for that stream alone.
"""

from dataclasses import fields

import torch
from torch import Tensor

from sr4mdl.training.batch import (
    ClosableSource,
    DeviceBatch,
    Phase,
    PhasedSource,
    PlannedSource,
    ReportingSource,
    Source,
)


class SideStreamSource:
    """A source whose batches are made on a stream of their own.

    Parameters
    ----------
    source : Source
        What makes the batches; closed with this one.
    device : torch.device
        A cuda device.
    """

    def __init__(self, source: Source, device: torch.device) -> None:
        if device.type != "cuda":
            raise ValueError(f"device must be a cuda device, got {device}")
        self._source = source
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def next_batch(self) -> DeviceBatch:
        """Return the next batch, safe to use on the current stream."""
        with torch.cuda.stream(self._stream):
            batch = self._source.next_batch()
        used_on = torch.cuda.current_stream(self._device)
        used_on.wait_stream(self._stream)
        for part in fields(batch):
            tensor = getattr(batch, part.name)
            if isinstance(tensor, Tensor) and tensor.is_cuda:
                # Its memory must not be reused before that stream is done with it.
                tensor.record_stream(used_on)
        return batch

    def set_phase(self, phase: Phase) -> None:
        """Tell the source."""
        if isinstance(self._source, PhasedSource):
            self._source.set_phase(phase)

    def set_position(self, position: float) -> None:
        """Tell the source."""
        if isinstance(self._source, PlannedSource):
            self._source.set_position(position)

    def report(self) -> dict[str, float]:
        """Return the source's counts."""
        if not isinstance(self._source, ReportingSource):
            return {}
        with torch.cuda.stream(self._stream):
            return self._source.report()

    def close(self) -> None:
        """Close the source."""
        if isinstance(self._source, ClosableSource):
            self._source.close()
