"""Random formulas: no wrong value, no crash, never longer, at rest after one call."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from sr4mdl.corpus.trees import random_expression
from sr4mdl.expressions import Expression
from sr4mdl.operators import get_operator
from sr4mdl.simplify import simplify, simplify_with_report
from strategies import expressions

NAMES = ("x0", "x1", "x2")
N_BATCHES = 10
N_PER_BATCH = 1000
MAX_LENGTH = 50
N_ROWS = 24

UNDERFLOWING = ("mul", "div", "inv", "square", "cube", "pow", "exp")

Columns = dict[str, NDArray[np.floating]]


def evaluate(
    expression: Expression, columns: Columns
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Return values, and where every part is a sound number.

    Sound: finite, far from over- and underflow, and no difference of equal numbers
    that is mere rounding.
    """
    sample = columns[NAMES[0]]
    values: dict[Expression, NDArray[np.floating]] = {}
    defined = np.ones(sample.shape, dtype=bool)
    with np.errstate(all="ignore"):
        for node in expression.subexpressions():
            if node.name is not None:
                value = columns[node.name]
            elif node.value is not None:
                value = np.full_like(sample, node.value)
            else:
                assert node.operator is not None
                value = node.operator.numpy(*(values[a] for a in node.arguments))
            values[node] = value
            size = np.abs(value)
            defined &= (size < 1e100) & ((size > 1e-100) | (size == 0))
            if node.operator is not None:
                sizes = [np.abs(values[argument]) for argument in node.arguments]
                if node.operator.name in ("add", "sub"):
                    noise = size < 1e-12 * np.maximum(*sizes)
                    defined &= ~noise | (size == 0)
                elif node.operator.name in UNDERFLOWING:
                    defined &= (size > 0) | (np.minimum.reduce(sizes) == 0)
    return values[expression], defined


def draw_columns(rng: np.random.Generator) -> Columns:
    """Draw rows over both signs, positive rows, and rows of small whole numbers."""
    third = N_ROWS // 3
    return {
        name: np.concatenate(
            [
                rng.uniform(-3.0, 3.0, third),
                rng.uniform(0.1, 2.0, third),
                rng.integers(-2, 4, third).astype(float),
            ]
        )
        for name in NAMES
    }


def find_wrong_row(
    expression: Expression, result: Expression, rng: np.random.Generator
) -> str | None:
    """Compare both where the input is defined and well conditioned.

    Conditioning is seen from the input alone: by what extended precision changes,
    and by what tiny changes of the variables do to values and to the domain.
    """
    columns = draw_columns(rng)
    expected, usable = evaluate(expression, columns)
    if not usable.any():
        return None
    spread = np.zeros(expected.shape)
    changed: list[Columns] = [
        {name: column.astype(np.longdouble) for name, column in columns.items()}
    ]
    changed.append(
        {
            name: column + rng.choice((-1e-11, 1e-11)) * rng.uniform(1, 2)
            for name, column in columns.items()
        }
    )
    for other in changed:
        values, defined = evaluate(expression, other)
        usable &= defined
        with np.errstate(all="ignore"):
            spread = np.maximum(spread, np.abs(values - expected).astype(float))
    got, _ = evaluate(result, columns)
    with np.errstate(all="ignore"):
        usable &= spread < 1e-6 * np.maximum(np.abs(expected), 1e-3)
        tolerance = 1e-9 * np.abs(expected) + 10.0 * spread + 1e-12
        wrong = usable & ~(np.abs(got - expected) <= tolerance)
    if not wrong.any():
        return None
    row = int(np.flatnonzero(wrong)[0])
    point = {name: float(column[row]) for name, column in columns.items()}
    return (
        f"{expression}\nbecame {result}\nat {point}: "
        f"{expected[row]!r} became {got[row]!r}"
    )


@pytest.mark.parametrize("seed", range(N_BATCHES))
def test_random_formulas_keep_their_values(seed: int) -> None:
    rng = np.random.default_rng([seed, 20])
    n_compared = 0
    for _ in range(N_PER_BATCH):
        length = int(rng.integers(1, MAX_LENGTH + 1))
        expression = random_expression(rng, length, NAMES)
        result = simplify(expression)
        assert result.length <= expression.length, expression
        assert simplify(result) is result, expression
        if result is not expression:
            n_compared += 1
            assert find_wrong_row(expression, result, rng) is None
    assert n_compared > N_PER_BATCH // 2


def test_the_comparison_finds_wrong_formulas() -> None:
    rng = np.random.default_rng(0)
    x, y = (random_expression(rng, 1, (name,), constant_rate=0.0) for name in NAMES[:2])
    assert find_wrong_row(x * y, x * y * 1.000001, rng) is not None
    assert find_wrong_row(x - y, y - x, rng) is not None
    assert find_wrong_row(x * y, x * y, rng) is None


def in_domain(expression: Expression, columns: Columns) -> NDArray[np.bool_]:
    """Return where every operator gets arguments that it is defined for."""
    sample = columns[NAMES[0]]
    values: dict[Expression, NDArray[np.floating]] = {}
    inside = np.ones(sample.shape, dtype=bool)
    with np.errstate(all="ignore"):
        for node in expression.subexpressions():
            if node.name is not None:
                values[node] = columns[node.name]
            elif node.value is not None:
                values[node] = np.full_like(sample, node.value)
            else:
                assert node.operator is not None
                arguments = [values[argument] for argument in node.arguments]
                if node.operator.domain is not None:
                    inside &= node.operator.domain(*arguments)
                values[node] = node.operator.numpy(*arguments)
    return inside


@pytest.mark.parametrize("seed", range(4))
def test_without_a_report_the_domain_is_the_same(seed: int) -> None:
    """Points where the result is sound but the input undefined must be reported."""
    rng = np.random.default_rng([seed, 30])
    names = ("add", "sub", "mul", "div", "sqrt", "square", "log", "abs", "exp", "inv")
    n_widened = 0
    for _ in range(500):
        expression = random_expression(
            rng,
            int(rng.integers(3, 20)),
            NAMES[:2],
            operators=[get_operator(name) for name in names],
        )
        report = simplify_with_report(expression)
        n_widened += report.widens_domain
        if report.widens_domain or report.expression is expression:
            continue
        columns = draw_columns(rng)
        gained = ~in_domain(expression, columns)
        moved = {name: column + 1e-9 for name, column in columns.items()}
        for other in (columns, moved):
            gained &= ~in_domain(expression, other) & in_domain(
                report.expression, other
            )
            gained &= evaluate(report.expression, other)[1]
        assert not gained.any(), f"{expression} became {report.expression}"
    assert n_widened > 50


@given(expressions(max_leaves=10))
@settings(max_examples=300)
def test_strange_numbers_and_names_do_no_harm(expression: Expression) -> None:
    """Constants near overflow, 0/0, log(-1) and the like are left alone."""
    report = simplify_with_report(expression)
    assert report.expression.length <= expression.length
    assert simplify(report.expression) is report.expression
    assert report.expression.variables <= expression.variables


PROGRAM = """
import json, sys
import numpy as np
from sr4mdl.corpus.trees import random_expression
from sr4mdl.simplify import simplify
rng = np.random.default_rng(7)
formulas = [random_expression(rng, 25) for _ in range(200)]
if sys.argv[1] == "backwards":
    formulas.reverse()
found = [str(simplify(formula)) for formula in formulas]
if sys.argv[1] == "backwards":
    found.reverse()
print(json.dumps(found))
"""


def test_same_results_in_every_process_and_order() -> None:
    outputs = []
    for order, hash_seed in (("forwards", "1"), ("backwards", "2")):
        completed = subprocess.run(
            [sys.executable, "-c", PROGRAM, order],
            capture_output=True,
            check=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        outputs.append(json.loads(completed.stdout))
    assert outputs[0] == outputs[1]
