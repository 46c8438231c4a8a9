"""Writing formulas down: symbols, what a symbol may look at, and that it is learned."""

import pytest

torch = pytest.importorskip("torch")

from sr4mdl.mdlformer.config import PRESETS  # noqa: E402
from sr4mdl.mdlformer.formula_writer import (  # noqa: E402
    ABSENT,
    N_SYMBOLS,
    FormulaWriter,
    to_symbols,
)
from sr4mdl.mdlformer.tokens import (  # noqa: E402
    FIRST_EXPONENT,
    FIRST_MANTISSA,
    FIRST_OPERATOR,
    FIRST_VARIABLE,
    N_FORMULA_TOKENS,
    NEGATIVE,
    PAD,
    POSITIVE,
)
from sr4mdl.moves import MAX_COLUMNS  # noqa: E402
from sr4mdl.training.losses import write_losses  # noqa: E402

TINY = PRESETS["tiny-tokens"]


def make_writer() -> FormulaWriter:
    torch.manual_seed(0)
    return FormulaWriter(TINY, 2).eval()


def test_symbols_by_hand() -> None:
    tokens = torch.tensor(
        [PAD, POSITIVE, NEGATIVE, FIRST_MANTISSA, FIRST_EXPONENT - 1, FIRST_EXPONENT,
         FIRST_VARIABLE - 1, FIRST_VARIABLE, FIRST_OPERATOR, N_FORMULA_TOKENS - 1],
        dtype=torch.int16,
    )  # fmt: skip
    last = N_SYMBOLS - 1
    assert to_symbols(tokens).tolist() == [
        ABSENT, 1, 2, 3, 3, 4, 4, 5, 5 + MAX_COLUMNS, last
    ]  # fmt: skip


def test_a_symbol_sees_only_those_before_it() -> None:
    writer = make_writer()
    rows = torch.randn(3, 6, TINY.width)
    symbols = torch.randint(1, N_SYMBOLS, (3, 7))
    changed = symbols.clone()
    changed[:, 4] = changed[:, 4] % (N_SYMBOLS - 1) + 1
    with torch.no_grad():
        one, other = writer(rows, None, symbols), writer(rows, None, changed)
    assert one.shape == (3, 7, N_SYMBOLS)
    # The fifth symbol is an input from the sixth place on, not at its own.
    assert torch.equal(one[:, :5], other[:, :5])
    assert not torch.allclose(one[:, 5:], other[:, 5:])


def test_absent_rows_are_not_read() -> None:
    writer = make_writer()
    rows = torch.randn(2, 6, TINY.width)
    symbols = torch.randint(1, N_SYMBOLS, (2, 5))
    mask = torch.arange(6).expand(2, 6) < 4
    other = torch.where(mask[:, :, None], rows, torch.full_like(rows, 99.0))
    with torch.no_grad():
        whole = writer(rows[:, :4], None, symbols)
        assert torch.allclose(writer(rows, mask, symbols), whole, atol=1e-5)
        assert torch.allclose(writer(other, mask, symbols), whole, atol=1e-5)


def test_learns_to_copy_what_the_rows_say() -> None:
    writer = make_writer().train()
    optimizer = torch.optim.Adam(writer.parameters(), 3e-3)
    rows = torch.randn(16, 4, TINY.width)
    symbols = torch.randint(1, N_SYMBOLS, (16, 5))
    symbols[::2, 3:] = ABSENT
    first = last = 0.0
    for step in range(120):
        loss = write_losses(writer(rows, None, symbols), symbols).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first, last = (loss.item() if step == 0 else first), loss.item()
    assert first > 10.0
    assert last < 0.5


def test_needs_a_layer() -> None:
    with pytest.raises(ValueError, match="n_layers must be at least 1, got 0"):
        FormulaWriter(TINY, 0)
