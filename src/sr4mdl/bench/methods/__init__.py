"""Methods of regression behind one protocol.

Each method is one small file with a class that has ``name``, ``modes``,
``distribution`` and ``fit``. To add one, write such a file and one line in
``METHODS``; a class outside this package is named ``package.module:Class`` instead.
"""

import difflib
import importlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol

import sr4mdl
from sr4mdl._typing import FloatArray
from sr4mdl.errors import Sr4mdlError

METHODS: Final = {
    "sr4mdl": "sr4mdl.bench.methods.sr4mdl_search:Sr4mdlSearch",
    "gplearn": "sr4mdl.bench.methods.gplearn_gp:GplearnGp",
    "pyoperon": "sr4mdl.bench.methods.operon:Operon",
    "linear": "sr4mdl.bench.methods.linear:Linear",
    "random_forest": "sr4mdl.bench.methods.random_forest:RandomForest",
    "gradient_boosting": "sr4mdl.bench.methods.gradient_boosting:GradientBoosting",
}
"""Built-in methods as ``module:Class``, imported when they are used."""

ONLY_MODE: Final = ("default",)
"""Modes of a method that has one way of working."""
PEER_ROWS: Final = 1_000
"""Training rows that genetic programming gets: with all 10,000 it reaches less within
a minute. The rows are in random order, so the first are as good as any."""


class MethodUnavailableError(Sr4mdlError):
    """A method's package is not installed; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class MethodResult:
    """What a fit returns."""

    formula: str | None
    """Formula in this package's notation over the names given, or None."""
    predict: Callable[[FloatArray], FloatArray]
    """Maps features of shape (n_rows, n_features) to predictions of shape (n_rows,)."""
    complexity: int | None
    """Own count of the model's size, used where there is no formula."""
    stop_reason: str
    """Why the fit ended, in a few words."""


class Method(Protocol):
    """A method of regression in one of its modes."""

    name: ClassVar[str]
    """Name in rows and on the command line."""
    modes: ClassVar[tuple[str, ...]]
    """Ways of working, the default first."""
    distribution: ClassVar[str]
    """Distribution whose version goes into the row."""

    def __init__(self, mode: str) -> None: ...

    def fit(
        self,
        X: FloatArray,
        y: FloatArray,
        names: Sequence[str],
        *,
        time_limit: float,
        random_state: int,
    ) -> MethodResult:
        """Fit the training rows within about ``time_limit`` seconds."""
        ...


def find_method(name: str) -> type[Method]:
    """Return the class of a method by its name or ``package.module:Class``."""
    target = METHODS.get(name, name)
    module, _, attribute = target.partition(":")
    if not attribute:
        close = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"method must be one of {', '.join(METHODS)}, or package.module:Class, "
            f"got {name!r}{hint}"
        )
    method: type[Method] = getattr(importlib.import_module(module), attribute)
    return method


def create_method(name: str, mode: str) -> Method:
    """Return a method in a mode."""
    method = find_method(name)
    if mode not in method.modes:
        raise ValueError(
            f"mode of {name} must be one of {', '.join(method.modes)}, got {mode!r}"
        )
    return method(mode)


def mode_place(method: str, mode: str) -> int:
    """Return where a mode stands in its method's list; unknown ones come last.

    What follows a comma in the mode, such as a time limit, does not count.
    """
    modes = find_method(method).modes if method in METHODS else ()
    name = mode.partition(",")[0]
    return modes.index(name) if name in modes else len(modes)


def method_versions(method: Method) -> dict[str, str]:
    """Return the versions that a result depends on."""
    versions = {"python": platform.python_version(), "sr4mdl": sr4mdl.__version__}
    for name in ("numpy", "sympy", "scikit-learn", method.distribution):
        if name in versions:
            # This package may run from its source, without being installed.
            continue
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed as a distribution"
    return versions


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, with a hint where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MethodUnavailableError(
            f"{package} is not installed: pip install 'sr4mdl[{extra}]'"
        ) from error


def count_tree_nodes(trees: Sequence[Any]) -> int:
    """Return the nodes of fitted scikit-learn trees together."""
    return sum(int(tree.tree_.node_count) for tree in trees)
