"""Source code of a function: Python with numpy, and C.

What a formula uses twice is computed once; names are made fit for the language.
"""

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from sr4mdl.expressions import Expression
from sr4mdl.operators import all_operators

_C_RESERVED: Final = frozenset(
    re.findall(
        r"\w+",
        "auto break case char const continue default do double else enum extern "
        "float for goto if inline int long register restrict return short signed "
        "sizeof static struct switch typedef union unsigned void volatile while "
        "bool true false main j0 j1 jn y0 y1 yn gamma signgam asm typeof linux "
        "unix i386 NULL NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL MATH_ERRNO "
        "MATH_ERREXCEPT math_errhandling FP_NAN FP_INFINITE FP_ZERO FP_SUBNORMAL "
        "FP_NORMAL FP_ILOGB0 FP_ILOGBNAN FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL "
        "M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI "
        "M_2_SQRTPI M_SQRT2 M_SQRT1_2 MAXFLOAT",
    )
)
_MAX_NESTING: Final = 40
"""Brackets within brackets after which source code gets a new line."""


def to_numpy_source(
    expression: Expression,
    function_name: str = "f",
    variables: Sequence[str] | None = None,
) -> str:
    """Return Python source of a function on numpy arrays.

    Parameters
    ----------
    expression : Expression
        The formula.
    function_name : str, default="f"
        Name of the function.
    variables : sequence of str, optional
        Its parameters in order, at least the formula's variables; by default those,
        sorted. Names that are no identifiers are changed into some.

    Returns
    -------
    str
        The source. numpy must be imported as ``np``; operators registered by a user
        are called by their name. A formula without variables gives a number, not an
        array; outside the domain of an operator numpy warns.
    """
    names = _parameters(expression, variables, {*keyword.kwlist, "np", function_name})
    _check_identifier(function_name)

    def form(node: Expression, operands: list[str]) -> str:
        operator = node.operator
        assert operator is not None
        if not operator.builtin:
            return f"{operator.name}({', '.join(operands)})"
        if isinstance(operator.numpy, np.ufunc) and operator.infix not in set("+-*/"):
            return f"np.{operator.numpy.__name__}({', '.join(operands)})"
        return operator.c.format(*operands)

    def number(value: float, alone: bool) -> str:
        # Python's own division by zero raises; numpy's gives inf.
        return f"np.float64({value!r})" if alone else _literal(value)

    lines, result = _straight_line(expression, names, form, number)
    body = [*(f"{name} = {text}" for name, text in lines), f"return {result}"]
    head = f"def {function_name}({', '.join(names.values())}):\n"
    return head + "".join(f"    {line}\n" for line in body)


def to_c(
    expression: Expression,
    function_name: str = "f",
    variables: Sequence[str] | None = None,
) -> str:
    """Return C source (C99, ``math.h``) of a function of doubles.

    Parameters
    ----------
    expression, function_name, variables
        As in :func:`to_numpy_source`.
    """
    functions = set(re.findall(r"[a-z]+", " ".join(item.c for item in all_operators())))
    names = _parameters(
        expression, variables, {*_C_RESERVED, *functions, function_name}
    )
    _check_identifier(function_name)

    def form(node: Expression, operands: list[str]) -> str:
        assert node.operator is not None
        return node.operator.c.format(*operands)

    lines, result = _straight_line(
        expression, names, form, lambda value, alone: _literal(value)
    )
    body = [*(f"double {name} = {text};" for name, text in lines), f"return {result};"]
    parameters = ", ".join(f"double {name}" for name in names.values()) or "void"
    head = f"#include <math.h>\n\ndouble {function_name}({parameters}) {{\n"
    return head + "".join(f"    {line}\n" for line in body) + "}\n"


def _check_identifier(function_name: str) -> None:
    if not function_name.isidentifier() or not function_name.isascii():
        raise ValueError(f"function_name must be an identifier, got {function_name!r}")


def _literal(value: float) -> str:
    return repr(value) if value >= 0 else f"({value!r})"


def _parameters(
    expression: Expression, variables: Sequence[str] | None, reserved: set[str]
) -> dict[str, str]:
    """Return an identifier of its own for each variable, in order."""
    names = sorted(expression.variables) if variables is None else list(variables)
    missing = expression.variables - set(names)
    if missing:
        raise ValueError(f"variables must contain {sorted(missing)}, got {names}")
    # Temporary results are called t0, t1, ...: no parameter may be.
    taken = {name for name in names if _is_free(name, reserved)}
    chosen: dict[str, str] = {}
    for name in names:
        if name in chosen:
            raise ValueError(f"variables must differ, got {names}")
        new = name
        if not _is_free(name, reserved):
            stem = re.sub(r"[^A-Za-z0-9_]", "_", name)
            stem = stem if re.match(r"[A-Za-z]", stem) else f"x_{stem}"
            new = stem
            number = 1
            while new in taken or not _is_free(new, reserved):
                new = f"{stem}_{number}"
                number += 1
            taken.add(new)
        chosen[name] = new
    return chosen


def _is_free(name: str, reserved: set[str]) -> bool:
    return (
        re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None
        and name not in reserved
        and re.fullmatch(r"t[0-9]+", name) is None
    )


def _straight_line(
    expression: Expression,
    names: Mapping[str, str],
    form: Callable[[Expression, list[str]], str],
    number: Callable[[float, bool], str],
) -> tuple[list[tuple[str, str]], str]:
    """Return assignments and the final text; what is used twice gets a name."""
    nodes = list(expression.subexpressions())
    uses: dict[Expression, int] = dict.fromkeys(nodes, 0)
    for node in nodes:
        for place, argument in enumerate(node.arguments):
            assert node.operator is not None
            # A form such as x*x writes its argument several times.
            uses[argument] += max(1, node.operator.c.count(f"{{{place}}}"))
    lines: list[tuple[str, str]] = []
    texts: dict[Expression, str] = {}
    nesting: dict[Expression, int] = {}
    for node in nodes:
        nesting[node] = 0
        if node.name is not None:
            texts[node] = names[node.name]
        elif node.value is not None:
            texts[node] = number(node.value, False)
        else:
            operands = [
                number(argument.value, not node.variables)
                if argument.value is not None
                else texts[argument]
                for argument in node.arguments
            ]
            texts[node] = form(node, operands)
            nesting[node] = 1 + max(nesting[argument] for argument in node.arguments)
            if uses[node] > 1 or nesting[node] >= _MAX_NESTING:
                lines.append((f"t{len(lines)}", texts[node]))
                texts[node], nesting[node] = lines[-1][0], 0
    return lines, texts[expression]
