"""The scripts in examples/ run and say what they promise."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "promises"),
    [
        ("noisy_law", ["force = 0.27*area*speed^2", "error against the law itself"]),
        ("ode", ["d prey / dt = ", "double prey_slope("]),
        ("black_box", ["R2 on new rows: formula 0."]),
    ],
)
def test_example(name: str, promises: list[str], tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    result = subprocess.run(
        [sys.executable, "-W", "error", f"{name}.py", "3", str(picture)],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    for promise in promises:
        assert promise in result.stdout
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")


def test_every_script_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "noisy_law",
        "ode",
        "black_box",
    }


def test_python_of_the_guide_runs() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=EXAMPLES.parent,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("period = 2*pi*sqrt(length/gravity)\n")
