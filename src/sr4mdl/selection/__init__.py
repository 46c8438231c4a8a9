"""Selection in bits: code length, rounding of constants, the archive of formulas."""

from sr4mdl.selection.bits import (
    RELATIVE_FLOOR,
    constant_bits,
    error_floor,
    formula_bits,
    residual_bits,
)
from sr4mdl.selection.fitting import Fit, Form, fit_constants
from sr4mdl.selection.pareto import Choice, ParetoArchive, Scored, skeleton
from sr4mdl.selection.snapping import Snapped, offers, snap_constants
from sr4mdl.selection.tidying import present, tidy

__all__ = [
    "RELATIVE_FLOOR",
    "Choice",
    "Fit",
    "Form",
    "ParetoArchive",
    "Scored",
    "Snapped",
    "constant_bits",
    "error_floor",
    "fit_constants",
    "formula_bits",
    "offers",
    "present",
    "residual_bits",
    "skeleton",
    "snap_constants",
    "tidy",
]
