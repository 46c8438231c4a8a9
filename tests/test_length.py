"""The length of a law: what the network is shown, and how its answers are summed up."""

import json

import numpy as np
import pytest

import sr4mdl
from sr4mdl.cli import main
from sr4mdl.errors import DataError
from sr4mdl.length import MOST_ROWS, N_DRAWS, estimate_length, estimate_length_of
from sr4mdl.mdlformer.guide import FakeGuide, GuideOutput


class Recorder:
    """Says 4 and 8 symbols in turn, each with a spread of 3, and keeps what it saw."""

    def __init__(self):
        self.seen = []

    def score(self, columns, column_counts, targets, row_mask=None):
        self.seen.append((np.array(columns), np.array(column_counts), targets))
        n = len(columns)
        mean = np.where(np.arange(n) % 2 == 0, 4.0, 8.0)
        return GuideOutput(mean, np.full(n, 3.0), np.zeros((n, 1)))


def table(n_rows, n_columns=2):
    X = np.random.default_rng(5).normal(size=(n_rows, n_columns))
    return X, X.sum(1)


def test_draws_are_summed_up_by_hand():
    X, y = table(MOST_ROWS + 1)
    recorder = Recorder()
    estimate = estimate_length(X, y, guide=recorder)
    # Half say 4, half 8: mean 6, variance 4 between and 9 within.
    assert estimate.symbols == 6.0
    assert estimate.spread == pytest.approx(np.sqrt(13.0))
    assert estimate.n_rows == MOST_ROWS + 1
    assert estimate.n_columns == 2
    assert str(estimate) == "6.0 +- 3.6 symbols"
    ((columns, counts, targets),) = recorder.seen
    assert columns.shape == (N_DRAWS, MOST_ROWS, 2)
    assert counts.tolist() == [2] * N_DRAWS
    # Rows stay whole, and no draw holds a row twice.
    np.testing.assert_array_equal(columns.sum(2), targets)
    assert all(len(np.unique(draw)) == MOST_ROWS for draw in targets)
    assert not np.array_equal(targets[0], targets[1])


def test_a_small_table_is_shown_once_and_whole():
    X, y = table(30)
    recorder = Recorder()
    estimate = estimate_length(X, y, guide=recorder)
    ((columns, _, targets),) = recorder.seen
    assert columns.shape == (1, 30, 2)
    np.testing.assert_array_equal(np.sort(targets[0]), np.sort(y))
    assert (estimate.symbols, estimate.spread) == (4.0, 3.0)


def test_same_seed_same_draws():
    X, y = table(300)
    seen = []
    for seed in (1, 1, 2):
        recorder = Recorder()
        estimate_length(X, y, random_state=seed, guide=recorder)
        seen.append(recorder.seen[0][2])
    np.testing.assert_array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])


def test_the_shipped_network_tells_short_laws_from_long_ones():
    X = np.random.default_rng(1).uniform(0.5, 3.0, (200, 3))
    a, b, c = X.T
    product = estimate_length(X, a * b / c)
    longer = estimate_length(X, np.sin(a * b) * np.exp(-c) + np.sqrt(a + b * c) / c)
    # a*b/c has 5 symbols.
    assert abs(product.symbols - 5.0) < 1.5
    assert longer.symbols > product.symbols + 5.0
    assert longer.spread > product.spread > 0.0


@pytest.mark.parametrize(
    ("shape", "message"),
    [((40, 11), "at most 10 columns .* got 11"), ((1, 2), "at least 2 rows, got 1")],
)
def test_tables_that_it_cannot_read_are_refused(shape, message):
    guide = FakeGuide(lambda columns, target: (1.0, {}))
    with pytest.raises(DataError, match=message):
        estimate_length(*table(*shape), guide=guide)
    assert guide.n_scored == 0


def test_a_table_without_a_target_is_refused():
    with pytest.raises(DataError, match="must have a target"):
        estimate_length_of(sr4mdl.Dataset.from_arrays(table(9)[0]))


def test_command_prints_what_the_function_says(tmp_path, capsys):
    X, _ = table(25, 3)
    path = tmp_path / "t.csv"
    path.write_text(
        "a,b,c,y\n"
        + "".join(f"{a!r},{b!r},{c!r},{a * b!r}\n" for a, b, c in X.tolist())
    )
    y = X[:, 0] * X[:, 1]
    words = ["length", str(path), "--target", "y", "--features", "a,b"]
    assert main(words) == 0
    expected = estimate_length(X[:, :2], y)
    out = capsys.readouterr().out
    assert out == f"y: {expected}, told from 25 rows and 2 columns\n"
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["target"] == "y"
    assert document["symbols"] == pytest.approx(expected.symbols)
    assert main(["length", str(path), "--target", "z"]) == 2
    assert "z" in capsys.readouterr().err
