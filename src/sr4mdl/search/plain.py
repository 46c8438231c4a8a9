"""The paper's searches: tree search with playouts, guided by MDL or not at all.

Mode ``mdl`` is the paper's method: PUCT with the un-normalised prior 1/MDL of each
child, all legal children scored by the value head. Mode ``error`` is its comparison:
UCB without a prior. Both score states by the linear map phi with the reward
``0.999^length / (2 - R2)``, averaged over random playouts, and read formulas out as
all modes do: the new state, and the best state of the playouts where it beats all
before, are closed quickly; now and then the best state so far is closed in full.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.search.actions import ActionTable
from sr4mdl.search.budget import StopReason
from sr4mdl.search.config import SearchConfig
from sr4mdl.search.events import Reporter
from sr4mdl.search.guided import GuideCaller
from sr4mdl.search.linear import fit_linear
from sr4mdl.search.readout import Readout
from sr4mdl.search.state import Column, State, StateKey
from sr4mdl.search.stopping import Stopper
from sr4mdl.search.tree import Node, Puct, Tree, Ucb

ETA: Final = 0.999
"""The paper's discount for each symbol."""
LEAST_MDL: Final = 1.0
"""Lower bound of a predicted MDL; the paper's prior 1/MDL has none."""
_MAX_TRIES: Final = 8
"""Illegal random moves in a row after which a playout ends."""


def linear_reward(columns: Sequence[Column], target: FloatArray) -> float:
    """Return ``0.999^length / (2 - R2)`` of the linear map with intercept.

    The length is that of ``a_0 + a_1*f_1 + ...``: the columns' symbols and three more
    for each (coefficient, times, plus), and one for the intercept.
    """
    matrix = np.stack([column.values for column in columns], axis=1)
    r2 = fit_linear(matrix, target).r2
    length = 1 + sum(column.expression.length + 3 for column in columns)
    return float(ETA**length / (2.0 - r2))


class PlainSearch:
    """The loop of modes ``mdl`` and ``error``.

    Parameters
    ----------
    caller : GuideCaller or None
        Scores children in ``mdl``; None in ``error``.
    """

    def __init__(
        self,
        root: State,
        actions: ActionTable,
        caller: GuideCaller | None,
        readout: Readout,
        stopper: Stopper,
        reporter: Reporter,
        config: SearchConfig,
        rng: np.random.Generator,
    ) -> None:
        self.actions = actions
        self.caller = caller
        self.readout = readout
        self.budget = readout.budget
        self.stopper = stopper
        self.reporter = reporter
        self.config = config
        self.rng = rng
        # A walk closes one state quickly, a batch of the guided search up to n_quick.
        self.full_interval = max(config.full_interval * config.n_quick // 2, 1)
        rule = Ucb() if caller is None else Puct(config.c_puct, optimistic=False)
        self.tree = Tree(root, actions.apply, rule, self.budget.statistics, "mean")
        self.best_reward = 0.0
        self._best_open: tuple[float, State] | None = None
        self._closed: set[StateKey] = {root.key}
        self._closed_in_full: set[StateKey] = {root.key}

    def take_up(self) -> None:
        """Know the nodes of a tree that an earlier run has grown and closed."""
        self._closed.update(
            node.state.key for node in self.tree.nodes.values() if node.visits
        )

    def run(self) -> StopReason:
        """Search until the stopper says so; return why."""
        rounds = 0
        while True:
            reason = self.stopper.reason()
            if reason is not None:
                return reason
            path = self.tree.walk()
            if path is None:
                return "exhausted"
            leaf = path[-1][0]
            value = self.simulate(leaf)
            self.expand(leaf)
            self.tree.back_up(path, value)
            rounds += 1
            if rounds % self.full_interval == 0:
                self.close_best_in_full()
            self.reporter.tick()

    def expand(self, node: Node) -> None:
        """Rank the moves of a node: by 1/MDL of the children, or at random."""
        codes = self.actions.codes(node.state)
        codes = codes[self.rng.permutation(len(codes))]
        if self.caller is None:
            node.rank(codes, np.ones(len(codes)))
            return
        children: list[State] = []
        kept: list[int] = []
        with self.budget.phase("expansion"):
            seen: set[StateKey] = set()
            for code in codes.tolist():
                child = self.actions.apply(node.state, code)
                if isinstance(child, str):
                    self.budget.statistics.reject(child)
                elif child.key not in seen:
                    seen.add(child.key)
                    children.append(child)
                    kept.append(code)
        priors = np.zeros(len(kept))
        for start in range(0, len(kept), self.config.batch_size):
            if self.stopper.reason() is not None:
                break
            chunk = children[start : start + self.config.batch_size]
            missing, _ = self.caller.score(chunk)
            priors[start : start + len(chunk)] = 1.0 / np.maximum(missing, LEAST_MDL)
        node.rank(np.array(kept, dtype=np.int64), priors)

    def simulate(self, leaf: Node) -> float:
        """Return the mean reward of a state and its random playouts."""
        rewards = [self.reward(leaf.state)]
        best_state, best_reward = leaf.state, rewards[0]
        with self.budget.phase("playouts"):
            for _ in range(self.config.n_playouts):
                state = leaf.state
                for _ in range(self.config.playout_depth):
                    child = self.random_child(state)
                    if child is None:
                        break
                    state = child
                    reward = self.reward(state)
                    rewards.append(reward)
                    if reward > best_reward:
                        best_state, best_reward = state, reward
        self.close(leaf.state)
        if best_reward > self.best_reward:
            self.best_reward = best_reward
            self.close(best_state)
        return math.fsum(rewards) / len(rewards)

    def random_child(self, state: State) -> State | None:
        """Return a state one random legal move away, or None."""
        codes = self.actions.codes(state)
        if len(codes) == 0:
            return None
        for _ in range(_MAX_TRIES):
            code = int(codes[int(self.rng.random() * len(codes))])
            child = self.actions.apply(state, code)
            if isinstance(child, State):
                return child
        return None

    def reward(self, state: State) -> float:
        """Return the reward of a state."""
        reward = linear_reward(state.columns, state.target.values)
        if state.key not in self._closed_in_full and (
            self._best_open is None or reward > self._best_open[0]
        ):
            self._best_open = (reward, state)
        return reward

    def close(self, state: State) -> None:
        """Close a state quickly, once."""
        if state.key not in self._closed and self.stopper.reason() is None:
            self._closed.add(state.key)
            self.readout.quick(state)

    def close_best_in_full(self) -> None:
        """Close the state with the largest reward since the last time in full."""
        if self._best_open is None or self.stopper.reason() is not None:
            return
        _, state = self._best_open
        self._best_open = None
        self._closed_in_full.add(state.key)
        self.readout.full(state)
