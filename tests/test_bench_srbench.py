"""The adapter folder against SRBench's documented contract, with a stub regressor."""

import importlib.util
import os
import re
from pathlib import Path

import numpy as np
import pytest
import sympy
from sklearn.base import BaseEstimator, RegressorMixin, clone

FOLDER = Path(__file__).parents[1] / "benchmarks" / "srbench" / "sr4mdl"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the adapter is not part of the installed package"
)


class SymbolicRegressor(RegressorMixin, BaseEstimator):
    """Knows one law, names its variables as the real one does."""

    def __init__(self, max_time=30, random_state=None):
        self.max_time = max_time
        self.random_state = random_state

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        return self

    def sympy(self):
        names = getattr(
            self,
            "feature_names_in_",
            [f"x{number}" for number in range(self.n_features_in_)],
        )
        first, second = (sympy.Symbol(str(name)) for name in list(names)[:2])
        return 2 * first - sympy.sin(second)

    def predict(self, X):
        X = np.asarray(X)
        return 2 * X[:, 0] - np.sin(X[:, 1])


@pytest.fixture
def adapter(monkeypatch):
    import sr4mdl

    monkeypatch.setattr(sr4mdl, "SymbolicRegressor", SymbolicRegressor, raising=False)
    spec = importlib.util.spec_from_file_location("regressor", FOLDER / "regressor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_estimator_is_a_regressor_whose_seed_and_time_can_be_set(adapter):
    est = clone(adapter.est)
    assert est.random_state == 0
    est.random_state = 23654
    assert est.set_params(max_time=3600).max_time == 3600
    assert adapter.est.max_time > 0


def test_model_is_text_for_sympy_over_the_columns(adapter):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame({"beta": [1.0, 2.0], "I": [0.5, 0.1]})
    est = clone(adapter.est).fit(X, [1.0, 2.0])
    text = adapter.model(est, X)
    parsed = sympy.parse_expr(
        text, local_dict={name: sympy.Symbol(name) for name in X.columns}
    )
    assert parsed == 2 * sympy.Symbol("beta") - sympy.sin(sympy.Symbol("I"))
    assert adapter.model(est) == text


def test_names_of_an_array_fit_are_exchanged_all_at_once(adapter):
    pandas = pytest.importorskip("pandas")
    # x1 and x0 change places: one after the other would make both the same.
    X = pandas.DataFrame({"x1": [1.0, 2.0], "x0": [0.5, 0.1]})
    est = clone(adapter.est).fit(X.to_numpy(), [1.0, 2.0])
    assert adapter.model(est) == "2*x0 - sin(x1)"
    assert adapter.model(est, X) == "2*x1 - sin(x0)"


def test_population_and_best_are_fitted_regressors(adapter):
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    est = clone(adapter.est).fit(X, [0.0, 1.0])
    population = adapter.get_population(est)
    assert 1 <= len(population) <= 100
    for member in [*population, adapter.get_best_solution(est)]:
        assert member.predict(X).shape == (2,)
        assert adapter.model(member)


def test_eval_kwargs_are_those_that_srbench_knows(adapter):
    known = {"test_params", "max_train_samples", "scale_x", "scale_y", "pre_train"}
    assert set(adapter.eval_kwargs) <= known
    clone(adapter.est).set_params(**adapter.eval_kwargs["test_params"])


def test_metadata_names_and_describes_the_method():
    text = (FOLDER / "metadata.yml").read_text()
    for field in ("authors", "name", "description"):
        assert re.search(rf"^{field}:", text, flags=re.MULTILINE)
    assert re.search(r"^name: sr4mdl$", text, flags=re.MULTILINE)


def test_install_script_is_a_program_without_root():
    script = FOLDER / "install.sh"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert text.startswith("#!")
    assert "sudo" not in text
    assert "pip install sr4mdl" in text
