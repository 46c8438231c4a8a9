"""The paper's case study: estimates along a derivation (``sr4mdl bench casestudy``).

A formula is built from its variables by one correct move after another. At each state
the network estimates the missing length of every state that a legal move leads to; what
is wanted is that the right move's estimate is the lowest and that it falls from step to
step. The share of wrong moves whose estimate is at or below the right one's says how
many wrong turns a search by estimates alone would be offered.
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sr4mdl._typing import BoolArray, FloatArray, IntArray
from sr4mdl.bench.children import ChildFinder, estimate
from sr4mdl.bench.documents import write_document
from sr4mdl.bench.guidance import LARGEST_VALUE, run_program
from sr4mdl.bench.problems import Problem, select_problems
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.mdlformer.guide import Guide
from sr4mdl.operators import operator_of_opcode
from sr4mdl.search.state import State

CASES: Final = (
    *("feynman_III_15_12", "strogatz_glider2"),
    *("feynman_I_18_4", "feynman_III_10_19"),
)
"""The problems of the paper's figures."""
N_WALKS: Final = 500
"""Random derivations among which one that leaves the target alone is looked for."""
N_ROWS: Final = 300
"""Rows on which columns are computed, as in the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One state of a derivation and the moves that leave it."""

    columns: list[str]
    """Formulas of the columns."""
    missing: float
    """Symbols that are missing, by the formula."""
    estimate: float
    """Symbols that are missing, by the network."""
    spread: float
    """The network's own standard deviation of that."""
    n_correct: int
    """Moves from here that are correct."""
    move: str | None = None
    """The column that the right move makes; None at the end."""
    right: float | None = None
    """Estimate after the right move, no column given up."""
    right_spread: float | None = None
    """Standard deviation of that."""
    wrong: list[float] = field(default_factory=list)
    """Estimates after each wrong move, the lowest first."""
    share_at_or_below: float | None = None
    """Share of the wrong moves whose estimate is at or below the right one's."""
    share_by_policy: float | None = None
    """Share of the wrong moves that the policy finds at least as likely."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--problems", default=",".join(CASES), metavar="NAME,NAME",
        help="ground-truth problems (default: the paper's four)",
    )  # fmt: skip
    parser.add_argument("--weights", type=Path, help="ONNX file (default: shipped)")
    parser.add_argument("--rows", type=int, default=None, help="rows the network sees")
    parser.add_argument(
        "--draws", type=int, default=3, help="draws of rows to average (default: 3)"
    )
    parser.add_argument("--data", type=Path, help="folder in PMLB layout")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON for the report"
    )
    parser.add_argument("--json", action="store_true", help="last line is JSON")


def derive(problem: Problem) -> Any:
    """Return the states of a derivation that changes the target least, root first.

    The paper's derivations build the formula from its variables and leave the target
    alone. Of random derivations the first such one is taken.
    """
    from sr4mdl.corpus.skeletons import SkeletonBank, build_skeleton
    from sr4mdl.corpus.states import walk_derivation
    from sr4mdl.simplify import simplify
    from sr4mdl.text import parse

    if problem.formula is None:
        raise ValueError(f"problem {problem.name} has no formula to derive")
    bank = SkeletonBank.empty(1)
    names = [one.name for one in problem.variables]
    formula = simplify(parse(problem.formula))
    bank.store(0, build_skeleton(formula, names, keep_constants=True))
    best: Any = None
    fewest = np.inf
    for seed in range(N_WALKS):
        arrays = walk_derivation(bank, 0, seed=seed)
        n_changes = int((np.diff(arrays.target.astype(int)) != 0).sum())
        if n_changes < fewest:
            best, fewest = arrays, n_changes
        if n_changes == 0:
            break
    return best


def read_columns(arrays: Any, row: int, names: list[str]) -> list[Expression]:
    """Return the formulas of a state's columns."""
    from sr4mdl.corpus.program_writer import FIRST_CONSTANT, FIRST_OUTPUT

    registers: dict[int, Expression] = {
        number: variable(name) for number, name in enumerate(names)
    }
    for number, value in enumerate(arrays.constants[row]):
        registers[FIRST_CONSTANT + number] = constant(float(value))
    for step in range(int((arrays.opcodes[row] != 0).sum())):
        operator = operator_of_opcode(int(arrays.opcodes[row, step]))
        operands = (int(arrays.first[row, step]), int(arrays.second[row, step]))
        registers[FIRST_OUTPUT + step] = apply(
            operator, *(registers[one] for one in operands[: operator.arity])
        )
    n_columns = int(arrays.n_columns[row])
    return [registers[int(one)] for one in arrays.columns[row, :n_columns]]


def study(
    problem: Problem, guide: Guide, table: FloatArray, row_draws: list[IntArray]
) -> list[Step]:
    """Return the steps of a derivation with the network's estimates.

    Parameters
    ----------
    problem : Problem
        A problem with a formula.
    guide : Guide
        The network.
    table : ndarray of shape (n_rows, n_variables)
        Rows of the problem.
    row_draws : list of ndarray of int
        Places of the rows that the network sees, one array a draw.
    """
    arrays = derive(problem)
    names = [one.name for one in problem.variables]
    registers = [run_program(arrays, row, table) for row in range(len(arrays.value))]
    targets = [registers[row][arrays.target[row]] for row in range(len(registers))]
    finder = ChildFinder(targets[0])
    states = []
    for row, (values, target) in enumerate(zip(registers, targets, strict=True)):
        n_columns = int(arrays.n_columns[row])
        columns = values[arrays.columns[row, :n_columns]].T
        if not (np.abs(columns) < LARGEST_VALUE).all():
            raise ValueError(f"{problem.name}: a column is not finite on its rows")
        states.append(finder.state(columns, read_columns(arrays, row, names), target))
    own = estimate(guide, states, row_draws)
    steps = []
    for row, state in enumerate(states):
        correct = {int(move) for move in arrays.moves[row] if move >= 0}
        step = Step(
            columns=[str(column.expression) for column in state.columns],
            missing=float(arrays.value[row]),
            estimate=float(own.mean[row]),
            spread=float(own.spread[row]),
            n_correct=len(correct),
        )
        if row + 1 < len(states):
            codes, children = finder.children(state)
            scored = estimate(guide, children, row_draws)
            taken = _find_taken(codes, children, correct, state, states[row + 1])
            is_wrong = np.array([int(code) not in correct for code in codes])
            wrong = scored.mean[is_wrong]
            policy = own.log_policy[row][codes]
            step = replace(
                step,
                move=_describe(state, children[taken]),
                right=float(scored.mean[taken]),
                right_spread=float(scored.spread[taken]),
                wrong=[float(value) for value in np.sort(wrong)],
                share_at_or_below=_share(wrong <= scored.mean[taken]),
                share_by_policy=_share(policy[is_wrong] >= policy[taken]),
            )
        steps.append(step)
    return steps


def _find_taken(
    codes: IntArray,
    children: list[State],
    correct: set[int],
    state: State,
    following: State,
) -> int:
    """Return the place of the correct move that leads on to the following state."""
    for place, (code, child) in enumerate(zip(codes, children, strict=True)):
        made = child.key[0] - state.key[0]
        if (
            int(code) in correct
            and made <= following.key[0]
            and child.target.key == following.target.key
        ):
            return place
    raise ValueError(f"no correct move leads from {state} to {following}")


def _share(mask: BoolArray) -> float:
    return float(mask.mean()) if len(mask) else 0.0


def _describe(state: State, child: State) -> str:
    new = [column for column in child.columns if column.key not in state.key[0]]
    if new:
        return str(new[0].expression)
    return str(child).partition("-> ")[2]


def _draw_rows(n_total: int, n_rows: int, n_draws: int) -> list[IntArray]:
    rng = np.random.default_rng(0)
    return [rng.permutation(n_total)[:n_rows] for _ in range(n_draws)]


def run(arguments: Namespace) -> int:
    """Run the command."""
    from sr4mdl.bench.suite_command import BenchOptionError, find_data
    from sr4mdl.bench.tables import load_table
    from sr4mdl.mdlformer.guide import OnnxGuide

    if arguments.draws < 1:
        raise BenchOptionError(f"--draws: must be at least 1, got {arguments.draws}")
    guide = OnnxGuide(arguments.weights)
    n_rows = arguments.rows if arguments.rows is not None else guide.n_rows
    if not 2 <= n_rows <= N_ROWS:
        raise BenchOptionError(f"--rows: must be from 2 to {N_ROWS}, got {n_rows}")
    data_dir = find_data(arguments.data)
    names = [name.strip() for name in arguments.problems.split(",") if name.strip()]
    try:
        problems = select_problems("groundtruth", names)
    except ValueError as error:
        raise BenchOptionError(f"--problems: {error}") from error
    order = {name: place for place, name in enumerate(names)}
    problems = sorted(problems, key=lambda one: order.get(one.name, len(order)))
    cases = []
    out = sys.stdout
    for problem in problems:
        table = load_table(problem, data_dir=data_dir).X
        table = table[np.random.default_rng(0).permutation(len(table))[:N_ROWS]]
        row_draws = _draw_rows(len(table), n_rows, arguments.draws)
        steps = study(problem, guide, table, row_draws)
        cases.append(
            {
                "problem": problem.name,
                "formula": problem.formula,
                "steps": [asdict(step) for step in steps],
            }
        )
        out.write(f"{problem.name}: {problem.formula}\n")
        for number, step in enumerate(steps):
            out.write(f"  {describe_step(number, step)}\n")
        out.flush()
    document = {
        "bench": "casestudy", "rows": n_rows, "draws": arguments.draws, "cases": cases
    }  # fmt: skip
    if arguments.output is not None:
        write_document(arguments.output, document)
    if arguments.json:
        out.write(json.dumps(document, allow_nan=False) + "\n")
    return 0


def describe_step(number: int, step: Step) -> str:
    """Return one line about a step."""
    text = (
        f"{number}: {step.missing:g} missing, estimated {step.estimate:.1f} "
        f"+- {step.spread:.1f}"
    )
    if step.move is None or step.share_at_or_below is None:
        return text
    return (
        f"{text}; next {step.move}: {step.right:.1f}, "
        f"{100 * step.share_at_or_below:.1f} % of {len(step.wrong)} wrong moves "
        f"at or below, {100 * (step.share_by_policy or 0.0):.1f} % by policy"
    )
