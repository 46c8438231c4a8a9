"""Speed of evaluation: one program against a numpy function per formula.

Both run in turn, on one thread each, and the best of several repeats counts, in
seconds of processor time: a busy machine then slows neither side more than the other.
Compiling is left out on both sides. Prints one JSON line.
"""

import argparse
import json

from sr4mdl.bench.speed import measure_evaluation


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-expressions", type=int, default=1000)
    parser.add_argument("--length", type=int, default=20, help="symbols per formula")
    parser.add_argument("--n-rows", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = measure_evaluation(
        options.repeats,
        n_expressions=options.n_expressions,
        length=options.length,
        n_rows=options.n_rows,
        seed=options.seed,
    )
    rounded = {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in result.items()
    }
    print(json.dumps({"benchmark": "evaluate", **rounded}))


if __name__ == "__main__":
    main()
