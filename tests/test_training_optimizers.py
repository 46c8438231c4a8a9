"""Muon against its definition and against torch's own."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from sr4mdl.training.optimizers import (  # noqa: E402
    Muon,
    make_optimizers,
    orthogonalised,
)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 12, 5), (2, 5, 12)])
def test_orthogonalised_keeps_directions_and_evens_sizes(shape):
    torch.manual_seed(0)
    matrices = torch.randn(shape)
    # Sizes from 1 to 1/30 of the largest.
    u, s, v = torch.linalg.svd(matrices, full_matrices=False)
    sizes = torch.logspace(0, -1.5, s.shape[-1])
    result = orthogonalised(u * sizes[None, None] @ v)
    even = torch.linalg.svdvals(result)
    assert even.min() > 0.6
    assert even.max() < 1.3
    inside = u.mT @ result @ v.mT
    assert torch.allclose(inside, torch.diag_embed(inside.diagonal(0, 1, 2)), atol=1e-4)
    assert (inside.diagonal(0, 1, 2) > 0).all()


def test_orthogonalised_zeros_are_zeros():
    assert orthogonalised(torch.zeros(2, 3, 4)).abs().max() == 0


def test_one_step_by_hand():
    # The gradient is already orthogonal up to its size: the step is its sign.
    parameter = nn.Parameter(torch.eye(4))
    optimizer = Muon([parameter], lr=0.1, weight_decay=0.5)
    parameter.grad = 7.0 * torch.eye(4)
    optimizer.step()
    kept = 1.0 - 0.1 * 0.5
    # Root mean square 0.2 * lr: 0.2 * sqrt(4) on each of the four diagonal entries.
    step = (kept - parameter.diagonal()) / (0.1 * 0.2 * 2.0)
    assert ((step > 0.7) & (step < 1.2)).all()
    assert torch.allclose(parameter, torch.diag(parameter.diagonal()), atol=1e-6)
    assert torch.allclose(optimizer.state[parameter]["momentum"], 0.35 * torch.eye(4))


def test_same_path_as_torchs_muon():
    torch.manual_seed(0)
    shapes = [(6, 9), (6, 9), (9, 4)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in ours]
    one = Muon(ours, lr=0.02, weight_decay=0.1)
    other = torch.optim.Muon(
        theirs, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    for _ in range(5):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape)
            b.grad = a.grad.clone()
        one.step()
        other.step()
    for a, b in zip(ours, theirs, strict=True):
        # Torch orthogonalises in bfloat16 everywhere.
        assert torch.allclose(a, b, atol=2e-3)


def test_a_step_that_is_not_finite_changes_nothing_but_decays():
    parameter = nn.Parameter(torch.ones(2, 2))
    optimizer = Muon([parameter], lr=0.1)
    parameter.grad = torch.eye(2)
    optimizer.step()
    before = parameter.detach().clone()
    parameter.grad = torch.full((2, 2), torch.nan)
    optimizer.found_inf = torch.ones(())
    optimizer.step()
    assert torch.equal(parameter, before)
    assert torch.isfinite(optimizer.state[parameter]["momentum"]).all()
    with pytest.raises(ValueError, match="closure must be None"):
        optimizer.step(lambda: 0.0)


def test_every_parameter_has_one_optimizer():
    learner = nn.ModuleDict(
        {
            "embedding": nn.Embedding(100, 64),
            "wide": nn.Linear(64, 128),
            "narrow": nn.Linear(128, 2),
        }
    )
    settings = {
        "learning_rate": 0.1, "weight_decay": 0.3, "betas": (0.9, 0.98),
        "epsilon": 1e-8, "fused": False,
    }  # fmt: skip
    adamw, muon = make_optimizers(learner, name="muon", **settings)
    assert [id(p) for p in muon.param_groups[0]["params"]] == [
        id(learner["wide"].weight)
    ]
    decayed, others = adamw.param_groups
    assert [id(p) for p in decayed["params"]] == [id(learner["narrow"].weight)]
    assert decayed["weight_decay"] == 0.3
    assert others["weight_decay"] == 0.0
    assert len(others["params"]) == 3
    (alone,) = make_optimizers(learner, name="adamw", **settings)
    assert sum(len(group["params"]) for group in alone.param_groups) == 5
