"""The command line: ``sr4mdl COMMAND ...``.

Each command is one function that adds its arguments to a parser and says what runs:
``parser.set_defaults(run=function)``, where ``function(arguments)`` returns the exit
code. The table below names these functions as ``module:function``; only the module of
the command that was asked for is imported, so help stays quick. A larger command
lives in a module of its own and adds one row.

Exit codes: 0 done, 2 the user can correct it (one line on stderr), 130 interrupted,
141 nobody reads the output any more. Anything else that fails is a fault of the
program and shows its traceback.
"""

import io
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from sr4mdl import __version__
from sr4mdl.errors import Sr4mdlError

EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141


class UsageError(Sr4mdlError):
    """What was asked for on the command line cannot be done; says why in one line."""


class Command(NamedTuple):
    """One row of the table of commands."""

    name: str
    """What people type."""
    help: str
    """One line for ``sr4mdl --help``."""
    configure: str
    """``module:function`` that takes the command's parser."""


COMMANDS: Final = (
    Command("fit", "find the formula behind a table", "sr4mdl.fit_command:configure"),
    Command(
        "predict", "apply a formula that was found", "sr4mdl.predict_command:configure"
    ),
    Command(
        "length",
        "tell how long the law is, before any search",
        "sr4mdl.length_command:configure",
    ),
    Command(
        "examples",
        "list small tables to try, and write them",
        "sr4mdl.examples_command:configure",
    ),
    Command("simplify", "shorten a formula", "sr4mdl.cli:configure_simplify"),
    Command("evaluate", "try a formula on a table", "sr4mdl.cli:configure_evaluate"),
    Command("train", "train a network", "sr4mdl.training.command:configure"),
    Command("bench", "run benchmarks", "sr4mdl.bench.command:add_arguments"),
    Command(
        "info",
        "show versions, devices and the network",
        "sr4mdl.info_command:configure",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the program's name; those of the process by default.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    _open_streams()
    arguments = Namespace(command="")
    try:
        arguments = _build_parser(argv).parse_args(argv)
        run: Callable[[Namespace], int] = arguments.run
        code = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing is left to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except (Sr4mdlError, OSError) as error:
        _complain(f"sr4mdl {arguments.command}: error: {' '.join(str(error).split())}")
        return EXIT_USAGE
    except KeyboardInterrupt:
        _complain(f"sr4mdl {arguments.command}".rstrip() + ": interrupted")
        return EXIT_INTERRUPTED
    return code


def _complain(text: str) -> None:
    with suppress(OSError):  # nobody may be there to listen
        print(text, file=sys.stderr)


def _open_streams() -> None:
    """See to it that what is said can be written, wherever it goes."""
    # Closed streams are None. Their stand-ins live as long as the process.
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of columns may have letters that a console has not.
        sys.stdout.reconfigure(errors="backslashreplace")


def _build_parser(argv: Sequence[str]) -> ArgumentParser:
    """Return the parser; of the commands, only the one in ``argv`` is configured."""
    parser = ArgumentParser(
        prog="sr4mdl",
        description="Find the shortest formula that explains a table of numbers.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"sr4mdl {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # No option before the command takes a value, so the first word is the command.
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.help,
            description=command.help.capitalize() + ".",
            allow_abbrev=False,
        )
        if command.name == chosen:
            module, _, function = command.configure.partition(":")
            getattr(import_module(module), function)(subparser)
    return parser


def add_data_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that say which table to read and what it is to explain."""
    parser.add_argument(
        "data", metavar="DATA", help="CSV, TSV, JSON lines (also .gz) or Parquet"
    )
    parser.add_argument("--target", metavar="COLUMN", help="the column to explain")
    parser.add_argument(
        "--missing",
        choices=["refuse", "drop"],
        default="refuse",
        help="what to do with rows that are not finite (default: refuse)",
    )


def configure_simplify(parser: ArgumentParser) -> None:
    """Set up ``sr4mdl simplify TEXT``."""
    parser.add_argument("formula", metavar="TEXT", help="such as 'x*x + 2*x*x'")
    parser.set_defaults(run=_run_simplify)


def _run_simplify(arguments: Namespace) -> int:
    from sr4mdl.simplify import simplify
    from sr4mdl.text import parse

    print(simplify(parse(arguments.formula)))
    return 0


def configure_evaluate(parser: ArgumentParser) -> None:
    """Set up ``sr4mdl evaluate FORMULA DATA``."""
    parser.add_argument("formula", metavar="FORMULA", help="in the table's columns")
    add_data_arguments(parser)
    parser.add_argument(
        "--values", action="store_true", help="print the value of each row instead"
    )
    parser.set_defaults(run=_run_evaluate)


def _run_evaluate(arguments: Namespace) -> int:
    import numpy as np

    from sr4mdl.data import Dataset
    from sr4mdl.evaluate import evaluate_one
    from sr4mdl.text import parse

    formula = parse(arguments.formula)
    dataset = Dataset.from_file(
        arguments.data,
        arguments.target,
        sorted(formula.variables) or None,
        missing=arguments.missing,
    )
    values = evaluate_one(formula, dataset.X, dataset.names)
    if arguments.values:
        print("\n".join(map(repr, values.tolist())))
        return 0
    valid = np.isfinite(values)
    print(f"formula  {formula}")
    print(f"length   {formula.length} symbols")
    print(f"rows     {dataset.n_rows}, of them {int(valid.sum())} with a finite value")
    for note in dataset.notes:
        print(f"note     {note}")
    if dataset.y is not None and valid.any():
        y = dataset.y[valid]
        with np.errstate(over="ignore"):  # a huge error is shown as inf
            squares = (values[valid] - y) ** 2
            spread = (y - y.mean()) ** 2
            print(f"rmse     {np.sqrt(squares.mean()):.6g}")
            if spread.sum() > 0:
                print(f"R2       {1 - squares.sum() / spread.sum():.12g}")
    return 0
