"""A table of which nothing is known: a formula beside a forest, on rows unseen.

python examples/black_box.py [SECONDS] [PICTURE.svg]
"""

import sys
from pathlib import Path

from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from sr4mdl import SymbolicRegressor
from sr4mdl.data import Dataset

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
data = Dataset.from_file(Path(__file__).with_name("friedman.csv"), "y")
X, X_new, y, y_new = train_test_split(data.X, data.y, random_state=0)

model = SymbolicRegressor(max_time=seconds, validation=0.2, random_state=0).fit(X, y)
forest = RandomForestRegressor(random_state=0).fit(X, y)
print(model.equations_)
print(f"\nformula  {model.best_.formula}")
print(f"R2 on new rows: formula {model.score(X_new, y_new):.3f}, ", end="")
print(f"forest of 100 trees {forest.score(X_new, y_new):.3f}")
if len(sys.argv) > 2:
    model.plot(X_new, y_new).save(sys.argv[2])
