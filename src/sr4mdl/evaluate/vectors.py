"""Vectors of numbers in code under construction, for ``kernels``.

Compilers vectorise loops with calls into the C library badly or not at all, so the
compiled back end builds its inner loops itself, on vectors of ``LANES`` float64: a
function written with :class:`Vector` is traced once into LLVM code, and
:func:`elementwise` puts the loop round it. Nothing is left to a compiler's guesses,
and every row is computed by the same instructions wherever it stands.

Needs numba: only the compiled back end imports this module.
"""

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES: Final = 8
"""Numbers in a vector: two registers of AVX2, which hides the latency of one."""

# Partly typed modules: to mypy what comes from them is Any.
_cgutils: Any = cgutils
_types: Any = types
_intrinsic: Any = intrinsic

POINTER: Final = _types.CPointer(_types.float64)
"""numba's type of the address of a float64."""

_DOUBLE: Final = ir.DoubleType()
_INTEGER: Final = ir.IntType(64)
_DOUBLES: Final = ir.VectorType(_DOUBLE, LANES)
_INTEGERS: Final = ir.VectorType(_INTEGER, LANES)


class Mask:
    """A truth value per lane.

    There is no "and" or "or": selections within selections are faster.
    """

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value


class Bits:
    """The bits of a float64 per lane, as int64."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    def _apply(self, name: str, other: "Bits | int") -> "Bits":
        value = other.value if isinstance(other, Bits) else _integers(other)
        return Bits(self.builder, getattr(self.builder, name)(self.value, value))

    def __add__(self, other: "Bits | int") -> "Bits":
        return self._apply("add", other)

    def __sub__(self, other: "Bits | int") -> "Bits":
        return self._apply("sub", other)

    def __and__(self, other: "Bits | int") -> "Bits":
        return self._apply("and_", other)

    def __or__(self, other: "Bits | int") -> "Bits":
        return self._apply("or_", other)

    def __xor__(self, other: "Bits | int") -> "Bits":
        return self._apply("xor", other)

    def __lshift__(self, count: int) -> "Bits":
        return self._apply("shl", count)

    def __rshift__(self, count: int) -> "Bits":
        """Shift right, zeros coming in."""
        return self._apply("lshr", count)

    def keep(self, mask: Mask) -> "Bits":
        """Return the bits where the mask holds and 0 elsewhere."""
        return self & Bits(self.builder, self.builder.sext(mask.value, _INTEGERS))

    def odd(self) -> Mask:
        """Return whether the lowest bit is set."""
        last = (self & 1).value
        return Mask(self.builder, self.builder.icmp_signed("!=", last, _integers(0)))

    def as_float(self) -> "Vector":
        """Return the float64 with these bits."""
        return Vector(self.builder, self.builder.bitcast(self.value, _DOUBLES))


class Vector:
    """A float64 per lane."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    def _apply(self, name: str, *operands: "Vector | float") -> "Vector":
        values = [_value(operand) for operand in operands]
        return Vector(self.builder, getattr(self.builder, name)(*values))

    def _compare(self, sign: str, other: "Vector | float") -> Mask:
        # Ordered but for !=: comparisons with NaN are false, as in Python.
        name = "fcmp_unordered" if sign == "!=" else "fcmp_ordered"
        compare = getattr(self.builder, name)
        return Mask(self.builder, compare(sign, self.value, _value(other)))

    def __add__(self, other: "Vector | float") -> "Vector":
        return self._apply("fadd", self, other)

    def __radd__(self, other: float) -> "Vector":
        return self._apply("fadd", other, self)

    def __sub__(self, other: "Vector | float") -> "Vector":
        return self._apply("fsub", self, other)

    def __rsub__(self, other: float) -> "Vector":
        return self._apply("fsub", other, self)

    def __mul__(self, other: "Vector | float") -> "Vector":
        return self._apply("fmul", self, other)

    def __rmul__(self, other: float) -> "Vector":
        return self._apply("fmul", other, self)

    def __truediv__(self, other: "Vector | float") -> "Vector":
        return self._apply("fdiv", self, other)

    def __rtruediv__(self, other: float) -> "Vector":
        return self._apply("fdiv", other, self)

    def __neg__(self) -> "Vector":
        return self._apply("fneg", self)

    def __lt__(self, other: "Vector | float") -> Mask:
        return self._compare("<", other)

    def __le__(self, other: "Vector | float") -> Mask:
        return self._compare("<=", other)

    def __gt__(self, other: "Vector | float") -> Mask:
        return self._compare(">", other)

    def equals(self, other: "Vector | float") -> Mask:
        """Return whether the numbers are equal; NaN equals nothing."""
        return self._compare("==", other)

    def differs(self, other: "Vector | float") -> Mask:
        """Return whether the numbers are not equal."""
        return self._compare("!=", other)

    def bits(self) -> Bits:
        """Return the bits of the numbers."""
        return Bits(self.builder, self.builder.bitcast(self.value, _INTEGERS))


def _value(operand: Vector | float) -> Any:
    if isinstance(operand, Vector):
        return operand.value
    return ir.Constant(_DOUBLES, [float(operand)] * LANES)


def _integers(value: int) -> Any:
    return ir.Constant(_INTEGERS, [value] * LANES)


def _call(name: str, *operands: Vector | float) -> Vector:
    """Return the result of one of LLVM's functions on vectors."""
    builder = next(item.builder for item in operands if isinstance(item, Vector))
    values = [_value(operand) for operand in operands]
    function_type = ir.FunctionType(_DOUBLES, [_DOUBLES] * len(values))
    function = _cgutils.get_or_insert_function(
        builder.module, function_type, f"llvm.{name}.v{LANES}f64"
    )
    return Vector(builder, builder.call(function, values))


def fma(x: Vector | float, y: Vector | float, z: Vector | float) -> Vector:
    """Return x y + z, rounded once."""
    return _call("fma", x, y, z)


def absolute(x: Vector) -> Vector:
    """Return the absolute value."""
    return _call("fabs", x)


def floor(x: Vector) -> Vector:
    """Return the largest whole number that is not above."""
    return _call("floor", x)


def square_root(x: Vector) -> Vector:
    """Return the square root; NaN below 0."""
    return _call("sqrt", x)


def copysign(size: Vector, sign: Vector) -> Vector:
    """Return ``size`` with the sign of ``sign``."""
    return _call("copysign", size, sign)


def select(mask: Mask, first: Vector | float, second: Vector | float) -> Vector:
    """Return ``first`` where the mask holds, otherwise ``second``."""
    builder = mask.builder
    return Vector(builder, builder.select(mask.value, _value(first), _value(second)))


Step = Callable[..., tuple[Vector | Mask, ...]]


def elementwise(step: Step, *, n_uniform: int = 0, unroll: int = 1) -> Any:
    """Return a numba function that applies a step to arrays, vector by vector.

    The numba function takes a tuple of pointers to the inputs, a tuple of pointers to
    the outputs and the number of rows, a multiple of ``LANES``. It returns whether the
    step's mask, if it has one, was true anywhere.

    Parameters
    ----------
    step : callable
        Takes a :class:`Vector` per input and returns the outputs; a :class:`Mask` may
        come last.
    n_uniform : int, default=0
        So many inputs at the end are the same in all rows: read once.
    unroll : int, default=1
        Vectors per turn of the loop; more pays for steps of an instruction or two.
    """

    def typing(context: Any, inputs: Any, outputs: Any, n_rows: Any) -> Any:
        signature = _types.boolean(inputs, outputs, _types.int64)
        return signature, generate

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        inputs = _cgutils.unpack_tuple(builder, values[0])
        outputs = _cgutils.unpack_tuple(builder, values[1])
        n_rows = values[2]
        varying = inputs[: len(inputs) - n_uniform]
        zero = ir.Constant(_INTEGER, 0)
        uniform = [
            Vector(builder, _load(builder, address, zero))
            for address in inputs[len(varying) :]
        ]
        found = _cgutils.alloca_once_value(builder, _integers(0))

        def turn(row: Any) -> None:
            vectors = [
                Vector(builder, _load(builder, address, row)) for address in varying
            ]
            results = step(*vectors, *uniform)
            for address, result in zip(outputs, results, strict=False):
                place = builder.gep(address, [row], inbounds=True)
                place = builder.bitcast(place, _DOUBLES.as_pointer())
                builder.store(result.value, place, align=8)
            if isinstance(results[-1], Mask):
                wide = builder.sext(results[-1].value, _INTEGERS)
                builder.store(builder.or_(builder.load(found), wide), found)

        start = zero
        if unroll > 1:
            stride = ir.Constant(_INTEGER, LANES * unroll)
            start = builder.sub(n_rows, builder.srem(n_rows, stride))
            with _cgutils.for_range_slice(builder, zero, start, stride, _INTEGER) as (
                row,
                _,
            ):
                for number in range(unroll):
                    turn(builder.add(row, ir.Constant(_INTEGER, LANES * number)))
        stride = ir.Constant(_INTEGER, LANES)
        with _cgutils.for_range_slice(builder, start, n_rows, stride, _INTEGER) as (
            row,
            _,
        ):
            turn(row)
        total = builder.load(found)
        any_lane = builder.extract_element(total, zero)
        for lane in range(1, LANES):
            part = builder.extract_element(total, ir.Constant(_INTEGER, lane))
            any_lane = builder.or_(any_lane, part)
        return builder.icmp_signed("!=", any_lane, zero)

    return _intrinsic(typing)


def _load(builder: Any, address: Any, row: Any) -> Any:
    place = builder.gep(address, [row], inbounds=True)
    return builder.load(builder.bitcast(place, _DOUBLES.as_pointer()), align=8)


@_intrinsic
def pointer(context: Any, array: Any, offset: Any) -> Any:
    """Return the address of ``array[offset]``, counted in memory order."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = _cgutils.create_struct_proxy(signature.args[0])(
            context, builder, value=values[0]
        )
        return builder.gep(view.data, [values[1]], inbounds=True)

    return POINTER(array, _types.int64), generate


@_intrinsic
def load(context: Any, address: Any, index: Any) -> Any:
    """Return the float64 at this index."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(builder.gep(values[0], [values[1]], inbounds=True))

    return _types.float64(POINTER, _types.int64), generate


@_intrinsic
def store(context: Any, address: Any, index: Any, value: Any) -> Any:
    """Write the float64 at this index."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store(values[2], builder.gep(values[0], [values[1]], inbounds=True))
        return context.get_dummy_value()

    return _types.void(POINTER, types.int64, _types.float64), generate
