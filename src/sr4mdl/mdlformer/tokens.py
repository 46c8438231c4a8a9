"""Token ids of the ``paper`` preset: numbers and formulas in prefix notation.

A number is three tokens (sign, four-digit mantissa, exponent), rounded as ``%.3e``
does. A formula is its symbols in prefix order; constants are three number tokens.
The ids are part of the weights format: append, never renumber. No torch here.

=====================  =============================================
ids                    what they stand for
=====================  =============================================
0                      padding
1, 2                   signs + and -
3 .. 10002             mantissa 0.000 .. 9.999
10003 .. 10203         exponent E-100 .. E+100
10204 .. 10213         variables, by position
10214 .. 10277         operators, by opcode
=====================  =============================================
"""

from collections.abc import Sequence
from typing import Final

from sr4mdl.errors import ParseError
from sr4mdl.expressions import Expression, apply, constant, variable
from sr4mdl.moves import MAX_COLUMNS
from sr4mdl.operators import MAX_BUILTIN_OPCODES, operator_of_opcode

TOKENS_VERSION: Final = 1

PAD: Final = 0
POSITIVE: Final = 1
NEGATIVE: Final = 2
FIRST_MANTISSA: Final = 3
MAX_EXPONENT: Final = 100
FIRST_EXPONENT: Final = FIRST_MANTISSA + 10_000
N_NUMBER_TOKENS: Final = FIRST_EXPONENT + 2 * MAX_EXPONENT + 1
FIRST_VARIABLE: Final = N_NUMBER_TOKENS
FIRST_OPERATOR: Final = FIRST_VARIABLE + MAX_COLUMNS
N_FORMULA_TOKENS: Final = FIRST_OPERATOR + MAX_BUILTIN_OPCODES
TOKENS_PER_NUMBER: Final = 3


def number_to_tokens(value: float) -> tuple[int, int, int]:
    """Return sign, mantissa and exponent tokens of a finite number.

    Magnitudes that round below 1e-100 are zero, above 9.999e+100 are 9.999e+100.

    Examples
    --------
    >>> [token - first for token, first in
    ...  zip(number_to_tokens(54.321), (POSITIVE, FIRST_MANTISSA, FIRST_EXPONENT))]
    [0, 5432, 101]
    """
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"value must be finite, got {value!r}")
    digits, exponent_text = f"{abs(value):.3e}".split("e")
    mantissa, exponent = int(digits.replace(".", "")), int(exponent_text)
    if mantissa == 0 or exponent < -MAX_EXPONENT:
        return POSITIVE, FIRST_MANTISSA, FIRST_EXPONENT + MAX_EXPONENT
    if exponent > MAX_EXPONENT:
        mantissa, exponent = 9999, MAX_EXPONENT
    sign = NEGATIVE if value < 0 else POSITIVE
    return sign, FIRST_MANTISSA + mantissa, FIRST_EXPONENT + MAX_EXPONENT + exponent


def tokens_to_number(sign: int, mantissa: int, exponent: int) -> float:
    """Return the number that three tokens stand for."""
    if sign not in (POSITIVE, NEGATIVE):
        raise ValueError(f"sign must be a sign token, got {sign}")
    if not FIRST_MANTISSA <= mantissa < FIRST_EXPONENT:
        raise ValueError(f"mantissa must be a mantissa token, got {mantissa}")
    if not FIRST_EXPONENT <= exponent < N_NUMBER_TOKENS:
        raise ValueError(f"exponent must be an exponent token, got {exponent}")
    digits = mantissa - FIRST_MANTISSA
    power = exponent - FIRST_EXPONENT - MAX_EXPONENT
    size = float(f"{digits}e{power - 3}")
    return -size if sign == NEGATIVE else size


def formula_to_tokens(
    expression: Expression, variables: Sequence[str], *, digits: bool = True
) -> list[int]:
    """Return the tokens of a formula in prefix order.

    Parameters
    ----------
    expression : Expression
        Built-in operators only.
    variables : sequence of str
        Names by position, at most ten; all variables of the formula must be there.
    digits : bool, default=True
        Whether constants are told in full; otherwise each is its sign alone, and the
        tokens are as many as the formula is long.

    Returns
    -------
    list of int
        Never contains the padding token.
    """
    if len(variables) > MAX_COLUMNS:
        raise ValueError(
            f"variables must be at most {MAX_COLUMNS}, got {len(variables)}"
        )
    positions = {name: index for index, name in enumerate(variables)}
    tokens: list[int] = []
    for node in expression.prefix():
        if node.operator is not None:
            if not node.operator.builtin:
                raise ValueError(
                    "expression must use built-in operators, "
                    f"got {node.operator.name!r}"
                )
            tokens.append(FIRST_OPERATOR + node.operator.opcode)
        elif node.name is not None:
            if node.name not in positions:
                raise ValueError(
                    f"variables must name all variables, {node.name!r} is missing"
                )
            tokens.append(FIRST_VARIABLE + positions[node.name])
        else:
            assert node.value is not None
            told = number_to_tokens(node.value)
            tokens.extend(told if digits else told[:1])
    return tokens


def tokens_to_formula(tokens: Sequence[int], variables: Sequence[str]) -> Expression:
    """Return the formula of such tokens; trailing padding is skipped.

    Constants come back rounded to four digits.

    Raises
    ------
    ParseError
        If the tokens are not one formula; the position counts tokens.
    """
    listed = [int(token) for token in tokens]
    end = len(listed)
    while end and listed[end - 1] == PAD:
        end -= 1

    def fail(message: str, position: int) -> ParseError:
        return ParseError(message, str(listed), position)

    stack: list[Expression] = []
    position = end
    while position > 0:
        position -= 1
        token = listed[position]
        if FIRST_EXPONENT <= token < N_NUMBER_TOKENS and position >= 2:
            position -= 2
            try:
                number = tokens_to_number(*listed[position : position + 3])
            except ValueError as error:
                raise fail(str(error), position) from error
            stack.append(constant(number))
        elif FIRST_VARIABLE <= token < FIRST_OPERATOR:
            index = token - FIRST_VARIABLE
            if index >= len(variables):
                raise fail(f"variable {index} has no name", position)
            stack.append(variable(variables[index]))
        elif FIRST_OPERATOR <= token < N_FORMULA_TOKENS:
            try:
                operator = operator_of_opcode(token - FIRST_OPERATOR)
            except KeyError:
                raise fail(f"unknown operator token {token}", position) from None
            if len(stack) < operator.arity:
                raise fail(f"{operator.name} lacks an argument", position)
            arguments = [stack.pop() for _ in range(operator.arity)]
            stack.append(apply(operator, *arguments))
        else:
            raise fail(f"unexpected token {token}", position)
    if len(stack) != 1:
        raise fail(f"{len(stack)} formulas instead of one", 0)
    return stack[0]
