"""Formulas in other languages, by hand, round trips, and run where possible."""

import ctypes
import importlib.util
import math
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sr4mdl.corpus.trees import random_expression
from sr4mdl.evaluate import evaluate_one
from sr4mdl.export import (
    from_sympy,
    to_c,
    to_excel_formula,
    to_latex,
    to_numpy,
    to_numpy_source,
    to_sympy,
    to_torch,
)
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.operators import Operator, register_operator, unregister_operator
from sr4mdl.text import parse
from strategies import expressions

NAMES = ("x0", "x1", "x2")
TAME_NUMBERS = st.sampled_from([0.5, 1.0, 2.0, 3.0, -1.0, -2.0, 0.3, 1.7, np.pi, 10.0])
x, y, z = sympy.symbols("x y z")


@pytest.fixture
def softsign() -> Iterator[Operator]:
    yield register_operator(
        "softsign", lambda x: x / (1 + np.abs(x)), c="({0} / (1.0 + fabs({0})))"
    )
    unregister_operator("softsign")


def random_formulas(n: int, length: int) -> list[Expression]:
    rng = np.random.default_rng(5)
    return [random_expression(rng, length) for _ in range(n)]


# --- sympy


def test_numbers_of_sympy() -> None:
    assert to_sympy(constant(3)) == sympy.Integer(3)
    assert to_sympy(constant(math.pi)) is sympy.pi
    assert to_sympy(constant(-math.pi)) == -sympy.pi
    assert to_sympy(constant(0.1)) == sympy.Float(0.1)
    assert float(to_sympy(constant(1.1e300))) == 1.1e300


def test_sympy_by_hand() -> None:
    formula = to_sympy(parse("(x^2 + y^3)/sqrt(z) - abs(1/x)*log(y)^z"))
    expected = (x**2 + y**3) / sympy.sqrt(z) - sympy.Abs(1 / x) * sympy.log(y) ** z
    assert formula == expected


@pytest.mark.parametrize("name", ["I", "E", "S", "N", "O", "Q", "beta", "lambda", "pi"])
def test_names_that_sympy_has_too_are_plain_variables(name: str) -> None:
    formula = to_sympy(variable(name) * 2 + 1)
    (symbol,) = formula.free_symbols
    assert isinstance(symbol, sympy.Symbol)
    assert symbol.name == name
    assert from_sympy(formula) == 2 * variable(name) + 1


def test_symbols_can_be_given() -> None:
    positive = sympy.Symbol("x", positive=True)
    assert to_sympy(parse("sqrt(x^2) + y"), {"x": positive}) == positive + y


def test_towers_of_numbers_end() -> None:
    tower = constant(9)
    for _ in range(6):
        tower = apply("pow", tower, tower)
    assert to_sympy(tower) is sympy.oo
    assert to_sympy(apply("inv", tower)) == 0
    grown = constant(7.5)
    for _ in range(8):
        grown = apply("exp", grown)
    assert to_sympy(apply("neg", grown)) == -sympy.oo
    squares = constant(12345)
    for _ in range(60):
        squares = apply("square", squares)
    assert to_sympy(squares) is sympy.oo
    assert to_sympy(apply("pow", 0.5, 1e9) * variable("x")) == 0
    assert to_sympy(apply("pow", 2, 100)) == 2**100
    # Not an overflow: sympy's own answers stay.
    assert to_sympy(parse("pow(0, -1)")) is sympy.zoo
    assert to_sympy(parse("0*5 - 0^2")) == 0


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (x**-1, "1/x"),
        (x / y, "x/y"),
        (1 / (x * y), "1/(x*y)"),
        (sympy.sqrt(x), "sqrt(x)"),
        (x**-2, "1/x^2"),
        (x**3, "x^3"),
        (x ** sympy.Float(0.5), "sqrt(x)"),
        (x ** sympy.Rational(2, 5), "x^0.4"),
        (2**x, "2^x"),
        (-x, "-x"),
        (y - x, "y - x"),
        (-x - 3, "-3 - x"),
        (x + y - 3, "x + y - 3"),
        (-x - 2 * y, "-x - 2*y"),
        (sympy.Rational(2, 3) * x, "0.6666666666666666*x"),
        (x / 3, "x/3"),
        (2 * sympy.pi * x, "6.283185307179586*x"),
        (sympy.sqrt(2) * x / 2, "0.7071067811865476*x"),
        (y * sympy.exp(-x), "y/exp(x)"),
        (sympy.exp(-x), "exp(-x)"),
        (3 * sympy.exp(-x), "3/exp(x)"),
        (-x / 3, "x/(-3)"),
        (sympy.E + x, "x + 2.718281828459045"),
        (sympy.exp(1), "2.718281828459045"),
        (sympy.cot(x) * y, "y/tan(x)"),
        (sympy.sec(x), "1/cos(x)"),
        (sympy.asin(x) + sympy.acos(y), "arcsin(x) + arccos(y)"),
        (sympy.Integer(7), "7"),
        (sympy.pi, "pi"),
        (x + x, "2*x"),
    ],
)
def test_shortest_notation(formula: sympy.Expr, text: str) -> None:
    found = from_sympy(formula)
    wanted = parse(text)
    assert found.length == wanted.length, str(found)
    point = np.array([[0.3, 0.7, 0.9]])
    names = ["x", "y", "z"]
    np.testing.assert_allclose(
        evaluate_one(found, point, names), evaluate_one(wanted, point, names), 1e-14
    )


@pytest.mark.parametrize(
    "name", ["asinh", "acosh", "atanh", "acot", "asec", "acsc", "coth", "sech", "csch"]
)
def test_functions_that_the_table_lacks(name: str) -> None:
    point = 1.7 if name in ("acosh", "asec", "acsc") else 0.6
    function = getattr(sympy, name)
    found = evaluate_one(from_sympy(function(x)), np.array([[point]]), ["x"])
    assert found[0] == pytest.approx(float(function(point)), rel=1e-14)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (sympy.gamma(x), "gamma"),
        (sympy.erf(2), "erf"),
        (sympy.Function("g")(x), "g"),
        (sympy.I * x, "I"),
        (x + sympy.zoo, "zoo"),
        (sympy.oo, "oo"),
        (sympy.Integer(10) ** 400 * x, "too large"),
        (sympy.Piecewise((x, x > 0), (0, True)), "Piecewise"),
        (sympy.Derivative(sympy.Function("g")(x), x), "Derivative"),
    ],
)
def test_what_has_no_counterpart_is_named(formula: sympy.Expr, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_sympy(formula)


def test_from_sympy_takes_sympy_only() -> None:
    with pytest.raises(TypeError, match="got str"):
        from_sympy("x + 1")


@settings(max_examples=150)
@given(expressions(constants=TAME_NUMBERS, max_leaves=8), st.integers(0, 2**32 - 1))
def test_sympy_round_trip(expression: Expression, seed: int) -> None:
    formula = to_sympy(expression)
    assume(not formula.has(sympy.zoo, sympy.nan, sympy.oo, sympy.I))
    try:
        back = from_sympy(formula)
    except ValueError as error:
        # sympy knows more numbers than floats are: 10^400, or log(-1).
        assume("too large" not in str(error) and "not a real" not in str(error))
        raise
    X = np.random.default_rng(seed).uniform(-3, 3, size=(20, 3))
    before = evaluate_one(expression, X, NAMES)
    after = evaluate_one(back, X, NAMES)
    moved = evaluate_one(expression, X * (1 + 1e-12), NAMES)
    shifted = expression.rebuild(
        lambda node: (
            constant(node.value * (1 + 1e-12)) if node.value is not None else None
        )
    )
    also = evaluate_one(shifted, X, NAMES)
    with np.errstate(all="ignore"):
        steady = np.abs(moved - before) <= 1e-8 * np.abs(before)
        steady &= ~(np.abs(also - before) > 1e-8 * np.abs(before))
    both = np.isfinite(before) & np.isfinite(after) & steady
    np.testing.assert_allclose(after[both], before[both], rtol=1e-6)


def test_operators_of_a_user_in_sympy(softsign: Operator) -> None:
    formula = to_sympy(apply(softsign, variable("x")) + 1)
    assert formula == sympy.Function("softsign")(x) + 1
    assert from_sympy(formula) == apply(softsign, variable("x")) + 1


# --- LaTeX


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("x^2 + sin(x)", r"x^{2} + \sin\left(x\right)"),
        ("(x + y)^2", r"\left(x + y\right)^{2}"),
        ("-x^2", "-x^{2}"),
        ("(-x)^2", r"\left(-x\right)^{2}"),
        ("a - (b - c)", r"a - \left(b - c\right)"),
        ("a - b - c", "a - b - c"),
        ("a*(b + c)/d", r"\frac{a \cdot \left(b + c\right)}{d}"),
        ("(a/b)^c", r"\left(\frac{a}{b}\right)^{c}"),
        ("a*(b/c)", r"a \cdot \frac{b}{c}"),
        ("a*(b*c)", r"a \cdot \left(b \cdot c\right)"),
        ("x - -3", r"x - \left(-3\right)"),
        ("x*-3", r"x \cdot \left(-3\right)"),
        ("(-2)^x", r"\left(-2\right)^{x}"),
        ("(x^2)^3", r"\left(x^{2}\right)^{3}"),
        ("x^(a + b)", "x^{a + b}"),
        ("exp(-x)^2", r"\left(e^{-x}\right)^{2}"),
        ("sqrt(abs(x))", r"\sqrt{\left|x\right|}"),
        ("2*pi*alpha_1", r"2 \cdot \pi \cdot \alpha_{1}"),
        ("x0 + v_max + speed", r"x_{0} + v_{\mathrm{max}} + \mathrm{speed}"),
        ("1e-7*x", r"10^{-7} \cdot x"),
        ("2.5e-7^x", r"\left(2.5 \cdot 10^{-7}\right)^{x}"),
        ("`a_b c%`", r"\mathrm{a\_b\ c\%}"),
        # What would look alike is written letter by letter.
        ("x1 + x_1 + y1", r"\mathrm{x1} + \mathrm{x\_1} + y_{1}"),
        ("pi*`pi`", r"\pi \cdot \mathrm{pi}"),
        ("exp(x)*e", r"\exp\left(x\right) \cdot e"),
    ],
)
def test_latex_by_hand(text: str, latex: str) -> None:
    assert to_latex(parse(text)) == latex


def test_latex_of_a_user_operator(softsign: Operator) -> None:
    found = to_latex(apply(softsign, variable("x") + 1))
    assert found == r"\operatorname{softsign}\left(x + 1\right)"


# --- source code


def import_source(source: str, folder: Path) -> ModuleType:
    path = folder / "formula.py"
    path.write_text("import numpy as np\n\n" + source)
    spec = importlib.util.spec_from_file_location("formula", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numpy_source_by_hand() -> None:
    source = to_numpy_source(parse("sin(x)^2 + sin(x)*y/2"), "wave", ["y", "x"])
    assert source == (
        "def wave(y, x):\n"
        "    t0 = np.sin(x)\n"
        "    return (((t0) * (t0)) + ((t0 * y) / 2.0))\n"
    )


def test_numpy_source_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(-3, 3, size=(30, 3))
    items = random_formulas(60, 20)
    sources = [to_numpy_source(item, f"f{i}", NAMES) for i, item in enumerate(items)]
    module = import_source("\n".join(sources), tmp_path)
    for number, item in enumerate(items):
        with np.errstate(all="ignore"):
            found = getattr(module, f"f{number}")(*X.T)
        expected = evaluate_one(item, X, NAMES)
        np.testing.assert_allclose(np.broadcast_to(found, 30), expected, rtol=1e-9)


def test_names_are_made_identifiers(tmp_path: Path) -> None:
    names = ["class", "a b", "a-b", "np", "2x", "t0", "a_b", "\u03b1", "f", "_x"]
    formula = constant(0)
    for number, name in enumerate(names):
        formula = formula + variable(name) * 10.0**number
    module = import_source(to_numpy_source(formula, variables=names), tmp_path)
    assert module.f(*range(10)) == 9876543210.0


def test_deep_source_is_not_nested_too_deep(tmp_path: Path) -> None:
    deep = variable("x")
    for _ in range(500):
        deep = apply("sin", deep) + 1
    found = import_source(to_numpy_source(deep), tmp_path).f(np.array([0.5]))
    np.testing.assert_allclose(found, evaluate_one(deep, np.array([[0.5]]), ["x"]))


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ValueError, match="function_name must be an identifier"):
        to_c(parse("x"), "a b")
    with pytest.raises(ValueError, match=r"variables must contain \['y'\]"):
        to_numpy_source(parse("x + y"), variables=["x"])
    with pytest.raises(ValueError, match="variables must differ"):
        to_c(parse("x"), variables=["x", "x"])
    with pytest.raises(ValueError, match=r"variables must contain \['y'\]"):
        to_numpy(parse("x + y"), ["x"])


def test_c_by_hand() -> None:
    assert to_c(parse("-(-2)*x^3 + 1/double"), "g") == (
        "#include <math.h>\n\n"
        "double g(double double_1, double x) {\n"
        "    return (((-(-2.0)) * ((x) * (x) * (x))) + (1.0 / double_1));\n"
        "}\n"
    )


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    "name",
    ["M_PI", "M_1_PI", "NAN", "FP_NAN", "linux", "asm", "typeof", "y1"],
)
def test_c_compiles_with_any_names(name: str, tmp_path: Path) -> None:
    code = tmp_path / "formula.c"
    code.write_text(to_c(parse(f"`{name}`^2 + a"), "f", [name, "a"]))
    subprocess.run(["gcc", "-c", "-o", tmp_path / "formula.o", code], check=True)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_c_compiles_and_agrees(tmp_path: Path, softsign: Operator) -> None:
    items = random_formulas(40, 20)
    inner = parse("x0*x1 + 2")
    items += [apply(softsign, inner), constant(2.0), apply("square", inner) / inner]
    sources = [to_c(item, f"f{number}", NAMES) for number, item in enumerate(items)]
    code, library = tmp_path / "formulas.c", tmp_path / "formulas.so"
    code.write_text("\n".join(sources))
    subprocess.run(
        # Without contraction: each operation rounds, as everywhere else here.
        ["gcc", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", library, code,
         "-lm"],
        check=True,
    )  # fmt: skip
    loaded = ctypes.CDLL(str(library))
    X = np.random.default_rng(6).uniform(-3, 3, size=(20, 3))
    for number, item in enumerate(items):
        function = getattr(loaded, f"f{number}")
        function.argtypes, function.restype = [ctypes.c_double] * 3, ctypes.c_double
        found = [function(*row) for row in X.tolist()]
        np.testing.assert_allclose(found, evaluate_one(item, X, NAMES), rtol=1e-9)


# --- callables


def test_numpy_callable() -> None:
    function = to_numpy(parse("x/y + 1"), ["y", "x"])
    X = np.array([[2.0, 1.0], [0.0, 1.0]])
    assert function(X).tolist() == [1.5, np.inf]
    assert X.tolist() == [[2.0, 1.0], [0.0, 1.0]]
    assert to_numpy(parse("2"), [])(np.empty((3, 0))).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match=r"\(n_rows, 2\), got \(2,\)"):
        function(np.ones(2))


def test_callables_agree(softsign: Operator) -> None:
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(6).uniform(-3, 3, size=(20, 3))
    items = [*random_formulas(60, 20), apply(softsign, variable("x0")) * 2]
    for item in items:
        expected = evaluate_one(item, X, NAMES)
        np.testing.assert_allclose(to_numpy(item, NAMES)(X), expected, rtol=1e-9)
        found = to_torch(item, NAMES)(torch.from_numpy(X)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_whole_numbers_in_torch_become_floats() -> None:
    torch = pytest.importorskip("torch")
    function = to_torch(parse("0.5*x + 1.5"), ["x"])
    assert function(torch.tensor([[1], [2], [3]])).tolist() == [2.0, 2.5, 3.0]
    assert function(torch.tensor([[True]])).tolist() == [2.0]


def test_gradients_flow_through_torch() -> None:
    torch = pytest.importorskip("torch")
    X = torch.tensor([[3.0, 2.0]], requires_grad=True)
    to_torch(parse("x^2*y"), ["x", "y"])(X).sum().backward()
    assert X.grad.tolist() == [[12.0, 9.0]]
    with pytest.raises(ValueError, match=r"\(n_rows, 2\), got \(1, 1\)"):
        to_torch(parse("x"), ["x", "y"])(torch.ones(1, 1))


# --- spreadsheets


def test_spreadsheet_by_hand() -> None:
    formula = parse("2*pi*sqrt(l/g) - log(abs(x))^2 + x^-0.5")
    found = to_excel_formula(formula, {"l": "A2", "g": "$B$1", "x": "C2"})
    assert found == (
        "=((((2 * PI()) * SQRT((A2 / $B$1))) - (LN(ABS(C2))^2)) + (C2^(-0.5)))"
    )
    assert to_excel_formula(parse("1e-20*x"), {"x": "A1"}) == "=(1E-20 * A1)"


def test_spreadsheet_refusals(softsign: Operator) -> None:
    with pytest.raises(ValueError, match=r"cells must contain \['y'\]"):
        to_excel_formula(parse("x + y"), {"x": "A1"})
    assert (
        to_excel_formula(apply(softsign, variable("x")), {"x": "A1"})
        == "=(A1 / (1.0 + ABS(A1)))"
    )
    long = variable("x")
    for _ in range(20):
        long = long + apply("sin", long)
    with pytest.raises(ValueError, match="too long"):
        to_excel_formula(long, {"x": "A1"})
    other = register_operator("bump", np.tanh)
    try:
        with pytest.raises(ValueError, match="bump has no form"):
            to_excel_formula(apply(other, variable("x")), {"x": "A1"})
    finally:
        unregister_operator("bump")
