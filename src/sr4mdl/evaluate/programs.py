"""Register programs: what they are, how they are made, which back end runs them.

A :class:`Program` holds single-assignment code: registers are the variables, then the
constants, then one per instruction. The back ends (``interpreter`` in numpy,
``compiled`` in numba) decide where registers live and when their memory is reused.
"""

import importlib.util
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

import numpy as np

from sr4mdl._typing import BoolArray, FloatArray, IntArray
from sr4mdl.errors import BudgetExceededError
from sr4mdl.expressions import Expression, variable

if TYPE_CHECKING:
    from sr4mdl.evaluate.compiled import Schedule

DEFAULT_MAX_BYTES: Final = 256 * 2**20
"""Memory that one evaluation may take, its result included."""

_Array = TypeVar("_Array", FloatArray, IntArray)
Backend = Literal["auto", "compiled", "numpy"]

# numpy's cost, measured: about 1 microsecond per instruction and 5 nanoseconds per
# instruction and row. Below this estimate numpy runs the program: starting numba takes
# a second, and a formula or two are done long before that.
_NANOSECONDS_PER_INSTRUCTION: Final = 1000
_NANOSECONDS_PER_NUMBER: Final = 5
_NUMPY_BELOW_NANOSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Values of expressions on rows.

    Attributes
    ----------
    values : ndarray of shape (n_expressions, n_rows)
        The numbers as they came out: NaN and infinities are left in place.
    valid : ndarray of bool of shape (n_expressions, n_rows)
        Where the values are finite.
    """

    values: FloatArray
    valid: BoolArray


@dataclass(frozen=True, eq=False)
class Program:
    """Expressions as one list of instructions on registers.

    Made by :func:`compile_program`. Register r is variable r, for r below the number
    of variables; then come the constants; instruction i writes register
    ``first_output + i``.

    Attributes
    ----------
    variables : tuple of str
        Names of the columns of X, in order.
    constants : ndarray of shape (n_constants,)
        Values of the constant registers.
    opcodes : ndarray of shape (n_instructions,)
        Which operator (see ``operators.operator_of_opcode``).
    first, second : ndarray of shape (n_instructions,)
        Registers of the operands; ``second`` repeats ``first`` for operators with one.
    outputs : ndarray of shape (n_expressions,)
        Register that holds each expression.
    """

    variables: tuple[str, ...]
    constants: FloatArray
    opcodes: IntArray
    first: IntArray
    second: IntArray
    outputs: IntArray

    @property
    def first_output(self) -> int:
        """Register that the first instruction writes."""
        return len(self.variables) + self.constants.size

    @property
    def n_instructions(self) -> int:
        """Number of instructions: distinct subexpressions with an operator."""
        return self.opcodes.size

    @property
    def n_registers(self) -> int:
        """Number of variables, constants and instructions together."""
        return self.first_output + self.n_instructions

    @cached_property
    def _schedule(self) -> "Schedule":
        from sr4mdl.evaluate.compiled import schedule_program

        return schedule_program(self)

    def run(
        self,
        X: FloatArray,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        n_threads: int = 1,
        backend: Backend = "auto",
    ) -> Evaluation:
        """Evaluate all expressions on all rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_variables)
            The data, in any memory order; never changed. NaN and infinities are
            numbers like others here.
        max_bytes : int, default=268435456
            Memory that result and registers together may take. Rows go through in
            chunks, so that only the result itself can be too large.
        n_threads : int, default=1
            Threads of the compiled back end, which share the rows.
        backend : {"auto", "compiled", "numpy"}, default="auto"
            Who computes. "auto" takes numpy for small work, for which loading the
            compiled code would not pay, and where numba is missing; the choice
            depends on the size of program and data only. The two agree to a few units
            in the last place: name one if results of several calls are compared.

        Returns
        -------
        Evaluation
            Values and the mask of finite ones.

        Raises
        ------
        BudgetExceededError
            If the result alone takes more than ``max_bytes``.
        """
        X = _check_data(X, self.variables)
        if n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads!r}")
        n_rows = X.shape[0]
        # Eight bytes for the value and one for its place in the mask.
        result_bytes = 9 * self.outputs.size * n_rows
        if result_bytes > max_bytes:
            raise BudgetExceededError(
                f"{self.outputs.size} expressions on {n_rows} rows take {result_bytes} "
                f"bytes, max_bytes is {max_bytes}: evaluate fewer rows or expressions"
            )
        values = np.empty((self.outputs.size, n_rows))
        if values.size:
            spare = max_bytes - result_bytes
            if self._runs_compiled(n_rows, backend):
                from sr4mdl.evaluate.compiled import run_compiled

                run_compiled(self._schedule, X, values, spare, n_threads)
            else:
                from sr4mdl.evaluate.interpreter import run_numpy

                run_numpy(self, X, values, spare)
        return Evaluation(values=values, valid=np.isfinite(values))

    def _runs_compiled(self, n_rows: int, backend: Backend) -> bool:
        if backend not in get_args(Backend):
            raise ValueError(
                f"backend must be one of {get_args(Backend)}, got {backend!r}"
            )
        if backend != "auto":
            return backend == "compiled"
        estimate = self.n_instructions * (
            _NANOSECONDS_PER_INSTRUCTION + _NANOSECONDS_PER_NUMBER * n_rows
        )
        return estimate >= _NUMPY_BELOW_NANOSECONDS and _compiled_pays()


@cache
def _compiled_pays() -> bool:
    """Return whether numba is there and the processor multiplies and adds in one."""
    if importlib.util.find_spec("numba") is None:
        return False
    if platform.machine().lower() not in ("x86_64", "amd64", "i386", "i686"):
        return True
    from llvmlite import binding

    # Without the instruction every fused multiply-add would be a slow library call.
    return bool(binding.get_host_cpu_features().get("fma", False))


def _check_data(X: Any, variables: Sequence[str]) -> FloatArray:
    if np.iscomplexobj(X):
        raise TypeError("X must hold real numbers, got complex ones")
    array = np.asarray(X, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != len(variables):
        raise ValueError(
            f"X must have shape (n_rows, {len(variables)}), one column for each of "
            f"{list(variables)}, got {array.shape}"
        )
    return array


def compile_program(
    expressions: Sequence[Expression], variables: Sequence[str]
) -> Program:
    """Return one program for many expressions, shared subexpressions computed once.

    Parameters
    ----------
    expressions : sequence of Expression
        What to compute; repeated expressions are computed once.
    variables : sequence of str
        Names of the columns of the data, in order. All variables of the expressions
        must be among them.

    Returns
    -------
    Program
        Its instructions are in an order in which each expression is complete before
        the next one begins, so that few registers are alive at a time.
    """
    names = tuple(variables)
    if len(set(names)) < len(names):
        raise ValueError(f"variables must differ, got {list(names)}")
    unknown = frozenset().union(*(item.variables for item in expressions)) - set(names)
    if unknown:
        raise ValueError(
            f"expressions contain {sorted(unknown)}, which are not among the variables "
            f"{list(names)}"
        )
    # While the number of constants is open, constants count down from -1 and
    # instructions up from the number of variables.
    constants: list[float] = []
    code: list[tuple[int, int, int]] = []
    registers: dict[Expression, int] = {
        variable(name): index for index, name in enumerate(names)
    }
    for expression in expressions:
        stack = [expression]
        while stack:
            node = stack[-1]
            if node in registers:
                stack.pop()
            elif node.operator is None:
                assert node.value is not None
                constants.append(node.value)
                registers[node] = -len(constants)
                stack.pop()
            else:
                arguments = node.arguments
                first = registers.get(arguments[0])
                second = registers.get(arguments[-1])
                if first is not None and second is not None:
                    registers[node] = len(names) + len(code)
                    code.append((node.operator.opcode, first, second))
                    stack.pop()
                else:
                    if second is None:
                        stack.append(arguments[-1])
                    if first is None:
                        stack.append(arguments[0])
    outputs = [registers[expression] for expression in expressions]
    instructions = np.array(code, dtype=np.int64).reshape(-1, 3)
    n_variables, n_constants = len(names), len(constants)

    def final(register: IntArray) -> IntArray:
        result = np.where(register < n_variables, register, register + n_constants)
        return _frozen(np.where(register < 0, n_variables - 1 - register, result))

    return Program(
        variables=names,
        constants=_frozen(np.array(constants, dtype=np.float64)),
        opcodes=_frozen(instructions[:, 0].copy()),
        first=final(instructions[:, 1]),
        second=final(instructions[:, 2]),
        outputs=final(np.array(outputs, dtype=np.int64)),
    )


def _frozen(array: _Array) -> _Array:
    array.flags.writeable = False
    return array


def evaluate(
    expressions: Sequence[Expression],
    X: FloatArray,
    variables: Sequence[str],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    n_threads: int = 1,
    backend: Backend = "auto",
) -> Evaluation:
    """Evaluate many expressions on many rows.

    Parameters
    ----------
    expressions : sequence of Expression
        What to compute.
    X : array-like of shape (n_rows, n_variables)
        The data; never changed.
    variables : sequence of str
        Names of the columns of X.
    max_bytes, n_threads, backend
        As in :meth:`Program.run`.

    Returns
    -------
    Evaluation
        Values and the mask of finite ones.

    Examples
    --------
    >>> from sr4mdl.text import parse
    >>> evaluate([parse("x^2"), parse("1/x")], [[2.0], [0.0]], ["x"]).valid.tolist()
    [[True, True], [True, False]]
    """
    program = compile_program(expressions, variables)
    return program.run(X, max_bytes=max_bytes, n_threads=n_threads, backend=backend)


def evaluate_one(
    expression: Expression, X: FloatArray, variables: Sequence[str]
) -> FloatArray:
    """Return the values of one expression, one per row; NaN and infinities stay."""
    values: FloatArray = evaluate([expression], X, variables).values[0]
    return values
