"""The network with what only training needs beside it."""

from dataclasses import replace

from torch import Tensor, nn

from sr4mdl.mdlformer.config import ModelConfig
from sr4mdl.mdlformer.formula_encoder import FormulaEncoder
from sr4mdl.mdlformer.network import NetworkOutput, build_network
from sr4mdl.operators import MAX_BUILTIN_OPCODES
from sr4mdl.training.batch import DeviceBatch, Phase


class Learner(nn.Module):
    """The network with what only training needs.

    That is the encoder of the formulas it is aligned to, and the head that tells from
    the summary how often each operator occurs in the formula.
    """

    def __init__(
        self, config: ModelConfig, *, with_formulas: bool, with_counts: bool = False
    ) -> None:
        super().__init__()
        self.network = build_network(config)
        self.formulas = FormulaEncoder(config) if with_formulas else None
        self.counts: nn.Linear | None = None
        if with_counts:
            if config.architecture != "tokens":
                raise ValueError(
                    "count_weight must be 0 unless the architecture is tokens, "
                    f"got {config.architecture}"
                )
            self.counts = nn.Linear(config.width, MAX_BUILTIN_OPCODES)

    def forward(
        self, batch: DeviceBatch, phase: Phase
    ) -> tuple[NetworkOutput, Tensor | None, Tensor | None]:
        """Return the network's output, formulas' vectors and counts, where needed."""
        output = self.network(
            batch.columns,
            batch.target,
            batch.column_mask,
            None if batch.all_rows else batch.row_mask,
        )
        if phase == "align":
            # The readout learns what it can make of the summaries and has no part in
            # shaping them: the error tells how far alignment has come.
            mean, log_spread = self.network.value_of(output.summary.detach())
            output = replace(output, value_mean=mean, value_log_spread=log_spread)
        vectors = None
        if phase != "predict":
            if self.formulas is None or batch.formula_tokens is None:
                raise ValueError(
                    "formula_tokens must be in the batch to align, got none"
                )
            vectors = self.formulas(batch.formula_tokens)
        counts = None if self.counts is None else self.counts(output.summary).float()
        return output, vectors, counts
