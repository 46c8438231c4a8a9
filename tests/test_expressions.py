import copy
import gc
import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from sr4mdl.errors import ParseError
from sr4mdl.expressions import (
    Expression,
    apply,
    constant,
    from_json,
    from_json_object,
    to_json_object,
    variable,
)
from sr4mdl.operators import get_operator, register_operator, unregister_operator
from sr4mdl.text import parse
from strategies import expressions, names

x, y = variable("x"), variable("y")


@pytest.fixture
def hinge() -> Iterator[None]:
    register_operator("hinge", lambda value: np.maximum(value, 0.0), cost=2)
    yield
    unregister_operator("hinge")


def test_length_counts_symbols() -> None:
    assert parse("x^2 + sin(x)").length == 5
    assert x.length == 1
    assert constant(3.5).length == 1
    assert (x * y + 2).length == 5
    assert (-x).length == 2


def test_length_counts_a_shared_part_each_time() -> None:
    part = x + 1
    assert (part * part).length == 7


def test_length_uses_the_cost_of_an_operator(hinge: None) -> None:
    assert apply("hinge", x).length == 3


def test_depth_and_variables() -> None:
    formula = parse("sin(x*y) + 2")
    assert formula.depth == 3
    assert formula.variables == {"x", "y"}
    assert constant(2).depth == 0
    assert constant(2).variables == frozenset()


def test_same_structure_is_the_same_object() -> None:
    assert parse("sin(x) + x*y") is apply("sin", x) + x * y
    assert variable("x") is x
    assert constant(1) is constant(1.0)
    assert constant(-0.0) is constant(0.0)
    assert x + y is not y + x


@given(expressions(), expressions())
def test_equality_is_identity(first: Expression, second: Expression) -> None:
    assert (first == second) == (first is second)
    assert (to_json_object(first) == to_json_object(second)) == (first is second)


def test_unused_expressions_are_freed() -> None:
    from sr4mdl import expressions as module

    formula = parse("sin(cos(sin(a_name_of_its_own)))")
    gc.collect()
    held = len(module._pool)
    del formula
    gc.collect()
    assert len(module._pool) == held - 4


def test_expressions_cannot_be_changed() -> None:
    formula = x + 1
    with pytest.raises(AttributeError, match="cannot be changed"):
        formula.length = 3
    with pytest.raises(AttributeError, match="cannot be changed"):
        formula.extra = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="cannot be changed"):
        del formula.arguments
    with pytest.raises(TypeError, match="parse"):
        Expression()


@given(expressions(variables=names()))
def test_pickle_copy_and_json_give_the_same_object(formula: Expression) -> None:
    assert pickle.loads(pickle.dumps(formula)) is formula
    assert copy.copy(formula) is formula
    assert copy.deepcopy(formula) is formula
    assert from_json(formula.to_json()) is formula
    assert from_json_object(to_json_object(formula)) is formula


def test_json_form_by_hand() -> None:
    part = apply("sin", x)
    assert json.loads((part * part + 0.5).to_json()) == {
        "format": "sr4mdl-expression",
        "version": 1,
        "nodes": [
            ["variable", "x"],
            ["sin", 0],
            ["mul", 1, 1],
            ["constant", 0.5],
            ["add", 2, 3],
        ],
    }


def test_json_of_a_heavily_shared_formula_is_short() -> None:
    formula = x
    for _ in range(60):
        formula = formula + formula
    assert formula.length == 2**61 - 1
    assert len(to_json_object(formula)["nodes"]) == 61
    assert from_json(formula.to_json()) is formula


def test_json_of_a_deep_formula() -> None:
    formula = x
    for _ in range(5000):
        formula = apply("sin", formula)
    assert from_json(formula.to_json()) is formula
    assert pickle.loads(pickle.dumps(formula)) is formula
    assert formula.depth == 5000


def test_registered_operator_in_json(hinge: None) -> None:
    formula = apply("hinge", x) + 1
    assert from_json(formula.to_json()) is formula


def nodes(*entries: Any) -> dict[str, Any]:
    return {"format": "sr4mdl-expression", "version": 1, "nodes": list(entries)}


VARIABLE = ["variable", "x"]


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (None, 0),
        ([], 0),
        ({}, 0),
        ({"format": "other", "version": 1, "nodes": [VARIABLE]}, 0),
        ({"format": "sr4mdl-expression", "version": 2, "nodes": [VARIABLE]}, 0),
        ({"format": "sr4mdl-expression", "version": 1}, 0),
        (nodes(), 0),
        (nodes(VARIABLE, 7), 1),
        (nodes(VARIABLE, []), 1),
        (nodes(VARIABLE, ["sin"]), 1),
        (nodes(VARIABLE, ["sin", 1]), 1),
        (nodes(VARIABLE, ["sin", -1]), 1),
        (nodes(VARIABLE, ["sin", True]), 1),
        (nodes(VARIABLE, ["sin", 0.0]), 1),
        (nodes(VARIABLE, ["sin", "0"]), 1),
        (nodes(VARIABLE, ["sin", 0, 0]), 1),
        (nodes(VARIABLE, ["add", 0]), 1),
        (nodes(VARIABLE, ["no_such_operator", 0]), 1),
        (nodes(VARIABLE, [3, 0]), 1),
        (nodes(VARIABLE, [["sin"], 0]), 1),
        (nodes(["variable", ""]), 0),
        (nodes(["variable", 3]), 0),
        (nodes(["variable", "a`b"]), 0),
        (nodes(["variable", "a", "b"]), 0),
        (nodes(["constant", "1"]), 0),
        (nodes(["constant", True]), 0),
        (nodes(["constant", None]), 0),
        (nodes(["constant", float("nan")]), 0),
        (nodes(["constant", float("inf")]), 0),
        (nodes(["constant", 10**400]), 0),
    ],
)
def test_damaged_json_is_refused_with_the_node(data: Any, position: int) -> None:
    with pytest.raises(ParseError) as caught:
        from_json_object(data)
    assert caught.value.position == position


@pytest.mark.parametrize("text", ["", "{", "[1,", "nonsense", "[" * 100_000])
def test_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        from_json(text)


def test_python_operators() -> None:
    assert x + 1 is apply("add", x, 1)
    assert 1 + x is apply("add", 1, x)
    assert x - 1 is apply("sub", x, 1)
    assert 1 - x is apply("sub", 1, x)
    assert x * 2 is apply("mul", x, 2)
    assert 2 * x is apply("mul", 2, x)
    assert x / 2 is apply("div", x, 2)
    assert 2 / x is apply("div", 2, x)
    assert x**2 is apply("pow", x, 2)
    assert 2**x is apply("pow", 2, x)
    assert -x is apply("neg", x)


@pytest.mark.parametrize("bad", ["", "a`b", 3, None])
def test_bad_names_of_variables(bad: Any) -> None:
    with pytest.raises(ValueError, match="name of a variable"):
        variable(bad)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_constants_are_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        constant(bad)


def test_apply_checks_operator_and_arity() -> None:
    with pytest.raises(ValueError, match="sin takes 1 argument"):
        apply("sin", x, y)
    with pytest.raises(ValueError, match=r"add takes 2 argument\(s\), got 1"):
        apply(get_operator("add"), x)
    with pytest.raises(ValueError, match="unknown operator"):
        apply("sine", x)


def test_orders_of_iteration() -> None:
    part = apply("sin", x)
    formula = part * y + part
    assert [str(node) for node in formula.subexpressions()] == [
        "x",
        "sin(x)",
        "y",
        "sin(x)*y",
        "sin(x)*y + sin(x)",
    ]
    assert [str(node) for node in formula.prefix()] == [
        "sin(x)*y + sin(x)",
        "sin(x)*y",
        "sin(x)",
        "x",
        "y",
        "sin(x)",
        "x",
    ]


@given(expressions())
def test_iteration_is_consistent(formula: Expression) -> None:
    seen: set[Expression] = set()
    for node in formula.subexpressions():
        assert node not in seen
        assert seen.issuperset(node.arguments)
        seen.add(node)
    in_prefix = list(formula.prefix())
    assert set(in_prefix) == seen
    assert len(in_prefix) == formula.length
    assert {node.name for node in seen if node.is_variable} == formula.variables


def test_substitute_and_rebuild() -> None:
    formula = parse("x + sin(x)*y")
    assert formula.substitute({"x": y, "y": x}) is parse("y + sin(y)*x")
    assert formula.substitute({"z": y}) is formula
    swapped = formula.rebuild(
        lambda node: (
            apply("cos", *node.arguments)
            if node.operator is get_operator("sin")
            else None
        )
    )
    assert swapped is parse("x + cos(x)*y")
    assert formula.rebuild(lambda node: None) is formula


def test_repr_shows_the_formula() -> None:
    assert repr(x + 1) == "Expression('x + 1')"
