"""``sr4mdl bench report FILES... --out DIR``."""

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the report."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the report"
    )
    parser.add_argument("--json", action="store_true", help="end with a JSON document")


def run(arguments: Namespace) -> int:
    """Write the report and print where it is."""
    from sr4mdl.bench.report import write_report
    from sr4mdl.bench.results import read_rows

    written = write_report(read_rows(arguments.files), arguments.out)
    if arguments.json:
        document = {"written": [str(path) for path in written]}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0
