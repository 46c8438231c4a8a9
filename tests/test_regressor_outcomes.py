"""Choice, constants and weights, with answers worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sr4mdl import parse
from sr4mdl.regressor.equations import COLUMNS, Equation, EquationTable, measure
from sr4mdl.regressor.explanation import describe_constant
from sr4mdl.regressor.outcomes import (
    Constant,
    Table,
    _left_over,
    _notes_on_chance,
    choose,
    find_constants,
    known_noise_bits,
)
from sr4mdl.regressor.weights import rows_of_weights
from sr4mdl.selection.bits import residual_bits
from sr4mdl.selection.limits import Limits


def table(y: np.ndarray | None = None) -> Table:
    X = np.array([[1.0], [2.0], [3.0], [4.0]])
    y = np.array([2.0, 4.0, 6.0, 9.0]) if y is None else y
    return Table(X, y, ("x",), "y")


def equation(formula: str, rows: Table) -> Equation:
    found = measure(parse(formula), rows.X, rows.y, rows.names, rows.target)
    assert found is not None
    return found


def test_measures() -> None:
    one = equation("2*x", table())
    # Only the last row is wrong, by 1; the mean of y is 5.25.
    assert one.error == 0.5
    assert one.r2 == pytest.approx(1 - 1 / (3.25**2 + 1.25**2 + 0.75**2 + 3.75**2))
    assert one.bits == one.formula_bits + one.residual_bits
    assert str(one) == "y = 2*x"
    undefined = measure(parse("sqrt(x - 3)"), *_parts(table()))
    assert undefined is None


def _parts(rows: Table) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], str]:
    return rows.X, rows.y, rows.names, rows.target


def test_choice_is_by_bits_and_the_runner_up_has_another_shape() -> None:
    rows = table(np.array([2.0, 4.0, 6.0, 8.0]))
    candidates = [equation(text, rows) for text in ("5", "2*x", "2.1*x", "x^2")]
    equations, best, runner_up = choose(
        candidates, rows, limits=Limits(), noise=None, held_out=None
    )
    assert [one.formula for one in equations] == ["5", "x^2", "2*x", "2.1*x"]
    assert best == 2
    # 2.1*x is the same shape as 2*x.
    assert runner_up == min((0, 1), key=lambda row: equations[row].bits)


def test_formulas_as_long_as_the_target_may_fit_by_chance() -> None:
    rows = table(np.array([3.0, 5.0, 2.0, 7.0]))
    long = equation("(56*x + 120/x - 212)/(x + x^2 - 14)", rows)
    assert long.error == 0.0
    # A whole number n takes 2 + 2*log2(n) bits: 5.17, 6.64, 4 and 7.61 are 23.4.
    (note,) = _notes_on_chance(long, rows)
    assert note == (
        f"the formula takes {long.formula_bits:.0f} bits, the 4 values of y themselves "
        "only 23: it may fit by chance"
    )
    # The same rows once more say nothing new.
    twice = Table(np.tile(rows.X, (9, 1)), np.tile(rows.y, 9), ("x",), "y")
    assert _notes_on_chance(long, twice) == (note,)
    assert _notes_on_chance(equation("4", rows), rows) == ()
    # Four values of full precision take more bits than a formula of this length.
    values = equation("(56.1*x + 120/x - 212)/(x + x^2 - 14.7)", rows)
    y = rows.y + np.array([0.1, 0.2, 0.3, 0.4]) / 7.0
    assert _notes_on_chance(values, Table(rows.X, y, ("x",), "y")) == ()


def test_other_spellings_are_left_out() -> None:
    rows = table()
    candidates = [equation(text, rows) for text in ("2*x", "x*2", "x + x", "3")]
    equations, best, _ = choose(
        candidates, rows, limits=Limits(), noise=None, held_out=None
    )
    assert sorted(one.formula for one in equations)[0] == "3"
    assert len(equations) == 2
    assert equations[best].formula == "x + x"  # fewer bits than a constant


def test_too_long_formulas_leave_the_mean() -> None:
    rows = table()
    equations, best, runner_up = choose(
        [equation("2*x", rows)],
        rows,
        limits=Limits(max_length=2),
        noise=None,
        held_out=None,
    )
    assert [one.formula for one in equations] == ["5.25"]
    assert (best, runner_up) == (0, None)


def test_held_out_rows_decide() -> None:
    rows = table()
    held_out = Table(np.array([[10.0]]), np.array([20.0]), ("x",), "y")
    candidates = [equation("2*x", rows), equation("2*x + (x/4)^100", rows)]
    assert candidates[1].error < 1e-9
    equations, best, _ = choose(
        candidates, rows, limits=Limits(), noise=None, held_out=held_out
    )
    assert equations[best].formula == "2*x"
    assert equations[best].validation_error == 0.0
    assert equations[best].error == 0.5


def test_formulas_undefined_on_held_out_rows_are_out() -> None:
    rows = table()
    held_out = Table(np.array([[-1.0]]), np.array([-2.0]), ("x",), "y")
    candidates = [equation("2*x", rows), equation("4*sqrt(x)", rows)]
    equations, _, _ = choose(
        candidates, rows, limits=Limits(), noise=None, held_out=held_out
    )
    assert [one.formula for one in equations] == ["2*x"]


def test_bits_under_known_noise() -> None:
    floor, noise = 1e-9, 0.1
    at_noise = known_noise_bits(0.1, 100, floor, noise)
    assert at_noise == pytest.approx(residual_bits(0.1, 100, floor))
    # Twice the noise: 3/2 nats per row more; no error at all: 1/2 nat per row less.
    twice = known_noise_bits(0.2, 100, floor, noise)
    assert twice - at_noise == pytest.approx(150 / math.log(2))
    none = known_noise_bits(0.0, 100, floor, noise)
    assert at_noise - none == pytest.approx(50 / math.log(2))


@given(st.floats(0.0, 1e3), st.floats(1e-300, 1e3))
def test_bits_under_known_noise_are_above_zero(error: float, noise: float) -> None:
    assert known_noise_bits(error, 10, 1e-6, noise) > 0.0


def test_standard_errors_are_those_of_linear_regression() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 5.0, (50, 1))
    y = 1.5 + 2.5 * X[:, 0] + rng.normal(0.0, 0.1, 50)
    design = np.column_stack([np.ones(50), X[:, 0]])
    solution, squares, *_ = np.linalg.lstsq(design, y, rcond=None)
    a, b = solution.tolist()
    covariance = np.linalg.inv(design.T @ design) * squares[0] / 48
    found = find_constants(parse(f"{a!r} + {b!r}*x"), Table(X, y, ("x",), "y"))
    assert [one.value for one in found] == [a, b]
    np.testing.assert_allclose(
        [one.standard_error for one in found], np.sqrt(np.diag(covariance)), rtol=1e-6
    )


@pytest.mark.parametrize("size", [1e-200, 1e-10, 1e200])
def test_standard_errors_do_not_mind_the_size(size: float) -> None:
    X = np.array([[1.0], [2.0], [3.0]])
    y = np.array([1.0, 3.0, 3.0]) * size
    (found,) = find_constants(parse(f"{size!r}*x"), Table(X, y, ("x",), "y"))
    # Residuals 0, 1, 0 over two degrees of freedom; the squares of x sum to 14.
    assert found.standard_error == pytest.approx(size * math.sqrt(0.5 / 14.0))


def test_numbers_of_a_formula() -> None:
    found = find_constants(parse("2*pi*x + 2"), table())
    assert [one.text for one in found] == ["2*pi", "2"]
    assert found[0].value == 2 * math.pi
    assert find_constants(parse("x"), table()) == ()
    # Two constants that make up for each other.
    found = find_constants(parse("2*(3*x)"), table())
    assert [one.standard_error for one in found] == [None, None]
    # As many constants as rows.
    many = find_constants(parse("1 + 2*x + 3*x^2 + 5*x^3"), table())
    assert {one.standard_error for one in many} == {None}


def test_constants_in_words() -> None:
    assert describe_constant(Constant("9.81", 9.81, 0.0213)) == "9.81 +- 0.021"
    assert describe_constant(Constant("2*pi", 2 * math.pi, 0.001)) == (
        "2*pi = 6.28319 +- 0.001"
    )
    assert "do not tell" in describe_constant(Constant("3", 3.0, None))


def test_whole_weights_repeat_rows() -> None:
    rng = np.random.default_rng(0)
    assert rows_of_weights([2, 0, 1], 3, rng).tolist() == [0, 0, 2]
    assert rows_of_weights([0.0, 0.5, 0.5], 3, rng).tolist().count(0) == 0


@given(
    st.lists(st.floats(0.0, 10.0), min_size=1, max_size=30).filter(
        lambda weights: sum(weights) > 1e-3
    ),
    st.integers(0, 100),
)
def test_other_weights_are_kept_up_to_rounding(weights: list[float], seed: int) -> None:
    scaled = np.array(weights) + 0.0
    scaled[scaled > 0] += 1e-3 * math.pi  # not whole
    rows = rows_of_weights(scaled, len(scaled), np.random.default_rng(seed))
    assert len(rows) == len(scaled)
    counts = np.bincount(rows, minlength=len(scaled))
    expected = scaled / scaled.mean()
    assert np.all(np.abs(counts - expected) < 1.0 + 1e-9)
    assert np.all(counts[scaled == 0] == 0)


def test_large_whole_weights_do_not_blow_up() -> None:
    rows = rows_of_weights([1_000_000, 3_000_001], 2, np.random.default_rng(0))
    assert len(rows) == 2
    assert 1 in rows


def test_whole_weights_count_by_their_ratio() -> None:
    for weights in ([10, 0, 30], [1_000_000, 0, 3_000_000]):
        rows = rows_of_weights(weights, 3, np.random.default_rng(0))
        assert rows.tolist() == [0, 2, 2, 2]


def test_table_of_equations() -> None:
    rows = table()
    equations = EquationTable([equation("5", rows), equation("2*x", rows)], [1])
    lines = repr(equations).splitlines()
    assert lines[0].split() == ["target", "length", "error", "R2", "bits", "formula"]
    assert lines[2].startswith(">")
    assert not lines[1].startswith(">")
    assert equations[1].formula == "2*x"
    assert len(equations[0:2]) == 2
    head, *body = equations.to_csv().splitlines()
    assert head == ",".join(COLUMNS)
    assert body[1].startswith("y,2*x,3,0.5,0.9")
    assert "<td>2*x</td>" in equations._repr_html_()
    assert repr(EquationTable([])) == "EquationTable(no rows)"
    assert equations != EquationTable([])
    assert hash(equations) == hash(EquationTable(list(equations), [1]))


@pytest.mark.parametrize(
    ("formula", "noise", "answer"),
    [
        ("a*b", 0.0, "nothing"),
        ("a*b", 0.5, "noise"),
        ("3*a", 0.5, "structure"),
    ],
)
def test_an_answer_says_what_it_leaves(formula: str, noise: float, answer: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 4.0, (400, 2))
    y = X[:, 0] * X[:, 1] + noise * rng.standard_normal(400)
    rows = Table(X, y, ("a", "b"), "y")
    assert _left_over(equation(formula, rows), rows) == answer


def test_errors_beyond_every_bound_are_measured_all_the_same() -> None:
    # Their squares are no doubles any more.
    assert known_noise_bits(1e200, 10, 1e-12, 1.0) == math.inf
    far_off = measure(parse("exp(115*x)"), *_parts(table()))
    assert far_off is not None
    assert far_off.r2 == -math.inf
