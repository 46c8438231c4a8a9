"""The regressor: scikit-learn's contract, parameters, and what it gives out."""

import inspect
import math
import pickle
import re
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sr4mdl import (
    Dataset,
    SymbolicRegressor,
    parse,
    register_operator,
    unregister_operator,
)
from sr4mdl.mdlformer.guide import FakeGuide
from sr4mdl.search import ProgressEvent
from sr4mdl.selection.limits import Limits

QUICK = {
    "mode": "uniform",
    "max_time": None,
    "max_evaluations": 1,
    "search_options": {"families": "linear"},
    "random_state": 0,
}


# The one check that scikit-learn skips by itself: check_array_api_input, which needs
# SCIPY_ARRAY_API in the environment; the search works on numpy arrays only.
@parametrize_with_checks([SymbolicRegressor(**QUICK)])
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def quick(**changes: Any) -> SymbolicRegressor:
    return SymbolicRegressor(**{**QUICK, **changes})


def law(n_rows: int = 60, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.uniform(1.0, 3.0, (n_rows, 2))
    y = 2.0 * X[:, 0] ** 2 + X[:, 1]
    return X, y + rng.normal(0.0, noise, n_rows) if noise else y


@pytest.fixture(scope="module")
def fitted() -> SymbolicRegressor:
    X, y = law()
    return SymbolicRegressor(max_time=10.0, mode="uniform", random_state=0).fit(X, y)


def test_a_law_is_found(fitted: SymbolicRegressor) -> None:
    X, y = law()
    assert fitted.best_.r2 == 1.0
    assert fitted.stop_reason_ == "exact"
    assert fitted.score(X, y) == pytest.approx(1.0, abs=1e-12)
    assert fitted.best_ in list(fitted.equations_)
    assert fitted.statistics_["n_judged"] > 0


def test_predictions_are_those_of_the_printed_formula(
    fitted: SymbolicRegressor,
) -> None:
    rng = np.random.default_rng(9)
    X = rng.uniform(0.5, 4.0, (30, 2))
    for row, equation in enumerate(fitted.equations_):
        formula = parse(equation.formula)
        assert formula is equation.expression
        names = {"x0": X[:, 0], "x1": X[:, 1]}
        by_sympy = _sympy_values(fitted.sympy(row), names, len(X))
        np.testing.assert_allclose(fitted.predict(X, row), by_sympy, rtol=1e-9)
    best = fitted.outcomes_[0].best
    np.testing.assert_array_equal(fitted.predict(X), fitted.predict(X, best))


def _sympy_values(formula: Any, names: dict[str, Any], n_rows: int) -> np.ndarray:
    import sympy

    symbols = [sympy.Symbol(name, real=True) for name in names]
    by_name = {symbol.name: symbol for symbol in symbols}
    formula = formula.subs({one: by_name[one.name] for one in formula.free_symbols})
    values = sympy.lambdify(symbols, formula, "numpy")(*names.values())
    return np.broadcast_to(np.asarray(values, dtype=float), (n_rows,))


def test_other_languages(fitted: SymbolicRegressor) -> None:
    torch = pytest.importorskip("torch")
    X, _ = law()
    expected = fitted.predict(X)
    np.testing.assert_allclose(fitted.to_numpy()(X), expected, rtol=1e-12)
    np.testing.assert_allclose(
        fitted.to_torch()(torch.tensor(X)).numpy(), expected, rtol=1e-12
    )
    assert "double x0, double x1" in fitted.to_c(function_name="law")
    assert "A2" in fitted.to_excel_formula()
    assert "Z9" in fitted.to_excel_formula({"x0": "Z9", "x1": "B1"})
    assert "x_{0}" in fitted.latex()


def test_columns_of_a_sheet_after_z() -> None:
    from sr4mdl.regressor.exporting import _sheet_column

    assert [_sheet_column(place) for place in (0, 25, 26, 701, 702)] == [
        "A", "Z", "AA", "ZZ", "AAA",
    ]  # fmt: skip


def test_explanation(fitted: SymbolicRegressor) -> None:
    text = fitted.explain()
    assert text.startswith(f"y = {fitted.best_.formula}\n")
    assert "runner-up: " in text
    assert "seen for x0 from 1." in text
    assert "constant: 2 +- " in text
    assert "the formula is exact" in text


def test_documented_parameters_are_those_of_the_signature() -> None:
    text = inspect.getdoc(SymbolicRegressor)
    assert text is not None
    section = text.split("Parameters\n----------\n")[1].split("\nAttributes\n")[0]
    documented = dict(re.findall(r"^(\w+) : .*default=(.+)$", section, re.MULTILINE))
    signature = inspect.signature(SymbolicRegressor.__init__).parameters
    expected = {
        name: parameter.default
        for name, parameter in signature.items()
        if name != "self"
    }
    assert list(documented) == list(expected)
    assert len(expected) <= 20
    for name, default in expected.items():
        assert documented[name].replace('"', "'").replace("_", "") == repr(
            default
        ).replace("_", ""), name


def test_documented_attributes_are_there(fitted: SymbolicRegressor) -> None:
    text = inspect.getdoc(SymbolicRegressor)
    assert text is not None
    section = text.split("Attributes\n----------\n")[1].split("\nNotes\n")[0]
    documented = set(re.findall(r"^(\w+_) : ", section, re.MULTILINE))
    fitted_names = {
        name for name in vars(fitted) if name.endswith("_") and name[0] != "_"
    }
    assert documented == fitted_names | {"feature_names_in_"}


def test_fit_leaves_parameters_and_data_as_they_are() -> None:
    X, y = law()
    model = quick(operators=["add", "mul"], constants=[9.81], validation=0.25)
    before = model.get_params()
    kept = X.copy(), y.copy()
    model.fit(X, y)
    assert model.get_params() == before
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])


# Each parameter has an effect.


def noise_table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.uniform(1.0, 2.0, (40, 2)), rng.normal(size=40)


def test_max_time() -> None:
    model = quick(max_time=0.3, max_evaluations=None, early_stop=False)
    model.fit(*noise_table())
    assert model.stop_reason_ == "max_time"
    assert 0.1 < model.outcomes_[0].seconds < 5.0


def test_max_nodes() -> None:
    model = quick(max_nodes=20, max_evaluations=None, early_stop=False)
    model.fit(*noise_table())
    assert model.stop_reason_ == "max_nodes"
    assert model.statistics_["n_nodes"] >= 20


def test_max_evaluations() -> None:
    few = quick(max_evaluations=1, early_stop=False).fit(*noise_table())
    more = quick(max_evaluations=4, early_stop=False).fit(*noise_table())
    assert few.stop_reason_ == more.stop_reason_ == "max_evaluations"
    assert few.statistics_["n_judged"] < more.statistics_["n_judged"]


def test_early_stop() -> None:
    X = np.linspace(1.0, 2.0, 20).reshape(-1, 1)
    y = 3.0 * X[:, 0]
    assert quick(max_evaluations=3).fit(X, y).stop_reason_ == "exact"
    model = quick(max_evaluations=3, early_stop=False).fit(X, y)
    assert model.stop_reason_ == "max_evaluations"


def test_mode_and_guide() -> None:
    guide = FakeGuide(lambda columns, target: (5.0, {}))
    settings = {"max_evaluations": None, "max_nodes": 30, "early_stop": False}
    model = quick(mode="policy", guide=guide, **settings).fit(*noise_table())
    assert guide.n_scored > 0
    assert model.statistics_["n_guide_states"] == guide.n_scored
    plain = quick(mode="error", **settings).fit(*noise_table())
    assert plain.statistics_["n_guide_calls"] == 0


def test_guide_of_a_mode_that_uses_none_is_refused() -> None:
    guide = FakeGuide(lambda columns, target: (5.0, {}))
    with pytest.raises(ValueError, match="guide must be None in mode 'uniform'"):
        quick(guide=guide).fit(*law())


def test_guide_from_a_file() -> None:
    from sr4mdl.errors import CheckpointError

    with pytest.raises(CheckpointError, match=r"nothing\.onnx"):
        quick(mode="policy", guide="nothing.onnx").fit(*law())
    with pytest.raises(TypeError, match="guide must be a Guide or a path, got 3"):
        quick(mode="policy", guide=3).fit(*law())


def test_operators() -> None:
    X = np.linspace(0.1, 3.0, 40).reshape(-1, 1)
    y = np.sin(X[:, 0])
    free = SymbolicRegressor(mode="uniform", max_time=10.0).fit(X, y)
    assert free.best_.formula == "sin(x0)"
    bound = quick(operators=("add", "mul"), search_options=None).fit(X, y)
    allowed = {"add", "sub", "neg", "mul", "square", "cube"}
    for equation in bound.equations_:
        nodes = equation.expression.subexpressions()
        assert {node.operator.name for node in nodes if node.operator} <= allowed


def test_max_length() -> None:
    X, y = law()
    free = quick(search_options=None).fit(X, y)
    assert free.best_.length > 3
    short = quick(search_options=None, max_length=3).fit(X, y)
    assert max(equation.length for equation in short.equations_) <= 3
    one = quick(search_options=None, max_length=1).fit(X, y)
    assert one.best_.expression.is_constant or one.best_.expression.is_variable


@pytest.mark.parametrize("mode", ["uniform", "error", "gp"])
def test_nesting(mode: str) -> None:
    X = np.random.default_rng(4).uniform(0.1, 3.0, (60, 1))
    y = np.sin(2.0 * np.sin(X[:, 0])) + np.exp(np.exp(0.3 * X[:, 0]))
    nesting = {"sin": {"sin": 0, "cos": 0}, "exp": {"exp": 0}, "cos": {"sin": 0}}
    model = SymbolicRegressor(
        mode=mode, max_time=2.0, random_state=0, nesting=nesting, max_length=15
    ).fit(X, y)
    limits = Limits(nesting=nesting, max_length=15)
    assert model.best_.r2 > 0.9
    for equation in model.equations_:
        assert limits.permits(equation.expression), equation


def test_constants() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(1.0, 2.0, (50, 1))
    y = 9.80665 * X[:, 0] + rng.normal(0.0, 1e-3, 50)
    assert "9.80665" not in quick().fit(X, y).best_.formula
    assert "9.80665" in quick(constants=(9.80665,)).fit(X, y).best_.formula


def test_noise() -> None:
    X, y = law(noise=0.02)
    options = {"search_options": None}
    loose = quick(noise=50.0, **options).fit(X, y)
    tight = quick(noise=0.02, **options).fit(X, y)
    assert loose.best_.length == 1
    assert tight.best_.r2 > 0.999
    assert tight.best_.residual_bits == pytest.approx(
        quick(**options).fit(X, y).best_.residual_bits, rel=0.02
    )


def test_validation() -> None:
    X, y = law(noise=0.1)
    model = quick(validation=0.25, search_options=None).fit(X, y)
    (outcome,) = model.outcomes_
    assert (outcome.n_rows, outcome.n_validation) == (45, 15)
    assert all(one.validation_error is not None for one in model.equations_)
    assert "error on 15 held-out rows" in model.explain()
    without = quick(search_options=None).fit(X, y)
    assert without.best_.validation_error is None


def test_random_state() -> None:
    X, y = law(noise=0.3)
    first = quick(validation=0.5, random_state=1).fit(X, y)
    again = quick(validation=0.5, random_state=1).fit(X, y)
    other = quick(validation=0.5, random_state=2).fit(X, y)
    generator = quick(validation=0.5, random_state=np.random.RandomState(1)).fit(X, y)
    assert first.equations_ == again.equations_
    assert first.equations_ != other.equations_
    assert first.equations_ != generator.equations_


def test_order_of_rows_does_not_matter() -> None:
    X, y = law(noise=0.3)
    order = np.random.default_rng(0).permutation(len(X))
    assert quick().fit(X, y).equations_ == quick().fit(X[order], y[order]).equations_


def test_search_options() -> None:
    X, y = law()
    few = quick().fit(X, y)
    full = quick(search_options={"families": "all"}).fit(X, y)
    assert full.statistics_["n_candidates"] > few.statistics_["n_candidates"]
    with pytest.raises(ValueError, match="use the parameter max_time"):
        quick(search_options={"max_time": 3.0}).fit(X, y)
    with pytest.raises(ValueError, match="use the parameter constants"):
        quick(search_options={"physical_constants": ()}).fit(X, y)
    with pytest.raises(ValueError, match="did you mean 'families'"):
        quick(search_options={"familes": "all"}).fit(X, y)


def test_warm_start() -> None:
    X, y = law()
    model = SymbolicRegressor(mode="uniform", max_time=10.0, random_state=0).fit(X, y)
    found = model.best_.formula
    model.set_params(**QUICK, warm_start=True)
    assert model.fit(X, y).best_.formula == found
    model.set_params(warm_start=False)
    assert model.fit(X, y).best_.formula != found


def test_warm_start_keeps_to_the_operators() -> None:
    X = np.linspace(0.1, 3.0, 40).reshape(-1, 1)
    y = np.sin(X[:, 0])
    model = SymbolicRegressor(mode="uniform", max_time=10.0).fit(X, y)
    model.set_params(**QUICK, warm_start=True, operators=("add", "mul"))
    assert "sin" not in repr(model.fit(X, y).equations_)


def test_callbacks() -> None:
    events: list[ProgressEvent] = []
    quick(callbacks=events.append).fit(*law())
    assert events[-1].phase == "done"
    more: list[ProgressEvent] = []
    quick(callbacks=[more.append, more.append]).fit(*law())
    assert len(more) == 2 * len(events)
    with pytest.raises(TypeError, match="callbacks must be callable, got 3"):
        quick(callbacks=[3]).fit(*law())


def test_interrupt_gives_the_best_so_far() -> None:
    def stop(event: ProgressEvent) -> None:
        if event.phase == "search":
            raise KeyboardInterrupt

    X, y = noise_table()
    settings = {"max_evaluations": None, "max_nodes": 10_000, "early_stop": False}
    model = quick(callbacks=stop, **settings).fit(X, np.stack([y, X[:, 0] * 2], 1))
    assert model.stop_reason_[0] == "interrupted"
    assert model.predict(X).shape == (40, 2)


def test_an_interrupt_again_and_again_gives_the_best_so_far() -> None:
    def stop(event: ProgressEvent) -> None:
        if event.phase in ("search", "verdict", "done"):
            raise KeyboardInterrupt

    X, y = noise_table()
    settings = {"max_evaluations": None, "max_nodes": 10_000, "early_stop": False}
    model = quick(callbacks=stop, **settings).fit(X, y)
    assert model.stop_reason_ == "interrupted"


def test_an_interrupt_while_the_answer_is_made_is_too_late_to_lose_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sr4mdl.regressor import estimator

    make_outcome = estimator.make_outcome

    def interrupted(*parts: Any, **more: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return make_outcome(*parts, **more)

    def ring(event: ProgressEvent) -> None:
        if event.phase == "verdict":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(estimator, "make_outcome", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        model = quick(callbacks=ring).fit(*law())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert model.best_ == quick().fit(*law()).best_


@pytest.mark.slow
def test_an_interrupt_reaches_searches_in_processes() -> None:
    X, y = noise_table()
    settings = {"max_evaluations": None, "max_time": 300.0, "early_stop": False}
    model = quick(n_jobs=2, **settings)
    timer = threading.Timer(3.0, signal.raise_signal, [signal.SIGINT])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        model.fit(X, np.stack([y, y * X[:, 0]], axis=1))
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert list(model.stop_reason_) == ["interrupted", "interrupted"]


@pytest.mark.slow
def test_operators_of_a_user_reach_searches_in_processes() -> None:
    register_operator("softsign", lambda x: x / (1.0 + np.abs(x)))
    try:
        X, _ = law()
        y = 2.0 * X[:, 0] / (1.0 + np.abs(X[:, 0]))
        allowed = ("add", "mul", "softsign")
        settings = {"search_options": None, "max_evaluations": 100}
        model = quick(n_jobs=2, operators=allowed, **settings)
        model.fit(X, np.stack([y, 3.0 * y], 1))
        assert [one.formula for one in model.best_] == [
            "2*softsign(x0)", "6*softsign(x0)",
        ]  # fmt: skip
    finally:
        unregister_operator("softsign")


def test_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    quick().fit(*law())
    assert capsys.readouterr().err == ""
    quick(verbose=True).fit(*law())
    captured = capsys.readouterr()
    assert "bits, R2" in captured.err
    assert captured.out == ""


@pytest.mark.slow
def test_n_jobs_searches_targets_in_processes() -> None:
    X, y = law()
    Y = np.stack([y, X[:, 0] - X[:, 1]], axis=1)
    one, two = quick().fit(X, Y), quick(n_jobs=2).fit(X, Y)
    assert two.equations_ == one.equations_
    with pytest.raises(ValueError, match="use n_jobs=1"):
        quick(n_jobs=2, verbose=True).fit(X, Y)


def test_n_jobs_are_threads_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    from sr4mdl.regressor import running

    seen = []

    class Recorder(FakeGuide):
        def __init__(self, path: object, n_threads: int) -> None:
            super().__init__(lambda columns, target: (5.0, {}))
            seen.append((path, n_threads))

    monkeypatch.setattr(running, "OnnxGuide", Recorder)
    quick(mode="policy", n_jobs=2).fit(*law())
    quick(mode="policy").fit(*law())
    assert seen == [(None, 2), (None, 1)]


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("max_time", 0, "max_time must be a finite number above 0"),
        ("max_nodes", 0, "max_nodes must be a whole number of 1 or more"),
        ("max_evaluations", 0, "max_evaluations must be a whole number"),
        ("mode", "magic", "mode must be one of policy"),
        ("operators", ("add", "plus"), "unknown operator 'plus'"),
        ("operators", "add", "operators must be a sequence, got 'add'"),
        ("max_length", 0, "max_length must be None or a whole number of 1 or more"),
        ("max_length", True, "max_length must be None or a whole number of 1 or more"),
        ("nesting", {"sin": {"sinus": 0}}, "unknown operator 'sinus'"),
        ("nesting", {"sin": {"sin": -1}}, "nesting limits must be whole numbers"),
        ("nesting", "sin", "nesting must map an operator to a mapping"),
        ("constants", ("g",), "constants must be finite numbers, got 'g'"),
        ("constants", (math.inf,), "constants must be finite numbers, got inf"),
        ("noise", 0.0, "noise must be more than 0 and finite, got 0.0"),
        ("noise", "much", "noise must be None or a number, got 'much'"),
        ("validation", 1.0, "validation must be more than 0 and less than 1"),
        ("validation", 0.99, "validation must leave 2 rows or more"),
        ("random_state", "x", "cannot be used to seed"),
    ],
)
def test_wrong_parameters_name_themselves(
    parameter: str, value: object, message: str
) -> None:
    X, y = law(10)
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        quick(**{parameter: value}).fit(X, y)


# Data.


def test_sample_weights_whole_and_not() -> None:
    X, y = law()
    wrong = y.copy()
    wrong[::3] += 50.0
    weights = np.ones(len(y))
    weights[::3] = 0.0
    model = quick(search_options=None, max_evaluations=3)
    assert model.fit(X, wrong, weights).best_.r2 == 1.0
    assert model.fit(X, wrong, weights * 0.37).best_.r2 == 1.0
    assert model.fit(X, wrong).best_.r2 < 0.9
    for bad in (weights - 1.0, weights * np.nan, weights * 0.0, weights[:-1]):
        with pytest.raises(ValueError, match=r"weight|NaN"):
            model.fit(X, y, bad)


def test_equal_weights_are_no_further_evidence() -> None:
    X, y = law(noise=0.1)
    plain, tenfold = quick().fit(X, y), quick().fit(X, y, np.full(len(y), 10))
    assert tenfold.equations_ == plain.equations_
    assert tenfold.outcomes_[0].n_rows == len(y)


def test_a_row_that_counts_twice_is_held_out_as_a_whole() -> None:
    X, y = law()
    weights = np.arange(len(y)) % 3 + 1
    model = quick(validation=0.3)
    model.fit(X, y, weights)
    outcome = model.outcomes_[0]
    assert outcome.n_rows + outcome.n_validation == weights.sum()
    rows = np.repeat(np.arange(len(y)), weights)
    rng = np.random.default_rng(0)
    rng.shuffle(rows)
    train, held = model._split(rows, rng)
    assert not set(rows[train]) & set(rows[held])
    assert len(set(rows[held])) == round(0.3 * len(y))
    assert sorted([*train, *held]) == list(range(len(rows)))


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    X, y = law()
    model = quick(
        noise=np.float32(0.1), max_time=np.int64(3), constants=np.array([9, 2])
    )
    model.fit(X, y)
    model.save(tmp_path / "model.json")
    again = SymbolicRegressor.load(tmp_path / "model.json")
    assert again.equations_ == model.equations_
    row = np.int64(0)
    assert np.array_equal(model.predict(X, equation=row), model.predict(X, equation=0))
    assert model.sympy(output=np.int64(0)) == model.sympy()


def test_several_targets() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = law()
    Y = pandas.DataFrame({"one": y, "two": X[:, 0] * X[:, 1]})
    model = SymbolicRegressor(mode="uniform", max_time=10.0).fit(X, Y)
    assert [best.target for best in model.best_] == ["one", "two"]
    assert model.predict(X).shape == (60, 2)
    assert model.score(X, Y) == pytest.approx(1.0)
    rows = [0, len(model.outcomes_[1].equations) - 1]
    np.testing.assert_array_equal(
        model.predict(X, rows)[:, 0],
        np.full(60, float(model.outcomes_[0].equations[0].expression.value or 0.0)),
    )
    assert "x_{0}" in model.latex(output="two")
    with pytest.raises(ValueError, match="output must be the place or name"):
        model.sympy()
    with pytest.raises(ValueError, match="one row for each of 2 target"):
        model.predict(X, 1)
    assert model.explain().count("runner-up") == 2


def test_rows_of_the_table_that_are_not_there(fitted: SymbolicRegressor) -> None:
    X, _ = law()
    with pytest.raises(ValueError, match="equation must be a row of the table"):
        fitted.predict(X, 99)


def test_names_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = law()
    frame = pandas.DataFrame(X, columns=["mass of sun", "y"])
    model = SymbolicRegressor(mode="uniform", max_time=10.0).fit(
        frame, pandas.Series(y, name="y")
    )
    assert list(model.feature_names_in_) == ["mass of sun", "y"]
    assert "`mass of sun`" in model.best_.formula
    assert model.best_.target == "y_"
    np.testing.assert_allclose(model.predict(frame), y)
    table = model.equations_.to_pandas()
    assert list(table["formula"]) == [one.formula for one in model.equations_]


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    X, y = law()
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    model = quick().fit(frame, polars.Series("target", y))
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.best_.target == "target"
    assert model.predict(frame).shape == (60,)


def test_dataset() -> None:
    X, y = law()
    data = Dataset.from_arrays(X, y, ["a", "b"], target="c")
    model = SymbolicRegressor(mode="uniform", max_time=10.0).fit_dataset(data)
    assert model.best_.target == "c"
    assert model.best_.expression.variables == {"a", "b"}
    with pytest.raises(ValueError, match="dataset must have a target"):
        quick().fit_dataset(Dataset.from_arrays(X))
    with pytest.raises(ValueError, match="2 rows or more"):
        quick().fit_dataset(Dataset.from_arrays(X[:1], y[:1]))


def test_predictions_outside_the_domain_are_not_finite_and_warn() -> None:
    X = np.linspace(1.0, 4.0, 30).reshape(-1, 1)
    model = SymbolicRegressor(mode="uniform", max_time=10.0).fit(X, np.sqrt(X[:, 0]))
    assert model.best_.formula == "sqrt(x0)"
    with pytest.warns(RuntimeWarning, match="undefined for 1 of 2 rows"):
        values = model.predict([[-1.0], [4.0]])
    assert math.isnan(values[0])
    assert values[1] == 2.0


def test_constant_target_and_constant_columns() -> None:
    X = np.ones((10, 2))
    model = quick().fit(X, np.full(10, 7.0))
    assert model.best_.formula == "7"
    assert model.stop_reason_ == "constant target"
    assert model.best_.r2 == 1.0


def test_huge_and_tiny_numbers() -> None:
    X, y = law()
    for scale in (1e150, 1e-150):
        model = quick(search_options=None).fit(X, y * scale)
        assert np.isfinite(model.predict(X)).all()
        assert model.predict(X).mean() == pytest.approx(y.mean() * scale, rel=0.1)


def test_clone_pickle_pipeline_and_grid(fitted: SymbolicRegressor) -> None:
    X, y = law()
    assert clone(fitted).get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    pipeline = make_pipeline(StandardScaler(), quick()).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    grid = GridSearchCV(quick(), {"max_length": [1, None]}, cv=2).fit(X, y)
    assert grid.best_params_ == {"max_length": None}


def test_a_length_limit_asks_for_the_shortest_form() -> None:
    X = np.random.default_rng(0).uniform(1.0, 3.0, (80, 2))
    y = X[:, 0] * np.exp(-X[:, 1])
    options = {"mode": "uniform", "search_options": {"families": "all"}}
    assert quick(**options).fit(X, y).best_.formula == "x0*exp(-x1)"
    limited = quick(**options, max_length=4).fit(X, y)
    assert limited.best_.formula == "x0/exp(x1)"
