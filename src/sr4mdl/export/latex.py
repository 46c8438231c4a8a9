"""LaTeX source with as few brackets as reading it right allows."""

import re
from typing import Final

from sr4mdl.export.naming import EULER, typeset_names
from sr4mdl.expressions import Expression
from sr4mdl.operators import get_operator
from sr4mdl.text import format_number

# Precedence of what a piece of LaTeX is at its outside.
_SUM, _PRODUCT, _SIGN, _FRACTION, _POWER, _ATOM = range(6)

# What a built-in operator makes, and the least its arguments may be without brackets.
_LATEX_LEVELS: Final = {
    "add": (_SUM, (_SUM, _PRODUCT)),
    "sub": (_SUM, (_SUM, _PRODUCT)),
    "mul": (_PRODUCT, (_PRODUCT, _FRACTION)),
    "neg": (_SIGN, (_FRACTION,)),
    "div": (_FRACTION, (_SUM, _SUM)),
    "inv": (_FRACTION, (_SUM,)),
    "pow": (_POWER, (_ATOM, _SUM)),
    "square": (_POWER, (_ATOM,)),
    "cube": (_POWER, (_ATOM,)),
    "exp": (_POWER, (_SUM,)),
}

_EXP: Final = get_operator("exp")
_GREEK: Final = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|"
    "sigma|tau|upsilon|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|"
    "Phi|Psi|Omega"
)


def to_latex(expression: Expression) -> str:
    r"""Return the formula as LaTeX source for math mode.

    Examples
    --------
    >>> from sr4mdl.text import parse
    >>> print(to_latex(parse("x_1^2/sqrt(2*alpha)")))
    \frac{x_{1}^{2}}{\sqrt{2 \cdot \alpha}}
    """
    names = typeset_names(expression.variables, _latex_name, _latex_plain)
    done: dict[Expression, tuple[str, int]] = {}
    for node in expression.subexpressions():
        if node.name is not None:
            done[node] = names[node.name], _ATOM
        elif node.operator is _EXP and EULER in names:
            done[node] = rf"\exp\left({done[node.arguments[0]][0]}\right)", _ATOM
        elif node.value is not None:
            done[node] = _latex_number(node.value)
        else:
            assert node.operator is not None
            # Function calls bring their own brackets.
            level, least = _LATEX_LEVELS.get(node.operator.name, (_ATOM, (_SUM, _SUM)))
            pieces: list[str] = []
            for argument, lowest in zip(node.arguments, least, strict=False):
                text, inner = done[argument]
                # Two signs in a row: a - (-b).
                signs = level <= _PRODUCT and bool(pieces) and text.startswith("-")
                if inner < lowest or signs:
                    text = rf"\left({text}\right)"
                pieces.append(text)
            done[node] = node.operator.latex.format(*pieces), level
    return done[expression][0]


def _latex_number(value: float) -> tuple[str, int]:
    text = format_number(abs(value))
    level = _ATOM
    if text == "pi":
        text = r"\pi"
    elif "e" in text:
        mantissa, exponent = text.split("e")
        text, level = f"10^{{{int(exponent)}}}", _POWER
        if mantissa != "1":
            text, level = rf"{mantissa} \cdot {text}", _PRODUCT
    return (f"-{text}", min(level, _SIGN)) if value < 0 else (text, level)


def _latex_name(name: str) -> str:
    match = re.fullmatch(r"([A-Za-z]+)_?([0-9]+)", name) or re.fullmatch(
        r"([A-Za-z]+)_([A-Za-z0-9]+)", name
    )
    if match is None:
        return _latex_word(name)
    stem, index = match.groups()
    return f"{_latex_word(stem)}_{{{index if index.isdigit() else _latex_word(index)}}}"


def _latex_word(word: str) -> str:
    if _GREEK.fullmatch(word):
        return f"\\{word}"
    if len(word) == 1 and word.isalnum():
        return word
    return _latex_plain(word)


def _latex_plain(name: str) -> str:
    escaped = "".join(_LATEX_ESCAPES.get(letter, letter) for letter in name)
    return rf"\mathrm{{{escaped}}}"


_LATEX_ESCAPES: Final = {
    "\\": r"\backslash ",
    "^": r"\hat{}",
    "~": r"\sim ",
    " ": r"\ ",
    **{letter: f"\\{letter}" for letter in "_{}$%&#"},
}
