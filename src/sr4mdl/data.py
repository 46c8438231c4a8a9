"""``Dataset``: a table that has been checked.

Everything later relies on what is promised here: float64, C-contiguous, finite,
read-only, unique names. ``_tables.py`` reads arrays, frames and files; this module
checks, drops and notes. Knows nothing of formulas.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self, get_args

import numpy as np

from sr4mdl._tables import (
    MAX_NAMED,
    as_numbers,
    check_names,
    choose,
    frame_column,
    frame_matrix,
    frame_names,
    listed,
    no_column,
    read_file,
    read_stream,
    suggestion,
)
from sr4mdl._typing import BoolArray, FloatArray
from sr4mdl.errors import DataError

Missing = Literal["refuse", "drop"]
FileFormat = Literal["csv", "tsv", "jsonl", "parquet"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A checked table: numbers, names and what was noticed about them.

    Use :meth:`from_arrays`, :meth:`from_pandas`, :meth:`from_file` or
    :func:`read_pmlb`, which convert, drop rows on request and write the notes. The
    constructor itself copies and checks, so every instance holds what is promised.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_columns), float64
        The features: finite, C-contiguous and read-only.
    y : ndarray of shape (n_rows,), float64, or None
        The target: finite and read-only. None for a table to predict on.
    names : tuple of str
        Names of the columns of ``X``; unique.
    target : str or None
        Name of the target; None exactly if ``y`` is.
    notes : tuple of str
        What was noticed or done, in sentences: rows dropped, constant columns.
    """

    X: FloatArray
    y: FloatArray | None
    names: tuple[str, ...]
    target: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        X = _frozen(as_numbers(self.X, "X"))
        if X.ndim != 2:
            raise DataError(
                f"X must have two dimensions (rows, columns), got shape {X.shape}; "
                "for one column use X.reshape(-1, 1)"
            )
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise DataError(f"X must have rows and columns, got shape {X.shape}")
        names = tuple(self.names)
        if len(names) != X.shape[1]:
            raise DataError(
                f"names must hold one name per column: {X.shape[1]} columns, "
                f"{len(names)} names"
            )
        check_names(names, self.target)
        y = self.y
        if y is not None:
            y = _frozen(as_numbers(y, "y"))
            if y.shape != (X.shape[0],):
                raise DataError(
                    f"y must have shape ({X.shape[0]},) as X has {X.shape[0]} rows, "
                    f"got {y.shape}"
                )
        if (y is None) != (self.target is None):
            raise DataError(
                "y and target must be given together or not at all, got "
                f"y {'missing' if y is None else 'given'}, target {self.target!r}"
            )
        _refuse_non_finite(X, y, names, self.target)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "notes", tuple(self.notes))

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any = None,
        names: Sequence[str] | None = None,
        *,
        target: str | None = None,
        missing: Missing = "refuse",
    ) -> Self:
        """Make a dataset from arrays, lists of rows, or a frame and a target.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Booleans, whole numbers or floats. Copied, never changed.
        y : array-like of shape (n_rows,), optional
            The target.
        names : sequence of str, optional
            Names of the columns; those of a frame, else ``x0``, ``x1``, ...
        target : str, optional
            Name of the target; by default ``y``, and ``y_`` where a column is called
            ``y``.
        missing : {"refuse", "drop"}, default="refuse"
            What to do with rows that hold NaN or infinity.

        Returns
        -------
        Dataset
            The checked table.

        Raises
        ------
        DataError
            If the table cannot be used; the message says why.
        """
        _check_missing(missing)
        notes: list[str] = []
        if hasattr(X, "columns"):
            names_of_frame = frame_names(X)
            matrix = frame_matrix(X, names_of_frame, notes)
            names = names_of_frame if names is None else names
        else:
            matrix = as_numbers(X, "X", notes)
        if matrix.ndim == 2 and names is None:
            names = [f"x{number}" for number in range(matrix.shape[1])]
        names = tuple(names) if names is not None else ()
        if y is None:
            if target is not None:
                raise DataError(f"target is {target!r}, but there is no y")
            return cls._checked(matrix, None, names, None, notes, missing)
        if target is None:
            target = "y"
            while target in names:
                target += "_"
        values = as_numbers(y, "y", notes)
        return cls._checked(matrix, values, names, target, notes, missing)

    @classmethod
    def from_pandas(
        cls,
        frame: Any,
        target: str | None,
        features: Sequence[str] | None = None,
        *,
        missing: Missing = "refuse",
    ) -> Self:
        """Make a dataset from a pandas or polars frame.

        Parameters
        ----------
        frame : pandas.DataFrame or polars.DataFrame
            The table. Text, dates and categories are refused by name.
        target : str or None
            Name of the target; None for a table without one.
        features : sequence of str, optional
            Names of the feature columns; all but the target by default.
        missing : {"refuse", "drop"}, default="refuse"
            What to do with rows that hold missing values, NaN or infinity.
        """
        _check_missing(missing)
        if not hasattr(frame, "columns"):
            raise TypeError(
                f"frame must be a pandas or polars frame, got {type(frame).__name__}"
            )
        chosen = choose(frame_names(frame), target, features, "the frame")
        notes: list[str] = []
        matrix = frame_matrix(frame, chosen, notes)
        values = None if target is None else frame_column(frame, target, notes)
        return cls._checked(matrix, values, chosen, target, notes, missing)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        target: str | None,
        features: Sequence[str] | None = None,
        *,
        missing: Missing = "refuse",
        file_format: FileFormat | None = None,
    ) -> Self:
        """Read a dataset from a CSV, TSV, JSON-lines or Parquet file.

        Parameters
        ----------
        path : str or Path
            ``.csv``, ``.tsv``, ``.tab``, ``.jsonl``, ``.ndjson``, each also with
            ``.gz``, or ``.parquet``, ``.pq``. Text files are UTF-8; CSV and TSV have
            the names of the columns in the first line, JSON lines have one object
            for each row. Cells of a CSV file may also be divided by semicolons or
            tabs; where no comma divides them, numbers may have decimal commas.
        target : str or None
            Name of the target; None for a table without one.
        features : sequence of str, optional
            Names of the feature columns; all but the target by default. Other
            columns are not read and may hold anything.
        missing : {"refuse", "drop"}, default="refuse"
            What to do with rows in which a number is missing or not finite.
        file_format : {"csv", "tsv", "jsonl", "parquet"}, optional
            Told by the endings of the name by default.

        Raises
        ------
        DataError
            If the table cannot be used; the message names file, line and column.
        OSError
            If the file cannot be opened.
        """
        _check_missing(missing)
        if file_format is not None:
            _check_format(file_format)
        notes: list[str] = []
        matrix, names = read_file(Path(path), file_format, target, features, notes)
        return cls._from_columns(matrix, names, target, notes, missing)

    @classmethod
    def from_stream(
        cls,
        stream: BinaryIO,
        target: str | None,
        features: Sequence[str] | None = None,
        *,
        missing: Missing = "refuse",
        file_format: FileFormat = "csv",
        label: str = "the stream",
    ) -> Self:
        """Read a dataset from an open binary stream, such as standard input.

        Parameters
        ----------
        stream : binary stream
            Read to its end and left open.
        target, features, missing
            As in :meth:`from_file`.
        file_format : {"csv", "tsv", "jsonl", "parquet"}, default="csv"
            What the stream holds.
        label : str, default="the stream"
            What messages call it.

        Raises
        ------
        DataError
            If the table cannot be used.
        """
        _check_missing(missing)
        _check_format(file_format)
        notes: list[str] = []
        matrix, names = read_stream(stream, file_format, label, target, features, notes)
        return cls._from_columns(matrix, names, target, notes, missing)

    @classmethod
    def _from_columns(
        cls,
        matrix: FloatArray,
        names: list[str],
        target: str | None,
        notes: list[str],
        missing: Missing,
    ) -> Self:
        """Build from columns of which the last is the target, if there is one."""
        values = None
        if target is not None:
            values, matrix = matrix[:, -1], matrix[:, :-1]
        return cls._checked(matrix, values, names, target, notes, missing)

    @classmethod
    def _checked(
        cls,
        X: FloatArray,
        y: FloatArray | None,
        names: Sequence[str],
        target: str | None,
        notes: Sequence[str],
        missing: Missing,
    ) -> Self:
        """Drop rows if asked to, build, and note what is odd about the columns."""
        notes = list(notes)
        fits = X.ndim == 2 and X.shape[1] == len(names)
        if missing == "drop" and fits and (y is None or y.shape == X.shape[:1]):
            keep = _finite_rows(X, y)
            n_dropped = int(X.shape[0] - keep.sum())
            if n_dropped:
                notes.append(
                    f"{n_dropped} of {X.shape[0]} rows dropped: "
                    + _describe_non_finite(X, y, tuple(names), target)
                )
                if n_dropped == X.shape[0]:
                    raise DataError(f"no row is left; {notes[-1]}")
                X = X[keep]
                y = None if y is None else y[keep]
        dataset = cls(X, y, tuple(names), target, tuple(notes))
        return dataset._with_notes(dataset._column_notes())

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    @property
    def n_columns(self) -> int:
        """Number of feature columns."""
        return len(self.names)

    @cached_property
    def constant_columns(self) -> tuple[str, ...]:
        """Names of the columns that hold one value only; empty for a single row."""
        if self.n_rows == 1:
            return ()
        same = (self.X[:1] == self.X).all(axis=0)
        return tuple(name for name, flag in zip(self.names, same, strict=True) if flag)

    @cached_property
    def duplicate_columns(self) -> tuple[tuple[str, str], ...]:
        """Pairs (column, earlier column) of columns that hold the same numbers."""
        first: dict[bytes, str] = {}
        pairs = []
        for name, column in zip(self.names, self.X.T, strict=True):
            earlier = first.setdefault(_fingerprint(column), name)
            if earlier != name:
                pairs.append((name, earlier))
        return tuple(pairs)

    def column(self, name: str) -> FloatArray:
        """Return the column of that name, a read-only view of shape (n_rows,)."""
        if name not in self.names:
            raise DataError(no_column(name, self.names, "the dataset"))
        return self.X[:, self.names.index(name)]

    def subsample(
        self, n_rows: int, random_state: int | np.random.Generator | None
    ) -> Self:
        """Return a dataset of ``n_rows`` rows drawn without replacement, in order.

        Parameters
        ----------
        n_rows : int
            At least 1; a dataset with no more rows than that is returned as it is.
        random_state : int, numpy.random.Generator or None
            Seed of the draw; None draws differently each time.
        """
        n_rows = operator.index(n_rows)
        if n_rows < 1:
            raise ValueError(f"n_rows must be at least 1, got {n_rows}")
        if n_rows >= self.n_rows:
            return self
        rng = np.random.default_rng(random_state)
        rows = np.sort(rng.choice(self.n_rows, size=n_rows, replace=False))
        note = f"{n_rows} of {self.n_rows} rows drawn at random"
        part = replace(
            self,
            X=self.X[rows],
            y=None if self.y is None else self.y[rows],
            notes=(*self.notes, note),
        )
        return part._with_notes(part._column_notes())

    def __repr__(self) -> str:
        return (
            f"Dataset({self.n_rows} rows, columns {listed(self.names)}, "
            f"target {self.target!r})"
        )

    def _with_notes(self, notes: Sequence[str]) -> Self:
        new = tuple(note for note in notes if note not in self.notes)
        return replace(self, notes=self.notes + new) if new else self

    def _column_notes(self) -> list[str]:
        notes = []
        if self.constant_columns:
            notes.append(f"constant columns: {listed(self.constant_columns)}")
        notes.extend(
            f"column {later!r} holds the same numbers as {earlier!r}"
            for later, earlier in self.duplicate_columns[:MAX_NAMED]
        )
        if (more := len(self.duplicate_columns) - MAX_NAMED) > 0:
            notes.append(f"{more} more columns hold the same numbers as others")
        if self.y is not None:
            notes.extend(
                f"column {name!r} holds the same numbers as the target"
                for name, column in zip(self.names, self.X.T, strict=True)
                if np.array_equal(column, self.y)
            )
        return notes


def read_pmlb(
    directory: str | Path, name: str, *, missing: Missing = "refuse"
) -> Dataset:
    """Read a dataset from a folder in PMLB layout.

    Parameters
    ----------
    directory : str or Path
        The folder that holds ``<name>/<name>.tsv.gz``.
    name : str
        Name of the dataset. The target is the column ``target``.
    missing : {"refuse", "drop"}, default="refuse"
        What to do with rows in which a number is missing or not finite.
    """
    directory = Path(directory)
    path = directory / name / f"{name}.tsv.gz"
    if not path.is_file():
        if not directory.is_dir():
            raise DataError(f"directory of PMLB data not found: {str(directory)!r}")
        known = sorted(entry.name for entry in directory.iterdir() if entry.is_dir())
        raise DataError(
            f"no dataset {name!r}: {str(path)!r} is not there" + suggestion(name, known)
        )
    return Dataset.from_file(path, "target", missing=missing)


def _frozen(values: FloatArray) -> FloatArray:
    """Return a read-only C-contiguous array that nobody else can write to."""
    if (
        values.flags.writeable
        or values.base is not None
        or not values.flags.c_contiguous
    ):
        values = np.array(values, dtype=np.float64, order="C")
        values.flags.writeable = False
    return values


def _check_missing(missing: str) -> None:
    if missing not in ("refuse", "drop"):
        raise ValueError(f"missing must be 'refuse' or 'drop', got {missing!r}")


def _check_format(file_format: str) -> None:
    allowed = get_args(FileFormat)
    if file_format not in allowed:
        raise ValueError(
            f"file_format must be one of {', '.join(allowed)}, got {file_format!r}"
        )


def _finite_rows(X: FloatArray, y: FloatArray | None) -> BoolArray:
    finite = np.isfinite(X).all(axis=1)
    return np.asarray(finite if y is None else finite & np.isfinite(y))


def _refuse_non_finite(
    X: FloatArray, y: FloatArray | None, names: tuple[str, ...], target: str | None
) -> None:
    n_bad = int(X.shape[0] - _finite_rows(X, y).sum())
    if n_bad:
        raise DataError(
            f"{n_bad} of {X.shape[0]} rows hold numbers that are missing or infinite: "
            f"{_describe_non_finite(X, y, names, target)}; "
            "correct them, or drop these rows with missing='drop' (--missing drop)"
        )


def _describe_non_finite(
    X: FloatArray, y: FloatArray | None, names: tuple[str, ...], target: str | None
) -> str:
    """Count NaN and infinity by column, as in "'a' 2 NaN, 'b' 1 NaN and 3 infinite"."""
    columns = list(zip(names, X.T, strict=True))
    if y is not None:
        columns.append((str(target), y))
    parts = []
    for name, values in columns:
        n_nan = int(np.isnan(values).sum())
        n_infinite = int(np.isinf(values).sum())
        counts = [f"{n_nan} NaN"] * bool(n_nan)
        counts += [f"{n_infinite} infinite"] * bool(n_infinite)
        if counts:
            parts.append(f"{name!r} {' and '.join(counts)}")
    more = len(parts) - MAX_NAMED
    return ", ".join(parts[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _fingerprint(column: FloatArray) -> bytes:
    """Bytes that are equal for equal columns; -0.0 counts as 0.0."""
    return (column + 0.0).tobytes()
