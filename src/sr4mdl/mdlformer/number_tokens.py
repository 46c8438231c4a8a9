"""Numbers to tokens in torch: the vectorised twin of ``tokens.number_to_tokens``.

Works on float32 values of magnitude 0 or 1e-30 to 1e30 (what ``clean_values`` gives),
in float64 inside, with exact powers of ten, so that rounding is that of ``%.3e``.
"""

import math
from typing import Final

import torch
from torch import Tensor, nn

from sr4mdl.mdlformer.tokens import (
    FIRST_EXPONENT,
    FIRST_MANTISSA,
    MAX_EXPONENT,
    NEGATIVE,
    POSITIVE,
)

_MAX_POWER: Final = 45


class NumberTokenizer(nn.Module):
    """Three tokens for every number of a tensor."""

    powers: Tensor

    def __init__(self) -> None:
        super().__init__()
        table = [float(f"1e{power}") for power in range(_MAX_POWER + 1)]
        self.register_buffer(
            "powers", torch.tensor(table, dtype=torch.float64), persistent=False
        )

    def forward(self, values: Tensor) -> Tensor:
        """Return int64 tokens of shape (..., 3); zero is +, 0000, E+0."""
        size = values.abs().double()
        nonzero = size > 0
        safe = torch.where(nonzero, size, torch.ones_like(size))
        logarithm = safe.float().log() * (1.0 / math.log(10.0))
        exponent = logarithm.floor().long()
        # The logarithm may miss by one next to a power of ten: compare and correct.
        exponent = exponent - (safe < self._scaled(exponent)).long()
        exponent = exponent + (safe >= self._scaled(exponent + 1)).long()
        digits = torch.round(self._shift(safe, 3 - exponent)).long()
        carried = digits >= 10_000
        digits = torch.where(carried, torch.full_like(digits, 1000), digits)
        exponent = exponent + carried.long()
        zero = torch.zeros_like(digits)
        digits = torch.where(nonzero, digits, zero)
        exponent = torch.where(nonzero, exponent, zero)
        sign = POSITIVE + (values < 0).long() * (NEGATIVE - POSITIVE)
        return torch.stack(
            [sign, digits + FIRST_MANTISSA, exponent + FIRST_EXPONENT + MAX_EXPONENT],
            dim=-1,
        )

    def _scaled(self, exponent: Tensor) -> Tensor:
        return self._shift(
            torch.ones(exponent.shape, dtype=torch.float64, device=exponent.device),
            exponent,
        )

    def _shift(self, values: Tensor, exponent: Tensor) -> Tensor:
        """Multiply by a power of ten; negative powers divide, which rounds once."""
        up = self.powers[exponent.clamp(0, _MAX_POWER)]
        down = self.powers[(-exponent).clamp(0, _MAX_POWER)]
        return values * up / down
