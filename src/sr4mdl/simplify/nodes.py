"""Nodes of the normal form: what the algebra computes with.

A node is a number, a variable, a flattened sum ``value + sum(c * term)``, a flattened
product ``value * prod(base ** e)`` with numeric exponents, or a function of nodes.
Its ``key`` is a text that says all about its structure: equal keys mean equal nodes,
and sorting by key gives the same order in every process. Interning is only a cache.

This module owns the shape of nodes and their signs; which node to make is decided
in ``arithmetic`` and ``functions``.
"""

import math
from typing import Any, Final

from sr4mdl.operators import Operator

NUMBER: Final = 0
VARIABLE: Final = 1
SUM: Final = 2
PRODUCT: Final = 3
FUNCTION: Final = 4

# Signs that a node can have where it is defined, as bits.
POSITIVE: Final = 1
ZERO: Final = 2
NEGATIVE: Final = 4
ANY_SIGN: Final = 7
NONNEGATIVE: Final = POSITIVE | ZERO

MAX_DEPTH: Final = 80
MAX_KEY: Final = 20_000
MAX_CACHED: Final = 20_000

# Results beyond these bounds would lose digits or overflow: such folding is refused.
_SMALLEST: Final = 1e-290
_LARGEST: Final = 1e290


class UnfitError(ArithmeticError):
    """The algebra refuses: a number is undefined or leaves the safe range."""


class TooLargeError(ArithmeticError):
    """The formula is nested too deep or too long for the algebra."""


Plan = tuple[int, Operator | None, Any, Any]
"""How to write a node: length, operator and its one or two plans; a name or number
without an operator."""

Terms = tuple[tuple["Node", float], ...]


class Node:
    """One node; see the module. Treat as immutable but for the caches at the end."""

    __slots__ = (
        "arguments",
        "content",
        "depth",
        "key",
        "kind",
        "name",
        "negative_plan",
        "operator",
        "plan",
        "sign",
        "terms",
        "unit",
        "value",
    )

    kind: int
    key: str
    value: float
    """The number, the constant of a sum or the coefficient of a product."""
    name: str
    """Name of the variable or of the function's operator."""
    terms: Terms
    """Terms with coefficients of a sum, bases with exponents of a product."""
    operator: Operator | None
    arguments: tuple["Node", ...]
    sign: int
    depth: int
    plan: Plan | None
    negative_plan: Plan | None
    unit: "Node | None"
    """The product without its coefficient."""
    content: "tuple[float, Terms, Node] | None"
    """The sum as number * monomial * primitive sum."""

    def __repr__(self) -> str:
        return f"Node({self.key})"


_nodes: dict[str, Node] = {}


def clear_cache_if_large() -> bool:
    """Forget cached nodes once there are many; returns whether it did."""
    if len(_nodes) < MAX_CACHED:
        return False
    _nodes.clear()
    return True


def _make(kind: int, key: str, value: float, name: str, terms: Terms) -> Node:
    node = Node()
    node.kind = kind
    node.key = key
    node.value = value
    node.name = name
    node.terms = terms
    node.operator = None
    node.arguments = ()
    node.plan = node.negative_plan = node.unit = node.content = None
    return node


def sign_of_number(value: float) -> int:
    """Return the sign bit of a number."""
    return POSITIVE if value > 0.0 else NEGATIVE if value < 0.0 else ZERO


def number(value: float) -> Node:
    """Return the node of a finite number."""
    if not math.isfinite(value):
        raise UnfitError("not finite")
    value += 0.0  # -0.0 becomes 0.0
    key = f"#{value!r}"
    node = _nodes.get(key)
    if node is None:
        node = _make(NUMBER, key, value, "", ())
        node.sign = sign_of_number(value)
        node.depth = 0
        _nodes[key] = node
    return node


def variable(name: str) -> Node:
    """Return the node of a variable."""
    key = f"`{name}`"
    node = _nodes.get(key)
    if node is None:
        node = _make(VARIABLE, key, 0.0, name, ())
        node.sign = ANY_SIGN
        node.depth = 0
        _nodes[key] = node
    return node


def _register(node: Node, depth: int) -> Node:
    """Cache a node; ``depth`` is that of its deepest part."""
    node.depth = depth + 1
    if depth >= MAX_DEPTH or len(node.key) > MAX_KEY:
        raise TooLargeError
    _nodes[node.key] = node
    return node


def add_signs(first: int, second: int) -> int:
    """Return the signs that a sum of two parts with these signs can have."""
    if first == ZERO:
        return second
    if second == ZERO:
        return first
    both = first | second
    if both & POSITIVE and both & NEGATIVE:
        return ANY_SIGN
    # Zero only if both can be zero.
    return (both & ~ZERO) | (first & second & ZERO)


def flip_sign(sign: int) -> int:
    """Return the signs of the negated thing."""
    return (sign & ZERO) | ((sign & POSITIVE) << 2) | ((sign & NEGATIVE) >> 2)


def multiply_signs(first: int, second: int) -> int:
    """Return the signs that a product of two factors with these signs can have."""
    result = (first | second) & ZERO
    if second & POSITIVE:
        result |= first & ~ZERO
    if second & NEGATIVE:
        result |= flip_sign(first) & ~ZERO
    return result


def is_whole(exponent: float) -> bool:
    """Return whether an exponent is a whole number."""
    return exponent == math.floor(exponent)


def is_even(exponent: float) -> bool:
    """Return whether an exponent is an even whole number."""
    return exponent % 2.0 == 0.0


def power_sign(base: Node, exponent: float) -> int:
    """Return the signs of a node to a numeric power."""
    sign = base.sign
    if exponent < 0.0:
        sign &= ~ZERO
    if is_even(exponent):
        return (sign & ~NEGATIVE) | (POSITIVE if sign & NEGATIVE else 0)
    if is_whole(exponent):
        return sign
    return sign & ~NEGATIVE


def sum_node(value: float, terms: Terms) -> Node:
    """Return the node of a sum in normal form: sorted, two parts or more."""
    value += 0.0  # -0.0 becomes 0.0
    parts = [f"{coefficient!r}{term.key}" for term, coefficient in terms]
    key = f"[{'+'.join(parts)}+{value!r}]"
    node = _nodes.get(key)
    if node is None:
        node = _make(SUM, key, value, "", terms)
        sign = sign_of_number(value)
        depth = 0
        for term, coefficient in terms:
            if term.depth > depth:
                depth = term.depth
            if sign != ANY_SIGN:
                part = term.sign if coefficient > 0.0 else flip_sign(term.sign)
                sign = add_signs(sign, part)
        node.sign = sign
        _register(node, depth)
    return node


def product_node(value: float, factors: Terms) -> Node:
    """Return the node of a product in normal form: sorted, no zero coefficient."""
    parts = [
        base.key if exponent == 1.0 else f"{base.key}^{exponent!r}"
        for base, exponent in factors
    ]
    key = f"{{{'*'.join(parts)}*{value!r}}}"
    node = _nodes.get(key)
    if node is None:
        node = _make(PRODUCT, key, value, "", factors)
        sign = sign_of_number(value)
        depth = 0
        for base, exponent in factors:
            if base.depth > depth:
                depth = base.depth
            if sign != ANY_SIGN:
                sign = multiply_signs(sign, power_sign(base, exponent))
        node.sign = sign
        _register(node, depth)
    return node


def detached(node: Node) -> Node:
    """Return a copy that is not cached, to be given a plan of its own."""
    copy = _make(node.kind, node.key, node.value, node.name, node.terms)
    copy.operator = node.operator
    copy.arguments = node.arguments
    copy.sign = node.sign
    copy.depth = node.depth
    return copy


# Registered operators can come and go under one name: each gets a number of its own.
_serials: dict[Operator, int] = {}


def function_node(operator: Operator, *arguments: Node, sign: int = ANY_SIGN) -> Node:
    """Return the node of an operator applied as it is, without algebra."""
    name = operator.name
    if not operator.builtin:
        name = f"{name}@{_serials.setdefault(operator, len(_serials))}"
    key = f"{name}({','.join([argument.key for argument in arguments])})"
    node = _nodes.get(key)
    if node is None:
        node = _make(FUNCTION, key, 0.0, operator.name, ())
        node.operator = operator
        node.arguments = arguments
        node.sign = sign
        _register(node, max([argument.depth for argument in arguments]))
    return node


def checked(value: float) -> float:
    """Return a computed number, refusing what overflowed or came near to it."""
    if value == 0.0:
        return 0.0
    if not _SMALLEST < abs(value) < _LARGEST:
        raise UnfitError("out of range")
    return value


def times(first: float, second: float) -> float:
    """Return the product of two numbers; a result that underflows is refused."""
    if first == 1.0:
        return second
    if second == 1.0:
        return first
    if first == -1.0:
        return -second
    if second == -1.0:
        return -first
    value = first * second
    if value == 0.0 and (first == 0.0 or second == 0.0):
        return 0.0
    if not _SMALLEST < abs(value) < _LARGEST:
        raise UnfitError("out of range")
    return value


def plus(first: float, second: float) -> float:
    """Return the sum of two numbers, refusing overflow."""
    value = first + second
    if not -_LARGEST < value < _LARGEST:
        if first == 0.0 or second == 0.0:
            return value
        raise UnfitError("out of range")
    return value


def number_power(base: float, exponent: float) -> float:
    """Return the power of two numbers, where it is defined and in range."""
    if exponent == 1.0:
        return base
    if base == 1.0:
        return 1.0
    try:
        value = base**exponent
    except (ZeroDivisionError, OverflowError) as error:
        raise UnfitError("undefined power") from error
    if isinstance(value, complex):
        raise UnfitError("undefined power")
    if value == 0.0 and base == 0.0:
        return 0.0
    if not _SMALLEST < abs(value) < _LARGEST:
        raise UnfitError("out of range")
    return float(value)


def snap_exponent(exponent: float) -> float:
    """Return an exponent without the last-digit noise of sums such as 0.1 + 0.2."""
    if exponent == math.floor(exponent):
        return exponent
    rounded = round(exponent, 12)
    if rounded and abs(rounded - exponent) <= 4.5e-16 * max(1.0, abs(exponent)):
        return rounded
    return exponent
