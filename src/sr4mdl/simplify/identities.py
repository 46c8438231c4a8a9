"""Identities between the terms of a sum.

sin^2 + cos^2 and its kin, logarithms of products, exponentials that make sinh and
cosh, arcsin + arccos. Each joins two terms into one, so applying them ends.
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from sr4mdl.operators import get_operator
from sr4mdl.simplify.functions import function, logarithm
from sr4mdl.simplify.nodes import FUNCTION, PRODUCT, SUM, Node, Terms, number
from sr4mdl.simplify.products import multiply, multiply_powers
from sr4mdl.simplify.sums import collect, scale, unit_product


class _Square(NamedTuple):
    """What f(u)^2 makes with its partner and with constants.

    ``a*f^2 + b*partner^2`` is ``a`` if ``b = joins * a``, else, if ``b = -joins * a``,
    ``doubled * a * g(2*u)``. ``a*f^2 + r`` is ``a*with_constant^power*sign`` if
    ``r = constant * a``.
    """

    partner: str
    joins: float
    double: str
    doubled: float
    constant: float
    result: str
    power: float
    sign: float


_SQUARES: Final = {
    # 1 - sin^2 = cos^2: a = -1, r = 1.
    "sin": _Square("cos", 1.0, "cos", -1.0, -1.0, "cos", 2.0, -1.0),
    "cos": _Square("sin", 1.0, "cos", 1.0, -1.0, "sin", 2.0, -1.0),
    "cosh": _Square("sinh", -1.0, "cosh", 1.0, -1.0, "sinh", 2.0, 1.0),
    "sinh": _Square("cosh", -1.0, "cosh", 1.0, 1.0, "cosh", 2.0, 1.0),
    "tan": _Square("", 0.0, "", 0.0, 1.0, "cos", -2.0, 1.0),
    "tanh": _Square("", 0.0, "", 0.0, -1.0, "cosh", -2.0, -1.0),
}
# 1 - 2 sin^2 = cos(2u) and the like: r / a, and cos(2u) / r.
_HALVES: Final = {
    "sin": (-0.5, 1.0, "cos"),
    "cos": (-0.5, -1.0, "cos"),
    "sinh": (0.5, 1.0, "cosh"),
    "cosh": (-0.5, -1.0, "cosh"),
}
_TRIGGERS: Final = ("log(", "exp(", "cosh(", "arccos(", "^2.0")


def add(parts: Iterable[tuple[Node, float]], constant: float = 0.0) -> Node:
    """Return the sum of nodes times numbers, with identities applied."""
    return apply_identities(collect(parts, constant))


def apply_identities(node: Node) -> Node:
    """Return a sum with the identities applied that shorten it."""
    while node.kind == SUM:
        key = node.key
        if not any(trigger in key for trigger in _TRIGGERS):
            return node
        new = _join_squares(node)
        if new is None:
            new = _join_functions(node)
        if new is None:
            return node
        node = new
    return node


def _replace(node: Node, gone: set[str], parts: list[tuple[Node, float]]) -> Node:
    """Return the sum without some terms (the constant is called "") and with others."""
    kept = [(term, value) for term, value in node.terms if term.key not in gone]
    return collect([*kept, *parts], 0.0 if "" in gone else node.value)


def _join_squares(node: Node) -> Node | None:
    coefficients = {term.key: value for term, value in node.terms}
    coefficients[number(1.0).key] = node.value
    for term, value in node.terms:
        if term.kind != PRODUCT:
            continue
        for index, (base, exponent) in enumerate(term.terms):
            if exponent != 2.0 or base.kind != FUNCTION or base.name not in _SQUARES:
                continue
            others = term.terms[:index] + term.terms[index + 1 :]
            new = _join_square(node, coefficients, term, value, base, others)
            if new is not None:
                return new
    return None


def _join_square(
    node: Node,
    coefficients: dict[str, float],
    term: Node,
    value: float,
    base: Node,
    others: Terms,
) -> Node | None:
    rule = _SQUARES[base.name]
    argument = base.arguments[0]
    rest = unit_product(others)
    if rule.partner:
        partner = function(get_operator(rule.partner), argument)
        with_partner = multiply_powers([(partner, 2.0), *others])
        other = coefficients.get(with_partner.key)
        if other is not None:
            gone = {term.key, with_partner.key}
            if other == rule.joins * value:
                return _replace(node, gone, [(rest, value)])
            if other == -rule.joins * value:
                double = function(get_operator(rule.double), scale(argument, 2.0))
                new = multiply([double, rest])
                return _replace(node, gone, [(new, rule.doubled * value)])
            if not others:
                # a*f^2 + b*g^2 = a + (b - joins*a)*g^2
                left = other - rule.joins * value
                return _replace(node, gone, [(rest, value), (with_partner, left)])
    whole = "" if not others else rest.key
    other = coefficients.get(rest.key, 0.0)
    if other == 0.0:
        return None
    if other == rule.constant * value:
        result = function(get_operator(rule.result), argument)
        new = multiply_powers([(result, rule.power), *others])
        return _replace(node, {term.key, whole}, [(new, rule.sign * value)])
    half = _HALVES.get(base.name)
    if half is not None and other == half[0] * value:
        double = function(get_operator(half[2]), scale(argument, 2.0))
        new = multiply([double, rest])
        return _replace(node, {term.key, whole}, [(new, half[1] * other)])
    return None


def _join_functions(node: Node) -> Node | None:
    named: dict[str, list[tuple[Node, float]]] = {}
    for term, value in node.terms:
        if term.kind == FUNCTION:
            named.setdefault(term.name, []).append((term, value))
    if not named:
        return None
    if len(named.get("log", ())) > 1:
        new = _join_logarithms(node, named["log"])
        if new is not None:
            return new
    if len(named.get("exp", ())) > 1:
        new = _join_exponentials(node, named["exp"])
        if new is not None:
            return new
    for first, second, join in (
        ("cosh", "sinh", _join_hyperbolic),
        ("arccos", "arcsin", _join_arcs),
    ):
        for term, value in named.get(first, ()):
            for other, weight in named.get(second, ()):
                if term.arguments[0].key == other.arguments[0].key:
                    parts = join(term, value, other, weight)
                    if parts is not None:
                        return _replace(node, {term.key, other.key}, parts)
    return None


def _join_logarithms(node: Node, logs: list[tuple[Node, float]]) -> Node | None:
    """c*log(a) - c*log(b) is c*log(a/b); where the left is defined, so is the right."""
    groups: dict[float, list[tuple[Node, float]]] = {}
    for term, value in logs:
        groups.setdefault(abs(value), []).append((term, value))
    for size, members in groups.items():
        if len(members) > 1:
            inside = multiply_powers(
                [(term.arguments[0], math.copysign(1.0, v)) for term, v in members]
            )
            gone = {term.key for term, _ in members}
            return _replace(node, gone, [(logarithm(inside), size)])
    return None


def _join_exponentials(node: Node, terms: list[tuple[Node, float]]) -> Node | None:
    """a*exp(u) + a*exp(-u) is 2*a*cosh(u); with a minus it is sinh."""
    found = {term.arguments[0].key: (term, value) for term, value in terms}
    for term, value in terms:
        argument = term.arguments[0]
        opposite = found.get(scale(argument, -1.0).key)
        if opposite is None or abs(opposite[1]) != abs(value):
            continue
        name = "cosh" if opposite[1] == value else "sinh"
        joined = function(get_operator(name), argument)
        gone = {term.key, opposite[0].key}
        return _replace(node, gone, [(joined, 2.0 * value)])
    return None


def _join_hyperbolic(
    cosine: Node, value: float, _: Node, weight: float
) -> list[tuple[Node, float]] | None:
    """cosh(u) + sinh(u) is exp(u)."""
    if abs(value) != abs(weight):
        return None
    argument = scale(cosine.arguments[0], 1.0 if value == weight else -1.0)
    return [(function(get_operator("exp"), argument), value)]


def _join_arcs(
    _: Node, value: float, sine: Node, weight: float
) -> list[tuple[Node, float]]:
    """arccos(u) is pi/2 - arcsin(u)."""
    return [(sine, weight - value), (number(math.pi / 2), value)]
