"""Flattened sums: collecting like terms, scaling, and taking out common factors.

Plain bookkeeping on nodes: identities between terms stand in ``identities``.
"""

import math
from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from sr4mdl.simplify.nodes import (
    NUMBER,
    PRODUCT,
    SUM,
    Node,
    Terms,
    number,
    plus,
    product_node,
    sum_node,
    times,
)

_by_key: Final = itemgetter(0)


def unit_product(factors: Terms) -> Node:
    """Return the product of powers, given sorted, without a coefficient."""
    if not factors:
        return number(1.0)
    if len(factors) == 1 and factors[0][1] == 1.0:
        return factors[0][0]
    return product_node(1.0, factors)


def split_coefficient(node: Node) -> tuple[float, Node]:
    """Return the coefficient of a term and the rest; sums are left whole."""
    if node.kind != PRODUCT or node.value == 1.0:
        return 1.0, node
    unit = node.unit
    if unit is None:
        unit = node.unit = unit_product(node.terms)
    return node.value, unit


def scale(node: Node, factor: float) -> Node:
    """Return the node times a number; sums are multiplied out."""
    if factor == 1.0:
        return node
    kind = node.kind
    if factor == 0.0:
        return number(0.0)
    if kind == NUMBER:
        return number(times(node.value, factor))
    if kind == SUM:
        return sum_node(
            times(node.value, factor),
            tuple([(term, times(value, factor)) for term, value in node.terms]),
        )
    if kind == PRODUCT:
        value = times(node.value, factor)
        if value == 1.0:
            return split_coefficient(node)[1]
        return product_node(value, node.terms)
    return product_node(factor, ((node, 1.0),))


def collect(parts: Iterable[tuple[Node, float]], constant: float = 0.0) -> Node:
    """Return the sum of nodes times numbers, like terms joined."""
    terms: dict[str, tuple[Node, float]] = {}
    for node, factor in parts:
        kind = node.kind
        if kind == NUMBER:
            constant = plus(constant, times(node.value, factor))
        elif kind == SUM:
            constant = plus(constant, times(node.value, factor))
            for term, value in node.terms:
                value = times(value, factor)
                old = terms.get(term.key)
                terms[term.key] = (term, value if old is None else plus(old[1], value))
        else:
            value = factor
            if kind == PRODUCT and node.value != 1.0:
                value = times(node.value, factor)
                node = split_coefficient(node)[1]
                if node.kind == SUM:  # a product of nothing but a sum
                    constant = plus(constant, times(node.value, value))
                    for term, inner in node.terms:
                        inner = times(inner, value)
                        old = terms.get(term.key)
                        terms[term.key] = (
                            term,
                            inner if old is None else plus(old[1], inner),
                        )
                    continue
            old = terms.get(node.key)
            terms[node.key] = (node, value if old is None else plus(old[1], value))
    found = [item for item in sorted(terms.items(), key=_by_key) if item[1][1] != 0.0]
    if not found:
        return number(constant)
    if len(found) == 1 and constant == 0.0:
        term, value = found[0][1]
        return scale(term, value)
    return sum_node(constant, tuple([item[1] for item in found]))


def factors_of(term: Node) -> Terms:
    """Return the powers that a term without coefficient is made of."""
    return term.terms if term.kind == PRODUCT else ((term, 1.0),)


def divide_term(term: Node, factors: dict[str, tuple[Node, float]]) -> Node:
    """Return a term divided by powers that it contains."""
    rest = []
    for base, exponent in factors_of(term):
        taken = factors.get(base.key)
        if taken is not None:
            exponent -= taken[1]
            if exponent == 0.0:
                continue
        rest.append((base, exponent))
    return unit_product(tuple(rest))


def numeric_content(values: list[float]) -> float:
    """Return a positive number to divide by that leaves short whole numbers.

    The division is exact: multiples of 1/64 are reduced like fractions, other numbers
    only if all have one size. Else it is 1.
    """
    sizes = [abs(value) for value in values if value != 0.0]
    smallest = min(sizes)
    if smallest == 1.0 or len(sizes) == 1:
        if all(size == math.floor(size) for size in sizes):
            return smallest
    elif smallest == max(sizes):
        return smallest
    scaled = [size * 64.0 for size in sizes]
    if max(scaled) < 1e15 and all(size == math.floor(size) for size in scaled):
        return math.gcd(*[int(size) for size in scaled]) / 64.0
    return 1.0


def content(node: Node) -> tuple[float, Terms, Node]:
    """Return a sum as a number, a monomial and a primitive sum multiplied.

    The first term of the primitive sum has a positive coefficient.
    """
    if node.content is None:
        node.content = _content(node)
    return node.content


def common_factors(terms: Terms) -> dict[str, tuple[Node, float]]:
    """Return the powers that divide every term."""
    common = {base.key: (base, exponent) for base, exponent in factors_of(terms[0][0])}
    for term, _ in terms[1:]:
        present = {base.key: exponent for base, exponent in factors_of(term)}
        for key, (base, exponent) in list(common.items()):
            other = present.get(key)
            if other is None or (other > 0.0) != (exponent > 0.0):
                del common[key]
            elif abs(other) < abs(exponent):
                common[key] = (base, other)
        if not common:
            break
    return common


def _content(node: Node) -> tuple[float, Terms, Node]:
    values = [value for _, value in node.terms]
    if node.value != 0.0:
        values.append(node.value)
    size = numeric_content(values)
    if node.terms[0][1] < 0.0:
        size = -size
    monomial: Terms = ()
    if node.value == 0.0:
        common = common_factors(node.terms)
        if common:
            monomial = tuple(common.values())
            parts = [
                (divide_term(term, common), value / size) for term, value in node.terms
            ]
            return size, monomial, collect(parts)
    if size == 1.0:
        return 1.0, (), node
    terms = tuple([(term, value / size) for term, value in node.terms])
    return size, (), sum_node(node.value / size, terms)
