"""Products and sums as powers of bases, and how they are written.

The small algebra under ``conventions``: a formula taken apart into a number, powers,
roots and exponentials, or into the terms of a sum, and put together again in the order
in which people write it. It decides nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from sr4mdl.expressions import Expression, apply, constant
from sr4mdl.selection.bits import nearest_short
from sr4mdl.selection.tidying import tidy

_MAX_EXPONENT: Final = 64.0

Powers = dict[Expression, float]
"""Bases with their exponents."""


class RangeError(ArithmeticError):
    """A number of the rewritten form would leave the range of floats."""


def power_of(number: float, exponent: float) -> float:
    """Return a power of a number; raises RangeError where there is none."""
    try:
        return math.pow(number, exponent)
    except (OverflowError, ValueError) as error:
        raise RangeError from error


@dataclass(slots=True)
class Product:
    """A number times powers, roots of products, and exponentials."""

    number: float = 1.0
    """The numeric factor."""
    powers: Powers = field(default_factory=dict)
    """Bases that are no products themselves, with whole or half exponents."""
    roots: list[tuple["Product", float]] = field(default_factory=list)
    """Radicands with exponents that are odd multiples of one half."""
    exponentials: list[tuple[Expression, float]] = field(default_factory=list)
    """What is in the exponent, and the power of the exponential."""

    @classmethod
    def of(cls, expression: Expression) -> Self:
        """Return a formula taken apart; one that is no product is its own base."""
        product = cls()
        product.multiply(expression, 1.0)
        return product

    def multiply(self, node: Expression, exponent: float) -> None:
        """Multiply by a formula to a whole power."""
        name = operator_name(node)
        arguments = node.arguments
        if node.value is not None and node.value != 0.0:
            self.number *= power_of(node.value, exponent)
        elif name == "mul":
            self.multiply(arguments[0], exponent)
            self.multiply(arguments[1], exponent)
        elif name == "div":
            self.multiply(arguments[0], exponent)
            self.multiply(arguments[1], -exponent)
        elif name == "neg":
            self.number *= (-1.0) ** exponent
            self.multiply(arguments[0], exponent)
        elif name == "exp":
            self.exponentials.append((arguments[0], exponent))
        else:
            self._multiply_power(node, exponent)

    def _multiply_power(self, node: Expression, exponent: float) -> None:
        base, inner = _as_power(node)
        total = inner * exponent
        if inner == 1.0 or abs(total) > _MAX_EXPONENT:
            self.put(node, exponent)
        elif operator_name(base) == "exp":
            self.exponentials.append((base.arguments[0], total))
        elif inner.is_integer():
            self.multiply(base, total)
        elif (2.0 * inner).is_integer():
            if total.is_integer():
                self.multiply(base, total)
            else:
                self.roots.append((Product.of(base), total))
        else:
            self.put(node, exponent)

    def put(self, base: Expression, exponent: float) -> None:
        """Multiply by a power of a base that is no product itself."""
        _add_power(self.powers, base, exponent)

    def bases(self) -> Iterable[Expression]:
        """Iterate over what the product is made of."""
        yield from self.powers
        for radicand, _ in self.roots:
            yield from radicand.bases()
        for inside, _ in self.exponentials:
            yield inside


def _add_power(powers: Powers, base: Expression, exponent: float) -> None:
    """Multiply powers by another; a base keeps its place."""
    total = powers.get(base, 0.0) + exponent
    if total != 0.0:
        powers[base] = total
    else:
        powers.pop(base, None)


def operator_name(node: Expression) -> str:
    """Return the name of a formula's operator; empty for a variable or number."""
    return "" if node.operator is None else node.operator.name


_POWERS: Final = {"inv": -1.0, "square": 2.0, "cube": 3.0, "sqrt": 0.5}


def _as_power(node: Expression) -> tuple[Expression, float]:
    """Return base and exponent of a numeric power; exponent 1 for anything else."""
    name = operator_name(node)
    if name in _POWERS:
        return node.arguments[0], _POWERS[name]
    if name == "pow":
        base, power = node.arguments
        if power.value is not None:
            return base, power.value
        if operator_name(power) == "div":
            above, below = (argument.value for argument in power.arguments)
            if above is not None and below:
                return base, above / below
    return node, 1.0


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a sum: a number times powers."""

    number: float
    """The coefficient."""
    powers: Powers
    """Bases with exponents; empty for a number."""

    def divided(self, base: Expression, exponent: float) -> "Term":
        """Return the term over a power."""
        powers = dict(self.powers)
        _add_power(powers, base, -exponent)
        return Term(self.number, powers)

    def write(self) -> Expression:
        """Return the term as a formula."""
        return _lay_out(self.number, self.powers)


def terms_of(expression: Expression, factor: float = 1.0) -> list[Term] | None:
    """Return the terms of a sum, numbers multiplied out; None if it is none.

    A term with roots or exponentials in it is kept whole, as one base.
    """
    name = operator_name(expression)
    if name in ("add", "sub"):
        first, second = expression.arguments
        left = terms_of(first, factor) or [_term(first, factor)]
        opposite = -factor if name == "sub" else factor
        return left + (terms_of(second, opposite) or [_term(second, opposite)])
    if name == "neg":
        return terms_of(expression.arguments[0], -factor)
    if name == "mul":
        for number, rest in (expression.arguments, expression.arguments[::-1]):
            if number.value is not None and number.value != 0.0:
                return terms_of(rest, factor * number.value)
    return None


def _term(expression: Expression, factor: float) -> Term:
    product = Product.of(expression)
    if not product.roots and not product.exponentials:
        return Term(product.number * factor, product.powers)
    if expression.value is not None:
        return Term(expression.value * factor, {})
    return Term(factor, {expression: 1.0})


def is_sum(expression: Expression) -> bool:
    """Return whether a formula has terms."""
    return terms_of(expression) is not None


def times(inside: Expression, power: float) -> Expression:
    """Return a formula times a positive number."""
    if power == 1.0:
        return inside
    if (1.0 / power).is_integer():
        return apply("div", inside, 1.0 / power)
    return tidy(apply("mul", power, inside))


def raised(base: Expression, exponent: float) -> Expression:
    """Return a positive power, halves as fractions."""
    for name, power in _POWERS.items():
        if exponent == power:
            return apply(name, base)
    if exponent == 1.0:
        return base
    if not exponent.is_integer() and (2.0 * exponent).is_integer():
        return apply("pow", base, apply("div", 2.0 * exponent, 2.0))
    return apply("pow", base, exponent)


def write_radicand(radicand: Product) -> Expression:
    """Return what stands under a root; exponentials must have been taken out."""
    above = [raised(base, e) for base, e in radicand.powers.items() if e > 0.0]
    below = [raised(base, -e) for base, e in radicand.powers.items() if e < 0.0]
    for inner, power in radicand.roots:
        root = raised(write_radicand(inner), abs(power))
        (above if power > 0.0 else below).append(root)
    return quotient(radicand.number, above, below)


def _lay_out(number: float, powers: Powers) -> Expression:
    """Return a number times powers; squares alone are written as one square."""
    if len(powers) > 1 and all(abs(power) == 2.0 for power in powers.values()):
        above = [base for base, power in powers.items() if power > 0.0]
        below = [base for base, power in powers.items() if power < 0.0]
        if above:
            inside = quotient(1.0, above, below)
            return quotient(number, [apply("square", inside)], [])
    return quotient(
        number,
        [raised(base, power) for base, power in powers.items() if power > 0.0],
        [raised(base, -power) for base, power in powers.items() if power < 0.0],
    )


def quotient(
    number: float, above: list[Expression], below: list[Expression]
) -> Expression:
    """Return a number times the factors above over those below the line.

    Raises
    ------
    RangeError
        If the number is 0 or not finite.
    """
    if number == 0.0 or not math.isfinite(number):
        raise RangeError
    number = nearest_short(number)
    size = abs(number)
    if size != 1.0 or not (above or below):
        above = [constant(size), *above]
    if not below:
        result = _chain(above)
    elif not above:
        result = apply("inv", _chain(below))
    else:
        result = apply("div", _chain(above), _chain(below))
    return result if number > 0.0 else negated(result)


def negated(expression: Expression) -> Expression:
    """Return a formula with the opposite sign, a minus at its first factor."""
    name, arguments = operator_name(expression), expression.arguments
    if name in ("mul", "div"):
        return apply(name, negated(arguments[0]), arguments[1])
    if name == "neg":
        return arguments[0]
    if name == "sub":
        return apply("sub", arguments[1], arguments[0])
    if expression.value is not None:
        return constant(-expression.value)
    return apply("neg", expression)


def _chain(factors: list[Expression]) -> Expression:
    result = factors[0]
    for factor in factors[1:]:
        result = apply("mul", result, factor)
    return result


def write_sum(terms: list[Term]) -> Expression:
    """Return a sum with the terms that are added before those taken away."""
    added = [term for term in terms if term.number > 0.0]
    taken = [term for term in terms if term.number < 0.0]
    total: Expression | None = None
    for term in added:
        written = term.write()
        total = written if total is None else apply("add", total, written)
    for term in taken:
        if total is None:
            total = term.write()
        else:
            positive = Term(-term.number, term.powers)
            total = apply("sub", total, positive.write())
    return constant(0.0) if total is None else total
