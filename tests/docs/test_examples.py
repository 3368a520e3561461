import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "bayescore"
MODULES = sorted(
    ".".join(("bayescore", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def differences(tests: list[doctest.DocTest]) -> str:
    """Return what examples give in place of what they show."""
    told: list[str] = []
    for test in tests:
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
    return "".join(told)


@pytest.mark.essential("the examples of docstrings")
@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name: str) -> None:
    tests = doctest.DocTestFinder().find(importlib.import_module(name))
    assert any(test.examples for test in tests), "an example that the finder does not see is not checked"
    assert not (told := differences(tests)), told


def test_an_example_that_is_wrong_is_found() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert "Expected:\n    3\nGot:\n    2" in differences([wrong])
