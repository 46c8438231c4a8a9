"""Numbers from expressions: many formulas on many rows at once.

Expressions are compiled into one flat register program in which every shared
subexpression is computed once. The program runs in numpy or in compiled loops on the
CPU; ``torch_programs`` runs batches of small programs on a GPU. torch and numba are
imported only when they are needed.
"""

from sr4mdl.evaluate.programs import (
    DEFAULT_MAX_BYTES,
    Backend,
    Evaluation,
    Program,
    compile_program,
    evaluate,
    evaluate_one,
)

__all__ = [
    "DEFAULT_MAX_BYTES",
    "Backend",
    "Evaluation",
    "Program",
    "compile_program",
    "evaluate",
    "evaluate_one",
]
