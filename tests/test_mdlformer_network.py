"""Networks: masks, symmetries, layout of the policy, sizes."""

import importlib.util
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sr4mdl.mdlformer.config import PRESETS, ModelConfig, get_preset  # noqa: E402
from sr4mdl.mdlformer.formula_encoder import FormulaEncoder  # noqa: E402
from sr4mdl.mdlformer.layers import KERNELS, MASKED, attend, mask_bias  # noqa: E402
from sr4mdl.mdlformer.network import build_network, count_parameters  # noqa: E402
from sr4mdl.mdlformer.policy import ILLEGAL, PolicyLayout  # noqa: E402
from sr4mdl.mdlformer.tokens import (  # noqa: E402
    FIRST_EXPONENT,
    FIRST_MANTISSA,
    N_NUMBER_TOKENS,
    NEGATIVE,
    PAD,
    POSITIVE,
)
from sr4mdl.moves import (  # noqa: E402
    FIRST_TARGET,
    MAX_COLUMNS,
    N_COLUMN_ACTIONS,
    N_MOVES,
    N_PAIR_OPERATORS,
    N_TARGET_TRANSFORMS,
    PAIR_OPERATORS,
    column_move_id,
    legal_moves,
    pair_move_id,
)

CONFIGS = {
    "cells": PRESETS["tiny"],
    "cells-split": replace(PRESETS["tiny"], axial="split"),
    "rows": PRESETS["tiny-rows"],
    "tokens": replace(PRESETS["tiny-tokens"], token_width=16),
}


def make(name):
    torch.manual_seed(3)
    return build_network(CONFIGS[name]).eval()


def make_states(n_states=4, n_rows=9, n_columns=5, seed=1):
    rng = torch.Generator().manual_seed(seed)
    scale = 10.0 ** torch.randint(-2, 3, (n_states, 1, n_columns), generator=rng)
    columns = torch.randn(n_states, n_rows, n_columns, generator=rng) * scale
    target = columns[..., 0] * 2 + columns[..., 1] ** 2
    return (
        columns,
        target,
        torch.ones(n_states, n_columns, dtype=torch.bool),
        torch.ones(n_states, n_rows, dtype=torch.bool),
    )


def assert_same(one, other, tolerance=2e-5):
    np.testing.assert_allclose(one.value_mean, other.value_mean, atol=tolerance)
    np.testing.assert_allclose(
        one.value_log_spread, other.value_log_spread, atol=tolerance
    )
    np.testing.assert_allclose(one.policy, other.policy, atol=tolerance)


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_garbage_in_padding_changes_nothing(name):
    network = make(name)
    columns, target, column_mask, row_mask = make_states()
    plain = network(columns, target, column_mask, row_mask)
    wide = torch.full((4, 13, 8), math.nan)
    wide[:, 9:, 2] = 1e38
    wide[:, :, 6] = 123.0
    wide[:, :9, :5] = columns
    long_target = torch.full((4, 13), -777.0)
    long_target[:, :9] = target
    padded = network(
        wide, long_target, torch.arange(8).expand(4, 8) < 5,
        torch.arange(13).expand(4, 13) < 9,
    )  # fmt: skip
    assert_same(plain, padded)


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_order_of_rows_does_not_matter(name):
    network = make(name)
    columns, target, column_mask, row_mask = make_states()
    row_mask[0, 6:] = False
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    assert_same(
        network(columns, target, column_mask, row_mask),
        network(columns[:, order], target[:, order], column_mask, row_mask[:, order]),
    )


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_states_of_a_batch_do_not_mix(name):
    network = make(name)
    states = make_states()
    together = network(*states)
    for index in range(4):
        alone = network(*(part[index : index + 1] for part in states))
        np.testing.assert_allclose(alone.policy[0], together.policy[index], atol=2e-5)
        np.testing.assert_allclose(
            alone.value_mean[0], together.value_mean[index], atol=2e-5
        )


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_rows_columns_and_target_are_read(name):
    network = make(name)
    columns, target, column_mask, row_mask = make_states()
    before = network(columns, target, column_mask, row_mask).value_mean
    for changed in (
        (columns * 1.7, target, column_mask, row_mask),
        (columns, target.flip(1), column_mask, row_mask),
        (columns, target, torch.arange(5).expand(4, 5) < 4, row_mask),
        (columns, target, column_mask, torch.arange(9).expand(4, 9) < 5),
    ):
        assert (network(*changed).value_mean - before).abs().min() > 1e-6


@pytest.mark.parametrize("name", ["cells", "cells-split"])
@torch.no_grad()
def test_permuting_columns_permutes_the_policy(name):
    network = make(name)
    columns, target, column_mask, row_mask = make_states()
    column_mask[1, 4:] = False
    order = [3, 0, 4, 1, 2]
    before = network(columns, target, column_mask, row_mask)
    after = network(columns[..., order], target, column_mask[:, order], row_mask)
    np.testing.assert_allclose(before.value_mean, after.value_mean, atol=2e-5)
    place = {old: new for new, old in enumerate(order)}
    for column in range(5):
        for action in range(N_COLUMN_ACTIONS):
            np.testing.assert_allclose(
                before.policy[:, column_move_id(column, action)],
                after.policy[:, column_move_id(place[column], action)],
                atol=2e-5,
            )
    for operator in range(N_PAIR_OPERATORS):
        for i in range(5):
            for j in range(5):
                if i != j:
                    np.testing.assert_allclose(
                        before.policy[:, pair_move_id(operator, i, j)],
                        after.policy[:, pair_move_id(operator, place[i], place[j])],
                        atol=2e-5,
                    )
    np.testing.assert_allclose(
        before.policy[:, FIRST_TARGET:], after.policy[:, FIRST_TARGET:], atol=2e-5
    )


def test_legal_moves_equal_the_table():
    layout = PolicyLayout()
    for width in (1, 4, MAX_COLUMNS):
        counts = torch.arange(1, width + 1)
        legal = layout.legal(torch.arange(width) < counts[:, None])
        for row, count in enumerate(counts.tolist()):
            np.testing.assert_array_equal(legal[row].numpy(), legal_moves(count))


def test_logits_are_laid_out_by_move_id():
    # Every logit says where it came from: 1000 * column + action, and so on.
    c = 3
    column = torch.arange(c)[:, None] * 1000.0 + torch.arange(N_COLUMN_ACTIONS)
    i, j = torch.meshgrid(torch.arange(c), torch.arange(c), indexing="ij")
    operators = torch.arange(N_PAIR_OPERATORS)
    pair = 10.0 * i[..., None] + j[..., None] + 100.0 * operators
    target = 5000.0 + torch.arange(N_TARGET_TRANSFORMS)
    policy = PolicyLayout().assemble(
        column[None], pair[None], target[None], torch.ones(1, c, dtype=torch.bool)
    )[0]
    legal = legal_moves(c)
    assert policy.shape == (N_MOVES,)
    assert (policy[torch.from_numpy(~legal)] == ILLEGAL).all()
    assert policy[column_move_id(2, 7)] == 2007
    assert policy[FIRST_TARGET + 3] == 5003
    for number, operator in enumerate(PAIR_OPERATORS):
        expected = (12 + 21) / 2 if operator.commutes else 21
        assert policy[pair_move_id(number, 2, 1)] == expected + 100 * number


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_illegal_moves_get_no_mass(name):
    columns, target, column_mask, row_mask = make_states()
    column_mask[0, 1:] = False
    policy = make(name)(columns, target, column_mask, row_mask).policy
    for row, count in enumerate((1, 5, 5, 5)):
        legal = torch.from_numpy(legal_moves(count))
        probabilities = policy[row].softmax(0)
        assert probabilities[~legal].max() == 0.0
        assert probabilities[legal].min() > 0.0


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_a_state_without_rows_stays_finite(name):
    columns, target, column_mask, row_mask = make_states()
    row_mask[2] = False
    output = make(name)(columns, target, column_mask, row_mask)
    for part in (output.value_mean, output.value_log_spread, output.policy):
        assert torch.isfinite(part).all()


def plain_packed_attention(packed, bias, over_rows):
    """Attention of tokens (B, R, C, 3, H, D) in plain steps."""
    order = (0, 2, 3, 1, 4) if over_rows else (0, 1, 3, 2, 4)
    back = (0, 3, 1, 2, 4) if over_rows else (0, 1, 3, 2, 4)
    queries, keys, values = (part.permute(order) for part in packed.unbind(3))
    scores = queries @ keys.transpose(-2, -1) * queries.shape[-1] ** -0.5
    weights = (scores + bias[:, None, None, None, :]).softmax(-1)
    return (weights @ values).permute(back)


def compare_fused_attention():
    """Compare the GPU kernel, run by Triton's interpreter, with plain steps."""
    from sr4mdl.mdlformer.fused_attention import packed_attention

    generator = torch.Generator().manual_seed(1)
    for over_rows in (True, False):
        packed = torch.randn(
            2, 20, 3, 3, 2, 16, generator=generator, requires_grad=True
        )
        exists = torch.rand(2, 20 if over_rows else 3, generator=generator) < 0.7
        exists[1] = False
        bias = mask_bias(exists)
        fused = packed_attention(packed, bias, over_rows)
        plain = plain_packed_attention(packed, bias, over_rows)
        torch.testing.assert_close(fused, plain, atol=1e-5, rtol=0.0)
        towards = torch.randn(fused.shape, generator=generator)
        (of_fused,) = torch.autograd.grad(fused, packed, towards)
        (of_plain,) = torch.autograd.grad(plain, packed, towards)
        torch.testing.assert_close(of_fused, of_plain, atol=1e-5, rtol=0.0)


def compare_look_up():
    """Compare the look-up's gradient, summed by the kernel, with a hand-made sum."""
    from sr4mdl.mdlformer.fused_tokens import look_up_numbers

    generator = torch.Generator().manual_seed(1)
    # More numbers than one program holds; a fifth is absent, exponents repeat.
    n_numbers = 4100
    table = torch.randn(N_NUMBER_TOKENS, 16, generator=generator, requires_grad=True)
    tokens = torch.stack(
        [
            torch.randint(POSITIVE, NEGATIVE + 1, (n_numbers,), generator=generator),
            torch.randint(0, 9, (n_numbers,), generator=generator) + FIRST_EXPONENT - 9,
            torch.randint(0, 3, (n_numbers,), generator=generator)
            + (N_NUMBER_TOKENS - 3),
        ],
        dim=1,
    )
    tokens[torch.rand(n_numbers, generator=generator) < 0.2] = PAD
    found = look_up_numbers(tokens, table, torch.float32)
    assert torch.equal(found, table.detach()[tokens])
    towards = torch.randn(found.shape, generator=generator)
    (gradient,) = torch.autograd.grad(found, table, towards)
    expected = torch.zeros_like(gradient)
    expected.index_add_(0, tokens.flatten(), towards.flatten(0, 1))
    expected[PAD] = 0.0
    torch.testing.assert_close(gradient, expected, atol=2e-4, rtol=0.0)
    assert gradient[POSITIVE].abs().max() > 1.0
    assert gradient[N_NUMBER_TOKENS - 1].abs().max() > 1.0


@pytest.mark.parametrize("check", ["compare_fused_attention", "compare_look_up"])
def test_kernels_equal_plain_steps(check):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the kernel is a Triton program, and Triton is not installed")
    # Triton decides at import whether it interprets: a process of its own.
    folder = Path(__file__).parent
    code = f"import {Path(__file__).stem} as t; t.{check}()"
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_kernels_agree(name, monkeypatch):
    network = make(name)
    columns, target, column_mask, row_mask = make_states()
    column_mask[0, 2:] = False
    row_mask[1, 4:] = False
    plain = network(columns, target, column_mask, row_mask)
    monkeypatch.setattr(KERNELS, "packed", plain_packed_attention)
    monkeypatch.setattr(KERNELS, "look_up", lambda tokens, table, _: table[tokens])
    assert_same(plain, network(columns, target, column_mask, row_mask))
    monkeypatch.setattr(KERNELS, "explicit", True)
    assert_same(plain, network(columns, target, column_mask, row_mask))


@pytest.mark.parametrize("packed", [None, plain_packed_attention])
@pytest.mark.parametrize("name", CONFIGS)
@torch.no_grad()
def test_no_mask_is_a_mask_of_all_rows(name, packed, monkeypatch):
    network = make(name)
    columns, target, column_mask, row_mask = make_states()
    monkeypatch.setattr(KERNELS, "packed", packed)
    plain = network(columns, target, column_mask, row_mask)
    assert_same(plain, network(columns, target, column_mask, None), tolerance=1e-5)


def test_attention_by_hand():
    # Two keys; the query likes the first by ln 3, so it gets 3/4; the third is absent.
    queries = torch.tensor([[[[1.0]]]])
    keys = torch.tensor([[[[math.log(3.0)], [0.0], [50.0]]]])
    values = torch.tensor([[[[4.0], [8.0], [1e6]]]])
    bias = mask_bias(torch.tensor([[[[True, True, False]]]]))
    assert bias.tolist() == [[[[0.0, 0.0, MASKED]]]]
    assert attend(queries, keys, values, bias).item() == pytest.approx(5.0)


def test_tokens_by_hand():
    network = make("tokens")
    columns = torch.tensor([[[54.321, 9.0], [-0.001, 9.0], [7.0, 9.0]]])
    tokens = network.tokenize(
        columns,
        torch.tensor([[1.0, 3.0, 100.0]]),
        torch.tensor([[True, False]]),
        torch.tensor([[True, True, False]]),
    )[0]
    assert tokens.shape == (3, 11, 3)
    zero = FIRST_EXPONENT + 100
    assert tokens[0, 0].tolist() == [POSITIVE, FIRST_MANTISSA + 5432, zero + 1]
    assert tokens[1, 0].tolist() == [NEGATIVE, FIRST_MANTISSA + 1000, zero - 3]
    # Standardised over the two rows that exist: -1 and 1.
    assert tokens[0, 10].tolist() == [NEGATIVE, FIRST_MANTISSA + 1000, zero]
    assert tokens[1, 10].tolist() == [POSITIVE, FIRST_MANTISSA + 1000, zero]
    assert (tokens[:2, 1:10] == PAD).all()
    assert (tokens[2] == PAD).all()


def test_paper_preset_has_the_size_of_the_paper():
    config = get_preset("paper")
    with torch.device("meta"):
        assert count_parameters(build_network(config)) == pytest.approx(
            31.9e6, rel=0.02
        )
        assert count_parameters(FormulaEncoder(config)) == pytest.approx(
            30.7e6, rel=0.02
        )


def test_formula_encoder_ignores_padding_and_reads_order():
    torch.manual_seed(0)
    encoder = FormulaEncoder(CONFIGS["tokens"]).eval()
    tokens = torch.tensor([[10215, 10204, 10205]])
    padded = torch.tensor([[10215, 10204, 10205, 0, 0]], dtype=torch.int16)
    with torch.no_grad():
        assert torch.allclose(encoder(tokens), encoder(padded), atol=1e-5)
        swapped = encoder(tokens[:, [0, 2, 1]])
    assert (encoder(tokens) - swapped).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "lstm"}, "architecture must be one of"),
        ({"width": 30, "n_heads": 4}, "must divide width"),
        ({"n_layers": 0}, "n_layers must be at least 1, got 0"),
        ({"dropout": 1.0}, "dropout"),
        ({"max_columns": 9}, "max_columns must be 10"),
    ],
)
def test_config_names_what_is_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**changes)


def test_config_comes_back_and_hints_at_typos():
    for config in PRESETS.values():
        assert ModelConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="did you mean 'width'"):
        ModelConfig.from_dict({"widht": 3})
    with pytest.raises(ValueError, match="preset must be one of"):
        get_preset("huge")
