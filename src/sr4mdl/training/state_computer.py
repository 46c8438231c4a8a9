"""Labelled states to batches on a device: inputs, programs, valid rows, noise.

Rows outside the domain are dropped and states that keep too few are refused. The share
and the mean length of refused states are counted, because refusal favours short
formulas.
"""

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from sr4mdl.corpus.program_writer import (
    FIRST_CONSTANT,
    FIRST_OUTPUT,
    N_INPUTS,
    N_REGISTERS,
)
from sr4mdl.corpus.states import StateArrays
from sr4mdl.evaluate.torch_programs import run_programs
from sr4mdl.moves import MAX_COLUMNS
from sr4mdl.training.batch import DeviceBatch
from sr4mdl.training.inputs import DEFAULT_SHARES, MIXTURE_ONLY, draw_inputs
from sr4mdl.training.source_config import SourceConfig

LARGEST_VALUE: Final = 1e30
"""Rows with larger magnitudes than this are outside the domain."""


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
