"""What a search remembers, so that a later one can go on from it.

A memory is plain data that JSON can hold: the formulas of the archive, the most
visited part of the tree as a list of moves with their counts, the population of
``gp``, the counters, and where the stream of random numbers stands. The tree comes
back by making the moves again; rankings are left to the guide, as for nodes whose
rankings were given back to save memory.

Formulas compete on any table. The tree is taken up only where it was grown: on the
same rows under the same settings.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from typing import Any, Final, Self

import numpy as np

from sr4mdl.data import Dataset
from sr4mdl.errors import ParseError
from sr4mdl.expressions import Expression
from sr4mdl.operators import all_operators
from sr4mdl.search.budget import Budget, Statistics
from sr4mdl.search.config import SearchConfig
from sr4mdl.search.tree import FULL, MEDIUM, QUICK, UNCLOSED, Edge, Node, Tree
from sr4mdl.text import parse

MAX_NODES: Final = 1000
"""Nodes kept, the most visited ones."""
MAX_FORMULAS: Final = 100
"""Formulas kept, those with the shortest code."""
FIRST_SECONDS: Final = 1.0
"""Time after which the first checkpoint is made."""
KEEP_SECONDS: Final = 5.0
"""Time between two checkpoints."""
_MAX_SHARE: Final = 0.05
"""Most of the time that checkpoints may take."""
_SHAPING: Final = (
    "mode", "random_state", "operators", "nesting", "max_length", "families",
    "max_search_rows", "max_judge_rows", "max_column_length", "max_outer_steps",
    "n_screened",
)  # fmt: skip
"""Settings that a tree depends on."""
_STORED_TIERS: Final = (UNCLOSED, QUICK, FULL, MEDIUM)
"""In the order in which they came up, so that old files keep their meaning."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of the tree: how it was reached, and what is known of it."""

    parent: int
    """Place of its parent in the list; -1 for the root."""
    code: int
    """The move that made it; -1 for the root."""
    prior: float
    """Prior of that move."""
    edge_visits: int
    """Walks through that move."""
    visits: int
    total: float
    best: float
    missing: float
    gain: float
    worth: float
    tier: int
    """As in ``sr4mdl.search.tree.Node``; files hold its place in ``_STORED_TIERS``."""

    def to_line(self) -> str:
        """Return the record as one line of text."""
        stored = replace(self, tier=_STORED_TIERS.index(self.tier))
        return " ".join(
            format(value, ".9g") if isinstance(value, float) else str(value)
            for value in (getattr(stored, field.name) for field in fields(self))
        )

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Return the record of a line; ValueError if it is damaged."""
        cells = line.split()
        kinds = [field.type for field in fields(cls)]
        if len(cells) != len(kinds):
            raise ValueError(f"a node needs {len(kinds)} numbers, got {line!r}")
        values = [
            int(cell) if kind is int else float(cell)
            for cell, kind in zip(cells, kinds, strict=True)
        ]
        record = cls(*values)  # type: ignore[arg-type]
        last = len(_STORED_TIERS) - 1
        if not 0 <= record.tier <= last:
            raise ValueError(
                f"the tier of a node must be 0 to {last}, got {record.tier}"
            )
        return replace(record, tier=_STORED_TIERS[record.tier])


@dataclass(frozen=True, slots=True)
class SearchMemory:
    """What a search knows when it ends or is interrupted."""

    data: str
    """Fingerprint of the table."""
    settings: Mapping[str, Any]
    """Settings that the tree depends on, as plain values."""
    formulas: tuple[str, ...]
    """Formulas of the archive, best first."""
    root: tuple[str, ...]
    """Variables of the tree's root; empty if there is no tree yet."""
    nodes: tuple[str, ...]
    """Nodes of the tree, parents before children; see :class:`NodeRecord`."""
    population: tuple[str, ...]
    """Individuals of ``gp``."""
    statistics: Mapping[str, Any]
    """Counters, as plain values, summed over all runs."""
    seconds: float
    """Wall time of all runs."""
    random: Mapping[str, Any]
    """State of the generator of random numbers."""

    def to_dict(self) -> dict[str, Any]:
        """Return the memory as plain values."""
        return {
            field.name: list(value) if isinstance(value, tuple) else value
            for field in fields(self)
            for value in [getattr(self, field.name)]
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the memory of plain values.

        Raises
        ------
        KeyError, TypeError, ValueError
            If something is missing or damaged.
        """
        memory = cls(
            data=str(data["data"]),
            settings=dict(data["settings"]),
            formulas=_texts(data["formulas"]),
            root=_texts(data["root"]),
            nodes=_texts(data["nodes"]),
            population=_texts(data["population"]),
            statistics=dict(data["statistics"]),
            seconds=float(data["seconds"]),
            random=dict(data["random"]),
        )
        for place, record in enumerate(memory.records()):
            if record.parent >= place or (record.parent < 0) != (place == 0):
                raise ValueError(f"node {place} comes before its parent")
        memory.restored_statistics()
        np.random.default_rng(0).bit_generator.state = memory.random
        for text in (*memory.formulas, *memory.population):
            parse(text)
        return memory

    @property
    def seed(self) -> int:
        """The seed of the search."""
        return int(self.settings["random_state"])

    def records(self) -> Iterator[NodeRecord]:
        """Iterate over the nodes of the tree."""
        return map(NodeRecord.from_line, self.nodes)

    def expressions(
        self, names: Sequence[str], texts: Sequence[str] | None = None
    ) -> list[Expression]:
        """Return those formulas that the columns of a table suffice for."""
        found = []
        for text in self.formulas if texts is None else texts:
            try:
                expression = parse(text)
            except ParseError:
                continue  # an operator of the user that is not there any more
            if expression.variables <= set(names):
                found.append(expression)
        return found

    def with_formulas(
        self, change: Callable[[Expression], Expression], names: Sequence[str]
    ) -> Self:
        """Return the memory with the formulas of its archive changed."""
        changed = (str(change(one)) for one in self.expressions(names))
        return replace(self, formulas=tuple(dict.fromkeys(changed)))

    def differences(self, dataset: Dataset, config: SearchConfig) -> list[str]:
        """Return what differs from a table and settings, so that the tree is void."""
        found = [] if self.data == fingerprint_of(dataset) else ["the table"]
        now = shaping_settings(config)
        return found + [name for name in now if self.settings.get(name) != now[name]]

    def restored_statistics(self) -> Statistics:
        """Return the counters; what happened before has times below 0."""
        values = dict(self.statistics)
        values["history"] = [
            (float(seconds) - self.seconds, float(bits), str(formula))
            for seconds, bits, formula in values["history"]
        ]
        values["seconds"] = {str(k): float(v) for k, v in values["seconds"].items()}
        values["rejects"] = {str(k): int(v) for k, v in values["rejects"].items()}
        return Statistics(**values)


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"must be a list, got {values!r}")
    return tuple(str(value) for value in values)


def fingerprint_of(dataset: Dataset) -> str:
    """Return a text that is equal for equal tables."""
    digest = blake2b(digest_size=16)
    digest.update(json.dumps([*dataset.names, dataset.target]).encode())
    digest.update(np.ascontiguousarray(dataset.X).tobytes())
    if dataset.y is not None:
        digest.update(np.ascontiguousarray(dataset.y).tobytes())
    return digest.hexdigest()


def shaping_settings(config: SearchConfig) -> dict[str, Any]:
    """Return the settings that a tree depends on, as JSON gives them back."""
    settings = config.to_dict()
    chosen = {name: settings[name] for name in _SHAPING}
    user = [operator.name for operator in all_operators() if not operator.builtin]
    plain: dict[str, Any] = json.loads(json.dumps({**chosen, "user_operators": user}))
    return plain


def record_tree(tree: Tree | None) -> tuple[str, ...]:
    """Return the most visited nodes as lines, parents before children."""
    if tree is None:
        return ()
    nodes = sorted(tree.nodes.values(), key=lambda node: (-node.visits, node.serial))
    wanted = {node.serial for node in nodes[:MAX_NODES]} | {tree.root.serial}
    made_by: dict[int, tuple[Node, Edge]] = {}
    for node in tree.nodes.values():  # in order of creation
        for edge in node.edges:
            if edge.child.serial > node.serial:
                made_by.setdefault(edge.child.serial, (node, edge))
    places: dict[int, int] = {}
    lines: list[str] = []
    for node in tree.nodes.values():
        parent, code, prior, edge_visits = -1, -1, 1.0, 0
        if node is not tree.root:
            if node.serial not in wanted or node.serial not in made_by:
                continue
            above, edge = made_by[node.serial]
            if above.serial not in places:
                continue
            parent, code = places[above.serial], edge.code
            prior, edge_visits = edge.prior, edge.visits
        places[node.serial] = len(lines)
        record = NodeRecord(
            parent, code, float(prior), edge_visits, node.visits, float(node.total),
            float(node.best), float(node.missing), float(node.gain),
            float(node.worth), node.tier,
        )  # fmt: skip
        lines.append(record.to_line())
    return tuple(lines)


def restore_tree(tree: Tree, codes: Callable[[Any], Any], memory: SearchMemory) -> int:
    """Make the moves of a memory again on a tree that has only its root.

    Parameters
    ----------
    tree : Tree
        The tree; its root is that of the memory.
    codes : callable
        Returns the codes that a state admits.
    memory : SearchMemory
        Where the moves come from.

    Returns
    -------
    int
        Nodes made.
    """
    made: dict[int, Node] = {}
    for place, record in enumerate(memory.records()):
        if place == 0:
            node = tree.root
        else:
            parent = made.get(record.parent)
            if parent is None or record.code not in codes(parent.state):
                continue
            child = tree.apply(parent.state, record.code)
            if isinstance(child, str) or child.key in tree.nodes:
                continue
            node = tree.add(child, parent.depth + 1)
            parent.edges.append(
                Edge(record.code, record.prior, node, record.edge_visits)
            )
        made[place] = node
        node.visits, node.total, node.best = record.visits, record.total, record.best
        node.missing, node.gain = record.missing, record.gain
        node.worth, node.tier = record.worth, record.tier
    return len(made)


class Keeper:
    """Stores what a search knows every few seconds.

    Parameters
    ----------
    take : callable
        Returns the memory of the moment.
    store : callable
        Takes a memory and puts it somewhere safe.
    budget : Budget
        The search's clock.
    """

    def __init__(
        self,
        take: Callable[[], SearchMemory],
        store: Callable[[SearchMemory], None],
        budget: Budget,
    ) -> None:
        self._take = take
        self._store = store
        self._budget = budget
        self._next = FIRST_SECONDS

    def __call__(self) -> None:
        """Store, if it is time."""
        began = self._budget.elapsed
        if began < self._next:
            return
        self._next = math.inf  # storing must not start another storing
        self._store(self._take())
        ended = self._budget.elapsed
        self._next = ended + max(KEEP_SECONDS, (ended - began) / _MAX_SHARE)


def plain_statistics(statistics: Statistics, before: float) -> dict[str, Any]:
    """Return counters as plain values, the history in seconds from the first start."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(statistics)))
    for entry in values["history"]:
        entry[0] += before
    return values
