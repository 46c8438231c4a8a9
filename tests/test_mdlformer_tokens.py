"""Tokens of numbers and formulas: hand-computed, and torch against Python's printf."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sr4mdl.corpus.trees import random_expression
from sr4mdl.errors import ParseError
from sr4mdl.mdlformer.tokens import (
    FIRST_EXPONENT,
    FIRST_MANTISSA,
    FIRST_OPERATOR,
    FIRST_VARIABLE,
    N_FORMULA_TOKENS,
    N_NUMBER_TOKENS,
    NEGATIVE,
    PAD,
    POSITIVE,
    formula_to_tokens,
    number_to_tokens,
    tokens_to_formula,
    tokens_to_number,
)
from sr4mdl.operators import get_operator
from sr4mdl.text import parse


def shown(tokens):
    sign, mantissa, exponent = tokens
    return sign, mantissa - FIRST_MANTISSA, exponent - FIRST_EXPONENT - 100


CASES = [
    (54.321, (POSITIVE, 5432, 1)),
    (-54.321, (NEGATIVE, 5432, 1)),
    (0.0, (POSITIVE, 0, 0)),
    (1.0, (POSITIVE, 1000, 0)),
    (-0.001, (NEGATIVE, 1000, -3)),
    (9.9996, (POSITIVE, 1000, 1)),
    (9999.4, (POSITIVE, 9999, 3)),
    (1234.5, (POSITIVE, 1234, 3)),  # a tie goes to the even digit, as in %.3e
    (1235.5, (POSITIVE, 1236, 3)),
    (1e30, (POSITIVE, 1000, 30)),
    (1e-30, (POSITIVE, 1000, -30)),
]


@pytest.mark.parametrize(("value", "expected"), CASES)
def test_number_by_hand(value, expected):
    assert shown(number_to_tokens(value)) == expected


def test_vocabulary_has_the_size_of_the_paper():
    # 2 signs, 10,000 mantissas, 201 exponents, 1 padding.
    assert N_NUMBER_TOKENS == 10_204
    assert N_FORMULA_TOKENS < 2**15


def test_numbers_beyond_the_table():
    assert shown(number_to_tokens(3e200)) == (POSITIVE, 9999, 100)
    assert shown(number_to_tokens(-3e-200)) == (POSITIVE, 0, 0)
    with pytest.raises(ValueError, match="finite"):
        number_to_tokens(math.nan)


@given(st.floats(min_value=-1e99, max_value=1e99, allow_nan=False))
def test_number_comes_back_rounded(value):
    back = tokens_to_number(*number_to_tokens(value))
    expected = float(f"{value:.3e}") if abs(value) > 1e-99 else back
    assert back == expected


@given(
    st.lists(
        st.floats(min_value=-(2.0**99), max_value=2.0**99, allow_nan=False, width=32),
        min_size=1,
        max_size=20,
    )
)
def test_torch_rounds_as_printf(values):
    torch = pytest.importorskip("torch")
    from sr4mdl.mdlformer.number_tokens import NumberTokenizer

    exact = [v for v in values if v == 0 or abs(v) >= 1e-30]
    exact += [value for value, _ in CASES]
    exact = [float(np.float32(v)) for v in exact]
    got = NumberTokenizer()(torch.tensor(exact, dtype=torch.float32)).tolist()
    assert [tuple(tokens) for tokens in got] == [number_to_tokens(v) for v in exact]


def test_formula_by_hand():
    tokens = formula_to_tokens(parse("x1 + sin(2.5*x0)"), ["x0", "x1"])
    code = {name: FIRST_OPERATOR + get_operator(name).opcode for name in
            ("add", "sin", "mul")}  # fmt: skip
    assert tokens == [
        code["add"],
        FIRST_VARIABLE + 1,
        code["sin"],
        code["mul"],
        POSITIVE,
        FIRST_MANTISSA + 2500,
        FIRST_EXPONENT + 100,
        FIRST_VARIABLE,
    ]
    assert tokens_to_formula([*tokens, PAD, PAD], ["x0", "x1"]) == parse(
        "x1 + sin(2.5*x0)"
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_formula_comes_back(seed, length):
    names = [f"x{i}" for i in range(10)]
    formula = random_expression(np.random.default_rng(seed), length, names)
    tokens = formula_to_tokens(formula, names)
    assert PAD not in tokens
    assert max(tokens) < N_FORMULA_TOKENS
    back = tokens_to_formula(tokens, names)
    # Constants are rounded once; after that nothing changes any more.
    assert formula_to_tokens(back, names) == tokens
    assert [n.operator for n in back.prefix()] == [n.operator for n in formula.prefix()]
    assert [n.name for n in back.prefix()] == [n.name for n in formula.prefix()]


def test_constants_by_their_sign_alone():
    formula = parse("x1*(-3.5) + 2.5")
    tokens = formula_to_tokens(formula, ["x0", "x1"], digits=False)
    assert sorted(tokens) == [
        POSITIVE,
        NEGATIVE,
        FIRST_VARIABLE + 1,
        *sorted(FIRST_OPERATOR + get_operator(name).opcode for name in ("add", "mul")),
    ]
    assert len(tokens) == formula.length


def test_formula_needs_its_variables():
    with pytest.raises(ValueError, match="'z' is missing"):
        formula_to_tokens(parse("z + 1"), ["x0"])
    with pytest.raises(ValueError, match="at most 10"):
        formula_to_tokens(parse("x0"), [f"x{i}" for i in range(11)])


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [PAD],
        [POSITIVE],
        [FIRST_VARIABLE, FIRST_VARIABLE],
        [FIRST_OPERATOR + 1, FIRST_VARIABLE],
        [FIRST_OPERATOR + 63, FIRST_VARIABLE],
        [FIRST_VARIABLE + 5],
        [FIRST_MANTISSA, FIRST_MANTISSA, FIRST_EXPONENT],
        [FIRST_EXPONENT],
        [N_FORMULA_TOKENS],
    ],
)
def test_tokens_that_are_no_formula(tokens):
    with pytest.raises(ParseError):
        tokens_to_formula(tokens, ["x0"])


def test_near_numbers_start_near_and_signs_start_opposite() -> None:
    torch = pytest.importorskip("torch")
    from sr4mdl.mdlformer.number_tokens import smooth_number_table

    torch.manual_seed(0)
    table = smooth_number_table(64)
    assert table.shape == (N_NUMBER_TOKENS, 64)
    assert not table[PAD].any()
    assert torch.equal(table[NEGATIVE], -table[POSITIVE])
    mantissas = table[FIRST_MANTISSA + 1000 : FIRST_EXPONENT]

    def distance(step: int) -> float:
        gaps = (mantissas[step:] - mantissas[:-step]).norm(dim=1)
        return float(gaps.mean())

    assert distance(1) < 0.05 * distance(4000)
    assert distance(1) < distance(10) < distance(100)
    # One channel rises with the number, one with its logarithm.
    assert bool((mantissas[1:, :2] > mantissas[:-1, :2]).all())
    assert table[FIRST_MANTISSA:].pow(2).mean().sqrt() == pytest.approx(1.0, abs=0.15)
