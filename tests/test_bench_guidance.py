"""The guidance and mdlformer benchmarks on small work."""

import json

import numpy as np
import pytest

from sr4mdl import moves
from sr4mdl.bench import guidance
from sr4mdl.bench.problems import select_problems
from sr4mdl.cli import main
from sr4mdl.mdlformer.guide import FakeGuide, GuideOutput, UniformGuide


def states_of(*names: str) -> list[guidance.GuidanceState]:
    problems = select_problems("groundtruth", list(names))
    return guidance.collect_states(problems, n_rows=16, n_walks=1)


def test_states_hold_the_problems_numbers() -> None:
    states = states_of("feynman_I_12_1")  # a product of two variables
    root = states[0]
    assert root.step == 0
    assert root.columns.shape == (16, 2)
    np.testing.assert_allclose(root.target, root.columns.prod(axis=1))
    assert root.value == 3
    assert moves.pair_move_id(2, 0, 1) in root.correct


def test_an_all_knowing_guide_scores_full_marks_and_a_blind_one_chance() -> None:
    states = states_of("feynman_I_12_1", "feynman_II_13_23")
    answers = {
        state.target.tobytes() + state.columns.tobytes(): state for state in states
    }

    def know(columns, counts, targets):  # type: ignore[no-untyped-def]
        scores = np.full((len(targets), moves.N_MOVES), -20.0)
        values = np.zeros(len(targets))
        for row in range(len(targets)):
            key = targets[row].tobytes() + np.ascontiguousarray(columns[row]).tobytes()
            scores[row, list(answers[key].correct)] = 0.0
            values[row] = answers[key].value
        return GuideOutput(values, np.ones(len(targets)), scores)

    class Knowing:
        def score(self, columns, column_counts, targets, row_mask=None):  # type: ignore[no-untyped-def]
            return know(columns, column_counts, targets)

    best = guidance.measure(states, Knowing())
    assert best["all"]["top1"] == 1.0
    assert best["all"]["value_auc"] == 1.0
    assert best["root"]["n_states"] == 2
    blind = guidance.measure(states, UniformGuide())
    assert blind["all"]["top1"] == pytest.approx(blind["all"]["by_chance"])
    assert blind["all"]["value_auc"] == 0.5
    assert FakeGuide is not None


def test_the_shipped_network_guides(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "guidance", "--walks", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    for part in ("all", "root"):
        assert {"top1", "top3", "top10", "top30", "value_auc", "n_states"} <= set(
            result[part]
        )
    # Figures of the shipped weights are 0.71 and 0.96; a broken export or feature
    # falls far below these.
    assert result["all"]["top1"] > 0.6
    assert result["all"]["top10"] > 0.9


def test_mdlformer_bench(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    arguments = ["bench", "mdlformer", "--pairs", "64", "--rows", "32", "--json"]
    assert main([*arguments, "--panels", "noise"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"rmse", "r2", "auc", "spearman", "pearson", "ndcg5"} <= set(result)
    assert [record["noise"] for record in result["panels"]["noise"]] == [
        0.0, 0.001, 0.01, 0.1,
    ]  # fmt: skip
