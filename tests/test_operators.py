import pickle
from collections.abc import Iterator

import numpy as np
import pytest
import sympy

from sr4mdl.operators import (
    MAX_BUILTIN_OPCODES,
    Operator,
    all_operators,
    find_operator,
    get_operator,
    operator_of_opcode,
    register_operator,
    unregister_operator,
)

BUILTIN = [operator for operator in all_operators() if operator.builtin]
UNARY = [operator for operator in BUILTIN if operator.arity == 1]
BINARY = [operator for operator in BUILTIN if operator.arity == 2]

# Moderate numbers: nothing here overflows, so non-finite means outside the domain.
GRID = np.array([-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0])
# Where g(f(x)) = x holds for g the inverse of f.
PRINCIPAL = {
    "sqrt": (0.0, 9.0),
    "square": (0.0, 9.0),
    "exp": (-5.0, 5.0),
    "log": (0.1, 9.0),
    "sin": (-1.5, 1.5),
    "cos": (0.1, 3.0),
    "tan": (-1.5, 1.5),
    "arcsin": (-1.0, 1.0),
    "arccos": (-1.0, 1.0),
    "arctan": (-5.0, 5.0),
    "inv": (0.1, 5.0),
    "neg": (-5.0, 5.0),
}


def ids(operator: Operator) -> str:
    return operator.name


@pytest.fixture
def registered() -> Iterator[Operator]:
    operator = register_operator(
        "softplus", lambda x: np.logaddexp(0.0, x), sympy=lambda x: sympy.log(1 + x)
    )
    yield operator
    unregister_operator("softplus")


def test_the_table_holds_what_is_promised() -> None:
    assert {operator.name for operator in BINARY} == {"add", "sub", "mul", "div", "pow"}
    assert {operator.name for operator in UNARY} == {
        "sqrt", "square", "cube", "inv", "neg", "abs", "exp", "log", "sin", "cos",
        "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
    }  # fmt: skip


def test_opcodes_are_frozen() -> None:
    # They are part of the weights format: append, never renumber.
    in_order = [
        "add", "sub", "mul", "div", "pow", "sqrt", "square", "cube", "inv", "neg",
        "abs", "exp", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
        "cosh", "tanh",
    ]  # fmt: skip
    found = [(operator.opcode, operator.name) for operator in BUILTIN]
    assert found == list(enumerate(in_order, start=1))
    assert max(operator.opcode for operator in BUILTIN) < MAX_BUILTIN_OPCODES


def test_names_and_aliases_are_unique_and_found() -> None:
    every = [name for row in BUILTIN for name in (row.name, *row.aliases)]
    assert len(every) == len(set(every))
    for operator in BUILTIN:
        assert operator_of_opcode(operator.opcode) is operator
        for name in (operator.name, *operator.aliases):
            assert get_operator(name) is operator
            assert find_operator(name) is operator


def test_unknown_names() -> None:
    assert find_operator("sine") is None
    with pytest.raises(
        ValueError, match=r"unknown operator 'sine'; known are abs, add"
    ):
        get_operator("sine")
    with pytest.raises(KeyError):
        operator_of_opcode(63)


@pytest.mark.parametrize("operator", UNARY, ids=ids)
def test_domain_of_unary_operators_is_where_they_are_finite(operator: Operator) -> None:
    with np.errstate(all="ignore"):
        finite = np.isfinite(operator.numpy(GRID))
    stated = np.ones_like(finite) if operator.domain is None else operator.domain(GRID)
    np.testing.assert_array_equal(stated, finite)


@pytest.mark.parametrize("operator", BINARY, ids=ids)
def test_domain_of_binary_operators_is_where_they_are_finite(
    operator: Operator,
) -> None:
    first, second = (part.ravel() for part in np.meshgrid(GRID, GRID))
    with np.errstate(all="ignore"):
        finite = np.isfinite(operator.numpy(first, second))
    stated = (
        np.ones_like(finite)
        if operator.domain is None
        else operator.domain(first, second)
    )
    np.testing.assert_array_equal(stated, finite)


def test_power_domain_by_hand() -> None:
    domain = get_operator("pow").domain
    assert domain is not None
    base = np.array([2.0, 0.0, 0.0, 0.0, -2.0, -2.0, -2.0])
    exponent = np.array([0.5, 2.0, 0.0, -1.0, 3.0, -3.0, 0.5])
    assert domain(base, exponent).tolist() == [
        True, True, True, False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("operator", UNARY, ids=ids)
def test_inverse_undoes_on_the_principal_branch(operator: Operator) -> None:
    if operator.inverse is None:
        assert operator.name not in PRINCIPAL
        return
    x = np.linspace(*PRINCIPAL[operator.name], 101)
    back = get_operator(operator.inverse).numpy(operator.numpy(x))
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-12)


def test_inverses_come_in_pairs() -> None:
    for operator in UNARY:
        if operator.inverse is not None:
            assert get_operator(operator.inverse).inverse == operator.name
    assert not any(operator.inverse for operator in BINARY)


@pytest.mark.parametrize("operator", BINARY, ids=ids)
def test_commutes_is_true_exactly_where_order_does_not_matter(
    operator: Operator,
) -> None:
    first, second = np.array([1.5, 2.0, 3.25]), np.array([0.5, 4.0, 1.25])
    same = np.allclose(operator.numpy(first, second), operator.numpy(second, first))
    assert operator.commutes is same


@pytest.mark.parametrize("operator", BUILTIN, ids=ids)
def test_sympy_form_agrees_with_numpy(operator: Operator) -> None:
    form = operator.sympy
    function = getattr(sympy, form) if isinstance(form, str) else form
    inside = [0.3, 0.7][: operator.arity]
    expected = float(operator.numpy(*inside))
    assert float(function(*map(sympy.Float, inside))) == pytest.approx(expected)


@pytest.mark.parametrize("operator", BUILTIN, ids=ids)
def test_torch_form_agrees_with_numpy(operator: Operator) -> None:
    torch = pytest.importorskip("torch")
    form = operator.torch
    function = getattr(torch, form) if isinstance(form, str) else form
    columns = np.meshgrid(*[GRID] * operator.arity)
    with np.errstate(all="ignore"):
        expected = operator.numpy(*columns)
    result = function(*map(torch.from_numpy, columns)).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@pytest.mark.parametrize("operator", BUILTIN, ids=ids)
def test_printed_forms_take_all_arguments(operator: Operator) -> None:
    arguments = ["first", "second"][: operator.arity]
    for form in (operator.latex, operator.c):
        filled = form.format(*arguments)
        assert all(argument in filled for argument in arguments)
        # LaTeX groups and calls are closed.
        assert filled.count("{") == filled.count("}")
        assert filled.count("(") == filled.count(")")


def test_operators_are_compared_and_pickled_by_identity() -> None:
    for operator in BUILTIN:
        assert pickle.loads(pickle.dumps(operator)) is operator


def test_operators_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        get_operator("sin").cost = 3  # type: ignore[misc]


def test_registered_operator_is_in_the_table(registered: Operator) -> None:
    assert get_operator("softplus") is registered
    assert registered.opcode >= MAX_BUILTIN_OPCODES
    assert not registered.builtin
    assert list(all_operators())[-1] is registered
    assert operator_of_opcode(registered.opcode) is registered
    assert registered.latex.format("x") == r"\operatorname{softplus}\left(x\right)"


def test_registered_operator_has_a_torch_form(registered: Operator) -> None:
    torch = pytest.importorskip("torch")
    assert callable(registered.torch)
    result = registered.torch(torch.tensor([0.0, 1.0], dtype=torch.float64))
    np.testing.assert_allclose(result.numpy(), np.logaddexp(0.0, [0.0, 1.0]))


def test_unregistered_operator_is_gone() -> None:
    operator = register_operator("twice", lambda x: 2 * x)
    unregister_operator("twice")
    assert find_operator("twice") is None
    with pytest.raises(KeyError):
        operator_of_opcode(operator.opcode)
    with pytest.raises(ValueError, match="registered operator, got 'twice'"):
        unregister_operator("twice")


def test_builtin_operators_cannot_be_removed() -> None:
    with pytest.raises(ValueError, match="registered operator, got 'sin'"):
        unregister_operator("sin")
    assert find_operator("sin") is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "sin"}, "'sin' is taken"),
        ({"name": "asin"}, "'asin' is taken"),
        ({"name": "pi"}, "'pi' is taken"),
        ({"name": "2f"}, "identifier, got '2f'"),
        ({"name": "lambda"}, "identifier, got 'lambda'"),
        ({"name": "f", "arity": 3}, "arity must be 1 or 2, got 3"),
        ({"name": "f", "cost": 0}, "cost must be at least 1, got 0"),
        ({"name": "f", "arity": 2}, "does not take 2 arrays"),
        (
            {"name": "f", "function": lambda x: x[:1]},
            r"shape, got ndarray of shape \(1",
        ),
        ({"name": "f", "function": lambda x: 1.0}, "got float of shape"),
        ({"name": "f", "function": lambda x: x > 0}, "must return floats, got bool"),
    ],
)
def test_bad_registrations_are_refused(
    arguments: dict[str, object], message: str
) -> None:
    before = list(all_operators())
    settings: dict[str, object] = {"function": lambda x: x + 1.0, **arguments}
    with pytest.raises(ValueError, match=message):
        register_operator(**settings)  # type: ignore[arg-type]
    assert list(all_operators()) == before
