import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sr4mdl

HEAVY = {"torch", "onnxruntime", "numba", "sympy", "pandas", "sklearn"}


def run_python(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        check=True,
        text=True,
    )
    return result.stdout


def packages_after(program: str) -> set[str]:
    loaded = run_python(
        f"{program}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
    )
    return {name.partition(".")[0] for name in json.loads(loaded)}


def test_import_is_light() -> None:
    assert HEAVY.isdisjoint(packages_after("import sr4mdl"))


def test_parsing_and_reading_tables_is_light() -> None:
    program = (
        "from sr4mdl import Dataset, parse\nparse('sin(x) + 1')\n"
        "Dataset.from_arrays([[1], [2]])"
    )
    assert HEAVY.isdisjoint(packages_after(program))


def test_help_is_light() -> None:
    program = (
        "import contextlib, io\nfrom sr4mdl.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), "
        "contextlib.suppress(SystemExit):\n    main(['--help'])"
    )
    assert (HEAVY | {"numpy"}).isdisjoint(packages_after(program))


def test_public_names_are_listed_once_and_in_order() -> None:
    listed = [name for name in sr4mdl.__all__ if name != "__version__"]
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(sr4mdl._HOMES)
    assert set(sr4mdl.__all__) <= set(dir(sr4mdl))


@pytest.mark.parametrize("name", sorted(sr4mdl._HOMES))
def test_public_names_are_what_their_modules_hold(name: str) -> None:
    value = getattr(sr4mdl, name)
    home = sys.modules[f"sr4mdl.{sr4mdl._HOMES[name]}"]
    assert value is getattr(home, name)
    assert not isinstance(value, ModuleType)
    assert value.__doc__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(sr4mdl.__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    assert len(blocks) == 1
    seen = {}
    for node in blocks[0].body:
        assert isinstance(node, ast.ImportFrom)
        assert node.module is not None
        for alias in node.names:
            seen[alias.name] = node.module.removeprefix("sr4mdl.")
    assert seen == sr4mdl._HOMES


@pytest.mark.parametrize(
    "name", sorted({home for home in sr4mdl._HOMES.values() if home in sr4mdl._HOMES})
)
def test_a_package_does_not_hide_the_function_of_its_name(name: str) -> None:
    program = (
        f"import sr4mdl\nimport sr4mdl.{name}\nfrom sr4mdl import {name}\n"
        f"import sys\nhome = sys.modules['sr4mdl.{name}']\n"
        f"print(sr4mdl.{name} is {name} is home.{name})"
    )
    assert run_python(program) == "True\n"


def test_star_import() -> None:
    program = (
        "import sr4mdl\nnames = {}\nexec('from sr4mdl import *', names)\n"
        "print(set(sr4mdl.__all__) <= set(names))"
    )
    assert run_python(program) == "True\n"


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="'sr4mdl' has no attribute 'nothing'"):
        _ = sr4mdl.nothing


def test_package_is_typed() -> None:
    assert (Path(sr4mdl.__file__).parent / "py.typed").is_file()
