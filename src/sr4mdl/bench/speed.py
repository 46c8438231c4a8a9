"""Speed of the parts, each against its baseline in one run (``sr4mdl bench speed``).

Both sides of a ratio run in turn in the same process, and the best of several repeats
counts, so that other work on the machine slows neither side more than the other. The
simplifier's lengths, on many more formulas, are measured by ``benchmarks/simplify.py``.
"""

import json
import os
import platform
import random
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.bench.alarm import OutOfTimeError, time_limit
from sr4mdl.bench.documents import write_document
from sr4mdl.expressions import Expression

PARTS: Final = ("guide", "closing", "evaluation", "simplify")
N_COLUMNS: Final = 5
"""Columns of the states that the guides score."""
OTHER_COLUMNS: Final = (2, 3, 10)
"""Further numbers of columns: the time goes with their number."""
BATCH_SIZE: Final = 16
"""States a call, as in the search."""
PAPER_ROWS: Final = 200
"""Rows that the paper's network reads."""
_REST_SECONDS: Final = 0.1
_PAPER: Final = "paper_states_per_s_2_threads"
_EXACT: Final = "float32_states_per_s_2_threads"
_VARIABLES: Final = ("x0", "x1", "x2")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--parts", default="all", metavar="NAME,NAME",
        help=f"of {', '.join(PARTS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=int, default=5, help="repeats, the best counts (default: 5)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="JSON for the report"
    )
    parser.add_argument("--json", action="store_true", help="last line is JSON")


def best_seconds(
    work: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the shortest time of each piece of work; they run in turn.

    Parameters
    ----------
    work : dict of str to callable
        The pieces; each runs once before it is timed.
    repeats : int
        Timed rounds, at least 1.
    clock : callable
        Seconds.
    """
    best = dict.fromkeys(work, float("inf"))
    for piece in work.values():
        piece()
    for _ in range(repeats):
        for name, piece in work.items():
            # Threads of the piece before keep a core busy for a moment.
            time.sleep(_REST_SECONDS)
            start = clock()
            piece()
            best[name] = min(best[name], clock() - start)
    return best


def measure_guide(repeats: int) -> dict[str, Any]:
    """Return states per second of the shipped network, and against two others.

    These are the shipped network with all products in float32, and the paper's network
    in float32, with random weights: they do not change its speed. Without torch and
    onnx both cannot be exported; the comparison then says why it is missing.
    """
    from sr4mdl.mdlformer.guide import DEFAULT_PATH, OnnxGuide

    one, two = OnnxGuide(n_threads=1), OnnxGuide(n_threads=2)
    n_rows = one.n_rows
    work: dict[str, Callable[[], object]] = {
        "states_per_s_1_thread": _scoring(one, n_rows, N_COLUMNS),
        "states_per_s_2_threads": _scoring(two, n_rows, N_COLUMNS),
    }
    for n_columns in OTHER_COLUMNS:
        name = f"states_per_s_2_threads_{n_columns}_columns"
        work[name] = _scoring(two, n_rows, n_columns)
    result: dict[str, Any] = {"columns": N_COLUMNS, "rows": n_rows}
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = export_paper_preset(Path(folder))
            from sr4mdl.mdlformer.onnx_export import export_checkpoint

            exact = export_checkpoint(DEFAULT_PATH.parent, Path(folder) / "exact.onnx")
        except ImportError as error:
            result["paper_missing"] = (
                f"the paper preset could not be exported: {error}; "
                "pip install 'sr4mdl[train]'"
            )
        else:
            paper = OnnxGuide(path, n_threads=2)
            result["paper_rows"] = PAPER_ROWS
            work[_EXACT] = _scoring(OnnxGuide(exact, n_threads=2), n_rows, N_COLUMNS)
            work[_PAPER] = _scoring(paper, PAPER_ROWS, N_COLUMNS)
        best = best_seconds(work, repeats)
    result |= {name: BATCH_SIZE / seconds for name, seconds in best.items()}
    if _PAPER in best:
        result["ratio_to_paper"] = best[_PAPER] / best["states_per_s_2_threads"]
        result["ratio_to_float32"] = best[_EXACT] / best["states_per_s_2_threads"]
    return result


def _scoring(guide: Any, n_rows: int, n_columns: int) -> Callable[[], object]:
    """Return the scoring of one batch."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(BATCH_SIZE, n_rows, n_columns))
    counts = np.full(BATCH_SIZE, n_columns)
    return lambda: guide.score(columns, counts, columns.prod(axis=2))


def export_paper_preset(folder: Path) -> Path:
    """Write the paper's network with random weights as ONNX; return the path."""
    import torch

    from sr4mdl.mdlformer.card import TrainingFacts
    from sr4mdl.mdlformer.config import get_preset
    from sr4mdl.mdlformer.network import build_network
    from sr4mdl.mdlformer.onnx_export import export_onnx

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_network(get_preset("paper"))
    return export_onnx(network, folder / "paper.onnx", TrainingFacts(), half=False)


def measure_closing(repeats: int) -> dict[str, Any]:
    """Return the candidates that closing fits and scores in a second, by tier."""
    from sr4mdl.closing import ClosingProblem, close_state

    problems = _closing_problems(10, 300)
    result: dict[str, Any] = {"problems": len(problems), "rows": 300}
    for tier in ("quick", "medium", "full"):
        examined = 0
        best = [float("inf")] * len(problems)
        for number, problem in enumerate(problems):
            for _ in range(min(repeats, 2)):
                start = time.perf_counter()
                found = close_state(ClosingProblem.root(*problem), tier)
                best[number] = min(best[number], time.perf_counter() - start)
            examined += found.n_examined
        result[f"{tier}_candidates_per_s"] = examined / sum(best)
        result[f"{tier}_seconds_mean"] = sum(best) / len(best)
    return result


def _closing_problems(
    n_problems: int, n_rows: int
) -> list[tuple[FloatArray, FloatArray, tuple[str, ...]]]:
    """Return generated tables whose target is finite and varies."""
    from sr4mdl.corpus.formulas import VARIABLE_NAMES, default_formula
    from sr4mdl.evaluate import evaluate_one

    rng = random.Random(0)
    numbers = np.random.default_rng(0)
    problems: list[tuple[FloatArray, FloatArray, tuple[str, ...]]] = []
    while len(problems) < n_problems:
        formula = default_formula(rng)
        if not 3 <= formula.n_variables <= 5 or len(formula.expression.variables) < 3:
            continue
        names = tuple(VARIABLE_NAMES[: formula.n_variables])
        rows = numbers.uniform(1.0, 4.0, (n_rows, len(names)))
        with np.errstate(all="ignore"):
            target = evaluate_one(formula.expression, rows, names)
        size = np.abs(target).max()
        if np.isfinite(size) and np.ptp(target) > 1e-6 * size:
            problems.append((rows, target, names))
    return problems


def measure_evaluation(
    repeats: int,
    *,
    n_expressions: int = 1000,
    length: int = 20,
    n_rows: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the speed of one program against a numpy function per formula.

    Compiling is left out on both sides; seconds are of processor time on one thread.
    """
    from sr4mdl.corpus.trees import random_expression
    from sr4mdl.evaluate import compile_program

    rng = np.random.default_rng(seed)
    expressions = [
        random_expression(rng, length, _VARIABLES) for _ in range(n_expressions)
    ]
    X = rng.uniform(-3.0, 3.0, size=(n_rows, len(_VARIABLES)))
    columns = [np.ascontiguousarray(column) for column in X.T]
    functions = import_functions(expressions, _VARIABLES)
    program = compile_program(expressions, _VARIABLES)

    def by_functions() -> list[object]:
        return [function(*columns) for function in functions]

    with np.errstate(all="ignore"):
        best = best_seconds(
            {
                "functions": by_functions,
                "program": lambda: program.run(X, backend="compiled"),
            },
            repeats,
            time.thread_time,
        )
        expected = np.stack(
            [np.broadcast_to(np.asarray(v), n_rows) for v in by_functions()]
        )
    outcome = program.run(X, backend="compiled")
    # Ill-conditioned formulas differ by more than rounding; the bulk must agree.
    both = outcome.valid & np.isfinite(expected)
    close = np.isclose(outcome.values[both], expected[both], rtol=1e-9, atol=0.0)
    return {
        "n_expressions": n_expressions,
        "n_rows": n_rows,
        "seconds_numpy_functions": best["functions"],
        "seconds_program": best["program"],
        "ratio": best["functions"] / best["program"],
        "unique_instructions": program.n_instructions,
        "total_symbols": sum(item.length for item in expressions),
        "share_valid": float(outcome.valid.mean()),
        "share_equal": float(close.mean()),
        "share_same_mask": float((outcome.valid == np.isfinite(expected)).mean()),
    }


def import_functions(
    expressions: Sequence[Expression], names: Sequence[str]
) -> list[Callable[..., object]]:
    """Return each expression's own numpy function, from a module made of source."""
    import importlib.util

    from sr4mdl.export import to_numpy_source

    sources = [
        to_numpy_source(expression, f"f{number}", names)
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


def measure_simplify(n_formulas: int = 60, timeout: float = 1.0) -> dict[str, Any]:
    """Return the speed of ``simplify`` against ``sympy.simplify`` on random formulas.

    A call of sympy that runs into the time-out, or fails, counts with its time.
    """
    import sympy

    from sr4mdl.corpus.trees import random_expression
    from sr4mdl.export import to_sympy
    from sr4mdl.simplify import simplify

    rng = np.random.default_rng(0)
    formulas = [
        random_expression(rng, int(rng.integers(5, 31))) for _ in range(n_formulas)
    ]
    # Results are remembered, so each formula is simplified once; the first call of all
    # reads tables.
    simplify(random_expression(rng, 10))
    start = time.perf_counter()
    for formula in formulas:
        simplify(formula)
    own = time.perf_counter() - start
    n_timeouts = n_failures = 0
    start = time.perf_counter()
    for formula in formulas:
        symbols = {name: sympy.Symbol(name, real=True) for name in formula.variables}
        try:
            with time_limit(timeout):
                sympy.simplify(to_sympy(formula, symbols))
        except OutOfTimeError:
            n_timeouts += 1
        except (ArithmeticError, TypeError, ValueError, RecursionError):
            n_failures += 1
    theirs = time.perf_counter() - start
    return {
        "n_formulas": n_formulas,
        "timeout": timeout,
        "seconds_ours": own,
        "seconds_sympy_simplify": theirs,
        "ratio": theirs / own,
        "sympy_timeouts": n_timeouts,
        "sympy_failures": n_failures,
    }


def run(arguments: Namespace) -> int:
    """Run the command."""
    from sr4mdl.bench.suite_command import BenchOptionError

    asked = [part.strip() for part in arguments.parts.split(",") if part.strip()]
    parts = PARTS if asked == ["all"] else tuple(asked)
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise BenchOptionError(
            f"--parts: must be all or some of {', '.join(PARTS)}, got "
            f"{arguments.parts!r}"
        )
    if arguments.repeats < 1:
        raise BenchOptionError(
            f"--repeats: must be at least 1, got {arguments.repeats}"
        )
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "guide": lambda: measure_guide(arguments.repeats),
        "closing": lambda: measure_closing(arguments.repeats),
        "evaluation": lambda: measure_evaluation(4 * arguments.repeats),
        "simplify": measure_simplify,
    }
    document: dict[str, Any] = {
        "bench": "speed",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": _load(),
    }
    out = sys.stdout
    for part in parts:
        document[part] = measures[part]()
        for name, value in document[part].items():
            shown = f"{value:.4g}" if isinstance(value, float) else value
            out.write(f"{part} {name}: {shown}\n")
        out.flush()
    document["load_after"] = _load()
    out.write(f"load average {document['load_before']}, {document['load_after']}\n")
    if arguments.output is not None:
        write_document(arguments.output, document)
    if arguments.json:
        out.write(json.dumps(document, allow_nan=False) + "\n")
    return 0


def _load() -> float:
    """Return the load average of the last minute: what else the machine did."""
    return round(os.getloadavg()[0], 2)
