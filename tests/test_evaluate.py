"""Programs: what they compute, what they refuse, how much memory they take."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sr4mdl.corpus.trees import random_expression
from sr4mdl.errors import BudgetExceededError
from sr4mdl.evaluate import compile_program, evaluate, evaluate_one, programs
from sr4mdl.export import to_sympy
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.operators import Operator, register_operator, unregister_operator
from sr4mdl.text import parse
from strategies import expressions

BACK_ENDS = ("numpy", "compiled")
NAMES = ("x0", "x1", "x2")


@pytest.fixture
def softsign() -> Iterator[Operator]:
    def function(x: np.ndarray) -> np.ndarray:
        result = x / (1 + np.abs(x))
        x[:] = -7.0  # a careless function: it must not spoil the program
        return result

    yield register_operator("softsign", function)
    unregister_operator("softsign")


@pytest.fixture
def hypotenuse() -> Iterator[Operator]:
    yield register_operator("hypotenuse", np.hypot, arity=2, commutes=True)
    unregister_operator("hypotenuse")


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_values_and_masks_by_hand(backend: programs.Backend) -> None:
    X = np.array([[1.0, 4.0], [0.0, 9.0], [-2.0, -1.0]])
    result = evaluate(
        [parse("x + y"), parse("1/x"), parse("sqrt(y)"), parse("x^2 - 2*y")],
        X,
        ["x", "y"],
        backend=backend,
    )
    nan, inf = np.nan, np.inf
    np.testing.assert_array_equal(
        result.values,
        [[5, 9, -3], [1, inf, -0.5], [2, 3, nan], [-7, -18, 6]],
    )
    assert result.valid.tolist() == [
        [True, True, True],
        [True, False, True],
        [True, True, False],
        [True, True, True],
    ]


def test_registers_are_variables_constants_instructions() -> None:
    program = compile_program([parse("sin(y)*2 + x"), parse("sin(y) - 3")], ["x", "y"])
    assert program.constants.tolist() == [2.0, 3.0]
    assert program.first_output == 4
    assert program.n_instructions == 4  # sin is there once
    assert program.n_registers == 8
    # sin(y), *2, + x, - 3
    assert program.opcodes.tolist() == [14, 3, 1, 2]
    assert program.first.tolist() == [1, 4, 5, 4]
    assert program.second.tolist() == [1, 2, 0, 3]
    assert program.outputs.tolist() == [6, 7]
    with pytest.raises(ValueError, match="read-only"):
        program.opcodes[0] = 1


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_outputs_may_be_leaves_uniform_or_repeated(backend: programs.Backend) -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    wanted = ["y", "3", "x", "2 + 3", "x + y", "y", "x + y", "(x + y)*2", "3"]
    values = evaluate(list(map(parse, wanted)), X, ["x", "y"], backend=backend).values
    assert values.tolist() == [
        [2, 4, 6],
        [3, 3, 3],
        [1, 3, 5],
        [5, 5, 5],
        [3, 7, 11],
        [2, 4, 6],
        [3, 7, 11],
        [6, 14, 22],
        [3, 3, 3],
    ]


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_no_rows_no_expressions_no_variables(backend: programs.Backend) -> None:
    empty = evaluate([parse("x + 1")], np.empty((0, 1)), ["x"], backend=backend)
    assert empty.values.shape == empty.valid.shape == (1, 0)
    assert evaluate([], np.ones((4, 1)), ["x"], backend=backend).values.shape == (0, 4)
    numbers = evaluate([parse("1/0"), parse("2*3")], np.empty((2, 0)), [])
    assert numbers.values.tolist() == [[np.inf, np.inf], [6, 6]]
    assert numbers.valid.tolist() == [[False, False], [True, True]]


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_any_memory_order_and_X_untouched(backend: programs.Backend) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    wide = np.zeros((600, 6))
    wide[::2, ::2] = X
    kept = X.copy()
    items = [random_expression(rng, 15) for _ in range(20)]
    expected = evaluate(items, X, NAMES, backend=backend).values
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (np.asfortranarray(X), wide[::2, ::2], frozen):
        found = evaluate(items, other, NAMES, backend=backend).values
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(X, kept)
    whole = np.arange(6).reshape(2, 3)
    assert evaluate_one(parse("x0 + x2"), whole, NAMES).tolist() == [2, 8]


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_non_finite_data_are_numbers_like_others(backend: programs.Backend) -> None:
    X = np.array([[np.nan], [np.inf], [-np.inf], [2.0]])
    result = evaluate([parse("x"), parse("1/x"), parse("pow(x, 0)")], X, ["x"],
                      backend=backend)  # fmt: skip
    np.testing.assert_array_equal(result.values[0], X[:, 0])
    np.testing.assert_array_equal(result.values[1], [np.nan, 0, -0.0, 0.5])
    np.testing.assert_array_equal(result.values[2], 1)
    assert result.valid[:2].tolist() == [
        [False, False, False, True],
        [False, True, True, True],
    ]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"\['speed', 'z'\].*\['x'\]"):
        compile_program([parse("x + z"), parse("speed*x")], ["x"])
    with pytest.raises(ValueError, match="variables must differ"):
        compile_program([parse("x")], ["x", "x"])
    program = compile_program([parse("x + y")], ["x", "y"])
    with pytest.raises(ValueError, match=r"\(n_rows, 2\).*\(3, 1\)"):
        program.run(np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"got \(2,\)"):
        program.run(np.ones(2))
    with pytest.raises(TypeError, match="complex"):
        program.run(np.ones((3, 2)) + 1j)
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        program.run(np.ones((3, 2)), n_threads=0)
    with pytest.raises(ValueError, match="backend must be one of"):
        program.run(np.ones((3, 2)), backend="gpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_memory_is_bounded_by_chunks(backend: programs.Backend) -> None:
    rng = np.random.default_rng(1)
    items = [random_expression(rng, 25) for _ in range(3)]
    program = compile_program(items, NAMES)
    X = rng.normal(size=(5000, 3))
    free = program.run(X, backend=backend)
    result_bytes = 9 * 3 * 5000
    tight = program.run(X, backend=backend, max_bytes=result_bytes + 8000)
    np.testing.assert_array_equal(free.values, tight.values)
    with pytest.raises(BudgetExceededError, match="3 expressions on 5000 rows"):
        program.run(X, backend=backend, max_bytes=result_bytes - 1)
    with pytest.raises(BudgetExceededError, match="registers"):
        program.run(X, backend=backend, max_bytes=result_bytes + 10)


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_operators_of_a_user(
    backend: programs.Backend, softsign: Operator, hypotenuse: Operator
) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(10_001, 2))
    x, y = variable("x"), variable("y")
    inner = apply("sin", x) + y
    items = [
        apply(softsign, inner) * apply("exp", inner),
        apply(hypotenuse, apply(softsign, x), constant(2.0)),
        apply(softsign, constant(3.0)),
        inner,
        apply(softsign, inner),
    ]
    found = evaluate(items, X, ["x", "y"], backend=backend).values
    sums = np.sin(X[:, 0]) + X[:, 1]
    soft = X[:, 0] / (1 + np.abs(X[:, 0]))
    # Sums near zero keep the absolute error of their terms, which are about 1.
    expected = [
        sums / (1 + abs(sums)) * np.exp(sums),
        np.hypot(soft, 2.0),
        np.full(10_001, 0.75),
        sums,
        sums / (1 + abs(sums)),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("backend", BACK_ENDS)
def test_deep_formulas(backend: programs.Backend) -> None:
    deep = variable("x")
    for _ in range(5000):
        deep = apply("sin", deep) + 1
    found = evaluate([deep], np.array([[0.5]]), ["x"], backend=backend).values
    assert 1.9 < found[0, 0] < 2.0  # the fixed point of sin(x) + 1 is 1.934...


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(3)
    program = compile_program([random_expression(rng, 20) for _ in range(30)], NAMES)
    X = rng.normal(size=(1003, 3))
    one = program.run(X, backend="compiled")
    three = program.run(X, backend="compiled", n_threads=3)
    np.testing.assert_array_equal(one.values, three.values)
    np.testing.assert_array_equal(one.valid, three.valid)
    few = program.run(X[:2], backend="compiled", n_threads=8)
    np.testing.assert_array_equal(few.values, one.values[:, :2])


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(4)
    program = compile_program([random_expression(rng, 20) for _ in range(50)], NAMES)
    X = rng.normal(scale=20, size=(530, 3))
    whole = program.run(X, backend="compiled").values
    for rows in (slice(0, 1), slice(250, 270), slice(3, 530), slice(100, 107)):
        part = program.run(X[rows], backend="compiled").values
        np.testing.assert_array_equal(part, whole[:, rows])


def test_small_work_goes_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    small = compile_program([parse("x + 1")], ["x"])
    assert not small._runs_compiled(100, "auto")
    assert small._runs_compiled(10**6, "auto")
    assert small._runs_compiled(1, "compiled")
    assert not small._runs_compiled(10**6, "numpy")
    # Without numba everything does.
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: None)
    programs._compiled_pays.cache_clear()
    assert not small._runs_compiled(10**6, "auto")
    programs._compiled_pays.cache_clear()


def test_import_brings_neither_torch_nor_numba() -> None:
    code = (
        "import sys, sr4mdl.evaluate, sr4mdl.export; "
        "bad = {'torch', 'numba', 'sympy', 'llvmlite'} & set(sys.modules); "
        "sys.exit(', '.join(bad) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


TAME_NUMBERS = st.sampled_from([0.5, 1.0, 2.0, 3.0, -1.0, -2.0, 0.3, 1.7, np.pi, 10.0])


def _moved_constants(expression: Expression) -> Expression:
    return expression.rebuild(
        lambda node: (
            constant(node.value * (1 + 1e-12)) if node.value is not None else None
        )
    )


@settings(max_examples=150)
@given(expressions(constants=TAME_NUMBERS, max_leaves=8), st.integers(0, 2**32 - 1))
def test_equal_to_sympy_lambdify(expression: Expression, seed: int) -> None:
    X = np.random.default_rng(seed).uniform(-3, 3, size=(20, 3))
    symbols = {name: sympy.Symbol(name) for name in NAMES}
    formula = to_sympy(expression, symbols)
    assume(not formula.has(sympy.zoo, sympy.nan, sympy.oo, sympy.I))
    function = sympy.lambdify([symbols[name] for name in NAMES], formula, "numpy")
    try:
        with np.errstate(all="ignore"):
            expected = np.broadcast_to(function(*X.T), 20).astype(np.float64)
    except (OverflowError, TypeError):
        # A whole number of sympy's that no float holds.
        assume(False)
    found = evaluate([expression], X, NAMES, backend="compiled")
    # Where rounding errors explode, the two need not agree: leave those rows out.
    moved = evaluate_one(expression, X * (1 + 1e-12), NAMES)
    shifted = evaluate_one(_moved_constants(expression), X, NAMES)
    values = found.values[0]
    with np.errstate(all="ignore"):
        steady = np.abs(moved - values) <= 1e-8 * np.abs(values)
        steady &= ~(np.abs(shifted - values) > 1e-8 * np.abs(values))
    both = found.valid[0] & np.isfinite(expected) & steady
    np.testing.assert_allclose(values[both], expected[both], rtol=1e-6)
