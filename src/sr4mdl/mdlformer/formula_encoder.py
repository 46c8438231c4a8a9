"""Encoder of formulas in prefix notation, for the alignment objective of the paper.

Same transformer as the ``tokens`` network with sinusoidal positions, one embedding per
token at full width, the same pooling and projection. Used in training only.
"""

import math

import torch
from torch import Tensor, nn

from sr4mdl.mdlformer.config import ModelConfig
from sr4mdl.mdlformer.layers import AttentionPooling, EncoderLayer, mask_bias
from sr4mdl.mdlformer.tokens import N_FORMULA_TOKENS, PAD


def sinusoidal_positions(length: int, width: int, device: torch.device) -> Tensor:
    """Return (length, width): sines in the first half of the channels, then cosines."""
    half = (width + 1) // 2
    step = torch.arange(half, device=device, dtype=torch.float32)
    rates = torch.exp(step * (-math.log(10_000.0) / max(half - 1, 1)))
    angles = torch.arange(length, device=device, dtype=torch.float32)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :width]


class FormulaEncoder(nn.Module):
    """Tokens of formulas to vectors that are compared with the network's summaries.

    Parameters
    ----------
    config : ModelConfig
        Of the network that is aligned.
    n_layers : int, optional
        Its own number of layers; None means as many as the network has, as in the
        paper.
    """

    def __init__(self, config: ModelConfig, n_layers: int | None = None) -> None:
        super().__init__()
        self.config = config
        if n_layers is not None and n_layers < 1:
            raise ValueError(f"n_layers must be at least 1, got {n_layers}")
        width = config.width
        self.embedding = nn.Embedding(N_FORMULA_TOKENS, width, padding_idx=PAD)
        self.layers = nn.ModuleList(
            EncoderLayer(
                width,
                config.n_heads,
                config.feed_forward,
                config.activation,
                config.dropout,
                norm_first=False,
            )
            for _ in range(n_layers or config.n_layers)
        )
        self.pooling = AttentionPooling(width)
        self.projection = nn.Linear(width, width)

    def compilable_parts(self) -> list[nn.Module]:
        """Return the layers."""
        return list(self.layers)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        """Return (B, W) float32; tokens are 0 after the end of a formula."""
        bias = mask_bias(tokens_BL != PAD)
        x = self.embedding(tokens_BL.long())
        x = x + sinusoidal_positions(x.shape[1], x.shape[2], x.device)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        for layer in self.layers:
            x = layer(x, bias[:, None, None, :])
        pooled = self.pooling(x, bias.unsqueeze(-1)).squeeze(-2)
        return self.projection(pooled).float()  # type: ignore[no-any-return]
