"""Numbers to tokens in torch, and where the tokens' vectors start.

The tokenizer is the vectorised twin of ``tokens.number_to_tokens``. It works on
float32 values of magnitude 0 or 1e-30 to 1e30 (what ``clean_values`` gives), in float64
inside, with exact powers of ten, so that rounding is that of ``%.3e``.
"""

import math
from typing import Final

import torch
from torch import Tensor, nn

from sr4mdl.mdlformer.tokens import (
    FIRST_EXPONENT,
    FIRST_MANTISSA,
    MAX_EXPONENT,
    N_NUMBER_TOKENS,
    NEGATIVE,
    POSITIVE,
)

_MAX_POWER: Final = 45
_MANTISSA_WAVES: Final = (0.25, 64.0)
"""Fewest and most waves over the mantissas; finer ones would be noise in bf16."""
_EXPONENT_WAVES: Final = (1.0, 60.0)
"""The same over the 201 exponents."""


def smooth_number_table(width: int) -> Tensor:
    """Return start values (N_NUMBER_TOKENS, width) in which near numbers are near.

    Independent random vectors, the usual start, hide from the network that 1.234 and
    1.235 are neighbours: ten thousand mantissas must first be put in order, one by
    one. Here they lie on smooth curves: one channel rises with the number, one with
    its logarithm, the others are waves of random frequency and phase over either.
    The two signs are opposite vectors; padding is zero. Torch's generator decides.
    """
    table = torch.zeros(N_NUMBER_TOKENS, width)
    mantissa = torch.arange(FIRST_EXPONENT - FIRST_MANTISSA) / 1000.0
    logarithm = mantissa.clamp_min(0.1).log10()
    exponent = torch.arange(N_NUMBER_TOKENS - FIRST_EXPONENT) - float(MAX_EXPONENT)
    table[FIRST_MANTISSA:FIRST_EXPONENT] = _curves(
        torch.stack([logarithm, mantissa / 10.0], -1), width, _MANTISSA_WAVES
    )
    table[FIRST_EXPONENT:] = _curves(
        torch.stack([(exponent / 3.0).tanh(), exponent / MAX_EXPONENT], -1),
        width,
        _EXPONENT_WAVES,
    )
    table[POSITIVE] = torch.randn(width)
    table[NEGATIVE] = -table[POSITIVE]
    return table


def _curves(courses: Tensor, width: int, waves: tuple[float, float]) -> Tensor:
    """Return (N, width): the two courses (N, 2) centred, then waves along them."""
    straight = 2.0 * (courses - courses.mean(0))
    fewest, most = waves
    count = fewest * (most / fewest) ** torch.rand(width)
    course = courses[:, torch.arange(width) % 2]
    wavy = torch.cos(2.0 * math.pi * (count * course + torch.rand(width)))
    table = math.sqrt(2.0) * wavy
    table[:, :2] = straight[:, :width]
    return table


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
