"""Closing a whole state: right answers, hard inputs, noise, limits."""

import math
from time import perf_counter, sleep

import numpy as np
import pytest

import sr4mdl.closing.state as state
from sr4mdl.closing import ClosingProblem, OuterStep, close_state
from sr4mdl.closing.drafts import Draft
from sr4mdl.closing.power_laws import close_power_laws
from sr4mdl.closing.pruning import replace_node, shortened, without_idle_abs
from sr4mdl.evaluate import evaluate_one
from sr4mdl.expressions import variable
from sr4mdl.text import parse

RNG = np.random.default_rng(2)
ROWS = RNG.uniform(1.0, 4.0, (200, 3))
X, Y, Z = ROWS.T
NAMES = ("x", "y", "z")
NOISE = RNG.normal(size=200)


def root(y, rows=ROWS, names=NAMES):
    return ClosingProblem.root(rows, y, names)


def best_text(y, tier="full", rows=ROWS, names=NAMES):
    result = close_state(root(y, rows, names), tier)
    return str(result.candidates[0].expression)


@pytest.mark.parametrize("tier", ["quick", "medium", "full"])
@pytest.mark.parametrize(
    ("y", "text"),
    [
        (X, "x"),
        (2.0 * X - Y, "2*x - y"),
        (X * Y / Z, "x*y/z"),
        (0.05 * X**2, "0.05*x^2"),
        (X**2 + Y * Z, "x^2 + y*z"),
        (np.sqrt(X * Y / Z), "sqrt(x*y/z)"),
    ],
)
def test_exact_laws_with_clean_constants(y, text, tier):
    result = close_state(root(y), tier)
    best = result.candidates[0]
    assert best.expression is parse(text) or sorted(str(best.expression)) == sorted(
        text
    )
    assert result.exact
    assert best.rmse <= 1e-12 * math.sqrt(np.mean(y**2))
    assert best.r2 == pytest.approx(1.0)


def test_the_numbers_of_a_candidate_are_those_of_its_formula():
    y = np.exp(-X) + Y / Z + 0.05 * NOISE
    for one in close_state(root(y), "quick").candidates:
        predicted = evaluate_one(one.expression, ROWS, NAMES)
        rmse = math.sqrt(np.mean((predicted - y) ** 2))
        assert one.rmse == pytest.approx(rmse, rel=1e-6)
        assert one.r2 == pytest.approx(1.0 - rmse**2 / np.var(y), rel=1e-6)
        assert one.bits == one.formula_bits + one.residual_bits


def test_candidates_come_shortest_code_first():
    result = close_state(root(X * np.sin(Y) + 0.1 * NOISE))
    bits = [one.bits for one in result.candidates]
    assert bits == sorted(bits)
    assert result.n_examined > 10**5
    assert result.n_pool > 1000


@pytest.mark.parametrize("level", [0.001, 0.01, 0.1])
def test_noise_needs_no_setting(level):
    y = 0.5 * X * Y**2
    noisy = y + level * math.sqrt(np.mean(y**2)) * NOISE
    best = close_state(root(noisy)).candidates[0]
    assert best.expression.length == parse("0.5*x*y^2").length
    predicted = evaluate_one(best.expression, ROWS, NAMES)
    assert math.sqrt(np.mean((predicted - y) ** 2)) < 0.2 * level * math.sqrt(
        np.mean(y**2)
    )


def test_pure_noise_gives_the_constant():
    best = close_state(root(5.0 + NOISE)).candidates[0]
    assert best.family == "constant"


def test_outer_steps_are_undone_in_the_answer():
    y = 1.0 / (X * Y + Z)
    problem = ClosingProblem(
        ROWS,
        NAMES,
        np.array([X * Y, Z]).T,
        (parse("x*y"), variable("z")),
        y,
        (OuterStep("inv"),),
    )
    best = close_state(problem, "quick").candidates[0]
    predicted = evaluate_one(best.expression, ROWS, NAMES)
    np.testing.assert_allclose(predicted, y, rtol=1e-12)


def test_outer_steps_that_cannot_be_undone_are_declined():
    y = X - 2.0
    problem = ClosingProblem(
        ROWS, NAMES, ROWS, tuple(map(variable, NAMES)), y, (OuterStep("square"),)
    )
    result = close_state(problem)
    assert [one.family for one in result.candidates] == ["constant"]


def test_errors_are_measured_on_the_original_target():
    y = np.sqrt(X * Y)
    problem = ClosingProblem(
        ROWS, NAMES, ROWS, tuple(map(variable, NAMES)), y, (OuterStep("log"),)
    )
    best = close_state(problem, "quick").candidates[0]
    assert str(best.expression) == "sqrt(x*y)"
    assert best.rmse < 1e-12


def test_a_damped_wave_has_one_phase_and_clean_constants():
    time = np.random.default_rng(6).uniform(0.0, 5.0, (200, 1))
    y = 2.0 * np.exp(-0.3 * time[:, 0]) * np.cos(5.0 * time[:, 0] + 0.4)
    best = close_state(root(y, time, ("t",))).candidates[0]
    assert best.rmse < 1e-12
    numbers = {abs(node.value) for node in best.expression.prefix() if node.value}
    assert numbers == {2.0, 0.3, 5.0, 0.4}


def test_pure_factors_are_divided_out():
    y = X**2 / Y * (Z + np.sin(3.0 * Z))
    closer = state._Closer(root(y), "full", 0.0, math.inf)
    bench = closer.open_bench(state.TIERS["full"][-1], closer.problem)
    close_power_laws(bench)
    assert {0: 2.0, 1: -1.0} in bench.factors
    reduced = state.divide_out(closer.problem, bench.pool, {0: 2.0, 1: -1.0})
    assert [str(one) for one in reduced.expressions] == ["z"]
    np.testing.assert_allclose(reduced.resolve().values, Z + np.sin(3.0 * Z))


# Hard inputs: a right answer or a clean refusal, quickly and without a warning.


@pytest.mark.parametrize("tier", ["quick", "medium", "full"])
def test_one_row(tier):
    result = close_state(root(np.array([2.0]), ROWS[:1]), tier)
    assert str(result.candidates[0].expression) == "2"


@pytest.mark.parametrize("n_rows", [2, 3, 5])
def test_fewer_rows_than_terms(n_rows):
    result = close_state(root(X[:n_rows] * Y[:n_rows], ROWS[:n_rows]))
    assert all(math.isfinite(one.bits) for one in result.candidates)


@pytest.mark.parametrize("value", [0.0, 3.5, -1e-30])
def test_constant_target(value):
    result = close_state(root(np.full(200, value)))
    (best,) = result.candidates
    assert best.expression.value == pytest.approx(value)


def test_duplicate_and_constant_columns():
    rows = np.column_stack([X, X, np.ones(200), Y])
    text = best_text(X * Y, rows=rows, names=("a", "b", "c", "d"))
    assert text in ("a*d", "b*d")


def test_no_column_that_varies():
    result = close_state(root(X, np.ones((200, 1)), ("c",)))
    assert [one.family for one in result.candidates] == ["constant"]


def test_a_column_that_is_not_finite_is_left_out():
    columns = np.column_stack([np.log(X - 2.0 + 0j).real, X])
    columns[0, 0] = math.nan
    problem = ClosingProblem(
        ROWS, NAMES, columns, (parse("log(x - 2)"), variable("x")), 3.0 * X
    )
    assert str(close_state(problem).candidates[0].expression) == "3*x"


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scales_of_the_table_and_of_the_target(scale):
    rows = ROWS * scale
    assert best_text(rows[:, 0] + 2.0 * rows[:, 1], rows=rows) == "x + 2*y"
    best = close_state(root(scale * X * Y**2)).candidates[0]
    predicted = evaluate_one(best.expression, ROWS, NAMES)
    np.testing.assert_allclose(predicted, scale * X * Y**2, rtol=1e-9)


def test_whole_numbers_and_booleans():
    bits = np.random.default_rng(0).integers(0, 2, (100, 2)).astype(float)
    first, second = bits.T
    names = ("p", "q")
    exclusive = (first != second).astype(float)
    best = close_state(root(exclusive, bits, names)).candidates[0]
    np.testing.assert_allclose(evaluate_one(best.expression, bits, names), exclusive)
    assert best.rmse < 1e-12


def test_columns_that_change_sign_and_hold_zeros():
    rows = np.random.default_rng(1).uniform(-2.0, 2.0, (200, 2))
    rows[:4] = 0.0
    y = rows[:, 0] * rows[:, 1] ** 3 + rows[:, 0]
    best = close_state(root(y, rows, ("p", "q"))).candidates[0]
    assert best.rmse < 1e-12


def test_many_columns_of_which_two_matter():
    rows = np.random.default_rng(3).uniform(1.0, 3.0, (200, 30))
    names = tuple(f"v{i}" for i in range(30))
    assert best_text(rows[:, 4] * rows[:, 17], "quick", rows, names) in (
        "v4*v17",
        "v17*v4",
    )


def test_many_rows_are_sampled_and_all_variables_stay():
    rows = np.random.default_rng(4).uniform(1.0, 3.0, (100_000, 2))
    y = rows[:, 0] * np.exp(-rows[:, 1])
    start = perf_counter()
    result = close_state(root(y, rows, ("p", "q")))
    assert result.exact
    assert perf_counter() - start < 30.0
    predicted = evaluate_one(result.candidates[0].expression, rows, ("p", "q"))
    np.testing.assert_allclose(predicted, y, rtol=1e-9)


def test_the_time_limit_is_kept():
    start = perf_counter()
    result = close_state(root(NOISE), time_limit=0.05)
    assert perf_counter() - start < 5.0
    assert result.candidates


def test_wrong_arguments_are_named():
    message = "tier must be one of 'quick', 'medium', 'full', got 'slow'"
    with pytest.raises(ValueError, match=message):
        close_state(root(X), "slow")
    with pytest.raises(ValueError, match="time_limit must be a positive"):
        close_state(root(X), time_limit=-1.0)


def test_the_same_problem_gives_the_same_answer():
    y = X * np.sin(Y) + 0.01 * NOISE
    first, second = close_state(root(y)), close_state(root(y))
    assert first.candidates == second.candidates


def test_nothing_of_the_caller_changes():
    rows, y = ROWS.copy(), X * Y
    before = y.copy()
    close_state(root(y, rows), "quick")
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize(
    "error", [np.linalg.LinAlgError, ZeroDivisionError, OverflowError]
)
def test_a_family_that_breaks_off_costs_the_others_nothing(monkeypatch, error):
    def broken(bench):
        raise error("no way")

    monkeypatch.setattr(
        state, "FIRST_STAGES", (("broken", broken), *state.FIRST_STAGES)
    )
    result = close_state(root(X * Y), "quick")
    assert str(result.candidates[0].expression) == "x*y"
    assert result.failures == (f"broken: {error.__name__}: no way",)


def test_a_draft_that_cannot_be_written_costs_the_others_nothing(monkeypatch):
    def add_broken(bench):
        def write():
            raise ZeroDivisionError("division by zero")

        bench.add(Draft("broken", 0.0, 1.0, write))

    monkeypatch.setattr(
        state, "FIRST_STAGES", (*state.FIRST_STAGES[:2], ("broken", add_broken))
    )
    monkeypatch.setattr(state._Closer, "done", lambda *_: False)
    result = close_state(root(X * Y), "quick")
    assert str(result.candidates[0].expression) == "x*y"
    assert "broken: ZeroDivisionError: division by zero" in result.failures


@pytest.mark.parametrize("step", ["polish", "round", "prune"])
@pytest.mark.parametrize("error", [np.linalg.LinAlgError, OverflowError])
def test_a_fit_that_breaks_off_costs_the_others_nothing(monkeypatch, step, error):
    original = getattr(state._Closer, step)
    n_calls = []

    def broken_at_first(self, *arguments):
        n_calls.append(1)
        if len(n_calls) == 1:
            raise error("no way")
        return original(self, *arguments)

    monkeypatch.setattr(state._Closer, step, broken_at_first)
    result = close_state(root(np.exp(-X) + Y / Z + 0.05 * NOISE))
    assert n_calls
    assert result.candidates[0].r2 > 0.9
    assert sum("no way" in one for one in result.failures) == 1


def test_drafts_are_written_although_the_families_took_all_the_time(monkeypatch):
    def slow(bench):
        sleep(0.1)

    monkeypatch.setattr(
        state, "FIRST_STAGES", (*state.FIRST_STAGES[:2], ("slow", slow))
    )
    monkeypatch.setattr(state._Closer, "done", lambda *_: False)
    result = close_state(root(X * Y), "quick", time_limit=0.1)
    assert str(result.candidates[0].expression) == "x*y"


def test_parts_left_out():
    texts = {str(one) for one in shortened(parse("x + y*z"))}
    assert texts == {"x", "y*z", "x + y", "x + z"}
    assert "-y" in {str(one) for one in shortened(parse("x - y"))}


def test_a_subformula_is_replaced_wherever_it_occurs():
    formula = parse("sin(x) + y*sin(x)")
    assert str(replace_node(formula, parse("sin(x)"), parse("z"))) == "z + y*z"


def test_absolute_values_go_where_the_sign_never_changes():
    known = {variable("x"): np.array([1.0, 2.0]), variable("y"): np.array([-1.0, 1.0])}
    formula = parse("abs(x)*abs(y)*abs(0 - x)")
    assert str(without_idle_abs(formula, known, 2)) == "x*abs(y)*(-(0 - x))"


ZEROS = np.round(np.random.default_rng(7).uniform(0.0, 4.0, (200, 2)), 1)
ZEROS[:5, 0] = 0.0


@pytest.mark.parametrize(
    "text",
    [
        "b*sin(a)",
        "2.5*b*a^1.5",
        "0.3*a*sin(6*a)",
        "b*a^2 + b",
        "a/(a + b + 1)",
        "a^2 + b",
    ],
)
def test_a_few_zeros_hide_no_product(text):
    y = evaluate_one(parse(text), ZEROS, ("a", "b"))
    result = close_state(ClosingProblem.root(ZEROS, y, ("a", "b")))
    assert result.exact


def test_rows_with_zeros_are_left_out_only_where_they_are_few():
    def chosen(columns):
        problem = ClosingProblem.root(columns, np.ones(len(columns)), ("a",))
        return state._rows_without_zeros(problem, 1000).tolist()

    one = np.arange(0.0, 20.0)[:, None]
    assert chosen(one) == list(range(1, 20))
    assert chosen(np.floor(one / 4.0)) == list(range(20))  # a fifth of them
    # Without its zeros this column would not vary.
    assert chosen(np.minimum(one, 1.0)) == list(range(20))


def test_what_fails_where_columns_are_zero_keeps_no_other_from_trying(monkeypatch):
    """Exact without the rows that have zeros, but not with them: all rows are tried."""
    tries = []

    def run_tiers(self):
        tries.append(self.without_zeros)
        return True

    monkeypatch.setattr(state._Closer, "run_tiers", run_tiers)
    for table, expected in [(ZEROS, [True, False]), (ZEROS + 1.0, [False])]:
        tries.clear()
        close_state(ClosingProblem.root(table, table[:, 0] ** 2, ("a", "b")))
        assert tries == expected
