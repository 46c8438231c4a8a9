"""Formulas as text: a parser without ``eval`` and a printer, inverse to each other.

Notation: ``+ - * / ^`` (also ``**``), functions by name, ``pi``, numbers, names.
Names that are not identifiers, or that an operator has, stand in backticks. ``x^2``,
``x^3``, ``1/x`` and ``-x`` are the one-argument operators square, cube, inv and neg;
the two-argument forms with a constant print as ``pow(x, 2)``, ``div(1, x)``, so that
parsing what was printed always gives the same expression.
"""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from sr4mdl.errors import ParseError
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.operators import Operator, find_operator

MAX_NESTING: Final = 100
"""Deepest nesting of brackets, signs and powers that the parser follows."""
MAX_TEXT_LENGTH: Final = 100_000
"""Longest text that the parser reads, in characters."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|`(?P<quoted>[^`]+)`"
    r"|(?P<symbol>\*\*|[-+*/^(),]))"
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def _tokenize(text: str) -> list[_Token]:
    tokens = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            while text[position].isspace():
                position += 1
            raise ParseError(f"unexpected character {text[position]!r}", text, position)
        kind = match.lastgroup
        assert kind is not None
        found = match.group(kind)
        start = match.start(kind)
        tokens.append(_Token(kind, "^" if found == "**" else found, start))
        position = match.end()
    tokens.append(_Token("end", "", end))
    return tokens


class _Parser:
    """Recursive descent; one method per level of precedence."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokenize(text)
        self.index = 0
        self.nesting = 0

    def error(self, message: str, token: _Token | None = None) -> ParseError:
        token = self.tokens[self.index] if token is None else token
        return ParseError(message, self.text, token.position)

    def take(self, symbol: str) -> bool:
        token = self.tokens[self.index]
        if token.kind == "symbol" and token.text == symbol:
            self.index += 1
            return True
        return False

    def expect(self, symbol: str) -> None:
        if not self.take(symbol):
            raise self.error(f"expected {symbol!r}, found {self.found()}")

    def found(self) -> str:
        token = self.tokens[self.index]
        return "the end" if token.kind == "end" else repr(token.text)

    def deeper(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.error(f"nested more than {MAX_NESTING} deep")

    def whole(self) -> Expression:
        if self.tokens[0].kind == "end":
            raise self.error("empty formula")
        result = self.sum()
        if self.tokens[self.index].kind != "end":
            raise self.error(f"unexpected {self.found()}")
        return result

    def sum(self) -> Expression:
        result = self.product()
        while True:
            if self.take("+"):
                result = apply("add", result, self.product())
            elif self.take("-"):
                result = apply("sub", result, self.product())
            else:
                return result

    def product(self) -> Expression:
        result = self.signed()
        while True:
            if self.take("*"):
                result = apply("mul", result, self.signed())
            elif self.take("/"):
                divisor = self.signed()
                if result.value == 1.0:
                    result = apply("inv", divisor)
                else:
                    result = apply("div", result, divisor)
            else:
                return result

    def signed(self) -> Expression:
        if self.take("+"):
            self.deeper()
            result = self.signed()
            self.nesting -= 1
            return result
        if not self.take("-"):
            return self.power()
        self.deeper()
        number = self.tokens[self.index]
        operand = self.signed()
        self.nesting -= 1
        # A minus right before a literal belongs to the number, unless the literal is
        # the base of a power: -2^2 is -(2^2).
        if number.kind == "number" and operand.is_constant:
            assert operand.value is not None
            return constant(-operand.value)
        return apply("neg", operand)

    def power(self) -> Expression:
        base = self.atom()
        if not self.take("^"):
            return base
        self.deeper()
        exponent = self.signed()
        self.nesting -= 1
        if exponent.value == 2.0:
            return apply("square", base)
        if exponent.value == 3.0:
            return apply("cube", base)
        return apply("pow", base, exponent)

    def atom(self) -> Expression:
        token = self.tokens[self.index]
        if self.take("("):
            self.deeper()
            inside = self.sum()
            self.nesting -= 1
            self.expect(")")
            return inside
        self.index += 1
        if token.kind == "number":
            value = float(token.text)
            if not math.isfinite(value):
                raise self.error("number too large", token)
            return constant(value)
        if token.kind == "quoted":
            return variable(token.text)
        if token.kind == "name":
            return self.named(token)
        self.index -= 1
        raise self.error(f"expected a number, name or bracket, found {self.found()}")

    def named(self, token: _Token) -> Expression:
        operator = find_operator(token.text)
        if not self.take("("):
            if operator is not None:
                raise self.error(
                    f"{token.text!r} is a function: write {token.text}(...), "
                    f"or `{token.text}` for a variable of that name",
                    token,
                )
            return constant(math.pi) if token.text == "pi" else variable(token.text)
        if operator is None:
            raise self.error(f"unknown function {token.text!r}", token)
        self.deeper()
        arguments = [self.sum()]
        while self.take(","):
            arguments.append(self.sum())
        self.nesting -= 1
        self.expect(")")
        if len(arguments) != operator.arity:
            raise self.error(
                f"{operator.name} takes {operator.arity} argument(s), "
                f"got {len(arguments)}",
                token,
            )
        return apply(operator, *arguments)


def parse(text: str) -> Expression:
    """Return the expression that a text stands for.

    Parameters
    ----------
    text : str
        A formula such as ``"2*x^2 + sin(pi*y)/z"``.

    Returns
    -------
    Expression
        The formula as written, not simplified.

    Raises
    ------
    ParseError
        If the text is not a formula; the error holds the position.

    Examples
    --------
    >>> parse("x^2 + sin(x)").length
    5
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    if len(text) > MAX_TEXT_LENGTH:
        raise ParseError(
            f"longer than {MAX_TEXT_LENGTH} characters", text, MAX_TEXT_LENGTH
        )
    return _Parser(text).whole()


# Precedence of what a printed piece is at its outside.
_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(5)


def to_text(expression: Expression) -> str:
    """Return the formula as text with as few brackets as parsing back allows."""
    printed: dict[Expression, tuple[str, int]] = {}
    for node in expression.subexpressions():
        printed[node] = _print_node(node, printed)
    return printed[expression][0]


def quote_name(name: str) -> str:
    """Return a variable's name as it stands in a formula."""
    reserved = name == "pi" or find_operator(name) is not None
    return f"`{name}`" if reserved or not _PLAIN_NAME.match(name) else name


def format_number(value: float) -> str:
    """Return the shortest text that reads back as this number; pi by its name."""
    if value == math.pi:
        return "pi"
    if value == math.floor(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def _print_node(
    node: Expression, printed: dict[Expression, tuple[str, int]]
) -> tuple[str, int]:
    if node.name is not None:
        return quote_name(node.name), _ATOM
    if node.value is not None:
        if node.value == -math.pi:
            return repr(-math.pi), _SIGN
        return format_number(node.value), _SIGN if node.value < 0 else _ATOM

    def inner(argument: Expression, least: int) -> str:
        text, level = printed[argument]
        return text if level >= least else f"({text})"

    operator = node.operator
    assert operator is not None
    first = node.arguments[0]
    special = _print_special(operator, node, inner)
    if special is not None:
        return special
    if operator.arity == 1:
        return f"{operator.name}({printed[first][0]})", _ATOM
    second = node.arguments[1]
    return f"{operator.name}({printed[first][0]}, {printed[second][0]})", _ATOM


def _print_special(
    operator: Operator, node: Expression, inner: Callable[[Expression, int], str]
) -> tuple[str, int] | None:
    """Print operators with notation of their own; None for function calls."""
    first = node.arguments[0]
    match operator.name:
        case "add":
            return f"{inner(first, _SUM)} + {inner(node.arguments[1], _PRODUCT)}", _SUM
        case "sub":
            return f"{inner(first, _SUM)} - {inner(node.arguments[1], _PRODUCT)}", _SUM
        case "mul":
            return (
                f"{inner(first, _PRODUCT)}*{inner(node.arguments[1], _POWER)}",
                _PRODUCT,
            )
        case "div" if first.value != 1.0:
            return (
                f"{inner(first, _PRODUCT)}/{inner(node.arguments[1], _POWER)}",
                _PRODUCT,
            )
        case "inv":
            return f"1/{inner(first, _POWER)}", _PRODUCT
        case "neg" if first.value is None:
            return f"-{inner(first, _SIGN)}", _SIGN
        case "square":
            return f"{inner(first, _ATOM)}^2", _POWER
        case "cube":
            return f"{inner(first, _ATOM)}^3", _POWER
        case "pow" if node.arguments[1].value not in (2.0, 3.0):
            return f"{inner(first, _ATOM)}^{inner(node.arguments[1], _SIGN)}", _POWER
    return None
