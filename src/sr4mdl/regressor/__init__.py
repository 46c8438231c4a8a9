"""The scikit-learn regressor and what a fit leaves behind.

``estimator`` wires data, search and choice; ``equations`` is the table of formulas,
``outcomes`` the answer for one target, ``saving`` its JSON form. scikit-learn is
imported with this package and nowhere below it.
"""

from sr4mdl.regressor.equations import Equation, EquationTable
from sr4mdl.regressor.estimator import SymbolicRegressor
from sr4mdl.regressor.outcomes import Constant, Outcome

__all__ = ["Constant", "Equation", "EquationTable", "Outcome", "SymbolicRegressor"]
