"""pyoperon: genetic programming with fitted constants."""

from collections.abc import Sequence
from typing import ClassVar, Final

from sr4mdl._typing import FloatArray
from sr4mdl.bench.methods import ONLY_MODE, PEER_ROWS, MethodResult, require
from sr4mdl.expressions import Expression, variable
from sr4mdl.text import parse

SYMBOLS: Final = "add,sub,mul,div,constant,variable,sin,cos,exp,log,sqrt,square,tanh"
DIGITS: Final = 16
OPTIMIZER_ITERATIONS: Final = 5
"""Steps of its constant fit; the default of 0 would leave constants unfitted."""


class Operon:
    """pyoperon's regressor: accuracy against length, constants fitted, one thread."""

    name: ClassVar[str] = "pyoperon"
    modes: ClassVar[tuple[str, ...]] = ONLY_MODE
    distribution: ClassVar[str] = "pyoperon"

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
        """Fit; its own time limit ends the run."""
        operon = require("pyoperon.sklearn", "bench")
        model = operon.SymbolicRegressor(
            allowed_symbols=SYMBOLS,
            objectives=["r2", "length"],
            optimizer_iterations=OPTIMIZER_ITERATIONS,
            # Its default, a description length, takes the noise to be 1 in the target's
            # units, whatever these are.
            model_selection_criterion="bayesian_information_criterion",
            max_time=max(1, round(time_limit)),
            generations=1_000_000,
            max_evaluations=1_000_000_000,
            n_threads=1,
            random_state=random_state,
        )
        model.fit(X[:PEER_ROWS], y[:PEER_ROWS])
        plain = [f"v{number}" for number in range(len(names))]
        text = model.get_model_string(model.model_, precision=DIGITS, names=plain)
        formula = rename(parse(text), plain, names)
        return MethodResult(str(formula), model.predict, formula.length, "time")


def rename(
    expression: Expression, plain: Sequence[str], names: Sequence[str]
) -> Expression:
    """Return the expression over the table's own names, which may be any text."""
    return expression.substitute(
        {old: variable(new) for old, new in zip(plain, names, strict=True)}
    )
