"""The panel ``strategy``: the paper's network trained in three ways, side by side.

As in the paper's ablation each strategy starts anew and has the same number of rounds;
*sequential* aligns for the first half and predicts for the second. Every network is
measured on the same pairs. What is finished is not done again.
"""

import json
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sr4mdl.bench.documents import write_document
from sr4mdl.bench.suite_command import BenchOptionError
from sr4mdl.corpus.formulas import PaperConstants
from sr4mdl.errors import Sr4mdlError

STRATEGIES: Final = ("sequential", "concurrent", "predict-only")
DEFAULT_BATCH_SIZE: Final = 1024
DEFAULT_ROUNDS: Final = 1000

Measure = Callable[[Path], Mapping[str, float]]


def train_arguments(
    strategy: str,
    seed: int,
    rounds: int,
    constants: PaperConstants,
    given: Sequence[str],
    out: Path,
) -> Any:
    """Return the parsed arguments of ``sr4mdl train`` for one network.

    Parameters
    ----------
    strategy : {"sequential", "concurrent", "predict-only"}
        How to train.
    seed : int
        Of weights and data.
    rounds : int
        Batches in all.
    constants : {"uniform", "decades"}
        Of the formulas.
    given : sequence of str
        Further arguments; they win over what is chosen here.
    out : Path
        Where the network is written.
    """
    from sr4mdl.training.command import add_arguments

    parser = ArgumentParser("sr4mdl train")
    add_arguments(parser)
    batch_size = parser.parse_args(given).batch_size or DEFAULT_BATCH_SIZE
    samples = rounds * batch_size
    chosen = {
        "--preset": "paper", "--strategy": strategy, "--seed": seed, "--out": out,
        "--batch-size": batch_size, "--total-samples": samples,
        "--warmup": max(1, samples // 20), "--held-out": 0,
        "--data-option": f"formula_constants={constants}",
    }  # fmt: skip
    if strategy == "sequential":
        chosen["--align-share"] = 0.5
    words = [str(word) for pair in chosen.items() for word in pair]
    return parser.parse_args([*words, *given])


def measure_strategies(
    folder: Path,
    *,
    rounds: int,
    n_seeds: int,
    given: str,
    constants: PaperConstants,
    pairs: Mapping[str, Any],
    measure: Measure,
) -> list[dict[str, Any]]:
    """Train and measure each strategy with each seed; return one record for each.

    Parameters
    ----------
    folder : Path
        Networks and records are kept here; records found here are taken over.
    rounds : int
        Batches each network is trained on.
    n_seeds : int
        Networks a strategy.
    given : str
        Further arguments of ``sr4mdl train``, as typed in a shell.
    constants : {"uniform", "decades"}
        Of the formulas that they are trained on, unless ``given`` says otherwise.
    pairs : mapping
        What tells the pairs that they are measured on from others.
    measure : callable
        Returns the measures of the network in a folder.

    Raises
    ------
    Sr4mdlError
        If a training was stopped before its plan ended; call again to go on with
        the others.
    """
    import torch

    from sr4mdl.training.command import train

    if rounds < 2:
        raise BenchOptionError(f"--rounds: must be at least 2, got {rounds}")
    if n_seeds < 1:
        raise BenchOptionError(f"--seeds: must be at least 1, got {n_seeds}")
    records = []
    for seed in range(n_seeds):
        for strategy in STRATEGIES:
            name = f"{strategy}-{seed}"
            path = folder / f"{name}.json"
            plan = {
                "rounds": rounds, "given": given, "formula_constants": constants,
                "measured_on": dict(pairs),
            }  # fmt: skip
            record = _read_record(path, plan)
            if record is None:
                arguments = train_arguments(
                    strategy, seed, rounds, constants, shlex.split(given), folder / name
                )
                sys.stderr.write(f"training {name}\n")
                # What was compiled for one network must not count against the next.
                torch._dynamo.reset()
                ended = train(arguments)
                if ended is None or ended["reason"] != "plan":
                    raise Sr4mdlError(
                        f"training of {name} was stopped before its plan ended; "
                        f"finished ones are kept in {folder}"
                    )
                record = {
                    "strategy": strategy, "seed": seed, **plan,
                    "samples": ended["samples"], "seconds": ended["elapsed"],
                    **measure(folder / name),
                }  # fmt: skip
                write_document(path, record)
            records.append(record)
    return records


def _read_record(path: Path, plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of a network of this plan, None if there is none yet.

    Raises
    ------
    BenchOptionError
        If the record is one of another plan.
    """
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if {key: record.get(key) for key in plan} != dict(plan):
        raise BenchOptionError(
            f"--keep: {path} is of another plan, give another folder"
        )
    return record
