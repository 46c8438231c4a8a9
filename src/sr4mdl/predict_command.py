"""``sr4mdl predict result.json DATA``: values of a formula that was found."""

import csv
import io
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from sr4mdl.cli import UsageError
from sr4mdl.fit_command import add_source_arguments, check_folder, read_table


def configure(parser: ArgumentParser) -> None:
    """Set up ``sr4mdl predict RESULT DATA``."""
    parser.add_argument(
        "result", metavar="RESULT", type=Path, help="result.json of sr4mdl fit"
    )
    add_source_arguments(parser)
    parser.add_argument(
        "--equation",
        metavar="ROW",
        type=int,
        help="row of equations.csv, from 0 (default: the chosen one)",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="CSV file (default: print)"
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Read formula and table, compute, write; return the exit code."""
    import numpy as np

    from sr4mdl.evaluate import evaluate_one
    from sr4mdl.regressor.saving import from_result, read_result, write_files

    outcomes, features, *_ = from_result(
        read_result(arguments.result), str(arguments.result)
    )
    if arguments.out is not None:
        check_folder(arguments.out.parent)
        if arguments.out.is_dir():
            raise UsageError(f"--out {arguments.out}: is a folder, not a file")
    rows = [outcome.best for outcome in outcomes]
    if arguments.equation is not None:
        if len(outcomes) > 1:
            raise UsageError("--equation works for results with one target only")
        if not 0 <= arguments.equation < len(outcomes[0].equations):
            raise UsageError(
                f"--equation must be 0 to {len(outcomes[0].equations) - 1}, "
                f"got {arguments.equation}"
            )
        rows = [arguments.equation]
    equations = [
        outcome.equations[row] for outcome, row in zip(outcomes, rows, strict=True)
    ]
    used = {name for one in equations for name in one.expression.variables}
    # Columns that no formula uses need not be there; one tells the number of rows.
    needed = [name for name in features if name in used] or features[:1]
    dataset = read_table(arguments.data, None, needed, file_format=arguments.format)
    values = np.stack(
        [evaluate_one(one.expression, dataset.X, dataset.names) for one in equations],
        axis=1,
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([one.target for one in equations])
    writer.writerows([repr(value) for value in row] for row in values.tolist())
    if arguments.out is None:
        sys.stdout.write(text.getvalue())
    else:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_files({arguments.out: text.getvalue()})
    n_bad = int(np.sum(~np.isfinite(values).all(axis=1)))
    if n_bad:
        sys.stderr.write(
            f"sr4mdl predict: the formula is undefined for {n_bad} of "
            f"{len(values)} rows; their values are not finite\n"
        )
    return 0
