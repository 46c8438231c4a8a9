"""``sr4mdl bench report FILES... --out DIR``."""

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the report."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="rows of suites, or documents that other commands wrote by --output",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the report"
    )
    parser.add_argument(
        "--published",
        type=Path,
        metavar="FILE",
        help="published figures as JSON (default: those of the package)",
    )
    parser.add_argument(
        "--readme",
        type=Path,
        metavar="FILE",
        help="Markdown file whose block of results is written anew",
    )
    parser.add_argument("--json", action="store_true", help="end with a JSON document")


def run(arguments: Namespace) -> int:
    """Write the report and print where it is."""
    from sr4mdl.bench.documents import read_results
    from sr4mdl.bench.problems import read_published
    from sr4mdl.bench.readme import replace_block, results_block
    from sr4mdl.bench.report import write_report

    rows, documents = read_results(arguments.files)
    published = read_published(arguments.published)
    written = write_report(rows, arguments.out, documents, published)
    if arguments.readme is not None:
        block = results_block(rows, documents, published)
        text = arguments.readme.read_text(encoding="utf-8")
        arguments.readme.write_text(replace_block(text, block), encoding="utf-8")
        written.append(arguments.readme)
    if arguments.json:
        document = {"written": [str(path) for path in written]}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        sys.stdout.write("".join(f"{path}\n" for path in written))
    return 0
