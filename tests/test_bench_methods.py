import sys
from importlib import metadata
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import sr4mdl
from sr4mdl.bench.methods import (
    METHODS,
    MethodUnavailableError,
    create_method,
    find_method,
    method_versions,
    require,
)
from sr4mdl.bench.methods.gplearn_gp import read_program
from sr4mdl.bench.methods.operon import rename
from sr4mdl.bench.tables import evaluate
from sr4mdl.text import parse

NAMES = ("I", "lambda", "a b")


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    X = rng.uniform(1, 3, size=(120, 3))
    return X, 2 * X[:, 0] - 0.5 * X[:, 2] + 1


def check_formula(result, X, tolerance=1e-9):
    columns = dict(zip(NAMES, X.T, strict=True))
    printed = evaluate(parse(result.formula), columns)
    np.testing.assert_allclose(printed, result.predict(X), rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_keeps_the_protocol(name):
    method = find_method(name)
    assert method.name == name
    assert len(method.modes) >= 1
    assert method_versions(method(method.modes[0]))[method.distribution]


def test_a_source_copy_knows_its_version(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    versions = method_versions(create_method("sr4mdl", "policy"))
    assert versions["sr4mdl"] == sr4mdl.__version__
    assert "not installed" in versions["sympy"]


def test_closing_mode_reads_out_the_root_and_does_not_search(table):
    X, y = table
    result = create_method("sr4mdl", "closing").fit(
        X, y, NAMES, time_limit=30, random_state=0
    )
    np.testing.assert_allclose(result.predict(X), y)
    rng = np.random.default_rng(1)
    X = rng.uniform(1, 3, size=(200, 3))
    # No readout of the three variables has this form.
    y = np.sin(X[:, 0] * np.exp(np.cos(X[:, 1] * X[:, 2])) + np.tanh(X[:, 2] - X[:, 1]))
    result = create_method("sr4mdl", "closing").fit(
        X, y, NAMES, time_limit=30, random_state=0
    )
    assert result.stop_reason == "max_nodes"


def test_unknown_names_and_modes_are_refused():
    with pytest.raises(ValueError, match="did you mean 'gplearn'"):
        find_method("gplern")
    with pytest.raises(ValueError, match="mode of sr4mdl must be one of policy"):
        create_method("sr4mdl", "magic")


def test_a_class_elsewhere_is_found_by_its_path():
    assert find_method("bench_fakes:Quick").__name__ == "Quick"


def test_a_missing_package_comes_with_a_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "gplearn", None)
    with pytest.raises(MethodUnavailableError, match=r"pip install 'sr4mdl\[bench\]'"):
        require("gplearn.genetic", "bench")


def test_linear_finds_the_plane_and_prints_it(table):
    X, y = table
    result = create_method("linear", "default").fit(
        X, y, NAMES, time_limit=1, random_state=0
    )
    check_formula(result, X)
    np.testing.assert_allclose(result.predict(X), y)
    assert result.complexity == parse(result.formula).length == 13


@pytest.mark.parametrize("name", ["random_forest", "gradient_boosting"])
def test_trees_have_a_size_and_no_formula(table, name):
    X, y = table
    result = create_method(name, "default").fit(
        X, y, NAMES, time_limit=1, random_state=0
    )
    assert result.formula is None
    assert result.complexity > 100
    again = create_method(name, "default").fit(
        X, y, NAMES, time_limit=1, random_state=0
    )
    np.testing.assert_array_equal(result.predict(X), again.predict(X))


def test_gplearn_programs_are_read_from_prefix_form():
    def function(name, arity):
        return SimpleNamespace(name=name, arity=arity)

    program = [function("sub", 2), 0, function("div", 2), 1.5, function("sqrt", 1), 2]
    assert str(read_program(program, NAMES)) == "I - 1.5/sqrt(`a b`)"
    assert str(read_program([1], NAMES)) == "lambda"


def test_operon_names_are_exchanged_all_at_once():
    expression = parse("v0*v1 + v10")
    plain = [f"v{number}" for number in range(11)]
    names = ["v1", "v0", *(f"c{number}" for number in range(9))]
    assert rename(expression, plain, names) is parse("v1*v0 + c8")


def test_gplearn_runs_and_prints_what_it_predicts(table):
    pytest.importorskip("gplearn")
    X, y = table
    result = create_method("gplearn", "default").fit(
        X[:, [0, 1, 2]], y, NAMES, time_limit=0.1, random_state=1
    )
    assert result.stop_reason == "time"
    check_formula(result, X)


def test_operon_runs_and_prints_what_it_predicts(table):
    pytest.importorskip("pyoperon")
    X, y = table
    result = create_method("pyoperon", "default").fit(
        X, y, NAMES, time_limit=1, random_state=1
    )
    # It computes in single precision.
    check_formula(result, X, tolerance=1e-3)


def test_the_search_gets_mode_time_and_seed(table, monkeypatch):
    X, y = table
    asked = {}

    def search(dataset, config):
        asked.update(vars(config), names=dataset.names, rows=dataset.n_rows)
        best = SimpleNamespace(expression=parse("2*I - 0.5*`a b` + 1"))
        return SimpleNamespace(best=best, stop_reason="code cannot get shorter")

    fake = ModuleType("sr4mdl.search")
    fake.search = search
    fake.SearchConfig = SimpleNamespace
    monkeypatch.setitem(sys.modules, "sr4mdl.search", fake)
    result = create_method("sr4mdl", "mdl").fit(
        X, y, NAMES, time_limit=7.0, random_state=860
    )
    assert asked == {
        "mode": "mdl",
        "max_time": 7.0,
        "random_state": 860,
        "names": NAMES,
        "rows": 120,
    }
    np.testing.assert_allclose(result.predict(X), y)
    assert result.formula == "2*I - 0.5*`a b` + 1"
    assert result.stop_reason == "code cannot get shorter"
    assert create_method("sr4mdl", "mdl").modes[0] == "policy"


def test_a_constant_formula_has_one_value_a_row(table, monkeypatch):
    X, y = table
    best = SimpleNamespace(expression=parse("4"))
    fake = ModuleType("sr4mdl.search")
    answer = SimpleNamespace(best=best, stop_reason="constant target")
    fake.search = lambda dataset, config: answer
    fake.SearchConfig = SimpleNamespace
    monkeypatch.setitem(sys.modules, "sr4mdl.search", fake)
    result = create_method("sr4mdl", "policy").fit(
        X, y, NAMES, time_limit=1, random_state=0
    )
    np.testing.assert_array_equal(result.predict(X), np.full(120, 4.0))
