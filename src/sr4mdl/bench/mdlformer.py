"""Measures of the value head on generated pairs (``sr4mdl bench mdlformer``).

Pairs of formula and table are drawn from the paper's distribution, as in its tables
and ablation figures: whole formulas over Gaussian mixtures. Panels vary one thing at a
time: rows, feature noise, number of variables, of unary and of binary operators; the
panel ``strategy`` trains networks of its own. Needs the ``train`` extra, because the
tables are made as in training.
"""

import json
import random
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.bench.documents import write_document
from sr4mdl.bench.measures import setting_text
from sr4mdl.bench.ranking import value_metrics
from sr4mdl.bench.strategies import DEFAULT_ROUNDS, measure_strategies
from sr4mdl.bench.suite_command import BenchOptionError
from sr4mdl.corpus.formulas import DEFAULT_CONSTANTS, PAPER_CONSTANTS, PaperConstants

if TYPE_CHECKING:
    from sr4mdl.training.batch import DeviceBatch

PANELS: Final = ("rows", "noise", "variables", "unary", "binary")
"""Panels of one network; ``strategy`` is not among them, nor in ``all``."""
STRATEGY_PANEL: Final = "strategy"
_ROWS: Final = (25, 50, 100, 200, 400)
_NOISE: Final = (0.0, 0.001, 0.01, 0.1)

Predict = Callable[["DeviceBatch"], FloatArray]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Generated pairs on which a network is measured."""

    batch: "DeviceBatch"
    truth: FloatArray
    """(n,) lengths of the formulas"""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--weights", type=Path,
        help="directory of a checkpoint, or an ONNX file (default: shipped)",
    )  # fmt: skip
    parser.add_argument("--pairs", type=int, default=1024, help="pairs per measure")
    parser.add_argument("--rows", type=int, default=200, help="rows per pair")
    parser.add_argument("--seed", type=int, default=12345)
    parser.add_argument(
        "--panels", default="",
        help=f"comma-separated, of {', '.join(PANELS)}, or all (of these); or "
        "strategy, which trains networks first",
    )  # fmt: skip
    parser.add_argument(
        "--formula-constants", choices=PAPER_CONSTANTS, default=DEFAULT_CONSTANTS,
        help="constants of the formulas: uniform up to 100, as the paper's text says "
        "(default), or three decades alike, as in the generator that it takes",
    )  # fmt: skip
    parser.add_argument("--device", default="cpu", help="where a checkpoint runs")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON for the report"
    )
    parser.add_argument("--json", action="store_true", help="last line is JSON")
    group = parser.add_argument_group("panel strategy")
    group.add_argument(
        "--rounds", type=int, default=DEFAULT_ROUNDS, help="batches a network"
    )
    group.add_argument("--seeds", type=int, default=1, help="networks a strategy")
    group.add_argument(
        "--train", default="", metavar="ARGUMENTS",
        help="further arguments of sr4mdl train, as \"--rows 64 --optimizer muon\"",
    )  # fmt: skip
    group.add_argument(
        "--keep", type=Path, default=Path("strategies"), metavar="DIR",
        help="where networks and finished measures are kept (default: strategies)",
    )  # fmt: skip


def make_pairs(
    n_pairs: int,
    n_rows: int,
    seed: int,
    *,
    feature_noise: float = 0.0,
    device: str = "cpu",
    constants: PaperConstants = DEFAULT_CONSTANTS,
    **counts: int | None,
) -> Pairs:
    """Draw pairs until ``n_pairs`` are kept; ``counts`` fix the formula's counts.

    Parameters
    ----------
    n_pairs, n_rows : int
        Size.
    seed : int
        Same seed, same pairs.
    feature_noise : float, default=0.0
        Gaussian noise on the columns, in standard deviations of each.
    device : str
        Where the tables are made.
    constants : {"decades", "uniform"}
        Of the formulas.
    **counts : int
        ``n_variables``, ``n_unary``, ``n_binary`` of the formulas.
    """
    import torch

    from sr4mdl.corpus.formulas import VARIABLE_NAMES, paper_formula
    from sr4mdl.corpus.skeletons import (
        SkeletonBank,
        SkeletonTooLargeError,
        build_skeleton,
    )
    from sr4mdl.corpus.states import StateArrays, root_states
    from sr4mdl.training.source_config import SourceConfig
    from sr4mdl.training.state_computer import StateComputer

    rng = random.Random(seed)
    # A fifth of the formulas loses too many rows to the domain.
    capacity = 2 * n_pairs + 16
    bank = SkeletonBank.empty(capacity)
    n_filled = 0
    while n_filled < capacity:
        formula = paper_formula(rng, constants=constants, **counts)
        names = VARIABLE_NAMES[: formula.n_variables]
        try:
            skeleton = build_skeleton(formula.expression, names, keep_constants=True)
        except SkeletonTooLargeError:
            continue
        bank.store(n_filled, skeleton)
        n_filled += 1
    arrays, made = root_states(bank, n_filled, seed)
    arrays = StateArrays._make(array[made] for array in arrays)
    config = SourceConfig(
        distribution="paper", n_rows=n_rows, n_candidates=2 * n_rows,
        min_rows=max(2, n_rows // 2), fewer_rows_rate=0.0, noise_rate=0.0, seed=seed,
    )  # fmt: skip
    computer = StateComputer(config, torch.device(device))
    batch = computer.compute(computer.move(arrays)).kept()
    if batch.n_states < n_pairs:
        raise ValueError(f"only {batch.n_states} of {n_pairs} pairs kept enough rows")
    batch = batch.part(0, n_pairs)
    if feature_noise > 0:
        generator = torch.Generator(device=device).manual_seed(seed)
        noise = torch.randn(batch.columns.shape, generator=generator, device=device)
        spread = batch.columns.std(1, keepdim=True)
        noisy = batch.columns + feature_noise * spread * noise
        batch = replace(batch, columns=noisy)
    return Pairs(batch, batch.value.cpu().numpy().astype(np.float64))


def load_predictor(weights: Path | None, device: str) -> Predict:
    """Return a function from batches to predicted lengths."""
    if weights is not None and weights.suffix != ".onnx":
        import torch

        from sr4mdl.mdlformer.checkpoint import load_model

        network = load_model(weights, device=device).network.eval()

        def by_network(batch: "DeviceBatch") -> FloatArray:
            outputs = []
            with torch.no_grad():
                for start in range(0, batch.n_states, 64):
                    part = slice(start, start + 64)
                    output = network(
                        batch.columns[part], batch.target[part],
                        batch.column_mask[part], batch.row_mask[part],
                    )  # fmt: skip
                    outputs.append(output.value_mean.float().cpu().numpy())
            return np.concatenate(outputs).astype(np.float64)

        return by_network
    from sr4mdl.mdlformer.guide import OnnxGuide

    guide = OnnxGuide(weights)

    def by_guide(batch: "DeviceBatch") -> FloatArray:
        values = np.zeros(batch.n_states)
        for number in range(batch.n_states):
            rows = batch.row_mask[number].numpy()
            count = int(batch.column_mask[number].sum())
            output = guide.score(
                batch.columns[number].numpy()[None, rows, :count],
                [count],
                batch.target[number].numpy()[None, rows],
            )
            values[number] = output.value_mean[0]
        return values

    return by_guide


def measure_panel(
    panel: str,
    predict: Predict,
    n_pairs: int,
    n_rows: int,
    make: Callable[..., Pairs],
) -> list[dict[str, Any]]:
    """Return one record per setting of a panel.

    ``make`` is ``make_pairs`` with what all settings have in common.
    """
    settings: list[tuple[float, dict[str, Any]]]
    if panel == "rows":
        settings = [(rows, {"n_rows": rows}) for rows in _ROWS]
    elif panel == "noise":
        settings = [(level, {"feature_noise": level}) for level in _NOISE]
    elif panel == "variables":
        settings = [(count, {"n_variables": count}) for count in range(1, 11)]
    elif panel == "unary":
        settings = [(count, {"n_unary": count}) for count in range(5)]
    elif panel == "binary":
        settings = [(count, {"n_binary": count}) for count in range(0, 14, 2)]
    else:
        raise ValueError(f"panel must be one of {', '.join(PANELS)}, got {panel!r}")
    records = []
    for value, options in settings:
        rows = options.pop("n_rows", n_rows)
        pairs = make(n_pairs, rows, **options)
        records.append({panel: value, **measure_pairs(pairs, predict)})
    return records


def measure_pairs(pairs: Pairs, predict: Predict) -> dict[str, float]:
    """Return the measures of a network on pairs, with their mean length."""
    metrics = value_metrics(pairs.truth, predict(pairs.batch))
    mean_length = float(pairs.truth.mean())
    return {
        **metrics,
        "mean_length": mean_length,
        "relative_rmse": metrics["rmse"] / mean_length,
    }


def _records(
    panel: str,
    arguments: Namespace,
    pairs: Pairs,
    predict: Predict,
    make: Callable[..., Pairs],
) -> list[dict[str, Any]]:
    """Return the records of a panel, as the arguments say."""
    device = arguments.device
    if panel == STRATEGY_PANEL:
        measured_on = ("pairs", "rows", "seed")
        return measure_strategies(
            arguments.keep, rounds=arguments.rounds, n_seeds=arguments.seeds,
            given=arguments.train, constants=arguments.formula_constants,
            pairs={name: getattr(arguments, name) for name in measured_on},
            measure=lambda path: measure_pairs(pairs, load_predictor(path, device)),
        )  # fmt: skip
    return measure_panel(
        panel, predict, max(64, arguments.pairs // 4), arguments.rows, make
    )


def run(arguments: Namespace) -> int:
    """Run the command."""
    panels = PANELS if arguments.panels == "all" else arguments.panels.split(",")
    for panel in filter(None, panels):
        if panel not in (*PANELS, STRATEGY_PANEL):
            raise BenchOptionError(
                f"--panels: must be of {', '.join([*PANELS, STRATEGY_PANEL])}, or all, "
                f"got {panel!r}"
            )
    predict = load_predictor(arguments.weights, arguments.device)
    make = partial(
        make_pairs, seed=arguments.seed, device=arguments.device,
        constants=arguments.formula_constants,
    )  # fmt: skip
    pairs = make(arguments.pairs, arguments.rows)
    result: dict[str, Any] = {
        "bench": "mdlformer", "pairs": arguments.pairs, "rows": arguments.rows,
        "formula_constants": arguments.formula_constants,
        **measure_pairs(pairs, predict), "panels": {},
    }  # fmt: skip
    out = sys.stdout
    for name in ("rmse", "r2", "auc", "auc_paper", "spearman", "pearson", "ndcg5"):
        out.write(f"{name:10} {result[name]:.4f}\n")
    for panel in filter(None, panels):
        records = _records(panel, arguments, pairs, predict, make)
        result["panels"][panel] = records
        for record in records:
            out.write(
                f"{panel} {setting_text(record[panel])}: RMSE {record['rmse']:.2f} "
                f"({100 * record['relative_rmse']:.0f} % of the mean length) "
                f"AUC {record['auc']:.3f}\n"
            )
    if arguments.output is not None:
        write_document(arguments.output, result)
    if arguments.json:
        out.write(json.dumps(result) + "\n")
    return 0
