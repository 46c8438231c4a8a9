"""Time ``import sr4mdl`` in fresh processes; prints one JSON line.

Run: python benchmarks/import_time.py
"""

import json
import platform
import statistics
import subprocess
import sys

HEAVY = ("torch", "onnxruntime", "numba", "sympy", "pandas", "sklearn", "scipy")
PROGRAM = """
import json, sys, time
start = time.perf_counter()
import sr4mdl
seconds = time.perf_counter() - start
sr4mdl.parse, sr4mdl.Dataset
used = time.perf_counter() - start
packages = {name.partition(".")[0] for name in sys.modules}
print(json.dumps([seconds, used, sorted(packages)]))
"""


def main() -> None:
    import_seconds, use_seconds = [], []
    loaded: set[str] = set()
    for run in range(8):
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True
        )
        seconds, used, packages = json.loads(result.stdout)
        if run:  # the first run warms the file cache
            import_seconds.append(seconds)
            use_seconds.append(used)
        loaded.update(packages)
    print(
        json.dumps(
            {
                "benchmark": "import_time",
                "import_seconds_median": round(statistics.median(import_seconds), 4),
                "import_seconds_max": round(max(import_seconds), 4),
                "with_parse_and_dataset_seconds_median": round(
                    statistics.median(use_seconds), 4
                ),
                "limit_seconds": 0.3,
                "heavy_packages_loaded": sorted(loaded.intersection(HEAVY)),
                "runs": len(import_seconds),
                "python": platform.python_version(),
                "machine": platform.machine(),
            }
        )
    )


if __name__ == "__main__":
    main()
