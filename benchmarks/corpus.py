"""Labelled states per second and core; prints one JSON line.

One process does what a training worker does: draws formulas, simplifies them, keeps
a ring of skeletons and samples states from it with labels and programs.
"""

import argparse
import json
import sys
import time
from collections import Counter

from sr4mdl.corpus.states import sample_states
from sr4mdl.training.source_config import SourceConfig
from sr4mdl.training.state_maker import SkeletonRing


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--distribution", choices=("default", "paper"), default="default"
    )
    parser.add_argument("--batches", type=int, default=20)
    arguments = parser.parse_args()
    config = SourceConfig(distribution=arguments.distribution)
    rates = config.rates("predict")
    ring = SkeletonRing(config, seed=1)
    ring.renew(config.first_fill)
    sample_states(ring.bank, ring.n_filled, 64, 0, rates)  # compiles
    lengths: Counter[int] = Counter()
    formula_time = state_time = 0.0
    started = time.perf_counter()
    for batch in range(arguments.batches):
        begin = time.perf_counter()
        ring.renew(config.fresh_per_draw)
        middle = time.perf_counter()
        states = sample_states(
            ring.bank, ring.n_filled, config.batch_size, batch, rates
        )
        formula_time += middle - begin
        state_time += time.perf_counter() - middle
        lengths.update(states.value.astype(int).tolist())
    elapsed = time.perf_counter() - started
    n_states = arguments.batches * config.batch_size
    n_formulas = arguments.batches * config.fresh_per_draw
    result = {
        "bench": "corpus",
        "distribution": arguments.distribution,
        "states_per_second_and_core": round(n_states / elapsed),
        "states_per_fresh_formula": round(n_states / n_formulas, 1),
        "formulas_per_second": round(n_formulas / formula_time),
        "states_per_second_sampling_only": round(n_states / state_time),
        "mean_value": round(sum(k * v for k, v in lengths.items()) / n_states, 2),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
