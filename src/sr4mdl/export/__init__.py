"""Formulas in other languages: sympy, LaTeX, numpy, torch, C and spreadsheets.

Each operator's form comes from the operator table; these modules own brackets, names,
numbers and the way back from sympy. sympy and torch are imported when they are
needed. Nothing here executes text.
"""

from sr4mdl.export.callables import to_numpy, to_torch
from sr4mdl.export.latex import to_latex
from sr4mdl.export.source import to_c, to_numpy_source
from sr4mdl.export.spreadsheet import to_excel_formula
from sr4mdl.export.symbolic import from_sympy, to_sympy

__all__ = [
    "from_sympy",
    "to_c",
    "to_excel_formula",
    "to_latex",
    "to_numpy",
    "to_numpy_source",
    "to_sympy",
    "to_torch",
]
