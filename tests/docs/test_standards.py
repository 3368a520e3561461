"""The page of rOpenSci's standards has every standard once, and what it names exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "development" / "standards.md").read_text(encoding="utf-8")
ROWS = [re.split(r"\s*\|\s*", line.strip("| \n")) for line in PAGE.splitlines() if line.startswith("| BS")]
# of section 6.2; BS1.2 and BS7.4 have parts
STANDARDS = [
    *("BS1.0", "BS1.1", "BS1.2a", "BS1.2b", "BS1.2c", "BS1.3", "BS1.3a", "BS1.3b", "BS1.4", "BS1.5"),
    *("BS2.1", "BS2.1a", *(f"BS2.{n}" for n in range(2, 16))),
    *(f"BS3.{n}" for n in range(3)),
    *(f"BS4.{n}" for n in range(8)),
    *(f"BS5.{n}" for n in range(6)),
    *(f"BS6.{n}" for n in range(6)),
    *(f"BS7.{n}" for n in range(5)),
    "BS7.4a",
]
FOLDERS = ("tests/", "bayescore/", "benchmarks/", "notebooks/", "docs/", "README")


def named(text):
    """Return the paths, with or without a test, and the pages that a text points to."""
    paths = [each for each in re.findall(r"`([^`]+)`", text) if each.startswith(FOLDERS)]
    return paths, re.findall(r"\]\(([^)#]+\.md)\)", text)


def missing(path):
    """Say whether a path, or the test that it names, does not exist."""
    file, _, test = path.partition("::")
    found = ROOT / file
    return not found.exists() or bool(test and f"\ndef {test}(" not in found.read_text(encoding="utf-8"))


def test_every_standard_stands_once_in_order():
    assert [row[0] for row in ROWS] == STANDARDS
    assert {row[2] for row in ROWS} == {"yes", "partly", "no", "does not apply"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_is_named_exists(row):
    paths, pages = named(row[3])
    if row[2] == "yes" and row[0] != "BS2.11":
        assert paths or pages
    assert [path for path in paths if missing(path)] == []
    assert [page for page in pages if not (ROOT / "docs" / "development" / page).is_file()] == []


def test_what_does_not_exist_is_found():
    assert missing("tests/none.py")
    assert missing("tests/docs/test_standards.py::test_none")
    assert not missing("tests/docs/test_standards.py::test_what_does_not_exist_is_found")
