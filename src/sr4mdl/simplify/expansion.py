"""Multiplying out, where terms then cancel and the result is shorter."""

from typing import Final

from sr4mdl.simplify.identities import add
from sr4mdl.simplify.nodes import PRODUCT, SUM, Node, Terms, UnfitError
from sr4mdl.simplify.plans import plan
from sr4mdl.simplify.products import multiply_powers
from sr4mdl.simplify.sums import factors_of, unit_product

_MAX_TERMS: Final = 10


def expand_if_shorter(node: Node) -> Node:
    """Return the node multiplied out if that is written shorter, else the node."""
    if "[" not in node.key[1:] or node.kind not in (SUM, PRODUCT):
        return node
    try:
        expanded = _expand(node)
    except UnfitError:
        return node
    if expanded is None or plan(expanded)[0] >= plan(node)[0]:
        return node
    return expanded


def _expand(node: Node) -> Node | None:
    """Multiply out; None if nothing joins or cancels, or too much comes of it."""
    if node.kind == PRODUCT:
        summands: Terms = ((unit_product(node.terms), node.value),)
        constant = 0.0
    else:
        summands = node.terms
        constant = node.value
    pieces: list[_Piece] = []
    found = False
    for term, value in summands:
        more = _multiply_out(term, value)
        if more is None:
            pieces.append((factors_of(term), value))
        else:
            found = True
            pieces.extend(more)
        if len(pieces) > _MAX_TERMS:
            return None
    if not found or not (_joins(pieces, constant) or _has_angles(node)):
        return None
    return add([(multiply_powers([*f]), value) for f, value in pieces], constant)


# Powers, perhaps of one base several times, and a coefficient.
_Piece = tuple[Terms, float]


def _multiply_out(term: Node, value: float) -> list[_Piece] | None:
    """Return the terms of a product with sums in it; None if there are none."""
    sums: list[Node] = []
    others: list[tuple[Node, float]] = []
    for base, exponent in factors_of(term):
        if base.kind == SUM and exponent in (1.0, 2.0):
            sums.extend([base] * int(exponent))
        else:
            others.append((base, exponent))
    if not sums or len(sums) > 2:
        return None
    pieces: list[_Piece] = [(tuple(others), value)]
    for factor in sums:
        more = [
            ((*left, *factors_of(right)), weight * other)
            for left, weight in pieces
            for right, other in factor.terms
        ]
        if factor.value != 0.0:
            more.extend([(left, weight * factor.value) for left, weight in pieces])
        if len(more) > _MAX_TERMS:
            return None
        pieces = more
    return pieces


def _joins(pieces: list[_Piece], constant: float) -> bool:
    """Return whether two of the pieces are like terms, without making nodes."""
    seen: set[frozenset[tuple[str, float]]] = set()
    if constant != 0.0:
        seen.add(frozenset())
    for factors, _ in pieces:
        powers: dict[str, float] = {}
        for base, exponent in factors:
            total = powers.get(base.key, 0.0) + exponent
            if total == 0.0:
                del powers[base.key]
            else:
                powers[base.key] = total
        signature = frozenset(powers.items())
        if signature in seen:
            return True
        seen.add(signature)
    return False


def _has_angles(node: Node) -> bool:
    return "sin(" in node.key and "cos(" in node.key
