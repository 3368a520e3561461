"""Pages that list what the package has list all of it: functions of formulas, families, priors, pictures, checks."""

import ast
import re

import pytest

import bayescore as bc
from bayescore import priors
from bayescore.data import formula_parsing
from bayescore.families.family import FAMILIES, SIZED
from tests.docs.generated import ROOT

DOCS = ROOT / "docs"


def code_of(page):
    """Return what a page sets as code, without its blocks."""
    text = re.sub(r"```.*?```|``.*?``", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(re.findall(r"`([^`]+)`", text))


def checks():
    """Return the longest fixed part of each line of the check that a fit prints."""
    tree = ast.parse((ROOT / "bayescore" / "diagnostics" / "results.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Check":
            parts = [each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)]
            yield max(map(str, parts), key=len).strip(" ,")


def test_functions_of_formulas_are_on_their_page():
    words = set(re.findall(r"\w+", code_of("how-to/formulas.md")))
    named = formula_parsing.PLAIN | formula_parsing.LEARNING | formula_parsing.CODINGS
    assert len(named) > 30
    assert sorted(named - words) == []


def test_families_are_on_the_page_of_models():
    code = code_of("how-to/models.md")
    assert [name for name in (*FAMILIES, *SIZED) if f'"{name}' not in code] == []


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_scales_are_those_of_the_families(family):
    rows = (DOCS / "how-to" / "models.md").read_text(encoding="utf-8").splitlines()
    row = next(line for line in rows if line.startswith(f"| {family.name} |"))
    assert f"| {family.scale} |" in row
    assert (family.ratio or "error: no ratio") in row


def test_priors_are_on_their_page():
    kinds = [name for name in priors.__all__ if isinstance(getattr(priors, name), type)]
    assert sorted(set(kinds) - {"Prior", "Independent"} - set(re.findall(r"\w+", code_of("how-to/priors.md")))) == []


def test_pictures_are_on_the_page_of_plots():
    code = code_of("how-to/plots.md")
    assert [name for name in dir(bc.Fit) if name.startswith("plot") and f"fit.{name}(" not in code] == []


@pytest.mark.parametrize(
    "page",
    sorted(page for shelf in ("start", "how-to", "users") for page in (DOCS / shelf).glob("*.md")),
    ids=lambda page: page.stem,
)
def test_the_guide_has_real_data(page):
    """Random numbers may choose rows; they are not data."""
    assert not re.search(r"\.(?:standard_)?(?:normal|logistic|binomial|poisson)\(", page.read_text(encoding="utf-8"))


def test_checks_are_on_the_page_of_output():
    page = (DOCS / "start" / "output.md").read_text(encoding="utf-8")
    found = list(checks())
    assert len(found) == 5
    assert [each for each in found if each not in page] == []
