import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.site import LISTED

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# the solution of an exercise: folded by JupyterLab and on the site, executed like any cell
FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["hide-cell"]}
UNREACHABLE = "http://127.0.0.1:9"  # a proxy that refuses at once, in place of a network


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) > 10


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs"), cell.source
        assert cell.get("execution_count") is None, cell.source
        assert not cell.metadata or cell.metadata == FOLDED, cell.source
        assert cell.source.strip()
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_a_chapter(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    first, text = cells[0].source, "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert len(re.findall(r"^\* ", first.split("**Aims.**")[1].split("**Time**")[0], flags=re.MULTILINE)) == 3
    assert "**You should know**" in first
    assert text.split("## Quiz")[1].count("<details><summary>Answer</summary>\n\n") == 3
    solutions = [cell.source for cell in cells if cell.metadata == FOLDED]
    exercises = len(
        re.findall(r"^(?:\*\*)?\d+\. ?\*\*", text.split("## Exercises")[1].split("## Quiz")[0], re.MULTILINE)
    )
    assert exercises >= 2
    numbers = [re.match(r"# Exercise (\d+)\n", solution) for solution in solutions]
    assert [number and int(number[1]) for number in numbers] == list(range(1, exercises + 1))
    assert all(re.search(r"^ *assert ", solution, flags=re.MULTILINE) for solution in solutions)
    families = set(re.findall(r"\]\(([^)#]+\.ipynb)\)", text))
    assert {family for family in families if not (path.parent / family).is_file()} == set()
    last = cells[-1].source
    assert ("**Previous**:" in last, "**Next**:" in last) == (path != NOTEBOOKS[0], path != NOTEBOOKS[-1])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_asks_before_each_figure(path: Path) -> None:
    asked = False
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            asked = asked or "**Before you look.**" in cell.source
        elif re.search(r"plt\.subplots\(|\.plot_\w+\(", cell.source) and cell.metadata != FOLDED:
            assert asked, cell.source
            asked = False


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_imports_only_what_the_reference_lists(path: Path) -> None:
    code = (cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    imports = [node for source in code for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    names = {f"{node.module}.{name.name}" for node in imports for name in node.names}
    ours = {name.removeprefix("bayescore.") for name in names if name.startswith("bayescore.")}
    assert sorted(ours - set(LISTED)) == []


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a kernel of the Python that runs the tests, whatever kernels are installed."""
    spec = tmp_path / "jupyter" / "kernels" / "under_test" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "under test", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        folder = tmp_path / variable.lower()
        folder.mkdir()
        monkeypatch.setenv(variable, str(folder))
    return "under_test"


def outputs(notebook: Any, kind: str) -> str:
    """Return what the cells wrote to the stream "stdout" or "stderr"."""
    parts = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(part.text for part in parts if part.output_type == "stream" and part.name == kind)


@pytest.mark.slow
@pytest.mark.pages
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESCORE_QUICK", "1")
    # joblib cannot tell in a container without /sys; on a busy machine matplotlib's search for a place takes a second
    ignored = ("Could not find the number of physical cores", "Creating legend with loc")
    monkeypatch.setenv("PYTHONWARNINGS", ",".join(f"ignore:{message}" for message in ignored))
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, UNREACHABLE)
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    notebook = nbformat.read(path, as_version=4)
    # a cell that fails raises CellExecutionError
    NotebookClient(notebook, kernel_name=kernel, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert "Traceback" not in outputs(notebook, "stderr")
    assert "Warning" not in outputs(notebook, "stderr")
