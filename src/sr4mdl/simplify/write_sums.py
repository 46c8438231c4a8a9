"""Plans for sums: signs where they cost nothing, common factors taken out."""

from typing import Final

from sr4mdl.simplify.nodes import (
    FUNCTION,
    SUM,
    VARIABLE,
    Node,
    Plan,
    Terms,
    detached,
    product_node,
    sum_node,
)
from sr4mdl.simplify.plans import (
    ADD,
    DIV,
    MUL,
    SUB,
    Pair,
    inverse_if_shorter,
    leaf,
    plan,
    plan_pair,
    register_writer,
)
from sr4mdl.simplify.sum_rewrites import partial_factorings, rewritten, tidy_constant
from sr4mdl.simplify.sums import scale

# Functions whose writers may place a number inside.
_TAKE_NUMBERS: Final = frozenset({"exp", "log", "abs", "pow"})

# Added and subtracted form of one part, and whether adding looks natural.
_Part = tuple[Plan, Plan, bool]


def _write_sum(node: Node) -> Pair:
    return _write_best(node, rewritten(node), True)


def _write_best(node: Node, others: list[Node], groups_all: bool) -> Pair:
    best, opposite = _write_terms(node, groups_all)
    for other in others:
        found, negative = plan_pair(other)
        if found[0] < best[0]:
            best = found
        if negative[0] < opposite[0]:
            opposite = negative
    return best, opposite


def as_it_stands(node: Node) -> Node:
    """Return a copy of a sum that is written without a factor common to all terms."""
    if node.kind != SUM:
        return node
    copy = detached(node)
    copy.plan, copy.negative_plan = _write_best(node, partial_factorings(node), False)
    return copy


def _write_terms(node: Node, groups_all: bool) -> Pair:
    parts = _parts(*tidy_constant(node.value, node.terms), groups_all)
    opposite = [(second, first, not natural) for first, second, natural in parts]
    return _join(parts), _join(opposite)


def _parts(value: float, terms: Terms, groups_all: bool) -> list[_Part]:
    """Write each term; those with one coefficient together.

    Without ``groups_all`` not if they are all there is: c*(a + b) is not found then.
    """
    most = len(terms) if groups_all or value != 0.0 else len(terms) - 1
    groups: dict[float, list[tuple[Node, float]]] = {}
    for term, coefficient in terms:
        size = abs(coefficient)
        if size != 1.0:
            groups.setdefault(size, []).append((term, coefficient))
    parts = []
    for term, coefficient in terms:
        size = abs(coefficient)
        adds = coefficient > 0.0
        if size != 1.0:
            members = groups[size]
            if len(members) == 1 or len(members) > most:
                if term.kind == VARIABLE or (
                    term.kind == FUNCTION and term.name not in _TAKE_NUMBERS
                ):
                    parts.append(_scaled_part(plan(term), coefficient))
                    continue
                term = scale(term, size)
            elif members[0][0] is term:
                # c*a + c*b is c*(a + b)
                adds = True
                term = _grouped(members, size)
            else:
                continue
        first, second = plan_pair(term)
        parts.append((first, second, True) if adds else (second, first, False))
    if value != 0.0:
        parts.append((leaf(value), leaf(-value), value > 0.0))
    return parts


def _scaled_part(found: Plan, coefficient: float) -> _Part:
    """Write a number times something that has no better use for the number."""
    size = abs(coefficient)
    inverse = inverse_if_shorter(size)
    if inverse is None:
        first: Plan = (found[0] + 2, MUL, leaf(size), found)
        second: Plan = (found[0] + 2, MUL, leaf(-size), found)
    else:
        first = (found[0] + 2, DIV, found, leaf(inverse))
        second = (found[0] + 2, DIV, found, leaf(-inverse))
    return (first, second, True) if coefficient > 0.0 else (second, first, False)


def _grouped(members: list[tuple[Node, float]], size: float) -> Node:
    """Return size*(a - b + ..) as a product that is not multiplied out."""
    signed = tuple([(term, 1.0 if c > 0.0 else -1.0) for term, c in members])
    inner = sum_node(0.0, signed)
    return product_node(size, ((inner, 1.0),))


def _join(parts: list[_Part]) -> Plan:
    """Return the shortest chain of + and - over the parts."""
    start, least = 0, 1_000_000
    for index, (added, subtracted, natural) in enumerate(parts):
        penalty = 3 * max(0, added[0] - subtracted[0]) + (0 if natural else 1)
        if penalty < least:
            start, least = index, penalty
    result = parts[start][0]
    for index, (added, subtracted, natural) in enumerate(parts):
        if index == start:
            continue
        if added[0] < subtracted[0] or (natural and added[0] == subtracted[0]):
            result = (result[0] + added[0] + 1, ADD, result, added)
        else:
            result = (result[0] + subtracted[0] + 1, SUB, result, subtracted)
    return result


register_writer(SUM, _write_sum)
