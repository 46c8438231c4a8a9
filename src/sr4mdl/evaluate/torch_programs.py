"""Many small register programs at once in torch, each on its own rows.

Where the compiled evaluator runs one program on many rows, this runs B different
programs in step: instruction t of all of them together. Within a step every operator
of the table is computed and the opcode selects the result, which a compiler for GPUs
fuses into one kernel; without compilation only the operators that occur are computed.

Registers are one tensor of shape (B, n_registers, n_rows): inputs and constants first,
then one register per instruction, written in order. Values outside an operator's
domain come out as NaN or inf and stay so.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sr4mdl._typing import FloatArray
from sr4mdl.evaluate.programs import Program
from sr4mdl.operators import Operator, all_operators, operator_of_opcode

NO_OPERATION = 0
"""Opcode of padding; it writes 0."""


def torch_function(operator: Operator) -> Callable[..., Tensor]:
    """Return the operator's form on tensors."""
    if callable(operator.torch):
        return operator.torch
    function: Callable[..., Tensor] = getattr(torch, operator.torch)
    return function


def run_programs(
    opcodes: Tensor,
    first: Tensor,
    second: Tensor,
    registers: Tensor,
    *,
    first_output: int,
    n_steps: int | None = None,
    compile: bool = False,
) -> None:
    """Run B programs; results are written into ``registers``.

    Parameters
    ----------
    opcodes : integer Tensor of shape (B, T)
        Opcodes of built-in operators; 0 is padding.
    first, second : integer Tensor of shape (B, T)
        Registers of the operands; ``second`` is ignored by unary operators.
    registers : float Tensor of shape (B, n_registers, n_rows)
        Inputs and constants in front; instruction t writes register
        ``first_output + t``. Changed in place.
    first_output : int
        Register of the first instruction.
    n_steps : int, optional
        Instructions of the longest program, if known: saves waiting for the device.
    compile : bool, default=False
        Fuse each step into one kernel; pays on a GPU.
    """
    if n_steps is None:
        used = (opcodes != NO_OPERATION).any(0)
        n_steps = int(used.nonzero()[-1]) + 1 if bool(used.any()) else 0
    if first_output + n_steps > registers.shape[1]:
        raise ValueError(
            f"registers must hold {first_output + n_steps} registers, "
            f"got {registers.shape[1]}"
        )
    # One contiguous row per step.
    steps = opcodes[:, :n_steps].T.contiguous()
    ones = first[:, :n_steps].T.long().contiguous()
    twos = second[:, :n_steps].T.long().contiguous()
    if compile:
        step = _compiled_step()
        for t in range(n_steps):
            registers[:, first_output + t] = step(registers, steps[t], ones[t], twos[t])
        return
    for t in range(n_steps):
        for opcode in torch.unique(steps[t]).tolist():
            chosen = (steps[t] == opcode).nonzero()[:, 0]
            if opcode == NO_OPERATION:
                registers[chosen, first_output + t] = 0.0
            else:
                operator = operator_of_opcode(opcode)
                operands = [registers[chosen, ones[t][chosen]]]
                if operator.arity == 2:
                    operands.append(registers[chosen, twos[t][chosen]])
                result = torch_function(operator)(*operands)
                registers[chosen, first_output + t] = result


def _step(registers: Tensor, opcode: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the results (B, n_rows) of one instruction of every program."""
    program = torch.arange(registers.shape[0], device=registers.device)
    a = registers[program, first]
    b = registers[program, second]
    wide = opcode[:, None]
    result = torch.zeros_like(a)
    for operator in all_operators():
        if operator.builtin:
            operands = (a, b)[: operator.arity]
            value = torch_function(operator)(*operands)
            result = torch.where(wide == operator.opcode, value, result)
    return result


@functools.cache
def _compiled_step() -> Any:
    # Programs may run in one thread while another compiles a network: then the step
    # runs uncompiled instead of failing.
    torch._dynamo.config.error_on_nested_fx_trace = False
    return torch.compile(_step, dynamic=False)


@dataclass(frozen=True, slots=True)
class PackedPrograms:
    """Programs of the CPU evaluator laid out for :func:`run_programs`."""

    opcodes: Tensor
    first: Tensor
    second: Tensor
    registers: Tensor
    first_output: int
    outputs: list[list[int]]
    """Registers of each program's expressions."""

    def run(self, *, compile: bool = False) -> list[Tensor]:
        """Run all; return values (n_expressions, n_rows) of each program."""
        run_programs(
            self.opcodes, self.first, self.second, self.registers,
            first_output=self.first_output, compile=compile,
        )  # fmt: skip
        return [self.registers[b, index] for b, index in enumerate(self.outputs)]


def pack_programs(
    programs: Sequence[Program],
    tables: Sequence[FloatArray],
    *,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> PackedPrograms:
    """Return the programs with a common layout of registers.

    Parameters
    ----------
    programs : sequence of Program
        Programs of built-in operators.
    tables : sequence of ndarray of shape (n_rows, n_variables)
        The rows of each program; all of one length.
    dtype, device
        Of the registers.
    """
    n_inputs = max(len(program.variables) for program in programs)
    n_constants = max(program.constants.size for program in programs)
    n_steps = max(program.n_instructions for program in programs)
    first_output = n_inputs + n_constants
    size = len(programs)
    opcodes = torch.zeros(size, n_steps, dtype=torch.long)
    operands = torch.zeros(2, size, n_steps, dtype=torch.long)
    registers = torch.zeros(
        size, first_output + n_steps, len(tables[0]), dtype=torch.float64
    )
    outputs = []
    for b, (program, table) in enumerate(zip(programs, tables, strict=True)):
        if not all(operator_of_opcode(int(code)).builtin for code in program.opcodes):
            raise ValueError(f"programs must use built-in operators only (program {b})")
        # Registers of the program itself, renumbered to the common layout.
        place = np.concatenate(
            [
                np.arange(len(program.variables)),
                n_inputs + np.arange(program.constants.size),
                first_output + np.arange(program.n_instructions),
            ]
        )
        count = program.n_instructions
        opcodes[b, :count] = torch.tensor(program.opcodes.tolist())
        operands[0, b, :count] = torch.from_numpy(place[program.first])
        operands[1, b, :count] = torch.from_numpy(place[program.second])
        registers[b, : len(program.variables)] = torch.from_numpy(
            np.ascontiguousarray(np.asarray(table, dtype=np.float64).T)
        )
        registers[b, n_inputs : n_inputs + program.constants.size] = torch.tensor(
            program.constants.tolist(), dtype=torch.float64
        )[:, None]
        outputs.append([int(register) for register in place[program.outputs]])
    return PackedPrograms(
        opcodes.to(device), operands[0].to(device), operands[1].to(device),
        registers.to(device, dtype), first_output, outputs,
    )  # fmt: skip
