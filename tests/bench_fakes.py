"""Methods for tests of the benchmark runner, and rows for tests of the report.

Each method does one thing, well or badly.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from sr4mdl.bench.methods import MethodResult


class Fake:
    name = "fake"
    modes = ("default",)
    distribution = "numpy"

    def __init__(self, mode):
        self.mode = mode

    def fit(self, X, y, names, *, time_limit, random_state):
        self.act(X, y)
        return self.answer(X, y, names)

    def act(self, X, y):
        pass

    def answer(self, X, y, names):
        value = float(np.mean(y))
        return MethodResult(
            repr(value), lambda X: np.full(len(X), value), 1, "finished"
        )


class Quick(Fake):
    """Leaves its process number, so that a test can see whether it ended."""

    def act(self, X, y):
        folder = os.environ.get("FAKE_PIDS")
        if folder:
            (Path(folder) / str(os.getpid())).touch()
        time.sleep(0.05)


class Product(Fake):
    modes = ("plain", "shifted", "other")

    def answer(self, X, y, names):
        shift = {"plain": 0.0, "shifted": 1.0, "other": 0.0}[self.mode]
        formula = f"{names[0]}*{names[1]}"
        if self.mode == "shifted":
            formula += " + 1"
        if self.mode == "other":
            formula = f"{names[0]} + {names[1]}"
            return MethodResult(formula, lambda X: X[:, 0] + X[:, 1], 3, "finished")
        return MethodResult(formula, lambda X: X[:, 0] * X[:, 1] + shift, 3, "finished")


class Crash(Fake):
    def act(self, X, y):
        raise ValueError("broken on purpose")


class Hang(Fake):
    def act(self, X, y):
        if os.environ.get("FAKE_PIDS"):
            child = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"]
            )
            for number in (os.getpid(), child.pid):
                (Path(os.environ["FAKE_PIDS"]) / str(number)).touch()
        time.sleep(600)


class Orphan(Fake):
    """Ends well, but leaves a process of its own behind."""

    def act(self, X, y):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (Path(os.environ["FAKE_PIDS"]) / str(child.pid)).touch()


class Hog(Fake):
    def act(self, X, y):
        self.kept = np.ones(1 << 32)


class Dies(Fake):
    def act(self, X, y):
        os.kill(os.getpid(), signal.SIGSEGV)


class Chatty(Fake):
    def act(self, X, y):
        sys.stdout.write('{"row": {"recovered": true}}\n')
        sys.stdout.flush()
        os.write(1, b'{"row": {"error": "forged"}}\n')


class NotFinite(Fake):
    def answer(self, X, y, names):
        return MethodResult(None, lambda X: np.full(len(X), np.nan), 1, "finished")


class Tower(Fake):
    """Prints a formula that sympy cannot even read in any time."""

    def answer(self, X, y, names):
        return MethodResult(
            f"{names[0]}*{names[1]} + 9^9^9^9",
            lambda X: X[:, 0] * X[:, 1],
            3,
            "finished",
        )


class Meddler(Fake):
    """Changes its arguments in place."""

    def act(self, X, y):
        X[:] = 0.0
        y[:] = 0.0

    def answer(self, X, y, names):
        formula = f"{names[0]}*{names[1]}"
        return MethodResult(formula, lambda X: X[:, 0] * X[:, 1], 3, "finished")


class NotText(Fake):
    """Answers with what is no formula."""

    def answer(self, X, y, names):
        return MethodResult("x +", lambda X: np.zeros(len(X)), 1, "finished")


# Rows and pictures for tests of the report

PNG = b"\x89PNG\r\n\x1a\n"


def row(problem, recovered=False, **other):
    base = {
        "suite": "groundtruth",
        "group": "feynman",
        "problem": problem,
        "seed": 23654,
        "noise": 0.0,
        "method": "sr4mdl",
        "mode": "policy",
        "budget": {"time_s": 20.0, "n_rows": 100, "max_train_rows": 50},
        "recovered": recovered,
        "recovered_numeric": recovered,
        "r2_test": 1.0,
        "complexity": 7,
        "time_s": 3.0,
        "error": None,
        "verdict": "difference is zero",
        "versions": {"sympy": "1.14.0"},
    }
    return {**base, **other}
