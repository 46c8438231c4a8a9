"""gplearn: plain genetic programming."""

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from sr4mdl._typing import FloatArray
from sr4mdl.bench.methods import ONLY_MODE, PEER_ROWS, MethodResult, require
from sr4mdl.expressions import Expression, apply, constant, variable

POPULATION: Final = 1_000
STOPPING_ERROR: Final = 1e-10
FUNCTIONS: Final = ("add", "sub", "mul", "div", "sqrt", "log", "sin", "cos", "neg")
"""gplearn's own names; all but neg are in SRBench's setting."""


class GplearnGp:
    """gplearn's regressor, one generation after the other until the time is over."""

    name: ClassVar[str] = "gplearn"
    modes: ClassVar[tuple[str, ...]] = ONLY_MODE
    distribution: ClassVar[str] = "gplearn"

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def fit(
        self,
        X: FloatArray,
        y: FloatArray,
        names: Sequence[str],
        *,
        time_limit: float,
        random_state: int,
    ) -> MethodResult:
        """Fit by warm starts of one generation, with a look at the clock between."""
        genetic = require("gplearn.genetic", "bench")
        deadline = time.monotonic() + time_limit
        X, y = X[:PEER_ROWS], y[:PEER_ROWS]
        model = genetic.SymbolicRegressor(
            population_size=POPULATION,
            generations=1,
            function_set=FUNCTIONS,
            metric="mse",
            stopping_criteria=STOPPING_ERROR,
            parsimony_coefficient=0.001,
            warm_start=True,
            random_state=random_state,
        )
        stop_reason = "time"
        model.fit(X, y)
        longest = 0.0
        while model.run_details_["best_fitness"][-1] > STOPPING_ERROR:
            before = time.monotonic()
            # A generation that would end after the limit is not begun.
            if before + longest >= deadline:
                break
            model.set_params(generations=model.generations + 1)
            model.fit(X, y)
            longest = max(longest, time.monotonic() - before)
        else:
            stop_reason = "exact fit"
        formula = read_program(model._program.program, names)
        return MethodResult(str(formula), model.predict, formula.length, stop_reason)


def read_program(program: Sequence[Any], names: Sequence[str]) -> Expression:
    """Return the expression of a program in prefix form.

    Protected operators become plain ones, as SRBench reads them.
    """
    stack: list[Expression] = []
    for symbol in reversed(program):
        if isinstance(symbol, int):
            stack.append(variable(names[symbol]))
        elif hasattr(symbol, "arity"):
            arguments = [stack.pop() for _ in range(symbol.arity)]
            stack.append(apply(symbol.name, *arguments))
        else:
            stack.append(constant(float(symbol)))
    (expression,) = stack
    return expression
