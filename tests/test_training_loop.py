"""The loop on tiny networks: it learns, stops, averages, saves and resumes exactly."""

import io
import json
import os
import signal
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from sr4mdl.errors import CheckpointError  # noqa: E402
from sr4mdl.mdlformer.checkpoint import (  # noqa: E402
    TRAINING_STEM,
    load_model,
    write_store,
)
from sr4mdl.mdlformer.config import PRESETS  # noqa: E402
from sr4mdl.training.batch import ToySource  # noqa: E402
from sr4mdl.training.loop import TrainConfig, Trainer, TrainingError  # noqa: E402
from sr4mdl.training.losses import LossConfig  # noqa: E402
from sr4mdl.training.metrics_log import MetricsLog  # noqa: E402
from sr4mdl.training.schedule import ScheduleConfig  # noqa: E402
from sr4mdl.training.state import packed_state  # noqa: E402

CPU = torch.device("cpu")
TINY = PRESETS["tiny"]


class OneBatch:
    """The same batch again and again."""

    def __init__(self, batch):
        self.batch = batch

    def next_batch(self):
        return self.batch


def make_config(total_samples=64 * 20, **changes):
    schedule = {
        "learning_rate": 3e-3, "warmup_samples": 64, "decay": "constant",
        "total_samples": total_samples,
    } | changes.pop("schedule", {})  # fmt: skip
    return TrainConfig(schedule=ScheduleConfig(**schedule), **changes)


def make_trainer(config, *, model=TINY, source=None, **settings):
    source = source if source is not None else ToySource(64, 8, CPU, seed=1)
    return Trainer(model, config, source, CPU, **settings)


def logged(trainer_settings, tmp_path, config, **settings):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, None)
    trainer = make_trainer(config, log=log, **trainer_settings, **settings)
    summary = trainer.run()
    log.close()
    return summary, [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["tiny", "tiny-rows"])
def test_loss_falls_in_twenty_steps(name, tmp_path):
    config = make_config(log_every=1e-9)
    summary, records = logged({"model": PRESETS[name]}, tmp_path, config)
    losses = [record["loss"] for record in records if record["event"] == "train"]
    assert len(losses) == 20
    assert sum(losses[-3:]) / 3 < 0.7 * sum(losses[:3]) / 3
    assert summary.reason == "plan"
    assert summary.samples == 64 * 20
    assert records[-1]["samples_per_second"] > 0
    assert 0 <= records[-1]["wait_share"] <= 1


@pytest.mark.parametrize("name", ["tiny", "tiny-rows"])
def test_overfits_one_batch(name):
    batch = ToySource(12, 8, CPU, seed=3).next_batch()
    config = make_config(
        12 * 150, schedule={"warmup_samples": 60, "decay": "cosine"}, average_decay=0.5
    )
    trainer = make_trainer(
        config, model=PRESETS[name], source=OneBatch(batch), held_out=[batch]
    )
    metrics = trainer.run().metrics
    assert metrics["held_out_top1"] == 1.0
    assert metrics["held_out_value_rmse"] < 0.3


@pytest.mark.parametrize(
    ("strategy", "align_share"),
    [
        ("sequential", 0.5), ("concurrent", None), ("concurrent", 0.5),
        ("predict-only", None),
    ],
)  # fmt: skip
def test_strategies_of_the_paper(strategy, align_share, tmp_path):
    config = make_config(
        64 * 30,
        schedule={
            "strategy": strategy,
            "align_share": align_share,
            "learning_rate": 1e-3,
        },
        loss=LossConfig(value_loss="squared", value_weight=0.1),
        log_every=1e-9,
    )
    model = PRESETS["tiny-tokens"]
    _, records = logged({"model": model}, tmp_path, config)
    phases = [record["phase"] for record in records]
    expected = {
        ("sequential", 0.5): ["align"] * 15 + ["predict"] * 15,
        ("concurrent", None): ["both"] * 30,
        ("concurrent", 0.5): ["both"] * 15 + ["predict"] * 15,
        ("predict-only", None): ["predict"] * 30,
    }
    assert phases == expected[strategy, align_share]
    for kind, phase in (("loss_align", "align"), ("loss_value", "predict")):
        curve = [r[kind] for r in records if r["phase"] in (phase, "both")]
        if curve:
            assert sum(curve[-3:]) < 0.95 * sum(curve[:3]), kind
    align = [r["loss_align"] for r in records if r["phase"] == "predict"]
    assert all(loss == 0.0 for loss in align)


def test_writing_beside_or_instead_of_alignment(tmp_path):
    for align_weight in (0.0, 1.0):
        folder = tmp_path / str(align_weight)
        config = make_config(
            64 * 30,
            schedule={
                "strategy": "concurrent",
                "align_share": 0.5,
                "learning_rate": 1e-3,
            },
            loss=LossConfig(
                value_loss="squared", value_weight=0.1, write_weight=0.1,
                align_weight=align_weight,
            ),
            formula_layers=1,
            log_every=1e-9,
        )  # fmt: skip
        trainer = make_trainer(config, model=PRESETS["tiny-tokens"])
        assert (trainer.learner.formulas is None) == (align_weight == 0.0)
        batch = ToySource(16, 8, CPU, seed=5).next_batch()
        trainer._forward_backward(batch, "both")
        # The teacher's gradient reaches the first weights of the network.
        gradient = trainer.learner.network.embedding.mix[0].weight.grad
        assert float(gradient.abs().sum()) > 0
        _, records = logged({"model": PRESETS["tiny-tokens"]}, folder, config)
        written = [record["loss_write"] for record in records]
        assert sum(written[12:15]) < 0.95 * sum(written[:3])
        # Prediction alone shows no formulas.
        assert written[15:] == [0.0] * 15
        aligned = [record["loss_align"] for record in records]
        assert all((loss > 0) == (align_weight > 0) for loss in aligned[:15])


def test_the_source_is_told_how_far_the_plan_has_come():
    class Told(OneBatch):
        positions = ()

        def set_position(self, position):
            self.positions += (position,)

    source = Told(ToySource(16, 8, CPU).next_batch())
    make_trainer(make_config(16 * 4), source=source).run()
    assert source.positions == (0.0, 0.25, 0.5, 0.75)


def test_alignment_teaches_the_readout_without_being_steered_by_it():
    batch = ToySource(32, 8, CPU, seed=1).next_batch()
    gradients = []
    for value_weight in (0.0, 10.0):
        config = make_config(
            schedule={"strategy": "sequential"},
            loss=LossConfig(value_loss="squared", value_weight=value_weight),
        )
        trainer = make_trainer(config, model=PRESETS["tiny-tokens"])
        trainer._forward_backward(batch, "align")
        gradients.append(
            {
                name: parameter.grad
                for name, parameter in trainer.learner.named_parameters()
                if parameter.grad is not None
            }
        )
    without, taught = gradients
    readout = [name for name in taught if ".readout." in name]
    assert len(readout) == 4
    for name in readout:
        assert taught[name].abs().sum() > 0
    for name in set(taught) - set(readout) - {"network.spread"}:
        torch.testing.assert_close(taught[name], without[name])


def states_of(trainer):
    moments = {
        f"{name}/{key}": value
        for name, parameter in trainer.learner.named_parameters()
        for optimizer in trainer.optimizers
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    return {
        **{f"w/{k}": v for k, v in trainer.learner.state_dict().items()},
        **{f"a/{k}": v for k, v in trainer.average.state_dict().items()},
        **moments,
    }


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [("tiny", "adamw"), ("tiny-tokens", "adamw"), ("tiny-tokens", "muon")],
)
def test_resumed_run_equals_uninterrupted_one(name, optimizer, tmp_path):
    model = replace(PRESETS[name], dropout=0.1)  # dropout tests the generators too
    if optimizer == "muon":
        model = replace(model, width=64)  # narrower matrices are left to AdamW
    strategy = "sequential" if name == "tiny-tokens" else "predict-only"
    config = make_config(
        64 * 10,
        schedule={"decay": "cosine", "strategy": strategy, "align_share": 0.5},
        optimizer=optimizer,
    )
    whole = make_trainer(config, model=model)
    whole.run()
    first = make_trainer(replace(config, max_samples=64 * 4), model=model, out=tmp_path)
    assert first.run().reason == "samples"
    torch.manual_seed(999)
    second = make_trainer(
        config,
        model=model,
        source=ToySource(64, 8, CPU, seed=77),
        out=tmp_path,
        resume=tmp_path,
    )
    assert second.progress.samples == 64 * 4
    second.run()
    assert second.progress.step == whole.progress.step == 10
    expected, got = states_of(whole), states_of(second)
    assert expected.keys() == got.keys()
    for key, tensor in expected.items():
        assert torch.equal(tensor, got[key]), key


class PhasedToy(ToySource):
    """Remembers what phases it was told."""

    def __init__(self):
        super().__init__(64, 8, CPU, seed=1)
        self.told = []

    def set_phase(self, phase):
        self.told.append(phase)


def test_a_resumed_source_is_told_its_phase(tmp_path):
    model = PRESETS["tiny-tokens"]
    config = make_config(
        64 * 8, schedule={"strategy": "sequential", "align_share": 0.5},
        loss=LossConfig(value_loss="squared", value_weight=0.1),
    )  # fmt: skip
    for max_samples, expected in (
        (64 * 2, ["align"]), (64 * 6, ["align", "predict"]), (64 * 8, ["predict"]),
    ):  # fmt: skip
        source = PhasedToy()
        resume = tmp_path if max_samples > 64 * 2 else None
        limited = replace(config, max_samples=max_samples)
        make_trainer(
            limited, model=model, source=source, out=tmp_path, resume=resume
        ).run()
        assert source.told == expected


@pytest.mark.parametrize("changed", ["formula_layers", "writer_layers"])
@pytest.mark.parametrize("layers", [1, 3])
def test_resume_refuses_teachers_of_another_depth(changed, layers, tmp_path):
    model = PRESETS["tiny-tokens"]
    config = make_config(
        64 * 2, schedule={"strategy": "concurrent"},
        loss=LossConfig(value_loss="squared", write_weight=0.1),
        formula_layers=2, writer_layers=2,
    )  # fmt: skip
    make_trainer(config, model=model, out=tmp_path).run()
    teacher = {"formula_layers": "formulas", "writer_layers": "writer"}[changed]
    with pytest.raises(
        CheckpointError, match=f"2 layers of the teacher '{teacher}', got {layers}"
    ):
        make_trainer(replace(config, **{changed: layers}), model=model, resume=tmp_path)


def test_compiled_whole_both_halves_that_a_writer_reads_between(monkeypatch):
    compiled = []
    monkeypatch.setattr(
        torch, "compile", lambda f, **_: compiled.append(f.__name__) or f
    )
    monkeypatch.setattr(torch.nn.Module, "compile", lambda part, **_: None)
    model = PRESETS["tiny-tokens"]
    for write_weight, expected in ((0.0, ["compute"]), (0.1, ["encode", "read"])):
        compiled.clear()
        config = make_config(
            64, schedule={"strategy": "concurrent"}, compile="whole",
            loss=LossConfig(value_loss="squared", write_weight=write_weight),
        )  # fmt: skip
        make_trainer(config, model=model).step(0.0)
        assert compiled == expected


def test_resume_refuses_another_optimizer(tmp_path):
    model = replace(PRESETS["tiny-tokens"], width=64)
    config = make_config(64 * 2, optimizer="muon")
    make_trainer(config, model=model, out=tmp_path).run()
    with pytest.raises(CheckpointError, match="another optimizer"):
        make_trainer(replace(config, optimizer="adamw"), model=model, resume=tmp_path)


@pytest.mark.parametrize("strategy", ["sequential", "predict-only"])
def test_counts_of_operators_are_learned_in_every_phase(strategy, tmp_path):
    config = make_config(
        64 * 30,
        schedule={"strategy": strategy, "align_share": 0.5, "learning_rate": 1e-3},
        loss=LossConfig(value_loss="squared", value_weight=0.1, count_weight=1.0),
        log_every=1e-9,
    )
    _, records = logged({"model": PRESETS["tiny-tokens"]}, tmp_path, config)
    curve = [record["loss_count"] for record in records]
    # Without any skill the 64 operators cost 1 each.
    assert curve[0] == pytest.approx(64.0, rel=0.2)
    assert curve[14] < 0.9 * curve[0]
    assert curve[29] < 0.9 * curve[14]
    with pytest.raises(ValueError, match="count_weight must be 0"):
        make_trainer(config, model=PRESETS["tiny"])


def test_resume_without_moments_warms_up_again(tmp_path):
    config = make_config(
        64 * 10, schedule={"warmup_samples": 128}, stored_moments="none"
    )
    make_trainer(replace(config, max_samples=64 * 4), out=tmp_path).run()
    second = make_trainer(config, resume=tmp_path)
    assert second.progress.phase_start == 64 * 4
    second.step(0.4)
    assert second.progress.learning_rate == pytest.approx(3e-3 / 128)


def test_small_checkpoints_come_back_nearly(tmp_path):
    config = make_config(64 * 4, stored_weights="float32", stored_moments="bfloat16")
    first = make_trainer(config, out=tmp_path)
    first.run()
    second = make_trainer(config, resume=tmp_path)
    for key, tensor in states_of(first).items():
        assert torch.allclose(tensor, states_of(second)[key], rtol=1e-2), key


def test_start_from_a_model(tmp_path):
    first = make_trainer(make_config(64 * 3), out=tmp_path)
    first.run()
    second = make_trainer(make_config(64 * 5), initial=tmp_path)
    # The averaged weights are what a model holds; samples count on.
    for network in (second.learner.network, second.average):
        for a, b in zip(network.parameters(), first.average.parameters(), strict=True):
            assert torch.equal(a, b)
    assert second.progress.samples == second.progress.phase_start == 64 * 3
    assert not any(optimizer.state for optimizer in second.optimizers)
    assert second.run().samples == 64 * 5
    with pytest.raises(CheckpointError, match="another config"):
        make_trainer(make_config(64), model=PRESETS["tiny-rows"], initial=tmp_path)


def test_resume_refuses_another_network(tmp_path):
    config = make_config(64 * 2)
    make_trainer(config, out=tmp_path).run()
    with pytest.raises(CheckpointError, match="another config"):
        make_trainer(config, model=PRESETS["tiny-rows"], resume=tmp_path)
    with pytest.raises(CheckpointError, match="does not exist"):
        make_trainer(config, resume=tmp_path / "nothing")


def test_averaged_weights_are_shipped(tmp_path):
    config = make_config(64 * 5, average_decay=0.9)
    trainer = make_trainer(config, out=tmp_path)
    start = {k: v.clone() for k, v in trainer.average.state_dict().items()}
    trainer.run()
    loaded = load_model(tmp_path)
    average = trainer.average.state_dict()
    raw = trainer.learner.network.state_dict()
    for key, tensor in loaded.network.state_dict().items():
        assert torch.equal(tensor, average[key])
    key = "readout.widen.weight"
    assert not torch.equal(average[key], raw[key])
    assert not torch.equal(average[key], start[key])
    assert loaded.card["samples"] == 64 * 5
    assert loaded.card["training"]["average_decay"] == 0.9


def test_first_average_by_hand():
    trainer = make_trainer(make_config(64, average_decay=0.999))
    key = "readout.widen.weight"
    before = trainer.average.state_dict()[key].clone()
    trainer.run()
    after = trainer.learner.network.state_dict()[key]
    # In the first step the decay is (1 + 0) / (10 + 0).
    expected = before + 0.9 * (after - before)
    assert torch.allclose(trainer.average.state_dict()[key], expected, atol=1e-7)


class FakeClock:
    """Advances by a fixed time whenever it is asked."""

    def __init__(self, step):
        self.now, self.step = 1000.0, step

    def __call__(self):
        self.now += self.step
        return self.now


def test_schedule_by_time_spans_calls(tmp_path):
    # The clock is asked twice a step: 2 seconds each.
    config = make_config(
        schedule={"total_samples": None, "total_time": 40.0, "decay": "linear",
                  "warmup_samples": 0, "learning_rate": 1.0e-3},
        max_time=20.0, clip_norm=1.0, log_every=1e9, save_every=1e9,
    )  # fmt: skip
    first = make_trainer(config, out=tmp_path, clock=FakeClock(1.0))
    summary = first.run()
    assert summary.reason == "time"
    assert 20 <= summary.elapsed <= 23
    half_way = first.progress.learning_rate
    assert 0.45e-3 < half_way < 0.6e-3
    second = make_trainer(config, resume=tmp_path, clock=FakeClock(1.0))
    second.step(second._position())
    assert second.progress.learning_rate < half_way
    second = make_trainer(config, resume=tmp_path, clock=FakeClock(1.0))
    summary = second.run()
    assert summary.reason == "plan"
    assert second.progress.learning_rate < 0.1e-3
    assert 40 <= summary.elapsed <= 44


def test_signal_ends_the_run_and_saves(tmp_path):
    class Interrupting(ToySource):
        def next_batch(self):
            self.count = getattr(self, "count", 0) + 1
            if self.count == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().next_batch()

    before = signal.getsignal(signal.SIGTERM)
    trainer = make_trainer(
        make_config(64 * 1000), source=Interrupting(64, 8, CPU), out=tmp_path
    )
    summary = trainer.run()
    assert summary.reason == "SIGTERM"
    assert summary.samples == 64 * 3
    assert signal.getsignal(signal.SIGTERM) is before
    assert load_model(tmp_path).card["samples"] == 64 * 3


class BadLabels(ToySource):
    """Every batch from the second on has a label that is not a number."""

    def next_batch(self):
        batch = super().next_batch()
        self.count = getattr(self, "count", 0) + 1
        if self.count > 1:
            object.__setattr__(batch, "value", batch.value * float("nan"))
        return batch


def test_steps_with_bad_gradients_are_skipped_and_counted(tmp_path):
    path = tmp_path / "log"
    log = MetricsLog(path, None)
    trainer = make_trainer(
        make_config(64 * 4, log_every=1e9), source=BadLabels(64, 8, CPU), log=log
    )
    trainer.run()
    log.close()
    (record,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert record["skipped_steps"] == 3
    assert record["loss"] is None
    for parameter in trainer.learner.parameters():
        assert torch.isfinite(parameter).all()


def test_lasting_bad_gradients_end_the_run():
    trainer = make_trainer(
        make_config(64 * 100, log_every=1e-9), source=BadLabels(64, 8, CPU)
    )
    with pytest.raises(TrainingError, match="not finite in the last 20 steps"):
        trainer.run()


def test_parts_by_columns_train_the_same_network():
    one = make_trainer(make_config(64 * 3))
    other = make_trainer(
        make_config(64 * 3, column_shares=(0.25,) * 4, column_widths=(3, 4, 6, 10))
    )
    one.run()
    other.run()
    for (name, a), b in zip(
        one.learner.named_parameters(), other.learner.parameters(), strict=True
    ):
        assert torch.allclose(a, b, atol=2e-3), name


def test_progress_is_shown():
    stream = io.StringIO()
    log = MetricsLog(None, stream)
    held_out = [ToySource(32, 8, CPU, seed=9).next_batch()]
    trainer = make_trainer(make_config(64 * 2), log=log, held_out=held_out)
    trainer.run()
    log.close()
    train, evaluate = stream.getvalue().splitlines()
    assert "128 samples" in train
    assert "loss " in train
    assert "/s" in train
    assert "held-out top1" in evaluate


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clip_norm": 0.0}, "clip_norm must be positive"),
        ({"average_decay": 1.0}, "average_decay"),
        ({"column_shares": (0.5, 0.4)}, "column_shares"),
        ({"compile": "all"}, "compile must be"),
        ({"precision": "fp8"}, "precision must be"),
    ],
)
def test_wrong_settings(changes, message):
    with pytest.raises(ValueError, match=message):
        make_config(**changes)


def test_a_packed_checkpoint_is_small_measured_and_continued(tmp_path):
    config = make_config(
        64 * 6, schedule={"strategy": "concurrent"},
        loss=LossConfig(value_loss="squared", write_weight=0.1),
    )  # fmt: skip
    model = PRESETS["tiny-tokens"]
    full, packed = tmp_path / "full", tmp_path / "packed"
    trainer = make_trainer(config, model=model, out=full)
    trainer.run()
    card, tensors = packed_state(full)
    write_store(packed, TRAINING_STEM, tensors, card)

    def size(folder):
        return sum(file.stat().st_size for file in folder.glob("training-*"))

    assert size(packed) < 0.2 * size(full)
    average = trainer.average.state_dict()
    for name, tensor in load_model(packed).network.state_dict().items():
        bound = average[name].abs().max() / 254 * 1.01 + 1e-9
        assert float((tensor - average[name]).abs().max()) <= bound, name
    longer = make_config(
        64 * 9, schedule={"strategy": "concurrent"},
        loss=LossConfig(value_loss="squared", write_weight=0.1),
    )  # fmt: skip
    again = make_trainer(longer, model=model, resume=packed)
    assert again.progress.samples == 64 * 6
    # The network goes on from its average, the teachers from where they were.
    for name, tensor in again.learner.network.state_dict().items():
        assert torch.equal(tensor, again.average.state_dict()[name]), name
    before = trainer.learner.writer.symbols.weight
    assert torch.allclose(again.learner.writer.symbols.weight, before, atol=2e-3)
    assert again.run().samples == 64 * 9
    # Without its teachers it goes on too: they start anew.
    card, tensors = packed_state(full, teachers=False)
    write_store(tmp_path / "alone", TRAINING_STEM, tensors, card)
    assert size(tmp_path / "alone") < 0.7 * size(packed)
    alone = make_trainer(longer, model=model, resume=tmp_path / "alone")
    assert not torch.allclose(alone.learner.writer.symbols.weight, before, atol=2e-3)
    assert alone.run().samples == 64 * 9
    # And it can be where another training starts.
    started = make_trainer(longer, model=model, initial=packed)
    assert started.progress.samples == 64 * 6
