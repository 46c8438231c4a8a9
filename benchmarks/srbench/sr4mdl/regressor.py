"""SRBench's view of sr4mdl.

Copy this folder to ``algorithms/sr4mdl`` of SRBench. SRBench sets ``random_state``
and, from its own limit, ``max_time``; it calls ``est.fit`` with a frame whose columns
are named, and judges the text that ``model`` returns.
"""

from sr4mdl import SymbolicRegressor

MAX_TIME = 60
"""Seconds, unless SRBench sets its own limit."""

est = SymbolicRegressor(max_time=MAX_TIME, random_state=0)


def model(est, X=None):
    """Return the best formula as text that sympy reads, over the columns of ``X``.

    Parameters
    ----------
    est : SymbolicRegressor
        A fitted regressor.
    X : pandas.DataFrame, optional
        The training features; its columns name the variables where the regressor was
        fitted on an array.
    """
    import sympy

    expression = est.sympy()
    if X is not None and hasattr(X, "columns"):
        fitted = getattr(est, "feature_names_in_", None)
        if fitted is None:
            fitted = [f"x{number}" for number in range(len(X.columns))]
        names = dict(zip(map(str, fitted), map(str, X.columns), strict=True))
        # All at once: one by one, a new name could be replaced again.
        expression = expression.xreplace(
            {
                symbol: sympy.Symbol(names.get(symbol.name, symbol.name))
                for symbol in expression.free_symbols
            }
        )
    return str(expression)


def get_population(est):
    """Return the candidates: the chosen formula alone."""
    return [est]


def get_best_solution(est):
    """Return the regressor itself: its best formula is the answer."""
    return est


# The regressor scales by itself and answers in the data's own units.
eval_kwargs = {
    "scale_x": False,
    "scale_y": False,
    "test_params": {"max_time": 5},
}
