"""Looking up the tokens of numbers on a GPU, with a gradient made for them.

A batch holds millions of numbers, but there are few signs and exponents: in the usual
backward pass nearly all threads add to the same few rows, one after another, and it
takes as long as all products of a feed-forward part. Here each program sums signs and
exponents of some thousand numbers by itself and adds once; mantissas, of which there
are ten thousand, are added one by one; absent numbers are skipped.

Imported only where Triton is installed. Shapes: N numbers, W width of a token, V
tokens.
"""

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from sr4mdl.mdlformer.tokens import (
    FIRST_EXPONENT,
    MAX_EXPONENT,
    NEGATIVE,
    PAD,
    POSITIVE,
    TOKENS_PER_NUMBER,
)

_CHUNK: Final = 4096
"""Numbers of one program."""
_TILE: Final = 64
"""Numbers that it reads at once."""
_N_EXPONENTS: Final = 2 * MAX_EXPONENT + 1


@triton.jit  # type: ignore[untyped-decorator]
def _sum_kernel(  # type: ignore[no-untyped-def]
    tokens, gradient, result, n_numbers, n_exponents,
    CHUNK: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
    EXPONENTS: tl.constexpr, ABSENT: tl.constexpr, PLUS: tl.constexpr,
    MINUS: tl.constexpr, FIRST: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    begin = tl.program_id(0).to(tl.int64) * CHUNK
    within = tl.arange(0, WIDTH)
    exponent = tl.arange(0, EXPONENTS)
    of_exponents = tl.zeros([EXPONENTS, WIDTH], tl.float32)
    of_plus = tl.zeros([WIDTH], tl.float32)
    of_minus = tl.zeros([WIDTH], tl.float32)
    for step in range(0, CHUNK, TILE):
        number = begin + step + tl.arange(0, TILE)
        inside = number < n_numbers
        signs = tl.load(tokens + 3 * number, mask=inside, other=ABSENT)
        exists = signs != ABSENT
        mask = exists[:, None]
        at = gradient + 3 * number[:, None] * WIDTH + within[None, :]

        g = tl.load(at, mask=mask, other=0.0).to(tl.float32)
        of_plus += tl.sum(tl.where((signs == PLUS)[:, None], g, 0.0), 0)
        of_minus += tl.sum(tl.where((signs == MINUS)[:, None], g, 0.0), 0)

        mantissas = tl.load(tokens + 3 * number + 1, mask=exists, other=0)
        g = tl.load(at + WIDTH, mask=mask, other=0.0).to(tl.float32)
        place = result + mantissas[:, None] * WIDTH + within[None, :]
        tl.atomic_add(place, g, mask=mask, sem="relaxed")

        raised = tl.load(tokens + 3 * number + 2, mask=exists, other=0) - FIRST
        g = tl.load(at + 2 * WIDTH, mask=mask, other=0.0)
        chosen = (raised[None, :] == exponent[:, None]).to(g.dtype)
        of_exponents += tl.dot(chosen, g, input_precision=PRECISION)
    tl.atomic_add(result + PLUS * WIDTH + within, of_plus, sem="relaxed")
    tl.atomic_add(result + MINUS * WIDTH + within, of_minus, sem="relaxed")
    place = result + (FIRST + exponent[:, None]) * WIDTH + within[None, :]
    seen = (exponent < n_exponents)[:, None] & (of_exponents != 0.0)
    tl.atomic_add(place, of_exponents, mask=seen, sem="relaxed")


@torch.library.custom_op("sr4mdl::look_up_numbers", mutates_args=())
def look_up_numbers(tokens: Tensor, table: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the rows of the table, of shape (N, 3, W), in the given type.

    Parameters
    ----------
    tokens : int64 Tensor of shape (N, 3)
        Sign, mantissa and exponent of each number, or three times ``PAD``; contiguous.
    table : float32 Tensor of shape (V, W)
        W a power of 2 from 16 on.
    dtype : torch.dtype
        Of the result; gradients are summed in float32.
    """
    return table.to(dtype)[tokens]


@look_up_numbers.register_fake
def _(tokens: Tensor, table: Tensor, dtype: torch.dtype) -> Tensor:
    return table.new_empty(*tokens.shape, table.shape[1], dtype=dtype)


@torch.library.custom_op("sr4mdl::sum_by_token", mutates_args=())
def sum_by_token(gradient: Tensor, tokens: Tensor, n_tokens: int) -> Tensor:
    """Return (V, W) float32: the sum of the gradients (N, 3, W) of each token's uses.

    That of ``PAD`` is 0.
    """
    n_numbers, width = tokens.shape[0], gradient.shape[-1]
    result = torch.zeros(n_tokens, width, dtype=torch.float32, device=gradient.device)
    _sum_kernel[(triton.cdiv(n_numbers, _CHUNK),)](
        tokens, gradient.contiguous(), result, n_numbers, _N_EXPONENTS,
        CHUNK=_CHUNK, TILE=_TILE, WIDTH=width,
        EXPONENTS=triton.next_power_of_2(_N_EXPONENTS), ABSENT=PAD, PLUS=POSITIVE,
        MINUS=NEGATIVE, FIRST=FIRST_EXPONENT,
        PRECISION="ieee" if gradient.dtype == torch.float32 else "tf32",
        num_warps=8,
    )  # fmt: skip
    return result


@sum_by_token.register_fake
def _(gradient: Tensor, tokens: Tensor, n_tokens: int) -> Tensor:
    return gradient.new_empty(n_tokens, gradient.shape[-1], dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, torch.dtype], output: Tensor) -> None:
    tokens, table, _ = inputs
    assert tokens.shape[-1] == TOKENS_PER_NUMBER
    ctx.save_for_backward(tokens)
    ctx.n_tokens = table.shape[0]


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
    (tokens,) = ctx.saved_tensors
    return None, sum_by_token(gradient, tokens, ctx.n_tokens), None


look_up_numbers.register_autograd(_differentiate, setup_context=_keep)
