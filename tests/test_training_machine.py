import pytest

from sr4mdl.mdlformer.config import get_preset
from sr4mdl.training.machine import gpu_batch_size, gpu_workers, usable_cores


def test_batches_by_hand():
    small, paper = get_preset("small"), get_preset("paper")
    # 160 bytes x 32 rows x width 128 x 4 layers = 2,621,440 bytes a state; six tenths
    # of 10e9 bytes hold 2,288.8 of them, and 35 x 64 = 2,240.
    assert gpu_batch_size(small, 32, 10_000_000_000) == 2240
    # Twice the rows, half the states: 1,144.4, and 17 x 64 = 1,088.
    assert gpu_batch_size(small, 64, 10_000_000_000) == 1088
    # No more than is known to help, and never nothing.
    assert gpu_batch_size(small, 32, 149_000_000_000) == 24_000
    assert gpu_batch_size(paper, 200, 149_000_000_000) == 1_024
    assert gpu_batch_size(paper, 200, 1_000_000) == 64


@pytest.mark.parametrize(
    ("n_cores", "n_trainings", "whole_formulas", "expected"),
    [
        (16, 1, False, 8), (16, 1, True, 14), (16, 4, False, 2), (16, 4, True, 2),
        (2, 1, False, 1), (2, 1, True, 1), (1, 1, False, 1), (4, 8, True, 1),
    ],
)  # fmt: skip
def test_workers(n_cores, n_trainings, whole_formulas, expected):
    assert gpu_workers(n_cores, n_trainings, whole_formulas=whole_formulas) == expected


def test_this_machine_has_cores():
    assert usable_cores() >= 1
