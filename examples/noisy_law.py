"""A noisy physical law: the drag of a ball, measured with an error of 2 percent.

python examples/noisy_law.py [SECONDS] [PICTURE.svg]
"""

import sys
from pathlib import Path

import numpy as np

from sr4mdl import SymbolicRegressor
from sr4mdl.data import Dataset

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
data = Dataset.from_file(Path(__file__).with_name("drag.csv"), "force")
assert data.y is not None

model = SymbolicRegressor(max_time=seconds, random_state=0).fit_dataset(data)
print(model.equations_)
print()
print(model.explain())

# The law was force = 0.27 * area * speed^2.
truth = 0.27 * data.column("area") * data.column("speed") ** 2
found = model.to_numpy()(data.X)
print(f"\nerror against the law itself: {np.sqrt(np.mean((found - truth) ** 2)):.3g}")
if len(sys.argv) > 2:
    model.plot(data).save(sys.argv[2])
