"""The states of one worker process, from skeletons that are renewed all the time."""

import random
from typing import Any

import numpy as np

from sr4mdl.corpus.formulas import VARIABLE_NAMES, sample_formula
from sr4mdl.corpus.skeletons import (
    SkeletonBank,
    SkeletonTooLargeError,
    build_skeleton,
)
from sr4mdl.corpus.states import sample_states
from sr4mdl.mdlformer.tokens import formula_to_tokens
from sr4mdl.training.batch import Phase
from sr4mdl.training.source_config import SourceConfig


class SkeletonRing:
    """A bank that is renewed row by row from a seeded stream of formulas."""

    def __init__(self, config: SourceConfig, seed: int) -> None:
        self.config = config
        self.rng = random.Random(seed)
        self.bank = SkeletonBank.empty(config.bank_capacity)
        self.tokens = (
            np.zeros((config.bank_capacity, config.n_tokens), np.int16)
            if config.with_formula
            else None
        )
        self.n_filled = 0
        self.position = 0

    def renew(self, count: int, growth: float = 1.0) -> None:
        """Replace the oldest ``count`` skeletons by new ones, smaller below 1."""
        made = 0
        while made < count:
            formula = sample_formula(
                self.rng, self.config.distribution, self.config.formula_constants,
                growth,
            )  # fmt: skip
            names = VARIABLE_NAMES[: formula.n_variables]
            try:
                skeleton = build_skeleton(formula.expression, names)
            except SkeletonTooLargeError:
                continue
            if self.tokens is not None:
                ids = formula_to_tokens(
                    formula.expression, names, digits=self.config.constants == "digits"
                )
                if len(ids) > self.config.n_tokens:
                    continue
                self.tokens[self.position] = 0
                self.tokens[self.position, : len(ids)] = ids
            self.bank.store(self.position, skeleton)
            self.position = (self.position + 1) % self.bank.capacity
            self.n_filled = min(self.n_filled + 1, self.bank.capacity)
            made += 1


class StateMaker:
    """Draws the states of one worker: of one distribution, or of two, mixed.

    Parameters
    ----------
    config : SourceConfig
        What to draw.
    worker : int
        Number of the worker; each has a stream of its own.
    """

    def __init__(self, config: SourceConfig, worker: int) -> None:
        seed = config.seed * 1_000_003 + worker
        self._parts = [
            (SkeletonRing(part, seed + number * 500_009), count)
            for number, (part, count) in enumerate(config.parts())
        ]
        self._n_states = config.draw_size
        self._seeds = random.Random(config.seed * 7_919 + worker + 1)

    def renew(self, count: int, growth: float = 1.0) -> None:
        """Replace the oldest ``count`` skeletons, of each distribution by its share."""
        for ring, n_states in self._parts:
            ring.renew(max(1, count * n_states // self._n_states), growth)

    def draw(self, phase: Phase) -> dict[str, Any]:
        """Return the arrays of the states of one draw, by the names of a slot."""
        drawn = [self._draw_part(ring, n, phase) for ring, n in self._parts]
        if len(drawn) == 1:
            return drawn[0]
        # Batches are cut off in order: mixed, each holds its share.
        rng = np.random.default_rng(self._seeds.getrandbits(63))
        order = rng.permutation(self._n_states)
        return {
            name: np.concatenate([part[name] for part in drawn])[order]
            for name in drawn[0]
        }

    def _draw_part(
        self, ring: SkeletonRing, n_states: int, phase: Phase
    ) -> dict[str, Any]:
        states = sample_states(
            ring.bank, ring.n_filled, n_states, self._seeds.getrandbits(31),
            ring.config.rates(phase),
        )  # fmt: skip
        arrays: dict[str, Any] = states._asdict()
        arrays["is_pair"] = np.full(n_states, ring.config.distribution == "paper")
        if ring.tokens is not None:
            arrays["tokens"] = ring.tokens[states.formula]
        return arrays
