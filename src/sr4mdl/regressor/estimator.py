"""``SymbolicRegressor``: the search behind scikit-learn's interface."""

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.data import Dataset
from sr4mdl.evaluate import evaluate_one
from sr4mdl.mdlformer.guide import Guide
from sr4mdl.regressor.checking import (
    canonical_order,
    check_constants,
    check_length,
    check_real,
    list_callbacks,
    make_seed,
    name_targets,
    plain_value,
    target_names,
    tuple_of,
)
from sr4mdl.regressor.equations import EquationTable
from sr4mdl.regressor.explanation import explain
from sr4mdl.regressor.exporting import Exports
from sr4mdl.regressor.outcomes import (
    Outcome,
    Table,
    make_outcome,
    make_partial_outcome,
)
from sr4mdl.regressor.running import run_searches
from sr4mdl.regressor.saving import (
    CheckpointFile,
    from_result,
    read_result,
    to_result,
    to_text,
    write_files,
)
from sr4mdl.regressor.weights import rows_of_weights
from sr4mdl.search import SearchConfig
from sr4mdl.search.budget import holding_interrupts

_OWN_SETTINGS = (
    "max_time",
    "max_nodes",
    "max_evaluations",
    "early_stop",
    "mode",
    "operators",
    "nesting",
    "max_length",
    "random_state",
)
"""Settings of the search that the constructor has under the same name."""
_NOT_SAVED = ("callbacks", "guide")


class SymbolicRegressor(
    # scikit-learn's classes have no types.
    Exports,
    MultiOutputMixin,  # type: ignore[misc]
    RegressorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Finds the shortest formula that explains a table.

    Parameters
    ----------
    max_time : float or None, default=30.0
        Seconds to search for each target; None for no limit. The search ends earlier
        when the formula cannot get better.
    max_nodes : int, default=100_000
        Most search states.
    max_evaluations : int or None, default=None
        Most readouts (states turned into formulas); with it and without a limit of
        time a fit is the same every time.
    early_stop : bool, default=True
        Whether to stop when the code cannot get shorter, before the budget is used.
    mode : {"policy", "mdl", "error", "uniform", "gp"}, default="policy"
        How to search: led by the network (``policy``), the paper's search (``mdl``),
        plain tree search (``error``), without guidance (``uniform``), or genetic
        programming (``gp``).
    guide : Guide, str, Path or None, default=None
        What leads the modes ``policy`` and ``mdl``: an object that scores states, or
        the ``.onnx`` file of a network; None for the one that comes with the package.
    operators : sequence of str or None, default=None
        Names of the operators a formula may contain, such as ``("add", "mul",
        "sin")``; None for all of them.
    nesting : mapping or None, default=None
        How deep operators may nest: ``{"sin": {"sin": 0, "exp": 1}}`` allows no sin
        anywhere below a sin, and one level of exp. Operators that it does not name
        nest as they like. Names are those of the printed formula.
    max_length : int or None, default=None
        Most symbols of a formula; None for any number. The search does not build, fit
        or return longer ones.
    constants : sequence of float, default=()
        Numbers known to matter, such as 9.81; constants are rounded to them where
        that shortens the code.
    noise : float or None, default=None
        Standard deviation of the noise in the target, if it is known. Formulas are
        then chosen by a code for noise of that size: none is preferred for fitting
        better than the noise allows.
    validation : float or None, default=None
        Share of rows, more than 0 and less than 1, kept out of the search; formulas
        are then chosen by their error on these.
    search_options : mapping or None, default=None
        Further fields of ``sr4mdl.search.SearchConfig`` for experts.
    warm_start : bool, default=False
        Whether to go on from the fit before, also one that was loaded: its formulas
        compete, measured on the new data. On the same data under the same settings
        the search tree grows on where it stood; ``random_state=None`` then means the
        seed of before.
    n_jobs : int or None, default=None
        Processes that search several targets at the same time; for one target,
        threads of the network. None means 1, -1 all cores.
    random_state : int, RandomState or None, default=None
        Seed for rows, weights and the modes that draw; None for another each time.
    callbacks : callable, sequence of callables or None, default=None
        Each is called with every ``sr4mdl.search.ProgressEvent``. One that raises
        KeyboardInterrupt ends the search with the best formula so far.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    equations_ : EquationTable
        Formulas worth a look, target by target, shortest first: formula, length,
        error, R2, bits. A chosen one is marked.
    best_ : Equation or list of Equation
        The chosen formula; a list, one for each target, if ``y`` had two dimensions.
    outcomes_ : list of Outcome
        All that was found, one for each target.
    stop_reason_ : str or list of str
        Why the search ended.
    statistics_ : dict or list of dict
        What the search did: counts, seconds by phase, refusals by cause.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if the data had some.

    Notes
    -----
    A formula may be undefined for some input: ``predict`` then gives NaN or infinity
    for these rows and warns, it never puts in another number.

    The order of the rows does not matter.

    Sample weights become rows: whole weights repeat them, others are realised by
    systematic resampling with the seed.

    Examples
    --------
    >>> X = np.linspace(1.0, 3.0, 40).reshape(-1, 2)
    >>> model = SymbolicRegressor(max_time=5.0, mode="uniform", random_state=0)
    >>> model.fit(X, 3.0 * X[:, 0] ** 2).best_.formula
    '3*x0^2'
    """

    def __init__(
        self,
        *,
        max_time: float | None = 30.0,
        max_nodes: int = 100_000,
        max_evaluations: int | None = None,
        early_stop: bool = True,
        mode: str = "policy",
        guide: Guide | str | Path | None = None,
        operators: Sequence[str] | None = None,
        nesting: Mapping[str, Mapping[str, int]] | None = None,
        max_length: int | None = None,
        constants: Sequence[float] = (),
        noise: float | None = None,
        validation: float | None = None,
        search_options: Mapping[str, Any] | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        callbacks: Any = None,
        verbose: bool = False,
    ) -> None:
        self.max_time = max_time
        self.max_nodes = max_nodes
        self.max_evaluations = max_evaluations
        self.early_stop = early_stop
        self.mode = mode
        self.guide = guide
        self.operators = operators
        self.nesting = nesting
        self.max_length = max_length
        self.constants = constants
        self.noise = noise
        self.validation = validation
        self.search_options = search_options
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search for a formula of each target.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            The inputs; names of a frame's columns become names in the formula.
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            What to explain; each column has a search of its own.
        sample_weight : array-like of shape (n_rows,), optional
            How much each row counts: 0 or more.

        Returns
        -------
        SymbolicRegressor
            Itself.

        Raises
        ------
        ValueError
            If a parameter or the data cannot be used; the message names it.
        """
        names_of_y = target_names(y)
        earlier = self._earlier()
        X, y = validate_data(
            self,
            X,
            y,
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        y = np.asarray(y, dtype=np.float64)
        targets = name_targets(names_of_y, y, self._names())
        return self._fit(X, y, targets, sample_weight, earlier)

    def fit_dataset(
        self,
        dataset: Dataset,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Search for a formula of a dataset's target; as :meth:`fit`.

        Parameters
        ----------
        dataset : Dataset
            The table; it must have a target.
        sample_weight : array-like of shape (n_rows,), optional
            How much each row counts: 0 or more.
        checkpoint : str or Path, optional
            File for the best so far, written every few seconds, in full or not at
            all; :meth:`load` reads it, and a fit with ``warm_start`` goes on from
            there. A file that cannot be written is a warning.
        """
        if dataset.y is None or dataset.target is None:
            raise ValueError("dataset must have a target to search for, got y=None")
        if dataset.n_rows < 2:
            raise ValueError("dataset must have 2 rows or more, got 1")
        earlier = self._earlier()
        self.n_features_in_ = dataset.n_columns
        self.feature_names_in_ = np.array(dataset.names, dtype=object)
        return self._fit(
            dataset.X,
            dataset.y,
            [dataset.target],
            sample_weight,
            earlier,
            None if checkpoint is None else Path(checkpoint),
        )

    def _fit(
        self,
        X: FloatArray,
        y: FloatArray,
        targets: list[str],
        sample_weight: Any,
        earlier: list[Outcome],
        checkpoint: Path | None = None,
    ) -> Self:
        """Search on checked numbers; the names of the features are set."""
        memories = {one.target: one.memory for one in earlier if one.memory is not None}
        if self.random_state is None and memories:
            seed = next(iter(memories.values())).seed
        else:
            seed = make_seed(self.random_state)
        config = self._config(seed)
        self._check_choice_parameters()
        noise = None if self.noise is None else float(self.noise)
        callbacks = list_callbacks(self.callbacks)
        rng = np.random.default_rng(seed)
        names = self._names()
        rows = np.arange(len(X))
        if sample_weight is not None:
            _check_sample_weight(sample_weight, X, dtype=np.float64)
            rows = rows_of_weights(sample_weight, len(X), rng)
        rows = rows[canonical_order(X[rows], y[rows])[rng.permutation(len(rows))]]
        X, y = X[rows], y[rows]
        train, held = self._split(rows, rng)
        several = y.ndim == 2
        columns = y if several else y.reshape(-1, 1)
        tables = [
            Table(X[train], columns[train, place], names, target)
            for place, target in enumerate(targets)
        ]
        held_out: list[Table | None] = [
            replace(table, X=X[held], y=columns[held, place]) if len(held) else None
            for place, table in enumerate(tables)
        ]
        store = None
        if checkpoint is not None:
            store = CheckpointFile(
                checkpoint,
                lambda memory: self._result(
                    [
                        make_partial_outcome(
                            memory,
                            tables[0],
                            limits=config.limits,
                            noise=noise,
                            held_out=held_out[0],
                        )
                    ],
                    several,
                ),
            )
        with holding_interrupts():
            results = run_searches(
                tables,
                config,
                guide=self.guide,
                n_jobs=self.n_jobs,
                callbacks=callbacks,
                verbose=self.verbose,
                memories=memories,
                store=store,
            )
            outcomes = [
                make_outcome(
                    result,
                    table,
                    earlier=[
                        equation.expression
                        for outcome in earlier
                        if outcome.target == table.target
                        for equation in outcome.equations
                    ],
                    limits=config.limits,
                    noise=noise,
                    held_out=held,
                )
                for table, result, held in zip(tables, results, held_out, strict=True)
            ]
            self._set_fitted(outcomes, several)
        return self

    def predict(
        self, X: Any, equation: int | Sequence[int] | None = None
    ) -> FloatArray:
        """Return the values of the chosen formula, or of another one of the table.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features)
            The inputs.
        equation : int or sequence of int, optional
            Row among the equations of the target (``equations_`` for one target); for
            several targets one row each. The chosen ones by default.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_targets)
            The values. Where a formula is undefined they are not finite, and a
            warning says for how many rows.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        chosen = self._chosen_equations(equation)
        names = self._names()
        values = np.stack(
            [evaluate_one(one.expression, X, names) for one in chosen], axis=1
        )
        n_bad = int(np.sum(~np.isfinite(values).all(axis=1)))
        if n_bad:
            import warnings

            warnings.warn(
                f"the formula is undefined for {n_bad} of {len(X)} rows: "
                "these predictions are not finite",
                RuntimeWarning,
                stacklevel=2,
            )
        return values if self._several_targets else values[:, 0]

    def explain(self) -> str:
        """Return in words why these formulas were chosen."""
        check_is_fitted(self)
        return "\n\n".join(explain(outcome) for outcome in self.outcomes_)

    def report(self, X: Any, y: Any = None) -> str:
        """Return a self-contained HTML page with formula, pictures and table.

        Parameters
        ----------
        X : array-like, frame or Dataset
            The rows to show, as in :meth:`fit`.
        y : array-like, optional
            The target on these; a Dataset brings its own.
        """
        from sr4mdl.report import make_report

        check_is_fitted(self)
        inputs, target = self._shown(X, y)
        return make_report(self.outcomes_, inputs, target, self._names())

    def plot(self, X: Any, y: Any = None, output: int | str | None = None) -> Any:
        """Return a picture of fit, residuals and the front of length against error.

        Parameters
        ----------
        X : array-like, frame or Dataset
            The rows to show, as in :meth:`fit`.
        y : array-like, optional
            The target on these; a Dataset brings its own.
        output : int or str, optional
            Place or name of the target; needed if there are several.

        Returns
        -------
        sr4mdl.report.Picture
            Shows itself in a notebook; ``save(path)`` writes an SVG file.
        """
        from sr4mdl.report import make_picture

        check_is_fitted(self)
        place = self._output(output)
        inputs, target = self._shown(X, y)
        return make_picture(
            self.outcomes_[place], inputs, target[:, place], self._names()
        )

    def save(self, path: str | Path) -> None:
        """Write the fitted regressor to a JSON file, in full or not at all.

        Callbacks, the guide and a ``random_state`` that is no number are not saved.
        """
        check_is_fitted(self)
        write_files({Path(path): to_text(self.to_result())})

    def to_result(self) -> dict[str, Any]:
        """Return what :meth:`save` writes, as a dict."""
        check_is_fitted(self)
        return self._result(self.outcomes_, self._several_targets)

    def _result(self, outcomes: list[Outcome], several: bool) -> dict[str, Any]:
        parameters = {
            name: plain_value(value)
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_SAVED and plain_value(value) is not None
        }
        # None is a value of its own where it is not the default.
        if self.max_time is None:
            parameters["max_time"] = None
        return to_result(
            outcomes,
            list(self._names()),
            hasattr(self, "feature_names_in_"),
            several,
            parameters,
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the fitted regressor of a file written by :meth:`save`.

        Raises
        ------
        DataError
            If the file is something else, damaged, or of a later version.
        """
        outcomes, features, named, several, parameters = from_result(
            read_result(path), str(path)
        )
        known = cls().get_params(deep=False)
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in parameters.items()
            if key in known
        }
        model = cls(**given)
        model.n_features_in_ = len(features)
        if named:
            model.feature_names_in_ = np.array(features, dtype=object)
        model._set_fitted(outcomes, several)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A few readouts of tiny tables do not promise a good fit.
        tags.regressor_tags.poor_score = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "outcomes_")

    def _config(self, seed: int) -> SearchConfig:
        """Return the settings of the search; a wrong one raises and names itself."""
        options = dict(self.search_options or {})
        for name in (*_OWN_SETTINGS, "physical_constants"):
            if name in options:
                own = "constants" if name == "physical_constants" else name
                raise ValueError(
                    f"search_options must not hold {name!r}: use the parameter {own}"
                )
        for name in _OWN_SETTINGS[:-1]:
            options[name] = getattr(self, name)
        options["random_state"] = seed
        options["physical_constants"] = tuple_of(self.constants, "constants")
        check_constants(options["physical_constants"])
        if self.operators is not None:
            options["operators"] = tuple_of(self.operators, "operators")
        check_length("max_length", self.max_length)
        for name in ("max_nodes", "max_evaluations", "max_length"):
            if isinstance(options[name], numbers.Integral):
                options[name] = int(options[name])
        return SearchConfig.from_dict(options)

    def _check_choice_parameters(self) -> None:
        check_real("noise", self.noise, math.inf)
        check_real("validation", self.validation, 1.0)

    def _split(
        self, rows: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """Return which of the rows to search on and which are held out, in order.

        A row of the table that stands there several times is on one side only.
        """
        if self.validation is None:
            return np.arange(len(rows)), np.arange(0)
        _, first, place = np.unique(rows, return_index=True, return_inverse=True)
        # In the order in which they stand, so that without repeats they are the rows.
        rank = np.argsort(np.argsort(first))[place]
        n_rows = len(first)
        n_held = max(1, round(self.validation * n_rows))
        if n_rows - n_held < 2:
            raise ValueError(
                f"validation must leave 2 rows or more to search on, got "
                f"{self.validation!r} of {n_rows} rows"
            )
        is_held = np.zeros(n_rows, dtype=np.bool_)
        is_held[rng.permutation(n_rows)[:n_held]] = True
        return np.flatnonzero(~is_held[rank]), np.flatnonzero(is_held[rank])

    def _earlier(self) -> list[Outcome]:
        """Return the outcomes of the fit before, if the search is to go on."""
        if not self.warm_start or not hasattr(self, "outcomes_"):
            return []
        return list(self.outcomes_)

    def _set_fitted(self, outcomes: list[Outcome], several: bool) -> None:
        self._several_targets = several
        self.outcomes_ = outcomes
        rows = [equation for outcome in outcomes for equation in outcome.equations]
        marked, start = [], 0
        for outcome in outcomes:
            marked.append(start + outcome.best)
            start += len(outcome.equations)
        self.equations_ = EquationTable(rows, marked)
        best = [outcome.chosen for outcome in outcomes]
        reasons = [outcome.stop_reason for outcome in outcomes]
        statistics = [outcome.statistics for outcome in outcomes]
        self.best_ = best if several else best[0]
        self.stop_reason_ = reasons if several else reasons[0]
        self.statistics_ = statistics if several else statistics[0]

    def _names(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return tuple(str(name) for name in names)
        return tuple(f"x{place}" for place in range(self.n_features_in_))

    def _shown(self, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return inputs and targets, both of two dimensions, for a picture."""
        if isinstance(X, Dataset):
            if y is not None or X.y is None or X.names != self._names():
                raise ValueError(
                    "a Dataset to show must have a target, come without y, and have "
                    f"the columns {', '.join(self._names())}"
                )
            return X.X, X.y.reshape(-1, 1)
        inputs, target = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, reset=False
        )
        target = np.asarray(target, dtype=np.float64).reshape(len(inputs), -1)
        if target.shape[1] != len(self.outcomes_):
            raise ValueError(
                f"y must have {len(self.outcomes_)} column(s), got {target.shape[1]}"
            )
        return inputs, target
