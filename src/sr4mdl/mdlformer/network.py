"""The networks: one interface, three architectures.

A network reads raw columns and target with their masks and returns the value (symbols
still missing, as mean and spread) and one logit per move. Features, standardisation
and tokens are made inside, so training and search cannot differ. No I/O here, and no
choice of device.

Shapes: B states, R rows, C columns (at most ten), W width, F features.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sr4mdl.mdlformer.config import ModelConfig
from sr4mdl.mdlformer.features import (
    N_FEATURES,
    clean_values,
    column_statistics,
    standardised_target,
    target_log_scale,
    value_features,
)
from sr4mdl.mdlformer.layers import (
    AttentionPooling,
    CellLayer,
    EncoderLayer,
    look_up,
    mask_bias,
)
from sr4mdl.mdlformer.number_tokens import NumberTokenizer, smooth_number_table
from sr4mdl.mdlformer.policy import PolicyLayout
from sr4mdl.mdlformer.tokens import N_NUMBER_TOKENS, PAD, TOKENS_PER_NUMBER
from sr4mdl.moves import (
    MAX_COLUMNS,
    N_COLUMN_ACTIONS,
    N_MOVES,
    N_PAIR_OPERATORS,
    N_TARGET_TRANSFORMS,
)


@dataclass(frozen=True)
class NetworkOutput:
    """What a network says about a batch of states; all float32."""

    value_mean: Tensor
    """(B,) expected number of symbols still missing."""
    value_log_spread: Tensor
    """(B,) natural logarithm of the value's standard deviation."""
    policy: Tensor
    """(B, N_MOVES) logits; -1e4 for moves the state does not have."""
    summary: Tensor
    """(B, W) one vector per state; the ``tokens`` network is aligned on it."""


def _without_autocast(layer: nn.Linear, values: Tensor) -> Tensor:
    """Apply a linear map in float32: bf16 would drop most digits of the features."""
    if torch.is_autocast_enabled(values.device.type):
        with torch.autocast(values.device.type, enabled=False):
            result: Tensor = layer(values)
        return result.to(torch.get_autocast_dtype(values.device.type))
    return layer(values)  # type: ignore[no-any-return]


class Network(nn.Module, ABC):
    """Base of the three architectures."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.layout = PolicyLayout()

    def forward(
        self,
        columns: Tensor,
        target: Tensor,
        column_mask: Tensor,
        row_mask: Tensor | None,
    ) -> NetworkOutput:
        """Score a batch of states.

        Parameters
        ----------
        columns : Tensor of shape (B, R, C)
            Raw values; what masked rows and columns hold does not matter.
        target : Tensor of shape (B, R)
            Raw values of y.
        column_mask : bool Tensor of shape (B, C)
            Columns that exist.
        row_mask : bool Tensor of shape (B, R), or None
            Rows that exist; None if all do, which can be quicker.
        """
        return NetworkOutput(*self.compute(columns, target, column_mask, row_mask))

    @abstractmethod
    def compute(
        self,
        columns: Tensor,
        target: Tensor,
        column_mask: Tensor,
        row_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return mean, log spread, policy and summary as plain tensors."""

    @abstractmethod
    def value_of(self, summary: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log spread of the value, read from summaries (B, W)."""

    @abstractmethod
    def compilable_parts(self) -> list[nn.Module]:
        """Return the repeated parts that are worth compiling one by one."""

    def _value(self, raw_B2: Tensor) -> tuple[Tensor, Tensor]:
        config = self.config
        raw_B2 = raw_B2.float()
        mean = config.value_centre + config.value_scale * raw_B2[:, 0]
        # An output of 0 means a spread of about half the scale.
        offset = math.log(max(0.5 * config.value_scale / config.min_spread, 2.0))
        above = nn.functional.softplus(raw_B2[:, 1] + offset)
        return mean, math.log(config.min_spread) + above


def _mask_of_rows(target: Tensor, row_mask: Tensor | None) -> Tensor:
    """Return the mask (B, R); None stands for rows that all exist."""
    if row_mask is None:
        return torch.ones_like(target, dtype=torch.bool)
    return row_mask


def _only_present(columns: Tensor, column_mask: Tensor) -> Tensor:
    """Return zeros for columns that do not exist: a weight of 0 does not stop NaN."""
    return torch.where(column_mask.unsqueeze(1), columns, columns.new_zeros(()))


def _features(
    columns: Tensor, target: Tensor, column_mask: Tensor, row_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Return features (B, R, C, F) of the columns and (B, R, 1, F) of the target."""
    clean_target = clean_values(target.unsqueeze(-1), row_mask)
    target_statistics = column_statistics(clean_target, row_mask)
    scale = target_log_scale(target_statistics)
    clean_columns = clean_values(_only_present(columns, column_mask), row_mask)
    return (
        value_features(
            clean_columns, column_statistics(clean_columns, row_mask), row_mask, scale
        ),
        value_features(clean_target, target_statistics, row_mask, scale),
    )


class _CellEmbedding(nn.Module):
    """Raw numbers to one vector per cell, from the column's value and the target's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.column = nn.Linear(N_FEATURES, width)
        self.target = nn.Linear(N_FEATURES, width, bias=False)
        self.mix = nn.Sequential(nn.GELU(), nn.Linear(width, width))

    def forward(
        self, columns: Tensor, target: Tensor, column_mask: Tensor, row_mask: Tensor
    ) -> Tensor:
        column_features, target_features = _features(
            columns, target, column_mask, row_mask
        )
        hidden = _without_autocast(self.column, column_features)
        hidden = hidden + _without_autocast(self.target, target_features)
        return self.mix(hidden)  # type: ignore[no-any-return]


class _CellHeads(nn.Module):
    """Vectors of columns to logits and value; equal treatment of all columns."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.summary = nn.Sequential(nn.Linear(2 * width + 1, width), nn.GELU())
        self.value = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2)
        )
        self.column_hidden = nn.Linear(width, width)
        self.column_context = nn.Linear(width, width, bias=False)
        self.column_logits = nn.Linear(width, N_COLUMN_ACTIONS)
        hidden = width // 2
        self.left = nn.Linear(width, 2 * hidden)
        self.right = nn.Linear(width, 2 * hidden)
        self.pair_context = nn.Linear(width, hidden)
        self.pair_logits = nn.Linear(hidden, N_PAIR_OPERATORS)
        self.target_logits = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, N_TARGET_TRANSFORMS)
        )

    def forward(
        self, columns_BCW: Tensor, column_mask_BC: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        u = columns_BCW
        weight = column_mask_BC.unsqueeze(-1).to(u.dtype)
        count = weight.sum(1)
        mean = (u * weight).sum(1) / count.clamp(min=1.0)
        # max, not amax: compiled, the gradient of amax in bf16 compares with a maximum
        # rounded otherwise, finds no equal element and divides by their count, 0.
        biased = u + mask_bias(column_mask_BC).unsqueeze(-1).to(u.dtype)
        largest = biased.max(1).values
        summary = self.summary(
            torch.cat([mean, largest, count * (1.0 / MAX_COLUMNS)], -1)
        )
        gelu = nn.functional.gelu
        context = self.column_context(summary).unsqueeze(1)
        column = self.column_logits(gelu(self.column_hidden(u) + context))
        left_sum, left_factor = self.left(u).chunk(2, -1)
        right_sum, right_factor = self.right(u).chunk(2, -1)
        hidden = (
            left_sum.unsqueeze(2)
            + right_sum.unsqueeze(1)
            + left_factor.unsqueeze(2) * right_factor.unsqueeze(1)
            + self.pair_context(summary)[:, None, None]
        )
        pair = self.pair_logits(gelu(hidden))
        return summary, self.value(summary), column, pair, self.target_logits(summary)


class _ColumnReadout(nn.Module):
    """Pool the rows of each column, let the columns attend to one another, read out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, wide = config.width, config.column_width
        self.norm = nn.LayerNorm(width)
        self.pooling = AttentionPooling(width, config.n_pool)
        self.widen = nn.Linear(width * config.n_pool, wide)
        self.layers = nn.ModuleList(
            EncoderLayer(
                wide,
                config.n_heads,
                2 * wide,
                config.activation,
                config.dropout,
                norm_first=True,
            )
            for _ in range(config.n_column_layers)
        )
        self.column_norm = nn.LayerNorm(wide)
        self.heads = _CellHeads(wide)

    def forward(
        self, cells: Tensor, column_mask: Tensor, row_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        by_column = self.norm(cells).to(cells.dtype).transpose(1, 2)
        row_bias = mask_bias(row_mask)[:, None, :, None]
        vectors = self.widen(self.pooling(by_column, row_bias).flatten(2))
        column_bias = mask_bias(column_mask)[:, None, None, :]
        for layer in self.layers:
            vectors = layer(vectors, column_bias)
        return self.heads(self.column_norm(vectors), column_mask)  # type: ignore[no-any-return]


class CellsNetwork(Network):
    """One token per cell; permuting the columns permutes the logits exactly.

    Each layer attends across the columns of a row, then across the rows of a column.
    The rows of a column are then pooled, the pooled columns attend to one another,
    and the heads read single columns, pairs of columns and their mean.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.embedding = _CellEmbedding(config.width)
        self.layers = nn.ModuleList(
            CellLayer(
                config.width,
                config.n_heads,
                config.feed_forward,
                config.activation,
                config.dropout,
                split=config.axial == "split",
            )
            for _ in range(config.n_layers)
        )
        self.readout = _ColumnReadout(config)

    def value_of(self, summary: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log spread of the value, read from summaries (B, W)."""
        return self._value(self.readout.heads.value(summary))

    def compilable_parts(self) -> list[nn.Module]:
        """Return the embedding, the layers over cells and the readout."""
        return [self.embedding, *self.layers, self.readout]

    def compute(
        self,
        columns: Tensor,
        target: Tensor,
        column_mask: Tensor,
        row_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return mean, log spread, policy and summary as plain tensors."""
        row_mask = _mask_of_rows(target, row_mask)
        cells = self.embedding(columns, target, column_mask, row_mask)
        row_bias = mask_bias(row_mask)[:, None, None, :]
        column_bias = mask_bias(column_mask).unsqueeze(1)
        for layer in self.layers:
            cells = layer(cells, column_bias, row_bias)
        summary, value, column, pair, transform = self.readout(
            cells, column_mask, row_mask
        )
        policy = self.layout.assemble(column, pair, transform, column_mask)
        return *self._value(value), policy, summary.float()


def _fill_columns(columns: Tensor, column_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Add absent columns up to ten; fixed pads, so that exported shapes stay free."""
    pad = nn.functional.pad
    return (
        pad(columns, (0, MAX_COLUMNS))[..., :MAX_COLUMNS],
        torch.cat(
            [column_mask, torch.zeros_like(column_mask[:, :1]).expand(-1, MAX_COLUMNS)],
            dim=1,
        )[:, :MAX_COLUMNS],
    )


class _RowEmbedding(nn.Module):
    """Raw numbers to one vector per row: features of all slots side by side."""

    absent: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.absent = nn.Parameter(torch.zeros(MAX_COLUMNS, N_FEATURES))
        nn.init.normal_(self.absent, std=0.1)
        self.first = nn.Linear((MAX_COLUMNS + 1) * N_FEATURES, width)
        self.mix = nn.Sequential(nn.GELU(), nn.Linear(width, width))

    def forward(
        self, columns: Tensor, target: Tensor, column_mask: Tensor, row_mask: Tensor
    ) -> Tensor:
        column_features, target_features = _features(
            columns, target, column_mask, row_mask
        )
        column_features = torch.where(
            column_mask[:, None, :, None], column_features, self.absent
        )
        row = torch.cat([column_features, target_features], dim=2).flatten(2)
        return self.mix(_without_autocast(self.first, row))  # type: ignore[no-any-return]


class RowsNetwork(Network):
    """One token per row; the order of columns is learned to matter little."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        width = config.width
        self.embedding = _RowEmbedding(width)
        self.layers = nn.ModuleList(
            EncoderLayer(
                width,
                config.n_heads,
                config.feed_forward,
                config.activation,
                config.dropout,
                norm_first=True,
            )
            for _ in range(config.n_layers)
        )
        self.final_norm = nn.LayerNorm(width)
        self.pooling = AttentionPooling(width, config.n_pool)
        self.summary = nn.Sequential(nn.Linear(width * config.n_pool, width), nn.GELU())
        self.value = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2)
        )
        self.policy = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, N_MOVES)
        )

    def value_of(self, summary: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log spread of the value, read from summaries (B, W)."""
        return self._value(self.value(summary))

    def compilable_parts(self) -> list[nn.Module]:
        """Return the embedding and the layers."""
        return [self.embedding, *self.layers]

    def compute(
        self,
        columns: Tensor,
        target: Tensor,
        column_mask: Tensor,
        row_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return mean, log spread, policy and summary as plain tensors."""
        all_columns, all_mask = _fill_columns(columns, column_mask)
        mask = _mask_of_rows(target, row_mask)
        rows = self.embedding(all_columns, target, all_mask, mask)
        bias = mask_bias(mask)
        between = None if row_mask is None else bias[:, None, None, :]
        for layer in self.layers:
            rows = layer(rows, between)
        rows = self.final_norm(rows).to(rows.dtype)
        summary = self.summary(self.pooling(rows, bias.unsqueeze(-1)).flatten(1))
        policy = self.layout.mask(self.policy(summary), column_mask)
        return *self.value_of(summary), policy, summary.float()


class _TokenEmbedding(nn.Module):
    """Raw numbers to one vector per row, through three tokens a number."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.tokenizer = NumberTokenizer()
        self.embedding = nn.Embedding(
            N_NUMBER_TOKENS, config.token_width, padding_idx=PAD
        )
        with torch.no_grad():
            self.embedding.weight.copy_(smooth_number_table(config.token_width))
        joined = (MAX_COLUMNS + 1) * TOKENS_PER_NUMBER * config.token_width
        self.mix = nn.Sequential(
            nn.Linear(joined, joined),
            nn.ReLU(),
            nn.Linear(joined, config.width),
            nn.ReLU(),
        )

    def tokenize(
        self, columns: Tensor, target: Tensor, column_mask: Tensor, row_mask: Tensor
    ) -> Tensor:
        all_columns, all_mask = _fill_columns(columns, column_mask)
        numbers = torch.cat(
            [
                clean_values(_only_present(all_columns, all_mask), row_mask),
                standardised_target(target, row_mask),
            ],
            dim=-1,
        )
        slots = torch.cat([all_mask, torch.ones_like(all_mask[:, :1])], dim=1)
        exists = row_mask[:, :, None, None] & slots[:, None, :, None]
        tokens: Tensor = self.tokenizer(numbers)
        return torch.where(exists, tokens, torch.full_like(tokens, PAD))

    def forward(
        self, columns: Tensor, target: Tensor, column_mask: Tensor, row_mask: Tensor
    ) -> Tensor:
        tokens = self.tokenize(columns, target, column_mask, row_mask)
        embedded = look_up(tokens, self.embedding.weight, PAD)
        return self.mix(embedded.flatten(2))  # type: ignore[no-any-return]


class TokensNetwork(Network):
    """The paper's MDLformer: tokens of numbers, post-norm encoder, value only.

    The target is standardised here, the columns are read as they are. All moves get
    the same logit, and the spread is one learned number: the paper has neither.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        width = config.width
        self.embedding = _TokenEmbedding(config)
        self.layers = nn.ModuleList(
            EncoderLayer(
                width,
                config.n_heads,
                config.feed_forward,
                config.activation,
                config.dropout,
                norm_first=False,
            )
            for _ in range(config.n_layers)
        )
        self.pooling = AttentionPooling(width)
        self.projection = nn.Linear(width, width)
        self.readout = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )
        self.spread = nn.Parameter(torch.zeros(1))

    def value_of(self, summary: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log spread of the value, read from summaries (B, W)."""
        mean = self.readout(summary)
        spread = self.spread.expand(mean.shape[0], 1).to(mean.dtype)
        return self._value(torch.cat([mean, spread], -1))

    def compilable_parts(self) -> list[nn.Module]:
        """Return the map from numbers to rows and the layers."""
        return [self.embedding, *self.layers]

    def tokenize(
        self, columns: Tensor, target: Tensor, column_mask: Tensor, row_mask: Tensor
    ) -> Tensor:
        """Return tokens (B, R, 11, 3) of the ten columns and the target."""
        return self.embedding.tokenize(columns, target, column_mask, row_mask)

    def compute(
        self,
        columns: Tensor,
        target: Tensor,
        column_mask: Tensor,
        row_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return mean, log spread, policy and summary as plain tensors."""
        rows = self.encode(columns, target, column_mask, row_mask)
        return self.read(rows, target, column_mask, row_mask)

    def encode(
        self,
        columns: Tensor,
        target: Tensor,
        column_mask: Tensor,
        row_mask: Tensor | None,
    ) -> Tensor:
        """Return one vector per row, (B, R, W); those of absent rows mean nothing."""
        mask = _mask_of_rows(target, row_mask)
        rows: Tensor = self.embedding(columns, target, column_mask, mask)
        between = None if row_mask is None else mask_bias(mask)[:, None, None, :]
        for layer in self.layers:
            rows = layer(rows, between)
        return rows

    def read(
        self,
        rows: Tensor,
        target: Tensor,
        column_mask: Tensor,
        row_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what ``compute`` does, from the encoded rows."""
        bias = mask_bias(_mask_of_rows(target, row_mask))
        pooled = self.pooling(rows, bias.unsqueeze(-1)).squeeze(-2)
        summary = self.projection(pooled)
        legal = self.layout.legal(column_mask)
        policy = self.layout.mask(legal.float() * 0.0, column_mask)
        return *self.value_of(summary), policy, summary.float()


def build_network(config: ModelConfig) -> Network:
    """Return a freshly initialised network; torch's generator decides the weights."""
    match config.architecture:
        case "cells":
            return CellsNetwork(config)
        case "rows":
            return RowsNetwork(config)
        case "tokens":
            return TokensNetwork(config)


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable numbers."""
    return sum(parameter.numel() for parameter in module.parameters())
