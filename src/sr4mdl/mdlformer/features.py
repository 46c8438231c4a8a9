"""Continuous features of numbers, computed inside the network.

One implementation serves training and the exported graph, so the runtime feeds raw
numbers and nothing can drift. Part of the definition of the features:

- magnitudes above ``LARGEST`` are read as ``LARGEST``, below ``SMALLEST`` as zero;
- statistics of a column are taken over the rows that exist, after division by the
  column's largest magnitude, so that no square over- or underflows in float32;
- the phase of a number beyond ``LARGEST_PHASE`` means nothing in float32: its sine
  and cosine are read as those of zero;
- the mantissa enters through sines and cosines of the logarithm only: the plain
  mantissa jumps at powers of ten, where two runtimes may round to different sides.

Shapes: B states, R rows, C columns, F features.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

LARGEST: Final = 1e30
SMALLEST: Final = 1e-30
LARGEST_PHASE: Final = 1e4

_VALUE_HARMONICS: Final = (1.0, 2.0, 4.0, 8.0)
_LOG_HARMONICS: Final = (1.0, 2.0, 4.0)
_SCALED_HARMONICS: Final = (2.0, 8.0)
_LOG_FREQUENCIES: Final = tuple(2.0 * math.pi * k for k in _LOG_HARMONICS)

FEATURE_NAMES: Final[tuple[str, ...]] = (
    "sign",
    "zero",
    "log10",
    "log10_squashed",
    "log10_centred",
    "log10_standardised",
    "standardised",
    "asinh",
    "tanh",
    "clipped",
    "target_scaled",
    "target_scaled_asinh",
    "sin",
    "cos",
    *(
        f"{form}_standardised_{k:g}"
        for form in ("sin", "cos")
        for k in _VALUE_HARMONICS
    ),
    *(f"{form}_log10_{k:g}" for form in ("sin", "cos") for k in _LOG_HARMONICS),
    *(f"{form}_scaled_{k:g}" for form in ("sin", "cos") for k in _SCALED_HARMONICS),
)
"""What the features are, in order."""
N_FEATURES: Final = len(FEATURE_NAMES)


@dataclass(frozen=True)
class ColumnStatistics:
    """Numbers brought to a common scale, with the statistics of their columns."""

    unit: Tensor
    """(B, R, C) values divided by the column's largest magnitude; 0 in absent rows."""
    peak: Tensor
    """(B, 1, C) largest magnitude, 1 where all values are zero."""
    mean: Tensor
    """(B, 1, C) mean of ``unit`` over the rows that exist."""
    deviation: Tensor
    """(B, 1, C) standard deviation of ``unit``."""
    root_mean_square: Tensor
    """(B, 1, C) root mean square of ``unit``."""


def clean_values(values_BRC: Tensor, row_mask_BR: Tensor) -> Tensor:
    """Return the values as the network reads them; absent rows become zero."""
    inside = torch.where(
        row_mask_BR.unsqueeze(-1), values_BRC.float(), values_BRC.new_zeros(())
    ).clamp(-LARGEST, LARGEST)
    return torch.where(inside.abs() < SMALLEST, torch.zeros_like(inside), inside)


def column_statistics(clean_BRC: Tensor, row_mask_BR: Tensor) -> ColumnStatistics:
    """Return safe statistics over the rows that exist of cleaned values."""
    weight = row_mask_BR.unsqueeze(-1).to(clean_BRC.dtype)
    count = weight.sum(1, keepdim=True).clamp(min=1.0)
    largest = clean_BRC.abs().amax(1, keepdim=True)
    peak = torch.where(largest > 0, largest, torch.ones_like(largest))
    unit = clean_BRC / peak
    mean = (unit * weight).sum(1, keepdim=True) / count
    centred = (unit - mean) * weight
    deviation = ((centred * centred).sum(1, keepdim=True) / count).sqrt()
    square = (unit * unit * weight).sum(1, keepdim=True) / count
    return ColumnStatistics(unit, peak, mean, deviation, square.sqrt())


def standardise(statistics: ColumnStatistics, floor: float = 1e-5) -> Tensor:
    """Return the values less their column's mean, divided by its deviation.

    Parameters
    ----------
    statistics : ColumnStatistics
        From :func:`column_statistics`.
    floor : float, default=1e-5
        Added to the deviation (relative to the largest magnitude), so that a column
        that is constant to float32 precision becomes nearly zero.
    """
    return (statistics.unit - statistics.mean) / (statistics.deviation + floor)


def standardised_target(target_BR: Tensor, row_mask_BR: Tensor) -> Tensor:
    """Return the standardised target (B, R, 1) that the ``tokens`` network reads.

    Computed in float64, so that runtimes that sum in different orders do not round
    to different tokens; magnitudes below 1e-6 are zero.
    """
    clean = clean_values(target_BR.unsqueeze(-1), row_mask_BR).double()
    result = standardise(column_statistics(clean, row_mask_BR), floor=1e-9)
    result = torch.where(row_mask_BR.unsqueeze(-1), result, torch.zeros_like(result))
    small = result.abs() < 1e-6
    return torch.where(small, torch.zeros_like(result), result).float()


def target_log_scale(statistics: ColumnStatistics) -> Tensor:
    """Return (B, 1, 1): natural logarithm of the target's root mean square."""
    size = statistics.root_mean_square
    relative = torch.where(size > 0, size, torch.ones_like(size))
    return relative.log() + statistics.peak.log()


def value_features(
    clean_BRC: Tensor,
    statistics: ColumnStatistics,
    row_mask_BR: Tensor,
    log_scale_B11: Tensor,
) -> Tensor:
    """Return the features of every value.

    Parameters
    ----------
    clean_BRC : Tensor
        Values from :func:`clean_values`.
    statistics : ColumnStatistics
        Their statistics.
    row_mask_BR : Tensor
        Rows that exist.
    log_scale_B11 : Tensor
        Logarithm of the target's scale, to which all columns are also compared.

    Returns
    -------
    Tensor of shape (B, R, C, F)
        Finite everywhere, float32.
    """
    size = clean_BRC.abs()
    nonzero = size > 0
    one = torch.ones_like(size)
    log10 = torch.where(nonzero, size, one).log() * (1.0 / math.log(10.0))
    present = (nonzero & row_mask_BR.unsqueeze(-1)).to(clean_BRC.dtype)
    count = present.sum(1, keepdim=True).clamp(min=1.0)
    log_mean = (log10 * present).sum(1, keepdim=True) / count
    log_centred = (log10 - log_mean) * present
    log_deviation = ((log_centred * log_centred).sum(1, keepdim=True) / count).sqrt()

    standardised = standardise(statistics).clamp(-10.0, 10.0)
    ratio = (statistics.peak.log() - log_scale_B11).clamp(-20.0, 20.0).exp()
    scaled_wide = statistics.unit * ratio
    scaled = scaled_wide.clamp(-6.0, 6.0)
    phase = torch.where(size <= LARGEST_PHASE, clean_BRC, torch.zeros_like(clean_BRC))
    plain = (
        torch.sign(clean_BRC),
        (~nonzero).to(clean_BRC.dtype),
        log10 * 0.1,
        torch.tanh(log10 * (1.0 / 3.0)),
        log_centred.clamp(-5.0, 5.0),
        (log_centred / (log_deviation + 1e-3)).clamp(-5.0, 5.0),
        standardised,
        _asinh(clean_BRC) * 0.25,
        torch.tanh(clean_BRC.clamp(-20.0, 20.0)),
        clean_BRC.clamp(-4.0, 4.0) * 0.5,
        scaled,
        _asinh(scaled_wide) * 0.5,
        torch.sin(phase),
        torch.cos(phase),
    )
    waves = [
        form(values.unsqueeze(-1) * frequencies)
        for values, frequencies in (
            (standardised, clean_BRC.new_tensor(_VALUE_HARMONICS)),
            (log10, clean_BRC.new_tensor(_LOG_FREQUENCIES)),
            (scaled, clean_BRC.new_tensor(_SCALED_HARMONICS)),
        )
        for form in (torch.sin, torch.cos)
    ]
    return torch.cat([torch.stack(plain, dim=-1), *waves], dim=-1)


def _asinh(values: Tensor) -> Tensor:
    """Inverse hyperbolic sine without overflow; magnitudes are cut at 1e18."""
    size = values.abs().clamp(max=1e18)
    square = size * size
    return torch.sign(values) * torch.log1p(
        size + square / ((square + 1.0).sqrt() + 1.0)
    )
