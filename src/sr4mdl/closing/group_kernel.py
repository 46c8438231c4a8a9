"""The compiled loop that scores all pairs of members, alone or beside a third one."""

from typing import Final

import numpy as np
from numba import njit

_LEAST_LEFT: Final = 1e-8
"""Square that must be left of a unit member after the others are projected out."""


@njit(cache=True)
def best_groups(products, slopes, preference, firsts, count):  # type: ignore[no-untyped-def]
    """Return gains, members and number of the groups that explain most.

    Parameters
    ----------
    products : ndarray of shape (m, m)
        Cosines of the members.
    slopes : ndarray of shape (m,)
        Their products with the target.
    preference : ndarray of shape (m,)
        Factors of the gains that decide between equals.
    firsts : ndarray of shape (k,)
        Members that stand beside each pair; -1 for none.
    count : int
        Groups to return at most.

    Returns
    -------
    ndarray of shape (n,), ndarray of shape (n, 3), int
        Gains without the preference, falling; members, -1 first in a pair; how many
        groups were scored.
    """
    n_members = len(slopes)
    ranked = np.full(count, -1.0)
    gains = np.zeros(count)
    groups = np.full((count, 3), -1, np.int64)
    is_done = np.zeros(n_members, np.bool_)
    slope = np.zeros(n_members)
    scale = np.zeros(n_members)
    shared = np.zeros(n_members)
    n_scored = 0
    for first in firsts:
        # What is left of the members and of the target beside the first one.
        explained, weight = 0.0, 1.0
        if first >= 0:
            explained, weight = slopes[first] ** 2, preference[first]
            is_done[first] = True
        for one in range(n_members):
            shared[one] = 0.0 if first < 0 else products[first, one]
            left = 1.0 - shared[one] ** 2
            scale[one] = 0.0
            if left > _LEAST_LEFT and not is_done[one]:
                scale[one] = 1.0 / np.sqrt(left)
                beside = 0.0 if first < 0 else shared[one] * slopes[first]
                slope[one] = (slopes[one] - beside) * scale[one]
        for one in range(n_members):
            if scale[one] == 0.0:
                continue
            for two in range(one + 1, n_members):
                if scale[two] == 0.0:
                    continue
                n_scored += 1
                cosine = products[one, two] - shared[one] * shared[two]
                cosine *= scale[one] * scale[two]
                left = 1.0 - cosine * cosine
                gain = slope[one] ** 2 + slope[two] ** 2
                gain -= 2.0 * cosine * slope[one] * slope[two]
                # Divided only where that is worth it.
                factor = weight * preference[one] * preference[two]
                if gain * factor <= (ranked[-1] - explained * factor) * left:
                    continue
                if left <= _LEAST_LEFT:
                    continue
                total = explained + gain / left
                place = count - 1
                while place > 0 and ranked[place - 1] < total * factor:
                    ranked[place] = ranked[place - 1]
                    gains[place] = gains[place - 1]
                    groups[place] = groups[place - 1]
                    place -= 1
                ranked[place] = total * factor
                gains[place] = total
                groups[place, 0], groups[place, 1], groups[place, 2] = first, one, two
    found = min(count, n_scored)
    while found > 0 and ranked[found - 1] < 0.0:
        found -= 1
    return gains[:found], groups[:found], n_scored
