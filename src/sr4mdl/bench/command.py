"""``sr4mdl bench SUITE ...``: the table of benchmark commands.

A command is a module with ``add_arguments(parser)`` and ``run(arguments)``, which
returns the exit code; ``arguments.bench`` is the command's name. To add one, write such
a module and one line in ``COMMANDS``. It is imported when it is asked for.
"""

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Any, Final, NamedTuple


class BenchCommand(NamedTuple):
    """One row of the table of benchmark commands."""

    name: str
    """What people type."""
    help: str
    """One line for ``sr4mdl bench --help``."""
    module: str
    """Module with ``add_arguments`` and ``run``."""


COMMANDS: Final = [
    BenchCommand(
        "groundtruth",
        "119 Feynman and 14 Strogatz problems, judged by SRBench's rule",
        "sr4mdl.bench.suite_command",
    ),
    BenchCommand(
        "blackbox",
        "122 PMLB tables without known formula",
        "sr4mdl.bench.suite_command",
    ),
    BenchCommand(
        "classic",
        "117 classic formulas: Nguyen, Jin, Keijzer, Livermore and kin",
        "sr4mdl.bench.suite_command",
    ),
    BenchCommand(
        "mdlformer",
        "how well the network estimates lengths on generated pairs",
        "sr4mdl.bench.mdlformer",
    ),
    BenchCommand(
        "guidance",
        "how high the network ranks correct moves on the way to known formulas",
        "sr4mdl.bench.guidance",
    ),
    BenchCommand(
        "casestudy",
        "estimates of the network along the derivations of the paper's case studies",
        "sr4mdl.bench.casestudy",
    ),
    BenchCommand(
        "speed",
        "how fast the parts are, each against its baseline, in one run",
        "sr4mdl.bench.speed",
    ),
    BenchCommand(
        "report",
        "turn result files into Markdown and pictures",
        "sr4mdl.bench.report_command",
    ),
]
"""The benchmark commands."""


class _LateParser(ArgumentParser):
    """A parser whose options are added when it is first used, so that help is quick."""

    module: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.module is not None:
            module, self.module = import_module(self.module), None
            module.add_arguments(self)
        return super().parse_known_args(args, namespace)


def add_arguments(parser: ArgumentParser) -> None:
    """Add a sub-command for every row of the table."""
    commands = parser.add_subparsers(
        dest="bench", metavar="SUITE", required=True, parser_class=_LateParser
    )
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.help,
            description=command.help[0].upper() + command.help[1:] + ".",
            allow_abbrev=False,
        )
        subparser.module = command.module
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Run the benchmark command that was asked for and return its exit code."""
    (module,) = (entry.module for entry in COMMANDS if entry.name == arguments.bench)
    code: int = import_module(module).run(arguments)
    return code
