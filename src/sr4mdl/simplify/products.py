"""Flattened products: like factors, powers, exponentials.

A product under construction is a :class:`ProductBuilder`; each way in keeps to what
holds wherever the input is defined:

* (a*b)^e splits for whole e; for other e only positive factors come out.
* (b^f)^e is |b|^(f*e) for even f, else b^(f*e).
* exp(u)*exp(v) is exp(u + v), exp(c*log(x)) is x^c, b^u * b^v is b^(u + v).
"""

import math
from typing import Final

from sr4mdl.operators import get_operator
from sr4mdl.simplify.nodes import (
    ANY_SIGN,
    FUNCTION,
    NEGATIVE,
    NONNEGATIVE,
    NUMBER,
    POSITIVE,
    PRODUCT,
    SUM,
    ZERO,
    Node,
    checked,
    function_node,
    is_even,
    is_whole,
    number,
    number_power,
    power_sign,
    product_node,
    snap_exponent,
    times,
)
from sr4mdl.simplify.quotients import join_quotients
from sr4mdl.simplify.sums import (
    collect,
    content,
    numeric_content,
    scale,
    split_coefficient,
    unit_product,
)

ABS: Final = get_operator("abs")
EXP: Final = get_operator("exp")
POW: Final = get_operator("pow")

_MAX_PULLED: Final = 60.0  # larger constants stay inside an exponential


def absolute_node(node: Node) -> Node:
    """Return the node of |node|, as it is."""
    sign = POSITIVE | (node.sign & ZERO)
    return function_node(ABS, node, sign=sign)


class ProductBuilder:
    """Multiplies nodes to numeric powers and gives the product in normal form."""

    __slots__ = ("coefficient", "exponents", "factors", "has_functions", "powers")

    def __init__(self) -> None:
        self.coefficient = 1.0
        self.factors: dict[str, tuple[Node, float]] = {}
        self.exponents: list[tuple[Node, float]] = []
        self.powers: dict[str, tuple[Node, list[tuple[Node, float]]]] = {}
        self.has_functions = False

    def put(self, base: Node, exponent: float) -> None:
        """Multiply by a power whose base is no product, sum with content or number."""
        old = self.factors.get(base.key)
        if old is not None:
            exponent = snap_exponent(exponent + old[1])
        if exponent == 0.0:
            self.factors.pop(base.key, None)
            return
        self.factors[base.key] = (base, exponent)

    def multiply(self, node: Node, exponent: float = 1.0) -> None:
        """Multiply by a node to a numeric power."""
        kind = node.kind
        if kind == NUMBER:
            factor = number_power(node.value, exponent)
            self.coefficient = times(self.coefficient, factor)
        elif kind == PRODUCT:
            if is_whole(exponent):
                factor = number_power(node.value, exponent)
                self.coefficient = times(self.coefficient, factor)
                for base, inner in node.terms:
                    # Bases that have rules of their own as single factors.
                    if base.kind == FUNCTION:
                        self.multiply(base, snap_exponent(times(inner, exponent)))
                    else:
                        self.put(base, snap_exponent(times(inner, exponent)))
            else:
                self._multiply_root(node, exponent)
        elif kind == SUM:
            self._multiply_sum(node, exponent)
        elif kind == FUNCTION:
            self._multiply_function(node, exponent)
        else:
            self.put(node, exponent)

    def _multiply_sum(self, node: Node, exponent: float) -> None:
        if is_whole(exponent):
            size, monomial, primitive = content(node)
            if size != 1.0:
                factor = number_power(size, exponent)
                self.coefficient = times(self.coefficient, factor)
            for base, inner in monomial:
                self.multiply(base, snap_exponent(times(inner, exponent)))
            if primitive.kind == SUM:
                self.put(primitive, exponent)
            else:
                self.multiply(primitive, exponent)
            return
        size = abs(content(node)[0])
        if size != 1.0:
            factor = number_power(size, exponent)
            self.coefficient = times(self.coefficient, factor)
            node = scale(node, 1.0 / size)
        self.put(node, exponent)

    def _multiply_function(self, node: Node, exponent: float) -> None:
        name = node.name
        if name == "exp":
            self.exponents.append((node.arguments[0], exponent))
        elif name == "pow":
            base, power = node.arguments
            if is_whole(exponent) or not base.sign & NEGATIVE:
                self.put_power(base, power, exponent)
            else:
                self.put(node, exponent)
        elif name == "abs" and is_even(exponent):
            self.multiply(node.arguments[0], exponent)
        else:
            self.has_functions = True
            self.put(node, exponent)

    def put_power(self, base: Node, power: Node, factor: float) -> None:
        """Multiply by base^(factor*power)."""
        old = self.powers.get(base.key)
        if old is None:
            self.powers[base.key] = (base, [(power, factor)])
        else:
            old[1].append((power, factor))

    def _multiply_root(self, node: Node, exponent: float) -> None:
        """Multiply by a product to a power that is not whole."""
        size = abs(node.value)
        if size != 1.0:
            factor = number_power(size, exponent)
            self.coefficient = times(self.coefficient, factor)
        positive, rest = [], []
        for base, inner in node.terms:
            if power_sign(base, inner) == POSITIVE:
                positive.append((base, inner))
            else:
                rest.append((base, inner))
        sign = node.value > 0.0
        if len(rest) == 1 and sign:
            # A single factor left: its power has the sign of the whole.
            positive, rest = list(node.terms), []
        elif sign and all(
            not power_sign(base, inner) & NEGATIVE for base, inner in rest
        ):
            positive, rest = list(node.terms), []
        for base, inner in positive:
            total = snap_exponent(times(inner, exponent))
            if is_even(inner) and base.sign & NEGATIVE and not is_even(total):
                base = absolute_node(base)
            self.multiply(base, total)
        if rest or not sign:
            inside = scale(unit_product(tuple(rest)), 1.0 if sign else -1.0)
            if inside.kind == NUMBER:
                self.multiply(inside, exponent)
            else:
                self.put(inside, exponent)

    def finish(self) -> Node:
        """Return the product."""
        if self.coefficient == 0.0:
            return number(0.0)
        while self.exponents or self.powers:
            self._finish_exponential()
            self._finish_powers()
        if self.has_functions:
            self._join_absolutes()
            join_quotients(self.factors)
        factors = self.factors
        # sqrt(8)*sqrt(8) is 8: undo the rounding of numbers taken through a root.
        whole = round(self.coefficient)
        if whole and abs(self.coefficient - whole) <= 2.3e-16 * abs(whole):
            self.coefficient = float(whole)
        if not factors:
            return number(self.coefficient)
        if len(factors) == 1:
            ((base, exponent),) = factors.values()
            if exponent == 1.0:
                return scale(base, self.coefficient)
        ordered = tuple([factors[key] for key in sorted(factors)])
        return product_node(self.coefficient, ordered)

    def _finish_exponential(self) -> None:
        while self.exponents:
            argument = collect(self.exponents)
            self.exponents = []
            argument = self._pull_logarithms(argument)
            if self.exponents:
                self.exponents.append((argument, 1.0))
                continue
            if argument.kind == SUM and abs(argument.value) <= _MAX_PULLED:
                factor = math.exp(argument.value)
                self.coefficient = times(self.coefficient, factor)
                argument = collect([(argument, 1.0)], -argument.value)
            if argument.kind == NUMBER:
                if abs(argument.value) > 600.0:
                    self.put(function_node(EXP, argument, sign=POSITIVE), 1.0)
                    continue
                factor = checked(math.exp(argument.value))
                self.coefficient = times(self.coefficient, factor)
            else:
                self.put(function_node(EXP, argument, sign=POSITIVE), 1.0)

    def _pull_logarithms(self, argument: Node) -> Node:
        """Turn exp(.. + c*log(x)) into x^c; return what stays in the exponent."""
        if "log(" not in argument.key:
            return argument
        if argument.kind == SUM:
            terms = argument.terms
        elif argument.kind == NUMBER:
            return argument
        else:
            value, unit = split_coefficient(argument)
            terms = ((unit, value),)
        rest = []
        for term, value in terms:
            if term.kind == FUNCTION and term.name == "log":
                self.multiply(term.arguments[0], value)
                continue
            if term.kind == PRODUCT:
                logs = [
                    index
                    for index, (base, exponent) in enumerate(term.terms)
                    if exponent == 1.0 and base.kind == FUNCTION and base.name == "log"
                ]
                if logs:
                    index = logs[0]
                    others = term.terms[:index] + term.terms[index + 1 :]
                    base = term.terms[index][0].arguments[0]
                    self._multiply_power(base, scale(unit_product(others), value))
                    continue
            rest.append((term, value))
        if len(rest) == len(terms):
            return argument
        constant = argument.value if argument.kind == SUM else 0.0
        return collect(rest, constant)

    def _multiply_power(self, base: Node, power: Node) -> None:
        """Multiply by base^power where the base is positive."""
        if power.kind == NUMBER:
            self.multiply(base, power.value)
        elif base.kind == FUNCTION and base.name == "exp":
            self.exponents.append((multiply([base.arguments[0], power]), 1.0))
        elif base.kind == NUMBER and base.value <= 0.0:
            self.put(function_node(POW, base, power), 1.0)
        else:
            self.put_power(base, power, 1.0)

    def _finish_powers(self) -> None:
        powers, self.powers = self.powers, {}
        for key in sorted(powers):
            base, parts = powers[key]
            old = self.factors.pop(key, None)
            constant = 0.0 if old is None else old[1]
            exponent = collect(parts, constant)
            if exponent.kind == NUMBER:
                self.multiply(base, exponent.value)
            elif base.kind == NUMBER and base.value > 0.0:
                self._put_number_power(base.value, exponent)
            else:
                self.put(power_node(base, exponent), 1.0)

    def _put_number_power(self, base: float, exponent: Node) -> None:
        """Multiply by number^node, constants of the exponent folded into numbers."""
        if exponent.kind == SUM and exponent.value != 0.0:
            factor = number_power(base, exponent.value)
            self.coefficient = times(self.coefficient, factor)
            exponent = collect([(exponent, 1.0)], -exponent.value)
        if exponent.kind == SUM:
            size = numeric_content([value for _, value in exponent.terms])
            if exponent.terms[0][1] < 0.0:
                size = -size
        else:
            size = split_coefficient(exponent)[0]
        if size != 1.0:
            base = number_power(base, size)
            exponent = scale(exponent, 1.0 / size)
        if base == 1.0:
            return
        self.put(power_node(number(base), exponent), 1.0)

    def _join_absolutes(self) -> None:
        """|u|^2 is u^2, and u^2/|u| is |u|."""
        for key in [key for key in self.factors if key.startswith("abs(")]:
            base, exponent = self.factors[key]
            inner = base.arguments[0]
            plain = self.factors.get(inner.key)
            if plain is not None and is_even(plain[1]):
                del self.factors[inner.key]
                exponent = snap_exponent(exponent + plain[1])
                self.factors[key] = (base, exponent)
            if exponent == 0.0:
                del self.factors[key]
            elif is_even(exponent):
                del self.factors[key]
                self.multiply(inner, exponent)


def power_node(base: Node, exponent: Node) -> Node:
    """Return the node base^exponent for an exponent that is no number."""
    sign = ANY_SIGN
    if base.sign == POSITIVE:
        sign = POSITIVE
    elif not base.sign & NEGATIVE:
        sign = NONNEGATIVE
    return function_node(POW, base, exponent, sign=sign)


def multiply(nodes: list[Node]) -> Node:
    """Return the product of nodes."""
    builder = ProductBuilder()
    for node in nodes:
        builder.multiply(node)
    return builder.finish()


def multiply_powers(factors: list[tuple[Node, float]]) -> Node:
    """Return the product of nodes to numeric powers."""
    if not factors:
        return number(1.0)
    if len(factors) == 1 and factors[0][1] == 1.0:
        return factors[0][0]
    builder = ProductBuilder()
    for node, exponent in factors:
        builder.multiply(node, exponent)
    return builder.finish()


def power(base: Node, exponent: Node) -> Node:
    """Return base^exponent."""
    if exponent.kind == NUMBER:
        if exponent.value == 0.0:
            return number(1.0)
        return multiply_powers([(base, exponent.value)])
    if base.kind == NUMBER:
        if base.value <= 0.0:
            return function_node(POW, base, exponent)
        if base.value == 1.0:
            return base
    builder = ProductBuilder()
    if base.kind == FUNCTION and base.name == "exp":
        builder.exponents.append((multiply([base.arguments[0], exponent]), 1.0))
        return builder.finish()
    if (
        base.kind == FUNCTION
        and base.name == "pow"
        and not base.arguments[0].sign & NEGATIVE
    ):
        base, inner = base.arguments
        exponent = multiply([inner, exponent])
    elif base.kind == PRODUCT and base.value == 1.0 and len(base.terms) == 1:
        ((inside, numeric),) = base.terms
        # (b^3)^u is b^(3*u), but only with b >= 0 could that be written back: so it
        # is done where it saves a number.
        if (
            numeric == -1.0
            or not inside.sign & NEGATIVE
            or (not is_even(numeric) and split_coefficient(exponent)[0] != 1.0)
        ):
            base, exponent = inside, scale(exponent, numeric)
    builder.put_power(base, exponent, 1.0)
    return builder.finish()
