"""Write the benchmark's data files from lists of formulas and published figures.

Usage: ``python benchmarks/collect_facts.py SOURCE PAPER OUTPUT``, where SOURCE holds
``groundtruth.json``, ``dev_formulas.json``, ``blackbox.json``,
``blackbox_missing.json``, the ``srbench_*.csv`` summaries and ``pmlb/datasets``;
PAPER is the TeX source of the paper with its result tables; OUTPUT is
``src/sr4mdl/bench/data``. Only facts are taken: names, formulas (rewritten in this
project's notation), ranges, shapes, published rates.
"""

import csv
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from sr4mdl.text import parse, to_text

# cot is not an operator here; SRBench's truth is the same function.
REWRITTEN = {"strogatz_shearflow1": "cos(x)/tan(y)"}
# The harmonic sum is no formula of a fixed length.
LEFT_OUT = {"Neat-6"}

# One name a method, whatever the source calls it.
NAMES = {
    "Ours": "SR4MDL (paper)",
    "GPlearn": "gplearn",
    "AFP_FE": "AFP-FE",
    "AIFeynman": "AIFeynman2",
}

# Figures that stand in no table above: (method, group, noise, rate in percent, note).
OTHER_RATES = [
    ("PSE", "all", 0.0, 74.9, "GPU, read off a figure"),
    ("PSE", "all", 0.001, 54.8, "GPU, read off a figure"),
    ("PSE", "all", 0.01, 41.2, "GPU, read off a figure"),
    ("PSE", "all", 0.1, 31.0, "GPU, read off a figure"),
    ("uDSR", "all", 0.0, 69.8, "read off a figure"),
    ("uDSR", "all", 0.001, 38.1, "read off a figure"),
    ("uDSR", "all", 0.01, 28.5, "read off a figure"),
    ("uDSR", "all", 0.1, 11.0, "read off a figure"),
    ("PySR (4800 s)", "feynman", 0.0, 61.3, "1 seed, 6 processes"),
    ("PySR (4800 s)", "strogatz", 0.0, 85.7, "1 seed, 6 processes"),
    ("PySR (4800 s)", "feynman", 0.01, 54.2, "1 seed, 6 processes"),
    ("PySR (4800 s)", "strogatz", 0.01, 42.9, "1 seed, 6 processes"),
    ("PySR (3600 s)", "all", 0.0, 41.0, "read off a figure"),
    ("PySR (3600 s)", "all", 0.001, 40.7, "read off a figure"),
    ("PySR (3600 s)", "all", 0.01, 38.1, "read off a figure"),
    ("PySR (3600 s)", "all", 0.1, 35.6, "read off a figure"),
    ("ParFam", "feynman", 0.0, 55.5, ""),
    ("ParFam", "strogatz", 0.0, 57.1, ""),
    ("ParFam", "feynman", 0.01, 40.3, ""),
    ("ParFam", "strogatz", 0.01, 50.0, ""),
    ("PhySO", "feynman", 0.0, 58.4, "uses units; 116 problems"),
    ("PhySO", "feynman", 0.001, 58.4, "uses units; 116 problems"),
    ("PhySO", "feynman", 0.01, 57.9, "uses units; 116 problems"),
    ("PhySO", "feynman", 0.1, 53.4, "uses units; 116 problems"),
    ("QDSR", "feynman", 0.0, 91.6, "uses units; 117 problems"),
]
PROBLEMS = {"feynman": 119, "strogatz": 14}


def write(path: Path, document: dict[str, Any]) -> None:
    """Write a document with one list entry a line, so that changes can be read."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            rows = ",\n".join("  " + json.dumps(entry) for entry in value)
            parts.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="ascii")


def ours(formula: str) -> str:
    """Return a formula in this project's notation."""
    return to_text(parse(formula))


def starts(source: Path, name: str) -> list[list[float]]:
    """Return the first point of each of the four trajectories."""
    path = source / "pmlb" / "datasets" / name / f"{name}.tsv.gz"
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    return [[float(value) for value in rows[k][:2]] for k in (0, 100, 200, 300)]


def groundtruth(source: Path) -> list[dict[str, Any]]:
    """Return the 133 problems with known formula."""
    entries = json.loads((source / "groundtruth.json").read_text(encoding="utf-8"))
    formulas = {
        entry["name"]: ours(REWRITTEN.get(entry["name"], entry["formula"]))
        for entry in entries
    }
    problems = []
    for entry in entries:
        name = entry["name"]
        problem = {
            "name": name,
            "group": entry["suite"],
            "formula": formulas[name],
            "variables": [[v["name"], v["low"], v["high"]] for v in entry["variables"]],
            "published": entry["in_srbench_published_130"],
        }
        if entry["suite"] == "strogatz":
            problem["system"] = [formulas[f"{name[:-1]}{k}"] for k in (1, 2)]
            problem["starts"] = starts(source, f"{name[:-1]}1")
        problems.append(problem)
    return problems


def axis(spec: dict[str, list[float]]) -> list[Any]:
    """Return ["uniform", low, high, points] or ["grid", low, high, points]."""
    ((kind, (low, high, amount)),) = spec.items()
    if kind == "U":
        return ["uniform", low, high, int(amount)]
    # The lists give a step up to 2 and a number of points above.
    points = int(amount) if amount > 2 else round((high - low) / amount) + 1
    if amount <= 2:
        high = low + (points - 1) * amount
        high = round(high, 12)
    return ["grid", low, high, points]


def axes(spec: dict[str, Any] | None, names: list[str]) -> list[list[Any]] | None:
    """Return the sampling of every variable, or None where the list has none."""
    if spec is None:
        return None
    return [axis(spec.get(name, spec.get("all"))) for name in names]


def classic(source: Path) -> list[dict[str, Any]]:
    """Return the classic formulas."""
    entries = json.loads((source / "dev_formulas.json").read_text(encoding="utf-8"))
    problems = []
    for entry in entries:
        if entry["name"] in LEFT_OUT:
            continue
        names = [v["name"] for v in entry["variables"]]
        problems.append(
            {
                "name": entry["name"],
                "group": entry["suite"].lower(),
                "formula": ours(entry["formula"]),
                "variables": [
                    [v["name"], v["low"], v["high"]] for v in entry["variables"]
                ],
                "train": axes(entry["train_spec"], names),
                "test": axes(entry["test_spec"], names),
            }
        )
    return problems


def blackbox(source: Path) -> list[dict[str, Any]]:
    """Return name and shape of the 122 tables without known formula."""
    entries = []
    for name in ("blackbox.json", "blackbox_missing.json"):
        entries += json.loads((source / name).read_text(encoding="utf-8"))
    return [
        {
            "name": entry["name"],
            "group": "friedman" if "_fri_" in entry["name"] else "other",
            "rows": entry["n_rows"],
            "features": entry["n_features"],
        }
        for entry in sorted(entries, key=lambda entry: entry["name"])
    ]


def plain(cell: str) -> float:
    """Return the number at the head of a table cell, without its spread."""
    text = re.sub(r"\\tiny\{[^}]*\}", "", cell)
    text = re.sub(r"\\[a-z]+", "", text).replace("\\%", "")
    found = re.search(r"-?\d+(\.\d+)?", text)
    if found is None:
        raise ValueError(f"no number in table cell {cell!r}")
    return float(found.group())


def paper_rates(paper: Path) -> list[dict[str, Any]]:
    """Return rate, time and size by method, group and noise from the paper's tables."""
    rates = []
    text = paper.read_text(encoding="utf-8")
    for noise in (0.0, 0.001, 0.01, 0.1):
        label = "0.000" if noise == 0 else str(noise)
        table = text.split(f"\\label{{tab:mainResult-{label}}}")[1]
        table = table.split("\\bottomrule")[0].split("\\midrule", 1)[1]
        for line in table.split("\\\\"):
            cells = line.split("&")
            if len(cells) != 10 or "textbf" not in cells[1]:
                continue
            found = re.search(r"\\textbf\{([^}]*)\}", cells[1])
            assert found is not None
            method = NAMES.get(found.group(1), found.group(1))
            for group, first in (("strogatz", 2), ("feynman", 6)):
                r2, rate, seconds, size = map(plain, cells[first : first + 4])
                rates.append(
                    {
                        "method": method,
                        "group": group,
                        "noise": noise,
                        "rate": rate,
                        "r2": r2,
                        "time_s": seconds,
                        "complexity": size,
                        "source": "SR4MDL paper, result tables",
                    }
                )
    return rates


def srbench_rates(source: Path) -> list[dict[str, Any]]:
    """Return SRBench's rates over all problems, without those under a caution."""
    rates = []
    path = source / "srbench_groundtruth_summary.csv"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["suite"] != "all" or "ipynb" not in row["source"]:
                continue
            if row["caution"]:
                continue
            rate = float(row["symbolic_solution_rate_pct_mean_over_problems"])
            rates.append(
                {
                    "method": NAMES.get(row["algorithm"], row["algorithm"]),
                    "group": "all",
                    "noise": float(row["target_noise"]),
                    "rate": rate,
                    "source": "SRBench v2.0, 130 problems",
                }
            )
    return rates


def weighted(rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rates over both groups for methods without; add times to those with."""
    both = {
        (rate["method"], rate["noise"]): rate
        for rate in rates
        if rate["group"] == "all"
    }
    by_key: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for rate in rates:
        if rate["group"] != "all":
            key = (rate["method"], rate["noise"])
            by_key.setdefault(key, {})[rate["group"]] = rate
    new = []
    for (method, noise), groups in by_key.items():
        if set(groups) != set(PROBLEMS):
            continue
        entry = both.get((method, noise))
        if entry is None:
            entry = {
                "method": method,
                "group": "all",
                "noise": noise,
                "rate": round(over_problems(groups, "rate"), 2),
                "source": "mean over 119 + 14 problems",
            }
            new.append(entry)
        if all("time_s" in part for part in groups.values()):
            entry["time_s"] = round(over_problems(groups, "time_s"), 1)
    return new


def over_problems(groups: dict[str, dict[str, Any]], name: str) -> float:
    """Return the mean of a figure over the problems of both groups."""
    total: float = sum(PROBLEMS[group] * groups[group][name] for group in PROBLEMS)
    return total / sum(PROBLEMS.values())


def blackbox_scores(source: Path) -> list[dict[str, Any]]:
    """Return the published black-box scores."""
    scores = []
    path = source / "srbench_blackbox_summary.csv"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["subset"] not in ("all_122", "available_119"):
                continue
            scores.append(
                {
                    "method": NAMES.get(row["algorithm"], row["algorithm"]),
                    "symbolic": row["is_symbolic"] == "True",
                    "datasets": int(row["n_datasets"]),
                    "subset": row["subset"],
                    "r2_median": round(float(row["median_test_r2"]), 4),
                    "r2_mean": round(float(row["mean_test_r2"]), 4),
                    "complexity_median": round(float(row["median_model_size"]), 1),
                    "complexity_mean": round(float(row["mean_model_size"]), 1),
                    "time_mean_s": round(float(row["mean_training_time_s"]), 1),
                }
            )
    scores.append(
        {
            "method": "SR4MDL (paper)",
            "symbolic": True,
            "datasets": 122,
            "subset": "all_122",
            "r2_mean": 0.6258,
            "complexity_mean": 29.88,
            "time_mean_s": 541.7,
            "note": "may be training R2; see docs/benchmarks.md",
        }
    )
    return scores


def main() -> None:
    """Write the four files."""
    source, paper, output = (Path(argument) for argument in sys.argv[1:4])
    output.mkdir(parents=True, exist_ok=True)
    for name, problems in (
        ("groundtruth", groundtruth(source)),
        ("classic", classic(source)),
        ("blackbox", blackbox(source)),
    ):
        write(output / f"{name}.json", {"version": 1, "problems": problems})
    rates = paper_rates(paper) + srbench_rates(source)
    for method, group, noise, rate, note in OTHER_RATES:
        entry = {"method": method, "group": group, "noise": noise, "rate": rate}
        entry["source"] = "own publication or re-run by others"
        if note:
            entry["note"] = note
        rates.append(entry)
    rates += weighted(rates)
    write(
        output / "published.json",
        {"version": 1, "recovery": rates, "blackbox": blackbox_scores(source)},
    )


if __name__ == "__main__":
    main()
