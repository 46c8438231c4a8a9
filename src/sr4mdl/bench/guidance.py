"""The rank of correct moves under the network (``sr4mdl bench guidance``).

States are those met on random derivations of the benchmark formulas, which training
never saw; their numbers come from the problems' own ranges. For each state all legal
moves are ranked by the policy, and, on request, by the value of the state that each
leads to (the paper's way, some hundreds of passes a state).
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sr4mdl import moves
from sr4mdl._typing import FloatArray
from sr4mdl.bench.documents import write_document
from sr4mdl.bench.problems import Problem, load_suite
from sr4mdl.bench.ranking import chance_in_top, concordance
from sr4mdl.mdlformer.guide import Guide
from sr4mdl.operators import operator_of_opcode

SIZES: Final = (1, 3, 10, 30)
LARGEST_VALUE: Final = 1e30


@dataclass(frozen=True, slots=True)
class GuidanceState:
    """One state of a derivation with its labels and numbers."""

    problem: str
    step: int
    """Moves made before it; 0 at the root."""
    columns: FloatArray
    """(n_rows, n_columns)"""
    target: FloatArray
    """(n_rows,)"""
    value: float
    """Symbols still missing."""
    correct: tuple[int, ...]
    """Ids of the correct moves."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--suite", choices=("groundtruth", "classic"), default="groundtruth",
        help="formulas whose derivations are walked (default: groundtruth)",
    )  # fmt: skip
    parser.add_argument("--weights", type=Path, help="ONNX file (default: shipped)")
    parser.add_argument("--rows", type=int, default=None, help="rows the network sees")
    parser.add_argument(
        "--walks", type=int, default=2, help="random derivations per formula"
    )
    parser.add_argument(
        "--noise", type=float, default=0.0, help="noise on the target, share of RMS"
    )
    parser.add_argument(
        "--by-value", type=int, default=0, metavar="N",
        help="also rank the children of N states by value",
    )  # fmt: skip
    parser.add_argument("--data", type=Path, help="folder in PMLB layout")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON for the report"
    )
    parser.add_argument("--json", action="store_true", help="last line is JSON")


def collect_states(
    problems: Sequence[Problem],
    *,
    n_rows: int,
    n_walks: int,
    noise: float = 0.0,
    data_dir: Path | None = None,
) -> list[GuidanceState]:
    """Return the distinct states of random derivations of the problems' formulas."""
    from sr4mdl.corpus.skeletons import (
        SkeletonBank,
        SkeletonTooLargeError,
        build_skeleton,
    )
    from sr4mdl.corpus.states import walk_derivation
    from sr4mdl.simplify import simplify
    from sr4mdl.text import parse

    states: list[GuidanceState] = []
    bank = SkeletonBank.empty(1)
    for problem in problems:
        if problem.formula is None:
            continue
        expression = simplify(parse(problem.formula))
        names = [variable.name for variable in problem.variables]
        if len(names) > moves.MAX_COLUMNS or not expression.variables:
            continue
        try:
            bank.store(0, build_skeleton(expression, names, keep_constants=True))
        except SkeletonTooLargeError:
            continue
        table = _sample_rows(problem, data_dir, 4 * n_rows)
        rng = np.random.default_rng(len(states))
        seen: set[tuple[bytes, bytes]] = set()
        for walk in range(n_walks):
            arrays = walk_derivation(bank, 0, seed=walk)
            for row in range(len(arrays.value)):
                key = (arrays.columns[row].tobytes(), arrays.opcodes[row].tobytes())
                if key in seen:
                    continue
                seen.add(key)
                state = _compute(problem.name, arrays, row, table, n_rows, noise, rng)
                if state is not None:
                    states.append(state)
    return states


def _sample_rows(problem: Problem, data_dir: Path | None, n_rows: int) -> FloatArray:
    from sr4mdl.bench.tables import load_table

    table = load_table(problem, data_dir=data_dir)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(table.X))[:n_rows]
    return np.asarray(table.X[chosen], dtype=np.float64)


def _compute(
    name: str,
    arrays: Any,
    row: int,
    table: FloatArray,
    n_rows: int,
    noise: float,
    rng: np.random.Generator,
) -> GuidanceState | None:
    """Run the state's program; None if it keeps too few rows or no move is left."""
    correct = tuple(int(move) for move in arrays.moves[row] if move >= 0)
    if not correct:
        return None
    registers = run_program(arrays, row, table)
    n_columns = int(arrays.n_columns[row])
    columns = registers[arrays.columns[row, :n_columns]].T
    target = registers[arrays.target[row]]
    with np.errstate(invalid="ignore"):
        usable = (np.abs(columns) < LARGEST_VALUE).all(axis=1)
        usable &= np.abs(target) < LARGEST_VALUE
    kept = np.flatnonzero(usable)[:n_rows]
    if len(kept) < min(10, n_rows):
        return None
    target = target[kept]
    if noise > 0:
        target = target + noise * np.sqrt((target**2).mean()) * rng.normal(
            size=len(kept)
        )
    return GuidanceState(
        name, int(arrays.step[row]), columns[kept], target,
        float(arrays.value[row]), correct,
    )  # fmt: skip


def run_program(arrays: Any, row: int, table: FloatArray) -> FloatArray:
    """Return all registers of one state's program on a table (n_rows, n_inputs)."""
    from sr4mdl.corpus.program_writer import (
        FIRST_CONSTANT,
        FIRST_OUTPUT,
        N_REGISTERS,
    )

    registers = np.zeros((N_REGISTERS, len(table)))
    registers[: table.shape[1]] = table.T
    registers[FIRST_CONSTANT:FIRST_OUTPUT] = arrays.constants[row][:, None]
    with np.errstate(all="ignore"):
        for step in range(int((arrays.opcodes[row] != 0).sum())):
            operator = operator_of_opcode(int(arrays.opcodes[row, step]))
            operands = (
                registers[arrays.first[row, step]],
                registers[arrays.second[row, step]],
            )
            registers[FIRST_OUTPUT + step] = operator.numpy(*operands[: operator.arity])
    return registers


def measure(states: Sequence[GuidanceState], guide: Guide) -> dict[str, Any]:
    """Return the shares of states with a correct move in the top k, and value AUC."""
    chances = np.zeros((len(states), len(SIZES)))
    by_luck = np.zeros(len(states))
    predicted = np.zeros(len(states))
    for number, (state, value, policy) in enumerate(_scored(states, guide)):
        legal = moves.legal_moves(state.columns.shape[1])
        correct = np.zeros(moves.N_MOVES, dtype=np.bool_)
        correct[list(state.correct)] = True
        chances[number] = chance_in_top(policy[legal], correct[legal], SIZES)
        by_luck[number] = correct.sum() / legal.sum()
        predicted[number] = value
    truth = np.array([state.value for state in states])
    root = np.array([state.step == 0 for state in states])
    everything = np.ones(len(states), dtype=np.bool_)
    return {
        name: {
            **{
                f"top{size}": float(chances[chosen, k].mean())
                for k, size in enumerate(SIZES)
            },
            "by_chance": float(by_luck[chosen].mean()),
            "value_auc": concordance(truth[chosen], predicted[chosen]),
            "value_rmse": float(np.sqrt(((truth - predicted)[chosen] ** 2).mean())),
            "n_states": int(chosen.sum()),
        }
        for name, chosen in (("all", everything), ("root", root))
    }


def measure_by_value(
    states: Sequence[GuidanceState], guide: Guide, n_states: int
) -> dict[str, Any]:
    """Return the same shares where moves are ranked by the states they lead to.

    Parameters
    ----------
    states : sequence of GuidanceState
        All states; every k-th is taken.
    guide : Guide
        The network.
    n_states : int
        States to take; all if there are fewer.

    Notes
    -----
    Moves that lead nowhere (an undefined, constant or known column) are no choice here.
    A state all of whose correct moves are such counts as missed.
    """
    from sr4mdl.bench.children import ChildFinder, estimate

    places = np.unique(np.linspace(0, len(states) - 1, n_states).round().astype(int))
    chances = np.zeros((len(places), len(SIZES)))
    by_luck = np.zeros(len(places))
    root = np.zeros(len(places), dtype=np.bool_)
    for number, place in enumerate(places):
        state = states[place]
        finder = ChildFinder(state.target)
        codes, children = finder.children(finder.state(state.columns))
        root[number] = state.step == 0
        correct = np.isin(codes, state.correct)
        if not correct.any():
            continue
        values = estimate(guide, children, [np.arange(len(state.target))]).mean
        chances[number] = chance_in_top(-values, correct, SIZES)
        by_luck[number] = correct.mean()
    everything = np.ones(len(places), dtype=np.bool_)
    return {
        name: {
            **{
                f"top{size}": float(chances[chosen, k].mean()) if chosen.any() else 0.0
                for k, size in enumerate(SIZES)
            },
            "by_chance": float(by_luck[chosen].mean()) if chosen.any() else 0.0,
            "n_states": int(chosen.sum()),
        }
        for name, chosen in (("all", everything), ("root", root))
    }


def _scored(
    states: Sequence[GuidanceState], guide: Guide
) -> list[tuple[GuidanceState, float, FloatArray]]:
    """Score the states in batches of equal shape, returning them in order."""
    result: list[tuple[GuidanceState, float, FloatArray] | None] = [None] * len(states)
    groups: dict[tuple[int, int], list[int]] = {}
    for number, state in enumerate(states):
        shape = (state.columns.shape[0], state.columns.shape[1])
        groups.setdefault(shape, []).append(number)
    for numbers in groups.values():
        for start in range(0, len(numbers), 64):
            chunk = numbers[start : start + 64]
            columns = np.stack([states[number].columns for number in chunk])
            output = guide.score(
                columns,
                np.full(len(chunk), columns.shape[2]),
                np.stack([states[number].target for number in chunk]),
            )
            for place, number in enumerate(chunk):
                result[number] = (
                    states[number],
                    float(output.value_mean[place]),
                    output.log_probabilities[place],
                )
    assert all(item is not None for item in result)
    return [item for item in result if item is not None]


def run(arguments: Namespace) -> int:
    """Run the command."""
    from sr4mdl.mdlformer.guide import OnnxGuide

    guide = OnnxGuide(arguments.weights)
    n_rows = arguments.rows if arguments.rows is not None else guide.n_rows
    states = collect_states(
        load_suite(arguments.suite), n_rows=n_rows, n_walks=arguments.walks,
        noise=arguments.noise, data_dir=arguments.data,
    )  # fmt: skip
    result: dict[str, Any] = {
        "bench": "guidance", "suite": arguments.suite, "rows": n_rows,
        "noise": arguments.noise, "walks": arguments.walks,
        **measure(states, guide),
    }  # fmt: skip
    out = sys.stdout
    for name in ("all", "root"):
        part = result[name]
        shares = "  ".join(f"top {k}: {100 * part[f'top{k}']:.1f} %" for k in SIZES)
        out.write(
            f"{name:5} {part['n_states']:5} states  {shares}  "
            f"(chance {100 * part['by_chance']:.1f} %)  value AUC "
            f"{part['value_auc']:.3f}  RMSE {part['value_rmse']:.2f}\n"
        )
    if arguments.by_value > 0:
        result["by_value"] = measure_by_value(states, guide, arguments.by_value)
        for name, part in result["by_value"].items():
            shares = "  ".join(f"top {k}: {100 * part[f'top{k}']:.1f} %" for k in SIZES)
            out.write(
                f"{name:5} {part['n_states']:5} states  {shares}  "
                f"(chance {100 * part['by_chance']:.1f} %)  by value\n"
            )
    if arguments.output is not None:
        write_document(arguments.output, result)
    if arguments.json:
        out.write(json.dumps(result) + "\n")
    return 0
