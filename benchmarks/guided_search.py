"""What guidance adds where the readout alone is not enough; prints one JSON line.

Random formulas of 9 to 20 symbols, drawn from a fixed seed and sampled in random boxes,
are first read out from their bare variables. Those that this does not solve are
searched in each mode with the same time: a formula counts as solved when the answer
agrees with the target to 1e-7 of its spread (RMS).

The formulas come from the distribution that the network was trained on, as unseen
draws: the figure tells what the network adds, not how it does on other formulas.

Run: python benchmarks/guided_search.py [--n 16] [--time 10] [--seed 11]
     [--modes policy,uniform]
"""

import argparse
import json
import platform
import random
import sys
from typing import Any

import numpy as np

from sr4mdl.corpus.formulas import VARIABLE_NAMES, sample_formula
from sr4mdl.data import Dataset
from sr4mdl.evaluate import evaluate_one
from sr4mdl.expressions import Expression
from sr4mdl.search.api import SearchResult, search
from sr4mdl.search.config import SearchConfig

LENGTHS = range(9, 21)
N_VARIABLES = range(2, 7)
N_ROWS = 600


def draw_table(
    expression: Expression, names: tuple[str, ...], seed: int
) -> Dataset | None:
    """Return a table of the formula, or None if it is not fit to be searched."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(0.2, 2.0, len(names))
    width = rng.uniform(1.0, 4.0, len(names))
    X = low + width * rng.random((N_ROWS, len(names)))
    with np.errstate(all="ignore"):
        y = evaluate_one(expression, X, names)
    if not np.all(np.isfinite(y)):
        return None
    largest = np.max(np.abs(y))
    if largest > 1e6 or np.ptp(y) < 1e-6 * largest:
        return None
    return Dataset(X=X, y=y, names=names, target="y")


def solves(result: SearchResult, table: Dataset) -> bool:
    """Return whether the answer is the formula, up to its form."""
    assert table.y is not None
    values = evaluate_one(result.best.expression, table.X, table.names)
    if not np.all(np.isfinite(values)):
        return False
    error = np.sqrt(np.mean((values - table.y) ** 2))
    return bool(error <= 1e-7 * np.std(table.y))


def draw_hard(rng: random.Random, max_time: float) -> tuple[Expression, Dataset, int]:
    """Return a formula that the readout does not solve, its table, and the draws."""
    n_drawn = 0
    while True:
        formula = sample_formula(rng, "default")
        if formula.expression.length not in LENGTHS:
            continue
        if formula.n_variables not in N_VARIABLES:
            continue
        names = VARIABLE_NAMES[: formula.n_variables]
        table = draw_table(formula.expression, names, rng.randrange(10**6))
        if table is None:
            continue
        n_drawn += 1
        alone = search(table, SearchConfig(max_time=max_time, max_nodes=1))
        if not solves(alone, table):
            return formula.expression, table, n_drawn


def main() -> None:
    """Run all modes on the same formulas and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=16, help="formulas to search")
    parser.add_argument("--time", type=float, default=10.0, help="seconds a search")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--modes", default="policy,uniform")
    arguments = parser.parse_args()
    modes = arguments.modes.split(",")
    rng = random.Random(arguments.seed)
    solved = dict.fromkeys(modes, 0)
    states = dict.fromkeys(modes, 0)
    n_drawn = 0
    for number in range(1, arguments.n + 1):
        expression, table, drawn = draw_hard(rng, arguments.time)
        n_drawn += drawn
        for mode in modes:
            config: dict[str, Any] = {"mode": mode, "max_time": arguments.time}
            result = search(table, SearchConfig(**config))
            solved[mode] += solves(result, table)
            states[mode] += result.statistics.n_nodes
        counts = ", ".join(f"{mode} {solved[mode]}" for mode in modes)
        sys.stderr.write(f"{number}/{arguments.n} {expression}: {counts}\n")
    record = {
        "benchmark": "guided_search",
        "n_drawn": n_drawn,
        "n_not_solved_by_readout": arguments.n,
        "seconds": arguments.time,
        "solved": solved,
        "mean_states": {mode: states[mode] / arguments.n for mode in modes},
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
