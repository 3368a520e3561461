"""Papers in docs/paper: the sections that their journal asks for, their length, and references that are there."""

import re
from pathlib import Path

import pytest

PAPERS = Path(__file__).resolve().parents[2] / "docs" / "paper"
# as JOSS asks for since 2026 (https://joss.readthedocs.io/en/latest/paper.html), in this order
SECTIONS = [
    "Summary",
    "Statement of need",
    "State of the field",
    "Software design",
    "Research impact statement",
    "AI usage disclosure",
    "Acknowledgements",
    "References",
]


def body(name):
    """Return the text of a paper without its metadata."""
    return (PAPERS / name).read_text(encoding="utf-8").split("---", 2)[2]


def test_the_software_paper_has_the_sections_that_its_journal_asks_for():
    text = body("paper.md")
    assert re.findall(r"^# (.+)$", text, flags=re.MULTILINE) == SECTIONS
    assert 750 <= len(text.split()) <= 1750


def test_what_authors_alone_can_say_is_marked():
    text = body("paper.md")
    for section in ("Research impact statement", "AI usage disclosure", "Acknowledgements"):
        own = text.partition(f"# {section}\n")[2].partition("\n# ")[0]
        assert re.search(r"\*\[For the authors: .+?\]\*", own, flags=re.DOTALL), section


@pytest.mark.parametrize("name", ["paper.md", "methods.md"])
def test_references_are_in_the_bibliography(name):
    known = re.findall(r"^@\w+\{(\w+),", (PAPERS / "paper.bib").read_text(encoding="utf-8"), flags=re.MULTILINE)
    cited = re.findall(r"@([a-z]+\d{4})", body(name))
    assert len(cited) > 10
    assert sorted(set(cited) - set(known)) == []
    assert len(known) == len(set(known))


def test_every_reference_is_cited():
    known = re.findall(r"^@\w+\{(\w+),", (PAPERS / "paper.bib").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert [key for key in known if f"@{key}" not in body("paper.md") + body("methods.md")] == []
