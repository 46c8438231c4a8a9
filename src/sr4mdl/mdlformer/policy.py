"""Moves as tensors: which are legal, and how heads are laid out as one policy.

The layout and the rules come from ``sr4mdl.moves``; a test compares both.
"""

from typing import Final

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from sr4mdl.moves import (
    MAX_COLUMNS,
    N_COLUMN_ACTIONS,
    N_TARGET_TRANSFORMS,
    PAIR_OPERATORS,
)

ILLEGAL: Final = -1e4
"""Logit of a move that the state does not have."""


class PolicyLayout(nn.Module):
    """Masks of legal moves and the assembly of the three heads' logits."""

    commutes: Tensor
    allowed: Tensor

    def __init__(self) -> None:
        super().__init__()
        commutes = torch.tensor([operator.commutes for operator in PAIR_OPERATORS])
        ordered = torch.ones(MAX_COLUMNS, MAX_COLUMNS, dtype=torch.bool).triu(1)
        distinct = ordered | ordered.T
        allowed = torch.where(commutes[:, None, None], ordered, distinct)
        self.register_buffer("commutes", commutes, persistent=False)
        self.register_buffer("allowed", allowed, persistent=False)

    def legal(self, column_mask_BC: Tensor) -> Tensor:
        """Return the mask of shape (B, N_MOVES) of the moves that states have."""
        mask = _widen(column_mask_BC.unsqueeze(-1)).squeeze(-1)
        n_states = mask.shape[0]
        column = mask.unsqueeze(-1).expand(-1, -1, N_COLUMN_ACTIONS).flatten(1)
        pair = mask.unsqueeze(2) & mask.unsqueeze(1)
        pairs = (pair.unsqueeze(1) & self.allowed).flatten(1)
        target = torch.ones(
            (n_states, N_TARGET_TRANSFORMS), dtype=torch.bool, device=mask.device
        )
        return torch.cat([column, pairs, target], dim=1)

    def mask(self, logits: Tensor, column_mask_BC: Tensor) -> Tensor:
        """Return float32 logits with ``ILLEGAL`` where a state lacks the move."""
        logits = logits.float()
        illegal = torch.full_like(logits, ILLEGAL)
        return torch.where(self.legal(column_mask_BC), logits, illegal)

    def assemble(
        self,
        column_BCA: Tensor,
        pair_BCCP: Tensor,
        target_BT: Tensor,
        column_mask_BC: Tensor,
    ) -> Tensor:
        """Lay the heads' logits out in the order of move ids and mask them.

        Logits of operators that commute are averaged over both orders of the pair.
        """
        pair = pair_BCCP.float().permute(0, 3, 1, 2)
        both_orders = 0.5 * (pair + pair.transpose(-2, -1))
        pair = torch.where(self.commutes[:, None, None], both_orders, pair)
        beyond = MAX_COLUMNS
        wide = functional.pad(pair, (0, beyond, 0, beyond))
        wide = wide[:, :, :MAX_COLUMNS, :MAX_COLUMNS]
        logits = torch.cat(
            [_widen(column_BCA.float()).flatten(1), wide.flatten(1), target_BT.float()],
            dim=1,
        )
        return self.mask(logits, column_mask_BC)


def _widen(values_BCX: Tensor) -> Tensor:
    """Fill up to all columns; pads by a fixed number and cuts, for dynamic shapes."""
    missing = torch.zeros_like(values_BCX[:, :1]).expand(-1, MAX_COLUMNS, -1)
    return torch.cat([values_BCX, missing], dim=1)[:, :MAX_COLUMNS]
