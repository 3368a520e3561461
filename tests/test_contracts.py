"""Every module is inside the import contracts, and CONTRIBUTING says who imports PyMC and who builds a model."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bayescore"


def broken(folder, **modules):
    """Return the contracts that a copy of the package breaks, given the text of modules that are new in it."""
    shutil.copytree(PACKAGE, folder / "bayescore", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, text in modules.items():
        (folder / "bayescore" / f"{name.replace('__', '/')}.py").write_text(text)
    command = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    ran = subprocess.run([sys.executable, "-c", command], cwd=folder, capture_output=True, text=True)
    kept = re.search(r"Contracts: (\d+) kept, (\d+) broken", ran.stdout)
    assert kept, ran.stdout + ran.stderr
    assert ran.returncode == (kept[2] != "0")
    return re.findall(r"^(.+) BROKEN", ran.stdout, re.MULTILINE)


def test_a_new_module_is_inside_every_contract(tmp_path):
    pytest.importorskip("importlinter")
    found = broken(
        tmp_path,
        new="",  # of no layer
        diagnostics__new="",
        coresets__new="import pymc, polars\n",
        estimators="import arviz\n",  # a module that the lists by hand had left out
        samplers__new="import bayescore.samplers.newer\n",
        samplers__newer="import bayescore.samplers.new\n",
    )
    assert [name.split()[0] for name in found] == ["The", "Diagnostics:", "No", "Only", "Only", "Only"]


def test_the_tree_itself_breaks_none(tmp_path):
    pytest.importorskip("importlinter")
    assert broken(tmp_path) == []


def section(text, start):
    """Return the files that a point of CONTRIBUTING names before its first full stop."""
    found = re.search(rf"- {re.escape(start)}(.*?`)\.(?:\s|$)", text, re.DOTALL)
    return sorted(re.findall(r"`([\w/]+\.py)`", found[1]))


def test_contributing_says_who_imports_pymc_and_who_builds_models():
    importing, building = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        name, nodes = path.relative_to(PACKAGE).as_posix(), list(ast.walk(ast.parse(path.read_text("utf-8"))))
        named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        named += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
        if any(each.split(".")[0] == "pymc" for each in named) and not name.startswith("priors/"):
            importing.append(name)
        if any(isinstance(node, ast.Call) and ast.unparse(node.func) == "pm.Model" for node in nodes):
            building.append(name)
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert section(text, "Files that import PyMC: ") == importing
    assert section(text, "Files that build a `pm.Model`: ") == building


MANY = {"compiled.py:call", "families/student_t.py:student_derivatives"}
"""Functions that take more than five arguments by position: numba gives those of kernels by position alone."""


def by_position(node):
    """Return how many arguments a function takes by position, the object itself not counted; 0 of an override.

    Overrides have the signature of what they override in another package.
    """
    if any(ast.unparse(each).endswith("override") for each in node.decorator_list):
        return 0
    names = [own.arg for own in (*node.args.posonlyargs, *node.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_a_function_takes_at_most_five_arguments_by_position():
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{node.name}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and by_position(node) > 5
    }
    assert found <= MANY
