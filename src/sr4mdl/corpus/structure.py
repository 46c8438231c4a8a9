"""Hashes of a formula's structure, to keep benchmark formulas out of training.

Two formulas that differ in the names of variables, the order of terms and factors or
the values of constants have one hash. ``held_out.json`` holds the hashes of the
benchmark suites' formulas (a fact each, not the formulas).
"""

import functools
import json
from importlib import resources
from typing import Final

from sr4mdl.expressions import Expression

_MASK: Final = (1 << 64) - 1
_SUM: Final = 101
_PRODUCT: Final = 102
_CONSTANT: Final = 103
_VARIABLE: Final = 104


def _mix(values: list[int]) -> int:
    """Return a 64-bit hash of a list of numbers, the same on every machine."""
    state = 0x9E3779B97F4A7C15
    for value in values:
        state ^= value & _MASK
        state = (state * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) & _MASK
        state ^= state >> 29
    return state


def _terms(
    node: Expression, names: tuple[str, str, str], sign: int
) -> list[tuple[Expression, int]]:
    """Flatten a chain; names are (joining, splitting, turning) operators."""
    operator = node.operator
    if operator is not None:
        join, split, turn = names
        if operator.name == join:
            left, right = node.arguments
            return _terms(left, names, sign) + _terms(right, names, sign)
        if operator.name == split:
            left, right = node.arguments
            return _terms(left, names, sign) + _terms(right, names, -sign)
        if operator.name == turn:
            return _terms(node.arguments[0], names, -sign)
    return [(node, sign)]


SUM_CHAIN: Final = ("add", "sub", "neg")
PRODUCT_CHAIN: Final = ("mul", "div", "inv")


def flatten_sum(node: Expression) -> list[tuple[Expression, int]]:
    """Return the terms of a sum with their signs, e.g. a - (b - c): +a, -b, +c."""
    return _terms(node, SUM_CHAIN, 1)


def flatten_product(node: Expression) -> list[tuple[Expression, int]]:
    """Return the factors with exponent signs, e.g. a / (b * c): +a, -b, -c."""
    return _terms(node, PRODUCT_CHAIN, 1)


def structure_hash(expression: Expression) -> int:
    """Return the 64-bit hash of the structure; simplify first for best effect."""
    uses: dict[Expression, int] = {}
    for node in expression.prefix():
        if node.is_variable:
            uses[node] = uses.get(node, 0) + 1
    memo: dict[Expression, int] = {}

    def visit(node: Expression) -> int:
        known = memo.get(node)
        if known is not None:
            return known
        operator = node.operator
        if node.is_variable:
            result = _mix([_VARIABLE, uses[node]])
        elif operator is None:
            result = _mix([_CONSTANT])
        elif operator.name in SUM_CHAIN:
            result = chain(_SUM, flatten_sum(node))
        elif operator.name in PRODUCT_CHAIN:
            result = chain(_PRODUCT, flatten_product(node))
        else:
            parts = [visit(argument) for argument in node.arguments]
            result = _mix([operator.opcode, *parts])
        memo[node] = result
        return result

    def chain(code: int, terms: list[tuple[Expression, int]]) -> int:
        parts = sorted(
            _mix([1 if sign > 0 else 2, visit(part)]) for part, sign in terms
        )
        return _mix([code, *parts])

    return visit(expression)


@functools.cache
def held_out_hashes() -> frozenset[int]:
    """Return the hashes of the formulas that training must not see."""
    file = resources.files("sr4mdl.corpus").joinpath("held_out.json")
    data = json.loads(file.read_text())
    return frozenset(int(text, 16) for text in data["hashes"])
