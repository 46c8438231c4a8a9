"""Has a formula been recovered? SRBench's rule, and a stricter one by numbers.

The rule is SRBench v2.0's: the gate on test R2, the rounding of floats, one
simplification of the prediction, then a difference or a ratio that is constant. It is
applied here to expressions, never to strings, so that names such as ``I``, ``E`` or
``beta`` stay variables. Every sympy step has a time limit by an alarm; because sympy
can also hang where no alarm is served, :func:`judge_isolated` does the whole in a
process that is killed.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.bench.alarm import OutOfTimeError, time_limit
from sr4mdl.bench.tables import evaluate, problem_generator
from sr4mdl.errors import ParseError
from sr4mdl.expressions import Expression
from sr4mdl.text import parse

if TYPE_CHECKING:
    import sympy

CHECKER_VERSION: Final = 1
"""Raised when a verdict could come out differently."""
R2_GATE: Final = 0.5
"""Only models above this test R2 are examined."""
SMALLEST_FLOAT: Final = 1e-4
"""Floats below this become 0."""
DECIMALS: Final = 3
"""Decimals, and then significant digits, that floats keep."""
PI: Final = "3.1415926535"
"""What SRBench writes for pi."""
LARGEST_WHOLE: Final = 1e15
"""Whole numbers below this are integers to sympy, as their text is."""
STEP_LIMIT: Final = 60.0
"""Seconds for each sympy step."""
NUMERIC_TOLERANCE: Final = 1e-4
"""Relative error that the numeric verdict allows without noise."""
NOISY_TOLERANCE: Final = 0.03
"""Relative error that the numeric verdict allows under noise."""
NUMERIC_POINTS: Final = 1_000
NUMERIC_QUANTILE: Final = 0.95
_SCALE_FLOOR: Final = 1e-3
_LEAST_POINTS: Final = 20

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of SRBench's rule."""

    recovered: bool
    """Whether the formula counts as a symbolic solution."""
    reason: str
    """The branch that decided, in a few words."""
    simplified: str | None = None
    """The prediction after rounding and simplification, where it was reached."""
    complexity_simplified: int | None = None
    """Nodes of that expression."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)


def to_plain_sympy(formula: Any) -> "sympy.Expr":
    """Return a sympy expression over symbols without assumptions, pi as a number.

    Parameters
    ----------
    formula : Expression, str or sympy.Expr
        Text is read in this package's notation.
    """
    import sympy

    if isinstance(formula, str):
        formula = parse(formula)
    if isinstance(formula, Expression):
        formula = _convert(formula)
    expression: sympy.Expr = sympy.sympify(formula)
    plain = {
        symbol: sympy.Symbol(symbol.name)
        for symbol in expression.free_symbols
        if isinstance(symbol, sympy.Symbol)
    }
    replaced: sympy.Expr = expression.xreplace({**plain, sympy.pi: sympy.Float(PI)})
    return replaced


def _convert(expression: Expression) -> "sympy.Expr":
    """Build the expression as sympy would read its text, by the operator table.

    Not by the exporter: the verdict needs whole numbers as integers, all others as
    floats and names without meaning, whatever suits an export.
    """
    import sympy

    built: dict[Expression, Any] = {}
    for node in expression.subexpressions():
        if node.name is not None:
            built[node] = sympy.Symbol(node.name)
        elif node.value is not None:
            built[node] = _convert_number(node.value)
        else:
            assert node.operator is not None
            form = node.operator.sympy
            function = getattr(sympy, form) if isinstance(form, str) else form
            built[node] = function(*(built[part] for part in node.arguments))
    result: sympy.Expr = built[expression]
    return result


def _convert_number(value: float) -> Any:
    import sympy

    if value == math.pi:
        return sympy.Float(PI)
    if value.is_integer() and abs(value) < LARGEST_WHOLE:
        return sympy.Integer(int(value))
    return sympy.Float(value)


def round_floats(expression: "sympy.Expr") -> "sympy.Expr":
    """Return the expression with floats rounded as SRBench does.

    Below 1e-4 a float becomes 0; any other keeps three decimals and then three
    significant digits. Integers and rationals stay.
    """
    import sympy

    rounded: dict[Any, Any] = {}
    for number in expression.atoms(sympy.Float):
        if abs(number) < SMALLEST_FLOAT:
            rounded[number] = sympy.Integer(0)
        else:
            rounded[number] = sympy.Float(round(number, DECIMALS), DECIMALS)
    result: sympy.Expr = expression.xreplace(rounded)
    return result


def count_nodes(expression: "sympy.Basic") -> int:
    """Return the number of nodes in a pre-order walk, SRBench's model size."""
    import sympy

    return sum(1 for _ in sympy.preorder_traversal(expression))


def complexity(formula: Any) -> int:
    """Return SRBench's size of a formula: nodes of the rounded sympy expression."""
    return count_nodes(round_floats(to_plain_sympy(formula)))


def judge(
    truth: Any, prediction: Any, r2_test: float | None, step_limit: float = STEP_LIMIT
) -> Verdict:
    """Apply SRBench's rule to a formula.

    Parameters
    ----------
    truth, prediction : Expression, str or sympy.Expr
        Text is read in this package's notation.
    r2_test : float or None
        R2 of the model on the clean test rows; None counts as failed.
    step_limit : float, default=60.0
        Seconds for each sympy step; passing it counts as not recovered.

    Returns
    -------
    Verdict
        The outcome and the branch that decided it.
    """
    from sympy.polys.polyerrors import BasePolynomialError

    if r2_test is None or not r2_test > R2_GATE:
        return Verdict(False, f"test R2 not above {R2_GATE}")
    try:
        return _examine(truth, prediction, step_limit)
    except (ParseError, SyntaxError) as error:
        return Verdict(False, f"not a formula: {error}")
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        NotImplementedError,
        RecursionError,
        TypeError,
        ValueError,
        BasePolynomialError,
    ) as error:
        return Verdict(False, f"sympy failed: {type(error).__name__}: {error}")


def _examine(truth: Any, prediction: Any, step_limit: float) -> Verdict:
    import sympy

    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("judge() must run in the main thread; use judge_isolated()")
    stage = "reading"
    simplified: str | None = None
    size: int | None = None

    def step(name: str, action: Callable[[], _T]) -> _T:
        nonlocal stage
        stage = name
        with time_limit(step_limit):
            return action()

    def simplify(expression: sympy.Expr) -> sympy.Expr:
        result: sympy.Expr = sympy.simplify(expression, ratio=1)
        return result

    try:
        true = step("reading the truth", lambda: round_floats(to_plain_sympy(truth)))
        model = step(
            "reading the prediction", lambda: round_floats(to_plain_sympy(prediction))
        )
        model = step("simplifying the prediction", lambda: simplify(model))
        simplified, size = str(model), count_nodes(model)
        if simplified in ("0", "nan"):
            return Verdict(False, f"prediction is {simplified}", simplified, size)
        difference = step("difference", lambda: round_floats(true - model))
        ratio = step("ratio", lambda: round_floats(model / true))
        constant_difference = step("difference", difference.is_constant)
        constant_ratio = step("ratio", ratio.is_constant)
        if not constant_difference or constant_ratio:
            unsimplified = difference
            difference = step(
                "simplifying the difference",
                lambda: round_floats(simplify(unsimplified)),
            )
            constant_difference = step("difference", difference.is_constant)
    except OutOfTimeError:
        reason = f"time-out of {step_limit:g} s in: {stage}"
        return Verdict(False, reason, simplified, size)
    if str(difference) == "0":
        return Verdict(True, "difference is zero", simplified, size)
    if constant_difference:
        return Verdict(True, "difference is constant", simplified, size)
    if constant_ratio:
        return Verdict(True, "ratio is constant", simplified, size)
    return Verdict(False, "neither difference nor ratio is constant", simplified, size)


def judge_isolated(
    truth: str,
    prediction: str,
    r2_test: float | None,
    step_limit: float = STEP_LIMIT,
    hard_limit: float | None = None,
) -> Verdict:
    """Apply :func:`judge` in a process that is killed when it hangs.

    Parameters
    ----------
    truth, prediction : str
        Formulas in this package's notation.
    r2_test : float or None
        R2 of the model on the clean test rows.
    step_limit : float, default=60.0
        Seconds for each sympy step.
    hard_limit : float, optional
        Seconds for the whole; by default four steps and half a minute.
    """
    from sr4mdl.bench.isolation import Child

    hard_limit = 4 * step_limit + 30 if hard_limit is None else hard_limit
    request = {
        "kind": "judge",
        "truth": truth,
        "prediction": prediction,
        "r2_test": r2_test,
        "step_limit": step_limit,
    }
    with Child(request) as child:
        messages, ending = child.finish(hard_limit)
    for message in messages:
        if "verdict" in message:
            return Verdict(**message["verdict"])
    return Verdict(False, f"judge failed: {ending}")


def numerically_equal(
    truth: Expression,
    prediction: Expression,
    box: Sequence[tuple[float, float]],
    names: Sequence[str],
    noise: float = 0.0,
) -> bool:
    """Return whether two formulas agree on fresh points in and around the box.

    Neither offset nor factor is forgiven. Fresh uniform points are drawn in the box
    and in a box widened by half its width on both sides; at those where the truth is
    finite, the 95th percentile of the relative error must stay below 1e-4 (3 % where
    the training target had noise), in each of the two sets.

    Parameters
    ----------
    truth, prediction : Expression
        The formulas.
    box : sequence of (float, float)
        Range of every variable.
    names : sequence of str
        Names of the variables, in the order of the box.
    noise : float, default=0.0
        Noise level of the run.
    """
    if not prediction.variables <= set(names):
        return False
    tolerance = NOISY_TOLERANCE if noise > 0 else NUMERIC_TOLERANCE
    low, high = np.array(box, dtype=np.float64).T
    width = high - low
    rng = problem_generator("numeric verdict")
    for margin in (0.0, 0.5):
        X = rng.uniform(
            low - margin * width,
            high + margin * width,
            size=(NUMERIC_POINTS, len(width)),
        )
        if margin:
            inside = np.logical_and(low <= X, high >= X).all(axis=1)
            X = X[~inside]
        columns = dict(zip(names, X.T, strict=True))
        if not _agree(truth, prediction, columns, tolerance):
            return False
    return True


def _agree(
    truth: Expression,
    prediction: Expression,
    columns: Mapping[str, FloatArray],
    tolerance: float,
) -> bool:
    wanted = evaluate(truth, columns)
    finite = np.isfinite(wanted)
    # Where the truth has hardly a value outside its box, only the inside can tell.
    if finite.sum() < _LEAST_POINTS:
        return True
    wanted = wanted[finite]
    got = evaluate(prediction, columns)[finite]
    floor = _SCALE_FLOOR * np.median(np.abs(wanted))
    with np.errstate(all="ignore"):
        error = np.abs(got - wanted) / np.maximum(np.abs(wanted), floor)
    error[np.isnan(error)] = np.where(got == wanted, 0.0, np.inf)[np.isnan(error)]
    return bool(np.quantile(error, NUMERIC_QUANTILE, method="higher") < tolerance)
