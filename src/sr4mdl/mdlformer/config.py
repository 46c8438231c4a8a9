"""Shapes of the networks: one frozen config and the presets.

Owns every size that the weights depend on. It knows nothing of torch, so that cards
can be read where no torch is installed.
"""

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

from sr4mdl.moves import MAX_COLUMNS

Architecture = Literal["cells", "rows", "tokens"]
Axial = Literal["sequential", "split"]
Activation = Literal["gelu", "relu"]

ARCHITECTURES: Final = ("cells", "rows", "tokens")
AXIAL_FORMS: Final = ("sequential", "split")
ACTIVATIONS: Final = ("gelu", "relu")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Everything that decides a network's parameters and what it computes.

    Raises
    ------
    ValueError
        If a size is out of range or two sizes do not fit each other.
    """

    architecture: Architecture = "cells"
    """``cells``: one token per value, equal treatment of columns; ``rows``: one token
    per row of continuous features; ``tokens``: the paper's network."""
    width: int = 128
    """Width of the tokens inside the encoder."""
    n_layers: int = 4
    """Number of encoder layers."""
    n_heads: int = 4
    """Attention heads; must divide ``width``."""
    feed_forward: int = 512
    """Hidden width of the feed-forward parts."""
    max_columns: int = MAX_COLUMNS
    """Columns a state can have; fixed by the table of moves."""
    n_rows: int = 32
    """Rows the network is trained and searched with; any number works."""
    dropout: float = 0.0
    """Share of activations dropped in training, in [0, 1)."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward parts."""
    axial: Axial = "sequential"
    """``cells`` only. ``sequential``: attention across columns, then across rows, in
    each layer; ``split``: half of the heads for each, side by side."""
    n_pool: int = 4
    """``cells`` only. Learned queries that pool the rows of a column."""
    column_width: int = 256
    """``cells`` only. Width of the vectors of columns after pooling."""
    n_column_layers: int = 2
    """``cells`` only. Encoder layers over the pooled columns."""
    token_width: int = 64
    """``tokens`` only. Width of the embedding of one token of a number."""
    value_centre: float = 10.0
    """Value, in symbols, that an output of 0 stands for."""
    value_scale: float = 10.0
    """Symbols per unit of output."""
    min_spread: float = 0.25
    """Smallest standard deviation of the value that can be said, in symbols."""

    def __post_init__(self) -> None:
        _check_choice("architecture", self.architecture, ARCHITECTURES)
        _check_choice("axial", self.axial, AXIAL_FORMS)
        _check_choice("activation", self.activation, ACTIVATIONS)
        for name in (
            "width", "n_layers", "n_heads", "feed_forward", "n_rows", "n_pool",
            "column_width", "token_width",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}"
                )
        if self.n_column_layers < 0:
            raise ValueError(
                f"n_column_layers must be at least 0, got {self.n_column_layers}"
            )
        if self.max_columns != MAX_COLUMNS:
            raise ValueError(
                f"max_columns must be {MAX_COLUMNS} (the table of moves), "
                f"got {self.max_columns}"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")
        if self.value_scale <= 0 or self.min_spread <= 0:
            raise ValueError(
                "value_scale and min_spread must be positive, "
                f"got {self.value_scale} and {self.min_spread}"
            )
        if self.width % self.n_heads or (self.axial == "split" and self.n_heads % 2):
            raise ValueError(
                f"n_heads must divide width (and be even for split attention), "
                f"got {self.n_heads} and {self.width}"
            )
        if self.architecture == "cells" and self.column_width % self.n_heads:
            raise ValueError(
                f"n_heads must divide column_width, "
                f"got {self.n_heads} and {self.column_width}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the config as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """Return the config of such a dict; unknown keys are an error."""
        check_keys(values, cls)
        return cls(**values)


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def check_keys(values: Mapping[str, Any], config_class: type[Any]) -> None:
    """Raise ValueError with a hint if a key is not a field of the dataclass."""
    known = [field.name for field in fields(config_class)]
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"{config_class.__name__} has no setting {key!r}{hint} "
                f"(known: {', '.join(known)})"
            )


PRESETS: Final[Mapping[str, ModelConfig]] = {
    "small": ModelConfig(),
    "small-rows": ModelConfig(
        architecture="rows", width=384, n_layers=6, n_heads=8, feed_forward=1536
    ),
    "tiny": ModelConfig(
        width=32, n_layers=2, n_heads=2, feed_forward=64, n_rows=8, n_pool=2,
        column_width=32, n_column_layers=1,
    ),
    "tiny-rows": ModelConfig(
        architecture="rows", width=32, n_layers=2, n_heads=2, feed_forward=64, n_rows=8
    ),
    "tiny-tokens": ModelConfig(
        architecture="tokens", width=32, n_layers=2, n_heads=2, feed_forward=64,
        n_rows=8, token_width=8, activation="relu", value_centre=25.0,
    ),
    "paper": ModelConfig(
        architecture="tokens", width=512, n_layers=8, n_heads=8, feed_forward=2048,
        n_rows=200, dropout=0.1, activation="relu", value_centre=25.0,
    ),
}  # fmt: skip
"""Named configs; ``small`` is the default, the tiny ones are for tests."""


def get_preset(name: str) -> ModelConfig:
    """Return the config of that name; ValueError lists the names there are."""
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]
