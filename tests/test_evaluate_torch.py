"""Batched register programs in torch against the CPU evaluator."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sr4mdl.corpus.trees import random_expression  # noqa: E402
from sr4mdl.evaluate import compile_program  # noqa: E402
from sr4mdl.evaluate.torch_programs import pack_programs, run_programs  # noqa: E402
from sr4mdl.text import parse  # noqa: E402

NAMES = ("x0", "x1", "x2")


def test_a_program_by_hand() -> None:
    # Two programs on two rows: (a + b) * a and sqrt(a), padded with a no-operation.
    opcodes = torch.tensor([[1, 3], [6, 0]])
    first = torch.tensor([[0, 2], [0, 0]])
    second = torch.tensor([[1, 0], [0, 0]])
    registers = torch.zeros(2, 4, 2, dtype=torch.float64)
    registers[0, 0] = torch.tensor([1.0, 2.0])
    registers[0, 1] = torch.tensor([3.0, 5.0])
    registers[1, 0] = torch.tensor([9.0, -1.0])
    run_programs(opcodes, first, second, registers, first_output=2)
    assert registers[0, 3].tolist() == [4.0, 14.0]
    assert registers[1, 2, 0] == 3.0
    assert torch.isnan(registers[1, 2, 1])
    assert registers[1, 3].tolist() == [0.0, 0.0]


def test_equal_to_the_cpu_evaluator() -> None:
    rng = np.random.default_rng(0)
    expressions = [random_expression(rng, int(n)) for n in rng.integers(2, 30, 60)]
    programs = [compile_program([expression], NAMES) for expression in expressions]
    tables = [rng.normal(size=(17, 3)) * 2 for _ in programs]
    packed = pack_programs(programs, tables)
    for program, table, found in zip(programs, tables, packed.run(), strict=True):
        expected = program.run(table)
        values = found.numpy()
        np.testing.assert_array_equal(np.isfinite(values), expected.valid)
        np.testing.assert_allclose(
            values[expected.valid], expected.values[expected.valid], rtol=1e-9
        )


def test_selecting_among_all_operators_gives_the_same() -> None:
    """The form that is compiled for GPUs, run here without the compiler."""
    from sr4mdl.evaluate import torch_programs

    rng = np.random.default_rng(1)
    programs = [compile_program([random_expression(rng, 12)], NAMES) for _ in range(20)]
    tables = [rng.normal(size=(5, 3)) for _ in programs]
    one = pack_programs(programs, tables)
    two = pack_programs(programs, tables)
    one.run()
    for t in range(two.opcodes.shape[1]):
        two.registers[:, two.first_output + t] = torch_programs._step(
            two.registers, two.opcodes[:, t], two.first[:, t], two.second[:, t]
        )
    written = (one.opcodes != 0)[:, :, None].expand(-1, -1, 5)
    start = one.first_output
    torch.testing.assert_close(
        one.registers[:, start:][written], two.registers[:, start:][written],
        equal_nan=True,
    )  # fmt: skip


def test_too_few_registers_are_refused() -> None:
    program = compile_program([parse("x0 + x1")], NAMES)
    packed = pack_programs([program], [np.ones((2, 3))])
    with pytest.raises(ValueError, match="registers must hold"):
        run_programs(
            packed.opcodes, packed.first, packed.second,
            packed.registers[:, : packed.first_output],
            first_output=packed.first_output,
        )  # fmt: skip
