"""The way through the simplifier: normal form, plan, expression, until it rests."""

from typing import Final

from sr4mdl.expressions import Expression
from sr4mdl.simplify import write_functions, write_products, write_sums
from sr4mdl.simplify.convert import clear_cache_if_large, to_node
from sr4mdl.simplify.nodes import TooLargeError
from sr4mdl.simplify.plans import build, plan

MAX_LENGTH: Final = 2_000
"""Formulas of more symbols than this come back as they are."""
_MAX_PASSES: Final = 30

# Importing the writers registers them.
_WRITERS: Final = (write_functions, write_products, write_sums)


def simplify(expression: Expression) -> Expression:
    """Return the shortest form found of an expression.

    It is never longer than the input and equal to it wherever the input is defined;
    it may be defined in more places (see :func:`simplify_with_report`). Simplifying
    the result again gives the result itself.

    Parameters
    ----------
    expression : Expression
        The formula; above ``MAX_LENGTH`` symbols it comes back as it is.

    Examples
    --------
    >>> from sr4mdl import parse
    >>> str(simplify(parse("x*y + 2*x*y - sin(x)^2 - cos(x)^2")))
    '3*x*y - 1'
    """
    if expression.length > MAX_LENGTH:
        return expression
    clear_cache_if_large()
    try:
        return _rewrite_until_it_rests(expression)
    except (TooLargeError, RecursionError):
        return expression


def _rewrite_until_it_rests(expression: Expression) -> Expression:
    """Rewrite until a form comes back that was there before.

    If that is a circle of forms of one length, the first by name is taken: whichever
    of them is the input.
    """
    seen = [expression]
    last_key = ""
    while len(seen) < _MAX_PASSES:
        node = to_node(seen[-1])
        if node.key == last_key:  # the same normal form is written the same way
            return seen[-1]
        last_key = node.key
        new = build(plan(node))
        if new.length > seen[-1].length or new is seen[-1]:
            return seen[-1]
        if new.length < seen[-1].length:
            seen = [new]
        elif new in seen:
            return min(seen[seen.index(new) :], key=str)
        else:
            seen.append(new)
    return seen[-1]
