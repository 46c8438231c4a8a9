"""Compare the simplifier with sympy: lengths and times; prints one JSON line.

Both work on the same random formulas in one run. The sympy side is the shortest of
the results of simplify, factor, expand and collect, and of the formula itself as
sympy holds it, each written in our operators in the best notation, but not passed
through our simplifier. A call that runs into the time-out counts with the time it
took and gives no result; its formula keeps what the other calls found. Formulas for
which sympy finds nothing real, as with log(-1) in them, are left out of the lengths:
``n_compared`` are left.

Run: python benchmarks/simplify.py [--n 2000] [--source trees|corpus] [--timeout 5]
"""

import argparse
import json
import platform
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sympy

from sr4mdl.bench.alarm import OutOfTimeError, time_limit
from sr4mdl.corpus.trees import random_expression
from sr4mdl.export import from_sympy, to_sympy
from sr4mdl.expressions import Expression
from sr4mdl.simplify import simplify

SHORTEST, LONGEST = 5, 30


def formulas_of_trees(n: int, seed: int) -> list[Expression]:
    """Draw trees over all operators, lengths spread evenly."""
    rng = np.random.default_rng(seed)
    return [
        random_expression(rng, int(rng.integers(SHORTEST, LONGEST + 1)))
        for _ in range(n)
    ]


def formulas_of_corpus(n: int, seed: int) -> list[Expression]:
    """Draw training formulas as they are before simplification.

    The generators simplify what they make; here that step hands the formula out.
    """
    from sr4mdl.corpus import formulas as module

    rng = random.Random(seed)
    found: list[Expression] = []

    def keep(expression: Expression) -> Expression:
        if expression.variables and SHORTEST <= expression.length <= LONGEST:
            found.append(expression)
        return expression

    original = module.simplify
    module.simplify = keep
    try:
        while len(found) < n:
            module.default_formula(rng)
    finally:
        module.simplify = original
    return found[:n]


def collect_all(expression: Any) -> Any:
    """Collect the powers of all symbols."""
    return sympy.collect(expression, sorted(expression.free_symbols, key=str))


WAYS: dict[str, Callable[[Any], Any]] = {
    "simplify": sympy.simplify,
    "factor": sympy.factor,
    "expand": sympy.expand,
    "collect": collect_all,
}


class SympySide:
    """Runs sympy's ways on formulas and keeps count."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.seconds = 0.0
        self.timeouts = 0
        self.failures = 0

    def shortest(self, expression: Expression) -> Expression | None:
        """Return the shortest of the results; None if sympy finds no real number."""
        start = time.perf_counter()
        results = []
        try:
            with time_limit(self.timeout):
                # Our formulas are over the real numbers: so that sympy knows it too.
                symbols = {
                    name: sympy.Symbol(name, real=True) for name in expression.variables
                }
                plain = to_sympy(expression, symbols)
                results.append(plain)
        except OutOfTimeError:
            self.timeouts += 1
            self.seconds += time.perf_counter() - start
            return None
        for way in WAYS.values():
            try:
                with time_limit(self.timeout):
                    results.append(way(plain))
            except OutOfTimeError:
                self.timeouts += 1
            except Exception:  # noqa: BLE001 - whatever sympy raises is a failure
                self.failures += 1
        self.seconds += time.perf_counter() - start
        written = []
        for result in results:
            try:
                with time_limit(self.timeout):
                    written.append(from_sympy(result))
            except (ValueError, TypeError, OverflowError, OutOfTimeError):
                continue  # not a real formula over our operators
        return min(written, key=lambda found: found.length, default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--source", choices=("trees", "corpus"), default="trees")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=5.0)
    parser.add_argument("--worse", type=Path, help="write formulas sympy does better")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    draw = formulas_of_corpus if arguments.source == "corpus" else formulas_of_trees
    formulas = draw(arguments.n, arguments.seed)

    simplify(formulas[0])
    start = time.perf_counter()
    ours = [simplify(formula) for formula in formulas]
    seconds = time.perf_counter() - start

    side = SympySide(arguments.timeout)
    lengths: list[tuple[int, int, int]] = []
    worse = []
    for formula, own in zip(formulas, ours, strict=True):
        found = side.shortest(formula)
        if found is None:
            continue
        lengths.append((formula.length, own.length, found.length))
        if own.length > found.length:
            worse.append(f"{formula}\n  ours  {own}\n  sympy {found}\n")
    if arguments.worse is not None:
        arguments.worse.write_text("".join(worse))
    mean_input, mean_ours, mean_sympy = np.mean(lengths, axis=0)
    print(
        json.dumps(
            {
                "benchmark": "simplify",
                "source": arguments.source,
                "n": len(formulas),
                "n_compared": len(lengths),
                "mean_length_input": round(float(mean_input), 3),
                "mean_length_ours": round(float(mean_ours), 3),
                "mean_length_sympy": round(float(mean_sympy), 3),
                "length_ratio": round(float(mean_ours / mean_sympy), 4),
                "ours_longer": sum(own > other for _, own, other in lengths),
                "ours_shorter": sum(own < other for _, own, other in lengths),
                "seconds_ours": round(seconds, 4),
                "seconds_sympy": round(side.seconds, 2),
                "speed_ratio": round(side.seconds / seconds, 1),
                "sympy_timeouts": side.timeouts,
                "sympy_failures": side.failures,
                "timeout": arguments.timeout,
                "python": platform.python_version(),
                "sympy": sympy.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
