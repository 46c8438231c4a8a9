"""Training states without end: worker processes draw them, the device computes them.

Workers write labelled states into shared memory; the training process copies them to
the device and computes batches there. Batches hold none of the states that are
refused: the network's time goes to states that count, and samples seen are samples
learned from.
"""

import errno
import multiprocessing
import os
import queue
import shutil
import time
from dataclasses import replace
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from sr4mdl.corpus.states import StateArrays
from sr4mdl.training.batch import PHASES, DeviceBatch, Phase
from sr4mdl.training.source_config import SourceConfig
from sr4mdl.training.state_computer import StateComputer
from sr4mdl.training.state_maker import StateMaker

_WORKER_NICENESS: Final = 15
_SHARED_MEMORY: Final = Path("/dev/shm")
"""Where shared memory lies on Linux; elsewhere it is not limited that way."""


def _array_specification(
    config: SourceConfig,
) -> list[tuple[str, tuple[int, ...], Any]]:
    n_states = config.draw_size
    empty: dict[str, Any] = StateArrays.empty(0)._asdict()
    return [
        (name, (n_states, *array.shape[1:]), array.dtype)
        for name, array in empty.items()
    ] + [
        ("is_pair", (n_states,), np.dtype(np.bool_)),
        ("tokens", (n_states, config.n_tokens), np.dtype(np.int16)),
    ]


def _slot_size(config: SourceConfig) -> int:
    return sum(
        -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 64) * 64
        for _, shape, dtype in _array_specification(config)
    )


def _slot_views(buffer: Any, slot: int, config: SourceConfig) -> dict[str, Any]:
    """Return the arrays that lie in one slot of the shared memory."""
    offset = slot * _slot_size(config)
    views = {}
    for name, shape, dtype in _array_specification(config):
        views[name] = np.ndarray(shape, dtype, buffer=buffer, offset=offset)
        offset += -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 64) * 64
    return views


def _open_shared_memory(size: int) -> shared_memory.SharedMemory:
    """Return shared memory that is there: writing to what is not kills a process."""
    memory = shared_memory.SharedMemory(create=True, size=size)
    file = _SHARED_MEMORY / memory.name.lstrip("/")
    if not file.exists():
        return memory
    descriptor = os.open(file, os.O_RDWR)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        free = shutil.disk_usage(_SHARED_MEMORY).free
        memory.close()
        memory.unlink()
        if error.errno != errno.ENOSPC:
            raise
        raise ValueError(
            "batch_size and n_workers must fit into shared memory: they need "
            f"{size / 1e6:,.0f} MB, {_SHARED_MEMORY} has {free / 1e6:,.0f} MB free. "
            "Lower --batch-size or --workers, or give a container more (--shm-size)"
        ) from error
    finally:
        os.close(descriptor)
    return memory


def _work(
    config: SourceConfig,
    worker: int,
    memory_name: str,
    free: Any,
    ready: Any,
    phase: Any,
    position: Any,
) -> None:
    """Fill free slots until told to stop (slot None) or left alone."""
    # The training process compiles and feeds the device; workers take what is left.
    os.nice(_WORKER_NICENESS)
    training = multiprocessing.parent_process()
    assert training is not None
    memory = shared_memory.SharedMemory(memory_name)
    maker = StateMaker(config, worker)

    def renew(count: int) -> None:
        maker.renew(count, config.growth(position.value))

    while position.value < 0 and training.is_alive():
        # Formulas grow with the plan, and a resumed one does not begin at 0.
        time.sleep(0.01)
    renew(min(config.first_fill, config.bank_capacity))
    while training.is_alive():
        try:
            slot = free.get(timeout=0.02)
        except queue.Empty:
            # The device is busy: use the time for new formulas.
            renew(20)
            continue
        if slot is None:
            break
        renew(config.fresh_per_draw)
        views = _slot_views(memory.buf, slot, config)
        for name, array in maker.draw(PHASES[phase.value]).items():
            views[name][...] = array
        del views
        ready.put(slot)
    memory.close()


class CorpusSource:
    """Batches of training states from worker processes; close it when done.

    Parameters
    ----------
    config : SourceConfig
        What to draw.
    device : torch.device
        Where the batches are computed.
    compile : bool, default=False
        Whether the programs' interpreter is compiled (pays on a GPU).
    """

    _SLOTS_PER_WORKER: Final = 3

    def __init__(
        self, config: SourceConfig, device: torch.device, *, compile: bool = False
    ) -> None:
        self.config = config
        self.computer = StateComputer(config, device, compile=compile)
        context = multiprocessing.get_context("spawn")
        self._n_slots = self._SLOTS_PER_WORKER * config.n_workers
        size = self._n_slots * _slot_size(config)
        self._memory = _open_shared_memory(size)
        # Until told: pairs that may be aligned, where that can be.
        first: Phase = "both" if config.with_formula else "predict"
        self._phase = context.Value("i", PHASES.index(first))
        self._position = context.Value("d", -1.0 if config.small_until > 0 else 1.0)
        self._left: DeviceBatch | None = None
        self._free = context.Queue()
        self._ready = context.Queue()
        for slot in range(self._n_slots):
            self._free.put(slot)
        self._workers = [
            context.Process(
                target=_work,
                args=(
                    config,
                    number,
                    self._memory.name,
                    self._free,
                    self._ready,
                    self._phase,
                    self._position,
                ),
                daemon=True,
            )
            for number in range(config.n_workers)
        ]
        for worker in self._workers:
            worker.start()

    def next_batch(self) -> DeviceBatch:
        """Return the next batch; waits for the workers if it must."""
        self._begin()
        left, size = self._left, self.config.batch_size
        while left is None or left.n_states < size:
            drawn = self._draw()
            left = drawn if left is None else left.joined(drawn)
        self._left = left.part(size, left.n_states)
        return left.part(0, size)

    def _draw(self) -> DeviceBatch:
        """Compute the states of one slot; return those that are not refused."""
        while True:
            try:
                slot = self._ready.get(timeout=5.0)
                break
            except queue.Empty:
                dead = [worker for worker in self._workers if not worker.is_alive()]
                if dead:
                    raise RuntimeError(
                        f"{len(dead)} corpus workers ended with exit codes "
                        f"{[worker.exitcode for worker in dead]}"
                    ) from None
        views = _slot_views(self._memory.buf, slot, self.config)
        if not self.config.with_formula:
            del views["tokens"]
        counts = torch.from_numpy(views["n_columns"].astype(np.int64))
        n_steps = int(np.flatnonzero(views["opcodes"].any(axis=0))[-1]) + 1
        states = self.computer.move(views)
        if self.computer.device.type == "cuda":
            torch.cuda.current_stream().synchronize()
        del views
        self._free.put(slot)
        states["column_counts"] = counts
        batch = self.computer.compute(states, n_steps=n_steps).kept()
        return replace(batch, all_rows=self.computer.config.all_rows)

    def _begin(self) -> None:
        """Let waiting workers begin at the start of the plan, if nothing was told."""
        if self._position.value < 0:
            self._position.value = 0.0

    def set_phase(self, phase: Phase) -> None:
        """Draw the states of this phase from now on."""
        self._phase.value = PHASES.index(phase)

    def set_position(self, position: float) -> None:
        """Draw from now on what is planned for this position."""
        self._position.value = position
        config = self.config.at(position)
        if config.n_rows != self.computer.config.n_rows:
            self.computer.config = config
            self._left = None

    def report(self) -> dict[str, float]:
        """Return the share of refused states, their bias and the workers lost."""
        lost = sum(not worker.is_alive() for worker in self._workers)
        return {**self.computer.refusals().report(), "lost_workers": float(lost)}

    def close(self) -> None:
        """Stop the workers and release the shared memory."""
        self._begin()
        for _ in self._workers:
            self._free.put(None)
        deadline = time.monotonic() + 5.0
        for worker in self._workers:
            worker.join(max(0.1, deadline - time.monotonic()))
            if worker.is_alive():
                worker.terminate()
                worker.join()
        self._memory.close()
        self._memory.unlink()
