"""What training reads: a batch on the device, the source protocol, a toy source.

The corpus implements :class:`Source`; nothing here knows how formulas are made.

Shapes: B states, R rows, C columns, M moves, L tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise
from typing import Any, Final, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from sr4mdl.mdlformer.tokens import FIRST_OPERATOR, FIRST_VARIABLE
from sr4mdl.moves import MAX_COLUMNS, PAIR_OPERATORS, pair_move_id

Phase = Literal["align", "predict", "both"]
"""What a step minimises: the distance to the formula, the error of the value, both."""
PHASES: Final[tuple[Phase, ...]] = ("align", "predict", "both")

NO_MOVE = -1
"""Fills the end of a state's list of correct moves."""


@dataclass(frozen=True)
class DeviceBatch:
    """Labelled states, all tensors on the training device unless said.

    What masked rows and columns hold does not matter, but must not be read.
    """

    columns: Tensor
    """(B, R, C) float32 raw values of the columns; C is ten or fewer."""
    target: Tensor
    """(B, R) float32 raw values of y."""
    column_mask: Tensor
    """(B, C) bool, columns that exist."""
    row_mask: Tensor
    """(B, R) bool, rows that exist."""
    value: Tensor
    """(B,) float32 label: symbols still missing."""
    moves: Tensor
    """(B, M) integer ids of the correct moves, each once, filled up with -1."""
    weight: Tensor
    """(B,) float32; 0 for states that do not count."""
    formula_tokens: Tensor | None = None
    """(B, L) integer prefix tokens for alignment, filled up with 0."""
    column_counts: Tensor | None = None
    """(B,) integers in host memory, 1 + the last column that exists. With it a batch
    can be cut into parts of few and of many columns without waiting for the device."""
    all_rows: bool = False
    """Whether all rows are known to exist, so that nobody need read ``row_mask``."""

    @property
    def n_states(self) -> int:
        """Number of states, refused ones included."""
        return self.target.shape[0]

    def to(self, device: torch.device) -> "DeviceBatch":
        """Return a copy on the device (``column_counts`` stay in host memory)."""
        return self._map(
            lambda name, tensor: (
                tensor if name == "column_counts" else tensor.to(device)
            )
        )

    def select(self, states: Tensor, n_columns: int) -> "DeviceBatch":
        """Return the states of these indices (host memory), cut to their columns."""
        on_device = states.to(self.columns.device, non_blocking=True)

        def pick(name: str, tensor: Tensor) -> Tensor:
            if name == "column_counts":
                return tensor[states]
            chosen = tensor.index_select(0, on_device)
            return chosen[..., :n_columns] if name.startswith("column") else chosen

        return self._map(pick)

    def kept(self) -> "DeviceBatch":
        """Return the states that are not refused; waits for the device."""
        states = torch.nonzero(self.weight)[:, 0].cpu()
        return self.select(states, self.columns.shape[-1])

    def part(self, start: int, stop: int) -> "DeviceBatch":
        """Return the states from ``start`` to before ``stop``, without a copy."""
        return self._map(lambda _, tensor: tensor[start:stop])

    def joined(self, other: "DeviceBatch") -> "DeviceBatch":
        """Return these states and, behind them, those of a batch of equal shapes."""
        both = self._map(lambda name, tensor: torch.cat([tensor, getattr(other, name)]))
        return replace(both, all_rows=self.all_rows and other.all_rows)

    def _map(self, change: Callable[[str, Tensor], Tensor]) -> "DeviceBatch":
        changed: dict[str, Any] = {}
        for entry in fields(self):
            held = getattr(self, entry.name)
            is_tensor = isinstance(held, Tensor)
            changed[entry.name] = change(entry.name, held) if is_tensor else held
        return DeviceBatch(**changed)


@runtime_checkable
class Source(Protocol):
    """Where batches come from; the protocols below are extras a source may have."""

    def next_batch(self) -> DeviceBatch:
        """Return the next batch; never ends."""


@runtime_checkable
class ClosableSource(Source, Protocol):
    """A source that holds processes or files."""

    def close(self) -> None:
        """Release them."""


@runtime_checkable
class ReportingSource(Source, Protocol):
    """A source that counts things worth a record, such as refused states."""

    def report(self) -> dict[str, float]:
        """Return the counts so far."""


@runtime_checkable
class ResumableSource(Source, Protocol):
    """A source whose position can be saved: a resumed run then sees the same data."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return the position as tensors."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go to a saved position."""


@runtime_checkable
class PhasedSource(Source, Protocol):
    """A source whose distribution depends on the phase of training."""

    def set_phase(self, phase: Phase) -> None:
        """Take note that this phase begins."""


@runtime_checkable
class PlannedSource(Source, Protocol):
    """A source whose batches depend on how far the plan has come."""

    def set_position(self, position: float) -> None:
        """Take note that the plan has come this far, from 0 to 1."""


def split_by_columns(
    batch: DeviceBatch, shares: Sequence[float], widths: Sequence[int]
) -> list[DeviceBatch]:
    """Return the batch in parts of fixed sizes, few columns first.

    Each part is cut to the smallest of ``widths`` that holds its states, so that few
    shapes occur. Without ``column_counts`` the batch is returned whole.

    Parameters
    ----------
    batch : DeviceBatch
        What to split.
    shares : sequence of float
        Share of the states in each part; they sum to 1.
    widths : sequence of int
        Allowed numbers of columns; ten is always allowed.
    """
    counts = batch.column_counts
    if counts is None or len(shares) <= 1:
        return [batch]
    order = torch.argsort(counts, stable=True)
    ends = [round(share * batch.n_states) for share in accumulate(shares)]
    parts = []
    for begin, end in pairwise([0, *ends[:-1], batch.n_states]):
        states = order[begin:end]
        if not len(states):
            continue
        needed = int(counts[states[-1]])
        fitting = [width for width in widths if width >= needed]
        width = min([*fitting, batch.columns.shape[-1]])
        parts.append(batch.select(states, width))
    return parts


class ToySource:
    """States that need no corpus: y = a op b of two columns, for tests and trials.

    Half of the states already hold the answer as a column: their label is 1, the
    others' is 3, and then the one correct move is the pair.

    Parameters
    ----------
    batch_size, n_rows : int
        Shape of the batches.
    device : torch.device
        Where the batches are made.
    seed : int, default=0
        Same seed, same batches.
    max_columns : int, default=5
        Columns of a state, from 2 up to this.
    """

    def __init__(
        self,
        batch_size: int,
        n_rows: int,
        device: torch.device,
        *,
        seed: int = 0,
        max_columns: int = 5,
    ) -> None:
        if not 2 <= max_columns < MAX_COLUMNS:
            raise ValueError(
                f"max_columns must be from 2 to {MAX_COLUMNS - 1}, got {max_columns}"
            )
        self._shape = (batch_size, n_rows)
        self._device = device
        self._max_columns = max_columns
        self._generator = torch.Generator().manual_seed(seed)
        self._pair_ids = torch.tensor(
            [
                [
                    [pair_move_id(p, i, j) if i != j else NO_MOVE for j in range(10)]
                    for i in range(10)
                ]
                for p in range(len(PAIR_OPERATORS))
            ]
        )

    def next_batch(self) -> DeviceBatch:
        """Return the next batch."""
        (n, rows), rng = self._shape, self._generator
        counts = torch.randint(2, self._max_columns + 1, (n,), generator=rng)
        first = (torch.rand(n, generator=rng) * counts).long()
        second = (
            first + 1 + (torch.rand(n, generator=rng) * (counts - 1)).long()
        ) % counts
        kind = torch.randint(0, 4, (n,), generator=rng)
        columns = torch.randn(n, rows, MAX_COLUMNS, generator=rng) + 2.0
        states = torch.arange(n)
        a, b = columns[states, :, first], columns[states, :, second]
        results = torch.stack([a + b, a - b, a * b, a / b], dim=1)
        target = results[states, kind]
        solved = torch.rand(n, generator=rng) < 0.5
        answer = torch.where(solved[:, None], target, columns[states, :, counts])
        columns[states, :, counts] = answer
        counts = counts + solved.long()
        mask = torch.arange(MAX_COLUMNS) < counts[:, None]
        lengths = torch.randint(max(rows // 2, 1), rows + 1, (n,), generator=rng)
        moves = torch.where(solved, NO_MOVE, self._pair_ids[kind, first, second])
        tokens = torch.stack(
            [
                FIRST_OPERATOR
                + torch.tensor([op.opcode for op in PAIR_OPERATORS])[kind],
                FIRST_VARIABLE + first,
                FIRST_VARIABLE + second,
            ],
            dim=1,
        )
        return DeviceBatch(
            columns=torch.where(mask[:, None, :], columns, 0.0),
            target=target,
            column_mask=mask,
            row_mask=torch.arange(rows) < lengths[:, None],
            value=torch.where(solved, 1.0, 3.0),
            moves=moves[:, None],
            weight=torch.ones(n),
            formula_tokens=tokens.to(torch.int16),
            column_counts=counts,
        ).to(self._device)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the position as tensors."""
        return {"generator": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go to a saved position."""
        self._generator.set_state(state["generator"])
