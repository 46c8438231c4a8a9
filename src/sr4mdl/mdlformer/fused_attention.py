"""Attention among few tokens as one GPU kernel, for training.

A state has at most ten columns and a few dozen rows. Kernels for long sequences spend
their time on tiles that are mostly empty, and a compiler that fuses products and sums
reads every number many times. Here one program holds all tokens of one head of a
column, or of several rows, in registers: numbers are read once and written once, and
the backward pass computes the weights again instead of storing them.

Imported only where Triton is installed. Shapes: B states, R rows, C columns, H heads,
D width of a head, N tokens that attend to one another (rows or columns).
"""

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

_LEAST_SIDE: Final = 16
_TILE: Final = 32
"""Tokens that a program holds at most when several rows share it."""
_ABSENT: Final = tl.constexpr(-1e30)


@triton.jit  # type: ignore[untyped-decorator]
def _tile(  # type: ignore[no-untyped-def]
    n_tile, n_tokens, n_outer, n_heads, state_stride, outer_stride, token_stride,
    SIDE: tl.constexpr, SIZE: tl.constexpr, OVER_ROWS: tl.constexpr,
):  # fmt: skip
    """Return this program's state, tokens, mask, and places in plain and packed."""
    program = tl.program_id(0)
    head = program % n_heads
    outer = (program // n_heads) % n_outer
    state = (program // n_heads // n_outer).to(tl.int64)
    token = tl.arange(0, SIDE)
    inside = token < n_tile
    if not OVER_ROWS:
        # Tiles follow one another in the table; the last may reach beyond its end.
        inside = inside & (outer * n_tile + token < n_tokens)
    cell = state * state_stride + outer * outer_stride + token[:, None] * token_stride
    within = head * SIZE + tl.arange(0, SIZE)[None, :]
    return state, token, inside, cell + within, 3 * cell + within


@triton.jit
def _bias_of(bias, state, token, inside, n_keys):  # type: ignore[no-untyped-def]
    key = token % n_keys
    return tl.load(bias + state * n_keys + key, mask=inside, other=_ABSENT)


@triton.jit  # type: ignore[untyped-decorator]
def _weights(  # type: ignore[no-untyped-def]
    q, k, bias, token, n_keys, scale, PRECISION: tl.constexpr
):
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale + bias[None, :]
    # Tokens of one tile see each other only if they belong to one row.
    group = token // n_keys
    scores = tl.where(group[:, None] == group[None, :], scores, _ABSENT)
    raised = tl.exp(scores - tl.max(scores, 1)[:, None])
    return raised / tl.sum(raised, 1)[:, None]


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(  # type: ignore[no-untyped-def]
    packed, bias, out, n_tile, n_tokens, n_keys, n_outer, n_heads,
    state_stride, outer_stride, token_stride, scale,
    SIDE: tl.constexpr, SIZE: tl.constexpr, OVER_ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    state, token, inside, plain, at = _tile(
        n_tile, n_tokens, n_outer, n_heads, state_stride, outer_stride, token_stride,
        SIDE, SIZE, OVER_ROWS,
    )  # fmt: skip
    mask = inside[:, None]
    third = n_heads * SIZE
    q = tl.load(packed + at, mask=mask, other=0.0)
    k = tl.load(packed + at + third, mask=mask, other=0.0)
    v = tl.load(packed + at + 2 * third, mask=mask, other=0.0)
    b = _bias_of(bias, state, token, inside, n_keys)
    p = _weights(q, k, b, token, n_keys, scale, PRECISION)
    mixed = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    tl.store(out + plain, mixed.to(v.dtype), mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    packed, bias, gradient, result, n_tile, n_tokens, n_keys, n_outer, n_heads,
    state_stride, outer_stride, token_stride, scale,
    SIDE: tl.constexpr, SIZE: tl.constexpr, OVER_ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    state, token, inside, plain, at = _tile(
        n_tile, n_tokens, n_outer, n_heads, state_stride, outer_stride, token_stride,
        SIDE, SIZE, OVER_ROWS,
    )  # fmt: skip
    mask = inside[:, None]
    third = n_heads * SIZE
    q = tl.load(packed + at, mask=mask, other=0.0)
    k = tl.load(packed + at + third, mask=mask, other=0.0)
    v = tl.load(packed + at + 2 * third, mask=mask, other=0.0)
    g = tl.load(gradient + plain, mask=mask, other=0.0)
    b = _bias_of(bias, state, token, inside, n_keys)
    p = _weights(q, k, b, token, n_keys, scale, PRECISION)
    for_values = tl.dot(tl.trans(p.to(v.dtype)), g, input_precision=PRECISION)
    for_weights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    mean = tl.sum(p * for_weights, 1)
    for_scores = (p * (for_weights - mean[:, None]) * scale).to(v.dtype)
    for_queries = tl.dot(for_scores, k, input_precision=PRECISION)
    for_keys = tl.dot(tl.trans(for_scores), q, input_precision=PRECISION)
    tl.store(result + at, for_queries.to(v.dtype), mask=mask)
    tl.store(result + at + third, for_keys.to(v.dtype), mask=mask)
    tl.store(result + at + 2 * third, for_values.to(v.dtype), mask=mask)


def _launch(kernel: Any, packed: Tensor, over_rows: bool, *tensors: Tensor) -> None:
    """Start one program per state, tile and head.

    Across rows a tile is a column; across columns it is as many rows as fit.
    """
    n_states, n_rows, n_columns, _, n_heads, size = packed.shape
    cell = n_heads * size
    row = n_columns * cell
    if over_rows:
        n_keys, n_tile, n_outer, token, outer = n_rows, n_rows, n_columns, row, cell
    else:
        together = min(n_rows, max(1, _TILE // n_columns))
        n_keys, n_tile = n_columns, together * n_columns
        n_outer, token, outer = -(-n_rows // together), cell, together * row
    kernel[(n_states * n_outer * n_heads,)](
        packed, *tensors, n_tile, n_rows * n_columns, n_keys, n_outer, n_heads,
        n_rows * row, outer, token, size**-0.5,
        SIDE=max(_LEAST_SIDE, triton.next_power_of_2(n_tile)),
        SIZE=size,
        OVER_ROWS=over_rows,
        PRECISION="ieee" if packed.dtype == torch.float32 else "tf32",
        num_warps=1 if n_tile <= 32 else 4,
    )  # fmt: skip


@torch.library.custom_op("sr4mdl::packed_attention", mutates_args=())
def packed_attention(packed: Tensor, bias: Tensor, over_rows: bool) -> Tensor:
    """Return softmax(queries keys' / sqrt(D) + bias) values, of shape (B, R, C, H, D).

    Parameters
    ----------
    packed : Tensor of shape (B, R, C, 3, H, D)
        Queries, keys and values; contiguous; D a power of 2 from 16 on.
    bias : float32 Tensor of shape (B, N)
        Added to the scores of each key; no gradient.
    over_rows : bool
        Whether the rows of a column attend to one another, or the columns of a row.
    """
    n_states, n_rows, n_columns, _, n_heads, size = packed.shape
    out = packed.new_empty(n_states, n_rows, n_columns, n_heads, size)
    _launch(_forward_kernel, packed, over_rows, bias, out)
    return out


@packed_attention.register_fake
def _(packed: Tensor, bias: Tensor, over_rows: bool) -> Tensor:
    n_states, n_rows, n_columns, _, n_heads, size = packed.shape
    return packed.new_empty(n_states, n_rows, n_columns, n_heads, size)


@torch.library.custom_op("sr4mdl::packed_attention_backward", mutates_args=())
def packed_attention_backward(
    gradient: Tensor, packed: Tensor, bias: Tensor, over_rows: bool
) -> Tensor:
    """Return the gradient for ``packed``, given the one for the result."""
    result = torch.empty_like(packed)
    _launch(_backward_kernel, packed, over_rows, bias, gradient.contiguous(), result)
    return result


@packed_attention_backward.register_fake
def _(gradient: Tensor, packed: Tensor, bias: Tensor, over_rows: bool) -> Tensor:
    return torch.empty_like(packed)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
    packed, bias, over_rows = inputs
    ctx.save_for_backward(packed, bias)
    ctx.over_rows = over_rows


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    packed, bias = ctx.saved_tensors
    return (
        packed_attention_backward(gradient, packed, bias, ctx.over_rows),
        None,
        None,
    )


packed_attention.register_autograd(_differentiate, setup_context=_keep)
