import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sr4mdl.bench.isolation import Child
from sr4mdl.bench.progress import (
    BarProgress,
    PlainProgress,
    describe_row,
    format_duration,
)
from sr4mdl.bench.results import ResultFile, RunSpec, key_of, read_rows
from sr4mdl.bench.runner import RunnerConfig, plan_runs, run_all
from sr4mdl.errors import DataError

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def fakes_importable(monkeypatch):
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(TESTS), *([inherited] if inherited else [])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


class Silent:
    def __init__(self):
        self.started = None
        self.rows = []
        self.left = []
        self.stopped = False

    def start(self, n_runs, n_skipped):
        self.started = n_runs, n_skipped

    def finished(self, row, seconds_left):
        self.rows.append(row)
        self.left.append(seconds_left)

    def stop(self):
        self.stopped = True


def specs(method, *, mode="default", problem="Nguyen-1", suite="classic", **changes):
    base = {
        "suite": suite,
        "problem": problem,
        "seed": 23654,
        "noise": 0.0,
        "method": f"bench_fakes:{method}",
        "mode": mode,
        "time_s": 1.0,
        "n_rows": 400,
        "max_train_rows": 100,
    }
    return [RunSpec(**{**base, **changes})]


def run(tmp_path, wanted, **config):
    progress = Silent()
    with ResultFile(tmp_path / "rows.jsonl") as results:
        rows = run_all(wanted, results, RunnerConfig(**config), progress)
    assert progress.rows == rows
    assert progress.stopped
    assert read_rows([tmp_path / "rows.jsonl"]) == rows
    return rows


# Result files


def make_row(problem="p", seed=1, **other):
    return {
        "suite": "s",
        "problem": problem,
        "seed": seed,
        "noise": 0.0,
        "method": "m",
        "mode": "d",
        "budget": {"time_s": 1.0},
        **other,
    }


def test_rows_are_appended_and_read_back(tmp_path):
    path = tmp_path / "new" / "rows.jsonl"
    with ResultFile(path) as results:
        results.append(make_row(seed=1))
        results.append(make_row(seed=2))
        assert path.read_bytes().count(b"\n") == 2
    with ResultFile(path) as results:
        assert len(results.rows) == 2
        assert key_of(make_row(seed=2)) in results.done
        assert key_of(make_row(seed=3)) not in results.done


def test_the_key_holds_the_budget_but_not_the_outcome():
    assert key_of(make_row(formula="x")) == key_of(make_row())
    assert key_of(make_row(budget={"time_s": 2.0})) != key_of(make_row())
    assert key_of(make_row(noise=0.1)) != key_of(make_row())


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_torn_last_line_is_removed(tmp_path, cut):
    path = tmp_path / "rows.jsonl"
    with ResultFile(path) as results:
        results.append(make_row(seed=1))
        results.append(make_row(seed=2))
    content = path.read_bytes()
    path.write_bytes(content[: -1 - cut])
    assert [row["seed"] for row in read_rows([path])] == [1]
    with ResultFile(path) as results:
        assert [row["seed"] for row in results.rows] == [1]
        results.append(make_row(seed=2))
    assert path.read_bytes() == content


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path):
    path = tmp_path / "rows.jsonl"
    with ResultFile(path) as results:
        results.append(make_row(seed=1))
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert len(read_rows([path])) == 1
    with ResultFile(path) as results:
        assert len(results.rows) == 1
    assert path.read_bytes() == content


def test_damage_inside_a_file_is_an_error(tmp_path):
    path = tmp_path / "rows.jsonl"
    good = json.dumps(make_row())
    path.write_text(f"{good}\nrubbish\n{good}\n")
    with pytest.raises(DataError, match="line 2: not a result row"):
        read_rows([path])
    with pytest.raises(DataError, match="line 2: not a result row"):
        ResultFile(path)


def test_two_runners_cannot_share_a_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    with ResultFile(path), pytest.raises(DataError, match="another runner"):
        ResultFile(path)
    with ResultFile(path):
        pass


def test_failed_rows_can_be_dropped_to_be_done_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    with ResultFile(path) as results:
        results.append(make_row(seed=1, error="crash"))
        results.append(make_row(seed=2, error=None))
    with ResultFile(path, retry_errors=True) as results:
        assert [row["seed"] for row in results.rows] == [2]
        results.append(make_row(seed=3))
    assert [row["seed"] for row in read_rows([path])] == [2, 3]


def test_packed_files_are_read_and_never_written(tmp_path):
    plain = tmp_path / "rows.jsonl"
    with ResultFile(plain) as file:
        file.append({"problem": "a"})
        file.append({"problem": "b"})
    packed = tmp_path / "rows.jsonl.gz"
    content = gzip.compress(plain.read_bytes())
    packed.write_bytes(content)
    assert [row["problem"] for row in read_rows([packed])] == ["a", "b"]
    with pytest.raises(DataError, match="rows are only added to plain files"):
        ResultFile(packed)
    for damaged in (content[:-9], b"plain text", content[:20] + bytes(9), b""):
        packed.write_bytes(damaged)
        with pytest.raises(DataError, match="not a whole gzip file"):
            read_rows([packed])


def test_not_a_number_never_reaches_a_file(tmp_path):
    with (
        ResultFile(tmp_path / "rows.jsonl") as results,
        pytest.raises(ValueError, match="JSON compliant"),
    ):
        results.append(make_row(r2_test=float("nan")))
    assert (tmp_path / "rows.jsonl").read_bytes() == b""


def test_of_doubled_rows_the_last_counts(tmp_path):
    for name, formula in (("a", "old"), ("b", "new")):
        with ResultFile(tmp_path / name) as results:
            results.append(make_row(formula=formula))
    (row,) = read_rows([tmp_path / "a", tmp_path / "b"])
    assert row["formula"] == "new"


# Runs


def test_a_good_run_is_a_whole_row(tmp_path):
    wanted = specs(
        "Product", mode="plain", problem="feynman_I_12_1", suite="groundtruth"
    )
    (row,) = run(tmp_path, wanted)
    assert row["recovered"] is True
    assert row["recovered_numeric"] is True
    assert row["verdict"] == "difference is zero"
    assert row["formula"] == "mu*Nn"
    assert row["r2_test"] == row["r2_test_formula"] == 1.0
    assert row["complexity"] == row["complexity_simplified"] == row["length"] == 3
    assert row["group"] == "feynman"
    assert (row["n_train"], row["n_test"], row["n_features"]) == (100, 100, 2)
    assert row["budget"] == {"time_s": 1.0, "n_rows": 400, "max_train_rows": 100}
    assert row["schema"] == 1
    assert row["error"] is None
    assert row["versions"]["sympy"]
    assert 0 <= row["time_s"] < 1


def test_offset_is_forgiven_by_the_rule_but_not_by_the_numbers(tmp_path):
    wanted = specs(
        "Product", mode="shifted", problem="feynman_I_12_1", suite="groundtruth"
    )
    (row,) = run(tmp_path, wanted)
    assert row["recovered"] is True
    assert row["recovered_numeric"] is False
    assert 0.9 < row["r2_test"] < 1


def test_training_scores_are_against_the_noisy_target(tmp_path):
    wanted = specs(
        "Product",
        mode="plain",
        problem="feynman_I_12_1",
        suite="groundtruth",
        noise=0.1,
    )
    (row,) = run(tmp_path, wanted)
    assert row["r2_test"] == 1.0
    assert row["r2_train"] < 0.999


def test_a_crash_is_a_row_with_its_error(tmp_path):
    (row,) = run(tmp_path, specs("Crash"))
    assert row["error"] == "ValueError: broken on purpose"
    assert row["stop_reason"] == "failed"
    assert row["recovered"] is None
    assert row["group"] == "nguyen"


def test_a_death_by_signal_is_a_row(tmp_path):
    (row,) = run(tmp_path, specs("Dies"))
    assert row["error"].startswith("killed by SIGSEGV")


def test_a_hang_is_killed_with_all_it_started(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_PIDS", str(tmp_path / "pids"))
    (tmp_path / "pids").mkdir()
    (row,) = run(tmp_path, specs("Hang", time_s=0.1), grace=1.0)
    assert row["error"] == "killed at the hard limit of 1.15 s while fitting"
    numbers = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    assert len(numbers) == 2
    assert_all_gone(numbers)


def test_what_a_good_run_leaves_behind_is_killed_too(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_PIDS", str(tmp_path / "pids"))
    (tmp_path / "pids").mkdir()
    (row,) = run(tmp_path, specs("Orphan"))
    assert row["error"] is None
    (number,) = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    assert_all_gone([number])


def test_too_much_memory_is_an_error(tmp_path):
    (row,) = run(tmp_path, specs("Hog"), memory_gib=4.0)
    assert "MemoryError" in row["error"]


def test_prints_of_a_method_are_not_taken_for_messages(tmp_path):
    (row,) = run(tmp_path, specs("Chatty"))
    assert row["error"] is None
    assert row["recovered"] is False


def test_predictions_that_are_not_finite_are_named(tmp_path):
    (row,) = run(tmp_path, specs("NotFinite"))
    assert row["r2_test"] is None
    assert row["error"] == "prediction not finite on 1000 of 1000 test rows"
    assert row["verdict"] == "no formula"


@pytest.mark.slow
def test_a_verdict_that_hangs_is_killed_and_the_fit_kept(tmp_path):
    wanted = specs("Tower", problem="feynman_I_12_1", suite="groundtruth")
    (row,) = run(tmp_path, wanted, step_limit=0.5, judge_slack=2.0)
    assert row["error"] is None
    assert row["recovered"] is False
    assert row["verdict"].startswith("judge failed: killed at the hard limit of 4 s")
    assert row["r2_test"] == 1.0
    assert row["recovered_numeric"] is False


def test_a_broken_judge_is_an_error_and_no_silent_no(tmp_path, monkeypatch):
    # A module that hides the real one makes every verdict fail.
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sympy.py").write_text("raise ImportError('no sympy here')")
    paths = [str(broken), os.environ["PYTHONPATH"]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    (row,) = run(tmp_path, specs("Quick"))
    assert row["error"] == "judge failed: ImportError: no sympy here"
    assert row["recovered"] is False
    assert row["formula"] is not None


def test_an_answer_that_is_no_formula_is_an_error(tmp_path):
    (row,) = run(tmp_path, specs("NotText"))
    assert "ParseError" in row["error"]
    assert row["formula"] == "x +"


def test_a_method_cannot_change_the_rows_it_is_scored_on(tmp_path):
    wanted = specs("Meddler", problem="feynman_I_12_1", suite="groundtruth")
    (row,) = run(tmp_path, wanted)
    assert row["r2_train"] == 1.0


def test_a_missing_data_set_is_a_row_that_says_so(tmp_path):
    wanted = specs("Quick", problem="1595_poker", suite="blackbox")
    (row,) = run(tmp_path, wanted, data_dir=str(tmp_path))
    assert row["stop_reason"] == "data missing"
    assert "1595_poker" in row["error"]
    assert row["recovered"] is None


def test_finished_runs_are_skipped_and_doubles_done_once(tmp_path):
    wanted = specs("Quick") + specs("Quick") + specs("Quick", seed=15795)
    assert len(run(tmp_path, wanted, n_jobs=2)) == 2
    progress = Silent()
    with ResultFile(tmp_path / "rows.jsonl") as results:
        more = run_all(
            wanted + specs("Quick", seed=860), results, RunnerConfig(), progress
        )
    assert progress.started == (1, 2)
    assert [row["seed"] for row in more] == [860]


def test_an_interrupt_kills_what_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_PIDS", str(tmp_path / "pids"))
    (tmp_path / "pids").mkdir()

    class Interrupting(Silent):
        def finished(self, row, seconds_left):
            while not any((tmp_path / "pids").iterdir()):
                time.sleep(0.01)
            raise KeyboardInterrupt

    progress = Interrupting()
    wanted = specs("Hang", time_s=60.0) + specs("Crash")
    with ResultFile(tmp_path / "rows.jsonl") as results:
        with pytest.raises(KeyboardInterrupt):
            run_all(wanted, results, RunnerConfig(n_jobs=2), progress)
        assert len(results.rows) == 1
    assert progress.stopped
    assert_all_gone([int(path.name) for path in (tmp_path / "pids").iterdir()])


def assert_all_gone(numbers, seconds=5.0):
    deadline = time.monotonic() + seconds
    while alive := [number for number in numbers if is_alive(number)]:
        assert time.monotonic() < deadline, f"still alive: {alive}"
        time.sleep(0.05)


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{number}/stat")
    # A dead process whose parent has not looked yet still has a number.
    return not (status.exists() and status.read_text().rpartition(")")[2][1] == "Z")


RUNNER = """
import sys
from pathlib import Path
from sr4mdl.bench.progress import PlainProgress
from sr4mdl.bench.results import ResultFile
from sr4mdl.bench.runner import RunnerConfig, plan_runs, run_all

specs = plan_runs(
    "classic",
    ["Nguyen-1", "Nguyen-2", "Nguyen-3", "Nguyen-4", "Nguyen-5"],
    [("bench_fakes:Quick", "default"), ("bench_fakes:Crash", "default")],
    seeds=[23654], noises=[0.0, 0.1], time_s=1.0, n_rows=400, max_train_rows=100,
)
with ResultFile(Path(sys.argv[1])) as results:
    run_all(specs, results, RunnerConfig(n_jobs=2), PlainProgress())
"""


@pytest.mark.slow
def test_three_kills_lose_and_double_no_row(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    pids = tmp_path / "pids"
    pids.mkdir()
    monkeypatch.setenv("FAKE_PIDS", str(pids))
    chance = random.Random(7)
    seen = b""
    for kill in range(1, 4):
        # Not the pytest process itself: SIGKILL leaves no chance to clean up.
        runner = start_runner(path)
        deadline = time.monotonic() + 60
        while path.exists() is False or path.read_bytes().count(b"\n") < 3 * kill:
            assert runner.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 1.0))
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        content = path.read_bytes()
        assert content.startswith(seen.rpartition(b"\n")[0])
        seen = content
    assert_all_gone([int(number.name) for number in pids.iterdir()])
    # A kill in the middle of a write leaves a torn line.
    with path.open("ab") as file:
        file.write(b'{"suite": "classic", "prob')
    assert start_runner(path).wait(120) == 0
    lines = path.read_bytes().splitlines()
    assert path.read_bytes().startswith(seen)
    keys = [key_of(json.loads(line)) for line in lines]
    assert len(keys) == 20
    assert len(set(keys)) == 20
    assert (
        sum("on purpose" in (json.loads(line)["error"] or "") for line in lines) == 10
    )


def start_runner(path):
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(path)], stderr=subprocess.DEVNULL
    )


# Plans, limits, display


def test_plan_has_seeds_outermost_and_methods_together():
    plan = plan_runs(
        "classic",
        ["b", "a"],
        [("m", "x"), ("m", "y")],
        seeds=[1, 2],
        noises=[0.0, 0.1],
        time_s=1.0,
        n_rows=10,
        max_train_rows=5,
    )
    assert len(plan) == len({key_of(spec.to_row()) for spec in plan}) == 16
    assert [spec.seed for spec in plan] == [1] * 8 + [2] * 8
    assert [spec.noise for spec in plan[:8]] == [0.0] * 4 + [0.1] * 4
    # sha256("b") = 3e23..., sha256("a") = ca97...
    assert [spec.problem for spec in plan[:4]] == ["b", "b", "a", "a"]
    assert [spec.mode for spec in plan[:4]] == ["x", "y", "x", "y"]


def test_plan_does_not_depend_on_the_order_of_the_problems():
    names = [f"feynman_{number}" for number in range(30)]
    settings = {
        "seeds": [1], "noises": [0.0], "time_s": 1.0, "n_rows": 10, "max_train_rows": 5
    }  # fmt: skip
    plan = plan_runs("classic", names, [("m", "x")], **settings)
    assert plan == plan_runs("classic", names[::-1], [("m", "x")], **settings)
    assert [spec.problem for spec in plan] != names


def test_limits_by_hand():
    config = RunnerConfig(grace=10.0, step_limit=5.0, judge_slack=3.0)
    assert config.fit_limit(20.0) == 40.0
    assert config.judge_limit == 23.0


@pytest.mark.parametrize(
    "wrong", [{"n_jobs": 0}, {"memory_gib": 0.0}, {"grace": -1.0}, {"n_threads": 0}]
)
def test_impossible_limits_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        RunnerConfig(**wrong)


def test_a_child_that_is_closed_early_is_gone():
    child = Child({"kind": "judge", "truth": "x", "prediction": "x"})
    number = child._process.pid
    child.close()
    assert_all_gone([number])
    assert child.read() == []


def test_a_worker_without_request_ends():
    done = subprocess.run(
        [sys.executable, "-m", "sr4mdl.bench.worker"], input=b"", check=False
    )
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7200, "2 h 0 min")],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


def test_description_of_a_row():
    row = make_row(recovered=True, r2_test=0.98765, time_s=1.25, error=None)
    assert describe_row({**row, "mode": "default"}) == (
        "p seed 1 noise 0 m: recovered, R2 0.9877, 1.2 s"
    )
    assert describe_row(make_row(error="boom")).endswith("m/d: error: boom")


def test_plain_progress_counts_and_estimates(capsys):
    progress = PlainProgress()
    progress.start(2, 5)
    progress.finished(make_row(error="boom"), 90.0)
    progress.stop()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "2 runs to do, 5 done before"
    assert lines[1].startswith("[1/2] p seed 1")
    assert lines[1].endswith("about 1 min 30 s left")


def test_the_bar_runs_without_a_terminal(capsys):
    progress = BarProgress()
    progress.start(1, 0)
    progress.finished(make_row(recovered=True), 0.0)
    progress.stop()
    assert "recovered" in capsys.readouterr().err


def test_the_estimate_follows_the_pace(tmp_path):
    progress = Silent()
    wanted = specs("Quick") + specs("Quick", seed=1) + specs("Quick", seed=2)
    since = time.monotonic()
    with ResultFile(tmp_path / "rows.jsonl") as results:
        run_all(wanted, results, RunnerConfig(), progress)
    passed = time.monotonic() - since
    assert progress.left[-1] == 0
    assert 0 < progress.left[0] < 4 * passed
