"""The archive: front, choice, runner-up, ties."""

import math
from dataclasses import dataclass

import pytest

from sr4mdl.expressions import Expression
from sr4mdl.selection.pareto import ParetoArchive, skeleton
from sr4mdl.text import parse


@dataclass(frozen=True)
class Entry:
    expression: Expression
    rmse: float
    bits: float


def entry(text, rmse, bits):
    return Entry(parse(text), rmse, bits)


def test_a_skeleton_forgets_the_values_of_constants_only():
    assert skeleton(parse("2*x + 3")) is skeleton(parse("5*x + 7"))
    assert skeleton(parse("2*x + 3")) is not skeleton(parse("2*y + 3"))


def test_the_front_holds_no_formula_that_a_shorter_one_fits_as_well():
    archive = ParetoArchive()
    archive.add(entry("x + y", 0.5, 20.0))
    archive.add(entry("x", 1.0, 15.0))
    archive.add(entry("sin(x)", 2.0, 40.0))  # longer and worse than x
    archive.add(entry("x*y + x", 0.1, 25.0))
    assert [str(one.expression) for one in archive] == ["x", "x + y", "x*y + x"]
    archive.add(entry("y", 0.05, 10.0))  # shorter and better than all
    assert [str(one.expression) for one in archive.front()] == ["y"]
    assert len(archive) == 1


def test_the_choice_is_by_bits_with_the_gap_to_another_shape():
    archive = ParetoArchive()
    assert archive.add(entry("2*x", 0.5, 20.0))
    assert not archive.add(entry("2.5*x", 0.4, 21.0))  # the same shape
    assert archive.add(entry("x^2", 0.3, 12.5))
    assert not archive.add(entry("sin(x)", 0.3, 30.0))
    choice = archive.choose()
    assert str(choice.best.expression) == "x^2"
    assert str(choice.runner_up.expression) == "2*x"
    assert choice.gap_bits == 7.5


def test_ties_keep_the_first():
    archive = ParetoArchive()
    archive.add(entry("x + y", 0.5, 20.0))
    archive.add(entry("x*y", 0.5, 20.0))
    assert str(archive.best.expression) == "x + y"
    assert [str(one.expression) for one in archive] == ["x + y"]


def test_one_formula_has_no_runner_up():
    archive = ParetoArchive()
    archive.add(entry("x", 1.0, 5.0))
    assert archive.choose().runner_up is None
    assert archive.choose().gap_bits is None


def test_an_undefined_error_is_not_archived():
    archive = ParetoArchive()
    assert not archive.add(entry("x", math.inf, 5.0))
    assert archive.best is None
    with pytest.raises(ValueError, match="empty"):
        archive.choose()


def test_the_size_is_bounded():
    archive = ParetoArchive(max_size=3)
    text = "x"
    for step in range(10):
        archive.add(entry(text, 1.0 / (step + 1), 100.0 - step))
        text = f"sin({text})"
    assert len(archive) == 3
    assert len(archive.ranking()) == 3
    with pytest.raises(ValueError, match="max_size"):
        ParetoArchive(max_size=1)
