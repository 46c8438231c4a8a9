"""Formulas as MathML, which browsers typeset by themselves."""

import math
import re
from html import escape
from typing import Final

from sr4mdl.export.naming import EULER, typeset_names
from sr4mdl.expressions import Expression

# Precedence of what a piece is at its outside.
_SUM, _PRODUCT, _SIGN, _FRACTION, _POWER, _ATOM = range(6)
_Piece = tuple[str, int]

_TIMES: Final = "<mo>&#x22C5;</mo>"
_SPACE: Final = '<mspace width="0.17em"/>'
_MINUS: Final = "<mo>&#x2212;</mo>"
_PI: Final = "<mi>&#x3C0;</mi>"
_MAX_DIGITS: Final = 6
# Two forms of sigma share the place between rho and tau.
_GREEK: Final = {
    name: 0x3B1 + place
    for place, name in enumerate(
        [
            "alpha",
            "beta",
            "gamma",
            "delta",
            "epsilon",
            "zeta",
            "eta",
            "theta",
            "iota",
            "kappa",
            "lambda",
            "mu",
            "nu",
            "xi",
            "omicron",
            "pi",
            "rho",
            "",
            "sigma",
            "tau",
            "upsilon",
            "phi",
            "chi",
            "psi",
            "omega",
        ]
    )
    if name
}


def to_mathml(expression: Expression, target: str | None = None) -> str:
    """Return a ``<math>`` element in display style.

    Parameters
    ----------
    expression : Expression
        The formula; its constants are shown with six digits.
    target : str, optional
        Name to put before an equals sign.
    """
    named = {*expression.variables, *(() if target is None else (target,))}
    names = typeset_names(named, _name, _plain)
    done: dict[Expression, _Piece] = {}
    for node in expression.subexpressions():
        done[node] = _typeset(node, done, names)
    left = "" if target is None else f"{names[target]}<mo>=</mo>"
    return (
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
        f"<mrow>{left}{done[expression][0]}</mrow></math>"
    )


def _typeset(
    node: Expression, done: dict[Expression, _Piece], names: dict[str, str]
) -> _Piece:
    if node.name is not None:
        return names[node.name], _ATOM
    if node.value is not None:
        return _number(node.value)
    assert node.operator is not None
    operator, parts = node.operator, node.arguments

    def inner(place: int, least: int) -> str:
        text, level = done[parts[place]]
        signs = place == 1 and text.startswith(_MINUS)
        return text if level >= least and not signs else _brackets(text)

    def whole(place: int) -> str:
        part = parts[place]
        text = done[part][0]
        if _is_ratio(part):
            # A fraction of numbers within a fraction or exponent stands on one line.
            text = "<mo>/</mo>".join(done[number][0] for number in part.arguments)
        return f"<mrow>{text}</mrow>"

    match operator.name:
        case "add":
            return f"{inner(0, _SUM)}<mo>+</mo>{inner(1, _PRODUCT)}", _SUM
        case "sub":
            return f"{inner(0, _SUM)}{_MINUS}{inner(1, _PRODUCT)}", _SUM
        case "mul":
            return _product(inner(0, _PRODUCT), inner(1, _FRACTION)), _PRODUCT
        case "div":
            return f"<mfrac>{whole(0)}{whole(1)}</mfrac>", _FRACTION
        case "inv":
            return f"<mfrac><mn>1</mn>{whole(0)}</mfrac>", _FRACTION
        case "neg":
            return f"{_MINUS}{inner(0, _FRACTION)}", _SIGN
        case "square" | "cube":
            power = 2 if operator.name == "square" else 3
            base = f"<mrow>{inner(0, _ATOM)}</mrow>"
            return f"<msup>{base}<mn>{power}</mn></msup>", _POWER
        case "pow":
            base = f"<mrow>{inner(0, _ATOM)}</mrow>"
            return f"<msup>{base}{whole(1)}</msup>", _POWER
        case "sqrt":
            return f"<msqrt>{whole(0)}</msqrt>", _ATOM
        case "exp" if EULER not in names:
            return f"<msup><mi>e</mi>{whole(0)}</msup>", _POWER
        case "abs":
            bar = '<mo stretchy="true">|</mo>'
            return f"<mrow>{bar}{whole(0)}{bar}</mrow>", _ATOM
    arguments = "<mo>,</mo>".join(whole(place) for place in range(len(parts)))
    name = escape(operator.name)
    return f"<mrow><mi>{name}</mi>{_brackets(arguments)}</mrow>", _ATOM


def _product(left: str, right: str) -> str:
    """Join factors: after a number a thin space, unless a number follows."""
    after_number = left.endswith(("</mn>", _PI))
    before_number = re.match(r"(<\w+>)*<mn>", right)
    return left + (_SPACE if after_number and not before_number else _TIMES) + right


def _is_ratio(node: Expression) -> bool:
    return (
        node.operator is not None
        and node.operator.name == "div"
        and all(part.value is not None and part.value > 0 for part in node.arguments)
    )


def _brackets(text: str) -> str:
    return f"<mrow><mo>(</mo>{text}<mo>)</mo></mrow>"


def _name(name: str) -> str:
    match = re.fullmatch(r"([A-Za-z]+)_?([0-9]+)", name) or re.fullmatch(
        r"([A-Za-z]+)_([A-Za-z0-9]+)", name
    )
    if match is not None:
        stem, index = match.groups()
        return f"<msub>{_word(stem)}{_word(index)}</msub>"
    return _word(name)


def _word(word: str) -> str:
    if word.isdigit():
        return f"<mn>{word}</mn>"
    if word in _GREEK:
        return f"<mi>&#x{_GREEK[word]:X};</mi>"
    return _plain(word)


def _plain(name: str) -> str:
    return f"<mi>{escape(name)}</mi>"


def _number(value: float) -> _Piece:
    if abs(value) == math.pi:
        text, level = _PI, _ATOM
    else:
        digits = f"{abs(value):.{_MAX_DIGITS}g}"
        mantissa, _, exponent = digits.partition("e")
        text, level = f"<mn>{mantissa}</mn>", _ATOM
        if exponent:
            ten = f"<msup><mn>10</mn><mn>{int(exponent)}</mn></msup>"
            level = _PRODUCT
            text = ten if mantissa == "1" else f"<mn>{mantissa}</mn>{_TIMES}{ten}"
    return (f"{_MINUS}{text}", _SIGN) if value < 0 else (text, level)
