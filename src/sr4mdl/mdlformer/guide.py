"""Guides: what the search asks about a batch of states, and who answers.

A guide scores states with a value (symbols still missing) and a log probability for
every move. :class:`OnnxGuide` runs a trained network in ONNX Runtime,
:class:`UniformGuide` knows nothing, :class:`FakeGuide` says what a test tells it.
No torch here; onnxruntime is imported when the first :class:`OnnxGuide` is made.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sr4mdl._typing import BoolArray, FloatArray, IntArray
from sr4mdl.errors import CheckpointError
from sr4mdl.mdlformer.card import check_card, read_card, read_listed_file
from sr4mdl.moves import MAX_COLUMNS, N_MOVES, legal_moves

LARGEST: Final = 1e30
"""Larger magnitudes are read as this: part of the features, in training too."""
DEFAULT_PATH: Final = Path(__file__).parent / "weights" / "default.onnx"
"""The network that comes with the package."""
_CARD_KEY: Final = "sr4mdl_card"


@dataclass(frozen=True)
class GuideOutput:
    """Scores of n states."""

    value_mean: FloatArray
    """(n,) expected number of symbols still missing."""
    value_spread: FloatArray
    """(n,) its standard deviation."""
    log_probabilities: FloatArray
    """(n, N_MOVES) natural logarithms; -inf for moves the state does not have."""


class Guide(Protocol):
    """Scores batches of states."""

    def score(
        self,
        columns: ArrayLike,
        column_counts: ArrayLike,
        targets: ArrayLike,
        row_mask: ArrayLike | None = None,
    ) -> GuideOutput:
        """Score n states.

        Parameters
        ----------
        columns : array-like of shape (n, R, C)
            Values; state i has the first ``column_counts[i]`` columns.
        column_counts : array-like of int of shape (n,)
            From 1 to C, at most ten.
        targets : array-like of shape (n, R)
            Values of y.
        row_mask : array-like of bool of shape (n, R), optional
            Rows that exist; all by default.
        """


@dataclass(frozen=True)
class _States:
    """Checked arguments of ``score``."""

    columns: NDArray[np.float32]
    counts: IntArray
    targets: NDArray[np.float32]
    row_mask: BoolArray


def _check_states(
    columns: ArrayLike,
    column_counts: ArrayLike,
    targets: ArrayLike,
    row_mask: ArrayLike | None,
) -> _States:
    values = np.asarray(columns)
    if values.ndim != 3:
        raise ValueError(f"columns must have 3 axes (n, R, C), got {values.ndim}")
    n_states, n_rows, n_columns = values.shape
    counts = np.asarray(column_counts, dtype=np.int64)
    if counts.shape != (n_states,):
        raise ValueError(
            f"column_counts must have shape ({n_states},), got {counts.shape}"
        )
    most = min(n_columns, MAX_COLUMNS)
    if n_states and not (counts.min() >= 1 and counts.max() <= most):
        raise ValueError(
            f"column_counts must be from 1 to {most}, "
            f"got {counts.min()} to {counts.max()}"
        )
    target = np.asarray(targets)
    if target.shape != (n_states, n_rows):
        raise ValueError(
            f"targets must have shape ({n_states}, {n_rows}), got {target.shape}"
        )
    if row_mask is None:
        rows = np.ones((n_states, n_rows), dtype=np.bool_)
    else:
        rows = np.asarray(row_mask, dtype=np.bool_)
        if rows.shape != (n_states, n_rows):
            raise ValueError(
                f"row_mask must have shape ({n_states}, {n_rows}), got {rows.shape}"
            )
    if n_states and not rows.any(1).all():
        raise ValueError(
            "row_mask must leave at least one row of every state, got none"
        )
    if not bool((np.isfinite(target) | ~rows).all()):
        raise ValueError(
            "targets must be finite in the rows that exist, got nan or inf"
        )
    used = np.arange(n_columns) < counts[:, None]
    shown = rows[:, :, None] & used[:, None, :]
    if not bool((np.isfinite(values) | ~shown).all()):
        raise ValueError("columns must be finite where they exist, got nan or inf")
    return _States(_to_float32(values, shown), counts, _to_float32(target, rows), rows)


def _to_float32(values: NDArray[Any], shown: BoolArray) -> NDArray[np.float32]:
    kept = np.where(shown, values, 0.0)
    return np.clip(kept, -LARGEST, LARGEST).astype(np.float32)


@dataclass(frozen=True)
class _Scores:
    """What the network says of n states, filled in share by share."""

    mean: FloatArray
    spread: FloatArray
    logits: FloatArray


@cache
def _legal(n_columns: int) -> BoolArray:
    return legal_moves(n_columns)


def log_softmax_legal(logits: FloatArray, counts: IntArray) -> FloatArray:
    """Return log probabilities over the legal moves, -inf elsewhere.

    Parameters
    ----------
    logits : ndarray of shape (n, N_MOVES)
        Any finite numbers.
    counts : ndarray of int of shape (n,)
        Numbers of columns.
    """
    legal = np.stack([_legal(int(count)) for count in counts])
    masked = np.where(legal, logits, -np.inf)
    shifted = masked - masked.max(1, keepdims=True)
    total = np.log(np.exp(shifted).sum(1, keepdims=True))
    return np.asarray(shifted - total)


class OnnxGuide:
    """A trained network in ONNX Runtime on the CPU.

    Parameters
    ----------
    path : Path or str, optional
        An ``.onnx`` file made by this package; by default the one that comes with it.
        A JSON card beside it is checked against the file.
    n_threads : int, default=1
        Threads that share the states of a call: each works on states of its own, which
        is up to twice as fast as sharing every product among them.
    batch_size : int, default=16
        Most states in one call of the runtime.

    Attributes
    ----------
    card : dict
        What the network is and where it comes from.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged or not one of ours.
    VocabularyMismatchError
        If the network was trained for another table of moves.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        n_threads: int = 1,
        batch_size: int = 16,
    ) -> None:
        if n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self._path = DEFAULT_PATH if path is None else Path(path)
        self._n_threads = n_threads
        self._batch_size = batch_size
        content = _read_model(self._path)
        self._session = _open_session(content, self._path)
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        self.card = _card_of(self._session, self._path)

    @property
    def n_rows(self) -> int:
        """Rows the network was trained with; more or fewer work too."""
        return int(self.card["config"]["n_rows"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._path, self._n_threads, self._batch_size)

    def score(
        self,
        columns: ArrayLike,
        column_counts: ArrayLike,
        targets: ArrayLike,
        row_mask: ArrayLike | None = None,
    ) -> GuideOutput:
        """Score n states; see :class:`Guide`.

        States of equal numbers of columns go through the network together, so no
        time is spent on columns that do not exist.
        """
        states = _check_states(columns, column_counts, targets, row_mask)
        n_states = len(states.counts)
        scores = _Scores(
            np.empty(n_states), np.empty(n_states), np.empty((n_states, N_MOVES))
        )
        if n_states == 0:
            return GuideOutput(scores.mean, scores.spread, scores.logits)
        shares = even_shares(states.counts, self._n_threads)
        if self._pool is None or len(shares) == 1:
            for share in shares:
                self._score_share(states, share, scores)
        else:
            # The runtime lets go of Python's lock, and a session serves many threads.
            work = [
                self._pool.submit(self._score_share, states, share, scores)
                for share in shares
            ]
            for one in work:
                one.result()
        return GuideOutput(
            scores.mean, scores.spread, log_softmax_legal(scores.logits, states.counts)
        )

    def _score_share(self, states: _States, share: IntArray, scores: _Scores) -> None:
        """Score the states at some places, which are in order of their columns."""
        _, starts = np.unique(states.counts[share], return_index=True)
        for group in np.split(share, starts[1:]):
            for start in range(0, len(group), self._batch_size):
                chosen = group[start : start + self._batch_size]
                count = int(states.counts[chosen[0]])
                mean, log_spread, logits = self._session.run(
                    None,
                    {
                        "columns": states.columns[chosen, :, :count],
                        "target": states.targets[chosen],
                        "column_mask": np.ones((len(chosen), count), dtype=np.bool_),
                        "row_mask": states.row_mask[chosen],
                    },
                )
                scores.mean[chosen] = mean
                scores.spread[chosen] = np.exp(log_spread)
                scores.logits[chosen] = logits


def even_shares(counts: IntArray, n_shares: int) -> list[IntArray]:
    """Return the places of all states in at most so many shares of about equal work.

    Work goes with the number of columns. Places are in order of it, so that states of
    equal numbers stay together.
    """
    order = np.argsort(counts, kind="stable")
    done = np.cumsum(counts[order])
    # Where the middle of a state's work lies decides whose it is.
    middle = done - 0.5 * counts[order]
    owner = (middle * n_shares / done[-1]).astype(np.int64)
    _, starts = np.unique(owner, return_index=True)
    return list(np.split(order, starts[1:]))


def _reopen(path: Path, n_threads: int, batch_size: int) -> OnnxGuide:
    return OnnxGuide(path, n_threads=n_threads, batch_size=batch_size)


def _read_model(path: Path) -> bytes:
    """Return the file's content, checked against the card beside it if there is one."""
    card_path = path.with_suffix(".json")
    if card_path.exists():
        card = read_card(card_path, "onnx")
        if not isinstance(card.get("files"), list) or len(card["files"]) != 1:
            raise CheckpointError(f"{card_path} does not list one weights file")
        return read_listed_file(path.parent, {**card["files"][0], "name": path.name})
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _open_session(content: bytes, path: Path) -> Any:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as failures

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
    except (
        failures.Fail,
        failures.InvalidProtobuf,
        failures.InvalidGraph,
        failures.InvalidArgument,
        failures.NotImplemented,
        failures.RuntimeException,
    ) as error:
        raise CheckpointError(f"{path} is not a usable ONNX file: {error}") from error


def _card_of(session: Any, path: Path) -> dict[str, Any]:
    text = session.get_modelmeta().custom_metadata_map.get(_CARD_KEY)
    if text is None:
        raise CheckpointError(
            f"{path} is not a network of this package: it has no card"
        )
    try:
        card = json.loads(text)
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{path} has a damaged card: {error}") from error
    return check_card(card, "onnx", str(path))


class UniformGuide:
    """Knows nothing: the same value for every state, equal chances for every move.

    Parameters
    ----------
    value : float, default=10.0
        What it says is missing, in symbols.
    spread : float, default=10.0
        How unsure it says it is.
    """

    def __init__(self, value: float = 10.0, spread: float = 10.0) -> None:
        self._value = value
        self._spread = spread

    def score(
        self,
        columns: ArrayLike,
        column_counts: ArrayLike,
        targets: ArrayLike,
        row_mask: ArrayLike | None = None,
    ) -> GuideOutput:
        """Score n states; see :class:`Guide`."""
        states = _check_states(columns, column_counts, targets, row_mask)
        n_states = len(states.counts)
        logits = np.zeros((n_states, N_MOVES))
        return GuideOutput(
            np.full(n_states, self._value),
            np.full(n_states, self._spread),
            log_softmax_legal(logits, states.counts) if n_states else logits,
        )


StateFunction = Callable[
    [NDArray[np.float32], NDArray[np.float32]], tuple[float, dict[int, float]]
]


class FakeGuide:
    """Says what a function says, for tests of the search.

    Parameters
    ----------
    function : callable
        Takes a state's columns (rows, columns) and target (rows,), both without what
        does not exist; returns the value and logits by move id (0 for the others).
    spread : float, default=1.0
        Standard deviation that is reported.
    """

    def __init__(self, function: StateFunction, spread: float = 1.0) -> None:
        self._function = function
        self._spread = spread
        self.n_scored = 0

    def score(
        self,
        columns: ArrayLike,
        column_counts: ArrayLike,
        targets: ArrayLike,
        row_mask: ArrayLike | None = None,
    ) -> GuideOutput:
        """Score n states; see :class:`Guide`."""
        states = _check_states(columns, column_counts, targets, row_mask)
        n_states = len(states.counts)
        mean = np.empty(n_states)
        logits = np.zeros((n_states, N_MOVES))
        for index, count in enumerate(states.counts):
            rows = states.row_mask[index]
            mean[index], chosen = self._function(
                states.columns[index, rows, :count], states.targets[index, rows]
            )
            for move, logit in chosen.items():
                logits[index, move] = logit
        self.n_scored += n_states
        return GuideOutput(
            mean,
            np.full(n_states, self._spread),
            log_softmax_legal(logits, states.counts) if n_states else logits,
        )
