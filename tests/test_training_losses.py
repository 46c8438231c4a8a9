"""Losses by hand, weights honoured, parts of a batch add up to the batch."""

import math

import pytest

torch = pytest.importorskip("torch")

from sr4mdl.mdlformer.config import PRESETS  # noqa: E402
from sr4mdl.mdlformer.network import NetworkOutput, build_network  # noqa: E402
from sr4mdl.mdlformer.tokens import FIRST_OPERATOR, FIRST_VARIABLE  # noqa: E402
from sr4mdl.training.batch import ToySource, split_by_columns  # noqa: E402
from sr4mdl.training.learner import LearnerOutput  # noqa: E402
from sr4mdl.training.losses import (  # noqa: E402
    LossConfig,
    alignment_loss,
    best_correct_ranks,
    compute_losses,
    count_losses,
    denominators,
    operator_counts,
    policy_losses,
    value_losses,
    write_losses,
)


def output_of(mean, log_spread):
    mean = torch.tensor(mean, requires_grad=True)
    spread = torch.tensor(log_spread, requires_grad=True)
    return NetworkOutput(mean, spread, torch.zeros(len(mean), 4), torch.zeros(1))


def test_policy_loss_by_hand():
    # Probabilities 1/2, 1/4, 1/8, 1/8.
    policy = torch.tensor([[4.0, 2.0, 1.0, 1.0]]).log().expand(3, 4)
    moves = torch.tensor([[0, -1], [1, 3], [-1, -1]])
    loss = policy_losses(policy, moves, 0.0)
    assert loss.tolist() == pytest.approx([math.log(2), math.log(8 / 3), 0.0])
    each = policy_losses(policy, moves, 1.0)
    expected = [math.log(2), (math.log(4) + math.log(8)) / 2, 0.0]
    assert each.tolist() == pytest.approx(expected)
    mixed = policy_losses(policy, moves, 0.25)
    assert mixed.tolist() == pytest.approx((0.75 * loss + 0.25 * each).tolist())


def test_policy_loss_has_finite_gradients_without_moves():
    policy = torch.zeros(2, 4, requires_grad=True)
    loss = policy_losses(policy, torch.tensor([[-1, -1], [2, -1]]), 0.1)
    loss.sum().backward()
    assert policy.grad[0].tolist() == [0.0] * 4
    assert policy.grad[1].tolist() == pytest.approx([0.25, 0.25, -0.75, 0.25])


def test_uniform_share_moves_mass_to_all_correct_moves():
    policy = torch.tensor([[5.0, 0.0, 0.0]], requires_grad=True)
    policy_losses(policy, torch.tensor([[0, 1]]), 0.1).sum().backward()
    assert policy.grad[0, 1] < 0  # more mass for the weak correct move
    assert policy.grad[0, 2] > 0


def test_likelihood_by_hand():
    output = output_of([3.0], [math.log(2.0)])
    plain = LossConfig(spread_power=0.0)
    loss = value_losses(output, torch.tensor([7.0]), plain)
    expected = 0.5 * (4 / 2) ** 2 + math.log(2) + 0.5 * math.log(2 * math.pi)
    assert loss.item() == pytest.approx(expected)
    scaled = value_losses(output, torch.tensor([7.0]), LossConfig(spread_power=0.5))
    assert scaled.item() == pytest.approx(2 * expected)


def test_likelihood_is_least_at_the_true_error():
    value = torch.tensor([7.0])
    losses = [
        value_losses(output_of([4.0], [math.log(s)]), value, LossConfig(spread_power=0))
        for s in (2.0, 3.0, 4.0)
    ]
    assert losses[1] < losses[0]
    assert losses[1] < losses[2]


def test_squared_loss_trains_the_mean_by_squares_alone():
    output = output_of([3.0], [0.0])
    value_losses(
        output, torch.tensor([7.0]), LossConfig(value_loss="squared")
    ).backward()
    assert output.value_mean.grad.item() == pytest.approx(-8.0)
    # d/ds of 16/2 exp(-2s) + s at s = 0.
    assert output.value_log_spread.grad.item() == pytest.approx(-15.0)


def test_alignment_by_hand():
    numbers = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    formulas = torch.tensor([[2.0, 0.0], [1.0, 3.0]])
    # Similarities: [[2, 1], [0, 3]], divided by the temperature 2.
    by_number = math.log(1 + math.exp(-0.5)) + math.log(1 + math.exp(-1.5))
    by_formula = math.log(1 + math.exp(-1.0)) + math.log(1 + math.exp(-1.0))
    got = alignment_loss(numbers, formulas, torch.ones(2), 2.0)
    assert got.item() == pytest.approx(by_number + by_formula)


def test_refused_states_do_not_take_part_in_alignment():
    torch.manual_seed(0)
    numbers, formulas = torch.randn(4, 3), torch.randn(4, 3)
    kept = torch.tensor([0, 1, 3])
    some = alignment_loss(numbers, formulas, torch.tensor([1.0, 1.0, 0.0, 1.0]), 1.0)
    fewer = alignment_loss(numbers[kept], formulas[kept], torch.ones(3), 1.0)
    assert some.item() == pytest.approx(fewer.item(), rel=1e-5)


def test_counts_of_operators_by_hand():
    # add(mul(x, 2.5), x): one operator of opcode 0, one of 2; the rest is no operator.
    tokens = torch.tensor(
        [
            [FIRST_OPERATOR, FIRST_OPERATOR + 2, FIRST_VARIABLE, 1, 2503, 10103,
             FIRST_VARIABLE, 0],
            [FIRST_OPERATOR + 1] * 3 + [FIRST_VARIABLE] + [0] * 4,
        ],
        dtype=torch.int16,
    )  # fmt: skip
    assert operator_counts(tokens, 4).tolist() == [[1, 0, 1, 0], [0, 3, 0, 0]]


def test_count_loss_by_hand():
    log_rates = torch.tensor([[0.0, math.log(3.0)]], requires_grad=True)
    counts = torch.tensor([[1.0, 3.0]])
    loss = count_losses(log_rates, counts)
    assert loss.item() == pytest.approx(1.0 + 3.0 - 3.0 * math.log(3.0))
    loss.sum().backward()
    # The rates are the counts: nothing to gain.
    assert torch.allclose(log_rates.grad, torch.zeros(1, 2), atol=1e-6)


def test_counts_need_tokens_and_rates():
    batch = ToySource(4, 6, torch.device("cpu")).next_batch()
    network = build_network(PRESETS["tiny-tokens"])
    output = network(batch.columns, batch.target, batch.column_mask, batch.row_mask)
    with pytest.raises(ValueError, match="must be given to count"):
        compute_losses(
            LearnerOutput(output), batch, denominators(batch),
            LossConfig(count_weight=1.0), phase="predict", has_policy=False,
        )  # fmt: skip
    with pytest.raises(ValueError, match="count_weight must not be negative, got -1"):
        LossConfig(count_weight=-1.0)


def test_writing_by_hand():
    # Two formulas of two and of one symbol, padded by 0; three symbols to choose from.
    logits = torch.zeros(2, 2, 3)
    logits[0, 1, 2] = math.log(2.0)
    symbols = torch.tensor([[1, 2], [1, 0]])
    # 1/3, then 2/4; what stands in the padding does not matter.
    assert write_losses(logits, symbols).tolist() == pytest.approx(
        [math.log(3.0) + math.log(2.0), math.log(3.0)]
    )
    logits[1, 1] = torch.tensor([5.0, -5.0, 1.0])
    assert write_losses(logits, symbols)[1].item() == pytest.approx(math.log(3.0))


def test_writing_needs_symbols():
    batch = ToySource(4, 6, torch.device("cpu")).next_batch()
    network = build_network(PRESETS["tiny-tokens"])
    output = network(batch.columns, batch.target, batch.column_mask, batch.row_mask)
    with pytest.raises(ValueError, match="must be given to write"):
        compute_losses(
            LearnerOutput(output), batch, denominators(batch),
            LossConfig(write_weight=1.0, align_weight=0.0), phase="both",
            has_policy=False,
        )  # fmt: skip


def test_ranks_by_hand():
    policy = torch.tensor([[0.5, 3.0, 2.0, 2.0, 1.0]]).expand(6, 5)
    moves = torch.tensor([[1, -1], [2, -1], [2, 3], [0, 1], [0, -1], [-1, -1]])
    # The tie of 2 and 3 counts against 2 unless both are correct.
    assert best_correct_ranks(policy, moves).tolist() == [1, 3, 2, 1, 5, -1]


def losses_and_gradients(network, parts, whole):
    network.zero_grad()
    total = 0.0
    for part in parts:
        output = network(part.columns, part.target, part.column_mask, part.row_mask)
        losses = compute_losses(
            LearnerOutput(output), part, whole, LossConfig(),
            phase="predict", has_policy=True,
        )  # fmt: skip
        losses.total.backward()
        total += losses.total.item()
    return total, [parameter.grad.clone() for parameter in network.parameters()]


def test_parts_add_up_to_the_batch():
    torch.manual_seed(0)
    network = build_network(PRESETS["tiny"])
    batch = ToySource(24, 6, torch.device("cpu")).next_batch()
    object.__setattr__(batch, "weight", (torch.arange(24) % 3 > 0).float())
    whole = denominators(batch)
    one, gradients = losses_and_gradients(network, [batch], whole)
    parts = split_by_columns(batch, (0.25,) * 4, (3, 4, 6))
    assert len({part.columns.shape[2] for part in parts}) > 1
    other, sums = losses_and_gradients(network, parts, whole)
    assert other == pytest.approx(one, rel=1e-4)
    for gradient, total in zip(gradients, sums, strict=True):
        assert torch.allclose(gradient, total, atol=2e-4)


def test_weight_zero_means_not_there():
    torch.manual_seed(0)
    network = build_network(PRESETS["tiny"])
    batch = ToySource(8, 6, torch.device("cpu")).next_batch()
    first = batch.select(torch.arange(4), 10)
    object.__setattr__(batch, "weight", (torch.arange(8) < 4).float())
    one, _ = losses_and_gradients(network, [batch], denominators(batch))
    other, _ = losses_and_gradients(network, [first], denominators(first))
    assert one == pytest.approx(other, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value_loss": "cubic"}, "value_loss"),
        ({"policy_weight": -1.0}, "policy_weight must not be negative, got -1.0"),
        ({"uniform_share": 2.0}, "uniform_share"),
        ({"temperature": 0.0}, "temperature"),
        ({"spread_power": -0.1}, "spread_power"),
    ],
)
def test_loss_config_names_what_is_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        LossConfig(**changes)
