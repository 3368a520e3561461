"""All files that state the version or the requirements state those of pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

from bayescore import files
from bayescore.data import coreset
from bayescore.fitting import files as fit_files

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
RECIPE = yaml.safe_load((ROOT / "docs" / "development" / "conda" / "meta.yaml").read_text(encoding="utf-8"))
STABILITY = (ROOT / "docs" / "development" / "stability.md").read_text(encoding="utf-8")
CONDA = {"matplotlib": "matplotlib-base"}  # conda-forge's name where it is another one: this has no Qt


def bounds(requirements: list[str]) -> dict[str, set[str]]:
    """Return the bounds of each package, without markers; a package may have several lines."""
    found: dict[str, set[str]] = {}
    for line in requirements:
        name, limits = re.fullmatch(r"([\w-]+)\s*([^;]*?)\s*(?:;.*)?", line).groups()
        found.setdefault(name, set()).update(limits.split(","))
    return found


def test_the_version_is_one():
    newest, date = re.search(r"^## (\S+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M).groups()
    assert newest == CITATION["version"] == RECIPE["package"]["version"] == PROJECT["version"]
    assert date == str(CITATION["date-released"])
    for page in ("install", "is-it-for-me"):
        text = (ROOT / "docs" / "start" / f"{page}.md").read_text(encoding="utf-8")
        assert re.findall(r"version (\d+\.\d+\.\d+)", text) == [PROJECT["version"]]


def test_the_citation_says_what_the_project_says():
    assert CITATION["title"] == "bayescore: " + PROJECT["description"].partition(":")[0]
    assert (CITATION["license"], CITATION["keywords"]) == (PROJECT["license"], PROJECT["keywords"])


def test_the_recipe_requires_what_the_project_requires():
    needed = {CONDA.get(name, name): limits for name, limits in bounds(PROJECT["dependencies"]).items()}
    assert bounds(RECIPE["requirements"]["run"]) == {**needed, "python": {PROJECT["requires-python"]}}
    assert RECIPE["build"]["entry_points"] == [f"{name} = {call}" for name, call in PROJECT["scripts"].items()]
    assert RECIPE["about"] == {
        "summary": PROJECT["description"],
        "license": PROJECT["license"],
        "license_file": "LICENSE",
    }


def test_bounds_that_differ_are_found():
    assert bounds(["a>=1,<2", "a<1.5; python_version < '3.12'"]) == {"a": {">=1", "<2", "<1.5"}} != bounds(["a >=1,<2"])


def test_the_page_of_stability_has_the_formats_and_versions():
    rows = dict(re.findall(r"^\| ([\w ]+?)(?:,[^|]*)? \| (.+) \|$", STABILITY, re.M))
    assert rows["coreset"] == f"{coreset.FORMAT} | {', '.join(map(str, coreset.READABLE))}"
    assert rows["fit"] == f"{fit_files.FORMAT} | {fit_files.FORMAT}"
    assert rows["checkpoint of a stream"] == f"{files._FORMAT} | {files._FORMAT}"
    pythons = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", each)]
    assert f"Python {', '.join(pythons[:-1])} and {pythons[-1]} are tested" in STABILITY
