"""``sr4mdl length DATA``: how long the law behind a table is, before any search."""

import json
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from sr4mdl.fit_command import add_column_arguments, add_source_arguments, read_table


def configure(parser: ArgumentParser) -> None:
    """Set up ``sr4mdl length DATA --target COLUMN``."""
    add_source_arguments(parser)
    parser.add_argument(
        "--target", metavar="COLUMN", required=True, help="the column to explain"
    )
    add_column_arguments(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the answer as one line of JSON"
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Read the table, ask the network, print; return the exit code."""
    from sr4mdl.length import estimate_length_of

    dataset = read_table(
        arguments.data,
        arguments.target,
        arguments.features,
        missing=arguments.missing,
        file_format=arguments.format,
    )
    estimate = estimate_length_of(dataset, random_state=arguments.seed or 0)
    if arguments.json:
        document = {"target": dataset.target, **asdict(estimate)}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        sys.stdout.write(
            f"{dataset.target}: {estimate}, told from {estimate.n_rows} rows and "
            f"{estimate.n_columns} columns\n"
        )
    return 0
