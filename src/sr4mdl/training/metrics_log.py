"""Records of a run: one JSON object a line, and a line of progress for people."""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO


class MetricsLog:
    """Appends records to a JSONL file and shows the last one.

    Parameters
    ----------
    path : Path or None
        File to append to; None writes none.
    stream : TextIO or None
        Where the line of progress goes; None shows none. On a terminal the line is
        rewritten in place.
    """

    def __init__(self, path: Path | None, stream: TextIO | None = sys.stderr) -> None:
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
        self._stream = stream
        self._live = False

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record; numbers that are not finite become null."""
        if self._file is not None:
            plain = {key: _plain(value) for key, value in record.items()}
            self._file.write(json.dumps(plain, allow_nan=False) + "\n")
            self._file.flush()
        if self._stream is not None and "samples" in record:
            self._show(progress_line(record))

    def close(self) -> None:
        """Finish the line of progress and close the file."""
        if self._live and self._stream is not None:
            self._stream.write("\n")
            self._stream.flush()
            self._live = False
        if self._file is not None:
            self._file.close()
            self._file = None

    def _show(self, line: str) -> None:
        assert self._stream is not None
        if self._stream.isatty():
            self._stream.write("\r\x1b[2K" + line)
            self._live = True
        else:
            self._stream.write(line + "\n")
        self._stream.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_SHOWN = (
    ("loss", "loss {:.3f}"),
    ("value_rmse", "rmse {:.2f}"),
    ("top1", "top1 {:.1%}"),
    ("top10", "top10 {:.1%}"),
    ("held_out_top1", "held-out top1 {:.1%}"),
    ("held_out_top10", "top10 {:.1%}"),
    ("held_out_value_rmse", "rmse {:.2f}"),
    ("learning_rate", "lr {:.2e}"),
    ("samples_per_second", "{:,.0f}/s"),
    ("wait_share", "waits {:.1%}"),
)


def progress_line(record: Mapping[str, Any]) -> str:
    """Return the record as a short line."""
    minutes, seconds = divmod(int(record.get("elapsed", 0)), 60)
    parts = [
        f"{record.get('position', 0.0):5.1%} {minutes}:{seconds:02d}",
        f"{record['samples']:,} samples",
    ]
    parts += [
        shape.format(record[key])
        for key, shape in _SHOWN
        if isinstance(record.get(key), (int, float))
    ]
    return "  ".join(parts)
