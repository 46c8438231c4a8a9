"""Least squares, the plainest method; its formula is a sum of all columns."""

from collections.abc import Sequence
from typing import ClassVar

from sr4mdl._typing import FloatArray
from sr4mdl.bench.methods import ONLY_MODE, MethodResult
from sr4mdl.expressions import Expression, constant, variable


class Linear:
    """scikit-learn's ordinary least squares."""

    name: ClassVar[str] = "linear"
    modes: ClassVar[tuple[str, ...]] = ONLY_MODE
    distribution: ClassVar[str] = "scikit-learn"

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
        """Fit; the time limit and the seed have no use here."""
        from sklearn.linear_model import LinearRegression

        model = LinearRegression().fit(X, y)
        formula: Expression = constant(float(model.intercept_))
        for name, weight in zip(names, model.coef_, strict=True):
            formula = formula + constant(float(weight)) * variable(name)
        return MethodResult(str(formula), model.predict, formula.length, "finished")
