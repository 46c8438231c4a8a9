"""Optimisers of a run: AdamW for everything, or Muon for the large matrices.

Muon steps along the momentum with all its singular values set to about 1, so that
rare directions of a matrix learn as fast as frequent ones. Vectors, embeddings and
narrow matrices stay with AdamW. Steps of both are of the same size for the same
learning rate.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

OptimizerName = Literal["adamw", "muon"]
OPTIMIZERS: Final[tuple[OptimizerName, ...]] = ("adamw", "muon")

_NARROWEST: Final = 64
"""Matrices with fewer rows or columns are left to AdamW."""
_ROOT_MEAN_SQUARE: Final = 0.2
"""Of a step divided by the learning rate, as AdamW's usually are."""
_ITERATIONS: Final = 5
_COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)
"""Odd polynomial whose iteration takes singular values in (0, 1] to about 1."""


def make_optimizers(
    learner: nn.Module,
    *,
    name: OptimizerName,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float],
    epsilon: float,
    fused: bool,
) -> list[torch.optim.Optimizer]:
    """Return the optimisers that together update all parameters of the learner.

    Parameters
    ----------
    learner : Module
        What is trained.
    name : {"adamw", "muon"}
        Who updates the large matrices.
    learning_rate : float
        To start with; the loop sets it before each step.
    weight_decay : float
        Of matrices; vectors and embeddings are not decayed.
    betas, epsilon
        Of AdamW.
    fused : bool
        Whether AdamW's fused form is used, which runs on a GPU only.
    """
    wide: list[nn.Parameter] = []
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for key, parameter in learner.named_parameters():
        if parameter.ndim < 2 or "embedding.weight" in key:
            others.append(parameter)
        elif name == "muon" and _is_wide(parameter):
            wide.append(parameter)
        else:
            matrices.append(parameter)
    adamw = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=learning_rate,
        betas=betas,
        eps=epsilon,
        fused=fused,
    )
    if not wide:
        return [adamw]
    return [adamw, Muon(wide, lr=learning_rate, weight_decay=weight_decay)]


def _is_wide(parameter: nn.Parameter) -> bool:
    return parameter.ndim == 2 and min(parameter.shape) >= _NARROWEST


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum for matrices; those of one shape are worked on at once.

    Parameters
    ----------
    params : iterable of Parameter
        Matrices.
    lr : float
        A step's root mean square is 0.2 of it, as AdamW's.
    momentum : float, default=0.95
        Decay of the mean gradient (Nesterov's form).
    weight_decay : float, default=0.0
        Decoupled from the gradient, as in AdamW.
    """

    found_inf: Tensor | None = None
    """Set to 1 on the device to leave the parameters, but for their decay, as they
    are in the next step."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all matrices that have a gradient; ``closure`` must be None."""
        if closure is not None:
            raise ValueError("closure must be None: Muon makes one step per gradient")
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for parameters in by_shape.values():
                self._step_of_shape(parameters, group)

    def _step_of_shape(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        gradient = torch.stack([p.grad for p in parameters if p.grad is not None])
        go = 1.0 if self.found_inf is None else 1.0 - self.found_inf
        if self.found_inf is not None:
            gradient = torch.where(self.found_inf > 0, 0.0, gradient)
        means = []
        for parameter in parameters:
            state = self.state[parameter]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(parameter)
            means.append(state["momentum"])
        torch._foreach_lerp_(means, list(gradient.unbind()), 1.0 - group["momentum"])
        direction = gradient.lerp(torch.stack(means), group["momentum"])
        update = orthogonalised(direction) * go
        size = _ROOT_MEAN_SQUARE * math.sqrt(max(parameters[0].shape))
        torch._foreach_mul_(parameters, 1.0 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(
            parameters, list(update.unbind()), alpha=-group["lr"] * size
        )


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return (N, R, C) matrices with the same singular vectors, values near 1.

    Newton-Schulz iteration, in bfloat16 on a GPU; singular values end in 0.7 to 1.2,
    zeros stay zero.
    """
    a, b, c = _COEFFICIENTS
    x = matrices if matrices.device.type == "cpu" else matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-20)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)
