"""Members, weights and the brute force that pursuits are compared with."""

import numpy as np

from sr4mdl.closing.pursuit import Dictionary

N_ROWS, N_MEMBERS = 50, 12


def draw_members():
    """Return a generator, values (N_MEMBERS, N_ROWS), weights and their dictionary."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(N_MEMBERS, N_ROWS)) + 3.0
    weights = rng.uniform(0.5, 2.0, N_ROWS)
    return rng, values, weights, Dictionary(values, np.ones(N_MEMBERS))


def brute_force_error(values, target, weights, members):
    """Return the weighted squares that an intercept and some members leave."""
    matrix = np.array([np.ones(N_ROWS), *values[list(members)]]) * weights
    solution = np.linalg.lstsq(matrix.T, target * weights, rcond=None)[0]
    return float(np.sum((target * weights - solution @ matrix) ** 2))
