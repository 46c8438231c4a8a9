"""Training states without end: worker processes draw them, the device computes them.

Workers keep a ring of random skeletons that they renew all the time, and write
labelled states into shared memory. The training process copies them to the device,
draws inputs, runs the programs there, drops rows outside the domain and refuses
states that keep too few. Batches hold none of the refused: the network's time goes to
states that count, and samples seen are samples learned from. The share and the mean
length of refused states are counted, because refusal favours short formulas.
"""

import multiprocessing
import os
import queue
import random
import time
from dataclasses import dataclass, replace
from multiprocessing import shared_memory
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor

from sr4mdl.corpus.formulas import (
    MAX_LENGTH,
    PAPER_CONSTANTS,
    VARIABLE_NAMES,
    Distribution,
    PaperConstants,
    sample_formula,
)
from sr4mdl.corpus.skeletons import (
    SkeletonBank,
    SkeletonTooLargeError,
    build_skeleton,
)
from sr4mdl.corpus.states import (
    FIRST_CONSTANT,
    FIRST_OUTPUT,
    N_INPUTS,
    N_REGISTERS,
    PAIR_RATES,
    StateArrays,
    StateRates,
    sample_states,
)
from sr4mdl.evaluate.torch_programs import run_programs
from sr4mdl.moves import MAX_COLUMNS
from sr4mdl.training.batch import PHASES, DeviceBatch, Phase
from sr4mdl.training.inputs import DEFAULT_SHARES, MIXTURE_ONLY, draw_inputs

LARGEST_VALUE: Final = 1e30
"""Rows with larger magnitudes than this are outside the domain."""

_MAX_TOKENS_WITH_DIGITS: Final = 80
"""None among 6,000 of the paper's formulas has more."""
_MAX_TOKENS: Final = -(-MAX_LENGTH // 8) * 8
_WORKER_NICENESS: Final = 15
FEWEST_ROWS: Final = 16
"""States that keep fewer rows are refused, unless told otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceConfig:
    """How training states are drawn."""

    distribution: Distribution = "default"
    """Which formulas; ``paper`` also means whole formulas only, on mixtures."""
    paper_share: float = 0.0
    """Share of states of the paper's distribution among those of the default one, so
    that a network that searches also knows how long whole formulas are."""
    formula_constants: PaperConstants = "decades"
    """How large the constants of the paper's formulas are: three decades alike, as in
    the generator it takes, or uniform up to 100, as its text says."""
    batch_size: int = 8192
    """States per batch."""
    batches_per_draw: int = 1
    """Batches that are computed at once: small ones are held up by launches."""
    n_rows: int = 48
    """Rows a state has at most."""
    n_candidates: int = 80
    """Rows drawn, of which those inside the domain are kept."""
    min_rows: int = FEWEST_ROWS
    """States that keep fewer rows are refused."""
    fewer_rows_rate: float = 0.3
    """Share of states cut to a random number of rows."""
    noise_rate: float = 0.3
    """Share of states with noise on the target."""
    bank_capacity: int = 20_000
    """Skeletons a worker keeps."""
    first_fill: int = 500
    """Skeletons a worker makes before its first batch."""
    fresh_per_draw: int = 150
    """Skeletons a worker renews for each draw at least."""
    n_workers: int = 1
    """Worker processes."""
    latent_rate: float = 0.15
    """Share of states whose variables are random functions of hidden ones."""
    with_formula: bool = False
    """Whether batches carry the formula's tokens, for alignment."""
    constants: Literal["digits", "sign"] = "digits"
    """How these tokens tell constants: in three tokens, or by their sign alone."""
    seed: int = 0
    """Seed of everything; each worker derives its own."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_rows <= self.n_rows <= self.n_candidates:
            raise ValueError(
                "rows must satisfy 1 <= min_rows <= n_rows <= n_candidates, got "
                f"{self.min_rows}, {self.n_rows}, {self.n_candidates}"
            )
        for name in (
            "batch_size", "batches_per_draw", "bank_capacity", "first_fill",
            "n_workers",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}"
                )
        if not 0.0 <= self.paper_share < 1.0:
            raise ValueError(f"paper_share must be in [0, 1), got {self.paper_share}")
        if self.paper_share > 0 and self.distribution == "paper":
            raise ValueError(
                "paper_share must be 0 if the distribution is paper, "
                f"got {self.paper_share}"
            )
        if self.formula_constants not in PAPER_CONSTANTS:
            raise ValueError(
                f"formula_constants must be {' or '.join(PAPER_CONSTANTS)}, "
                f"got {self.formula_constants!r}"
            )
        if self.constants not in ("digits", "sign"):
            raise ValueError(
                f"constants must be digits or sign, got {self.constants!r}"
            )

    @property
    def all_rows(self) -> bool:
        """Whether states have all rows or are refused."""
        return self.min_rows == self.n_rows and self.fewer_rows_rate == 0.0

    @property
    def draw_size(self) -> int:
        """States that are drawn and computed at once."""
        return self.batch_size * self.batches_per_draw

    def parts(self) -> "list[tuple[SourceConfig, int]]":
        """Return a config of one distribution and its states in a draw, for each."""
        n_pairs = round(self.paper_share * self.draw_size)
        alone = replace(self, paper_share=0.0)
        parts = [(alone, self.draw_size - n_pairs)]
        if n_pairs:
            parts.append((replace(alone, distribution="paper"), n_pairs))
        return parts

    @property
    def n_tokens(self) -> int:
        """Tokens a formula has at most; longer ones are drawn again."""
        return _MAX_TOKENS_WITH_DIGITS if self.constants == "digits" else _MAX_TOKENS

    def rates(self, phase: Phase) -> StateRates:
        """Return the rates for the state sampler in a phase of training.

        Alignment is on plain tables, and its formulas are told to the network with
        their constants and order of variables; prediction may vary both, which makes
        many pairs of one formula.
        """
        if self.distribution != "paper":
            return StateRates(latent=self.latent_rate)
        if phase == "align":
            return PAIR_RATES
        if phase == "both":
            return PAIR_RATES._replace(latent=self.latent_rate)
        # Constants drawn anew are of the decades.
        redraw = 0.5 if self.formula_constants == "decades" else 0.0
        return PAIR_RATES._replace(latent=self.latent_rate, redraw=redraw, shuffle=True)


class SkeletonRing:
    """A bank that is renewed row by row from a seeded stream of formulas."""

    def __init__(self, config: SourceConfig, seed: int) -> None:
        self.config = config
        self.rng = random.Random(seed)
        self.bank = SkeletonBank.empty(config.bank_capacity)
        self.tokens = (
            np.zeros((config.bank_capacity, config.n_tokens), np.int16)
            if config.with_formula
            else None
        )
        self.n_filled = 0
        self.position = 0

    def renew(self, count: int) -> None:
        """Replace the oldest ``count`` skeletons by new ones."""
        made = 0
        while made < count:
            formula = sample_formula(
                self.rng, self.config.distribution, self.config.formula_constants
            )
            names = VARIABLE_NAMES[: formula.n_variables]
            try:
                skeleton = build_skeleton(formula.expression, names)
            except SkeletonTooLargeError:
                continue
            if self.tokens is not None:
                from sr4mdl.mdlformer.tokens import formula_to_tokens

                ids = formula_to_tokens(
                    formula.expression, names, digits=self.config.constants == "digits"
                )
                if len(ids) > self.config.n_tokens:
                    continue
                self.tokens[self.position] = 0
                self.tokens[self.position, : len(ids)] = ids
            self.bank.store(self.position, skeleton)
            self.position = (self.position + 1) % self.bank.capacity
            self.n_filled = min(self.n_filled + 1, self.bank.capacity)
            made += 1


class StateMaker:
    """Draws the states of one worker: of one distribution, or of two, mixed.

    Parameters
    ----------
    config : SourceConfig
        What to draw.
    worker : int
        Number of the worker; each has a stream of its own.
    """

    def __init__(self, config: SourceConfig, worker: int) -> None:
        seed = config.seed * 1_000_003 + worker
        self._parts = [
            (SkeletonRing(part, seed + number * 500_009), count)
            for number, (part, count) in enumerate(config.parts())
        ]
        self._n_states = config.draw_size
        self._seeds = random.Random(config.seed * 7_919 + worker + 1)

    def renew(self, count: int) -> None:
        """Replace the oldest ``count`` skeletons, of each distribution by its share."""
        for ring, n_states in self._parts:
            ring.renew(max(1, count * n_states // self._n_states))

    def draw(self, phase: Phase) -> dict[str, Any]:
        """Return the arrays of the states of one draw, by the names of a slot."""
        drawn = [self._draw_part(ring, n, phase) for ring, n in self._parts]
        if len(drawn) == 1:
            return drawn[0]
        # Batches are cut off in order: mixed, each holds its share.
        rng = np.random.default_rng(self._seeds.getrandbits(63))
        order = rng.permutation(self._n_states)
        return {
            name: np.concatenate([part[name] for part in drawn])[order]
            for name in drawn[0]
        }

    def _draw_part(
        self, ring: SkeletonRing, n_states: int, phase: Phase
    ) -> dict[str, Any]:
        states = sample_states(
            ring.bank, ring.n_filled, n_states, self._seeds.getrandbits(31),
            ring.config.rates(phase),
        )  # fmt: skip
        arrays: dict[str, Any] = states._asdict()
        arrays["is_pair"] = np.full(n_states, ring.config.distribution == "paper")
        if ring.tokens is not None:
            arrays["tokens"] = ring.tokens[states.formula]
        return arrays


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


def _work(
    config: SourceConfig,
    worker: int,
    memory_name: str,
    free: Any,
    ready: Any,
    phase: Any,
) -> None:
    """Fill free slots until told to stop (slot None)."""
    # The training process compiles and feeds the device; workers take what is left.
    os.nice(_WORKER_NICENESS)
    memory = shared_memory.SharedMemory(memory_name)
    maker = StateMaker(config, worker)
    maker.renew(min(config.first_fill, config.bank_capacity))
    while True:
        try:
            slot = free.get(timeout=0.02)
        except queue.Empty:
            # The device is busy: use the time for new formulas.
            maker.renew(20)
            continue
        if slot is None:
            break
        maker.renew(config.fresh_per_draw)
        views = _slot_views(memory.buf, slot, config)
        for name, array in maker.draw(PHASES[phase.value]).items():
            views[name][...] = array
        del views
        ready.put(slot)
    memory.close()


@dataclass(slots=True)
class RefusalCount:
    """What was refused, to report the bias on length."""

    n_states: int = 0
    n_refused: int = 0
    value_sum: float = 0.0
    refused_value_sum: float = 0.0

    def report(self) -> dict[str, float]:
        """Return the share refused and the mean values of kept and refused states."""
        kept = max(1, self.n_states - self.n_refused)
        return {
            "refused_share": self.n_refused / max(1, self.n_states),
            "mean_value_kept": (self.value_sum - self.refused_value_sum) / kept,
            "mean_value_refused": self.refused_value_sum / max(1, self.n_refused),
        }


class StateComputer:
    """Turns states into batches on a device: inputs, programs, rows, noise."""

    def __init__(
        self, config: SourceConfig, device: torch.device, *, compile: bool = False
    ) -> None:
        self.config = config
        self.device = device
        self.compile = compile
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(config.seed)
        self.shares = MIXTURE_ONLY if config.distribution == "paper" else DEFAULT_SHARES
        self._counts = torch.zeros(4, device=device, dtype=torch.float64)

    def refusals(self) -> RefusalCount:
        """Return what was refused so far."""
        n_states, n_refused, values, refused = self._counts.tolist()
        return RefusalCount(int(n_states), int(n_refused), values, refused)

    def move(self, arrays: dict[str, Any] | StateArrays) -> dict[str, Tensor]:
        """Copy the arrays of states to the device."""
        if isinstance(arrays, StateArrays):
            arrays = arrays._asdict()
        # Always a copy: the arrays may lie in shared memory that is written again.
        return {
            name: torch.from_numpy(array).to(self.device, copy=True)
            for name, array in arrays.items()
        }

    def compute(
        self,
        states: dict[str, Tensor],
        inputs: Tensor | None = None,
        n_steps: int | None = None,
    ) -> DeviceBatch:
        """Return the batch; ``inputs`` (B, N_INPUTS, R) replace the random tables."""
        config = self.config
        n_states = len(states["value"])
        if inputs is None:
            inputs = draw_inputs(
                self.generator, n_states, config.n_candidates, N_INPUTS, self.shares,
                as_mixture=states.get("is_pair"),
            )  # fmt: skip
        registers = inputs.new_zeros(n_states, N_REGISTERS, inputs.shape[2])
        registers[:, :N_INPUTS] = inputs
        registers[:, FIRST_CONSTANT:FIRST_OUTPUT] = states["constants"][:, :, None]
        run_programs(
            states["opcodes"], states["first"], states["second"], registers,
            first_output=FIRST_OUTPUT, n_steps=n_steps, compile=self.compile,
        )  # fmt: skip
        number = torch.arange(MAX_COLUMNS, device=self.device)
        column_mask = number < states["n_columns"][:, None]
        columns = self._pick(registers, states["columns"])
        target = self._pick(registers, states["target"][:, None])[:, 0]
        valid = self._valid_rows(columns, target, column_mask)
        columns, target, row_mask = self._keep_rows(columns, target, valid)
        target = self._add_noise(target, row_mask)
        weight = self._weigh(target, row_mask, states["value"])
        shown = column_mask[:, :, None] & row_mask[:, None, :]
        return DeviceBatch(
            columns=torch.where(shown, columns, 0.0)
            .transpose(1, 2)
            .float()
            .contiguous(),
            target=torch.where(row_mask, target, 0.0).float(),
            column_mask=column_mask,
            row_mask=row_mask,
            value=states["value"],
            moves=states["moves"],
            weight=weight,
            formula_tokens=states.get("tokens"),
            column_counts=states.get("column_counts"),
        )

    def _pick(self, registers: Tensor, index: Tensor) -> Tensor:
        """Return registers (B, K, R) by index (B, K)."""
        wide = index.long()[:, :, None].expand(-1, -1, registers.shape[2])
        return registers.gather(1, wide)

    def _valid_rows(
        self, columns: Tensor, target: Tensor, column_mask: Tensor
    ) -> Tensor:
        """Return the rows (B, R) on which columns and target are usable numbers."""
        usable = columns.abs() < LARGEST_VALUE  # False for NaN as well
        inside = (usable | ~column_mask[:, :, None]).all(1)
        return inside & (target.abs() < LARGEST_VALUE)

    def _keep_rows(
        self, columns: Tensor, target: Tensor, valid: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Move the valid rows to the front and cut to the number of rows wanted."""
        n_rows = self.config.n_rows
        order = torch.argsort((~valid).to(torch.uint8), dim=1, stable=True)[:, :n_rows]
        valid = valid.gather(1, order)
        target = target.gather(1, order)
        wide = order[:, None, :].expand(-1, columns.shape[1], -1)
        columns = columns.gather(2, wide)
        n_states = len(target)
        cut = self._uniform(n_states) < self.config.fewer_rows_rate
        fewest = self.config.min_rows
        few = fewest + torch.floor((n_rows + 1 - fewest) * self._uniform(n_states))
        limit = torch.where(cut, few, torch.full_like(few, n_rows))
        valid = valid & (torch.arange(n_rows, device=self.device) < limit[:, None])
        return columns, target, valid

    def _add_noise(self, target: Tensor, row_mask: Tensor) -> Tensor:
        """Add Gaussian noise of 0.1 % to 10 % of the target's RMS to some states."""
        n_states = len(target)
        kept = torch.where(row_mask, target, 0.0)
        largest = kept.abs().amax(1, keepdim=True).clamp_min(1e-300)
        mean_square = ((kept / largest) ** 2).sum(1, keepdim=True) / row_mask.sum(
            1, keepdim=True
        ).clamp_min(1)
        level = 10.0 ** (2.0 * self._uniform(n_states) - 3.0)
        noisy = self._uniform(n_states) < self.config.noise_rate
        spread = torch.where(noisy, level, 0.0)[:, None] * largest * mean_square.sqrt()
        draw = torch.randn(
            target.shape, generator=self.generator, device=self.device,
            dtype=target.dtype,
        )  # fmt: skip
        return target + spread * draw

    def _weigh(self, target: Tensor, row_mask: Tensor, value: Tensor) -> Tensor:
        """Refuse states with too few rows or a target that does not vary."""
        low = torch.where(row_mask, target, torch.inf).amin(1)
        high = torch.where(row_mask, target, -torch.inf).amax(1)
        varies = (high - low) > 1e-9 * torch.maximum(high.abs(), low.abs())
        kept = (row_mask.sum(1) >= self.config.min_rows) & (varies | (value <= 1.0))
        refused = ~kept
        self._counts += torch.stack(
            [
                torch.full((), float(len(value)), device=self.device),
                refused.sum(),
                value.sum(),
                (value * refused).sum(),
            ]
        ).double()
        return kept.float()

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(
            count, generator=self.generator, device=self.device, dtype=torch.float64
        )


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
        self._memory = shared_memory.SharedMemory(
            create=True, size=self._n_slots * _slot_size(config)
        )
        # Until told: pairs that may be aligned, where that can be.
        first: Phase = "both" if config.with_formula else "predict"
        self._phase = context.Value("i", PHASES.index(first))
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
                ),
                daemon=True,
            )
            for number in range(config.n_workers)
        ]
        for worker in self._workers:
            worker.start()

    def next_batch(self) -> DeviceBatch:
        """Return the next batch; waits for the workers if it must."""
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
        return replace(batch, all_rows=self.config.all_rows)

    def set_phase(self, phase: Phase) -> None:
        """Draw the states of this phase from now on."""
        self._phase.value = PHASES.index(phase)

    def report(self) -> dict[str, float]:
        """Return the share of refused states, their bias and the workers lost."""
        lost = sum(not worker.is_alive() for worker in self._workers)
        return {**self.computer.refusals().report(), "lost_workers": float(lost)}

    def close(self) -> None:
        """Stop the workers and release the shared memory."""
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
