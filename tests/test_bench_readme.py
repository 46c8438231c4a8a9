"""Documents, the table of what the search adds, and the README's block."""

import json
from pathlib import Path

import pytest

from bench_fakes import PNG, row
from sr4mdl.bench import measures
from sr4mdl.bench.documents import read_results, write_document
from sr4mdl.bench.gains import gain_table, gains
from sr4mdl.bench.methods import mode_place
from sr4mdl.bench.problems import read_published
from sr4mdl.bench.readme import (
    BEGIN,
    END,
    recovery_by_noise,
    replace_block,
    results_block,
)
from sr4mdl.bench.report import commands, write_report
from sr4mdl.bench.summary import group_rows
from sr4mdl.errors import DataError

ROOT = Path(__file__).parents[1]


def shares(top, n_states):
    return {
        **{f"top{k}": top for k in (1, 3, 10, 30)},
        "by_chance": 0.02,
        "value_auc": 0.9,
        "n_states": n_states,
    }


def documents():
    step = {
        "columns": ["x", "z"], "missing": 3.0, "estimate": 4.0, "spread": 1.0,
        "n_correct": 1, "move": "x*z", "right": 0.5, "right_spread": 0.25,
        "wrong": [0.25, 4.0, 5.0, 6.0], "share_at_or_below": 0.25,
        "share_by_policy": 0.0,
    }  # fmt: skip
    end = {
        **step, "columns": ["x*z"], "missing": 0.0, "move": None, "right": None,
        "right_spread": None, "wrong": [], "share_at_or_below": None,
        "share_by_policy": None,
    }  # fmt: skip
    figures = dict.fromkeys(measures.VALUE_MEASURES, 0.5)
    record = {**figures, "mean_length": 10.0, "relative_rmse": 0.05}
    panels = {
        "rows": [{"rows": 25, **record}], "unary": [{"unary": 1, **record}],
        "strategy": [{"strategy": "concurrent", "seed": 0, **record}],
    }  # fmt: skip
    return [
        {"bench": "casestudy", "name": "case",
         "cases": [{"problem": "p", "formula": "x*z", "steps": [step, end]}]},
        {"bench": "guidance", "name": "g", "suite": "groundtruth",
         "all": shares(0.7, 10), "root": shares(0.6, 2),
         "by_value": {"all": shares(0.3, 4), "root": shares(0.0, 0)}},
        {"bench": "mdlformer", "name": "small", "pairs": 8, "rows": 32,
         "formula_constants": "decades", "panels": panels, **figures},
        {"bench": "mdlformer", "name": "paper", "pairs": 8, "rows": 200,
         "formula_constants": "uniform", "panels": {}, **figures},
        {"bench": "speed", "name": "s", "cores": 2, "load_before": 0.5,
         "load_after": 1.0, "evaluation": {"n_expressions": 1000, "n_rows": 200,
                                           "ratio": 12.34}},
    ]  # fmt: skip


def test_files_of_rows_and_documents_are_told_apart(tmp_path):
    rows = tmp_path / "rows.jsonl"
    # A file of one row is a JSON document too.
    rows.write_text(json.dumps(row("a")) + "\n")
    write_document(tmp_path / "made" / "one.json", {"bench": "speed"})
    found, others = read_results([rows, tmp_path / "made" / "one.json"])
    assert [one["problem"] for one in found] == ["a"]
    assert others == [{"name": "one", "bench": "speed"}]
    with pytest.raises(ValueError, match="JSON"):
        write_document(tmp_path / "bad.json", {"bench": "x", "value": float("nan")})
    write_document(tmp_path / "two.json.gz", {"bench": "speed"})
    assert (tmp_path / "two.json.gz").read_bytes()[:2] == bytes([0x1F, 0x8B])
    _, (packed,) = read_results([tmp_path / "two.json.gz"])
    assert packed == {"name": "two", "bench": "speed"}
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(DataError, match="not a result row"):
        read_results([tmp_path / "text"])


def test_report_of_documents_alone(tmp_path):
    written = write_report([], tmp_path, documents())
    assert {path.name for path in written} == {
        "report.md", "casestudy.png", "ablation.png",
    }  # fmt: skip
    for path in written[1:]:
        assert path.read_bytes().startswith(PNG)
    text = written[0].read_text()
    assert "| 0 | `x*z` | 3 | 4.0 +- 1.0 | 0.5 +- 0.2 | 4 | 25.0 % | 0.0 % |" in text
    assert "| 1 | - | 0 | 4.0 +- 1.0 | - | - | - | - |" in text
    assert "| groundtruth | all states | value | 4 | 30.0 %" in text
    # Roots ranked by value: there were none.
    assert "| groundtruth | roots | value" not in text
    assert "| paper | 8 | 200 | uniform | 0.500 |" in text
    assert "### By unary" in text
    assert "(1,000 formulas, 200 rows) | 12.3 times |" in text
    assert "## Failures" not in text


def test_gains_by_hand():
    rows = [
        row("easy", True, mode="closing"),
        row("hard", False, mode="closing"),
        row("odd", False, mode="closing", recovered_numeric=True),
        row("never", False, mode="closing"),
        row("easy", True),
        row("hard", True),
        row("odd", True),
        row("never", False),
        row("other", True),  # closing has no such run
        row("hard", True, seed=2),  # nor this
        row("hard", True, noise=0.1),  # nor this level
        row("easy", True, mode="uniform"),
        row("hard", False, mode="uniform"),
        row("a", True, method="gplearn", mode="default"),
    ]
    found = {gain.mode: gain for gain in gains(rows)}
    assert set(found) == {"closing", "policy", "uniform"}
    policy = found["policy"]
    assert (policy.n_runs, policy.n_recovered) == (4, 3)
    assert (policy.n_hard, policy.n_hard_recovered) == (3, 2)
    assert (policy.n_hard_numeric, policy.n_hard_numeric_right) == (2, 1)
    assert (found["uniform"].n_hard, found["uniform"].n_hard_recovered) == (1, 0)
    _, body = gain_table(list(found.values()))
    assert [line[0] for line in body] == ["policy", "closing", "uniform"]
    assert body[0][2:6] == ["4", "3 (75.0 %)", "3", "2 (66.7 %)"]
    assert gains([row("a", True)]) == []
    # Nothing is hard: no interval, no division by 0.
    (line,) = gain_table(gains([row("a", True, mode="closing")]))[1]
    assert line[4:7] == ["0", "-", "-"]


def test_gains_beside_named_budgets():
    rows = [
        row("a", False, mode="closing, 20 s"),
        row("a", True, mode="policy, 20 s"),
    ]
    assert [gain.n_hard_recovered for gain in gains(rows)] == [0, 1]


def test_modes_stand_in_their_methods_order():
    assert mode_place("sr4mdl", "policy, 20 s") == 0
    assert mode_place("sr4mdl", "mdl") == 1
    assert mode_place("elsewhere", "mdl") == 0
    assert mode_place("sr4mdl", "unknown") > mode_place("sr4mdl", "closing")


def test_modes_run_alike_share_a_command():
    budget = {"time_s": 20.0, "n_rows": 100_000, "max_train_rows": 10_000}
    rows = [row("a", mode=mode, budget=budget) for mode in ("mdl", "gp", "policy")]
    rows.append(row("a", noise=0.1, budget=budget))
    start = "sr4mdl bench groundtruth --method sr4mdl --mode "
    end = "--time 20 --data DIR"
    assert commands(rows) == [
        f"{start}gp,mdl --seeds 1 --noise 0 {end}",
        f"{start}policy --seeds 1 --noise 0,0.1 {end}",
    ]


def test_block_is_replaced_and_nothing_else():
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replace_block(text, "new")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert replace_block(once, "new") == once
    for wrong in ("", BEGIN, f"{END} {BEGIN}", text + text):
        with pytest.raises(DataError, match="must hold one"):
            replace_block(wrong, "new")


def test_the_readme_has_the_place_for_it():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nnew\n" in replace_block(text, "new")


def test_a_rate_on_fewer_problems_says_so():
    rows = [row("a", True), row("b", False), row("a", True, noise=0.1)]
    _, body = recovery_by_noise(group_rows(rows), [])
    # One of one: by Wilson from 1 / (1 + 1.96^2) = 20.7 % on.
    assert body == [
        ["**sr4mdl/policy**", "2", "50.0 (9.5 to 90.5)",
         "100.0 (20.7 to 100.0); 1 problems"]
    ]  # fmt: skip


def test_block_of_results():
    rows = [
        row("a", True, time_s=1.0),
        row("b", False, recovered_numeric=True),
        row("a", False, mode="closing"),
        row("b", False, mode="closing"),
        row("t1", None, suite="blackbox", r2_test=0.8, complexity=20),
    ]
    published = read_published()
    block = results_block(rows, documents(), published)
    assert "| **sr4mdl/policy** | 2 | 50.0 (9.5 to 90.5) |" in block
    assert "| SR4MDL (paper), published | - | 42.9 |" in block
    assert "2 of 2 runs are right by numbers" in block
    assert "a recovery takes 1.0 s in the median" in block
    assert "| policy | 0 | 2 | 1 (50.0 %) | 2 | 1 (50.0 %) |" in block
    assert "**sr4mdl/policy** | measured | 1 | 0.800" in block
    assert "--mode policy" in block
    with pytest.raises(DataError, match="nothing"):
        results_block([], [], published)


def test_published_figures_from_a_file(tmp_path):
    path = tmp_path / "figures.json"
    path.write_text('{"recovery": [], "blackbox": []}')
    assert read_published(path) == {"recovery": [], "blackbox": []}
    path.write_text('{"recovery": []}')
    with pytest.raises(DataError, match="blackbox"):
        read_published(path)
    with pytest.raises(DataError, match="no published figures"):
        read_published(tmp_path / "none.json")
