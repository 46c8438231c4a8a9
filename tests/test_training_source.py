"""Training states on the device: inputs, rows, noise, refusal, workers."""

import errno
import random
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sr4mdl.corpus.formulas import paper_formula, small_paper_formula  # noqa: E402
from sr4mdl.corpus.program_writer import N_INPUTS  # noqa: E402
from sr4mdl.corpus.skeletons import SkeletonBank, build_skeleton  # noqa: E402
from sr4mdl.corpus.states import (  # noqa: E402
    StateArrays,
    StateRates,
    root_states,
    sample_states,
)
from sr4mdl.text import parse  # noqa: E402
from sr4mdl.training import source as source_module  # noqa: E402
from sr4mdl.training.inputs import DEFAULT_SHARES, KINDS, draw_inputs  # noqa: E402
from sr4mdl.training.source import CorpusSource  # noqa: E402
from sr4mdl.training.source_config import SourceConfig  # noqa: E402
from sr4mdl.training.state_computer import StateComputer  # noqa: E402
from sr4mdl.training.state_maker import SkeletonRing, StateMaker  # noqa: E402

CPU = torch.device("cpu")


def states_of(*texts: str) -> StateArrays:
    bank = SkeletonBank.empty(len(texts))
    for row, text in enumerate(texts):
        bank.store(row, build_skeleton(parse(text), ("a", "b"), keep_constants=True))
    arrays, made = root_states(bank, len(texts), seed=0)
    assert made.all()
    return arrays


def quiet_config(**changes: object) -> SourceConfig:
    settings: dict[str, object] = {
        "n_rows": 4, "n_candidates": 6, "min_rows": 2, "fewer_rows_rate": 0.0,
        "noise_rate": 0.0,
    }  # fmt: skip
    return SourceConfig(**{**settings, **changes})  # type: ignore[arg-type]


def test_rows_outside_the_domain_are_dropped_and_the_rest_keeps_its_order() -> None:
    computer = StateComputer(quiet_config(), CPU)
    inputs = torch.zeros(1, N_INPUTS, 6, dtype=torch.float64)
    inputs[0, 0] = torch.tensor([-1.0, 1.0, 4.0, -9.0, 9.0, 16.0])
    batch = computer.compute(computer.move(states_of("sqrt(a)")), inputs)
    assert batch.row_mask.tolist() == [[True, True, True, True]]
    assert batch.target.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert batch.columns[0, :, 0].tolist() == [1.0, 4.0, 9.0, 16.0]
    # Column b exists (all zeros here), the other eight do not.
    assert batch.column_mask[0].tolist() == [True, True] + [False] * 8
    assert batch.weight.tolist() == [1.0]


def test_states_with_too_few_rows_or_a_constant_target_are_refused() -> None:
    computer = StateComputer(quiet_config(), CPU)
    inputs = torch.zeros(2, N_INPUTS, 6, dtype=torch.float64)
    inputs[0, 0] = torch.tensor([-1.0, -1.0, -4.0, -9.0, 9.0, -16.0])
    inputs[1, 0] = 5.0
    batch = computer.compute(computer.move(states_of("sqrt(a)", "exp(a)")), inputs)
    assert batch.weight.tolist() == [0.0, 0.0]
    assert batch.row_mask.sum(1).tolist() == [1, 4]
    report = computer.refusals().report()
    assert report["refused_share"] == 1.0
    assert report["mean_value_refused"] == 2.0


def test_padding_holds_zeros_and_numbers_are_finite() -> None:
    config = SourceConfig(batch_size=256, n_rows=16, n_candidates=24, min_rows=8)
    ring = SkeletonRing(config, seed=3)
    ring.renew(60)
    computer = StateComputer(config, CPU)
    arrays = sample_states(ring.bank, ring.n_filled, 256, 1, config.rates("predict"))
    batch = computer.compute(computer.move(arrays))
    assert torch.isfinite(batch.columns).all()
    assert torch.isfinite(batch.target).all()
    assert (batch.target[~batch.row_mask] == 0).all()
    hidden = ~(batch.row_mask[:, :, None] & batch.column_mask[:, None, :])
    assert (batch.columns[hidden] == 0).all()
    assert 0.5 < float(batch.weight.mean()) <= 1.0


def test_noise_has_the_size_it_says() -> None:
    computer = StateComputer(quiet_config(noise_rate=1.0), CPU)
    target = torch.full((400, 50), 3.0, dtype=torch.float64)
    mask = torch.ones(400, 50, dtype=torch.bool)
    noisy = computer._add_noise(target, mask)
    level = (noisy - target).std(1) / 3.0
    assert float(level.min()) > 0.0008
    assert float(level.max()) < 0.13
    assert float(level.max()) / float(level.min()) > 20
    still = StateComputer(quiet_config(), CPU)._add_noise(target, mask)
    assert torch.equal(still, target)


def test_rows_grow_late_in_the_plan() -> None:
    config = quiet_config(n_rows=4, n_candidates=6, late_rows=10, late_from=0.75)
    assert config.at(0.7).n_rows == 4
    late = config.at(0.75)
    assert (late.n_rows, late.n_candidates) == (10, 15)
    assert late.at(0.9) == late
    assert quiet_config().at(1.0) == quiet_config()
    with pytest.raises(ValueError, match="late_rows must be 0 or at least min_rows"):
        quiet_config(late_rows=1)
    with pytest.raises(ValueError, match=r"late_from must be in \[0, 1\], got 2"):
        quiet_config(late_from=2.0)


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_every_kind_of_table_is_finite_and_varies(kind: int) -> None:
    shares = tuple(float(number == kind) for number in range(len(KINDS)))
    generator = torch.Generator().manual_seed(kind)
    table = draw_inputs(generator, 64, 32, 3, shares)
    assert table.shape == (64, 3, 32)
    assert torch.isfinite(table).all()
    assert (table.std(2) > 0).float().mean() > 0.98
    again = draw_inputs(torch.Generator().manual_seed(kind), 64, 32, 3, shares)
    assert torch.equal(table, again)


def test_shares_sum_to_one_and_positive_tables_are_positive() -> None:
    assert sum(DEFAULT_SHARES) == pytest.approx(1.0)
    shares = tuple(float(name == "positive box") for name, _ in KINDS)
    table = draw_inputs(torch.Generator().manual_seed(0), 50, 20, 4, shares)
    assert (table > 0).all()


@pytest.mark.parametrize("position", [None, 0.0, 0.6])
def test_formulas_begin_small_wherever_the_plan_does(position: float | None) -> None:
    config = SourceConfig(
        batch_size=64, n_rows=8, n_candidates=12, min_rows=4, first_fill=40,
        fresh_per_draw=1, bank_capacity=64, distribution="paper", small_until=0.5,
    )  # fmt: skip
    source = CorpusSource(config, CPU)
    try:
        if position is not None:
            source.set_position(position)
        columns = source.next_batch().column_mask.sum(1)
    finally:
        source.close()
    # At the start of the plan formulas have one variable, later up to ten.
    assert bool((columns == 1).all()) == (position != 0.6)


def test_small_formulas_grow_to_the_papers() -> None:
    rng = random.Random(1)
    small = [small_paper_formula(rng, 0.0) for _ in range(30)]
    assert {formula.n_variables for formula in small} == {1}
    assert max(formula.n_unary for formula in small) == 1
    assert max(formula.n_binary for formula in small) == 1
    half = [small_paper_formula(rng, 0.5) for _ in range(60)]
    assert max(formula.n_variables for formula in half) == 5
    full = [small_paper_formula(random.Random(seed), 1.0) for seed in range(5)]
    assert full == [paper_formula(random.Random(seed)) for seed in range(5)]


def test_batches_have_the_rows_of_the_plan() -> None:
    config = SourceConfig(
        batch_size=24, batches_per_draw=2, n_rows=8, n_candidates=12, min_rows=4,
        late_rows=16, late_from=0.5, first_fill=20, fresh_per_draw=5, bank_capacity=64,
        distribution="paper",
    )  # fmt: skip
    source = CorpusSource(config, CPU)
    try:
        shapes = []
        for position in (0.0, 0.4, 0.5, 0.9):
            source.set_position(position)
            batch = source.next_batch()
            shapes.append((batch.n_states, batch.columns.shape[1]))
            assert (batch.row_mask.sum(1) >= 4).all()
    finally:
        source.close()
    assert shapes == [(24, 8), (24, 8), (24, 16), (24, 16)]


def test_workers_deliver_and_stop() -> None:
    config = SourceConfig(
        batch_size=64, n_rows=8, n_candidates=12, min_rows=4, first_fill=20,
        fresh_per_draw=5, bank_capacity=64, with_formula=True, distribution="paper",
    )  # fmt: skip
    source = CorpusSource(config, CPU)
    try:
        one = source.next_batch()
        two = source.next_batch()
    finally:
        source.close()
    assert one.columns.shape == (64, 8, 10)
    assert one.formula_tokens is not None
    assert int(one.formula_tokens.max()) > 0
    assert not torch.equal(one.value, two.value)
    assert source.report()["refused_share"] < 1.0
    assert all(not worker.is_alive() for worker in source._workers)


def test_the_same_seed_makes_the_same_formulas() -> None:
    config = SourceConfig(bank_capacity=16)
    one, two = SkeletonRing(config, 5), SkeletonRing(config, 5)
    one.renew(10)
    two.renew(10)
    for first, second in zip(one.bank, two.bank, strict=True):
        np.testing.assert_array_equal(first, second)


def test_too_little_shared_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(
        source_module.shutil, "disk_usage", lambda _: Usage(64, 0, 64_000_000)
    )

    def refuse(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(source_module.os, "posix_fallocate", refuse)
    if not source_module._SHARED_MEMORY.is_dir():
        pytest.skip("shared memory lies elsewhere")
    before = set(source_module._SHARED_MEMORY.iterdir())
    # 856 bytes a state, three slots a worker: 2 x 3 x 20,000 of them are 103 MB.
    config = SourceConfig(batch_size=20_000, n_workers=2)
    with pytest.raises(ValueError, match=r"need 103 MB, .* has 64 MB free"):
        CorpusSource(config, torch.device("cpu"))
    left = set(source_module._SHARED_MEMORY.iterdir()) - before
    assert not [path for path in left if path.stat().st_size > 100_000_000]


def test_shared_memory_is_taken_at_once() -> None:
    memory = source_module._open_shared_memory(3_000_000)
    try:
        file = source_module._SHARED_MEMORY / memory.name.lstrip("/")
        if not file.exists():
            pytest.skip("shared memory lies elsewhere")
        assert file.stat().st_blocks * 512 >= 3_000_000
    finally:
        memory.close()
        memory.unlink()


ORPHANS = """
import os, signal, torch
from sr4mdl.training.source import CorpusSource
from sr4mdl.training.source_config import SourceConfig

if __name__ == "__main__":
    config = SourceConfig(batch_size=8, n_workers=1, small_until=SMALL)
    source = CorpusSource(config, torch.device("cpu"))
    print(source._workers[0].pid, flush=True)
    if not SMALL:
        source.next_batch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("small_until", ["0.0", "0.5"])
def test_workers_leave_when_the_training_is_killed(
    tmp_path: Path, small_until: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(ORPHANS.replace("SMALL", small_until))
    # A worker that lives on holds the pipe of standard output open: a time-out.
    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, timeout=120
    )
    assert result.returncode == -signal.SIGKILL
    assert int(result.stdout) > 0


def test_rows_must_fit() -> None:
    with pytest.raises(ValueError, match="min_rows <= n_rows <= n_candidates"):
        SourceConfig(n_rows=40, n_candidates=20)


def test_pairs_are_varied_only_where_nobody_reads_their_formula() -> None:
    config = SourceConfig(distribution="paper")
    for phase in ("align", "both"):
        rates = config.rates(phase)
        assert (rates.redraw, rates.shuffle) == (0.0, False)
    assert config.rates("align").latent == 0.0
    assert config.rates("predict").shuffle is True
    assert SourceConfig().rates("predict") == StateRates()


def test_batches_hold_no_refused_state_and_none_is_lost() -> None:
    """Draws of 40 states lose a fifth; batches of ten are cut from what is left."""
    config = SourceConfig(
        batch_size=10, batches_per_draw=4, n_rows=8, n_candidates=8, min_rows=8,
        first_fill=20, fresh_per_draw=5, bank_capacity=64, fewer_rows_rate=0.0,
        distribution="paper", noise_rate=0.0,
    )  # fmt: skip
    source = CorpusSource(config, CPU)
    try:
        batches = [source.next_batch() for _ in range(13)]
        left = source._left
        counted = source.computer.refusals()
    finally:
        source.close()
    for batch in batches:
        assert batch.n_states == 10
        assert bool((batch.weight == 1).all())
        assert bool(batch.row_mask.all())
        assert batch.column_counts is not None
        assert torch.equal(batch.column_mask.sum(1), batch.column_counts)
    assert counted.n_refused > 0
    assert left is not None
    assert 130 + left.n_states == counted.n_states - counted.n_refused


def test_signs_for_constants_make_as_many_tokens_as_the_formula_is_long() -> None:
    config = quiet_config(
        distribution="paper", with_formula=True, constants="sign", bank_capacity=64
    )
    assert (config.n_tokens, quiet_config().n_tokens) == (56, 80)
    ring = SkeletonRing(config, seed=1)
    ring.renew(60)
    states = sample_states(ring.bank, ring.n_filled, 50, 2, config.rates("align"))
    assert ring.tokens is not None
    lengths = (ring.tokens[states.formula] != 0).sum(axis=1)
    np.testing.assert_array_equal(lengths, states.value)


def test_unknown_constants_are_named() -> None:
    with pytest.raises(ValueError, match="constants must be digits or sign, got 'all'"):
        quiet_config(constants="all")


def test_uniform_formula_constants_are_not_drawn_anew() -> None:
    decades = SourceConfig(distribution="paper", formula_constants="decades")
    assert decades.rates("predict").redraw == 0.5
    # The paper's text says uniform, so that is what is drawn unless told otherwise.
    assert SourceConfig().formula_constants == "uniform"
    assert SourceConfig(distribution="paper").rates("predict").redraw == 0.0
    message = "formula_constants must be decades or uniform, got 'big'"
    with pytest.raises(ValueError, match=message):
        SourceConfig(formula_constants="big")  # type: ignore[arg-type]


def test_pairs_are_mixed_into_the_states_by_their_share() -> None:
    config = SourceConfig(
        batch_size=300, n_rows=8, n_candidates=12, min_rows=4, bank_capacity=64,
        paper_share=0.25,
    )  # fmt: skip
    (alone, n_states), (pairs, n_pairs) = config.parts()
    assert (n_states, n_pairs) == (225, 75)
    assert (alone.distribution, pairs.distribution) == ("default", "paper")
    maker = StateMaker(config, worker=0)
    maker.renew(40)
    states = maker.draw("predict")
    is_pair = states["is_pair"]
    assert is_pair.sum() == 75
    # Mixed, not one after the other: the first third holds its share of pairs.
    assert 10 < is_pair[:100].sum() < 42
    # Pairs are whole formulas with affine constants, at least a*x + b.
    assert states["value"][is_pair].min() >= 5
    assert (states["step"][is_pair] == 0).all()
    assert states["step"][~is_pair].max() > 0
    again = StateMaker(config, worker=0)
    again.renew(40)
    for name, array in again.draw("predict").items():
        np.testing.assert_array_equal(array, states[name])


def test_without_a_share_no_state_is_a_pair() -> None:
    config = SourceConfig(batch_size=20, bank_capacity=8)
    assert [count for _, count in config.parts()] == [20]
    maker = StateMaker(config, worker=1)
    maker.renew(8)
    assert not maker.draw("predict")["is_pair"].any()


def test_tables_of_pairs_are_mixtures() -> None:
    """Mixtures alone among these kinds have negative values."""
    shares = tuple(float(name == "positive box") for name, _ in KINDS)
    as_mixture = torch.arange(60) % 2 == 0
    table = draw_inputs(
        torch.Generator().manual_seed(0), 60, 40, 3, shares, as_mixture=as_mixture
    )
    negative = (table < 0).flatten(1).any(1)
    assert torch.equal(negative, as_mixture)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_the_share_of_pairs_must_leave_other_states(share: float) -> None:
    with pytest.raises(ValueError, match=r"paper_share must be in \[0, 1\)"):
        SourceConfig(paper_share=share)


def test_pairs_alone_are_a_distribution_not_a_share() -> None:
    with pytest.raises(ValueError, match="paper_share must be 0"):
        SourceConfig(paper_share=0.5, distribution="paper")
