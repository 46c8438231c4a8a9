"""The default search: a tree guided by a policy, leaves judged by value and closing.

One round: walks to a batch of new states, one call of the guide for all of them,
quick closings of the states that look nearest to the answer, a medium one of the best
of these, back-up; every few rounds one full closing. All numbers of a round are counts,
never times, so that the same seed gives the same tree. Mode ``uniform`` is this search
with a guide that knows nothing.
"""

import heapq
import math
from typing import Final

from sr4mdl._typing import FloatArray
from sr4mdl.mdlformer.guide import Guide
from sr4mdl.search.actions import ActionTable
from sr4mdl.search.budget import Budget, StopReason
from sr4mdl.search.config import SearchConfig
from sr4mdl.search.events import Reporter
from sr4mdl.search.extension import Extension
from sr4mdl.search.readout import Reading, Readout
from sr4mdl.search.rows import SearchData
from sr4mdl.search.state import State, pack_states
from sr4mdl.search.stopping import Stopper
from sr4mdl.search.tree import FULL, MEDIUM, QUICK, UNCLOSED, Node, Path, Puct, Tree

REFUTED: Final = (0.0, 3.0, 5.0, 6.0)
"""Symbols that must be missing where no closing, a quick, medium or full one failed:
had fewer been missing, it would have found them."""

N_CLOSINGS_BEFORE: Final = 3
"""Full closings before a best formula is extended: a law that the tree would have found
must not be forestalled by a sum that comes as near."""
MAX_RANKED_AGAIN: Final = 256
"""Nodes of an earlier run whose moves are ranked at once; others when met."""


class GuideCaller:
    """Hands states to a guide, on the guide's rows."""

    def __init__(self, guide: Guide, data: SearchData, budget: Budget) -> None:
        self.guide = guide
        self.data = data
        self.budget = budget

    def score(self, states: list[State]) -> tuple[FloatArray, FloatArray]:
        """Return missing symbols (n,) and log-probabilities (n, N_MOVES)."""
        packed = pack_states(states, self.data.guide_places)
        with self.budget.phase("guide"):
            output = self.guide.score(*packed)
        statistics = self.budget.statistics
        statistics.n_guide_calls += 1
        statistics.n_guide_states += len(states)
        return output.value_mean, output.log_probabilities


class GuidedSearch:
    """The loop of modes ``policy`` and ``uniform``."""

    def __init__(
        self,
        root: State,
        actions: ActionTable,
        caller: GuideCaller,
        readout: Readout,
        stopper: Stopper,
        reporter: Reporter,
        config: SearchConfig,
        extension: Extension | None = None,
    ) -> None:
        self.extension = extension
        self.actions = actions
        self.caller = caller
        self.readout = readout
        self.budget = readout.budget
        self.stopper = stopper
        self.reporter = reporter
        self.config = config
        self.tree = Tree(
            root,
            actions.apply,
            Puct(config.c_puct),
            self.budget.statistics,
            config.backup,
        )
        self.best_gain = 0.0
        self._to_close: list[tuple[float, int, Node]] = []
        self._closed: list[tuple[float, int, Node]] = []
        """Closed quickly, waiting for a medium closing."""
        self._for_full: list[tuple[float, int, Node]] = []
        """Waiting for a full closing."""
        # The paper's linear map is the same in all tiers.
        self._n_medium = config.n_medium if config.families == "all" else 0
        self._n_ranked = 0

    def start(self, gain: float, tier: int) -> None:
        """Tell what the readout said of the root."""
        self.tree.root.gain = self.best_gain = gain
        self.tree.root.tier = tier
        self._put_root_first()

    def _put_root_first(self) -> None:
        """Queue the root if its full closing was put off."""
        root = self.tree.root
        if root.tier == QUICK:
            heapq.heappush(self._for_full, (-1.0, root.serial, root))

    def take_up(self) -> None:
        """Queue the nodes of a tree that an earlier run has grown."""
        self._for_full.clear()
        self._put_root_first()
        for node in self.tree.nodes.values():
            self.best_gain = max(self.best_gain, node.gain)
            if node is self.tree.root or math.isnan(node.missing):
                continue
            if node.tier == UNCLOSED:
                heapq.heappush(self._to_close, (node.missing, node.serial, node))
            elif node.tier < FULL:
                self._wait(node)
        inner = [node for node in self.tree.nodes.values() if node.edges]
        inner.sort(key=lambda node: (-node.visits, node.serial))
        for start in range(
            0, min(len(inner), MAX_RANKED_AGAIN), self.config.batch_size
        ):
            if self.stopper.reason() is not None:
                break
            batch = inner[start : start + self.config.batch_size]
            _, policies = self.caller.score([node.state for node in batch])
            for node, policy in zip(batch, policies, strict=True):
                self._rank_moves(node, policy)

    def run(self) -> StopReason:
        """Search until the stopper says so; return why."""
        rounds = 0
        while True:
            reason = self.stopper.reason()
            if reason is not None:
                return reason
            if not self.round():
                return "exhausted"
            rounds += 1
            if rounds % self.config.full_interval == 0:
                self.close_one_in_full()
                if rounds >= N_CLOSINGS_BEFORE * self.config.full_interval:
                    self.extend()
            self.reporter.tick()

    def extend(self) -> None:
        """Let a new best formula's terms be closed with the variables."""
        if self.extension is not None:
            self.extension.run()

    def round(self) -> bool:
        """Make one round; return False if no move is left."""
        paths, others = self.collect()
        if not paths:
            return False
        self.rank([path[-1][0] for path in paths], paths)
        for _ in range(self.config.n_quick):
            if self.stopper.reason() is not None or not self._to_close:
                break
            self.close_one_quickly()
        for _ in range(self._n_medium):
            if self.stopper.reason() is not None or not self._closed:
                break
            self.close_one_further()
        for path in paths:
            self.tree.mark(path, -1)
            self.tree.back_up(path, path[-1][0].worth)
        for path in others:
            self.tree.mark(path, -1)
        return True

    def collect(self) -> tuple[list[Path], list[Path]]:
        """Return walks to different new states, and walks that met one of them."""
        paths: list[Path] = []
        others: list[Path] = []
        leaves: set[int] = set()
        left = self.budget.max_nodes - self.budget.statistics.n_nodes
        batch = max(1, min(self.config.batch_size, left))
        while len(paths) < batch and len(others) < batch:
            path = self.tree.walk()
            if path is None:
                break
            leaf = path[-1][0]
            self.tree.mark(path, 1)
            if leaf.serial in leaves:
                others.append(path)
            else:
                leaves.add(leaf.serial)
                paths.append(path)
        return paths, others

    def rank(self, leaves: list[Node], paths: list[Path]) -> None:
        """Have the guide rank the moves of new states and say what is missing."""
        missing, policies = self.caller.score([leaf.state for leaf in leaves])
        for leaf, path, value, policy in zip(
            leaves, paths, missing, policies, strict=True
        ):
            self._rank_moves(leaf, policy)
            leaf.missing = float(value)
            if leaf.tier == UNCLOSED:
                if len(path) > 1:
                    leaf.gain = path[-2][0].gain
                heapq.heappush(self._to_close, (leaf.missing, leaf.serial, leaf))
            leaf.worth = self.worth(leaf)
        if self._n_ranked > self.config.max_expanded:
            keep = self.config.max_expanded // 2
            self.tree.forget_least_visited(keep)
            self._n_ranked = keep

    def _rank_moves(self, node: Node, policy: FloatArray) -> None:
        codes = self.actions.codes(node.state)
        priors = self.actions.priors(
            node.state, codes, policy, self.config.uniform_share
        )
        node.rank(codes, priors)
        self._n_ranked += 1

    def worth(self, node: Node) -> float:
        """Return the worth of a node from 0 to 1, by value head and readout."""
        weight = self.config.closing_weight
        missing = max(node.missing, REFUTED[node.tier])
        near = math.exp(-missing / self.config.value_scale)
        gain = node.gain / self.best_gain if self.best_gain > 0.0 else 0.0
        return (1.0 - weight) * near + weight * min(gain, 1.0)

    def close_one_quickly(self) -> None:
        """Close the new state with the fewest missing symbols."""
        _, _, node = heapq.heappop(self._to_close)
        node.gain = 0.0
        self._take(node, self.readout.quick(node.state), QUICK)
        self._wait(node)

    def close_one_further(self) -> None:
        """Close the most promising of the quickly closed states with a medium pool."""
        if self.stopper.solved:
            return
        _, _, node = heapq.heappop(self._closed)
        self._take(node, self.readout.medium(node.state), MEDIUM)
        self._wait(node)

    def close_one_in_full(self) -> None:
        """Close the most promising of the quickly closed states in full."""
        if not self._for_full or self.stopper.solved:
            return
        if self.stopper.reason() is not None:
            return
        _, _, node = heapq.heappop(self._for_full)
        reading = self.readout.full(node.state)
        if reading is not None:
            self._take(node, reading, FULL)

    def _take(self, node: Node, reading: Reading, tier: int) -> None:
        """Note what a closing says of a node."""
        node.tier = tier
        node.gain = max(node.gain, reading.gain)
        self.best_gain = max(self.best_gain, node.gain)
        node.worth = self.worth(node)

    def _wait(self, node: Node) -> None:
        """Queue a closed node for its next closing."""
        further = node.tier == QUICK and self._n_medium > 0
        heap = self._closed if further else self._for_full
        heapq.heappush(heap, (-node.worth, node.serial, node))
