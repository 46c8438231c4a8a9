"""To sympy and back.

Numbers stay exact where sympy can use that. On the way back the shortest notation of
the operator table is chosen.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.operators import Operator, all_operators, find_operator

if TYPE_CHECKING:
    import sympy

MAX_EXACT_BITS: Final = 1000
"""Largest exact numerator or denominator that sympy may compute on the way."""

_GROWING: Final = ("add", "sub", "mul", "pow", "square", "cube", "exp", "sinh", "cosh")
"""Operators that can make numbers beyond the range of floats of numbers within."""


def to_sympy(
    expression: Expression, symbols: Mapping[str, "sympy.Symbol"] | None = None
) -> "sympy.Expr":
    """Return the formula as a sympy expression.

    Parameters
    ----------
    expression : Expression
        What to convert. sympy simplifies a little while it builds.
    symbols : mapping of str to sympy.Symbol, optional
        Symbols to use for variables, for example with assumptions; the others become
        plain symbols of their name, whatever that name means elsewhere in sympy.

    Returns
    -------
    sympy.Expr
        Whole numbers are exact, ``math.pi`` is pi, other constants are floats. Where
        numbers alone leave the range of floats, as 9^9^9 does, they become infinite
        or 0 as in evaluation: sympy would compute them digit by digit.
    """
    import sympy

    given = {} if symbols is None else symbols
    done: dict[Expression, Any] = {}
    floats: dict[Expression, float] = {}
    for node in expression.subexpressions():
        if node.name is not None:
            done[node] = given.get(node.name, sympy.Symbol(node.name))
        elif node.value is not None:
            done[node] = _sympy_number(node.value)
            floats[node] = node.value
        else:
            assert node.operator is not None
            if not node.variables:
                floats[node] = _float_value(node, floats)
                if _leaves_range(node, floats):
                    done[node] = sympy.Float(floats[node])
                    continue
            operands = [done[argument] for argument in node.arguments]
            done[node] = _apply_sympy(node.operator, operands)
    return done[expression]


def _float_value(node: Expression, floats: Mapping[Expression, float]) -> float:
    assert node.operator is not None
    operands = [np.float64(floats[argument]) for argument in node.arguments]
    with np.errstate(all="ignore"):
        return float(node.operator.numpy(*operands))


def _leaves_range(node: Expression, floats: Mapping[Expression, float]) -> bool:
    """Return whether an operator made an overflow or underflow of good numbers."""
    assert node.operator is not None
    operands = [floats[argument] for argument in node.arguments]
    if node.operator.name not in _GROWING or not all(map(math.isfinite, operands)):
        return False
    if node.operator.name == "pow" and operands[0] == 0:
        return False
    size = abs(floats[node])
    lost = size == 0 and node.operator.name in ("pow", "square", "cube", "exp", "mul")
    return math.isinf(size) or (lost and 0.0 not in operands)


def _sympy_number(value: float) -> Any:
    import sympy

    if abs(value) == math.pi:
        return sympy.pi if value > 0 else -sympy.pi
    if value == math.floor(value) and abs(value) < 1e15:
        return sympy.Integer(int(value))
    return sympy.Float(value)


def _apply_sympy(operator: Operator, operands: list[Any]) -> Any:
    import sympy

    form = operator.sympy
    result = (
        getattr(sympy, form)(*operands) if isinstance(form, str) else form(*operands)
    )
    if result.is_Rational:
        size = max(abs(result.p).bit_length(), result.q.bit_length())
        if size > MAX_EXACT_BITS:
            return sympy.Float(result)
    return result


def from_sympy(expression: "sympy.Basic") -> Expression:
    """Return a sympy expression in the shortest notation of the operator table.

    Parameters
    ----------
    expression : sympy.Expr
        Sums, products, powers, numbers and functions that the table has or that can
        be written with it (cot, sec, asinh, ...). Parts without variables become one
        constant.

    Returns
    -------
    Expression
        Numerically equal where both are defined.

    Raises
    ------
    ValueError
        If something has no counterpart; the message names it.
    """
    import sympy

    if not isinstance(expression, sympy.Basic):
        raise TypeError(
            f"expression must be a sympy expression, got {type(expression).__name__}"
        )
    return _FromSympy().convert(expression)


class _FromSympy:
    """One conversion; remembers what is converted already."""

    def __init__(self) -> None:
        import sympy

        self.sympy = sympy
        self.done: dict[Any, Expression] = {}
        self.functions = {
            getattr(sympy, operator.sympy): operator
            for operator in all_operators()
            if isinstance(operator.sympy, str)
        }
        x = variable("x")
        one_over = apply("inv", x)
        root = apply("sqrt", apply("square", x) + 1)
        lower_root = apply("sqrt", apply("square", x) - 1)
        self.other_functions: dict[Any, Expression] = {
            sympy.cot: apply("inv", apply("tan", x)),
            sympy.sec: apply("inv", apply("cos", x)),
            sympy.csc: apply("inv", apply("sin", x)),
            sympy.coth: apply("inv", apply("tanh", x)),
            sympy.sech: apply("inv", apply("cosh", x)),
            sympy.csch: apply("inv", apply("sinh", x)),
            sympy.acot: apply("arctan", one_over),
            sympy.asec: apply("arccos", one_over),
            sympy.acsc: apply("arcsin", one_over),
            sympy.asinh: apply("log", x + root),
            sympy.acosh: apply("log", x + lower_root),
            sympy.atanh: apply("log", (1 + x) / (1 - x)) / 2,
        }

    def convert(self, node: Any) -> Expression:
        if node not in self.done:
            self.done[node] = self._convert(node)
        return self.done[node]

    def _convert(self, node: Any) -> Expression:
        sympy = self.sympy
        if isinstance(node, sympy.Symbol):
            return variable(node.name)
        if isinstance(node, sympy.Expr) and node.is_number:
            return constant(self._number(node))
        if isinstance(node, sympy.Add):
            return self._sum(node)
        if isinstance(node, sympy.Mul):
            return self._product(list(node.args))
        if isinstance(node, sympy.Pow):
            return self._power(node.base, node.exp)
        return self._function(node)

    def _number(self, node: Any) -> float:
        self._check_functions(node)
        value = node.evalf(25)
        if not (value.is_Float or value.is_Integer or value.is_Rational):
            raise ValueError(f"{node} is not a real number")
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"{node} is too large for a float")
        return number

    def _check_functions(self, node: Any) -> None:
        """Name an unknown function even where sympy could give its value."""
        for part in node.atoms(self.sympy.Function):
            known = part.func in self.functions or part.func in self.other_functions
            if not known and find_operator(part.func.__name__) is None:
                raise ValueError(f"unknown function {part.func.__name__}")

    def _function(self, node: Any) -> Expression:
        arguments = node.args
        operator = self.functions.get(node.func)
        if operator is None and isinstance(node, self.sympy.Function):
            operator = find_operator(node.func.__name__)
        if operator is not None and len(arguments) == operator.arity:
            return apply(operator, *(self.convert(argument) for argument in arguments))
        template = self.other_functions.get(node.func)
        if template is not None and len(arguments) == 1:
            return template.substitute({"x": self.convert(arguments[0])})
        raise ValueError(f"unknown function {node.func.__name__}")

    def _sum(self, node: Any) -> Expression:
        number = self.sympy.Add(*(term for term in node.args if term.is_number))
        plus: list[Any] = []
        minus: list[Any] = []
        for term in node.args:
            if not term.is_number:
                negative = term.as_coeff_Mul()[0].is_negative
                (minus if negative else plus).append(term)
        result = None
        for term in plus:
            part = self.convert(term)
            result = part if result is None else result + part
        if number != 0:
            value = self._number(number)
            if result is None:
                # With its sign it saves a negation: -3 - x.
                result = constant(value)
            else:
                result = result + value if value > 0 else result - -value
        for term in minus:
            result = (
                self.convert(term) if result is None else result - self.convert(-term)
            )
        assert result is not None
        return result

    def _product(self, factors: list[Any]) -> Expression:
        above: list[Expression] = []
        below: list[Expression] = []
        numbers = [factor for factor in factors if factor.is_number]
        others = [factor for factor in factors if not factor.is_number]
        coefficient = self.sympy.Mul(*numbers)
        negate = coefficient == -1
        if coefficient.is_Rational and abs(coefficient.p) == 1:
            if coefficient.q != 1:
                # x/3 is shorter to read than x*0.333... and exact.
                below.append(constant(self._number(1 / coefficient)))
        else:
            above.append(constant(self._number(coefficient)))
        alone = len(others) == 1 and not above
        for factor in others:
            flipped = self._flipped(factor, alone=alone)
            if flipped is None:
                above.append(self.convert(factor))
            else:
                below.append(flipped)
        result = _times(above)
        if below:
            divisor = _times(below)
            assert divisor is not None
            result = apply("inv", divisor) if result is None else result / divisor
        assert result is not None
        return -result if negate else result

    def _flipped(self, factor: Any, *, alone: bool) -> Expression | None:
        """Return the divisor that a factor amounts to, or None."""
        sympy = self.sympy
        if isinstance(factor, sympy.exp):
            # y exp(-x) = y / exp(x), one symbol less; alone there is none to save.
            if not alone and factor.args[0].could_extract_minus_sign():
                return self.convert(1 / factor)
            return None
        if isinstance(factor, sympy.Pow) and factor.exp.is_number:
            if factor.exp.is_negative:
                return self._power(factor.base, -factor.exp)
            return None
        # cot, sec and their like.
        converted = self.convert(factor)
        if converted.operator is not None and converted.operator.name == "inv":
            return converted.arguments[0]
        return None

    def _power(self, base: Any, exponent: Any) -> Expression:
        sympy = self.sympy
        if exponent == 1:
            return self.convert(base)
        short = {
            sympy.Integer(2): ("square",),
            sympy.Integer(3): ("cube",),
            sympy.Integer(-1): ("inv",),
            sympy.Integer(-2): ("inv", "square"),
            sympy.Integer(-3): ("inv", "cube"),
            sympy.Rational(1, 2): ("sqrt",),
            sympy.Rational(-1, 2): ("inv", "sqrt"),
        }
        if exponent.is_Float:
            exponent = sympy.nsimplify(exponent) if 2 * exponent % 1 == 0 else exponent
        names = short.get(exponent)
        if names is None:
            if base == sympy.E:
                return apply("exp", self.convert(exponent))
            return apply("pow", self.convert(base), self.convert(exponent))
        result = self.convert(base)
        for name in reversed(names):
            result = apply(name, result)
        return result


def _times(factors: list[Expression]) -> Expression | None:
    result = None
    for factor in factors:
        result = factor if result is None else result * factor
    return result
