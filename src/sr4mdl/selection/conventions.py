"""The last rewrite of an answer: the form that people write, by the signs of the data.

The search ranks forms by their bits, and forms of one formula differ by a bit or two:
``c/sqrt(c^2 - v^2)`` and ``1/sqrt(1 - (v/c)^2)`` are equal where c is positive. Among
such forms this module takes the conventional one. Only products are rewritten, and
only where one of these rules applies; everything else stays as it was found.

- One exponential per product, powers inside: ``exp(-t^2/2)``, not ``1/sqrt(exp(t^2))``.
- The root of a difference has a leading term free of what stands outside: a factor
  that cancels goes in, so that the root holds 1 minus a ratio. A root of a sum of
  squares is a length and stays.
- A common number comes out of a root if that saves bits, and so does a square or a
  higher power of something positive: ``x^(3/2)``, not ``sqrt(x^3)``.
- No absolute value around what is never negative.

A rule that is valid for positive numbers only looks at the values on the data; a
column with a zero or with both signs is left alone. The result is compared with the
original on every row, and dropped if it differs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.evaluate import evaluate
from sr4mdl.expressions import Expression, apply, constant
from sr4mdl.selection.bits import constant_bits, nearest_short
from sr4mdl.selection.tidying import tidy

TOLERANCE: Final = 1e-12
"""Largest difference that a rewrite may make, relative to the size of the values."""
MAX_MULTIPLE: Final = 12
"""Largest whole number left in a root after a common number has come out."""
MAX_DEPTH: Final = 100
"""Formulas nested deeper stay as they are."""
_MAX_EXPONENT: Final = 64.0

Powers = dict[Expression, float]
"""Bases with their exponents."""


def conventional(
    expression: Expression, X: FloatArray, names: Sequence[str]
) -> Expression:
    """Return the form of a formula that people would write.

    Parameters
    ----------
    expression : Expression
        The formula.
    X : ndarray of shape (n_rows, n_columns)
        The data: where the forms have to agree, and whose signs count.
    names : sequence of str
        Names of the columns.

    Returns
    -------
    Expression
        A formula with the same values on the data, to ``TOLERANCE``; the given one
        if no rule applies.

    Examples
    --------
    >>> from sr4mdl import parse
    >>> X = np.array([[3.0, 1.0], [4.0, 2.0]])
    >>> str(conventional(parse("c/sqrt(c^2 - v^2)"), X, ["c", "v"]))
    '1/sqrt(1 - (v/c)^2)'
    >>> str(conventional(parse("c/sqrt(c^2 - v^2)"), -X, ["c", "v"]))
    'c/sqrt(c^2 - v^2)'
    """
    if expression.depth > MAX_DEPTH:
        return expression
    data = _Data(X, names)
    try:
        written = _Writer(data).write(expression)
    except _RangeError:
        return expression
    if written is expression:
        return expression
    before, after = data.values(expression), data.values(written)
    if not np.all(np.isfinite(after)):
        return expression
    allowed = TOLERANCE * np.maximum(np.abs(before), np.median(np.abs(before)))
    return written if np.all(np.abs(after - before) <= allowed) else expression


class _RangeError(ArithmeticError):
    """A number of the rewritten form would leave the range of floats."""


def _power(number: float, exponent: float) -> float:
    try:
        return math.pow(number, exponent)
    except (OverflowError, ValueError) as error:
        raise _RangeError from error


class _Data:
    """Signs of formulas on the data."""

    def __init__(self, X: FloatArray, names: Sequence[str]) -> None:
        self.X = X
        self.names = names
        self._bounds: dict[Expression, tuple[float, float]] = {}

    def values(self, expression: Expression) -> FloatArray:
        with np.errstate(all="ignore"):
            result = evaluate([expression], self.X, self.names, backend="numpy")
        values: FloatArray = result.values[0]
        return values

    def bounds(self, expression: Expression) -> tuple[float, float]:
        """Return the least and the greatest value; NaN if one is not finite."""
        if expression not in self._bounds:
            values = self.values(expression)
            finite = bool(np.all(np.isfinite(values)))
            self._bounds[expression] = (
                (float(np.min(values)), float(np.max(values)))
                if finite
                else (math.nan, math.nan)
            )
        return self._bounds[expression]

    def positive(self, expression: Expression) -> bool:
        return self.bounds(expression)[0] > 0.0

    def never_negative(self, expression: Expression) -> bool:
        return self.bounds(expression)[0] >= 0.0

    def never_positive(self, expression: Expression) -> bool:
        return self.bounds(expression)[1] <= 0.0


@dataclass(slots=True)
class _Product:
    """A number times powers, roots of products, and exponentials."""

    number: float = 1.0
    powers: Powers = field(default_factory=dict)
    roots: list[tuple["_Product", float]] = field(default_factory=list)
    """Radicands with exponents that are odd multiples of one half."""
    exponentials: list[tuple[Expression, float]] = field(default_factory=list)
    """What is in the exponent, and the power of the exponential."""

    @classmethod
    def of(cls, expression: Expression) -> Self:
        product = cls()
        product.multiply(expression, 1.0)
        return product

    def multiply(self, node: Expression, exponent: float) -> None:
        """Multiply by a formula to a whole power."""
        name = _name(node)
        arguments = node.arguments
        if node.value is not None and node.value != 0.0:
            self.number *= _power(node.value, exponent)
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
        elif _name(base) == "exp":
            self.exponentials.append((base.arguments[0], total))
        elif inner.is_integer():
            self.multiply(base, total)
        elif (2.0 * inner).is_integer():
            if total.is_integer():
                self.multiply(base, total)
            else:
                self.roots.append((_Product.of(base), total))
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


def _name(node: Expression) -> str:
    return "" if node.operator is None else node.operator.name


_POWERS: Final = {"inv": -1.0, "square": 2.0, "cube": 3.0, "sqrt": 0.5}


def _as_power(node: Expression) -> tuple[Expression, float]:
    """Return base and exponent of a numeric power; exponent 1 for anything else."""
    name = _name(node)
    if name in _POWERS:
        return node.arguments[0], _POWERS[name]
    if name == "pow":
        base, power = node.arguments
        if power.value is not None:
            return base, power.value
        if _name(power) == "div":
            above, below = (argument.value for argument in power.arguments)
            if above is not None and below:
                return base, above / below
    return node, 1.0


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a sum: a number times powers."""

    number: float
    powers: Powers

    def divided(self, base: Expression, exponent: float) -> "_Term":
        powers = dict(self.powers)
        _add_power(powers, base, -exponent)
        return _Term(self.number, powers)

    def write(self) -> Expression:
        return _lay_out(self.number, self.powers)


def _terms(expression: Expression, factor: float = 1.0) -> list[_Term] | None:
    """Return the terms of a sum, numbers multiplied out; None if it is none.

    A term with roots or exponentials in it is kept whole, as one base.
    """
    name = _name(expression)
    if name in ("add", "sub"):
        first, second = expression.arguments
        left = _terms(first, factor) or [_term(first, factor)]
        opposite = -factor if name == "sub" else factor
        return left + (_terms(second, opposite) or [_term(second, opposite)])
    if name == "neg":
        return _terms(expression.arguments[0], -factor)
    if name == "mul":
        for number, rest in (expression.arguments, expression.arguments[::-1]):
            if number.value is not None and number.value != 0.0:
                return _terms(rest, factor * number.value)
    return None


def _term(expression: Expression, factor: float) -> _Term:
    product = _Product.of(expression)
    if not product.roots and not product.exponentials:
        return _Term(product.number * factor, product.powers)
    if expression.value is not None:
        return _Term(expression.value * factor, {})
    return _Term(factor, {expression: 1.0})


def _is_sum(expression: Expression) -> bool:
    return _terms(expression) is not None


class _Writer:
    """Rewrites a formula from the top down, one product after the other."""

    def __init__(self, data: _Data) -> None:
        self.data = data
        self._done: dict[Expression, Expression] = {}

    def write(self, node: Expression) -> Expression:
        if node not in self._done:
            self._done[node] = self._write(node)
        return self._done[node]

    def _write(self, node: Expression) -> Expression:
        if node.operator is None:
            return node
        if node.operator.name == "abs":
            inside = self.write(node.arguments[0])
            if self.data.never_negative(inside):
                return inside
            if self.data.never_positive(inside):
                return _negated(inside)
            return apply("abs", inside)
        if node.operator.name == "pow" and _name(node.arguments[0]) == "exp":
            base, power = node.arguments
            return self.write(apply("exp", tidy(base.arguments[0] * power)))
        product = _Product.of(node)
        if product.powers == {node: 1.0}:
            return self._write_arguments(node)
        rewritten = _Rules(product, self.data).apply()
        if rewritten is None:
            return self._write_bases(node, set(product.bases()))
        return self._write_bases(rewritten, set(product.bases()))

    def _write_arguments(self, node: Expression) -> Expression:
        if node.operator is None:
            return node
        return apply(node.operator, *(self.write(part) for part in node.arguments))

    def _write_bases(self, node: Expression, bases: set[Expression]) -> Expression:
        """Return a product in which the bases have been rewritten."""
        if node in bases:
            return self.write(node)
        if node.operator is None:
            return node
        parts = [self._write_bases(part, bases) for part in node.arguments]
        return apply(node.operator, *parts)


class _Rules:
    """Applies the rules to one product, in place."""

    def __init__(self, product: _Product, data: _Data) -> None:
        self.product = product
        self.data = data
        self.changed = False

    def apply(self) -> Expression | None:
        """Return the rewritten product, or None if no rule applies."""
        roots, self.product.roots = self.product.roots, []
        for radicand, exponent in roots:
            self._open_root(radicand, exponent)
            exponent = self._turn(radicand, exponent)
            if radicand.powers or radicand.roots:
                self._take_number_out(radicand, exponent)
                self.product.roots.append((radicand, exponent))
            else:
                self._multiply_number(radicand.number, exponent)
        for place in range(len(self.product.roots)):
            self._fold(place)
        inside = self._exponent()
        return self._write(inside) if self.changed else None

    def _multiply_number(self, number: float, exponent: float) -> None:
        self.product.number *= _power(number, exponent)
        self.changed = True

    def _open_root(self, radicand: _Product, exponent: float) -> None:
        """Take exponentials and high powers of positive bases out of a root."""
        for inside, power in radicand.exponentials:
            self.product.exponentials.append((inside, power * exponent))
            self.changed = True
        radicand.exponentials = []
        for base, power in list(radicand.powers.items()):
            if abs(power) >= 2.0 and power.is_integer() and self.data.positive(base):
                del radicand.powers[base]
                self.product.put(base, power * exponent)
                self.changed = True

    def _turn(self, radicand: _Product, exponent: float) -> float:
        """Write the root of an inverse as the inverse of a root."""
        if radicand.roots or radicand.number != 1.0 or not radicand.powers:
            return exponent
        if any(power > 0.0 for power in radicand.powers.values()):
            return exponent
        radicand.powers = {base: -power for base, power in radicand.powers.items()}
        self.changed = True
        return -exponent

    def _take_number_out(self, radicand: _Product, exponent: float) -> None:
        """Take a number common to all terms of a sum out of a root."""
        place = _only_sum(radicand)
        if place is None or len(radicand.powers) > 1 or radicand.roots:
            return
        terms = _terms(place)
        assert terms is not None
        sign = radicand.powers[place]
        scale = _power(radicand.number, sign)
        numbers = [term.number * scale for term in terms]
        common = min(abs(number) for number in numbers)
        multiples = [nearest_short(number / common) for number in numbers]
        if any(
            abs(multiple) > MAX_MULTIPLE or not multiple.is_integer()
            for multiple in multiples
        ):
            return
        outside = nearest_short(_power(common, sign * exponent))
        before = sum(constant_bits(nearest_short(number)) for number in numbers)
        after = sum(constant_bits(multiple) for multiple in multiples)
        if after + constant_bits(outside) >= before:
            return
        inside = _write_sum(
            [
                _Term(multiple, term.powers)
                for multiple, term in zip(multiples, terms, strict=True)
            ]
        )
        radicand.number = 1.0
        radicand.powers = {inside: sign}
        self.product.number *= outside
        self.changed = True

    def _fold(self, place: int) -> None:
        """Move factors that cancel into a root of a sum."""
        radicand, exponent = self.product.roots[place]
        inside = _only_sum(radicand)
        if inside is None or radicand.roots or radicand.number < 0.0:
            return
        others = {base: p for base, p in radicand.powers.items() if base is not inside}
        if not all(self.data.positive(base) for base in others):
            return
        terms = _terms(inside)
        assert terms is not None
        leading = self._leading(terms)
        if leading == []:
            return
        exponent_of_sum = exponent * radicand.powers[inside]
        for base in _bases_of(terms):
            if not self.data.positive(base):
                continue
            common = _common_exponent(base, leading or _containing(base, terms))
            outside = self.product.powers.get(base, 0.0)
            outside += exponent * others.get(base, 0.0)
            moved = common * exponent_of_sum
            if moved == 0.0:
                continue
            factor = self._outer_sum(base, outside + moved)
            if factor is not None:
                self._divide_outer_sum(factor, base, -(outside + moved))
            elif abs(outside + moved) >= (abs(outside) if leading else 1e-9):
                continue
            terms = [term.divided(base, common) for term in terms]
            if leading is not None:
                leading = [term.divided(base, common) for term in leading]
            others.pop(base, None)
            if factor is None and outside + moved != 0.0:
                self.product.powers[base] = outside + moved
            else:
                self.product.powers.pop(base, None)
            radicand.powers = {**others, _write_sum(terms): radicand.powers[inside]}
            inside = _only_sum(radicand)
            self.changed = True
            if inside is None:
                return

    def _leading(self, terms: list[_Term]) -> list[_Term] | None:
        """Return the terms from which others are taken away.

        None for a sum without minus; an empty list where nothing may be folded.
        """
        positive: list[_Term] = []
        negative: list[_Term] = []
        for term in terms:
            written = term.write()
            if self.data.never_negative(written):
                positive.append(term)
            elif self.data.never_positive(written) and term.powers:
                negative.append(term)
            else:
                return []
        if negative:
            return positive
        if all(
            power % 2.0 == 0.0 and term.number == 1.0
            for term in terms
            for power in term.powers.values()
        ):
            return []
        return None

    def _outer_sum(self, base: Expression, missing: float) -> Expression | None:
        """Return the sum outside that can give the factor which a root lacks.

        It must contain the base less often afterwards.
        """
        if missing == 0.0:
            return None
        for factor, power in self.product.powers.items():
            terms = _terms(factor) if abs(power) == 1.0 else None
            if terms is None:
                continue
            exponents = [term.powers.get(base, 0.0) for term in terms]
            given = -missing * power
            n_before = sum(exponent != 0.0 for exponent in exponents)
            n_after = sum(exponent != given for exponent in exponents)
            if n_after < n_before:
                return factor
        return None

    def _divide_outer_sum(
        self, factor: Expression, base: Expression, exponent: float
    ) -> None:
        power = self.product.powers.pop(factor)
        terms = _terms(factor)
        assert terms is not None
        divided = [term.divided(base, exponent * power) for term in terms]
        self.product.put(_write_sum(divided), power)

    def _exponent(self) -> Expression | None:
        """Return what stands in the one exponential, if there is any."""
        exponentials = self.product.exponentials
        if not exponentials:
            return None
        if len(exponentials) > 1 or exponentials[0][1] != 1.0:
            self.changed = True
        total = None
        for inside, power in exponentials:
            part = _times(inside, abs(power))
            if total is None:
                total = _negated(part) if power < 0.0 else part
            else:
                total = apply("sub" if power < 0.0 else "add", total, part)
        return None if total is None else tidy(total)

    def _write(self, exponent: Expression | None) -> Expression:
        product = self.product
        above = [_raised(base, e) for base, e in product.powers.items() if e > 0.0]
        below = [_raised(base, -e) for base, e in product.powers.items() if e < 0.0]
        if exponent is not None:
            above.append(apply("exp", exponent))
        for radicand, power in product.roots:
            root = _raised(_write_radicand(radicand), abs(power))
            (above if power > 0.0 else below).append(root)
        return _quotient(product.number, above, below)


def _only_sum(radicand: _Product) -> Expression | None:
    """Return the one sum among the factors of a radicand."""
    sums = [
        base
        for base, power in radicand.powers.items()
        if abs(power) == 1.0 and _is_sum(base)
    ]
    return sums[0] if len(sums) == 1 else None


def _bases_of(terms: list[_Term]) -> list[Expression]:
    found = dict.fromkeys(base for term in terms for base in term.powers)
    return list(found)


def _containing(base: Expression, terms: list[_Term]) -> list[_Term]:
    return [term for term in terms if base in term.powers]


def _common_exponent(base: Expression, terms: list[_Term]) -> float:
    """Return the exponent that a base has in all terms, 0 if they differ."""
    exponents = {term.powers.get(base, 0.0) for term in terms}
    return exponents.pop() if len(exponents) == 1 else 0.0


def _times(inside: Expression, power: float) -> Expression:
    if power == 1.0:
        return inside
    if (1.0 / power).is_integer():
        return apply("div", inside, 1.0 / power)
    return tidy(apply("mul", power, inside))


def _raised(base: Expression, exponent: float) -> Expression:
    """Return a positive power, halves as fractions."""
    for name, power in _POWERS.items():
        if exponent == power:
            return apply(name, base)
    if exponent == 1.0:
        return base
    if not exponent.is_integer() and (2.0 * exponent).is_integer():
        return apply("pow", base, apply("div", 2.0 * exponent, 2.0))
    return apply("pow", base, exponent)


def _write_radicand(radicand: _Product) -> Expression:
    above = [_raised(base, e) for base, e in radicand.powers.items() if e > 0.0]
    below = [_raised(base, -e) for base, e in radicand.powers.items() if e < 0.0]
    for inner, power in radicand.roots:
        root = _raised(_write_radicand(inner), abs(power))
        (above if power > 0.0 else below).append(root)
    return _quotient(radicand.number, above, below)


def _lay_out(number: float, powers: Powers) -> Expression:
    """Return a number times powers; squares alone are written as one square."""
    if len(powers) > 1 and all(abs(power) == 2.0 for power in powers.values()):
        above = [base for base, power in powers.items() if power > 0.0]
        below = [base for base, power in powers.items() if power < 0.0]
        if above:
            inside = _quotient(1.0, above, below)
            return _quotient(number, [apply("square", inside)], [])
    return _quotient(
        number,
        [_raised(base, power) for base, power in powers.items() if power > 0.0],
        [_raised(base, -power) for base, power in powers.items() if power < 0.0],
    )


def _quotient(
    number: float, above: list[Expression], below: list[Expression]
) -> Expression:
    if number == 0.0 or not math.isfinite(number):
        raise _RangeError
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
    return result if number > 0.0 else _negated(result)


def _negated(expression: Expression) -> Expression:
    """Return a formula with the opposite sign, a minus at its first factor."""
    name, arguments = _name(expression), expression.arguments
    if name in ("mul", "div"):
        return apply(name, _negated(arguments[0]), arguments[1])
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


def _write_sum(terms: list[_Term]) -> Expression:
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
            positive = _Term(-term.number, term.powers)
            total = apply("sub", total, positive.write())
    return constant(0.0) if total is None else total
