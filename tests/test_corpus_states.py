"""States along derivations: labels by hand, numbers against the formula."""

import math
import random

import numpy as np
import pytest

from sr4mdl import moves
from sr4mdl.corpus import derivation, formulas, program_writer, skeletons, states
from sr4mdl.operators import operator_of_opcode
from sr4mdl.text import parse

NAMES = ("a", "b", "c", "d")


def bank_of(text: str, names: tuple[str, ...] = NAMES) -> skeletons.SkeletonBank:
    bank = skeletons.SkeletonBank.empty(1)
    bank.store(0, skeletons.build_skeleton(parse(text), names, keep_constants=True))
    return bank


def run_program(arrays: states.StateArrays, row: int, table: np.ndarray) -> np.ndarray:
    """Return all registers of one state's program on a table (n_rows, n_inputs)."""
    registers = np.zeros((program_writer.N_REGISTERS, len(table)))
    registers[: table.shape[1]] = table.T
    first, last = program_writer.FIRST_CONSTANT, program_writer.FIRST_OUTPUT
    registers[first:last] = arrays.constants[row][:, None]
    with np.errstate(all="ignore"):
        for step, opcode in enumerate(arrays.opcodes[row]):
            if opcode == 0:
                break
            operator = operator_of_opcode(int(opcode))
            operands = (
                registers[arrays.first[row, step]],
                registers[arrays.second[row, step]],
            )
            registers[last + step] = operator.numpy(*operands[: operator.arity])
    return registers


def describe(move_id: int) -> str:
    move = moves.decode_move(move_id)
    if move.kind == "target":
        return f"{move.operator.name}(y)"
    if move.kind == "pair":
        return f"{move.operator.name}({move.first},{move.second})"
    action = move.action
    assert action is not None
    if action.peels_target:
        return f"{move.operator.name}(y,{move.first})"
    if action.constant is None:
        return f"{move.operator.name}({move.first})"
    constant = "pi" if action.constant == math.pi else f"{action.constant:g}"
    pair = [str(move.first), constant]
    if action.constant_first:
        pair.reverse()
    return f"{move.operator.name}({','.join(pair)})"


def root_label(text: str, names: tuple[str, ...] = NAMES) -> tuple[int, set[str]]:
    arrays = states.walk_derivation(bank_of(text, names), 0, seed=0)
    found = {describe(int(move)) for move in arrays.moves[0] if move >= 0}
    return int(arrays.value[0]), found


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("a*b", 3, {"mul(0,1)", "div(y,0)", "div(y,1)"}),
        ("a/b", 3, {"div(0,1)", "div(y,0)", "mul(y,1)"}),
        # A sum of three: any two with their signs, or the other way round while
        # another positive term is there.
        ("a - b + c", 5,
         {"sub(0,1)", "sub(1,0)", "sub(2,1)", "sub(1,2)", "add(0,2)",
          "sub(y,0)", "add(y,1)", "sub(y,2)"}),
        # exp pins the sign and undoes on the target's side.
        ("exp(a - b)", 4, {"sub(0,1)", "log(y)"}),
        # cos is even: both orders.
        ("cos(a - b)", 4, {"sub(0,1)", "sub(1,0)"}),
        # The top of a formula has a free factor: both orders of the difference.
        ("c*(a - b)", 5, {"sub(0,1)", "sub(1,0)", "div(y,2)"}),
        # Constants at the top are for closing; inside a function they are moves.
        ("2*a", 3, {"div(y,0)"}),
        ("sin(2*a)", 4, {"mul(0,2)"}),
        ("sin(a/pi)", 4, {"div(0,pi)"}),
        ("exp(1 - a)", 4, {"sub(1,0)", "log(y)"}),
        ("sqrt(1 - a^2)", 5, {"square(0)", "square(y)"}),
        ("log(a - 2)", 4, {"sub(0,2)", "exp(y)"}),
        ("sin(1.37*a)", 4, set()),
        ("a^b", 3, {"pow(0,1)"}),
        ("a^4", 3, {"square(0)", "sqrt(y)"}),
        ("1/(a*b)", 4, {"mul(0,1)", "inv(y)", "mul(y,0)", "mul(y,1)"}),
        ("arcsin(a*b)", 4, {"mul(0,1)", "sin(y)"}),
        ("a", 0, set()),
    ],
)  # fmt: skip
def test_labels_by_hand(text: str, value: int, expected: set[str]) -> None:
    found_value, found = root_label(text)
    # Column 1 with the constant 1 in front prints like a pair; none of the cases
    # above has both.
    assert (found_value, found) == (value, expected)


def test_a_shared_part_is_built_once() -> None:
    # a*b occurs twice; building it takes 2 symbols off each occurrence.
    arrays = states.walk_derivation(bank_of("sin(a*b) + exp(a*b)", ("a", "b")), 0, 1)
    assert arrays.value[0] == 9
    assert [describe(int(m)) for m in arrays.moves[0] if m >= 0] == ["mul(0,1)"]
    assert arrays.value[1] == 5


def test_columns_and_target_are_the_formulas_numbers() -> None:
    arrays = states.walk_derivation(bank_of("a*sqrt(b^2 + c^2)", ("a", "b", "c")), 0, 3)
    table = np.random.default_rng(0).uniform(1, 2, (7, 3))
    a, b, c = table.T
    registers = run_program(arrays, 0, table)
    np.testing.assert_allclose(
        registers[arrays.target[0]], a * np.sqrt(b**2 + c**2), rtol=1e-14
    )
    assert arrays.n_columns[0] == 3
    for column, expected in zip(arrays.columns[0, :3], (a, b, c), strict=True):
        np.testing.assert_array_equal(registers[column], expected)


def test_walks_end_at_the_target() -> None:
    """Every move is right: a walk without free constants ends at a column equal to y.

    Up to the sign, which closing fits.
    """
    rng = random.Random(5)
    bank = skeletons.SkeletonBank.empty(1)
    n_finished = 0
    for number in range(600):
        formula = formulas.default_formula(rng)
        expression = formula.expression
        if not expression.variables or expression.length > 40:
            continue
        names = formulas.VARIABLE_NAMES[: formula.n_variables]
        bank.store(0, skeletons.build_skeleton(expression, names, keep_constants=True))
        arrays = states.walk_derivation(bank, 0, number)
        assert (np.diff(arrays.value) < 0).all(), str(expression)
        if len(arrays.value) == 0 or arrays.value[-1] != 0:
            continue
        table = np.random.default_rng(number).uniform(0.5, 1.5, (40, len(names)))
        registers = run_program(arrays, len(arrays.value) - 1, table)
        target = registers[arrays.target[-1]]
        finite = np.isfinite(target) & (np.abs(target) < 1e12)
        if finite.sum() < 5:
            continue
        n_finished += 1
        assert any(
            np.allclose(np.abs(registers[c][finite]), np.abs(target[finite]), rtol=1e-6)
            for c in arrays.columns[-1, : arrays.n_columns[-1]]
        ), str(expression)
    assert n_finished > 100


def test_every_correct_move_makes_less_missing() -> None:
    """Each labelled move, tried by walking many seeds, leads to a shorter remainder."""
    bank = bank_of("a*exp(-(b/c)^2/2)/(1 + d^2)")
    seen = set()
    for seed in range(60):
        arrays = states.walk_derivation(bank, 0, seed)
        assert (np.diff(arrays.value) < 0).all()
        seen.update(arrays.value.tolist())
    assert max(seen) == 15


def test_sampling_is_reproducible_and_within_limits() -> None:
    rng = random.Random(0)
    bank = skeletons.SkeletonBank.empty(50)
    for row in range(50):
        formula = formulas.sample_formula(rng, "default")
        names = formulas.VARIABLE_NAMES[: formula.n_variables]
        bank.store(row, skeletons.build_skeleton(formula.expression, names))
    one = states.sample_states(bank, 50, 2000, 7, states.StateRates())
    two = states.sample_states(bank, 50, 2000, 7, states.StateRates())
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)
    other = states.sample_states(bank, 50, 2000, 8, states.StateRates())
    assert (one.opcodes != other.opcodes).any()
    assert one.value.min() >= 0
    assert one.value.max() <= derivation.MAX_VALUE
    assert ((one.n_columns >= 1) & (one.n_columns <= moves.MAX_COLUMNS)).all()
    for row in range(300):
        legal = moves.legal_moves(int(one.n_columns[row]))
        labelled = one.moves[row][one.moves[row] >= 0]
        assert legal[labelled].all()
    # Instructions read only inputs, constants and earlier results.
    for row in range(300):
        for step in np.flatnonzero(one.opcodes[row]):
            assert one.first[row, step] < program_writer.FIRST_OUTPUT + step
            assert one.second[row, step] < program_writer.FIRST_OUTPUT + step


def test_junk_is_never_a_correct_move() -> None:
    bank = bank_of("a*b", ("a", "b"))
    rates = states.StateRates(junk=0.9, root=1.0, emit=0.0)
    arrays = states.sample_states(bank, 1, 300, 1, rates)
    table = np.random.default_rng(0).uniform(1.1, 2.9, (5, 2))
    for row in range(300):
        registers = run_program(arrays, row, table)
        target = registers[arrays.target[row]]
        columns = registers[arrays.columns[row, : arrays.n_columns[row]]]
        # Junk of junk may meet the target by a detour; one step may not.
        if (arrays.opcodes[row] > 0).sum() == 2:
            assert not np.isclose(columns, target).all(axis=1).any()


def test_too_large_formulas_are_refused() -> None:
    text = " + ".join(f"sin({k}.5*a)*cos({k}.25*b)" for k in range(1, 20))
    with pytest.raises(skeletons.SkeletonTooLargeError):
        skeletons.build_skeleton(parse(text), NAMES)
