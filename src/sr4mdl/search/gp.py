"""Genetic programming as a baseline, under the same budget and the same readout.

Individuals are expressions; fitness is the reward of the other modes after a linear
fit of slope and intercept. Tournaments choose parents, subtrees are exchanged or
replaced, constants shaken. After each generation with a new best individual, and now
and then anyway, the state made of that individual's parts is closed.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from sr4mdl._typing import FloatArray
from sr4mdl.evaluate import evaluate
from sr4mdl.expressions import Expression, apply, constant
from sr4mdl.moves import MAX_COLUMNS
from sr4mdl.operators import Operator, all_operators, get_operator
from sr4mdl.search.budget import StopReason
from sr4mdl.search.config import SearchConfig
from sr4mdl.search.events import Reporter
from sr4mdl.search.plain import ETA
from sr4mdl.search.readout import Readout
from sr4mdl.search.state import Column, ColumnTable, State, StateKey, Target, usable
from sr4mdl.search.stopping import Stopper
from sr4mdl.selection.limits import Limits

BINARY: Final = ("add", "sub", "mul", "div")
UNARY: Final = (
    "sqrt", "square", "cube", "inv", "exp", "log", "sin", "cos", "tanh",
)  # fmt: skip
TOURNAMENT: Final = 5
N_ELITE: Final = 5
CROSSOVER_RATE: Final = 0.7
SUBTREE_RATE: Final = 0.15
SHAKE_RATE: Final = 0.1
"""Rates of crossover, of a new subtree, of shaken constants; else a changed symbol."""
CONSTANT_RATE: Final = 0.15
STALE_GENERATIONS: Final = 40
"""Generations without gain after which all but the elite begin anew."""
_CLOSING_INTERVAL: Final = 10
MAX_REMEMBERED: Final = 5000
"""Individuals whose parts are kept listed."""


def scaled_rewards(
    values: FloatArray, target: FloatArray, lengths: Sequence[int]
) -> FloatArray:
    """Return the rewards of individuals after a linear fit of each.

    Parameters
    ----------
    values : ndarray of shape (n, n_rows)
        Values of the individuals; not finite ones get reward 0.
    target : ndarray of shape (n_rows,)
        The target, not constant.
    lengths : sequence of int
        Symbols of the individuals.

    Returns
    -------
    ndarray of shape (n,)
        ``0.999^length / (2 - R2)``, R2 being the squared correlation.
    """
    with np.errstate(all="ignore"):
        size = np.max(np.abs(values), axis=1, keepdims=True)
        scaled = values / np.where(size > 0.0, size, 1.0)
        centred = scaled - scaled.mean(axis=1, keepdims=True)
        y = target / np.max(np.abs(target))
        y = y - y.mean()
        spread = np.einsum("ij,ij->i", centred, centred) * np.dot(y, y)
        r2 = (centred @ y) ** 2 / spread
    r2 = np.where(np.isfinite(r2) & (spread > 1e-26), r2, np.nan)
    rewards = ETA ** np.asarray(lengths, dtype=np.float64) / (
        2.0 - np.clip(r2, 0.0, 1.0)
    )
    return np.asarray(np.where(np.isfinite(rewards), rewards, 0.0))


class Breeder:
    """Makes random individuals and varies them.

    Parameters
    ----------
    variables : sequence of Expression
        Leaves.
    limits : Limits
        What individuals may look like.
    max_length : int
        Most symbols of an individual.
    rng : numpy.random.Generator
        Source of chance.
    """

    def __init__(
        self,
        variables: Sequence[Expression],
        limits: Limits,
        max_length: int,
        rng: np.random.Generator,
    ) -> None:
        self.variables = list(variables)
        self.limits = limits
        operators = limits.operators
        user = [one for one in all_operators() if not one.builtin]
        table = [get_operator(name) for name in BINARY + UNARY] + user
        if operators is not None:
            # Operators beyond the usual ones are in only if they were asked for.
            extra = [
                one
                for one in all_operators()
                if one.name in operators and one not in table and one.builtin
            ]
            table = [one for one in table if one.name in operators] + extra
        self.unary = [one for one in table if one.arity == 1]
        self.binary = [one for one in table if one.arity == 2]
        self.max_length = max_length
        self.rng = rng
        self._parts: dict[Expression, list[Expression]] = {}

    def leaf(self) -> Expression:
        """Return a variable or a constant."""
        if self.rng.random() < CONSTANT_RATE:
            return constant(float(np.round(self.rng.normal() * 3.0, 2)))
        return self.variables[int(self.rng.integers(len(self.variables)))]

    def operator(self) -> Operator | None:
        """Return a random operator, binary ones twice as often; None without any."""
        groups = [one for one in (self.binary, self.binary, self.unary) if one]
        if not groups:
            return None
        group = groups[int(self.rng.integers(len(groups)))]
        return group[int(self.rng.integers(len(group)))]

    def grow(self, depth: int) -> Expression:
        """Return a random expression of at most so many levels."""
        operator = None if depth <= 0 or self.rng.random() < 0.1 else self.operator()
        if operator is None:
            return self.leaf()
        return apply(operator, *(self.grow(depth - 1) for _ in range(operator.arity)))

    def part(self, expression: Expression) -> Expression:
        """Return a random subexpression."""
        parts = self._parts.get(expression)
        if parts is None:
            if len(self._parts) > MAX_REMEMBERED:
                self._parts.clear()
            parts = self._parts[expression] = list(expression.subexpressions())
        return parts[int(self.rng.random() * len(parts))]

    def graft(
        self, expression: Expression, old: Expression, new: Expression
    ) -> Expression:
        """Return the expression with one part replaced; as it is if not allowed."""
        result = _replace(expression, old, new)
        if result.length > self.max_length or not self.limits.permits(result):
            return expression
        return result

    def vary(self, first: Expression, second: Expression) -> Expression:
        """Return a child of one or two parents."""
        chance = self.rng.random()
        place = self.part(first)
        if chance < CROSSOVER_RATE:
            return self.graft(first, place, self.part(second))
        chance -= CROSSOVER_RATE
        if chance < SUBTREE_RATE:
            return self.graft(first, place, self.grow(2))
        chance -= SUBTREE_RATE
        if chance < SHAKE_RATE:
            return self.shake(first)
        if place.operator is None:
            return self.graft(first, place, self.leaf())
        others = self.unary if place.operator.arity == 1 else self.binary
        if not others:
            return first
        operator = others[int(self.rng.integers(len(others)))]
        return self.graft(first, place, apply(operator, *place.arguments))

    def shake(self, expression: Expression) -> Expression:
        """Return the expression with its constants changed a little."""

        def changed(node: Expression) -> Expression | None:
            if node.value is None:
                return None
            return constant(node.value * (1.0 + 0.3 * self.rng.normal()))

        return expression.rebuild(changed)


def _replace(expression: Expression, old: Expression, new: Expression) -> Expression:
    """Return the expression with every occurrence of a part replaced."""
    rebuilt: dict[Expression, Expression] = {}
    for node in expression.subexpressions():
        if node == old:
            rebuilt[node] = new
        elif node.operator is None:
            rebuilt[node] = node
        else:
            rebuilt[node] = apply(
                node.operator, *(rebuilt[argument] for argument in node.arguments)
            )
    return rebuilt[expression]


class GeneticSearch:
    """The loop of mode ``gp``."""

    def __init__(
        self,
        root: State,
        columns: ColumnTable,
        readout: Readout,
        stopper: Stopper,
        reporter: Reporter,
        config: SearchConfig,
        rng: np.random.Generator,
    ) -> None:
        self.root = root
        self.columns = columns
        self.readout = readout
        self.budget = readout.budget
        self.stopper = stopper
        self.reporter = reporter
        self.rng = rng
        self.size = config.population_size
        self.full_interval = config.full_interval
        variables = [column.expression for column in root.columns]
        self.breeder = Breeder(
            variables, readout.judge.limits, config.max_column_length, rng
        )
        self.population: list[Expression] = []
        self.rewards: FloatArray = np.zeros(0)
        self._closed: set[StateKey] = {root.key}
        self._n_closings = 0

    def run(self) -> StopReason:
        """Breed until the stopper says so; return why."""
        self.renew(self.population)
        best, stale, generation = 0.0, 0, 0
        while True:
            reason = self.stopper.reason()
            if reason is not None:
                return reason
            with self.budget.phase("breeding"):
                self.breed()
            self.budget.statistics.n_nodes += 1
            generation += 1
            stale += 1
            top = float(self.rewards.max())
            if top > best:
                best, stale = top, 0
            if stale == 0 or generation % _CLOSING_INTERVAL == 0:
                self.close_best()
            if stale >= STALE_GENERATIONS:
                self.renew(self.elite())
                best, stale = float(self.rewards.max()), 0
            self.reporter.tick()

    def renew(self, elite: list[Expression]) -> None:
        """Fill the population with random individuals beside an elite."""
        chosen = dict.fromkeys(elite)
        for _ in range(20 * self.size):
            if len(chosen) >= self.size:
                break
            individual = self.breeder.grow(int(self.rng.integers(1, 5)))
            if self.breeder.limits.permits(individual):
                chosen[individual] = None
        self.settle(list(chosen))

    def settle(self, individuals: list[Expression]) -> None:
        """Make these the population."""
        rows = self.readout.data.search
        result = evaluate(individuals, rows.X, rows.names, backend="numpy")
        self.population = individuals
        self.rewards = scaled_rewards(
            result.values, rows.y, [one.length for one in individuals]
        )

    def elite(self) -> list[Expression]:
        """Return the best individuals."""
        order = np.argsort(-self.rewards, kind="stable")[:N_ELITE]
        return [self.population[int(place)] for place in order]

    def parents(self, count: int) -> list[Expression]:
        """Return the winners of so many tournaments."""
        places = self.rng.integers(len(self.population), size=(count, TOURNAMENT))
        winners = np.argmax(self.rewards[places], axis=1)
        chosen = places[np.arange(count), winners]
        return [self.population[place] for place in chosen.tolist()]

    def breed(self) -> None:
        """Replace the population by the next generation."""
        chosen = dict.fromkeys(self.elite())
        for _ in range(3):
            missing = self.size - len(chosen)
            if missing <= 0:
                break
            pairs = zip(self.parents(missing), self.parents(missing), strict=True)
            for first, second in pairs:
                chosen[self.breeder.vary(first, second)] = None
        self.settle(list(chosen))

    def close_best(self) -> None:
        """Close the best individuals' states; every few times one in full."""
        for individual in self.elite()[:2]:
            if self.stopper.reason() is not None:
                return
            state = self.state(individual)
            if state is None or state.key in self._closed:
                continue
            self._closed.add(state.key)
            self._n_closings += 1
            if self._n_closings % (2 * self.full_interval) == 0:
                self.readout.full(state)
            else:
                self.readout.quick(state)

    def state(self, individual: Expression) -> State | None:
        """Return the state of an individual: its largest parts, then the variables."""
        parts = sorted(
            (part for part in individual.subexpressions() if part.operator is not None),
            key=lambda part: -part.length,
        )[: MAX_COLUMNS // 2]
        rows = self.readout.data.search
        if not parts:
            return None
        result = evaluate(parts, rows.X, rows.names, backend="numpy")
        chosen: dict[bytes, Column] = {}
        for part, values in zip(parts, result.values, strict=True):
            if not usable(values):
                column = self.columns.intern(part, values)
                chosen[column.key] = column
        for column in self.root.columns:
            if column.expression.variables <= individual.variables:
                chosen.setdefault(column.key, column)
        kept = tuple(chosen.values())[:MAX_COLUMNS]
        return State.of(kept, Target.original(rows.y)) if kept else None
