"""The best formula's terms are closed again with the variables."""

import numpy as np
import pytest

from sr4mdl.data import Dataset
from sr4mdl.mdlformer.guide import UniformGuide
from sr4mdl.search import SearchConfig, api, search
from sr4mdl.search.extension import MAX_TERMS, Extension, terms_of
from sr4mdl.search.guided import N_CLOSINGS_BEFORE
from sr4mdl.text import parse


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a", ["a"]),
        ("2.5", []),
        ("2*a + 3*b*c - 4", ["a", "b*c"]),
        ("0.5*(a - 2*sin(b)) + a/3", ["a", "sin(b)"]),
        ("-(a + b)/4", ["a", "b"]),
        ("sqrt(2)*a + exp(3)", ["a"]),
        ("exp(a + b) - 3/(2*a)", ["exp(a + b)", "1/a"]),
        ("2*(3*a)*-(b/4)", ["a*b"]),
    ],
)
def test_terms_by_hand(text: str, terms: list[str]) -> None:
    assert [str(term) for term in terms_of(parse(text))] == terms


def table(n_rows: int = 200, noise: float = 0.1) -> Dataset:
    rng = np.random.default_rng(4)
    X = rng.uniform(1.0, 3.0, (n_rows, 3))
    y = 4.0 * np.sin(X[:, 0] * X[:, 1]) + X[:, 2] ** 2
    return Dataset.from_arrays(X, y + noise * rng.normal(size=n_rows), ["a", "b", "c"])


def extension_of(data: Dataset) -> tuple[Extension, api._Run]:
    config = SearchConfig(mode="uniform", max_time=None)
    run = api._Run(data, config, UniformGuide(), None)
    root = api.State.of(tuple(run.eligible().values()), run.target())
    return Extension(root, run.columns, run.readout, run.stopper), run


def test_what_a_formula_leaves_is_found() -> None:
    """The judge knows 4*sin(a*b) alone; the square of c is what it leaves."""
    extension, run = extension_of(table())
    run.judge.consider(parse("4*sin(a*b) + 4"))
    before = run.judge.best
    assert before is not None
    extension.run()
    best = run.judge.best
    assert best is not None
    assert "c" in best.expression.variables
    assert best.rmse < 0.15 < before.rmse
    # Nothing new, nothing done.
    n_before = run.budget.n_evaluations
    extension.run()
    assert run.budget.n_evaluations == n_before


def test_the_state_of_terms_holds_each_column_once() -> None:
    extension, _ = extension_of(table())
    state = extension.state(parse("2*a + 3*sin(a*b) - b/2"))
    assert state is not None
    assert [str(one.expression) for one in state.columns] == ["a", "b", "c", "sin(a*b)"]
    assert extension.state(parse("2*a + b")) is None
    assert extension.state(parse("7")) is None
    many = " + ".join(f"sin({number}*a)" for number in range(2, MAX_TERMS + 3))
    assert extension.state(parse(many)) is None
    # log(a - 2) is not finite on all rows.
    assert extension.state(parse("log(a - 2)")) is None


@pytest.mark.parametrize(("families", "extended"), [("all", True), ("linear", False)])
def test_searches_extend_after_some_full_closings(
    families: str, extended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []
    monkeypatch.setattr(
        Extension, "run", lambda self: rounds.append(self.readout.budget.n_evaluations)
    )
    config = SearchConfig(
        mode="uniform", max_time=None, max_evaluations=10, early_stop=False,
        families=families, full_interval=1, n_quick=1,
    )  # type: ignore[arg-type]  # fmt: skip
    search(table(40), config, UniformGuide())
    # A quick and a full closing in each round.
    assert bool(rounds) is extended
    assert all(done >= 2 * N_CLOSINGS_BEFORE for done in rounds)
