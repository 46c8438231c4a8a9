"""``sr4mdl examples``: small tables made by known laws, to try things on."""

import csv
import io
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sr4mdl.cli import UsageError
from sr4mdl.fit_command import check_folder

if TYPE_CHECKING:
    from sr4mdl._typing import FloatArray


class Example(NamedTuple):
    """A table that can be made at any time, always the same."""

    name: str
    """What people type; the file is NAME.csv."""
    law: str
    """What made it."""
    columns: tuple[str, ...]
    """Names of the columns, the target last."""
    make: "Callable[[], FloatArray]"
    """Returns the numbers, one row for each line."""


def _pendulum() -> "FloatArray":
    import numpy as np

    rng = np.random.default_rng(1673)
    length = rng.uniform(0.1, 3.0, 200).round(3)
    gravity = rng.uniform(1.6, 25.0, 200).round(3)
    mass = rng.uniform(0.05, 5.0, 200).round(3)
    return np.stack([length, gravity, mass, 2 * np.pi * np.sqrt(length / gravity)], 1)


def _kepler() -> "FloatArray":
    import numpy as np

    # Mercury to Neptune: semi-major axis in astronomical units, period in years.
    return np.array(
        [
            [0.387098, 0.240846],
            [0.723332, 0.615198],
            [1.000001, 1.000017],
            [1.523679, 1.880848],
            [5.2044, 11.862],
            [9.5826, 29.4571],
            [19.2184, 84.0205],
            [30.07, 164.8],
        ]
    )


def _drag() -> "FloatArray":
    import numpy as np

    rng = np.random.default_rng(1851)
    speed = rng.uniform(1.0, 40.0, 300).round(2)
    area = rng.uniform(0.05, 0.8, 300).round(3)
    force = 0.5 * 1.2 * 0.45 * area * speed**2
    noise = rng.normal(0.0, 0.02 * force.std(), 300)
    return np.stack([speed, area, (force + noise).round(3)], 1)


def _predator_prey() -> "FloatArray":
    """A trajectory of Lotka and Volterra's equations with its measured slope."""
    import numpy as np

    def slope(state: "FloatArray") -> "FloatArray":
        prey, predator = state
        return np.array(
            [1.1 * prey - 0.4 * prey * predator, 0.1 * prey * predator - 0.4 * predator]
        )

    step, n_steps = 0.01, 4000
    states = np.empty((n_steps, 2))
    states[0] = 10.0, 5.0
    for place in range(1, n_steps):
        now = states[place - 1]
        first = slope(now)
        second = slope(now + step / 2 * first)
        third = slope(now + step / 2 * second)
        fourth = slope(now + step * third)
        change = first + 2 * second + 2 * third + fourth
        states[place] = now + step / 6 * change
    # What an observer has: the slope from neighbouring measurements.
    prey_slope = (states[2:, 0] - states[:-2, 0]) / (2 * step)
    return np.column_stack([states[1:-1].round(4), prey_slope.round(3)])[::20]


def _friedman() -> "FloatArray":
    import numpy as np

    rng = np.random.default_rng(1991)
    X = rng.uniform(0.0, 1.0, (400, 7)).round(4)
    y = (
        10 * np.sin(np.pi * X[:, 0] * X[:, 1])
        + 20 * (X[:, 2] - 0.5) ** 2
        + 10 * X[:, 3]
        + 5 * X[:, 4]
    )
    return np.column_stack([X, (y + rng.normal(0.0, 0.5, 400)).round(4)])


EXAMPLES: Final = (
    Example(
        "pendulum",
        "period = 2*pi*sqrt(length/gravity); the mass does not matter",
        ("length", "gravity", "mass", "period"),
        _pendulum,
    ),
    Example(
        "kepler",
        "the planets as measured: period^2 = axis^3",
        ("axis", "period"),
        _kepler,
    ),
    Example(
        "drag",
        "force = 0.27*area*speed^2, with noise",
        ("speed", "area", "force"),
        _drag,
    ),
    Example(
        "predator_prey",
        "prey_slope = 1.1*prey - 0.4*prey*predator, along a trajectory",
        ("prey", "predator", "prey_slope"),
        _predator_prey,
    ),
    Example(
        "friedman",
        "10*sin(pi*a*b) + 20*(c - 0.5)^2 + 10*d + 5*e with noise; f, g do not matter",
        ("a", "b", "c", "d", "e", "f", "g", "y"),
        _friedman,
    ),
)


def example_csv(example: Example) -> str:
    """Return the table of an example as CSV text, numbers with 12 digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(example.columns)
    writer.writerows([f"{value:.12g}" for value in row] for row in example.make())
    return text.getvalue()


def configure(parser: ArgumentParser) -> None:
    """Set up ``sr4mdl examples [NAME ...]``."""
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="tables to write, or all"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="folder to write NAME.csv into (default: this one)",
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """List the tables, or write those asked for; return the exit code."""
    known = {example.name: example for example in EXAMPLES}
    if not arguments.names:
        width = max(map(len, known))
        for example in EXAMPLES:
            sys.stdout.write(f"{example.name:<{width}}  {example.law}\n")
        sys.stdout.write("write them: sr4mdl examples NAME ... [--out DIR]\n")
        return 0
    names = list(known) if arguments.names == ["all"] else arguments.names
    for name in names:
        if name not in known:
            raise UsageError(f"no example {name!r}; there are {', '.join(known)}, all")
    from sr4mdl.regressor.saving import write_files

    check_folder(arguments.out)
    contents = {
        arguments.out / f"{name}.csv": example_csv(known[name])
        for name in dict.fromkeys(names)
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_files(contents)
    for path in contents:
        name = path.stem
        sys.stdout.write(
            f"{path}: try sr4mdl fit {path} --target {known[name].columns[-1]}\n"
        )
    return 0
