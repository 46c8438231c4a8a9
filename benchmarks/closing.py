"""Close generated problems at the root; prints one JSON line.

Random formulas of three to five variables, drawn from a fixed seed and sampled
uniformly, are closed from their bare variables in both tiers, without noise and with
it. ``recovered`` counts formulas whose shape is right: with the constants fitted to
the clean target they agree with it to 1e-6. ``candidates_per_second`` counts the fits
scored by numbers.

Run: python benchmarks/closing.py [--n 30] [--rows 300] [--seed 0] [--noise 0.01]
"""

import argparse
import json
import math
import platform
import statistics
import time
from typing import Any

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.closing import ClosingProblem, close_state
from sr4mdl.evaluate import evaluate_one
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.selection import Form, fit_constants

LOW, HIGH = 1.0, 4.0
FUNCTIONS = ("sin", "cos", "exp", "log", "sqrt", "square")


def draw_monomial(rng: np.random.Generator, variables: list[Expression]) -> Expression:
    """Draw a product of one to three powers of variables."""
    count = int(rng.integers(1, min(3, len(variables)) + 1))
    result = constant(1.0)
    for place in rng.choice(len(variables), size=count, replace=False):
        factor = variables[place]
        if rng.random() < 0.25:
            factor = apply("square", factor)
        name = "div" if rng.random() < 0.4 else "mul"
        result = apply(name, result, factor)
    return result


def draw_formula(rng: np.random.Generator, variables: list[Expression]) -> Expression:
    """Draw a product, a sum, a quotient or an outer function of small parts."""
    number = float(rng.choice([0.5, 1.0, 2.0, 3.0, round(rng.uniform(0.1, 5.0), 2)]))
    first = apply("mul", number, draw_monomial(rng, variables))
    second = draw_monomial(rng, variables)
    third = apply(
        str(rng.choice(FUNCTIONS)), apply("mul", 0.5, draw_monomial(rng, variables))
    )
    match int(rng.integers(6)):
        case 0:
            return first
        case 1:
            return apply("add", first, second)
        case 2:
            return apply("mul", first, third)
        case 3:
            return apply("add", first, third)
        case 4:
            return apply("div", first, apply("add", 1.0, second))
        case _:
            return apply("sqrt", apply("add", first, second))


def draw_problems(
    n: int, n_rows: int, seed: int
) -> list[tuple[FloatArray, tuple[str, ...], FloatArray]]:
    """Draw problems whose target is finite and varies."""
    rng = np.random.default_rng(seed)
    problems: list[tuple[FloatArray, tuple[str, ...], FloatArray]] = []
    while len(problems) < n:
        n_variables = int(rng.integers(3, 6))
        names = tuple(f"x{i}" for i in range(n_variables))
        formula = draw_formula(rng, [variable(name) for name in names])
        rows = rng.uniform(LOW, HIGH, (n_rows, n_variables))
        with np.errstate(all="ignore"):
            target = evaluate_one(formula, rows, names)
        if np.all(np.isfinite(target)) and np.ptp(target) > 1e-6 * np.abs(target).max():
            problems.append((rows, names, target))
    return problems


def is_recovered(
    formula: Expression, rows: FloatArray, names: tuple[str, ...], clean: FloatArray
) -> bool:
    """Return whether the formula has the shape of the law behind the clean target."""
    inputs = {variable(name): rows[:, i] for i, name in enumerate(names)}
    form = Form(formula, inputs, len(clean))
    fit = fit_constants(form, clean, max_iterations=60, tolerance=1e-12)
    return fit.ok and fit.rmse <= 1e-6 * math.sqrt(float(np.mean(clean**2)))


def run_tier(problems: list[Any], tier: Any, noise: float, seed: int) -> dict[str, Any]:
    """Close all problems and sum up."""
    rng = np.random.default_rng(seed + 1)
    seconds: list[float] = []
    examined = recovered = 0
    for rows, names, clean in problems:
        spread = noise * math.sqrt(float(np.mean(clean**2)))
        target = clean + spread * rng.normal(size=len(clean))
        start = time.perf_counter()
        result = close_state(ClosingProblem.root(rows, target, names), tier)
        seconds.append(time.perf_counter() - start)
        examined += result.n_examined
        recovered += is_recovered(result.candidates[0].expression, rows, names, clean)
    return {
        "recovered": recovered,
        "seconds_mean": round(statistics.fmean(seconds), 4),
        "seconds_median": round(statistics.median(seconds), 4),
        "seconds_max": round(max(seconds), 4),
        "candidates_per_second": round(examined / sum(seconds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=30)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.01)
    arguments = parser.parse_args()
    problems = draw_problems(arguments.n, arguments.rows, arguments.seed)
    close_state(ClosingProblem.root(*_first(problems)))  # warms caches up
    print(
        json.dumps(
            {
                "benchmark": "closing",
                "n": len(problems),
                "rows": arguments.rows,
                "noise": arguments.noise,
                "quick_clean": run_tier(problems, "quick", 0.0, arguments.seed),
                "full_clean": run_tier(problems, "full", 0.0, arguments.seed),
                "full_noisy": run_tier(
                    problems, "full", arguments.noise, arguments.seed
                ),
                "python": platform.python_version(),
                "numpy": np.__version__,
            }
        )
    )


def _first(problems: list[Any]) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    rows, names, target = problems[0]
    return rows, target, names


if __name__ == "__main__":
    main()
