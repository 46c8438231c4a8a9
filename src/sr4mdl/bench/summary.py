"""Aggregates of rows, as SRBench takes them: over trials first, then over problems."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sr4mdl.bench.metrics import mean, median, wilson_interval
from sr4mdl.bench.results import Row


@dataclass(frozen=True, slots=True)
class Group:
    """Aggregate of the rows of one method and mode at one noise level."""

    method: str
    """Name of the method."""
    mode: str
    """Mode of the method."""
    noise: float
    """Noise level."""
    n_problems: int
    """Problems with at least one row."""
    n_runs: int
    """Rows."""
    n_errors: int
    """Rows with an error."""
    rate: float | None
    """Mean over problems of the share of recovered trials; None without formulas."""
    rate_low: float | None
    """Lower end of Wilson's 95 % interval, with problems as trials."""
    rate_high: float | None
    """Upper end of that interval."""
    rate_numeric: float | None
    """The same mean by the numeric verdict."""
    r2_median: float | None
    """Median over problems of the median test R2; a run without R2 counts as 0."""
    r2_mean: float | None
    """Mean over problems of the median test R2; a run without R2 counts as 0."""
    complexity_median: float | None
    """Median over problems of the median model size."""
    complexity_mean: float | None
    """Mean over problems of the median model size."""
    time_median_s: float | None
    """Median over problems of the median fit time."""
    time_mean_s: float | None
    """Mean over problems of the median fit time."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)

    @property
    def label(self) -> str:
        """Name of method and mode together."""
        return label_of(self.method, self.mode)


def label_of(method: str, mode: str) -> str:
    """Return one name for a method in a mode."""
    return method if mode == "default" else f"{method}/{mode}"


def is_data_missing(row: Row) -> bool:
    """Return whether a row only says that the data set was not there."""
    return row.get("stop_reason") == "data missing"


def group_rows(rows: Iterable[Row]) -> list[Group]:
    """Return the aggregates by method, mode and noise; missing data sets left out."""
    parts: dict[tuple[str, str, float], list[Row]] = defaultdict(list)
    for row in rows:
        if not is_data_missing(row):
            parts[row["method"], row["mode"], row["noise"]].append(row)
    return [_group(*key, part) for key, part in sorted(parts.items())]


def by_problem(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each problem, in order of the names."""
    problems: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        problems[row["problem"]].append(row)
    return dict(sorted(problems.items()))


def _share(rows: list[Row], name: str) -> float:
    return sum(bool(row.get(name)) for row in rows) / len(rows)


def _medians(problems: Iterable[list[Row]], name: str) -> list[float]:
    values = []
    for part in problems:
        value = median(row[name] for row in part if row.get(name) is not None)
        if value is not None:
            values.append(value)
    return values


def _group(method: str, mode: str, noise: float, rows: list[Row]) -> Group:
    problems = by_problem(rows).values()
    with_truth = [part for part in problems if _has_truth(part)]
    rate = low = high = numeric = None
    if with_truth:
        shares = [_share(part, "recovered") for part in with_truth]
        rate = mean(shares)
        low, high = wilson_interval(sum(shares), len(shares))
        numeric = mean(_share(part, "recovered_numeric") for part in with_truth)
    # A model without a score explains nothing: it gets the score of the mean.
    r2 = [
        median(0.0 if row.get("r2_test") is None else row["r2_test"] for row in part)
        for part in problems
    ]
    scores = [value for value in r2 if value is not None]
    sizes = _medians(problems, "complexity")
    times = _medians(problems, "time_s")
    return Group(
        method=method,
        mode=mode,
        noise=noise,
        n_problems=len(problems),
        n_runs=len(rows),
        n_errors=sum(bool(row.get("error")) for row in rows),
        rate=rate,
        rate_low=low,
        rate_high=high,
        rate_numeric=numeric,
        r2_median=median(scores),
        r2_mean=mean(scores),
        complexity_median=median(sizes),
        complexity_mean=mean(sizes),
        time_median_s=median(times),
        time_mean_s=mean(times),
    )


def _has_truth(rows: list[Row]) -> bool:
    """Whether the problem has a true formula: all suites but the black box."""
    suite: str = rows[0]["suite"]
    return suite != "blackbox"
