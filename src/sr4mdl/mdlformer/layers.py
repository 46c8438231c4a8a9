"""Building blocks: masked attention, encoder layers, pooling.

Absent keys get ``MASKED`` added to their score: their weight is then exactly zero
next to any key that exists, and a state in which nothing exists stays finite instead
of NaN. Shapes: B batch, N tokens, H heads, D width of a head, W width of a token,
R rows, C columns.
"""

import importlib.util
from collections.abc import Callable
from typing import Final

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from sr4mdl.mdlformer.config import Activation

MASKED: Final = -1e4
"""Added to the score of what does not exist."""


PackedAttention = Callable[[Tensor, Tensor, bool], Tensor]
"""Attention of tokens (B, R, C, 3, H, D) with bias (B, N), across rows or columns."""
LookUp = Callable[[Tensor, Tensor, torch.dtype], Tensor]
"""Rows of a table (V, W), in the type given, for tokens (N, 3) of numbers."""


class Kernels:
    """Which kernels are used; they differ in speed, not in what they compute."""

    explicit: bool = False
    """Plain matrix products everywhere, for export."""
    packed: PackedAttention | None = None
    """One kernel for few tokens, as in ``fused_attention``, where it can run."""
    look_up: LookUp | None = None
    """Look-up with a quick gradient, as in ``fused_tokens``, where it can run."""


KERNELS: Final = Kernels()
MAX_PACKED_TOKENS: Final = 64
"""Most tokens that the packed kernel is used for."""


def choose_kernels(device: torch.device) -> None:
    """Use our own kernels on a GPU where Triton is installed, else none."""
    KERNELS.packed = KERNELS.look_up = None
    if device.type == "cuda" and importlib.util.find_spec("triton") is not None:
        from sr4mdl.mdlformer.fused_attention import packed_attention
        from sr4mdl.mdlformer.fused_tokens import look_up_numbers

        KERNELS.packed = packed_attention
        KERNELS.look_up = look_up_numbers


def _suits_kernels(width: int) -> bool:
    """Return whether our kernels can have tiles of this width."""
    return width >= 16 and width & (width - 1) == 0


def _packed_kernel(n_tokens: int, size: int) -> PackedAttention | None:
    """Return the packed kernel if so many tokens and heads of this width suit it."""
    if KERNELS.explicit or n_tokens > MAX_PACKED_TOKENS or not _suits_kernels(size):
        return None
    return KERNELS.packed


def look_up(tokens: Tensor, table: Tensor, padding: int) -> Tensor:
    """Return the table's rows (..., 3, W) of numbers' tokens, in autocast's type.

    The row of ``padding`` gets no gradient.
    """
    device = table.device.type
    autocast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if autocast else table.dtype
    if KERNELS.look_up is None or not _suits_kernels(table.shape[1]):
        return functional.embedding(tokens, table.to(dtype), padding_idx=padding)
    flat = tokens.reshape(-1, tokens.shape[-1])
    return KERNELS.look_up(flat, table, dtype).view(*tokens.shape, -1)


def mask_bias(mask: Tensor) -> Tensor:
    """Return 0 where the mask is true and ``MASKED`` where it is false, float32."""
    return (~mask).to(torch.float32) * MASKED


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None
) -> Tensor:
    """Return softmax(queries keys' / sqrt(D) + bias) values; inputs (..., N, D).

    No bias is quicker than one of zeros: kernels then need not read it.
    """
    if not KERNELS.explicit:
        mask = None if bias is None else bias.to(queries.dtype)
        return functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask
        )
    scaled = queries * float(queries.shape[-1] ** -0.5)
    scores = scaled @ keys.transpose(-2, -1)
    return (scores if bias is None else scores + bias).softmax(-1) @ values


def attend_columns(
    queries: Tensor, keys: Tensor, values: Tensor, bias_B1C: Tensor
) -> Tensor:
    """Attend across the columns of each row; all of shape (B, R, C, H, D)."""
    swapped = queries.transpose(2, 3) * float(queries.shape[-1] ** -0.5)
    scores = swapped @ keys.permute(0, 1, 3, 4, 2) + bias_B1C[:, :, None, None, :]
    weights = scores.softmax(-1).to(values.dtype)
    return (weights @ values.transpose(2, 3)).transpose(2, 3)


def make_activation(name: Activation) -> nn.Module:
    """Return the non-linearity of that name."""
    return nn.GELU() if name == "gelu" else nn.ReLU()


class FeedForward(nn.Sequential):
    """Two linear maps with a non-linearity between them."""

    def __init__(
        self, width: int, hidden: int, activation: Activation, dropout: float
    ) -> None:
        super().__init__(
            nn.Linear(width, hidden),
            make_activation(activation),
            nn.Dropout(dropout),
            nn.Linear(hidden, width),
        )


class Projections(nn.Module):
    """Queries, keys and values as three maps, so that each comes out contiguous."""

    def __init__(self, width: int, inner: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(width, inner)
        self.key = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return three tensors of shape (..., H, D)."""
        shape = (self.n_heads, self.size)
        return (
            self.query(tokens).unflatten(-1, shape),
            self.key(tokens).unflatten(-1, shape),
            self.value(tokens).unflatten(-1, shape),
        )

    def packed(self, tokens: Tensor) -> Tensor:
        """Return the three in one tensor of shape (..., 3, H, D)."""
        maps = (self.query, self.key, self.value)
        joined = functional.linear(
            tokens,
            torch.cat([part.weight for part in maps]),
            torch.cat([part.bias for part in maps]),
        )
        return joined.view(*tokens.shape[:-1], 3, self.n_heads, self.size)

    @property
    def size(self) -> int:
        """Width of a head."""
        return self.query.out_features // self.n_heads


class SelfAttention(nn.Module):
    """Attention among N tokens."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.projections = Projections(width, width, n_heads)
        self.output = nn.Linear(width, width)

    def forward(self, tokens_BNW: Tensor, bias_B11N: Tensor | None) -> Tensor:
        """Return the attended tokens, of the same shape; without bias all exist."""
        kernel = _packed_kernel(tokens_BNW.shape[1], self.projections.size)
        if kernel is not None:
            packed = self.projections.packed(tokens_BNW).unsqueeze(1)
            if bias_B11N is None:
                bias = packed.new_zeros(tokens_BNW.shape[:2], dtype=torch.float32)
            else:
                bias = bias_B11N[:, 0, 0].contiguous()
            together = kernel(packed, bias, False)
            return self.output(together.squeeze(1).flatten(2))  # type: ignore[no-any-return]
        queries, keys, values = self.projections(tokens_BNW)
        mixed = attend(
            queries.transpose(1, 2),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            bias_B11N,
        )
        return self.output(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Transformer encoder layer without positions.

    Parameters
    ----------
    norm_first : bool
        True normalises before each part (stable to train), False after each
        residual sum (the paper's form).
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        feed_forward: int,
        activation: Activation,
        dropout: float,
        *,
        norm_first: bool,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = SelfAttention(width, n_heads)
        self.feed_forward = FeedForward(width, feed_forward, activation, dropout)
        self.attention_norm = nn.LayerNorm(width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens_BNW: Tensor, bias_B11N: Tensor | None) -> Tensor:
        """Return the tokens after one layer, same shape; without bias all exist."""
        x, bias = tokens_BNW, bias_B11N
        if self.norm_first:
            x = x + self.dropout(self.attention(self.attention_norm(x), bias))
            return x + self.dropout(  # type: ignore[no-any-return]
                self.feed_forward(self.feed_forward_norm(x))
            )
        x = self.attention_norm(x + self.dropout(self.attention(x, bias))).to(x.dtype)
        return self.feed_forward_norm(  # type: ignore[no-any-return]
            x + self.dropout(self.feed_forward(x))
        ).to(x.dtype)


class AttentionPooling(nn.Module):
    """One learned vector scores the tokens; the softmax of the scores weighs them."""

    def __init__(self, width: int, n_queries: int = 1) -> None:
        super().__init__()
        self.scores = nn.Linear(width, n_queries, bias=False)

    def forward(self, tokens: Tensor, bias: Tensor) -> Tensor:
        """Pool (..., N, W) with bias (..., N, 1) to (..., n_queries, W)."""
        weights: Tensor = (self.scores(tokens).float() + bias).softmax(-2)
        return weights.to(tokens.dtype).transpose(-2, -1) @ tokens


class CellLayer(nn.Module):
    """Attention across columns and across rows of a table of cells, then feed-forward.

    In the ``split`` form both kinds of attention read the same normalised cells, with
    half of the heads each.
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        feed_forward: int,
        activation: Activation,
        dropout: float,
        *,
        split: bool,
    ) -> None:
        super().__init__()
        self.split = split
        inner = width // 2 if split else width
        heads = n_heads // 2 if split else n_heads
        self.column_norm = nn.LayerNorm(width)
        self.across_columns = Projections(width, inner, heads)
        self.row_norm = nn.Identity() if split else nn.LayerNorm(width)
        self.across_rows = Projections(width, inner, heads)
        self.column_output = nn.Linear(width, width)
        self.row_output = nn.Identity() if split else nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, feed_forward, activation, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, cells_BRCW: Tensor, column_bias_B1C: Tensor, row_bias_B11R: Tensor
    ) -> Tensor:
        """Return the cells after one layer, same shape."""
        x = cells_BRCW
        normed = self.column_norm(x)
        columns = self._mix_columns(normed, column_bias_B1C)
        if self.split:
            rows = self._mix_rows(normed, row_bias_B11R)
            both = torch.cat([columns, rows], dim=-1)
            x = x + self.dropout(self.column_output(both))
        else:
            x = x + self.dropout(self.column_output(columns))
            rows = self._mix_rows(self.row_norm(x), row_bias_B11R)
            x = x + self.dropout(self.row_output(rows))
        return x + self.dropout(  # type: ignore[no-any-return]
            self.feed_forward(self.feed_forward_norm(x))
        )

    def _mix_columns(self, normed: Tensor, bias: Tensor) -> Tensor:
        kernel = _packed_kernel(normed.shape[2], self.across_columns.size)
        if kernel is not None:
            packed = self.across_columns.packed(normed)
            return kernel(packed, bias[:, 0].contiguous(), False).flatten(3)
        queries, keys, values = self.across_columns(normed)
        return attend_columns(queries, keys, values, bias).flatten(3)

    def _mix_rows(self, normed: Tensor, bias: Tensor) -> Tensor:
        kernel = _packed_kernel(normed.shape[1], self.across_rows.size)
        if kernel is not None:
            packed = self.across_rows.packed(normed)
            return kernel(packed, bias[:, 0, 0].contiguous(), True).flatten(3)
        # Columns and heads merge into one axis of heads without a copy.
        columns, heads = normed.shape[2], self.across_rows.n_heads
        queries, keys, values = (
            part.flatten(2, 3).transpose(1, 2) for part in self.across_rows(normed)
        )
        mixed = attend(queries, keys, values, bias).transpose(1, 2)
        size = values.shape[-1]
        return mixed.reshape(*mixed.shape[:2], columns, heads * size)
