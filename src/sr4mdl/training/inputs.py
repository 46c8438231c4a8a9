"""Random input tables, made on the training device.

The shapes that real tables have: uniform and log-uniform boxes, Gaussian mixtures,
grids and whole numbers, trajectories, correlated columns, now and then very large or
very small units. Random functions of hidden variables are not made here: the corpus
writes them into the states' programs.

Legend: B states, R rows, D inputs.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

_Draw = Callable[..., Tensor]

KINDS: Final = (
    ("positive box", 0.30),
    ("symmetric box", 0.12),
    ("any box", 0.10),
    ("log-uniform", 0.10),
    ("mixture", 0.14),
    ("grid", 0.08),
    ("trajectory", 0.08),
    ("correlated", 0.08),
)
"""Kinds of tables and their shares in the default corpus."""

_MIXTURE: Final = [name for name, _ in KINDS].index("mixture")
MIXTURE_ONLY: Final = tuple(1.0 if name == "mixture" else 0.0 for name, _ in KINDS)
DEFAULT_SHARES: Final = tuple(share for _, share in KINDS)
_MAX_CLUSTERS: Final = 9


def draw_inputs(
    generator: torch.Generator,
    n_states: int,
    n_rows: int,
    n_inputs: int,
    shares: tuple[float, ...] = DEFAULT_SHARES,
    *,
    as_mixture: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Return inputs of shape (n_states, n_inputs, n_rows) on the generator's device.

    The tables of states in ``as_mixture`` (B,) are mixtures whatever the shares say.
    """
    device = generator.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device, dtype=dtype)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device, dtype=dtype)

    states, inputs, rows = n_states, n_inputs, n_rows
    base = uniform(states, inputs, rows)
    kind = torch.multinomial(
        torch.tensor(shares, device=device), states, True, generator=generator
    )
    if as_mixture is not None:
        kind = torch.where(as_mixture, _MIXTURE, kind)
    one_box = (uniform(states, 1, 1) < 0.5).to(dtype)

    def shared(draw: Tensor) -> Tensor:
        """Let half of the tables have one range for all columns."""
        return one_box * draw[:, :1] + (1.0 - one_box) * draw

    # Positive boxes, such as 1..5, and boxes round 0 or anywhere.
    low = shared(3.0 * uniform(states, inputs, 1) ** 2)
    low = torch.where(uniform(states, inputs, 1) < 0.5, low.round() + 0.0, low)
    low = torch.where(low == 0, 0.05 * uniform(states, inputs, 1), low)
    span = shared(0.5 + 9.5 * uniform(states, inputs, 1) ** 2)
    table = low + span * base

    def choose(number: int, values: Tensor) -> None:
        nonlocal table
        table = torch.where((kind == number)[:, None, None], values, table)

    reach = shared(10.0 ** (uniform(states, inputs, 1) * 1.3 - 0.3))
    choose(1, reach * (2.0 * base - 1.0))
    choose(2, 3.0 * normal(states, inputs, 1) + reach * (base - 0.5))
    first = shared(-2.0 + 3.0 * uniform(states, inputs, 1))
    decades = shared(0.5 + 2.5 * uniform(states, inputs, 1))
    choose(3, 10.0 ** (first + decades * base))
    choose(_MIXTURE, _mixture(states, inputs, rows, uniform, normal, generator))
    n_levels = torch.floor(2.0 + 18.0 * uniform(states, inputs, 1) ** 2)
    origin = torch.floor(5.0 * uniform(states, inputs, 1) ** 2)
    step = torch.where(
        uniform(states, inputs, 1) < 0.6,
        torch.ones_like(origin),
        0.1 + uniform(states, inputs, 1),
    )
    choose(5, step * (origin + torch.floor(n_levels * base)))
    choose(6, _trajectory(states, inputs, rows, uniform, normal))
    mixing = normal(states, inputs, inputs) / inputs**0.5
    mixed = torch.bmm(mixing, normal(states, inputs, rows)) + normal(states, inputs, 1)
    mixed = torch.where(
        uniform(states, 1, 1) < 0.4, mixed.clamp(-6.0, 6.0).exp(), mixed
    )
    choose(7, mixed)
    # A few columns come in units that make them huge or tiny.
    odd = uniform(states, inputs, 1) < 0.04
    power = torch.where(
        uniform(states, inputs, 1) < 0.2,
        24.0 * uniform(states, inputs, 1) - 12.0,
        6.0 * uniform(states, inputs, 1) - 3.0,
    )
    return torch.where(odd, table * 10.0**power, table)


def _mixture(
    states: int,
    inputs: int,
    rows: int,
    uniform: _Draw,
    normal: _Draw,
    generator: torch.Generator,
) -> Tensor:
    """Gaussian or uniform clusters, rotated; half of the tables standardised."""
    clusters = _MAX_CLUSTERS
    weights = uniform(states, clusters)
    n_clusters = 1 + torch.floor(clusters * uniform(states, 1))
    number = torch.arange(clusters, device=weights.device)
    weights = torch.where(
        number < n_clusters, weights + 1e-6, torch.zeros_like(weights)
    )
    member = torch.multinomial(weights.float(), rows, True, generator=generator)
    centres = normal(states, inputs, clusters)
    spreads = uniform(states, inputs, clusters).sqrt()
    index = member[:, None, :].expand(-1, inputs, -1)
    gaussian = normal(states, inputs, rows)
    flat = (2.0 * uniform(states, inputs, rows) - 1.0) * 3.0**0.5
    around = torch.where(uniform(states, 1, 1) < 0.5, gaussian, flat)
    table = centres.gather(2, index) + spreads.gather(2, index) * around
    # A random rotation, as the product of two reflections: cheap and exact.
    for _ in range(2):
        axis = normal(states, inputs, 1)
        axis = axis / axis.norm(dim=1, keepdim=True)
        table = table - 2.0 * axis * (axis * table).sum(1, keepdim=True)
    centred = (table - table.mean(2, keepdim=True)) / (
        table.std(2, keepdim=True) + 1e-9
    )
    return torch.where(uniform(states, 1, 1) < 0.5, centred, table)


def _trajectory(
    states: int, inputs: int, rows: int, uniform: _Draw, normal: _Draw
) -> Tensor:
    """Smooth curves of a common time, several runs laid end to end."""
    time = torch.linspace(
        0.0, 1.0, rows, device=uniform(1).device, dtype=normal(1).dtype
    )
    n_runs = torch.floor(1.0 + 4.0 * uniform(states, 1, 1))
    run = torch.floor(time * n_runs)
    within = time * n_runs - run
    phase = 6.3 * uniform(states, inputs, 1) + run * normal(states, inputs, 1)
    speed = 1.0 + 9.0 * uniform(states, inputs, 1)
    decay = 3.0 * uniform(states, inputs, 1) * (uniform(states, inputs, 1) < 0.5)
    wave = torch.exp(-decay * within) * torch.sin(speed * within + phase)
    level = 2.0 * normal(states, inputs, 1) * (uniform(states, 1, 1) < 0.6)
    curve = level + (0.5 + 2.0 * uniform(states, inputs, 1)) * wave
    positive = uniform(states, 1, 1) < 0.4
    return torch.where(positive, curve.abs() + 0.1, curve)
