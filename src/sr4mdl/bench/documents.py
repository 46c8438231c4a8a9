"""Result documents: what the measuring commands leave for the report.

A suite leaves rows (``results``); a command that measures the network or the speed
leaves one JSON document with the command's name under ``bench``.
"""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sr4mdl.bench.results import PACKED, Row, read_bytes, read_rows

Document = dict[str, Any]


def write_document(path: Path, document: Document) -> None:
    """Write a document, packed if the name ends in ``.gz``; NaN is refused.

    Its folder is made if it is not there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = (json.dumps(document, allow_nan=False) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == PACKED else content)


def read_document(path: Path) -> Document | None:
    """Return the document of a file, or None if the file holds rows."""
    try:
        content = json.loads(read_bytes(path))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return content if isinstance(content, dict) and "bench" in content else None


def read_results(paths: Iterable[Path]) -> tuple[list[Row], list[Document]]:
    """Return the rows and the documents of files of either kind.

    A document is given the name of its file, without endings, under ``name``.

    Raises
    ------
    DataError
        If a file holds neither.
    """
    documents: list[Document] = []
    row_files: list[Path] = []
    for path in paths:
        document = read_document(path)
        if document is None:
            row_files.append(path)
        else:
            name = path.with_suffix("") if path.suffix == PACKED else path
            documents.append({"name": name.stem, **document})
    return read_rows(row_files), documents
