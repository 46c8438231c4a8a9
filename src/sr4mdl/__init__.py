"""sr4mdl: find the shortest formula that explains a table of numbers.

Importing the package does no work: each public name is loaded when it is first used,
so neither torch nor onnxruntime, numba, sympy, pandas or scikit-learn come with it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sr4mdl.data import Dataset, read_pmlb
    from sr4mdl.errors import (
        BudgetExceededError,
        CheckpointError,
        DataError,
        ParseError,
        Sr4mdlError,
        VocabularyMismatchError,
    )
    from sr4mdl.evaluate import (
        Evaluation,
        Program,
        compile_program,
        evaluate,
        evaluate_one,
    )
    from sr4mdl.expressions import Expression, apply, constant, from_json, variable
    from sr4mdl.length import LengthEstimate, estimate_length
    from sr4mdl.operators import (
        Operator,
        all_operators,
        get_operator,
        register_operator,
        unregister_operator,
    )
    from sr4mdl.regressor import SymbolicRegressor
    from sr4mdl.simplify import Simplified, simplify, simplify_with_report
    from sr4mdl.text import parse

__version__ = "0.1.0"

__all__ = [
    "BudgetExceededError",
    "CheckpointError",
    "DataError",
    "Dataset",
    "Evaluation",
    "Expression",
    "LengthEstimate",
    "Operator",
    "ParseError",
    "Program",
    "Simplified",
    "Sr4mdlError",
    "SymbolicRegressor",
    "VocabularyMismatchError",
    "__version__",
    "all_operators",
    "apply",
    "compile_program",
    "constant",
    "estimate_length",
    "evaluate",
    "evaluate_one",
    "from_json",
    "get_operator",
    "parse",
    "read_pmlb",
    "register_operator",
    "simplify",
    "simplify_with_report",
    "unregister_operator",
    "variable",
]

_HOMES: Final = {
    "BudgetExceededError": "errors",
    "CheckpointError": "errors",
    "DataError": "errors",
    "Dataset": "data",
    "Evaluation": "evaluate",
    "Expression": "expressions",
    "LengthEstimate": "length",
    "Operator": "operators",
    "ParseError": "errors",
    "Program": "evaluate",
    "Simplified": "simplify",
    "Sr4mdlError": "errors",
    "SymbolicRegressor": "regressor",
    "VocabularyMismatchError": "errors",
    "all_operators": "operators",
    "apply": "expressions",
    "compile_program": "evaluate",
    "constant": "expressions",
    "estimate_length": "length",
    "evaluate": "evaluate",
    "evaluate_one": "evaluate",
    "from_json": "expressions",
    "get_operator": "operators",
    "parse": "text",
    "read_pmlb": "data",
    "register_operator": "operators",
    "simplify": "simplify",
    "simplify_with_report": "simplify",
    "unregister_operator": "operators",
    "variable": "expressions",
}
"""Module of each public name; the same names stand above for type checkers."""


class _Package(ModuleType):
    """The package itself, with one rule: a public function keeps its name.

    ``sr4mdl.simplify`` is a function that lives in a subpackage of the same name. The
    import system would bind the subpackage over it as soon as anybody imports it, so
    what ``sr4mdl.simplify`` means would depend on what ran before.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
