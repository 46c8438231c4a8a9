"""The right-hand side of a differential equation, from a trajectory.

The table holds prey, predators and the slope of the prey, taken from neighbouring
measurements.

python examples/ode.py [SECONDS] [PICTURE.svg]
"""

import sys
from pathlib import Path

from sr4mdl import SymbolicRegressor
from sr4mdl.data import Dataset

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
data = Dataset.from_file(Path(__file__).with_name("predator_prey.csv"), "prey_slope")

model = SymbolicRegressor(
    max_time=seconds, operators=("add", "sub", "mul"), random_state=0
).fit_dataset(data)
print(f"d prey / dt = {model.best_.formula}")
print(f"LaTeX: {model.latex()}")
print(f"C:\n{model.to_c(function_name='prey_slope')}")
if len(sys.argv) > 2:
    model.plot(data).save(sys.argv[2])
