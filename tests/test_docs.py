"""What the documents show runs, and versions agree."""

import re
import subprocess
import sys
from pathlib import Path

import sr4mdl

ROOT = Path(__file__).parents[1]


def code_blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


def test_python_of_the_readme_runs() -> None:
    program = "\n".join(code_blocks(ROOT / "README.md", "python"))
    assert "import sr4mdl" in program
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    # The answer that the last comment promises.
    assert "3*x^2" in result.stdout


def test_example_of_the_json_form_is_read() -> None:
    (block,) = code_blocks(ROOT / "docs" / "formats.md", "json")
    assert str(sr4mdl.from_json(block)) == "sin(x)*sin(x) + 0.5"


def test_citation_names_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {sr4mdl.__version__}\n" in citation


def test_files_are_ascii() -> None:
    files = [
        path
        for folder in ("src", "tests", "docs", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".toml"}
    ]
    files += list(ROOT.glob("*.md"))
    assert len(files) > 10
    assert [str(path) for path in files if not path.read_bytes().isascii()] == []
