import json
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
COVTYPE = ROOT.parent / "shared" / "data" / "covtype_ramp16pct.parquet"
# CovType where a notebook reads it and its file lies beside the repository; without data and network in any case
READ_COVTYPE = {path for path in NOTEBOOKS if "load_covtype" in path.read_text(encoding="utf-8")}
RUNS = [
    pytest.param(path, data, id=f"{path.stem}-{data}")
    for path in NOTEBOOKS
    for data in (["covtype", "offline"] if path in READ_COVTYPE and COVTYPE.is_file() else ["offline"])
]
UNREACHABLE = "http://127.0.0.1:9"  # a proxy that refuses at once, in place of a network


def test_there_are_notebooks() -> None:
    assert set(NOTEBOOKS) > READ_COVTYPE


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs"), cell.source
        assert cell.get("execution_count") is None, cell.source
        assert not cell.metadata, cell.source
        assert cell.source.strip()
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"


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
@pytest.mark.parametrize(("path", "data"), RUNS)
def test_runs(path: Path, data: str, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"{path.name} {'on ' + COVTYPE.name if data == 'covtype' else 'as without data and network'}")
    monkeypatch.setenv("BAYESCORE_QUICK", "1")
    # joblib cannot tell in a container without /sys
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:Could not find the number of physical cores")
    if data == "covtype":
        monkeypatch.setenv("BAYESCORE_COVTYPE", str(COVTYPE))
    else:
        monkeypatch.delenv("BAYESCORE_COVTYPE", raising=False)
        monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "empty"))
        for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(variable, UNREACHABLE)
        for variable in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(variable, raising=False)
    notebook = nbformat.read(path, as_version=4)
    # a cell that fails raises CellExecutionError
    NotebookClient(notebook, kernel_name=kernel, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert "Traceback" not in outputs(notebook, "stderr")
    assert "Warning" not in outputs(notebook, "stderr")
    if path in READ_COVTYPE:
        assert ("synthetic data" in outputs(notebook, "stdout")) == (data == "offline")
