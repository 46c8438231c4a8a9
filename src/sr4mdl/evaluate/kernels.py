"""The compiled interpreter of register programs.

``run_rows`` takes one instruction after the other and runs its loops over a block of
rows. It has a branch for every built-in operator (a test compares it with the operator
table) and some for powers with constants. Needs numba: only ``compiled.py`` imports
this module, and that one lazily.
"""

import inspect
import math
import zlib
from collections.abc import Callable
from typing import Any, Final

from numba import njit, types

from sr4mdl.evaluate import elementary, vectors
from sr4mdl.evaluate.vectors import (
    LANES,
    Mask,
    Vector,
    absolute,
    elementwise,
    load,
    pointer,
    select,
    square_root,
    store,
)

OPCODES: Final = {
    "add": 1, "sub": 2, "mul": 3, "div": 4, "pow": 5, "sqrt": 6, "square": 7,
    "cube": 8, "inv": 9, "neg": 10, "abs": 11, "exp": 12, "log": 13, "sin": 14,
    "cos": 15, "tan": 16, "arcsin": 17, "arccos": 18, "arctan": 19, "sinh": 20,
    "cosh": 21, "tanh": 22,
}  # fmt: skip
"""Opcodes that ``run_rows`` has a loop for: all built-in operators."""

_ADD: Final = OPCODES["add"]
_SUB: Final = OPCODES["sub"]
_MUL: Final = OPCODES["mul"]
_DIV: Final = OPCODES["div"]
_POW: Final = OPCODES["pow"]
_SQRT: Final = OPCODES["sqrt"]
_SQUARE: Final = OPCODES["square"]
_CUBE: Final = OPCODES["cube"]
_INV: Final = OPCODES["inv"]
_NEG: Final = OPCODES["neg"]
_ABS: Final = OPCODES["abs"]
_EXP: Final = OPCODES["exp"]
_LOG: Final = OPCODES["log"]
_SIN: Final = OPCODES["sin"]
_COS: Final = OPCODES["cos"]
_TAN: Final = OPCODES["tan"]
_ARCSIN: Final = OPCODES["arcsin"]
_ARCCOS: Final = OPCODES["arccos"]
_ARCTAN: Final = OPCODES["arctan"]
_SINH: Final = OPCODES["sinh"]
_COSH: Final = OPCODES["cosh"]
_TANH: Final = OPCODES["tanh"]

LOAD: Final = -1
"""Internal opcode: copy column ``first`` of X."""
FILL: Final = -2
"""Internal opcode: fill with scalar ``first``."""
COPY: Final = -3
"""Internal opcode: x^1."""
FOURTH: Final = -4
"""Internal opcode: x^4."""
INVERSE_SQUARE: Final = -5
"""Internal opcode: x^-2."""
ROOT: Final = -6
"""Internal opcode: x^0.5, which differs from sqrt for -0.0 and -inf."""
UNIFORM_BASE: Final = -7
"""Internal opcode: x^y with one finite x other than 0 for all rows."""

SCRATCH_ROWS: Final = 3
"""Rows of the workspace after the registers that ``run_rows`` needs for itself."""

_LIMIT: Final = elementary.TRIGONOMETRIC_LIMIT
_INFINITY: Final = math.inf
_NAN: Final = math.nan


def _binary(operation: Callable[[Vector, Vector], Vector]) -> Any:
    return elementwise(lambda x, y: (operation(x, y),), unroll=4)


def _unary(operation: Callable[[Vector], Vector]) -> Any:
    return elementwise(lambda x: (operation(x),), unroll=4)


def _angle_step(x: Vector, shift: float) -> tuple[Vector | Mask, ...]:
    far = absolute(x) > elementary.TRIGONOMETRIC_LIMIT
    return (*elementary.angle_reduce(x, shift), far)


def _tan_step(x: Vector) -> tuple[Vector | Mask, ...]:
    far = absolute(x) > elementary.TRIGONOMETRIC_LIMIT
    return (*elementary.quarter_reduce(x), far)


def _exp_step(x: Vector, low: Vector | float) -> tuple[Vector | Mask, ...]:
    reduced = elementary.exp_reduce(x, low, elementary.WHOLE_EXP)
    return (*reduced, x < elementary.EXP_LIMIT)


def _power_ratio_step(x: Vector) -> tuple[Vector | Mask, ...]:
    # Not below but up to 0: -0.0 has powers with a sign too.
    return (*elementary.power_ratio(x), x <= 0.0)


def _power_of_uniform_step(
    y: Vector, log_high: Vector, log_low: Vector
) -> tuple[Vector | Mask, ...]:
    return _exp_step(*elementary.power_product(y, log_high, log_low))


def _keep_zero(x: Vector, value: Vector) -> tuple[Vector]:
    """Return sin or tan; reduction has turned -0.0 into 0.0."""
    return (select(x.equals(0.0), x, value),)


_any_number = elementwise(lambda x: (x.equals(x),))
_any_zero = elementwise(lambda x: (x.equals(0.0),))
_any_one = elementwise(lambda x: (x.equals(1.0),))
_add = _binary(lambda x, y: x + y)
_subtract = _binary(lambda x, y: x - y)
_multiply = _binary(lambda x, y: x * y)
_divide = _binary(lambda x, y: x / y)
_square_root = _unary(square_root)
_square = _unary(lambda x: x * x)
_cube = _unary(lambda x: x * x * x)
_invert = _unary(lambda x: 1.0 / x)
_negate = _unary(lambda x: -x)
_absolute = _unary(absolute)
_copy = _unary(lambda x: x)
_fourth = _unary(lambda x: (x * x) * (x * x))
_inverse_square = _unary(lambda x: (1.0 / x) * (1.0 / x))
_root = _unary(lambda x: select(x.equals(-math.inf), math.inf, square_root(x + 0.0)))
_arcsin = elementwise(lambda x: (elementary.arcsin(x),))
_arccos = elementwise(lambda x: (elementary.arccos(x),))
_arctan_reduce = elementwise(elementary.arctan_reduce)
_arctan_result = elementwise(lambda *a: (elementary.arctan_result(*a),))
_exp_reduce = elementwise(lambda x: _exp_step(x, 0.0))
_exp_of_sum_reduce = elementwise(_exp_step)
_exp_result = elementwise(lambda *a: (elementary.exp_result(*a),))
_exp_result_wide = elementwise(lambda *a: (elementary.exp_result_wide(*a),))
_half_exp_reduce = elementwise(
    lambda x: elementary.exp_reduce(absolute(x), 0.0, elementary.HALF_EXP)
)
_exp_of_double_reduce = elementwise(
    lambda x: elementary.exp_reduce(2.0 * absolute(x), 0.0, elementary.WHOLE_EXP)
)
_sinh_result = elementwise(lambda *a: (elementary.sinh_result(*a),))
_cosh_result = elementwise(lambda *a: (elementary.cosh_result(*a),))
_tanh_result = elementwise(lambda *a: (elementary.tanh_result(*a),))
_log_reduce = elementwise(elementary.log_reduce)
_log_result = elementwise(lambda *a: (elementary.log_result(*a),))
_sin_reduce = elementwise(lambda x: _angle_step(x, 0.0))
_cos_reduce = elementwise(lambda x: _angle_step(x, 0.5))
_tan_reduce = elementwise(_tan_step)
_sin_result = elementwise(lambda x, *a: _keep_zero(x, elementary.sin_result(*a)))
_cos_result = elementwise(lambda *a: (elementary.sin_result(*a),))
_tan_result = elementwise(lambda x, *a: _keep_zero(x, elementary.tan_result(*a)))
_power_ratio = elementwise(_power_ratio_step)
_power_logarithm = elementwise(elementary.power_logarithm)
_power_product = elementwise(elementary.power_product)
_power_of_uniform = elementwise(_power_of_uniform_step, n_uniform=2)
_power_sign = elementwise(lambda *a: (elementary.power_sign(*a),))


def cached_jit(*signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator for this signature, cached on disk if possible."""
    # numba's cache looks at the age of the decorated function's file only; the name
    # brings in the files whose code is inlined.
    sources = inspect.getsource(vectors) + inspect.getsource(elementary)
    stamp = zlib.crc32(sources.encode())

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{stamp:08x}"
        arguments = (types.void(*signature),)
        try:
            return njit(*arguments, cache=True, nogil=True, error_model="numpy")(
                function
            )
        except RuntimeError:
            # numba raises this if no folder for its cache can be written.
            return njit(*arguments, nogil=True, error_model="numpy")(function)

    return decorate


_READ_ONLY_INTEGERS: Final = types.Array(types.int64, 1, "C", readonly=True)
_READ_ONLY_FLOATS: Final = types.Array(types.float64, 1, "C", readonly=True)


@cached_jit(
    _READ_ONLY_INTEGERS,
    _READ_ONLY_INTEGERS,
    _READ_ONLY_INTEGERS,
    _READ_ONLY_INTEGERS,
    _READ_ONLY_INTEGERS,
    _READ_ONLY_FLOATS,
    types.Array(types.float64, 2, "A", readonly=True),
    types.Array(types.float64, 1, "C"),
    types.Array(types.boolean, 1, "C"),
    types.Array(types.float64, 2, "C"),
    types.int64,
    types.int64,
    types.int64,
    types.int64,
    types.int64,
)
def run_rows(
    opcodes: Any,
    first: Any,
    second: Any,
    destination: Any,
    output: Any,
    scalars: Any,
    X: Any,
    workspace: Any,
    dead: Any,
    values: Any,
    width: int,
    start: int,
    stop: int,
    row_start: int,
    row_stop: int,
) -> None:
    """Run instructions ``start`` to ``stop`` on a range of rows, block by block.

    Parameters
    ----------
    opcodes, first, second, destination, output : int64 array
        The instructions: opcode, operand registers, register written, and the row of
        ``values`` that the result is copied to (-1: none; -2 - row if no instruction
        reads the register afterwards, which may then be left out). The register
        written must not be an operand.
    scalars : float64 array
        Numbers for ``FILL``.
    X : float64 array of shape (n_rows, n_variables)
        The data, in any memory order.
    workspace : float64 array
        Registers of ``width`` numbers each, and ``SCRATCH_ROWS`` more.
    dead : bool array of shape (n_registers,)
        Whether a register holds nothing but NaN; kept up to date.
    values : float64 array of shape (n_outputs, n_rows)
        Receives the results.
    width : int
        Rows in a block, a multiple of ``LANES``.
    start, stop, row_start, row_stop : int
        What to run.
    """
    u = pointer(workspace, workspace.size - 3 * width)
    v = pointer(workspace, workspace.size - 2 * width)
    w = pointer(workspace, workspace.size - width)
    for block in range(row_start, row_stop, width):
        n_rows = min(width, row_stop - block)
        n = (n_rows + LANES - 1) // LANES * LANES
        for i in range(start, stop):
            opcode = opcodes[i]
            d = pointer(workspace, destination[i] * width)
            result = output[i] if output[i] >= -1 else -2 - output[i]
            direct = output[i] < -1 and n == n_rows
            if direct:
                d = pointer(values, result * values.shape[1] + block)
            a = pointer(workspace, first[i] * width)
            b = pointer(workspace, second[i] * width)
            # Nothing but NaN goes in: nothing else comes out.
            lost = False
            if opcode in (_POW, UNIFORM_BASE):
                # Exceptions: NaN^0 and 1^NaN are 1.
                if dead[first[i]]:
                    lost = not _any_zero((b,), (), n)
                elif dead[second[i]]:
                    lost = not _any_one((a,), (), n)
            elif opcode != LOAD and opcode != FILL:
                lost = dead[first[i]] or dead[second[i]]
            if lost:
                for j in range(n):
                    store(d, j, _NAN)
            elif opcode == LOAD:
                column = first[i]
                for j in range(n_rows):
                    store(d, j, X[block + j, column])
                for j in range(n_rows, n):
                    store(d, j, load(d, n_rows - 1))
            elif opcode == FILL:
                scalar = scalars[first[i]]
                for j in range(n):
                    store(d, j, scalar)
            elif opcode == _ADD:
                _add((a, b), (d,), n)
            elif opcode == _MUL:
                _multiply((a, b), (d,), n)
            elif opcode == _SUB:
                _subtract((a, b), (d,), n)
            elif opcode == _DIV:
                _divide((a, b), (d,), n)
            elif opcode == _POW:
                signed = _power_ratio((a,), (u, v, w), n)
                _power_logarithm((u, v, w), (u, v), n)
                _power_product((b, u, v), (u, v), n)
                tiny = _exp_of_sum_reduce((u, v), (u, v), n)
                if tiny:
                    _exp_result_wide((u, v), (d,), n)
                else:
                    _exp_result((u, v), (d,), n)
                if signed:
                    _power_sign((a, b, d), (d,), n)
            elif opcode == _SQUARE:
                _square((a,), (d,), n)
            elif opcode == _CUBE:
                _cube((a,), (d,), n)
            elif opcode == _INV:
                _invert((a,), (d,), n)
            elif opcode == _NEG:
                _negate((a,), (d,), n)
            elif opcode == _ABS:
                _absolute((a,), (d,), n)
            elif opcode == _SQRT:
                _square_root((a,), (d,), n)
            elif opcode == _EXP:
                tiny = _exp_reduce((a,), (u, v), n)
                if tiny:
                    _exp_result_wide((u, v), (d,), n)
                else:
                    _exp_result((u, v), (d,), n)
            elif opcode == _LOG:
                _log_reduce((a,), (u, v, w), n)
                _log_result((a, u, v, w), (d,), n)
            elif opcode == _SIN:
                far = _sin_reduce((a,), (u, v, w), n)
                _sin_result((a, u, v, w), (d,), n)
                if far:
                    for j in range(n):
                        if _LIMIT < abs(load(a, j)) < _INFINITY:
                            store(d, j, math.sin(load(a, j)))
            elif opcode == _COS:
                far = _cos_reduce((a,), (u, v, w), n)
                _cos_result((u, v, w), (d,), n)
                if far:
                    for j in range(n):
                        if _LIMIT < abs(load(a, j)) < _INFINITY:
                            store(d, j, math.cos(load(a, j)))
            elif opcode == _TAN:
                far = _tan_reduce((a,), (u, v, w), n)
                _tan_result((a, u, v, w), (d,), n)
                if far:
                    for j in range(n):
                        if _LIMIT < abs(load(a, j)) < _INFINITY:
                            store(d, j, math.tan(load(a, j)))
            elif opcode == _ARCSIN:
                _arcsin((a,), (d,), n)
            elif opcode == _ARCCOS:
                _arccos((a,), (d,), n)
            elif opcode == _ARCTAN:
                _arctan_reduce((a,), (u, v), n)
                _arctan_result((a, u, v), (d,), n)
            elif opcode == _SINH:
                _half_exp_reduce((a,), (u, v), n)
                _exp_result((u, v), (d,), n)
                _sinh_result((a, d), (d,), n)
            elif opcode == _COSH:
                _half_exp_reduce((a,), (u, v), n)
                _cosh_result((u, v), (d,), n)
            elif opcode == _TANH:
                _exp_of_double_reduce((a,), (u, v), n)
                _exp_result((u, v), (d,), n)
                _tanh_result((a, d), (d,), n)
            elif opcode == COPY:
                _copy((a,), (d,), n)
            elif opcode == FOURTH:
                _fourth((a,), (d,), n)
            elif opcode == INVERSE_SQUARE:
                _inverse_square((a,), (d,), n)
            elif opcode == ROOT:
                _root((a,), (d,), n)
            elif opcode == UNIFORM_BASE:
                _power_ratio((a,), (u, v, w), LANES)
                _power_logarithm((u, v, w), (u, v), LANES)
                # The logarithm is read before the loop overwrites it.
                tiny = _power_of_uniform((b, u, v), (u, v), n)
                if tiny:
                    _exp_result_wide((u, v), (d,), n)
                else:
                    _exp_result((u, v), (d,), n)
                if load(a, 0) < 0.0:
                    _power_sign((a, b, d), (d,), n)
            dead[destination[i]] = lost
            if not lost and load(d, 0) != load(d, 0):
                dead[destination[i]] = not _any_number((d,), (), n)
            if result >= 0 and not direct:
                target = pointer(values, result * values.shape[1] + block)
                for j in range(n_rows):
                    store(target, j, load(d, j))
