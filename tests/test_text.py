import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sr4mdl.errors import ParseError
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.operators import register_operator, unregister_operator
from sr4mdl.text import (
    MAX_NESTING,
    MAX_TEXT_LENGTH,
    format_number,
    parse,
    quote_name,
    to_text,
)
from strategies import expressions, names

x, y, z = variable("x"), variable("y"), variable("z")


@pytest.fixture
def registered() -> Iterator[None]:
    register_operator("hinge", lambda value: np.maximum(value, 0.0))
    register_operator("larger", np.maximum, arity=2, commutes=True)
    yield
    unregister_operator("hinge")
    unregister_operator("larger")


@given(expressions(variables=names()))
def test_printing_and_parsing_back_is_the_identity(formula: Expression) -> None:
    text = to_text(formula)
    assert parse(text) is formula
    assert to_text(parse(text)) == text


@given(expressions())
def test_no_bracket_can_be_left_out(formula: Expression) -> None:
    """Each pair of brackets is needed, or a call's, or keeps two signs apart."""
    text = to_text(formula)
    opened = []
    for position, character in enumerate(text):
        if character == "(":
            opened.append(position)
        elif character == ")":
            start = opened.pop()
            if start and text[start - 1].isalnum():
                continue
            if text[start + 1] == "-":
                continue
            bare = text[:start] + text[start + 1 : position] + text[position + 1 :]
            try:
                changed = parse(bare) is not formula
            except ParseError:
                changed = True
            assert changed, (text, bare)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + y*z", x + y * z),
        ("(x + y)*z", (x + y) * z),
        ("x - y - z", (x - y) - z),
        ("x - (y - z)", x - (y - z)),
        ("x/y/z", (x / y) / z),
        ("x/y*z", (x / y) * z),
        ("x^y^z", x ** (y**z)),
        ("x**y", x**y),
        ("x^2", apply("square", x)),
        ("x**3", apply("cube", x)),
        ("x^4", x**4),
        ("pow(x, 2)", x**2),
        ("1/x", apply("inv", x)),
        ("1/x/y", apply("inv", x) / y),
        ("div(1, x)", constant(1) / x),
        ("2/x", 2 / x),
        ("-x^2", -apply("square", x)),
        ("(-x)^2", apply("square", -x)),
        ("-2^2", -apply("square", constant(2))),
        ("-2", constant(-2)),
        ("neg(2)", -constant(2)),
        ("--2", -constant(-2)),
        ("-(2)", -constant(2)),
        ("+x", x),
        ("x^-2", x**-2),
        ("x^-y", x ** (-y)),
        ("-x*y", (-x) * y),
        ("x*-y", x * (-y)),
        ("2e-3*x", 0.002 * x),
        (".5", constant(0.5)),
        ("5.", constant(5)),
        ("pi", constant(math.pi)),
        ("ln(x)", apply("log", x)),
        ("asin(x)", apply("arcsin", x)),
        ("  sin ( x )\n", apply("sin", x)),
        ("`sin`", variable("sin")),
        ("sin(`sin`)", apply("sin", variable("sin"))),
        ("`a b` + 1", variable("a b") + 1),
        ("`pi`", variable("pi")),
        ("e", variable("e")),
        ("x_1 + _y", variable("x_1") + variable("_y")),
    ],
)
def test_parsing_by_hand(text: str, expected: Expression) -> None:
    assert parse(text) is expected


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (x - (y - z), "x - (y - z)"),
        ((x - y) - z, "x - y - z"),
        (x + (y + z), "x + (y + z)"),
        (x * (y * z), "x*(y*z)"),
        (x / (y * z), "x/(y*z)"),
        ((x * y) / z, "x*y/z"),
        (-(x + y), "-(x + y)"),
        (-x * y, "-x*y"),
        (-(x * y), "-(x*y)"),
        (apply("square", -x), "(-x)^2"),
        (apply("square", constant(-2)), "(-2)^2"),
        (-constant(2), "neg(2)"),
        (apply("neg", -x), "--x"),
        (x**2, "pow(x, 2)"),
        (x**-2, "x^-2"),
        ((x**y) ** z, "(x^y)^z"),
        (x ** (y**z), "x^y^z"),
        (constant(1) / x, "div(1, x)"),
        (apply("inv", apply("inv", x)), "1/(1/x)"),
        (x * -3, "x*(-3)"),
        (x - -3, "x - -3"),
        (constant(-math.pi), "-3.141592653589793"),
        (2 * constant(math.pi) * x, "2*pi*x"),
        (apply("sin", x + y), "sin(x + y)"),
        (variable("a b") * 2, "`a b`*2"),
    ],
)
def test_printing_by_hand(formula: Expression, text: str) -> None:
    assert to_text(formula) == text
    assert str(formula) == text
    assert parse(text) is formula


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (2.0, "2"),
        (-7.0, "-7"),
        (0.1, "0.1"),
        (1e14, "100000000000000"),
        (1e15, "1000000000000000.0"),
        (1e300, "1e+300"),
        (5e-324, "5e-324"),
        (math.pi, "pi"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert format_number(value) == text
    assert parse(text).value == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("x", "x"), ("x1", "x1"), ("1x", "`1x`"), ("log", "`log`"), ("ln", "`ln`")],
)
def test_quoting_of_names(name: str, text: str) -> None:
    assert quote_name(name) == text


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "empty formula"),
        ("   ", 0, "empty formula"),
        ("x +", 3, "found the end"),
        ("x + * y", 4, r"found '\*'"),
        ("x y", 2, "unexpected 'y'"),
        ("2 x", 2, "unexpected 'x'"),
        ("2x", 1, "unexpected 'x'"),
        ("(x", 2, r"expected '\)', found the end"),
        ("x)", 1, r"unexpected '\)'"),
        ("()", 1, r"found '\)'"),
        ("sin", 0, "is a function"),
        ("x + sin", 4, "is a function"),
        ("sin x", 0, "is a function"),
        ("sin()", 4, r"found '\)'"),
        ("sin(x, y)", 0, "takes 1 argument"),
        ("1 + pow(x)", 4, "takes 2 argument"),
        ("foo(x)", 0, "unknown function 'foo'"),
        ("x + foo(x)", 4, "unknown function 'foo'"),
        ("__import__('os').system('ls')", 11, "unexpected character"),
        ("__import__(x)", 0, "unknown function"),
        ("eval(x)", 0, "unknown function 'eval'"),
        ("x.real", 1, "unexpected character '.'"),
        ("x[0]", 1, "unexpected character"),
        ("x; y", 1, "unexpected character ';'"),
        ("x = 2", 2, "unexpected character '='"),
        ("lambda: 0", 6, "unexpected character ':'"),
        ("`x", 0, "unexpected character '`'"),
        ("``", 0, "unexpected character '`'"),
        ("x, y", 1, "unexpected ','"),
        ("1e999", 0, "number too large"),
        ("x + 1e999", 4, "number too large"),
        ("1.2.3", 3, "unexpected '.3'"),
        ("x\x00", 1, "unexpected character"),
        ("x\u2212y", 1, "unexpected character"),
        ("x //y", 3, "found '/'"),
    ],
)
def test_faults_are_named_with_their_position(
    text: str, position: int, message: str
) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse(text)
    assert caught.value.position == position
    assert caught.value.text == text


@pytest.mark.parametrize("opening", ["(", "-", "+", "sin(", "x^", "-(", "2*("])
def test_deep_nesting_is_refused_not_followed(opening: str) -> None:
    for depth in (MAX_NESTING + 1, 5000):
        with pytest.raises(ParseError, match="nested more than"):
            parse(opening * depth + "x")


def test_nesting_up_to_the_limit_is_followed() -> None:
    assert parse("(" * MAX_NESTING + "x" + ")" * MAX_NESTING) is x


def test_long_texts() -> None:
    terms = 30_000
    assert parse("+".join(["x"] * terms)).length == 2 * terms - 1
    with pytest.raises(ParseError, match="longer than") as caught:
        parse("x" * (MAX_TEXT_LENGTH + 1))
    assert caught.value.position == MAX_TEXT_LENGTH


def test_only_text_is_parsed() -> None:
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        parse(b"x")  # type: ignore[arg-type]


def check_formula_or_error(text: str) -> None:
    try:
        formula, position = parse(text), 0
    except ParseError as error:
        formula, position = None, error.position
    assert 0 <= position <= len(text)
    if formula is not None:
        assert parse(to_text(formula)) is formula


@given(st.text(max_size=40))
def test_any_text_gives_a_formula_or_a_parse_error(text: str) -> None:
    check_formula_or_error(text)


@given(st.text(alphabet="x1.e+-*/^(), `pisn\t", max_size=30))
def test_text_of_formula_pieces(text: str) -> None:
    check_formula_or_error(text)


def test_registered_operators_parse_and_print(registered: None) -> None:
    formula = apply("larger", apply("hinge", x) + 1, y)
    assert to_text(formula) == "larger(hinge(x) + 1, y)"
    assert parse(to_text(formula)) is formula
    assert quote_name("hinge") == "`hinge`"


def test_removed_operators_do_not_parse() -> None:
    with pytest.raises(ParseError, match="unknown function 'hinge'"):
        parse("hinge(x)")
