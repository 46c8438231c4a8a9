"""Formulas as flat arrays that compiled code can walk: the skeleton bank.

A skeleton is a simplified formula with sums and products flattened: a sum has signed
terms, a product has factors with exponent +1 or -1, everything else is a unary
operator or a general power. Nodes are numbered arguments first, the root is last;
equal subformulas are one node. Constants are numbered slots: *fixed* ones (small
whole numbers, halves, multiples of pi) belong to the structure, *free* ones are
drawn anew for each training state.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sr4mdl.corpus.structure import (
    PRODUCT_CHAIN,
    SUM_CHAIN,
    flatten_product,
    flatten_sum,
)
from sr4mdl.expressions import Expression, apply
from sr4mdl.operators import get_operator

MAX_NODES: Final = 56
MAX_EDGES: Final = 80
MAX_CONSTANTS: Final = 24

# Kinds of nodes.
VARIABLE: Final = 0
CONSTANT: Final = 1
COLUMN: Final = 2
SUM: Final = 3
PRODUCT: Final = 4
UNARY: Final = 5
POWER: Final = 6

_SQUARE, _CUBE, _SQRT, _INV, _NEG = (
    get_operator(name) for name in ("square", "cube", "sqrt", "inv", "neg")
)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """One formula as lists; see :class:`SkeletonBank` for the packed form."""

    kind: list[int]
    argument: list[int]
    """Variable index, constant slot or opcode, by kind."""
    children: list[list[tuple[int, int]]]
    """(node, sign) of each child."""
    constants: list[float]
    free: list[bool]
    """Which constants are drawn anew for each state."""
    n_variables: int


class SkeletonTooLargeError(ValueError):
    """The formula does not fit into the bank's arrays."""


def is_structural(value: float) -> bool:
    """Whether a constant belongs to the structure rather than to the data."""
    for unit in (1.0, math.pi):
        ratio = value / unit
        for scaled in (ratio, 2 * ratio, 3 * ratio, 4 * ratio):
            if abs(scaled) <= 12 and abs(scaled - round(scaled)) < 1e-9:
                return True
    return False


class _Builder:
    def __init__(self, names: Sequence[str]) -> None:
        self.index = {name: number for number, name in enumerate(names)}
        self.kind: list[int] = []
        self.argument: list[int] = []
        self.children: list[list[tuple[int, int]]] = []
        self.constants: list[float] = []
        self.memo: dict[Expression, int] = {}

    def new(self, kind: int, argument: int, children: list[tuple[int, int]]) -> int:
        self.kind.append(kind)
        self.argument.append(argument)
        self.children.append(children)
        return len(self.kind) - 1

    def visit(self, node: Expression) -> int:
        known = self.memo.get(node)
        if known is None:
            known = self.memo[node] = self.build(node)
        return known

    def build(self, node: Expression) -> int:
        if node.name is not None:
            return self.new(VARIABLE, self.index[node.name], [])
        if node.value is not None:
            self.constants.append(node.value)
            return self.new(CONSTANT, len(self.constants) - 1, [])
        operator = node.operator
        assert operator is not None
        if operator.name in SUM_CHAIN:
            return self.chain(SUM, _NEG.opcode, flatten_sum(node))
        if operator.name in PRODUCT_CHAIN:
            return self.chain(PRODUCT, _INV.opcode, flatten_product(node))
        if operator.name == "pow":
            base, exponent = node.arguments
            spelled = _spell_power(base, exponent.value)
            if spelled is not None:
                return self.visit(spelled)
            return self.new(
                POWER, 0, [(self.visit(base), 1), (self.visit(exponent), 1)]
            )
        return self.new(UNARY, operator.opcode, [(self.visit(node.arguments[0]), 1)])

    def chain(
        self, kind: int, turning: int, terms: list[tuple[Expression, int]]
    ) -> int:
        if len(terms) == 1:
            return self.new(UNARY, turning, [(self.visit(terms[0][0]), 1)])
        return self.new(kind, 0, [(self.visit(part), sign) for part, sign in terms])


def _spell_power(base: Expression, exponent: float | None) -> Expression | None:
    """Write a power with a common exponent in unary operators the moves have."""
    if exponent is None:
        return None
    size = abs(exponent)
    if size == 1.0:
        spelled = base
    elif size == 2.0:
        spelled = apply(_SQUARE, base)
    elif size == 3.0:
        spelled = apply(_CUBE, base)
    elif size == 4.0:
        spelled = apply(_SQUARE, apply(_SQUARE, base))
    elif size == 5.0:
        spelled = apply("mul", base, apply(_SQUARE, apply(_SQUARE, base)))
    elif size == 6.0:
        spelled = apply(_CUBE, apply(_SQUARE, base))
    elif size == 8.0:
        spelled = apply(_SQUARE, apply(_SQUARE, apply(_SQUARE, base)))
    elif size == 9.0:
        spelled = apply(_CUBE, apply(_CUBE, base))
    elif size == 0.5:
        spelled = apply(_SQRT, base)
    elif size == 1.5:
        spelled = apply(_CUBE, apply(_SQRT, base))
    else:
        return None
    return spelled if exponent > 0 else apply(_INV, spelled)


def build_skeleton(
    expression: Expression, names: Sequence[str], *, keep_constants: bool = False
) -> Skeleton:
    """Return the skeleton of a simplified formula.

    Parameters
    ----------
    expression : Expression
        The formula.
    names : sequence of str
        Variables in the order of the columns.
    keep_constants : bool, default=False
        Make every constant fixed, for real formulas.

    Raises
    ------
    SkeletonTooLargeError
        If it has too many nodes, edges or constants.
    """
    builder = _Builder(names)
    builder.visit(expression)
    n_edges = sum(len(children) for children in builder.children)
    if (
        len(builder.kind) > MAX_NODES
        or n_edges > MAX_EDGES
        or len(builder.constants) > MAX_CONSTANTS
    ):
        raise SkeletonTooLargeError(f"formula of {len(builder.kind)} nodes")
    return Skeleton(
        builder.kind,
        builder.argument,
        builder.children,
        builder.constants,
        [not keep_constants and not is_structural(v) for v in builder.constants],
        len(names),
    )


class SkeletonBank(NamedTuple):
    """Skeletons packed into arrays with one row each; writable as a ring."""

    n_nodes: NDArray[np.int16]
    kind: NDArray[np.int8]
    argument: NDArray[np.int16]
    child_start: NDArray[np.int16]
    child_count: NDArray[np.int16]
    child_node: NDArray[np.int16]
    child_sign: NDArray[np.int8]
    constants: NDArray[np.float64]
    constant_free: NDArray[np.bool_]
    n_constants: NDArray[np.int16]
    n_variables: NDArray[np.int16]

    @classmethod
    def empty(cls, capacity: int) -> "SkeletonBank":
        """Return a bank with room for ``capacity`` skeletons."""
        return cls(
            n_nodes=np.zeros(capacity, np.int16),
            kind=np.zeros((capacity, MAX_NODES), np.int8),
            argument=np.zeros((capacity, MAX_NODES), np.int16),
            child_start=np.zeros((capacity, MAX_NODES), np.int16),
            child_count=np.zeros((capacity, MAX_NODES), np.int16),
            child_node=np.zeros((capacity, MAX_EDGES), np.int16),
            child_sign=np.zeros((capacity, MAX_EDGES), np.int8),
            constants=np.zeros((capacity, MAX_CONSTANTS), np.float64),
            constant_free=np.zeros((capacity, MAX_CONSTANTS), np.bool_),
            n_constants=np.zeros(capacity, np.int16),
            n_variables=np.zeros(capacity, np.int16),
        )

    @property
    def capacity(self) -> int:
        """Number of rows."""
        return len(self.n_nodes)

    def store(self, row: int, skeleton: Skeleton) -> None:
        """Write a skeleton into a row."""
        n_nodes = len(skeleton.kind)
        self.n_nodes[row] = n_nodes
        self.kind[row, :n_nodes] = skeleton.kind
        self.argument[row, :n_nodes] = skeleton.argument
        edge = 0
        for node, children in enumerate(skeleton.children):
            self.child_start[row, node] = edge
            self.child_count[row, node] = len(children)
            for child, sign in children:
                self.child_node[row, edge] = child
                self.child_sign[row, edge] = sign
                edge += 1
        n_constants = len(skeleton.constants)
        self.constants[row, :n_constants] = skeleton.constants
        self.constant_free[row, :n_constants] = skeleton.free
        self.n_constants[row] = n_constants
        self.n_variables[row] = skeleton.n_variables
