"""Attention among few tokens as one GPU kernel, for training.

A state has at most ten columns and a few dozen rows. Kernels for long sequences spend
their time on tiles that are mostly empty, and a compiler that fuses products and sums
reads every number many times. Here one program holds all tokens of one head of one
row or column in registers: numbers are read once and written once, and the backward
pass computes the weights again instead of storing them.

Imported only where Triton is installed. Shapes: B states, R rows, C columns, H heads,
D width of a head, N tokens that attend to one another (rows or columns).
"""

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

_LEAST_SIDE: Final = 16
_ABSENT: Final = tl.constexpr(-1e30)


@triton.jit
def _load_tokens(base, at, inside):  # type: ignore[no-untyped-def]
    return tl.load(base + at, mask=inside[:, None], other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _weights(q, k, bias, scale, precision: tl.constexpr):  # type: ignore[no-untyped-def]
    scores = tl.dot(q, tl.trans(k), input_precision=precision) * scale + bias[None, :]
    raised = tl.exp(scores - tl.max(scores, 1)[:, None])
    return raised / tl.sum(raised, 1)[:, None]


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(  # type: ignore[no-untyped-def]
    packed, bias, out, n_tokens, n_outer, n_heads,
    packed_state, packed_outer, packed_token, out_state, out_outer, out_token, scale,
    SIDE: tl.constexpr, SIZE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    head = program % n_heads
    outer = (program // n_heads) % n_outer
    state = (program // n_heads // n_outer).to(tl.int64)
    token = tl.arange(0, SIDE)
    place = tl.arange(0, SIZE)
    inside = token < n_tokens
    base = packed + state * packed_state + outer * packed_outer + head * SIZE
    third = n_heads * SIZE
    at = token[:, None] * packed_token + place[None, :]
    q = _load_tokens(base, at, inside)
    k = _load_tokens(base + third, at, inside)
    v = _load_tokens(base + 2 * third, at, inside)
    b = tl.load(bias + state * n_tokens + token, mask=inside, other=_ABSENT)
    p = _weights(q, k, b, scale, PRECISION)
    mixed = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
    target = out + state * out_state + outer * out_outer + head * SIZE
    tl.store(
        target + token[:, None] * out_token + place[None, :],
        mixed.to(v.dtype),
        mask=inside[:, None],
    )


@triton.jit  # type: ignore[untyped-decorator]
def _backward_kernel(  # type: ignore[no-untyped-def]
    packed, bias, gradient, result, n_tokens, n_outer, n_heads,
    packed_state, packed_outer, packed_token, out_state, out_outer, out_token, scale,
    SIDE: tl.constexpr, SIZE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    head = program % n_heads
    outer = (program // n_heads) % n_outer
    state = (program // n_heads // n_outer).to(tl.int64)
    token = tl.arange(0, SIDE)
    place = tl.arange(0, SIZE)
    inside = token < n_tokens
    offset = state * packed_state + outer * packed_outer + head * SIZE
    third = n_heads * SIZE
    at = token[:, None] * packed_token + place[None, :]
    q = _load_tokens(packed + offset, at, inside)
    k = _load_tokens(packed + offset + third, at, inside)
    v = _load_tokens(packed + offset + 2 * third, at, inside)
    g = tl.load(
        gradient + state * out_state + outer * out_outer + head * SIZE
        + token[:, None] * out_token + place[None, :],
        mask=inside[:, None],
        other=0.0,
    )  # fmt: skip
    b = tl.load(bias + state * n_tokens + token, mask=inside, other=_ABSENT)
    p = _weights(q, k, b, scale, PRECISION)
    for_values = tl.dot(tl.trans(p.to(v.dtype)), g, input_precision=PRECISION)
    for_weights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
    mean = tl.sum(p * for_weights, 1)
    for_scores = (p * (for_weights - mean[:, None]) * scale).to(v.dtype)
    for_queries = tl.dot(for_scores, k, input_precision=PRECISION)
    for_keys = tl.dot(tl.trans(for_scores), q, input_precision=PRECISION)
    out = result + offset
    mask = inside[:, None]
    tl.store(out + at, for_queries.to(v.dtype), mask=mask)
    tl.store(out + third + at, for_keys.to(v.dtype), mask=mask)
    tl.store(out + 2 * third + at, for_values.to(v.dtype), mask=mask)


def _launch(kernel: Any, packed: Tensor, over_rows: bool, *tensors: Tensor) -> None:
    n_states, n_rows, n_columns, _, n_heads, size = packed.shape
    n_tokens, n_outer = (n_rows, n_columns) if over_rows else (n_columns, n_rows)
    cell = n_heads * size
    row = n_columns * cell
    token, outer = (row, cell) if over_rows else (cell, row)
    kernel[(n_states * n_outer * n_heads,)](
        packed, *tensors, n_tokens, n_outer, n_heads,
        3 * n_rows * row, 3 * outer, 3 * token, n_rows * row, outer, token, size**-0.5,
        SIDE=max(_LEAST_SIDE, triton.next_power_of_2(n_tokens)),
        SIZE=size,
        PRECISION="ieee" if packed.dtype == torch.float32 else "tf32",
        num_warps=1 if n_tokens <= 32 else 4,
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
