"""Write the structure hashes of the benchmark formulas that training must not see.

Run it after a change of the suites, of the simplifier or of the hash:
``python scripts/hold_out.py``. A test fails while the file is stale.
"""

import json
from pathlib import Path

from sr4mdl.bench.problems import load_suite
from sr4mdl.corpus.structure import structure_hash
from sr4mdl.simplify import simplify
from sr4mdl.text import parse

TARGET = Path(__file__).parent.parent / "src" / "sr4mdl" / "corpus" / "held_out.json"


def main() -> None:
    """Hash every formula of the suites with known formulas."""
    hashes = {
        f"{structure_hash(simplify(parse(problem.formula))):016x}"
        for suite in ("groundtruth", "classic")
        for problem in load_suite(suite)
        if problem.formula is not None
    }
    TARGET.write_text(json.dumps({"hashes": sorted(hashes)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
