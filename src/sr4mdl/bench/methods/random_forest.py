"""Random forest, for context on black-box problems."""

from collections.abc import Sequence
from typing import ClassVar

from sr4mdl._typing import FloatArray
from sr4mdl.bench.methods import ONLY_MODE, MethodResult, count_tree_nodes


class RandomForest:
    """scikit-learn's random forest with its default settings."""

    name: ClassVar[str] = "random_forest"
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
        """Fit; the number of trees is fixed, the time limit has no use here."""
        from sklearn.ensemble import RandomForestRegressor

        model = RandomForestRegressor(random_state=random_state).fit(X, y)
        size = count_tree_nodes(model.estimators_)
        return MethodResult(None, model.predict, size, "finished")
