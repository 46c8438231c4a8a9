"""What the documents show runs, and versions agree."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import sr4mdl
from sr4mdl import search

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


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_api_reference_is_fresh() -> None:
    script = load_script("api_reference")
    assert (ROOT / "docs" / "api.md").read_text() == script.make_reference(), (
        "run python scripts/api_reference.py"
    )


def test_the_api_reference_holds_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    names = {*sr4mdl.__all__, *search.__all__} - {"__version__"}
    names -= {"Listener", "Mode", "StopReason"}  # names of types
    missing = [name for name in names if f"\n### {name}\n" not in text]
    assert not missing
    for link in re.findall(r"\]\(#([\w-]+)\)", text):
        heading = re.sub(r"-\d+$", "", link)
        assert re.search(rf"^### {heading}$", text, re.MULTILINE | re.IGNORECASE), link


def test_links_between_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
