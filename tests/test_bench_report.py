import pytest

from bench_fakes import PNG, row
from sr4mdl.bench.report import (
    blackbox_entries,
    commands,
    mode_table,
    name_budgets,
    published_table,
    recovered_within,
    recovery_table,
    time_table,
    to_markdown,
    write_report,
)
from sr4mdl.bench.summary import group_rows
from sr4mdl.errors import DataError


def rows_of_all_suites():
    return [
        row("a", True),
        row("b", False, time_s=20.0),
        row("s", True, group="strogatz", time_s=0.5),
        row("a", True, noise=0.01),
        row("a", False, mode="uniform"),
        row("b", True, mode="uniform", time_s=8.0),
        row("s", True, mode="uniform", group="strogatz"),
        row("c", False, method="gplearn", mode="default", error="MemoryError"),
        row("d", False, verdict="time-out of 60 s in: ratio"),
        row("Nguyen-1", True, suite="classic", group="nguyen"),
        row("Jin-1", False, suite="classic", group="jin"),
        row("t1", None, suite="blackbox", group="other", r2_test=0.8, complexity=20),
        row("t2", None, suite="blackbox", group="other", r2_test=0.9, complexity=30),
        row(
            "1595_poker",
            None,
            suite="blackbox",
            group="other",
            stop_reason="data missing",
            error="data set missing: 1595_poker",
            time_s=None,
            versions=None,
        ),
    ]


def test_report_has_every_section_and_picture(tmp_path):
    written = write_report(rows_of_all_suites(), tmp_path / "out")
    text = written[0].read_text()
    for heading in (
        "## Recovery on the ground-truth problems",
        "### Feynman",
        "### Strogatz",
        "### Published rates, for comparison",
        "### Recovery against time",
        "## Recovery on the classic problems",
        "## Modes",
        "## Black-box problems",
        "## Failures",
        "## Commands",
    ):
        assert heading in text
    names = {path.name for path in written}
    assert names == {
        "report.md",
        "recovery_by_noise.png",
        "recovery_by_time.png",
        "modes.png",
        "blackbox.png",
    }
    for path in written[1:]:
        assert path.read_bytes().startswith(PNG)
        assert f"({path.name})" in text
    assert "| gplearn | MemoryError | 1 | c |" in text
    assert "Data sets missing: 1595_poker." in text
    assert "Verdict not reached in 1 runs, counted as not recovered: d." in text
    assert "Measured on 2 data sets." in text
    assert "SR4MDL (paper)" in text


def test_report_of_one_suite_leaves_the_others_out(tmp_path):
    written = write_report([row("Nguyen-1", suite="classic", group="nguyen")], tmp_path)
    assert [path.name for path in written] == ["report.md"]
    text = written[0].read_text()
    assert "Black-box" not in text
    assert "## Modes" not in text
    assert text.rstrip().endswith("```")
    assert "None." in text


def test_a_report_of_nothing_is_refused(tmp_path):
    with pytest.raises(DataError, match="no rows"):
        write_report([], tmp_path)


def test_recovery_table_by_hand():
    header, body = recovery_table([row("a", True), row("b"), row("c"), row("d")])
    cells = dict(zip(header, body[0], strict=True))
    assert cells["method"] == "sr4mdl/policy"
    assert cells["recovered %"] == "25.0"
    # Wilson for 1 of 4.
    assert cells["95 % interval"] == "4.6 to 69.9"
    assert cells["problems"] == cells["runs"] == "4"


def test_time_table_counts_only_what_was_recovered_in_time():
    rows = [
        row("a", True, time_s=0.5),
        row("b", True, time_s=4.0),
        row("c", False, time_s=0.1),
        row("d", False, time_s=None, error="crash"),
    ]
    assert recovered_within(rows, 1.0) == 0.25
    assert recovered_within(rows, 4.0) == 0.5
    header, body = time_table(rows)
    assert header == ["method", "noise", "1 s", "2 s", "5 s"]
    assert body == [["sr4mdl/policy", "0", "25.0", "25.0", "50.0"]]


def test_mode_table_pairs_trials():
    rows = [
        row("a", True),
        row("b", False),
        row("c", True),
        row("a", False, mode="uniform"),
        row("b", True, mode="uniform"),
        row("d", True, mode="uniform"),
    ]
    header, body = mode_table(rows)
    first, second = (dict(zip(header, line, strict=True)) for line in body)
    assert first["mode"] == "policy"
    assert first["gained / lost"] == "-"
    # Only a and b are in both.
    assert second["gained / lost"] == "1 / 1 of 2"
    assert mode_table([row("a"), row("b")]) is None


def test_budgets_become_part_of_the_name_where_they_differ():
    other = row("a", budget={"time_s": 60.0, "n_rows": 100, "max_train_rows": 50})
    named = name_budgets([row("a"), other])
    assert [r["mode"] for r in named] == ["policy, 20 s", "policy, 60 s"]
    assert other["mode"] == "policy"
    assert name_budgets([row("a")])[0]["mode"] == "policy"
    assert len(group_rows(named)) == 2


def test_published_table_puts_the_best_first():
    rates = [
        {"method": "low", "group": "all", "noise": 0.0, "rate": 10.0},
        {"method": "low", "group": "all", "noise": 0.1, "rate": 5.0},
        {
            "method": "units",
            "group": "feynman",
            "noise": 0.0,
            "rate": 90.0,
            "note": "u",
        },
    ]
    _, body = published_table(rates)
    assert body == [
        ["units", "Feynman", "90.0", "-", "-", "-", "u"],
        ["low", "both", "10.0", "-", "-", "5.0", ""],
    ]


def test_black_box_ranks_measured_and_published_together():
    rows = [row("t1", None, suite="blackbox", r2_test=0.8, complexity=20)]
    published = [
        {"method": "big", "subset": "all_122", "r2_mean": 0.1, "complexity_mean": 9.0,
         "datasets": 122},
        {"method": "big", "subset": "available_119", "r2_mean": 0.9,
         "complexity_mean": 60.0, "datasets": 119},
        {"method": "worse", "subset": "all_122", "r2_mean": 0.7,
         "complexity_mean": 21.0, "datasets": 122},
    ]  # fmt: skip
    entries = blackbox_entries(group_rows(rows), published)
    assert [(e["method"], e["rank"], e["measured"]) for e in entries] == [
        ("big", 1, False),
        ("sr4mdl/policy", 1, True),
        ("worse", 2, False),
    ]
    assert entries[0]["datasets"] == 119


def test_commands_make_the_rows_again():
    rows = [row("a"), row("a", noise=0.01), row("a", seed=2)]
    rows.append(row("n", suite="classic", method="linear", mode="default"))
    assert commands(rows) == [
        "sr4mdl bench classic --method linear --seeds 1 --noise 0 --time 20",
        "sr4mdl bench groundtruth --method sr4mdl --mode policy --seeds 2 "
        "--noise 0,0.01 --time 20 --rows 100 --train-rows 50 --data DIR",
    ]
    assert commands(name_budgets(rows)) == commands(rows)


def test_markdown():
    assert to_markdown((["a", "b"], [["1", "2"]])) == (
        "| a | b |\n| --- | --- |\n| 1 | 2 |"
    )
