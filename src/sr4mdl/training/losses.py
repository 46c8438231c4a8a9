"""Losses and ranking counts, as weighted sums over states.

Sums, not means: a batch is worked through in parts, and the parts' sums divided by the
whole batch's weight give the same gradient as the batch at once.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import torch
import torch.nn.functional as functional
from torch import Tensor

from sr4mdl.mdlformer.formula_writer import ABSENT, to_symbols
from sr4mdl.mdlformer.network import NetworkOutput
from sr4mdl.mdlformer.tokens import FIRST_OPERATOR
from sr4mdl.training.batch import DeviceBatch, Phase
from sr4mdl.training.learner import LearnerOutput

Strategy = Literal["sequential", "concurrent", "predict-only"]
ValueLoss = Literal["likelihood", "squared"]
_LARGEST_LOG_RATE: Final = 5.0
"""No operator is expected more often than e to this power; keeps exp finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LossConfig:
    """What is minimised."""

    value_loss: ValueLoss = "likelihood"
    """``likelihood``: normal likelihood of mean and spread; ``squared``: the paper's
    squared error (its spread is fitted beside it, without touching the mean)."""
    value_weight: float = 0.1
    """Weight of the value's loss."""
    policy_weight: float = 1.0
    """Weight of the policy's loss."""
    align_weight: float = 1.0
    """Weight of the alignment loss."""
    write_weight: float = 0.0
    """Weight of the loss of writing the formula down (``tokens`` only, wherever there
    is alignment); 0 leaves it out, as the paper does."""
    count_weight: float = 0.0
    """Weight of the loss of telling how often each operator occurs (``tokens`` only,
    in every phase); 0 leaves it out, as the paper does."""
    uniform_share: float = 0.1
    """Share of the policy's loss that asks for equal mass on all correct moves."""
    spread_power: float = 0.5
    """The likelihood of each state is weighted by (spread squared) to this power, so
    that states found hard are not given up; 0 is the plain likelihood."""
    temperature: float = 1.0
    """Divides the similarities of the alignment loss."""

    def __post_init__(self) -> None:
        if self.value_loss not in ("likelihood", "squared"):
            raise ValueError(
                f"value_loss must be likelihood or squared, got {self.value_loss!r}"
            )
        for name in (
            "value_weight", "policy_weight", "align_weight", "write_weight",
            "count_weight",
        ):  # fmt: skip
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} must not be negative, got {getattr(self, name)}"
                )
        if not 0.0 <= self.uniform_share <= 1.0:
            raise ValueError(
                f"uniform_share must be in [0, 1], got {self.uniform_share}"
            )
        if not 0.0 <= self.spread_power <= 1.0:
            raise ValueError(f"spread_power must be in [0, 1], got {self.spread_power}")
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")


@dataclass(frozen=True)
class Denominators:
    """Weights of a whole batch, by which the sums of its parts are divided."""

    states: Tensor
    """Total weight."""
    with_moves: Tensor
    """Total weight of states that have a correct move."""


def denominators(batch: DeviceBatch) -> Denominators:
    """Return the batch's total weights, at least a tiny number each."""
    with_moves = (batch.moves >= 0).any(-1).to(batch.weight.dtype) * batch.weight
    return Denominators(
        batch.weight.sum().clamp(min=1e-6), with_moves.sum().clamp(min=1e-6)
    )


def value_losses(output: NetworkOutput, value: Tensor, config: LossConfig) -> Tensor:
    """Return the value's loss of each state (B,)."""
    mean, log_spread = output.value_mean, output.value_log_spread
    if config.value_loss == "squared":
        squared = (mean - value) ** 2
        return squared + _negative_log_likelihood(mean.detach(), log_spread, value)
    loss = _negative_log_likelihood(mean, log_spread, value)
    return loss * torch.exp(2.0 * config.spread_power * log_spread.detach())


def _negative_log_likelihood(mean: Tensor, log_spread: Tensor, value: Tensor) -> Tensor:
    scaled = (value - mean) * torch.exp(-log_spread)
    return 0.5 * scaled * scaled + log_spread + 0.5 * math.log(2.0 * math.pi)


def policy_losses(policy: Tensor, moves: Tensor, uniform_share: float) -> Tensor:
    """Return the policy's loss of each state (B,), 0 for states without a move.

    ``(1 - s) * -log(sum of the correct moves' probabilities) + s * mean of their
    -log probabilities`` with s the ``uniform_share``.
    """
    correct = moves >= 0
    log_probabilities = policy.log_softmax(-1).gather(1, moves.clamp(min=0).long())
    absent = torch.full_like(log_probabilities, -torch.inf)
    any_correct = correct.any(-1)
    # A state without moves gets one harmless entry: logsumexp of nothing has no
    # finite gradient.
    entries = torch.where(correct, log_probabilities, absent)
    entries = torch.where(any_correct[:, None], entries, torch.zeros_like(entries))
    together = -entries.logsumexp(-1)
    count = correct.sum(-1).clamp(min=1)
    zeros = torch.zeros_like(log_probabilities)
    each = -torch.where(correct, log_probabilities, zeros).sum(-1) / count
    loss = (1.0 - uniform_share) * together + uniform_share * each
    return torch.where(any_correct, loss, torch.zeros_like(loss))


def alignment_loss(
    numbers: Tensor, formulas: Tensor, weight: Tensor, temperature: float
) -> Tensor:
    """Return the symmetric contrastive loss of the paper, summed over states.

    States of weight 0 neither count nor serve as contrast.
    """
    similarity = numbers @ formulas.T / temperature
    refused = weight <= 0
    absent = torch.full_like(similarity, -1e4)
    by_number = torch.where(refused[None, :], absent, similarity)
    by_formula = torch.where(refused[None, :], absent, similarity.T)
    labels = torch.arange(len(numbers), device=numbers.device)
    losses = functional.cross_entropy(by_number, labels, reduction="none")
    losses = losses + functional.cross_entropy(by_formula, labels, reduction="none")
    return (losses * weight).sum()


def operator_counts(tokens: Tensor, n_operators: int) -> Tensor:
    """Return (B, n_operators) float: how often each operator is among tokens (B, L).

    Operators alone: constants and names of variables are redrawn in some phases.
    """
    # Place 0 takes all that is no operator.
    places = (tokens.long() - FIRST_OPERATOR + 1).clamp(min=0)
    counts = torch.zeros(len(tokens), n_operators + 1, device=tokens.device)
    ones = torch.ones_like(places, dtype=counts.dtype)
    return counts.scatter_add_(1, places, ones)[:, 1:]


def count_losses(log_rates: Tensor, counts: Tensor) -> Tensor:
    """Return (B,): minus the Poisson log likelihood of counts, up to a constant."""
    log_rates = log_rates.clamp(max=_LARGEST_LOG_RATE)
    return (log_rates.exp() - counts * log_rates).sum(-1)


def write_losses(logits: Tensor, symbols: Tensor) -> Tensor:
    """Return (B,): nats it takes to write each formula, summed over its symbols.

    ``logits`` are (B, L, S) and ``symbols`` (B, L), with ``ABSENT`` behind the end.
    """
    each = functional.cross_entropy(
        logits.flatten(0, 1).float(),
        symbols.flatten(),
        ignore_index=ABSENT,
        reduction="none",
    )
    return each.view(symbols.shape).sum(-1)


@dataclass(frozen=True)
class Losses:
    """Losses of a part of a batch, already divided by the batch's weight."""

    total: Tensor
    """What is minimised."""
    value: Tensor
    """The value's loss."""
    policy: Tensor
    """The policy's loss."""
    align: Tensor
    """The alignment loss."""
    write: Tensor
    """The loss of writing the formula down."""
    count: Tensor
    """The loss of the operators' counts."""


def compute_losses(
    said: LearnerOutput,
    batch: DeviceBatch,
    whole: Denominators,
    config: LossConfig,
    *,
    phase: Phase,
    has_policy: bool,
) -> Losses:
    """Return all losses of a part of a batch.

    Parameters
    ----------
    said : LearnerOutput
        What the network and its teachers say of the part; vectors of formulas and
        written symbols are needed where they count, unless the phase is ``predict``.
    batch : DeviceBatch
        The part.
    whole : Denominators
        Of the batch that the part belongs to.
    config : LossConfig
        Weights.
    phase : {"align", "predict", "both"}
        Which objectives count.
    has_policy : bool
        Whether the network has a policy head to train.
    """
    output = said.network
    zero = output.value_mean.sum() * 0.0
    policy = align = write = count = zero
    weighted = value_losses(output, batch.value, config) * batch.weight
    value = weighted.sum() / whole.states
    if has_policy and phase != "align":
        each = policy_losses(output.policy, batch.moves, config.uniform_share)
        policy = (each * batch.weight).sum() / whole.with_moves
    if phase != "predict" and config.align_weight > 0:
        if said.formulas is None:
            raise ValueError("formulas must be given to align, got None")
        total = alignment_loss(
            output.summary, said.formulas, batch.weight, config.temperature
        )
        align = total / whole.states
    if phase != "predict" and config.write_weight > 0:
        if said.symbols is None or batch.formula_tokens is None:
            raise ValueError("symbols and formula_tokens must be given to write")
        each = write_losses(said.symbols, to_symbols(batch.formula_tokens))
        write = (each * batch.weight).sum() / whole.states
    if config.count_weight > 0:
        if said.log_rates is None or batch.formula_tokens is None:
            raise ValueError("log_rates and formula_tokens must be given to count")
        counts = operator_counts(batch.formula_tokens, said.log_rates.shape[1])
        each = count_losses(said.log_rates, counts)
        count = (each * batch.weight).sum() / whole.states
    total = (
        config.value_weight * value
        + config.policy_weight * policy
        + config.align_weight * align
        + config.write_weight * write
        + config.count_weight * count
    )
    return Losses(total, value, policy, align, write, count)


def best_correct_ranks(policy: Tensor, moves: Tensor) -> Tensor:
    """Return the rank (B,) of the best correct move, from 1; -1 without a move.

    Ties count against the network: a wrong move of equal logit ranks before.
    """
    correct = moves >= 0
    chosen = policy.gather(1, moves.clamp(min=0).long())
    absent = torch.full_like(chosen, -torch.inf)
    best = torch.where(correct, chosen, absent).amax(-1, keepdim=True)
    is_correct = torch.zeros_like(policy, dtype=torch.bool)
    # scatter with a spare last column takes the filling, which has no id.
    padded = torch.nn.functional.pad(is_correct, (0, 1))
    padded.scatter_(1, torch.where(correct, moves.long(), policy.shape[1]), True)
    wrong_before = ((policy >= best) & ~padded[:, :-1]).sum(-1)
    return torch.where(correct.any(-1), wrong_before + 1, -1)
