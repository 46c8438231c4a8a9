"""The compiled loops against exact values, numpy and torch, operator by operator."""

import math

import mpmath
import numpy as np
import pytest

from sr4mdl.corpus.trees import random_expression
from sr4mdl.evaluate import Program, compile_program, kernels
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.operators import Operator, all_operators, operator_of_opcode

X, Y = variable("x"), variable("y")
UNARY = [item for item in all_operators() if item.builtin and item.arity == 1]
BINARY = [item for item in all_operators() if item.builtin and item.arity == 2]
ULPS = 2.5
NAMES = ("x0", "x1", "x2")

# fmt: off
SPECIAL = np.array([
    0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 5e-324, -5e-324, 1e-310, 1e308, -1e308,
    0.5, -0.5, 2, -2, 3, -3, 4, -4, 2.5, -2.5, 1e16, -1e16, 0.1, -0.1,
    9007199254740993.0, 1e-300, 1e200, -1e200, 710.2, 710.6, -710.2, -720, -745.5,
    1e13, -1e300, 22.5, np.pi, np.pi / 2, -np.pi / 2, 0.625, 0.66,
])
RANGES = {
    "exp": [(-745, 709.7), (-1, 1), (-745, -700)],
    "log": [(1e-9, 3), (0.5, 2), (1, 1e10)],
    "sin": [(-3, 3), (-1e6, 1e6), (-1e12, 1e12)],
    "cos": [(-3, 3), (-1e6, 1e6), (-1e12, 1e12)],
    "tan": [(-3, 3), (-1e6, 1e6), (-1e12, 1e12)],
    "arcsin": [(-1, 1), (-0.55, -0.45)],
    "arccos": [(-1, 1), (0.99, 1)],
    "arctan": [(-1, 1), (-10, 10), (-1e5, 1e5)],
    "sinh": [(-1.2, 1.2), (-20, 20), (-710, 710)],
    "cosh": [(-3, 3), (-710, 710)],
    "tanh": [(-1, 1), (-20, 20)],
    "sqrt": [(0, 9)], "square": [(-3, 3)], "cube": [(-3, 3)], "inv": [(-3, 3)],
    "neg": [(-3, 3)], "abs": [(-3, 3)],
}
EXACT = {
    "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan,
    "square": lambda x: x * x, "cube": lambda x: x**3, "inv": lambda x: 1 / x,
    "neg": lambda x: -x, "abs": abs,
}
# fmt: on


def run(expression: Expression, *columns: np.ndarray) -> np.ndarray:
    program = compile_program([expression], ["x", "y"][: len(columns)])
    return program.run(np.stack(columns, axis=1), backend="compiled").values[0]


def assert_same(found: np.ndarray, expected: np.ndarray, ulps: float = 8) -> None:
    """Check values to some units in the last place, and NaN, inf and signs exactly."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))
    finite = np.isfinite(expected)
    apart = np.abs(found[finite] - expected[finite])
    assert np.all(apart <= ulps * np.spacing(np.abs(expected[finite])))


def test_the_kernel_knows_the_operator_table() -> None:
    table = {item.name: item.opcode for item in all_operators() if item.builtin}
    assert table == kernels.OPCODES


@pytest.mark.parametrize("operator", UNARY, ids=lambda item: item.name)
def test_functions_are_accurate(operator: Operator) -> None:
    rng = np.random.default_rng(operator.opcode)
    exact = EXACT.get(operator.name) or getattr(mpmath, operator.name)
    with mpmath.workprec(160):
        for low, high in RANGES[operator.name]:
            arguments = rng.uniform(low, high, 400)
            values = run(apply(operator, X), arguments)
            for argument, value in zip(arguments, values, strict=True):
                expected = exact(mpmath.mpf(float(argument)))
                apart = abs(mpmath.mpf(float(value)) - expected)
                assert apart <= ULPS * math.ulp(float(expected)), argument


def test_powers_are_accurate() -> None:
    rng = np.random.default_rng(0)
    ranges = [
        ((0, 3), (-3, 3)),
        ((1e-5, 1e5), (-60, 60)),
        ((0.9, 1.1), (-1000, 1000)),
        ((0.99999, 1.00001), (-1e7, 1e7)),
        ((1e-300, 1e-290), (0.9, 1.11)),
    ]
    with mpmath.workprec(200):
        for base_range, exponent_range in ranges:
            bases = rng.uniform(*base_range, 400)
            exponents = rng.uniform(*exponent_range, 400)
            values = run(apply("pow", X, Y), bases, exponents)
            for base, exponent, value in zip(bases, exponents, values, strict=True):
                expected = mpmath.mpf(float(base)) ** mpmath.mpf(float(exponent))
                if abs(expected) < 1e308:
                    apart = abs(mpmath.mpf(float(value)) - expected)
                    assert apart <= ULPS * math.ulp(float(expected))


@pytest.mark.parametrize("operator", UNARY, ids=lambda item: item.name)
def test_special_numbers_as_in_numpy(operator: Operator) -> None:
    with np.errstate(all="ignore"):
        expected = operator.numpy(SPECIAL)
    assert_same(run(apply(operator, X), SPECIAL), expected)


@pytest.mark.parametrize("operator", BINARY, ids=lambda item: item.name)
def test_special_pairs_as_in_numpy(operator: Operator) -> None:
    first, second = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = operator.numpy(first, second)
    assert_same(run(apply(operator, X, Y), first, second), expected)


@pytest.mark.parametrize("value", SPECIAL[np.isfinite(SPECIAL)].tolist())
def test_powers_with_a_constant_as_in_numpy(value: float) -> None:
    number = np.full(SPECIAL.size, constant(value).value)
    with np.errstate(all="ignore"):
        powers = np.power(SPECIAL, number)
        exponentials = np.power(number, SPECIAL)
    assert_same(run(apply("pow", X, value), SPECIAL), powers)
    assert_same(run(apply("pow", value, X), SPECIAL), exponentials)


def test_powers_of_minus_zero_alone() -> None:
    exponents = np.array([3.0, 2.0, 0.5, -1.0, -2.0, 0.0])
    for exponent in exponents:
        base, power = np.array([-0.0]), np.array([exponent])
        with np.errstate(all="ignore"):
            expected = np.power(base, power)
        assert_same(run(apply("pow", X, Y), base, power), expected)


def test_columns_of_nan_end_where_powers_end_them() -> None:
    nowhere = apply("sqrt", -1 - apply("square", X))
    items = [
        nowhere,
        apply("pow", nowhere, X),  # NaN^0 is 1
        apply("pow", X, nowhere),  # 1^NaN is 1
        apply("sin", nowhere) + X,
        nowhere * apply("log", nowhere),
    ]
    table = np.array([[0.0], [1.0], [2.0]])
    nan = np.nan
    found = compile_program(items, ["x"]).run(table, backend="compiled")
    np.testing.assert_array_equal(
        found.values,
        [[nan] * 3, [1, nan, nan], [nan, 1, nan], [nan] * 3, [nan] * 3],
    )


def _random_values() -> tuple[Program, np.ndarray, np.ndarray]:
    """Return a program of every part of many formulas, with all its registers."""
    rng = np.random.default_rng(7)
    parts: dict[Expression, None] = {}
    for _ in range(300):
        parts.update(dict.fromkeys(random_expression(rng, 20).subexpressions()))
    items = [part for part in parts if part.operator is not None]
    program = compile_program(items, NAMES)
    table = rng.normal(scale=3, size=(37, 3))
    results = program.run(table, backend="compiled").values
    constants = np.repeat(program.constants[:, None], len(table), axis=1)
    registers = np.concatenate([table.T, constants, results])
    order = program.outputs - program.first_output
    registers[program.first_output + order] = results
    return program, registers, registers[program.first_output :]


def test_every_instruction_agrees_with_numpy() -> None:
    program, registers, results = _random_values()
    assert program.n_instructions > 2000
    for step, opcode in enumerate(program.opcodes.tolist()):
        operator = operator_of_opcode(opcode)
        operands = [registers[program.first[step]], registers[program.second[step]]]
        with np.errstate(all="ignore"):
            expected = operator.numpy(*operands[: operator.arity])
        assert_same(results[step], expected)


def test_the_numpy_back_end_agrees_on_masks() -> None:
    rng = np.random.default_rng(8)
    items = [random_expression(rng, 8) for _ in range(400)]
    table = rng.normal(size=(50, 3))
    program = compile_program(items, NAMES)
    one = program.run(table, backend="compiled")
    two = program.run(table, backend="numpy")
    np.testing.assert_array_equal(one.valid, two.valid)
    both = one.valid
    close = np.isclose(one.values[both], two.values[both], rtol=1e-10, atol=0)
    # What is left are differences of nearly equal numbers.
    assert close.mean() > 0.995


def test_every_instruction_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch")
    from sr4mdl.evaluate.torch_programs import run_programs

    program, registers, results = _random_values()
    # One program of one instruction each, on the operands that the CPU had.
    memory = np.stack(
        [
            registers[program.first],
            registers[program.second],
            np.zeros_like(results),
        ],
        axis=1,
    )
    opcodes = torch.tensor(program.opcodes.tolist())[:, None]
    first = torch.zeros_like(opcodes)
    batch = torch.from_numpy(memory)
    run_programs(opcodes, first, first + 1, batch, first_output=2)
    found = batch[:, 2].numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(results))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(results))
    finite = np.isfinite(results)
    np.testing.assert_allclose(found[finite], results[finite], rtol=1e-12, atol=5e-324)
