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
- No minus in front of a product with a difference in it: ``4*(1 - cos(t))``, not
  ``-4*(cos(t) - 1)``.
- No absolute value around what is never negative.

A rule that is valid for positive numbers only looks at the values on the data; a
column with a zero or with both signs is left alone. The result is compared with the
original on every row, and dropped if it differs.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.evaluate import evaluate
from sr4mdl.expressions import Expression, apply
from sr4mdl.selection.bits import constant_bits, nearest_short
from sr4mdl.selection.products import (
    Product,
    RangeError,
    Term,
    is_sum,
    negated,
    operator_name,
    power_of,
    quotient,
    raised,
    terms_of,
    times,
    write_radicand,
    write_sum,
)
from sr4mdl.selection.tidying import tidy

TOLERANCE: Final = 1e-12
"""Largest difference that a rewrite may make, relative to the size of the values."""
MAX_MULTIPLE: Final = 12
"""Largest whole number left in a root after a common number has come out."""
MAX_DEPTH: Final = 100
"""Formulas nested deeper stay as they are."""


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
    except RangeError:
        return expression
    if written is expression:
        return expression
    before, after = data.values(expression), data.values(written)
    if not np.all(np.isfinite(after)):
        return expression
    allowed = TOLERANCE * np.maximum(np.abs(before), np.median(np.abs(before)))
    return written if np.all(np.abs(after - before) <= allowed) else expression


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
                return negated(inside)
            return apply("abs", inside)
        if node.operator.name == "pow" and operator_name(node.arguments[0]) == "exp":
            base, power = node.arguments
            return self.write(apply("exp", tidy(base.arguments[0] * power)))
        product = Product.of(node)
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

    def __init__(self, product: Product, data: _Data) -> None:
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
        self._spend_minus()
        inside = self._exponent()
        return self._write(inside) if self.changed else None

    def _multiply_number(self, number: float, exponent: float) -> None:
        self.product.number *= power_of(number, exponent)
        self.changed = True

    def _open_root(self, radicand: Product, exponent: float) -> None:
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

    def _turn(self, radicand: Product, exponent: float) -> float:
        """Write the root of an inverse as the inverse of a root."""
        if radicand.roots or radicand.number != 1.0 or not radicand.powers:
            return exponent
        if any(power > 0.0 for power in radicand.powers.values()):
            return exponent
        radicand.powers = {base: -power for base, power in radicand.powers.items()}
        self.changed = True
        return -exponent

    def _take_number_out(self, radicand: Product, exponent: float) -> None:
        """Take a number common to all terms of a sum out of a root."""
        place = _only_sum(radicand)
        if place is None or len(radicand.powers) > 1 or radicand.roots:
            return
        terms = terms_of(place)
        assert terms is not None
        sign = radicand.powers[place]
        scale = power_of(radicand.number, sign)
        numbers = [term.number * scale for term in terms]
        common = min(abs(number) for number in numbers)
        multiples = [nearest_short(number / common) for number in numbers]
        if any(
            abs(multiple) > MAX_MULTIPLE or not multiple.is_integer()
            for multiple in multiples
        ):
            return
        outside = nearest_short(power_of(common, sign * exponent))
        before = sum(constant_bits(nearest_short(number)) for number in numbers)
        after = sum(constant_bits(multiple) for multiple in multiples)
        if after + constant_bits(outside) >= before:
            return
        inside = write_sum(
            [
                Term(multiple, term.powers)
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
        terms = terms_of(inside)
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
            radicand.powers = {**others, write_sum(terms): radicand.powers[inside]}
            inside = _only_sum(radicand)
            self.changed = True
            if inside is None:
                return

    def _leading(self, terms: list[Term]) -> list[Term] | None:
        """Return the terms from which others are taken away.

        None for a sum without minus; an empty list where nothing may be folded.
        """
        positive: list[Term] = []
        negative: list[Term] = []
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
            terms = terms_of(factor) if abs(power) == 1.0 else None
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
        terms = terms_of(factor)
        assert terms is not None
        divided = [term.divided(base, exponent * power) for term in terms]
        self.product.put(write_sum(divided), power)

    def _spend_minus(self) -> None:
        """Turn a difference around instead of writing a minus before the product."""
        powers = self.product.powers
        if self.product.number > 0.0:
            return
        for base, power in powers.items():
            turned = negated(base)
            if operator_name(base) == "sub" and power % 2.0 and turned not in powers:
                self.product.powers = {
                    turned if other is base else other: exponent
                    for other, exponent in powers.items()
                }
                self.product.number = -self.product.number
                self.changed = True
                return

    def _exponent(self) -> Expression | None:
        """Return what stands in the one exponential, if there is any."""
        exponentials = self.product.exponentials
        if not exponentials:
            return None
        if len(exponentials) > 1 or exponentials[0][1] != 1.0:
            self.changed = True
        total = None
        for inside, power in exponentials:
            part = times(inside, abs(power))
            if total is None:
                total = negated(part) if power < 0.0 else part
            else:
                total = apply("sub" if power < 0.0 else "add", total, part)
        return None if total is None else tidy(total)

    def _write(self, exponent: Expression | None) -> Expression:
        product = self.product
        above = [raised(base, e) for base, e in product.powers.items() if e > 0.0]
        below = [raised(base, -e) for base, e in product.powers.items() if e < 0.0]
        if exponent is not None:
            above.append(apply("exp", exponent))
        for radicand, power in product.roots:
            root = raised(write_radicand(radicand), abs(power))
            (above if power > 0.0 else below).append(root)
        return quotient(product.number, above, below)


def _only_sum(radicand: Product) -> Expression | None:
    """Return the one sum among the factors of a radicand."""
    sums = [
        base
        for base, power in radicand.powers.items()
        if abs(power) == 1.0 and is_sum(base)
    ]
    return sums[0] if len(sums) == 1 else None


def _bases_of(terms: list[Term]) -> list[Expression]:
    found = dict.fromkeys(base for term in terms for base in term.powers)
    return list(found)


def _containing(base: Expression, terms: list[Term]) -> list[Term]:
    return [term for term in terms if base in term.powers]


def _common_exponent(base: Expression, terms: list[Term]) -> float:
    """Return the exponent that a base has in all terms, 0 if they differ."""
    exponents = {term.powers.get(base, 0.0) for term in terms}
    return exponents.pop() if len(exponents) == 1 else 0.0
