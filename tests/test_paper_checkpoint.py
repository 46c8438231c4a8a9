"""The kept checkpoint of the paper's network: it loads, reads tables and goes on."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sr4mdl.mdlformer.checkpoint import load_model  # noqa: E402
from sr4mdl.mdlformer.config import PRESETS  # noqa: E402

ROOT = Path(__file__).parents[1]
CHECKPOINT = ROOT / "checkpoints" / "paper"

pytestmark = pytest.mark.skipif(
    not CHECKPOINT.exists() and not (ROOT / ".git").exists(),
    reason="the source distribution is without checkpoints",
)


def test_it_is_the_papers_network_and_tells_short_laws_from_long_ones() -> None:
    loaded = load_model(CHECKPOINT)
    config = loaded.network.config
    assert config.to_dict() == PRESETS["paper"].to_dict() | {"dropout": 0.0}
    assert loaded.card["samples"] >= 30_000_000
    x = np.random.default_rng(0).normal(size=(200, 4))
    a, b, c, d = x.T

    def length(target: np.ndarray, n_columns: int) -> float:
        columns = torch.zeros(1, 200, 10)
        columns[0, :, :n_columns] = torch.from_numpy(x[:, :n_columns])
        mask = (torch.arange(10) < n_columns)[None]
        told = torch.from_numpy(target).float()[None]
        with torch.no_grad():
            return float(loaded.network(columns, told, mask, None).value_mean)

    # 7 symbols: 5 + 40*(a*b); and 29 of them.
    short = length(5 + 40 * a * b, 2)
    long = length(
        4 * np.sqrt(np.abs(2 + 3 * a * b)) + 7 * np.cos(3 * c + 1) * d - 3 * a**2 + 1,
        4,
    )
    assert 4 < short < 12
    assert 24 < long < 40
