import builtins
import gzip
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sr4mdl.data import Dataset, read_pmlb
from sr4mdl.errors import DataError

X = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 35.0]])
Y = np.array([5.0, 6.0, 7.5])

Writer = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write_file


# Arrays


def test_arrays_are_kept_as_they_are() -> None:
    dataset = Dataset.from_arrays(X, Y, ["a", "b"])
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.y, Y)
    assert dataset.names == ("a", "b")
    assert dataset.target == "y"
    assert dataset.notes == ()
    assert (dataset.n_rows, dataset.n_columns) == (3, 2)
    assert repr(dataset) == "Dataset(3 rows, columns 'a', 'b', target 'y')"
    np.testing.assert_array_equal(dataset.column("b"), [10.0, 20.0, 35.0])


def test_names_by_default() -> None:
    assert Dataset.from_arrays(X, Y).names == ("x0", "x1")
    assert Dataset.from_arrays(X, Y, ["y", "y_"]).target == "y__"
    assert Dataset.from_arrays(X, Y, target="period").target == "period"


def test_without_target() -> None:
    dataset = Dataset.from_arrays(X)
    assert dataset.y is None
    assert dataset.target is None
    with pytest.raises(DataError, match="target is 'z', but there is no y"):
        Dataset.from_arrays(X, target="z")


def test_arrays_of_the_caller_are_neither_shared_nor_changed() -> None:
    features, target = X.copy(), Y.copy()
    dataset = Dataset.from_arrays(features, target)
    direct = Dataset(features, target, ("a", "b"), "y")
    features[0, 0] = target[0] = 99.0
    for made in (dataset, direct):
        assert made.X[0, 0] == 1.0
        assert made.y is not None
        assert made.y[0] == 5.0
        assert not made.X.flags.writeable
        assert not made.y.flags.writeable
    assert features.flags.writeable
    assert target.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        dataset.X[0, 0] = 1.0


def test_views_of_read_only_memory_are_copied() -> None:
    features = X.copy()
    view = features[:]
    view.flags.writeable = False
    dataset = Dataset(view, None, ("a", "b"))
    features[0, 0] = 99.0
    assert dataset.X[0, 0] == 1.0


@pytest.mark.parametrize(
    "made",
    [
        X.astype(np.float32),
        X.astype(np.int32),
        X.astype(np.uint8),
        np.asfortranarray(X),
        X.astype(object),
        X.tolist(),
        np.array([[1, 9, 10], [2, 9, 20], [3, 9, 35]])[:, ::2],
    ],
)
def test_other_number_types_and_layouts(made: Any) -> None:
    dataset = Dataset.from_arrays(made, Y.tolist())
    np.testing.assert_array_equal(dataset.X, X)
    assert dataset.X.dtype == np.float64
    assert dataset.X.flags.c_contiguous


def test_booleans_become_numbers() -> None:
    dataset = Dataset.from_arrays([[True], [False]], [False, True])
    assert dataset.X.tolist() == [[1.0], [0.0]]
    assert dataset.y is not None
    assert dataset.y.tolist() == [0.0, 1.0]


def test_masked_values_are_missing() -> None:
    masked = np.ma.MaskedArray(X, mask=[[0, 0], [0, 1], [0, 0]])
    with pytest.raises(DataError, match="'x1' 1 NaN"):
        Dataset.from_arrays(masked, Y)


def test_whole_numbers_that_float_cannot_hold_are_noted() -> None:
    dataset = Dataset.from_arrays([[2**53 + 1], [1]], [1, 2])
    assert dataset.notes == ("X: whole numbers above 2^53 were rounded",)
    assert Dataset.from_arrays([[2**53], [1]], [1, 2]).notes == ()
    with pytest.raises(DataError, match="too large a number"):
        Dataset.from_arrays([[10**400], [1]])


@pytest.mark.parametrize(
    ("features", "target", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0], r"two dimensions .* got shape \(2,\)"),
        (np.zeros((2, 1, 1)), [1.0, 2.0], r"got shape \(2, 1, 1\)"),
        (np.zeros((0, 2)), [], r"must have rows and columns, got shape \(0, 2\)"),
        (np.zeros((2, 0)), [1.0, 2.0], r"must have rows and columns"),
        ([[1.0], [2.0]], [1.0], r"y must have shape \(2,\) .* got \(1,\)"),
        ([[1.0], [2.0]], [[1.0], [2.0]], r"y must have shape \(2,\) .* got \(2, 1\)"),
        ([[1.0], [2.0, 3.0]], [1.0, 2.0], "X is not a table of numbers"),
        ([["a"], ["b"]], [1.0, 2.0], "X must hold numbers, got text"),
        ([[1.0], [2.0]], ["a", "b"], "y must hold numbers, got text"),
        ([[1j], [2.0]], [1.0, 2.0], "X must hold numbers, got complex"),
        ([[1.0], [[3]]], [1.0, 2.0], "not a table of numbers"),
        (
            np.array([[1], ["b"]], dtype=object),
            [1.0, 2.0],
            r"X must hold numbers, got 'b' \(str\) in row 1",
        ),
        (np.array([["2020-01-01"]], dtype="M8[D]"), [1.0], "got dates"),
    ],
)
def test_what_is_not_a_table_of_numbers_is_refused(
    features: Any, target: Any, message: str
) -> None:
    for missing in ("refuse", "drop"):
        with pytest.raises(DataError, match=message):
            Dataset.from_arrays(features, target, missing=missing)


@pytest.mark.parametrize(
    ("names", "target", "message"),
    [
        (["a"], "y", "2 columns, 1 names"),
        (["a", "a"], "y", "unique, but 'a' is there twice"),
        (["a", "b"], "a", "the target 'a' is also among the features"),
        (["a", ""], "y", "got ''"),
        (["a", "b`"], "y", "got 'b`'"),
        (["a", 3], "y", "got 3"),
        (["a", "b"], "", "got ''"),
    ],
)
def test_bad_names_are_refused(names: Any, target: str, message: str) -> None:
    for missing in ("refuse", "drop"):
        with pytest.raises(DataError, match=message):
            Dataset.from_arrays(X, Y, names, target=target, missing=missing)


def test_constructor_wants_target_and_name_together() -> None:
    with pytest.raises(DataError, match="y given, target None"):
        Dataset(X, Y, ("a", "b"))
    with pytest.raises(DataError, match="y missing, target 'y'"):
        Dataset(X, None, ("a", "b"), "y")


# Missing values

HOLES = np.array(
    [[1.0, np.nan], [2.0, np.inf], [3.0, -np.inf], [np.nan, np.nan], [5.0, 0.0]]
)
HOLES_Y = np.array([np.nan, 1.0, 2.0, 3.0, 4.0])


def test_rows_that_are_not_finite_are_refused_with_counts() -> None:
    with pytest.raises(DataError) as caught:
        Dataset.from_arrays(HOLES, HOLES_Y, ["a", "b"])
    assert str(caught.value) == (
        "4 of 5 rows hold numbers that are missing or infinite: 'a' 1 NaN, "
        "'b' 2 NaN and 2 infinite, 'y' 1 NaN; "
        "correct them, or drop these rows with missing='drop' (--missing drop)"
    )


def test_rows_that_are_not_finite_are_dropped_on_request() -> None:
    dataset = Dataset.from_arrays(HOLES, HOLES_Y, ["a", "b"], missing="drop")
    assert dataset.X.tolist() == [[5.0, 0.0]]
    assert dataset.y is not None
    assert dataset.y.tolist() == [4.0]
    assert dataset.notes == (
        "4 of 5 rows dropped: 'a' 1 NaN, 'b' 2 NaN and 2 infinite, 'y' 1 NaN",
    )
    assert np.isnan(HOLES[0, 1])


def test_dropping_every_row_is_an_error() -> None:
    with pytest.raises(DataError, match=r"no row is left; 2 of 2 rows dropped: 'x0' 1"):
        Dataset.from_arrays([[np.nan], [np.inf]], [1.0, 2.0], missing="drop")


def test_nothing_to_drop_leaves_no_note() -> None:
    assert Dataset.from_arrays(X, Y, missing="drop").notes == ()


def test_messages_do_not_name_hundreds_of_columns() -> None:
    with pytest.raises(DataError, match="'x7' 2 NaN and 92 more; correct"):
        Dataset.from_arrays(np.full((2, 100), np.nan))


def test_missing_is_checked() -> None:
    with pytest.raises(ValueError, match="'refuse' or 'drop', got 'fill'"):
        Dataset.from_arrays(X, Y, missing="fill")  # type: ignore[arg-type]


# What is noticed


def test_constant_and_duplicate_columns_are_noticed() -> None:
    table = np.array(
        [
            [1.0, 7.0, 1.0, 0.0, 4.0, 1.0],
            [2.0, 7.0, 2.0, -0.0, 5.0, 2.0],
            [3.0, 7.0, 3.0, 0.0, 6.0, 3.0],
        ]
    )
    dataset = Dataset.from_arrays(table, [4.0, 5.0, 6.0], list("abcdef"))
    assert dataset.constant_columns == ("b", "d")
    assert dataset.duplicate_columns == (("c", "a"), ("f", "a"))
    assert dataset.notes == (
        "constant columns: 'b', 'd'",
        "column 'c' holds the same numbers as 'a'",
        "column 'f' holds the same numbers as 'a'",
        "column 'e' holds the same numbers as the target",
    )


def test_zero_and_minus_zero_are_the_same_number() -> None:
    dataset = Dataset.from_arrays([[0.0, -0.0], [1.0, 1.0]], [1.0, 2.0])
    assert dataset.duplicate_columns == (("x1", "x0"),)


def test_a_single_row_has_no_constant_columns() -> None:
    dataset = Dataset.from_arrays([[1.0, 2.0]], [3.0])
    assert dataset.constant_columns == ()
    assert dataset.notes == ()


# Subsampling


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_subsample(n_rows: int, seed: int) -> None:
    rows = np.arange(50.0)
    dataset = Dataset.from_arrays(np.stack([rows, -rows], axis=1), rows * 2)
    part = dataset.subsample(n_rows, seed)
    assert part.n_rows == min(n_rows, 50)
    assert (np.diff(part.X[:, 0]) > 0).all()  # in order, none twice
    assert part.y is not None
    np.testing.assert_array_equal(part.y, part.X[:, 0] * 2)
    np.testing.assert_array_equal(part.X[:, 1], -part.X[:, 0])
    np.testing.assert_array_equal(dataset.subsample(n_rows, seed).X, part.X)


def test_subsample_depends_on_the_seed_and_reaches_all_rows() -> None:
    dataset = Dataset.from_arrays(np.arange(20.0).reshape(-1, 1))
    draws = [dataset.subsample(5, seed).X[:, 0] for seed in range(60)]
    assert len({tuple(draw) for draw in draws}) > 50
    assert set(np.concatenate(draws)) == set(range(20))


def test_subsample_notes() -> None:
    dataset = Dataset.from_arrays([[1.0], [1.0], [1.0], [np.nan]], missing="drop")
    part = dataset.subsample(2, 0)
    assert part.notes == (
        "1 of 4 rows dropped: 'x0' 1 NaN",
        "constant columns: 'x0'",
        "2 of 3 rows drawn at random",
    )
    assert dataset.subsample(3, 0) is dataset


def test_subsample_takes_a_generator() -> None:
    dataset = Dataset.from_arrays(np.arange(50.0).reshape(-1, 1))
    rng = np.random.default_rng(3)
    first, second = dataset.subsample(10, rng), dataset.subsample(10, rng)
    np.testing.assert_array_equal(first.X, dataset.subsample(10, 3).X)
    assert first.X.tolist() != second.X.tolist()


def test_subsample_checks_its_size() -> None:
    dataset = Dataset.from_arrays(X)
    with pytest.raises(ValueError, match="n_rows must be at least 1, got 0"):
        dataset.subsample(0, 0)
    with pytest.raises(TypeError):
        dataset.subsample(1.5, 0)  # type: ignore[arg-type]


def test_column_that_is_not_there() -> None:
    dataset = Dataset.from_arrays(X, Y, ["length", "mass"])
    with pytest.raises(DataError, match=r"no column 'lenght'.*did you mean 'length'"):
        dataset.column("lenght")


def test_pickle() -> None:
    dataset = Dataset.from_arrays(X, Y)
    back = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(back.X, X)
    assert back.names == dataset.names


# Frames


def test_pandas_frame() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "t": Y, "flag": [True, False, True]})
    dataset = Dataset.from_pandas(frame, "t")
    assert dataset.names == ("a", "flag")
    assert dataset.target == "t"
    assert dataset.X.tolist() == [[1.0, 1.0], [2.0, 0.0], [3.0, 1.0]]
    np.testing.assert_array_equal(dataset.y, Y)
    chosen = Dataset.from_pandas(frame, None, ["flag"])
    assert chosen.names == ("flag",)
    assert chosen.y is None


def test_pandas_frame_as_array_keeps_names() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    dataset = Dataset.from_arrays(frame, pd.Series([1, None], dtype="Int64").fillna(2))
    assert dataset.names == ("a", "b")
    assert Dataset.from_arrays(frame, names=["c", "d"]).names == ("c", "d")


def test_pandas_missing_markers() -> None:
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "flag": pd.array([True, False, None], dtype="boolean"),
            "t": [1.0, 2.0, 3.0],
        }
    )
    with pytest.raises(DataError, match=r"2 of 3 rows .* 'whole' 1 NaN, 'flag' 1 NaN"):
        Dataset.from_pandas(frame, "t")
    dropped = Dataset.from_pandas(frame, "t", missing="drop")
    assert dropped.X.tolist() == [[1.0, 1.0]]
    with pytest.raises(DataError, match="'y' 1 NaN"):
        Dataset.from_arrays(frame[["t"]], frame["whole"])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["x", "y"]),
        pd.Series(["x", "y"], dtype=object),
        pd.Series(["1", "2"], dtype="category"),
        pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])),
        pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"], utc=True)),
    ],
)
def test_text_and_dates_are_refused_by_name(column: "pd.Series[Any]") -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "label": column, "t": [1.0, 2.0]})
    with pytest.raises(DataError, match="column 'label' must hold numbers"):
        Dataset.from_pandas(frame, "t")
    assert Dataset.from_pandas(frame, "t", ["a"]).names == ("a",)


def test_frames_with_bad_columns() -> None:
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "t"])
    with pytest.raises(DataError, match="2 columns named 'a'"):
        Dataset.from_pandas(frame, "t")
    with pytest.raises(DataError, match="'a' is there twice"):
        Dataset.from_arrays(frame)
    with pytest.raises(DataError, match=r"names of columns must be str, got 0 \(int\)"):
        Dataset.from_pandas(pd.DataFrame([[1.0, 2.0]]), "t")
    with pytest.raises(TypeError, match="got list"):
        Dataset.from_pandas([[1.0]], "t")


def test_frame_is_not_changed() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan], "t": [1.0, 2.0]})
    before = frame.copy()
    Dataset.from_pandas(frame, "t", missing="drop")
    pd.testing.assert_frame_equal(frame, before)


def test_frames_of_other_libraries() -> None:
    class Frame:
        """The part of a frame that is used, as polars also has it."""

        columns = ("a", "t")

        def __len__(self) -> int:
            return 2

        def __getitem__(self, name: str) -> Any:
            return {"a": np.array([1, 2]), "t": np.array([3.0, 4.0])}[name]

    dataset = Dataset.from_pandas(Frame(), "t")
    assert dataset.X.tolist() == [[1.0], [2.0]]


# Files


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.TSV", "t.tab", "t.v2.csv.gz"])
def test_text_files(write: Writer, name: str) -> None:
    text = "a,t,b\n1,5,10\n2,6,2e1\n 3 ,7.5,35\n"
    if "csv" not in name:
        text = text.replace(",", "\t")
    dataset = Dataset.from_file(write(name, text), "t")
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.y, Y)
    assert dataset.names == ("a", "b")
    assert dataset.target == "t"


def test_details_of_text_files(write: Writer) -> None:
    text = '\ufeff"a b", c ,t\r\n"1",true,3\r\n\r\n4,FALSE,6\r\n  \r\n'
    dataset = Dataset.from_file(str(write("t.csv", text)), "t")
    assert dataset.names == ("a b", "c")
    assert dataset.X.tolist() == [[1.0, 1.0], [4.0, 0.0]]


@pytest.mark.parametrize(
    "text",
    [
        "a;t;b\n1;5;10\n2;6;2e1\n3;7.5;35\n",
        "a;t;b\n1;5,0;10\n2;6;2e1\n+3;7,5;35\n",
        "a\tt\tb\n1\t5\t10\n2\t6\t20,0\n3\t7,5\t35\n",
        '"a";"t";"b"\n1;5;10\n2;6;"20,000"\n3;7,5;35\n',
    ],
)
def test_other_delimiters_and_decimal_commas(write: Writer, text: str) -> None:
    dataset = Dataset.from_file(write("t.csv", text), "t")
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.y, Y)
    told = "commas in numbers were read as decimal commas" in dataset.notes
    assert told == ("," in text)


def test_the_delimiter_is_that_of_most_cells(write: Writer) -> None:
    dataset = Dataset.from_file(write("t.csv", "a,b;c,t\n1,2,3\n"), "t")
    assert dataset.names == ("a", "b;c")
    dataset = Dataset.from_file(write("t.csv", '"a, m";b;t\n1;2;3\n'), "t")
    assert dataset.names == ("a, m", "b")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1;2,5\n1.5;3\n", "line 2, column 't': '2,5' has .* but line 3 has decimal"),
        ("1.5;3\n1;2,5\n", "line 3, column 't': '2,5' has .* but line 2 has decimal"),
        ("1;1,234\n2;56,789\n", "line 2, column 't': '1,234' may have a decimal comma"),
        ("1;1,234,567\n", "line 2, column 't': not a number: '1,234,567'"),
        ("1;1.234,5\n", "line 2, column 't': not a number: '1.234,5'"),
        ("1;,\n", "line 2, column 't': not a number: ','"),
    ],
)
def test_doubtful_commas(write: Writer, rows: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Dataset.from_file(write("t.csv", "a;t\n" + rows), "t")


def test_a_comma_that_cannot_divide_thousands(write: Writer) -> None:
    dataset = Dataset.from_file(write("t.csv", "a;t\n1;0,234\n2;1,234\n"), "t")
    assert dataset.y is not None
    assert dataset.y.tolist() == [0.234, 1.234]


def test_numbers_too_long_for_json_are_refused(write: Writer) -> None:
    path = write("t.jsonl", '{"a": ' + "1" * 5000 + ', "t": 1}\n')
    with pytest.raises(DataError, match="line 1: not JSON"):
        Dataset.from_file(path, "t")


def test_notes_on_many_equal_columns_are_few() -> None:
    X = np.tile(np.arange(5.0)[:, None], (1, 30))
    names = [f"c{place}" for place in range(30)]
    notes = Dataset.from_arrays(X, np.ones(5), names).notes
    assert "21 more columns hold the same numbers as others" in notes
    assert sum("holds the same numbers as" in note for note in notes) == 8


def test_only_chosen_columns_are_read(write: Writer) -> None:
    path = write("t.csv", ",city,a,t,b\n0,Rome,1,2,3\n1,Bonn,4,5,6\n")
    dataset = Dataset.from_file(path, "t", ["b", "a"])
    assert dataset.names == ("b", "a")
    assert dataset.X.tolist() == [[3.0, 1.0], [6.0, 4.0]]
    assert Dataset.from_file(path, None, ["a"]).y is None
    with pytest.raises(DataError, match=r"names must be texts .* got ''"):
        Dataset.from_file(path, "t", ["", "a"])


@pytest.mark.parametrize("word", ["", " ", "NA", "n/a", "NaN", "null", "None"])
def test_words_for_missing_numbers(write: Writer, word: str) -> None:
    path = write("t.csv", f"a,t\n1,2\n{word},3\n5,{word}\n")
    with pytest.raises(DataError, match=r"2 of 3 rows .* 'a' 1 NaN, 't' 1 NaN"):
        Dataset.from_file(path, "t")
    dataset = Dataset.from_file(path, "t", missing="drop")
    assert dataset.X.tolist() == [[1.0]]


def test_infinite_numbers_in_files(write: Writer) -> None:
    path = write("t.csv", "a,t\n1,2\n-inf,3\n1e999,4\n")
    with pytest.raises(DataError, match="'a' 2 infinite"):
        Dataset.from_file(path, "t")


@pytest.mark.parametrize("word", ["abc", "1,5", "1_000", "0x10", "1.2.3", "?", "--1"])
def test_what_is_not_a_number_is_named(write: Writer, word: str) -> None:
    path = write("t.csv", f'a,t\n1,2\n\n"{word}",3\n')
    with pytest.raises(DataError) as caught:
        Dataset.from_file(path, "t")
    assert str(caught.value) == (
        f"{path}, line 4, column 'a': not a number: {word!r}; "
        "correct it, or leave the column out of features (--features)"
    )


def test_underscore_in_a_column_that_is_not_read(write: Writer) -> None:
    path = write("t.csv", "key,a,t\nr_1,1,2\nr_2,3,4\n")
    assert Dataset.from_file(path, "t", ["a"]).X.tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no header"),
        ("\n\n", "no header"),
        ("1,2\n3,4\n", "first line holds numbers; it must name the columns"),
        ("a,t\n", "no rows below the header"),
        ("a,t\n1,2\n3\n", "line 3: 1 cells, but the header names 2 columns"),
        ("a,t\n1,2,3\n", "line 2: 3 cells, but the header names 2 columns"),
        ("a,b\n1,2\n", "has no column 't'; its columns are 'a', 'b'"),
        ("t\n1\n", "has no column besides the target 't'"),
        ("a,a,t\n1,2,3\n", "2 columns named 'a'"),
        ("a,t,t\n1,2,3\n", "2 columns named 't'"),
        ('a,t\n1,"2\n', "line 2: unexpected end of data"),
    ],
)
def test_bad_text_files(write: Writer, text: str, message: str) -> None:
    path = write("t.csv", text)
    with pytest.raises(DataError, match=message) as caught:
        Dataset.from_file(path, "t")
    assert str(path) in str(caught.value)


def test_choices_are_checked(write: Writer) -> None:
    path = write("t.csv", "length,t\n1,2\n")
    with pytest.raises(DataError, match=r"no column 'lengt'.*did you mean 'length'"):
        Dataset.from_file(path, "t", ["lengt"])
    with pytest.raises(DataError, match="target 't' is also among the features"):
        Dataset.from_file(path, "t", ["length", "t"])
    with pytest.raises(DataError, match="unique, but 'length' is there twice"):
        Dataset.from_file(path, "t", ["length", "length"])
    with pytest.raises(TypeError, match="sequence of names, got 'length'"):
        Dataset.from_file(path, "t", "length")


def test_files_that_are_not_what_they_are_called(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(b"a,t\n1,2\n")
    with pytest.raises(DataError, match="damaged, or not UTF-8"):
        Dataset.from_file(path, "t")
    whole = gzip.compress(b"a,t\n" + b"1,2\n" * 1000)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged, or not UTF-8"):
        Dataset.from_file(path, "t")
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,t\n\xff\xfe,2\n")
    with pytest.raises(DataError, match="damaged, or not UTF-8"):
        Dataset.from_file(path, "t")
    path = tmp_path / "t.parquet"
    path.write_bytes(b"a,t\n1,2\n")
    with pytest.raises(DataError, match="not a Parquet file"):
        Dataset.from_file(path, "t")


@pytest.mark.parametrize("name", ["t", "t.txt", "t.gz", "t.xlsx", ".csv"])
def test_unknown_formats(write: Writer, name: str) -> None:
    with pytest.raises(DataError, match=r"allowed are \.csv, .*, each also with \.gz"):
        Dataset.from_file(write(name, "a,t\n1,2\n"), "t")


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson.gz", "t.data"])
def test_json_lines(write: Writer, name: str) -> None:
    text = '{"a": 1, "b": true, "t": 5}\n\n{"t": 6.5, "b": false, "a": -2, "c": "x"}\n'
    kind: Any = "jsonl" if name == "t.data" else None
    dataset = Dataset.from_file(write(name, text), "t", ["a", "b"], file_format=kind)
    assert dataset.X.tolist() == [[1.0, 1.0], [-2.0, 0.0]]
    assert dataset.y is not None
    assert dataset.y.tolist() == [5.0, 6.5]


def test_streams() -> None:
    stream = io.BytesIO(b"a\tt\n1\t2\n3\t4\n")
    dataset = Dataset.from_stream(stream, "t", file_format="tsv")
    assert dataset.X.tolist() == [[1.0], [3.0]]
    assert not stream.closed
    with pytest.raises(DataError, match="the pipe: damaged, or not UTF-8"):
        Dataset.from_stream(io.BytesIO(b"a,t\n\xff,1\n"), "t", label="the pipe")
    with pytest.raises(ValueError, match="file_format must be one of csv, tsv"):
        Dataset.from_stream(stream, "t", file_format="xls")  # type: ignore[arg-type]


def test_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("t.csv", "t.tsv.gz", "t.parquet"):
        with pytest.raises(FileNotFoundError):
            Dataset.from_file(tmp_path / name, "t")


def test_text_files_need_no_pandas(
    write: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch, "pandas", "pyarrow")
    assert Dataset.from_file(write("t.csv", "a,t\n1,2\n"), "t").n_rows == 1


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame(
        {
            "a": [1, 2, 3],
            "flag": pd.array([True, None, False], dtype="boolean"),
            "label": ["x", "y", "z"],
            "t": Y,
        }
    )
    frame.to_parquet(path)
    dataset = Dataset.from_file(path, "t", ["flag", "a"], missing="drop")
    assert dataset.names == ("flag", "a")
    assert dataset.X.tolist() == [[1.0, 1.0], [0.0, 3.0]]
    assert dataset.y is not None
    assert dataset.y.tolist() == [5.0, 7.5]
    assert dataset.notes == ("1 of 3 rows dropped: 'flag' 1 NaN",)
    with pytest.raises(DataError, match="column 'label' must hold numbers"):
        Dataset.from_file(path, "t")
    with pytest.raises(DataError, match="no column 'b'"):
        Dataset.from_file(path, "t", ["b"])


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.parquet").touch()
    forbid(monkeypatch, "pyarrow")
    with pytest.raises(DataError, match=r"pip install 'sr4mdl\[parquet\]'"):
        Dataset.from_file(tmp_path / "t.parquet", "t")


def forbid(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Make importing the packages fail, as where they are not installed."""
    real = builtins.__import__

    def guarded(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] in packages:
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", guarded)


def test_pmlb_layout(tmp_path: Path) -> None:
    folder = tmp_path / "192_vineyard"
    folder.mkdir()
    text = b"lugs\ttarget\n1.5\t2\n3\t4\n"
    (folder / "192_vineyard.tsv.gz").write_bytes(gzip.compress(text))
    dataset = read_pmlb(tmp_path, "192_vineyard")
    assert dataset.names == ("lugs",)
    assert dataset.target == "target"
    assert dataset.X.tolist() == [[1.5], [3.0]]
    with pytest.raises(DataError, match=r"did you mean '192_vineyard'\?"):
        read_pmlb(tmp_path, "192_vinyard")
    with pytest.raises(DataError, match="directory of PMLB data not found"):
        read_pmlb(tmp_path / "no", "192_vineyard")


@given(
    st.lists(
        st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2),
        min_size=1,
        max_size=20,
    )
)
def test_text_files_keep_every_bit(rows: list[tuple[float, float]]) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        lines = [",".join(map(repr, row)) for row in rows]
        path.write_text("\n".join(["a,t", *lines]))
        dataset = Dataset.from_file(path, "t")
    assert dataset.X[:, 0].tolist() == [row[0] for row in rows]
    assert dataset.y is not None
    assert dataset.y.tolist() == [row[1] for row in rows]
