"""Reports: a self-contained HTML page and pictures, made without other packages.

``mathml`` typesets formulas for browsers, ``charts`` draws SVG, ``page`` puts both
together. Nothing here loads anything from elsewhere, so a page can be sent and kept.
"""

from sr4mdl.report.page import Picture, make_picture, make_report

__all__ = ["Picture", "make_picture", "make_report"]
