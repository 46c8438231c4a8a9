"""The search of this package, in each of its modes."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.bench.methods import MethodResult
from sr4mdl.bench.tables import evaluate
from sr4mdl.data import Dataset

CLOSING: Final = "closing"
"""Mode that closes the root state and does not search: what algebra does alone."""


class Sr4mdlSearch:
    """The search with its default settings; the mode says what guides it.

    The last mode, ``closing``, reads out the root state and stops there, so that the
    other modes can be compared on the problems that need a search.
    """

    name: ClassVar[str] = "sr4mdl"
    modes: ClassVar[tuple[str, ...]] = (
        *("policy", "mdl", "error", "uniform", "gp"),
        CLOSING,
    )
    distribution: ClassVar[str] = "sr4mdl"

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
        """Search; the best formula by description length is the answer."""
        from sr4mdl.search import SearchConfig, search

        dataset = Dataset.from_arrays(X, y, names)
        settings: dict[str, Any] = {"mode": self.mode}
        if self.mode == CLOSING:
            settings = {"mode": "uniform", "max_nodes": 1}
        config = SearchConfig(
            max_time=time_limit, random_state=random_state, **settings
        )
        result = search(dataset, config)
        expression = result.best.expression
        columns = tuple(names)

        def predict(X: FloatArray) -> FloatArray:
            # A formula without variables still has one value a row.
            values = evaluate(expression, dict(zip(columns, X.T, strict=True)))
            return np.asarray(values, dtype=np.float64)

        return MethodResult(
            str(expression),
            predict,
            expression.length,
            result.stop_reason,
        )
