"""Formulas for the cells of a spreadsheet."""

import re
from collections.abc import Mapping
from typing import Final

from sr4mdl.expressions import Expression
from sr4mdl.operators import Operator
from sr4mdl.text import format_number

MAX_FORMULA_CHARACTERS: Final = 8192
"""Longest formula that a spreadsheet takes."""

# C's functions that spreadsheets know, by their name there.
_SHEET_FUNCTIONS: Final = {
    "log": "LN", "fabs": "ABS", "sqrt": "SQRT", "exp": "EXP", "sin": "SIN",
    "cos": "COS", "tan": "TAN", "asin": "ASIN", "acos": "ACOS", "atan": "ATAN",
    "sinh": "SINH", "cosh": "COSH", "tanh": "TANH",
}  # fmt: skip
# Shorter than the C forms, which repeat their argument.
_SHEET_FORMS: Final = {
    "pow": "({0}^{1})",
    "square": "({0}^2)",
    "cube": "({0}^3)",
}


def to_excel_formula(expression: Expression, cells: Mapping[str, str]) -> str:
    """Return the formula for a spreadsheet.

    Parameters
    ----------
    expression : Expression
        The formula.
    cells : mapping of str to str
        Cell of each variable, such as ``{"x": "A2"}``.

    Returns
    -------
    str
        Text that starts with ``=``. Spreadsheets show an error where this package
        gives NaN, and keep 15 digits of a constant.

    Raises
    ------
    ValueError
        If a variable has no cell, an operator no form, or the text is too long.
    """
    missing = sorted(expression.variables - set(cells))
    if missing:
        raise ValueError(f"cells must contain {missing}, got {sorted(cells)}")
    texts: dict[Expression, str] = {}
    for node in expression.subexpressions():
        if node.name is not None:
            texts[node] = cells[node.name]
        elif node.value is not None:
            number = format_number(abs(node.value)).upper()
            number = "PI()" if number == "PI" else number
            texts[node] = number if node.value >= 0 else f"(-{number})"
        else:
            assert node.operator is not None
            operands = [texts[argument] for argument in node.arguments]
            texts[node] = _sheet_form(node.operator).format(*operands)
        if len(texts[node]) >= MAX_FORMULA_CHARACTERS:
            raise ValueError(
                f"expression is too long for a spreadsheet: over "
                f"{MAX_FORMULA_CHARACTERS} characters"
            )
    return "=" + texts[expression]


def _sheet_form(operator: Operator) -> str:
    if operator.name in _SHEET_FORMS:
        return _SHEET_FORMS[operator.name]
    for name in re.findall(r"[A-Za-z_]\w*(?=\()", operator.c):
        if name not in _SHEET_FUNCTIONS:
            raise ValueError(f"{operator.name} has no form for spreadsheets")
    return re.sub(
        r"[A-Za-z_]\w*(?=\()", lambda match: _SHEET_FUNCTIONS[match[0]], operator.c
    )
