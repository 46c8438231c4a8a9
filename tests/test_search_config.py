import dataclasses

import pytest

from sr4mdl.search import SearchConfig


def test_defaults_are_those_of_the_interface() -> None:
    config = SearchConfig()
    assert config.mode == "policy"
    assert config.max_time == 60.0
    assert config.random_state == 0
    assert config.c_puct == 1.41


def test_settings_cannot_be_changed_or_given_by_position() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SearchConfig().mode = "mdl"  # type: ignore[misc]
    with pytest.raises(TypeError):
        SearchConfig("mdl")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mode", "best", "mode must be one of policy, mdl, error, uniform, gp"),
        ("backup", "sum", "backup must be one of"),
        ("max_time", 0.0, "max_time must be a finite number above 0"),
        ("max_time", float("nan"), "max_time must be"),
        ("max_nodes", 0, "max_nodes must be a whole number of 1 or more, got 0"),
        ("max_nodes", 2.5, "max_nodes must be a whole number"),
        ("batch_size", True, "batch_size must be a whole number"),
        ("max_evaluations", 0, "max_evaluations must be"),
        ("n_medium", -1, "n_medium must be a whole number of 0 or more, got -1"),
        ("random_state", -1, "random_state must be"),
        ("uniform_share", 1.5, "uniform_share must be .* at most 1"),
        ("closing_weight", -0.1, "closing_weight must be"),
        ("c_puct", 0.0, "c_puct must be"),
        ("n_screened", 11, "n_screened must be at most 10"),
        ("max_judge_rows", 10, "max_judge_rows must be at least max_search_rows"),
        ("operators", ("add", "plus"), "unknown operator 'plus'"),
    ],
)
def test_wrong_settings_are_named(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchConfig(**{name: value})  # type: ignore[arg-type]


def test_a_text_is_no_list_of_operators() -> None:
    with pytest.raises(TypeError, match="operators must be a sequence of names"):
        SearchConfig(operators="add")
    with pytest.raises(TypeError, match="max_time must be a number"):
        SearchConfig(max_time="long")  # type: ignore[arg-type]


def test_names_of_operators_become_those_of_the_table() -> None:
    assert SearchConfig(operators=["ln", "add"]).operators == ("log", "add")


def test_round_trip() -> None:
    config = SearchConfig(mode="gp", operators=("add",), physical_constants=(9.81,))
    assert SearchConfig.from_dict(config.to_dict()) == config


def test_unknown_settings_are_an_error_with_a_hint() -> None:
    with pytest.raises(ValueError, match=r"'max_tme'; did you mean 'max_time'\?"):
        SearchConfig.from_dict({"max_tme": 3.0})
