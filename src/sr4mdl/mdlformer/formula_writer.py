"""Writing formulas down from what the network has read, symbol after symbol.

A second teacher beside alignment: telling a formula from the others of a batch can be
done by the roughest of features, but to write it down the rows must hold which operator
acts on what. Used in training only. Numbers are written by their sign, so that the
vocabulary stays small.

Shapes: B states, R rows, W width, L tokens of a formula, S symbols.
"""

from typing import Final

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from sr4mdl.mdlformer.config import ModelConfig
from sr4mdl.mdlformer.formula_encoder import sinusoidal_positions
from sr4mdl.mdlformer.layers import FeedForward, mask_bias
from sr4mdl.mdlformer.tokens import (
    FIRST_EXPONENT,
    FIRST_MANTISSA,
    FIRST_VARIABLE,
    N_FORMULA_TOKENS,
    N_NUMBER_TOKENS,
)

ABSENT: Final = 0
"""Symbol of padding, and of what stands before the first symbol."""
_MANTISSA: Final = FIRST_MANTISSA
_EXPONENT: Final = FIRST_MANTISSA + 1
_VARIABLE: Final = FIRST_MANTISSA + 2
N_SYMBOLS: Final = _VARIABLE + N_FORMULA_TOKENS - FIRST_VARIABLE
"""Padding, two signs, any mantissa, any exponent, variables, operators."""


def to_symbols(tokens: Tensor) -> Tensor:
    """Return int64 symbols of tokens: all mantissas are alike, and all exponents."""
    tokens = tokens.long()
    symbols = torch.where(tokens >= FIRST_MANTISSA, _MANTISSA, tokens)
    symbols = torch.where(tokens >= FIRST_EXPONENT, _EXPONENT, symbols)
    later = tokens - FIRST_VARIABLE + _VARIABLE
    return torch.where(tokens >= N_NUMBER_TOKENS, later, symbols)


class _Attention(nn.Module):
    """Attention of some tokens to others, or to themselves and those before them."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def _heads(self, tokens: Tensor) -> Tensor:
        split = tokens.view(*tokens.shape[:-1], self.n_heads, -1)
        return split.transpose(1, 2)

    def forward(
        self, tokens: Tensor, read: Tensor, bias: Tensor | None, *, causal: bool
    ) -> Tensor:
        mixed = functional.scaled_dot_product_attention(
            self._heads(self.query(tokens)),
            self._heads(self.key(read)),
            self._heads(self.value(read)),
            attn_mask=None if bias is None else bias.to(read.dtype),
            is_causal=causal,
        )
        return self.output(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class _WriterLayer(nn.Module):
    """Attention to what is written, then to the rows, then feed-forward; pre-norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.width
        self.written_norm = nn.LayerNorm(width)
        self.to_written = _Attention(width, config.n_heads)
        self.rows_norm = nn.LayerNorm(width)
        self.to_rows = _Attention(width, config.n_heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(
            width, config.feed_forward, config.activation, config.dropout
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, rows: Tensor, bias: Tensor | None) -> Tensor:
        written = self.written_norm(x).to(x.dtype)
        x = x + self.dropout(self.to_written(written, written, None, causal=True))
        asked = self.rows_norm(x).to(x.dtype)
        x = x + self.dropout(self.to_rows(asked, rows, bias, causal=False))
        normed = self.feed_forward_norm(x).to(x.dtype)
        return x + self.dropout(self.feed_forward(normed))  # type: ignore[no-any-return]


class FormulaWriter(nn.Module):
    """Rows of a table to the logits of each symbol of its formula.

    Parameters
    ----------
    config : ModelConfig
        Of the network whose rows it reads.
    n_layers : int
        Its own number of layers.
    """

    def __init__(self, config: ModelConfig, n_layers: int) -> None:
        super().__init__()
        if n_layers < 1:
            raise ValueError(f"n_layers must be at least 1, got {n_layers}")
        self.embedding = nn.Embedding(N_SYMBOLS, config.width)
        self.layers = nn.ModuleList(_WriterLayer(config) for _ in range(n_layers))
        self.norm = nn.LayerNorm(config.width)
        self.symbols = nn.Linear(config.width, N_SYMBOLS)

    def compilable_parts(self) -> list[nn.Module]:
        """Return the layers."""
        return list(self.layers)

    def forward(
        self, rows: Tensor, row_mask: Tensor | None, symbols_BL: Tensor
    ) -> Tensor:
        """Return logits (B, L, S) of each symbol, given the rows and those before it.

        Parameters
        ----------
        rows : Tensor of shape (B, R, W)
            What the network has made of each row.
        row_mask : bool Tensor of shape (B, R), or None
            Rows that exist; None if all do.
        symbols_BL : Tensor of shape (B, L)
            From ``to_symbols``, ``ABSENT`` behind the end.
        """
        before = functional.pad(symbols_BL[:, :-1], (1, 0), value=ABSENT)
        x = self.embedding(before)
        x = x + sinusoidal_positions(x.shape[1], x.shape[2], x.device)
        x = x.to(rows.dtype)
        bias = None if row_mask is None else mask_bias(row_mask)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, rows, bias)
        return self.symbols(self.norm(x).to(x.dtype))  # type: ignore[no-any-return]
