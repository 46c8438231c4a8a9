"""Members of a dictionary that explain a target only together: pairs and triples.

A pursuit takes one member after the other, and so misses members that explain little
alone. Here all pairs of a subset are scored, and all triples that hold one of the
members that explain most alone.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from sr4mdl._typing import FloatArray, IntArray
from sr4mdl.closing.pursuit import Dictionary, Found, Regression, gains_alone

_DEPENDENT: Final = 1e-6
"""Length left of a unit member after projection, below which it adds nothing."""
N_TRIPLES: Final = 20
"""Triples that a pursuit starts from."""


@dataclass(frozen=True, slots=True)
class Subset:
    """Some members of a dictionary, beside what is forced on a target."""

    number: int
    """Of the target."""
    error: float
    """Weighted sum of squares before any of the members."""
    members: IntArray
    """Indices into the dictionary, shape (m,)."""
    slopes: FloatArray
    """Products with the target's residual, shape (m,): their squares are what the
    members explain alone."""
    products: FloatArray
    """Products with each other, shape (m, m), 1 on the diagonal."""
    preference: FloatArray
    """Factors near 1 that decide between equals, shape (m,)."""

    @classmethod
    def of(
        cls,
        regression: Regression,
        number: int,
        dictionary: Dictionary,
        members: IntArray,
        n_more: int = 0,
    ) -> Self | None:
        """Return the subset; None if nothing is left to explain.

        The ``n_more`` members that explain most alone join those given.
        """
        start = regression.start(number)
        if start is None:
            return None
        if n_more:
            gains = gains_alone(start, regression, dictionary)
            more = np.argpartition(-gains, min(n_more, len(gains) - 1))[:n_more]
            members = np.unique(np.concatenate([members, more]))
        vectors = dictionary.unit[members] * regression.weights
        before = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        vectors = vectors - (vectors @ start.basis.T) @ start.basis
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        good = norms > _DEPENDENT * before
        vectors, members = vectors[good] / norms[good, None], members[good]
        return cls(
            number,
            start.error,
            members,
            vectors @ start.residual,
            vectors @ vectors.T,
            dictionary.preference[members].astype(np.float64),
        )

    def pairs(self, count: int) -> tuple[list[Found], int]:
        """Return the best fits with two members, and how many were scored."""
        return self._best(count, np.array([-1]))

    def triples(self, count: int, n_first: int) -> tuple[list[Found], int]:
        """Return the best fits with three members, and how many were scored.

        One of the three is one of the ``n_first`` that explain most alone.
        """
        alone = np.square(self.slopes) * self.preference
        return self._best(count, np.argsort(-alone, kind="stable")[:n_first])

    def _best(self, count: int, firsts: IntArray) -> tuple[list[Found], int]:
        # Compiled code, which a quick closing does without.
        from sr4mdl.closing.group_kernel import best_groups

        gains, groups, n_scored = best_groups(
            self.products, self.slopes, self.preference, firsts, count
        )
        return [
            Found(
                self.number,
                tuple(int(self.members[place]) for place in group if place >= 0),
                max(self.error - float(gain), 0.0),
            )
            for gain, group in zip(gains, groups, strict=True)
        ], n_scored


def explaining_together(
    regression: Regression,
    number: int,
    dictionary: Dictionary,
    members: IntArray,
    *,
    n_more: int = 0,
    n_pairs: int,
    n_first: int = 0,
) -> tuple[list[Found], int]:
    """Return the best pairs and triples of some members, and how many were scored.

    Parameters
    ----------
    regression, number : Regression, int
        The target and its number.
    dictionary : Dictionary
        What the members belong to.
    members : ndarray of int
        The members of which all pairs are scored.
    n_more : int
        So many members that explain most alone join them.
    n_pairs : int
        Pairs to return.
    n_first : int
        Members that explain most alone: each is tried beside all pairs, and the best
        triples are returned as well.
    """
    subset = Subset.of(regression, number, dictionary, members, n_more)
    if subset is None:
        return [], 0
    found, n_scored = subset.pairs(n_pairs)
    if n_first:
        triples, n_tried = subset.triples(N_TRIPLES, n_first)
        return found + triples, n_scored + n_tried
    return found, n_scored
