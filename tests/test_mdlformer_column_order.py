"""Column order must not matter much to a network that reads whole rows.

``cells`` treats columns alike by its shape (tested with the network). ``rows`` has one
slot per column and learns to disregard their order from states in random order, as the
corpus makes them.
"""

import pytest

torch = pytest.importorskip("torch")

from sr4mdl.mdlformer.config import PRESETS  # noqa: E402
from sr4mdl.mdlformer.network import build_network  # noqa: E402
from sr4mdl.training.batch import ToySource  # noqa: E402
from sr4mdl.training.source_config import SourceConfig  # noqa: E402

CPU = torch.device("cpu")


def shuffle(batch, generator):
    """Return the columns of each state in a random order, absent ones still last."""
    keys = torch.rand(batch.column_mask.shape, generator=generator)
    order = keys.masked_fill(~batch.column_mask, 2.0).argsort(1)
    return batch.columns.gather(2, order[:, None, :].expand_as(batch.columns))


def train(*, in_random_order, n_steps=150):
    """Teach a tiny network whether the target is among the columns (1) or not (3)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_network(PRESETS["tiny-rows"])
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    source = ToySource(128, 8, CPU, seed=1, max_columns=3)
    generator = torch.Generator().manual_seed(2)
    for _ in range(n_steps):
        batch = source.next_batch()
        columns = shuffle(batch, generator) if in_random_order else batch.columns
        output = network(columns, batch.target, batch.column_mask, batch.row_mask)
        loss = (output.value_mean - batch.value).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


def order_effect(network):
    """Return how much the order moves an estimate, over how much the state does."""
    batch = ToySource(512, 8, CPU, seed=9, max_columns=3).next_batch()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        values = torch.stack(
            [
                network(
                    shuffle(batch, generator),
                    batch.target,
                    batch.column_mask,
                    batch.row_mask,
                ).value_mean
                for _ in range(8)
            ]
        )
    within = values.std(0).pow(2).mean().sqrt()
    return float(within / values.mean(0).std())


def test_shuffle_keeps_each_state_and_its_padding():
    batch = ToySource(16, 4, CPU, seed=3, max_columns=3).next_batch()
    shuffled = shuffle(batch, torch.Generator().manual_seed(0))
    shown = batch.column_mask[:, None, :]
    assert not torch.equal(shuffled, batch.columns)
    for one, other in ((shuffled, batch.columns), (batch.columns, shuffled)):
        matched = (one[:, :, :, None] == other[:, :, None, :]).all(1).any(2)
        assert matched[batch.column_mask].all()
    assert torch.equal(
        (shuffled * shown).sum(2).gt(0), (batch.columns * shown).sum(2).gt(0)
    )


@pytest.mark.slow
def test_rows_trained_in_random_order_hardly_sees_the_order():
    # Measured: 0.17 after random orders, 0.64 where the answer always came last.
    assert order_effect(train(in_random_order=True)) < 0.3
    assert order_effect(train(in_random_order=False)) > 0.45


def test_the_default_corpus_gives_states_in_random_order():
    assert SourceConfig().rates("predict").shuffle is True
