"""Numbers out of arrays, frames and files, for ``data.py``.

Each reader returns float64 with NaN where a value is missing; what to do about those
is the dataset's business. Whatever is not a number is refused here, by name of the
column, and in text files by line and value. CSV, TSV and JSON lines need nothing but
numpy; Parquet needs pyarrow.
"""

import csv
import difflib
import gzip
import io
import json
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.errors import DataError

_ENDINGS: Final = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_DELIMITERS: Final = {"csv": ",;\t", "tsv": "\t"}
"""What may stand between cells; the one that gives the header most cells does."""
_MISSING_WORDS: Final = frozenset({"", "na", "n/a", "nan", "null", "none"})
_BOOLEAN_WORDS: Final = {"true": 1.0, "false": 0.0}
_NUMBERS: Final = (int, float, np.bool_, np.integer, np.floating)
_EXACT_INTEGERS: Final = 2**53
MAX_NAMED: Final = 8
"""Most columns that a message names before it says 'and N more'."""


def as_numbers(values: Any, label: str, notes: list[str] | None = None) -> FloatArray:
    """Return float64 of the values' shape; text, dates and the like are refused.

    What is float64 already may come back as it is, not copied. Missing values become
    NaN.
    """
    # pandas' own types keep missing values as a marker that numpy does not know.
    if hasattr(getattr(values, "dtype", None), "na_value"):
        if values.dtype.kind not in "biuf":
            raise DataError(
                f"{label} must hold numbers, got {values.dtype}; "
                "convert it or leave it out"
            )
        if values.isna().any():
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "biuf":
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        raw = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{label} is not a table of numbers: {error}") from error
    if raw.dtype.kind == "f":
        return raw.astype(np.float64, copy=False)
    if raw.dtype.kind in "biu":
        if notes is not None and raw.dtype.kind != "b" and raw.size:
            largest = max(abs(int(raw.min())), abs(int(raw.max())))
            if largest > _EXACT_INTEGERS:
                notes.append(f"{label}: whole numbers above 2^53 were rounded")
        return raw.astype(np.float64)
    if raw.dtype.kind == "O":
        return _objects_as_numbers(raw, label)
    raise DataError(
        f"{label} must hold numbers, got {_kind_in_words(raw.dtype)}; "
        "convert it or leave it out"
    )


def _objects_as_numbers(raw: np.ndarray[Any, Any], label: str) -> FloatArray:
    numbers = np.empty(raw.shape, dtype=np.float64)
    for index, value in np.ndenumerate(raw):
        if value is None:
            numbers[index] = np.nan
        elif isinstance(value, _NUMBERS):
            try:
                numbers[index] = value
            except OverflowError:
                raise DataError(
                    f"{label} holds {value!r}, too large a number"
                ) from None
        else:
            raise DataError(
                f"{label} must hold numbers, got {value!r} ({type(value).__name__}) "
                f"in row {index[0] if index else 0}; convert it or leave it out"
            )
    return numbers


def _kind_in_words(dtype: np.dtype[Any]) -> str:
    words = {"U": "text", "S": "text", "T": "text", "M": "dates", "c": "complex"}
    return words.get(dtype.kind, str(dtype))


def frame_names(frame: Any) -> list[str]:
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise DataError(
                f"names of columns must be str, got {name!r} ({type(name).__name__})"
            )
    return names


def frame_matrix(frame: Any, names: Sequence[str], notes: list[str]) -> FloatArray:
    check_names(names, None)
    matrix = np.empty((len(frame), len(names)), dtype=np.float64)
    for number, name in enumerate(names):
        matrix[:, number] = frame_column(frame, name, notes)
    return matrix


def frame_column(frame: Any, name: str, notes: list[str]) -> FloatArray:
    return as_numbers(frame[name], f"column {name!r}", notes)


def read_file(
    path: Path,
    file_format: str | None,
    target: str | None,
    features: Sequence[str] | None,
    notes: list[str],
) -> tuple[FloatArray, list[str]]:
    """Return the chosen columns, the target last, and the names of the features.

    Without a format the endings of the name tell it.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    if file_format is None:
        kind = suffixes[-2:-1] if zipped else suffixes[-1:]
        file_format = _ENDINGS.get(kind[0]) if kind else None
    if file_format is None or (zipped and file_format == "parquet"):
        texts = [end for end, kind in _ENDINGS.items() if kind != "parquet"]
        others = [end for end, kind in _ENDINGS.items() if kind == "parquet"]
        raise DataError(
            f"{path}: cannot tell the format by the name; allowed are "
            f"{', '.join(texts)}, each also with .gz, and {', '.join(others)}"
        )
    with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
        return read_stream(stream, file_format, str(path), target, features, notes)


def read_stream(
    stream: Any,
    file_format: str,
    label: str,
    target: str | None,
    features: Sequence[str] | None,
    notes: list[str],
) -> tuple[FloatArray, list[str]]:
    """Return columns and names of an open binary stream, as :func:`read_file`.

    The label stands for it in messages.
    """
    if file_format == "parquet":
        return _read_parquet(stream, label, target, features, notes)
    handle = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    try:
        if file_format == "jsonl":
            return _read_json_lines(handle, label, target, features, notes)
        return _read_rows(
            handle, _DELIMITERS[file_format], label, target, features, notes
        )
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{label}: damaged, or not UTF-8 text ({error})") from error
    finally:
        handle.detach()  # whoever opened the stream closes it


def _read_parquet(
    stream: Any,
    label: str,
    target: str | None,
    features: Sequence[str] | None,
    notes: list[str],
) -> tuple[FloatArray, list[str]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise DataError(
            "reading Parquet needs pyarrow: pip install 'sr4mdl[parquet]'"
        ) from error
    try:
        # Its end tells what it holds, so that a pipe must be read in full first.
        source = stream if stream.seekable() else io.BytesIO(stream.read())
        file = parquet.ParquetFile(source)
        names = choose(list(file.schema_arrow.names), target, features, label)
        wanted = names if target is None else [*names, target]
        table = file.read(columns=wanted)
    except ArrowException as error:
        raise DataError(f"{label}: not a Parquet file ({error})") from error
    matrix = np.empty((table.num_rows, len(wanted)), dtype=np.float64)
    for number, name in enumerate(wanted):
        where = f"{label}: column {name!r}"
        matrix[:, number] = as_numbers(table.column(name).to_numpy(), where, notes)
    return matrix, names


def _read_json_lines(
    lines: Iterable[str],
    label: str,
    target: str | None,
    features: Sequence[str] | None,
    notes: list[str],
) -> tuple[FloatArray, list[str]]:
    """Return columns and names of JSON lines; a key that a line lacks is missing."""
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:  # among them numbers too long
            raise DataError(f"{label}, line {number}: not JSON ({error})") from error
        if not isinstance(record, dict):
            raise DataError(
                f"{label}, line {number}: must be a JSON object, got {line.strip()!r}"
            )
        records.append(record)
    if not records:
        raise DataError(f"{label}: no rows")
    present = list(dict.fromkeys(name for record in records for name in record))
    names = choose(present, target, features, label)
    wanted = names if target is None else [*names, target]
    matrix = np.empty((len(records), len(wanted)), dtype=np.float64)
    for number, name in enumerate(wanted):
        values = np.empty(len(records), dtype=object)
        values[:] = [record.get(name) for record in records]
        where = f"{label}: column {name!r}"
        matrix[:, number] = as_numbers(values, where, notes)
    return matrix, names


class _Lines:
    """Lines of a file; remembers whether those of the current row hold a '_'."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = lines
        self.underscore = False

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            if "_" in line:
                self.underscore = True
            yield line


def _choose_delimiter(line: str, delimiters: str) -> str:
    """Return the delimiter that makes the most cells of a line, the first if tied."""

    def count(delimiter: str) -> int:
        try:
            return len(next(csv.reader([line], delimiter=delimiter), []))
        except csv.Error:
            return 0  # told with its line when the file is read

    return max(delimiters, key=count)


class _DecimalMark:
    """Reads cells of a file whose cells no comma divides: ``1,5`` is then 1.5.

    Numbers with points beside those with commas are refused, and so are commas that
    may all divide thousands.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.point = ""
        """Where the first point is."""
        self.comma = ""
        """Where the first comma is, and the cell."""
        self.is_clear = False
        """Whether some comma cannot divide thousands."""

    def look(self, cells: Iterable[str], line: int) -> None:
        """Note cells that need no care."""
        if not self.point and any("." in cell for cell in cells):
            self.point = f"line {line}"
            self.check()

    def read(self, cell: str, where: str) -> str:
        """Return a cell with a point for a decimal comma."""
        whole, comma, rest = cell.partition(",")
        if not comma or "." in cell or not _is_number(f"{whole}.{rest}"):
            return cell
        digits = whole.lstrip("+-")
        thousands = len(rest) == 3 and 1 <= len(digits) <= 3 and digits[0] != "0"
        self.is_clear |= not thousands
        if not self.comma:
            self.comma = f"{where}: {cell!r}"
            self.check()
        return f"{whole}.{rest}"

    def check(self) -> None:
        if self.comma and self.point:
            raise DataError(
                f"{self.path}, {self.comma} has a decimal comma, but {self.point} has "
                "decimal points; write all numbers in one way"
            )

    def finish(self, notes: list[str]) -> None:
        """Say how commas were read, once all are seen."""
        if not self.comma:
            return
        if not self.is_clear:
            raise DataError(
                f"{self.path}, {self.comma} may have a decimal comma or one between "
                "thousands; write it with a decimal point, or without the comma"
            )
        notes.append("commas in numbers were read as decimal commas")


def _read_rows(
    handle: io.TextIOBase,
    delimiters: str,
    path: str,
    target: str | None,
    features: Sequence[str] | None,
    notes: list[str],
) -> tuple[FloatArray, list[str]]:
    first = handle.readline()
    delimiter = _choose_delimiter(first, delimiters)
    lines = _Lines(chain([first], handle))
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    mark = None if delimiter == "," else _DecimalMark(path)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if not any(header):
            raise DataError(f"{path}: no header; the first line must name the columns")
        if all(_is_number(cell) for cell in header):
            raise DataError(
                f"{path}: the first line holds numbers; it must name the columns"
            )
        if features is None and "" in header:
            # An index that was written along, or a comma at the end of each line.
            features = [name for name in header if name and name != target]
            unnamed = [str(place) for place, name in enumerate(header, 1) if not name]
            notes.append(f"left out, for want of a name: column {', '.join(unnamed)}")
        names = choose(header, target, features, path)
        wanted = names if target is None else [*names, target]
        place_of = {name: place for place, name in enumerate(header)}
        places = [place_of[name] for name in wanted]
        whole = places == list(range(len(header)))
        values = array("d")
        for row in reader:
            underscore, lines.underscore = lines.underscore, False
            if not row or (len(row) == 1 and not row[0].strip() and len(header) > 1):
                continue  # blank lines
            if len(row) != len(header):
                raise DataError(
                    f"{path}, line {reader.line_num}: {len(row)} cells, but the "
                    f"header names {len(header)} columns"
                )
            cells = row if whole else [row[place] for place in places]
            start = len(values)
            try:
                values.extend(map(float, cells))
            except ValueError:
                careful = True
            else:
                # float() takes 1_000 for 1000; no table means that.
                careful = underscore
            if careful:
                del values[start:]
                values.extend(_read_cells(cells, wanted, path, reader.line_num, mark))
            if mark is not None:
                mark.look(cells, reader.line_num)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from error
    if not values:
        raise DataError(f"{path}: no rows below the header")
    if mark is not None:
        mark.finish(notes)
    return np.frombuffer(values, dtype=np.float64).reshape(-1, len(wanted)), names


def _read_cells(
    cells: Sequence[str],
    names: Sequence[str],
    path: str,
    line: int,
    mark: _DecimalMark | None,
) -> Iterator[float]:
    """Read one row cell by cell, with words for what is missing or true."""
    for cell, name in zip(cells, names, strict=True):
        word = cell.strip().lower()
        if mark is not None:
            word = mark.read(word, f"line {line}, column {name!r}")
        if word in _MISSING_WORDS:
            yield float("nan")
        elif word in _BOOLEAN_WORDS:
            yield _BOOLEAN_WORDS[word]
        elif _is_number(word):
            yield float(word)
        else:
            raise DataError(
                f"{path}, line {line}, column {name!r}: not a number: {cell!r}; "
                "correct it, or leave the column out of features (--features)"
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def check_names(names: Sequence[str], target: str | None) -> None:
    seen: set[str] = set()
    for name in (*names, *(() if target is None else (target,))):
        if not isinstance(name, str) or not name or "`" in name:
            raise DataError(
                "names must be texts without backtick, not empty, so that formulas can "
                f"hold them, got {name!r}"
            )
    for name in names:
        if name in seen:
            raise DataError(f"names must be unique, but {name!r} is there twice")
        seen.add(name)
    if target in seen:
        raise DataError(f"the target {target!r} is also among the features")


def choose(
    present: Sequence[str],
    target: str | None,
    features: Sequence[str] | None,
    where: str,
) -> list[str]:
    """Return the names of the features, after checking that all are there once."""
    if isinstance(features, str):
        raise TypeError(f"features must be a sequence of names, got {features!r}")
    if features is None:
        features = [name for name in present if name != target]
    chosen = list(features)
    counts = Counter(present)
    for name in (*chosen, *(() if target is None else (target,))):
        if name not in counts:
            raise DataError(no_column(name, present, where))
        if counts[name] > 1:
            raise DataError(f"{where} has {counts[name]} columns named {name!r}")
    if not chosen:
        raise DataError(f"{where} has no column besides the target {target!r}")
    check_names(chosen, target)
    return chosen


def no_column(name: str, present: Sequence[str], where: str) -> str:
    return f"{where} has no column {name!r}; its columns are {listed(present)}" + (
        suggestion(name, present)
    )


def suggestion(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
