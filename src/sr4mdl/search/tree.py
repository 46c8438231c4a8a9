"""The search tree: nodes, edges, selection and back-up, without knowledge of guides.

Equal states are one node, so the tree is a graph; what is backed up goes along the
path that was walked. Moves wait in order of their prior and become edges when they
are first chosen: of the moves not yet tried only the foremost can be the best, so
selection looks at the tried edges and one more.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.search.budget import Statistics
from sr4mdl.search.config import Backup
from sr4mdl.search.state import State, StateKey

UNCLOSED, QUICK, MEDIUM, FULL = range(4)
"""Closings that a state may have been through, each with all before it."""
VALUE_DECIMALS: Final = 6
"""To which values are backed up."""


@dataclass(slots=True, eq=False)
class Edge:
    """A move that has been tried."""

    code: int
    prior: float
    child: "Node"
    visits: int = 0


class Node:
    """A state in the tree."""

    __slots__ = (
        "best",
        "codes",
        "cursor",
        "depth",
        "edges",
        "gain",
        "missing",
        "pending",
        "priors",
        "serial",
        "state",
        "tier",
        "total",
        "visits",
        "worth",
    )

    def __init__(self, state: State, serial: int, depth: int) -> None:
        self.state = state
        self.serial = serial
        """Order of creation: breaks ties, so that runs are the same."""
        self.depth = depth
        """Moves from the root when it was made."""
        self.visits = 0
        self.total = 0.0
        """Sum of what was backed up."""
        self.best = 0.0
        """Largest of what was backed up."""
        self.pending = 0
        """Walks of the current batch that go through it."""
        self.codes: IntArray | None = None
        """Moves in order of falling prior; None until the guide has ranked them."""
        self.priors: FloatArray | None = None
        self.cursor = 0
        """Moves before it have been tried."""
        self.edges: list[Edge] = []
        self.worth = 0.0
        """What the guide and the readout say of it, 0 to 1."""
        self.missing = math.nan
        """Symbols that the guide says are missing."""
        self.gain = 0.0
        """Share of bits saved by the readout here or above."""
        self.tier = UNCLOSED
        """The last closing it has been through."""

    @property
    def ranked(self) -> bool:
        """Whether its moves are ranked, so that the search can go through it."""
        return self.codes is not None

    @property
    def spent(self) -> bool:
        """Whether it is ranked and no move is left."""
        return (
            self.codes is not None and self.cursor >= len(self.codes) and not self.edges
        )

    def rank(self, codes: IntArray, priors: FloatArray) -> None:
        """Set the moves that have not been tried yet, in any order."""
        tried = {edge.code for edge in self.edges}
        if tried:
            fresh = ~np.isin(codes, list(tried))
            codes, priors = codes[fresh], priors[fresh]
        order = np.argsort(-priors, kind="stable")
        self.codes = codes[order].astype(np.int32)
        self.priors = priors[order].astype(np.float32)
        self.cursor = 0

    def forget(self) -> None:
        """Give back the memory of the ranking; the guide can rank again."""
        self.codes = self.priors = None

    def quality(self, backup: Backup) -> float:
        """Return the mean or best of what was backed up; walks under way count 0."""
        visits = self.visits + self.pending
        if visits == 0:
            return 0.0
        if backup == "mean":
            return self.total / visits
        return self.best * self.visits / visits


Path = list[tuple[Node, Edge | None]]


class Rule(Protocol):
    """How an edge is preferred over others."""

    def score(
        self, quality: float, prior: float, visits: int, parent_visits: int
    ) -> float:
        """Return the score of a tried move; the largest is taken."""

    def fresh(self, parent_quality: float, prior: float, parent_visits: int) -> float:
        """Return the score of a move not tried yet."""


@dataclass(frozen=True, slots=True)
class Puct:
    """``Q/N + c * prior * sqrt(sum N) / (N + 1)``.

    With normalised priors a move not tried yet counts as good as its parent; in the
    paper's rule its Q is 0.
    """

    c: float
    optimistic: bool = True

    def score(
        self, quality: float, prior: float, visits: int, parent_visits: int
    ) -> float:
        """Return the score of a tried move."""
        return quality + self.c * prior * math.sqrt(parent_visits) / (visits + 1)

    def fresh(self, parent_quality: float, prior: float, parent_visits: int) -> float:
        """Return the score of a move not tried yet."""
        start = parent_quality if self.optimistic else 0.0
        return self.score(start, prior, 0, parent_visits)


@dataclass(frozen=True, slots=True)
class Ucb:
    """``Q/N + sqrt(ln(sum N) / N)``; a move not tried yet comes first."""

    def score(
        self, quality: float, prior: float, visits: int, parent_visits: int
    ) -> float:
        """Return the score of a tried move."""
        if visits == 0:
            return math.inf
        return quality + math.sqrt(math.log(max(parent_visits, 1)) / visits)

    def fresh(self, parent_quality: float, prior: float, parent_visits: int) -> float:
        """Return the score of a move not tried yet."""
        return math.inf


class Tree:
    """All nodes, and the walk from the root to a node that is not ranked yet.

    Parameters
    ----------
    root : State
        Where walks begin.
    apply : callable
        Takes a state and a code; returns the child state or why there is none.
    rule : Rule
        Prefers edges.
    statistics : Statistics
        Counts nodes and refused moves.
    backup : {"mean", "max"}
        What a node is worth.
    """

    def __init__(
        self,
        root: State,
        apply: Callable[[State, int], State | str],
        rule: Rule,
        statistics: Statistics,
        backup: Backup = "mean",
    ) -> None:
        self.apply = apply
        self.rule = rule
        self.statistics = statistics
        self.backup: Backup = backup
        self.nodes: dict[StateKey, Node] = {}
        self.root = self.add(root, 0)

    def add(self, state: State, depth: int) -> Node:
        """Return the node of a state, a new one if there is none yet."""
        node = self.nodes.get(state.key)
        if node is None:
            node = Node(state, len(self.nodes), depth)
            self.nodes[state.key] = node
            self.statistics.n_nodes += 1
        return node

    def walk(self) -> "Path | None":
        """Return the way to a node that is not ranked yet.

        Each entry is a node and the edge taken from it, None at the end. The answer
        is None when no move is left anywhere.
        """
        while True:
            path: Path = []
            node = self.root
            on_path = {id(node)}
            while node.ranked:
                edge = self.choose(node, on_path)
                if edge is None:
                    break
                path.append((node, edge))
                node = edge.child
                on_path.add(id(node))
            else:
                path.append((node, None))
                return path
            if node is self.root:
                return None
            # A dead end: nothing is left below, so that no walk comes here again.
            node.edges.clear()

    def choose(self, node: Node, on_path: set[int]) -> Edge | None:
        """Return the best edge of a ranked node, making it if it is new."""
        assert node.codes is not None
        assert node.priors is not None
        while True:
            parent_visits = sum(edge.visits + edge.child.pending for edge in node.edges)
            best: Edge | None = None
            best_score = -math.inf
            for edge in node.edges:
                if id(edge.child) in on_path or edge.child.spent:
                    continue
                score = self.rule.score(
                    edge.child.quality(self.backup),
                    edge.prior,
                    edge.visits + edge.child.pending,
                    parent_visits,
                )
                if score > best_score:
                    best, best_score = edge, score
            if node.cursor >= len(node.codes):
                return best
            prior = float(node.priors[node.cursor])
            fresh = self.rule.fresh(
                node.quality(self.backup) if node.visits else node.worth,
                prior,
                parent_visits,
            )
            if best is not None and best_score >= fresh:
                return best
            code = int(node.codes[node.cursor])
            node.cursor += 1
            child = self.apply(node.state, code)
            if isinstance(child, str):
                self.statistics.reject(child)
                continue
            target = self.add(child, node.depth + 1)
            if any(edge.child is target for edge in node.edges):
                self.statistics.reject("same child")
                continue
            edge = Edge(code, prior, target)
            node.edges.append(edge)
            if id(target) in on_path:
                self.statistics.reject("cycle")
                continue
            return edge

    def mark(self, path: Path, count: int) -> None:
        """Add (1) or take back (-1) a walk under way."""
        for node, _ in path:
            node.pending += count

    def back_up(self, path: Path, value: float) -> None:
        """Add a value to all nodes and edges of a path.

        Equal formulas differ in the last digits with the order of their sums and with
        the processor: rounded, they tie, and the same seed gives the same tree.
        """
        value = round(value, VALUE_DECIMALS)
        for node, edge in path:
            node.visits += 1
            node.total += value
            node.best = max(node.best, value)
            if edge is not None:
                edge.visits += 1

    def forget_least_visited(self, keep: int) -> None:
        """Give back the rankings of all but the most visited nodes."""
        ranked = [node for node in self.nodes.values() if node.ranked]
        ranked.sort(key=lambda node: (-node.visits, node.serial))
        for node in ranked[keep:]:
            if node is not self.root:
                node.forget()
