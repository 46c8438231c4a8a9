"""Result files: one JSON row a run, appended, never lost, never doubled.

Only the runner's process writes. A row is one write of one line, flushed to the disk
before the next run is counted as done; a line torn by a crash is removed when the
file is opened again.
"""

import fcntl
import gzip
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from sr4mdl.errors import DataError

SCHEMA_VERSION: Final = 1
KEY_FIELDS: Final = ("suite", "problem", "seed", "noise", "method", "mode", "budget")
PACKED: Final = ".gz"
"""Ending of files that are packed."""

Row = dict[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What one run is: equal specifications are the same run."""

    suite: str
    """Suite of the problem."""
    problem: str
    """Name of the problem."""
    seed: int
    """Seed of split, noise and method."""
    noise: float
    """Noise on training targets, in units of their RMS."""
    method: str
    """Name of the method."""
    mode: str
    """Mode of the method."""
    time_s: float
    """Time limit that the method is told."""
    n_rows: int
    """Rows regenerated for problems defined by formula and ranges."""
    max_train_rows: int
    """Cap on training rows."""

    def to_row(self) -> Row:
        """Return the part of a row that is known before the run."""
        row = asdict(self)
        row["budget"] = {
            "time_s": row.pop("time_s"),
            "n_rows": row.pop("n_rows"),
            "max_train_rows": row.pop("max_train_rows"),
        }
        return row


def key_of(row: Row) -> Key:
    """Return what identifies a row's run."""
    return tuple(json.dumps(row.get(field), sort_keys=True) for field in KEY_FIELDS)


def read_bytes(path: Path) -> bytes:
    """Return what a file holds, unpacked if its name ends in ``.gz``.

    Raises
    ------
    DataError
        If a packed file is damaged or cut off.
    """
    content = path.read_bytes()
    if path.suffix != PACKED:
        return content
    try:
        if not content:
            raise EOFError("it is empty")
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from error


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """Return the rows of result files, packed ones too; a torn last line is left out.

    Where several rows are of the same run, the last one counts.

    Raises
    ------
    DataError
        If a line other than an unfinished last one is not a row.
    """
    rows: dict[Key, Row] = {}
    for path in paths:
        content = read_bytes(path)
        whole, _, rest = content.rpartition(b"\n")
        for row in _parse_lines(whole, path):
            rows[key_of(row)] = row
        last = _parse_row(rest)
        if last is not None:
            rows[key_of(last)] = last
    return list(rows.values())


def _parse_row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return row if isinstance(row, dict) and "problem" in row else None


def _parse_lines(content: bytes, path: Path) -> Iterable[Row]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        row = _parse_row(line)
        if row is None:
            raise DataError(f"{path}, line {number}: not a result row")
        yield row


class ResultFile:
    """A result file open for appending, locked against a second runner.

    Parameters
    ----------
    path : Path
        The file; made with its folder if it is not there.
    retry_errors : bool, default=False
        Whether to drop rows with an error, so that their runs are done again.

    Attributes
    ----------
    done : set
        Keys of the runs that have a row.
    rows : list of dict
        All rows, in order.
    """

    def __init__(self, path: Path, *, retry_errors: bool = False) -> None:
        if path.suffix == PACKED:
            raise DataError(f"{path} is packed: rows are only added to plain files")
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = _open_locked(path)
        try:
            self._repair()
            self._file.seek(0)
            self.rows = list(_parse_lines(self._file.read().rstrip(b"\n"), path))
        except DataError:
            self._file.close()
            raise
        if retry_errors:
            self._drop_errors()
        self.done = {key_of(row) for row in self.rows}

    def _repair(self) -> None:
        """Complete or remove a last line without its end."""
        self._file.seek(0)
        content = self._file.read()
        rest = content.rpartition(b"\n")[2]
        if not rest:
            return
        if _parse_row(rest) is not None:
            self._file.write(b"\n")
        else:
            self._file.truncate(len(content) - len(rest))
        self._sync()

    def _drop_errors(self) -> None:
        """Put a file without the failed rows in this one's place, in one step."""
        self.rows = [row for row in self.rows if not row.get("error")]
        draft = self.path.with_name(self.path.name + ".new")
        with draft.open("wb") as file:
            file.writelines(_line(row) for row in self.rows)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
        self._file.close()
        self._file = _open_locked(self.path)

    def append(self, row: Row) -> None:
        """Write a row; it is on the disk when this returns."""
        self._file.write(_line(row))
        self._sync()
        self.rows.append(row)
        self.done.add(key_of(row))

    def _sync(self) -> None:
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and free the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_locked(path: Path) -> BinaryIO:
    file = path.open("a+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise DataError(f"{path} is in use by another runner") from error
    return file


def _line(row: Row) -> bytes:
    return json.dumps(row, allow_nan=False).encode() + b"\n"
