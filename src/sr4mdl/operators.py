"""The one operator table.

Every fact about an operator stands here and nowhere else: its name, arity, opcode,
its numpy, torch, sympy and C forms, where it is defined, its inverse, what it costs
in symbols and how it prints. Expressions, programs, the corpus, the network's moves
and the exporters all read this table. Opcodes of built-in operators are part of the
weights format: append, never renumber.

The compiled evaluator holds one branch per built-in opcode (a test compares it with
this table); operators registered by a user run through their numpy form.
"""

import keyword
import operator as python_operators
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sr4mdl._typing import BoolArray

MAX_BUILTIN_OPCODES = 64
"""Opcodes from here on belong to operators registered by a user."""


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One row of the table. Compared by identity: there is one object per name."""

    name: str
    """Name in function-call notation, as in ``sin(x)``."""
    arity: int
    """Number of arguments: 1 or 2."""
    opcode: int
    """Number used in register programs."""
    numpy: Callable[..., Any]
    """Vectorised form; returns NaN or inf outside the domain, never raises."""
    torch: str | Callable[..., Any]
    """Name of the function in ``torch``, or a callable on tensors."""
    sympy: str | Callable[..., Any]
    """Name of the function in ``sympy``, or a callable on sympy expressions."""
    c: str
    """C source (``math.h``) with ``{0}``, ``{1}`` for the arguments."""
    latex: str
    """LaTeX source with ``{0}``, ``{1}`` for the arguments."""
    domain: Callable[..., BoolArray] | None = None
    """Mask of the arguments for which the operator is defined; None means all."""
    domain_text: str = "all real numbers"
    """The domain in words, for messages and documentation."""
    inverse: str | None = None
    """Name of g with g(f(x)) = x on f's principal branch, if it is in the table."""
    commutes: bool = False
    """Whether f(a, b) = f(b, a)."""
    cost: int = 1
    """Symbols it adds to a formula's length."""
    infix: str | None = None
    """Infix symbol, where one exists."""
    aliases: tuple[str, ...] = ()
    """Other names the parser accepts."""
    builtin: bool = True
    """False for operators registered by a user."""

    def __repr__(self) -> str:
        return f"Operator({self.name!r})"

    def __reduce__(self) -> tuple[Callable[[str], "Operator"], tuple[str]]:
        return get_operator, (self.name,)


def _inverse(x: Any) -> Any:
    return np.divide(1.0, x)


def _square(x: Any) -> Any:
    return np.multiply(x, x)


def _cube(x: Any) -> Any:
    return np.multiply(np.multiply(x, x), x)


def _torch_inverse(x: Any) -> Any:
    return x.reciprocal()


def _torch_cube(x: Any) -> Any:
    return x * x * x


def _torch_square(x: Any) -> Any:
    return x * x


def _sympy_square(x: Any) -> Any:
    return x**2


def _sympy_cube(x: Any) -> Any:
    return x**3


def _sympy_inverse(x: Any) -> Any:
    return 1 / x


def _power_domain(base: Any, exponent: Any) -> BoolArray:
    base, exponent = np.asarray(base), np.asarray(exponent)
    whole = exponent == np.floor(exponent)
    return np.asarray(
        (base > 0) | ((base == 0) & (exponent >= 0)) | ((base < 0) & whole)
    )


def _nonzero(x: Any) -> BoolArray:
    return np.asarray(np.asarray(x) != 0)


def _nonzero_divisor(_: Any, x: Any) -> BoolArray:
    return np.asarray(np.asarray(x) != 0)


def _nonnegative(x: Any) -> BoolArray:
    return np.asarray(np.asarray(x) >= 0)


def _positive(x: Any) -> BoolArray:
    return np.asarray(np.asarray(x) > 0)


def _unit_interval(x: Any) -> BoolArray:
    return np.asarray(np.abs(x) <= 1)


# fmt: off
_BUILTIN = (
    Operator("add", 2, 1, np.add, "add", python_operators.add, "({0} + {1})",
             "{0} + {1}", commutes=True, infix="+"),
    Operator("sub", 2, 2, np.subtract, "sub", python_operators.sub, "({0} - {1})",
             "{0} - {1}", infix="-"),
    Operator("mul", 2, 3, np.multiply, "mul", python_operators.mul, "({0} * {1})",
             r"{0} \cdot {1}", commutes=True, infix="*"),
    Operator("div", 2, 4, np.divide, "div", python_operators.truediv, "({0} / {1})",
             r"\frac{{{0}}}{{{1}}}", domain=_nonzero_divisor,
             domain_text="divisor other than 0", infix="/"),
    Operator("pow", 2, 5, np.power, "pow", python_operators.pow, "pow({0}, {1})",
             "{0}^{{{1}}}", domain=_power_domain,
             domain_text="positive base, or negative base with whole exponent",
             infix="^"),
    Operator("sqrt", 1, 6, np.sqrt, "sqrt", "sqrt", "sqrt({0})",
             r"\sqrt{{{0}}}", domain=_nonnegative,
             domain_text="numbers of 0 or more", inverse="square"),
    Operator("square", 1, 7, _square, _torch_square, _sympy_square,
             "(({0}) * ({0}))", "{0}^{{2}}", inverse="sqrt"),
    Operator("cube", 1, 8, _cube, _torch_cube, _sympy_cube,
             "(({0}) * ({0}) * ({0}))", "{0}^{{3}}"),
    Operator("inv", 1, 9, _inverse, _torch_inverse, _sympy_inverse, "(1.0 / {0})",
             r"\frac{{1}}{{{0}}}", domain=_nonzero,
             domain_text="numbers other than 0", inverse="inv",
             aliases=("inverse", "reciprocal")),
    Operator("neg", 1, 10, np.negative, "neg", python_operators.neg, "(-{0})", "-{0}",
             inverse="neg"),
    Operator("abs", 1, 11, np.abs, "abs", "Abs", "fabs({0})",
             r"\left|{0}\right|", aliases=("Abs", "fabs")),
    Operator("exp", 1, 12, np.exp, "exp", "exp", "exp({0})",
             "e^{{{0}}}", inverse="log"),
    Operator("log", 1, 13, np.log, "log", "log", "log({0})",
             r"\log\left({0}\right)", domain=_positive,
             domain_text="positive numbers", inverse="exp", aliases=("ln",)),
    Operator("sin", 1, 14, np.sin, "sin", "sin", "sin({0})",
             r"\sin\left({0}\right)", inverse="arcsin"),
    Operator("cos", 1, 15, np.cos, "cos", "cos", "cos({0})",
             r"\cos\left({0}\right)", inverse="arccos"),
    Operator("tan", 1, 16, np.tan, "tan", "tan", "tan({0})",
             r"\tan\left({0}\right)", inverse="arctan"),
    Operator("arcsin", 1, 17, np.arcsin, "asin", "asin", "asin({0})",
             r"\arcsin\left({0}\right)", domain=_unit_interval,
             domain_text="numbers from -1 to 1", inverse="sin", aliases=("asin",)),
    Operator("arccos", 1, 18, np.arccos, "acos", "acos", "acos({0})",
             r"\arccos\left({0}\right)", domain=_unit_interval,
             domain_text="numbers from -1 to 1", inverse="cos", aliases=("acos",)),
    Operator("arctan", 1, 19, np.arctan, "atan", "atan", "atan({0})",
             r"\arctan\left({0}\right)", inverse="tan", aliases=("atan",)),
    Operator("sinh", 1, 20, np.sinh, "sinh", "sinh", "sinh({0})",
             r"\sinh\left({0}\right)"),
    Operator("cosh", 1, 21, np.cosh, "cosh", "cosh", "cosh({0})",
             r"\cosh\left({0}\right)"),
    Operator("tanh", 1, 22, np.tanh, "tanh", "tanh", "tanh({0})",
             r"\tanh\left({0}\right)"),
)
# fmt: on

_table: dict[str, Operator] = {}
_by_alias: dict[str, Operator] = {}
_by_opcode: dict[int, Operator] = {}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def _insert(operator: Operator) -> None:
    _table[operator.name] = operator
    _by_opcode[operator.opcode] = operator
    for name in (operator.name, *operator.aliases):
        _by_alias[name] = operator


for _operator in _BUILTIN:
    _insert(_operator)


def get_operator(name: str) -> Operator:
    """Return the operator of that name or alias.

    Raises
    ------
    ValueError
        If there is none; the message lists the names there are.
    """
    try:
        return _by_alias[name]
    except KeyError:
        raise ValueError(
            f"unknown operator {name!r}; known are {', '.join(sorted(_table))}"
        ) from None


def find_operator(name: str) -> Operator | None:
    """Return the operator of that name or alias, or None."""
    return _by_alias.get(name)


def operator_of_opcode(opcode: int) -> Operator:
    """Return the operator with that opcode (KeyError if there is none)."""
    return _by_opcode[opcode]


def all_operators() -> Iterator[Operator]:
    """Iterate over the table, built-in operators first, in order of their opcodes."""
    return iter(sorted(_table.values(), key=lambda operator: operator.opcode))


def register_operator(
    name: str,
    function: Callable[..., Any],
    *,
    arity: int = 1,
    torch: str | Callable[..., Any] | None = None,
    sympy: str | Callable[..., Any] | None = None,
    c: str | None = None,
    latex: str | None = None,
    domain: Callable[..., BoolArray] | None = None,
    domain_text: str = "as the function defines it",
    commutes: bool = False,
    cost: int = 1,
) -> Operator:
    """Add an operator of your own; it then parses, evaluates, is searched and exported.

    The network's policy does not know it: the search proposes it without a prior.

    Parameters
    ----------
    name : str
        An identifier that no operator or alias has yet.
    function : callable
        Vectorised numpy form taking ``arity`` float arrays of one shape. It is probed
        once; it must return a float array of that shape.
    arity : {1, 2}, default=1
        Number of arguments.
    torch, sympy, c, latex : optional
        Other forms, as in :class:`Operator`. Without them, torch goes through numpy,
        sympy becomes an undefined function, C and LaTeX a call by name.
    domain : callable, optional
        Mask of the arguments for which the operator is defined.
    domain_text : str
        The domain in words.
    commutes : bool, default=False
        Whether the order of two arguments does not matter.
    cost : int, default=1
        Symbols it adds to a formula's length; at least 1.

    Returns
    -------
    Operator
        The new row of the table.
    """
    if not _IDENTIFIER.match(name) or keyword.iskeyword(name):
        raise ValueError(f"name must be an identifier, got {name!r}")
    if name in _by_alias or name == "pi":
        raise ValueError(f"name must be new, but {name!r} is taken")
    if arity not in (1, 2):
        raise ValueError(f"arity must be 1 or 2, got {arity!r}")
    if cost < 1:
        raise ValueError(f"cost must be at least 1, got {cost!r}")
    _probe(name, function, arity)
    call = f"{name}({', '.join(['{0}', '{1}'][:arity])})"
    operator = Operator(
        name=name,
        arity=arity,
        opcode=max(MAX_BUILTIN_OPCODES, max(_by_opcode) + 1),
        numpy=function,
        torch=torch if torch is not None else _torch_through_numpy(function),
        sympy=sympy if sympy is not None else _undefined_sympy_function(name),
        c=c if c is not None else call,
        latex=latex
        if latex is not None
        else r"\operatorname{{"
        + name.replace("_", r"\_")
        + r"}}\left("
        + ", ".join(["{0}", "{1}"][:arity])
        + r"\right)",
        domain=domain,
        domain_text=domain_text,
        commutes=commutes,
        cost=cost,
        builtin=False,
    )
    _insert(operator)
    return operator


def unregister_operator(name: str) -> None:
    """Remove an operator that :func:`register_operator` added."""
    operator = _table.get(name)
    if operator is None or operator.builtin:
        raise ValueError(f"name must be a registered operator, got {name!r}")
    del _table[name], _by_opcode[operator.opcode]
    for alias in (name, *operator.aliases):
        del _by_alias[alias]


def user_operators() -> list[dict[str, Any]]:
    """Return the fields of the registered operators, for another process."""
    return [
        {entry.name: getattr(operator, entry.name) for entry in fields(operator)}
        for operator in all_operators()
        if not operator.builtin
    ]


def adopt_operators(rows: Sequence[Mapping[str, Any]]) -> None:
    """Have the registered operators of another process, and no others."""
    for operator in list(all_operators()):
        if not operator.builtin:
            unregister_operator(operator.name)
    for row in rows:
        _insert(Operator(**row))


def _probe(name: str, function: Callable[..., Any], arity: int) -> None:
    """Call the function once on a small array and check shape and type."""
    sample = np.linspace(0.25, 0.75, 3)
    try:
        with np.errstate(all="ignore"):
            result = function(*([sample] * arity))
    except TypeError as error:
        raise ValueError(
            f"function of {name!r} does not take {arity} arrays: {error}"
        ) from error
    if not isinstance(result, np.ndarray) or result.shape != sample.shape:
        raise ValueError(
            f"function of {name!r} must return an array of its arguments' shape, "
            f"got {type(result).__name__} of shape {np.shape(result)}"
        )
    if not np.issubdtype(result.dtype, np.floating):
        raise ValueError(f"function of {name!r} must return floats, got {result.dtype}")


def _undefined_sympy_function(name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        import sympy

        return sympy.Function(name)(*arguments)

    return call


def _torch_through_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*tensors: Any) -> Any:
        arrays = [tensor.detach().cpu().numpy() for tensor in tensors]
        with np.errstate(all="ignore"):
            return tensors[0].new_tensor(function(*arrays))

    return call
