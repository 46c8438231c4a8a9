"""The network with what only training needs beside it."""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from sr4mdl.mdlformer.config import ModelConfig
from sr4mdl.mdlformer.formula_encoder import FormulaEncoder
from sr4mdl.mdlformer.formula_writer import FormulaWriter, to_symbols
from sr4mdl.mdlformer.network import NetworkOutput, TokensNetwork, build_network
from sr4mdl.operators import MAX_BUILTIN_OPCODES
from sr4mdl.training.batch import DeviceBatch, Phase


@dataclass(frozen=True)
class LearnerOutput:
    """What the network and its teachers say about a batch; None for what is absent."""

    network: NetworkOutput
    """Of the network itself."""
    formulas: Tensor | None = None
    """(B, W) vectors of the formulas, to align with."""
    log_rates: Tensor | None = None
    """(B, operators) logarithms of how often each operator is expected."""
    symbols: Tensor | None = None
    """(B, L, symbols) logits of the formulas written down."""


class Learner(nn.Module):
    """The network with what only training needs.

    Parameters
    ----------
    config : ModelConfig
        The network.
    with_formulas : bool
        Whether there is an encoder of the formulas that it is aligned to.
    with_counts : bool, default=False
        Whether there is a head that tells from the summary how often each operator
        occurs in the formula.
    formula_layers : int, optional
        Layers of the formula encoder; None means as many as the network has.
    writer_layers : int, default=0
        Layers of the writer of formulas; 0 means that there is none.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        with_formulas: bool,
        with_counts: bool = False,
        formula_layers: int | None = None,
        writer_layers: int = 0,
    ) -> None:
        super().__init__()
        self.network = build_network(config)
        self.formulas = (
            FormulaEncoder(config, formula_layers) if with_formulas else None
        )
        self.counts: nn.Linear | None = None
        self.writer: FormulaWriter | None = None
        if with_counts:
            _needs_tokens("count_weight", config)
            self.counts = nn.Linear(config.width, MAX_BUILTIN_OPCODES)
        if writer_layers:
            _needs_tokens("write_weight", config)
            self.writer = FormulaWriter(config, writer_layers)

    def forward(self, batch: DeviceBatch, phase: Phase) -> LearnerOutput:
        """Return what is needed in the phase."""
        network, row_mask = self.network, None if batch.all_rows else batch.row_mask
        symbols = None
        if self.writer is not None and phase != "predict":
            assert isinstance(network, TokensNetwork)
            tokens = _formula_tokens(batch)
            rows = network.encode(
                batch.columns, batch.target, batch.column_mask, row_mask
            )
            output = NetworkOutput(
                *network.read(rows, batch.target, batch.column_mask, row_mask)
            )
            symbols = self.writer(rows, row_mask, to_symbols(tokens))
        else:
            output = network(batch.columns, batch.target, batch.column_mask, row_mask)
        if phase == "align":
            # The readout learns what it can make of the summaries and has no part in
            # shaping them: the error tells how far alignment has come.
            mean, log_spread = network.value_of(output.summary.detach())
            output = replace(output, value_mean=mean, value_log_spread=log_spread)
        vectors = None
        if self.formulas is not None and phase != "predict":
            vectors = self.formulas(_formula_tokens(batch))
        counts = None if self.counts is None else self.counts(output.summary).float()
        return LearnerOutput(output, vectors, counts, symbols)


def _needs_tokens(setting: str, config: ModelConfig) -> None:
    if config.architecture != "tokens":
        raise ValueError(
            f"{setting} must be 0 unless the architecture is tokens, "
            f"got {config.architecture}"
        )


def _formula_tokens(batch: DeviceBatch) -> Tensor:
    if batch.formula_tokens is None:
        raise ValueError("formula_tokens must be in the batch to align, got none")
    return batch.formula_tokens
