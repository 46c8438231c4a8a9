"""Hypothesis strategies for formulas."""

import math

from hypothesis import strategies as st

from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.operators import Operator, all_operators

PLAIN_NAMES = ("x0", "x1", "x2")


def names() -> st.SearchStrategy[str]:
    """Names of variables: plain ones, names of operators, and any text at all."""
    return st.one_of(
        st.sampled_from([*PLAIN_NAMES, "sin", "pi", "ln", "a b", "2x", "x-y", "e"]),
        st.text(
            st.characters(exclude_characters="`", exclude_categories=["Cs"]),
            min_size=1,
            max_size=8,
        ),
    )


def numbers() -> st.SearchStrategy[float]:
    """Finite numbers, with those that printing treats specially among them."""
    return st.one_of(
        st.sampled_from(
            [0.0, 1.0, -1.0, 2.0, 3.0, -2.0, 0.5, math.pi, -math.pi, math.e]
        ),
        st.integers(-(10**17), 10**17).map(float),
        st.floats(allow_nan=False, allow_infinity=False),
    )


def leaves(
    variables: st.SearchStrategy[str] | None = None,
    constants: st.SearchStrategy[float] | None = None,
) -> st.SearchStrategy[Expression]:
    """Variables and constants."""
    return st.one_of(
        (st.sampled_from(PLAIN_NAMES) if variables is None else variables).map(
            variable
        ),
        (numbers() if constants is None else constants).map(constant),
    )


def expressions(
    variables: st.SearchStrategy[str] | None = None,
    constants: st.SearchStrategy[float] | None = None,
    operators: list[Operator] | None = None,
    max_leaves: int = 12,
) -> st.SearchStrategy[Expression]:
    """Formulas over the built-in operators, or over those given."""
    if operators is None:
        operators = [operator for operator in all_operators() if operator.builtin]

    def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.sampled_from(operators).flatmap(
            lambda operator: st.tuples(*[inner] * operator.arity).map(
                lambda arguments: apply(operator, *arguments)
            )
        )

    return st.recursive(leaves(variables, constants), extend, max_leaves=max_leaves)
