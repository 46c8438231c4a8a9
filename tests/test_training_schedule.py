"""Durations, positions, learning rates and phases by hand."""

import pytest

pytest.importorskip("torch")

from sr4mdl.training.schedule import ScheduleConfig, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("45s", 45), ("9m", 540), ("1h", 3600), ("1h30m", 5400),
     ("1h1m1s", 3661), ("0.5m", 30), ("2.5", 2.5)],
)  # fmt: skip
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "9x", "-3", "0", "0m", "1m1h", "nan"])
def test_texts_that_are_no_duration(text):
    with pytest.raises(ValueError, match="duration must"):
        parse_duration(text)


def test_position_is_the_further_of_samples_and_time():
    schedule = ScheduleConfig(total_samples=1000, total_time=100.0)
    assert schedule.position(250, 10.0) == 0.25
    assert schedule.position(250, 60.0) == 0.6
    assert schedule.position(5000, 10.0) == 1.0
    assert ScheduleConfig(total_time=50.0).position(10**9, 5.0) == 0.1


def test_warmup_and_cosine_by_hand():
    schedule = ScheduleConfig(
        learning_rate=2.0, warmup_samples=100, decay="cosine", total_time=1.0
    )
    assert schedule.rate(0.0, 0) == pytest.approx(2.0 / 100)
    assert schedule.rate(0.0, 49) == pytest.approx(1.0)
    assert schedule.rate(0.5, 1000) == pytest.approx(1.0)
    assert schedule.rate(1.0, 1000) == pytest.approx(0.0)


def test_other_decays_by_hand():
    def rate(position, samples, **settings):
        schedule = ScheduleConfig(
            learning_rate=1.0, warmup_samples=100, total_time=1.0, **settings
        )
        return schedule.rate(position, samples)

    assert rate(0.25, 200, decay="linear") == pytest.approx(0.75)
    assert rate(0.25, 200, decay="linear", final_share=0.2) == pytest.approx(0.8)
    assert rate(0.9, 200, decay="constant") == 1.0
    assert rate(0.9, 400, decay="noam") == pytest.approx(0.5)
    assert rate(0.9, 49, decay="noam") == pytest.approx(0.5)


def test_phases():
    sequential = ScheduleConfig(
        total_time=1.0, strategy="sequential", align_share=0.5, warmup_samples=0,
        decay="linear", learning_rate=1.0,
    )  # fmt: skip
    assert [sequential.phase(p) for p in (0.0, 0.49, 0.5, 1.0)] == [
        "align", "align", "predict", "predict",
    ]  # fmt: skip
    # Each phase has a decay of its own.
    assert sequential.rate(0.25, 10) == pytest.approx(0.5)
    assert sequential.rate(0.5, 10) == pytest.approx(1.0)
    assert sequential.rate(0.75, 10) == pytest.approx(0.5)
    assert ScheduleConfig(total_time=1.0, strategy="concurrent").phase(0.3) == "both"
    assert ScheduleConfig(total_time=1.0).phase(0.3) == "predict"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "total_samples or total_time"),
        ({"total_time": -1.0}, "total_time must be positive"),
        ({"total_time": 1.0, "decay": "steps"}, "decay must be one of"),
        ({"total_time": 1.0, "learning_rate": 0.0}, "learning_rate"),
        (
            {"total_time": 1.0, "predict_learning_rate": 1e-4},
            "predict_learning_rate must be None unless strategy is sequential",
        ),
        (
            {
                "total_time": 1.0,
                "strategy": "sequential",
                "predict_learning_rate": -1.0,
            },
            "predict_learning_rate must be positive",
        ),
        ({"total_time": 1.0, "strategy": "both"}, "strategy"),
        ({"total_time": 1.0, "align_share": 1.0}, "align_share"),
        ({"total_time": 1.0, "warmup_samples": -1}, "warmup_samples"),
        ({"total_time": 1.0, "final_share": 2.0}, "final_share"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        ScheduleConfig(**settings)


def test_prediction_after_alignment_can_have_a_lower_rate() -> None:
    schedule = ScheduleConfig(
        learning_rate=4.0, predict_learning_rate=1.0, warmup_samples=0,
        decay="linear", strategy="sequential", align_share=0.5, total_time=1.0,
    )  # fmt: skip
    assert schedule.rate(0.25, 0) == pytest.approx(2.0)
    assert schedule.rate(0.5, 0) == pytest.approx(1.0)
    assert schedule.rate(0.75, 0) == pytest.approx(0.5)
