"""The simplifier: algebra on expressions, without sympy.

An expression goes into a normal form (``convert``, with ``sums``, ``products``,
``functions`` and ``identities``), and the shortest way found to write that form comes
back (``plans`` and the ``write_*`` modules). No rewrite changes a value where the
input is defined, that is, where all its parts are finite numbers; some make the
result defined in more places, and :func:`simplify_with_report` says so.
"""

from sr4mdl.simplify.domains import Simplified, simplify_with_report
from sr4mdl.simplify.shortest import simplify

__all__ = ["Simplified", "simplify", "simplify_with_report"]
