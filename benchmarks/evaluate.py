"""Speed of evaluation: one program against a numpy function per formula.

Both run in turn, on one thread each, and the best of several repeats counts, in
seconds of processor time: a busy machine then slows neither side more than the other.
Compiling is left out on both sides. Prints one JSON line.
"""

import argparse
import importlib.util
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sr4mdl.corpus.trees import random_expression
from sr4mdl.evaluate import compile_program
from sr4mdl.export import to_numpy_source
from sr4mdl.expressions import Expression

VARIABLES = ("x0", "x1", "x2")


def import_functions(expressions: Sequence[Expression]) -> list[Callable[..., object]]:
    """Return each expression's own numpy function, from a module made of source."""
    sources = [
        to_numpy_source(expression, f"f{number}", VARIABLES)
        for number, expression in enumerate(expressions)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "formulas.py"
        path.write_text("import numpy as np\n\n" + "\n".join(sources))
        spec = importlib.util.spec_from_file_location("formulas", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return [getattr(module, f"f{number}") for number in range(len(expressions))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-expressions", type=int, default=1000)
    parser.add_argument("--length", type=int, default=20, help="symbols per formula")
    parser.add_argument("--n-rows", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    expressions = [
        random_expression(rng, options.length, VARIABLES)
        for _ in range(options.n_expressions)
    ]
    X = rng.uniform(-3.0, 3.0, size=(options.n_rows, len(VARIABLES)))
    columns = [np.ascontiguousarray(column) for column in X.T]
    functions = import_functions(expressions)
    program = compile_program(expressions, VARIABLES)
    result = program.run(X, backend="compiled")

    best = {"functions": float("inf"), "program": float("inf")}
    with np.errstate(all="ignore"):
        for _ in range(options.repeats):
            start = time.thread_time()
            for function in functions:
                function(*columns)
            middle = time.thread_time()
            program.run(X, backend="compiled")
            end = time.thread_time()
            best["functions"] = min(best["functions"], middle - start)
            best["program"] = min(best["program"], end - middle)
        expected = np.stack(
            [np.broadcast_to(f(*columns), options.n_rows) for f in functions]
        )
    # Ill-conditioned formulas differ by more than rounding; the bulk must agree.
    both = result.valid & np.isfinite(expected)
    close = np.isclose(result.values[both], expected[both], rtol=1e-9, atol=0.0)
    print(
        json.dumps(
            {
                "benchmark": "evaluate",
                "n_expressions": options.n_expressions,
                "n_rows": options.n_rows,
                "seconds_numpy_functions": round(best["functions"], 6),
                "seconds_program": round(best["program"], 6),
                "ratio": round(best["functions"] / best["program"], 2),
                "unique_instructions": program.n_instructions,
                "total_symbols": sum(item.length for item in expressions),
                "share_valid": round(float(result.valid.mean()), 4),
                "share_equal": round(float(close.mean()), 6),
                "share_same_mask": round(
                    float((result.valid == np.isfinite(expected)).mean()), 6
                ),
            }
        )
    )


if __name__ == "__main__":
    main()
