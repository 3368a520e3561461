"""Figures that pages quote are those of the results files, in the words of `benchmarks/quoted.md.j2`.

Held to it are README.md, docs/ and notebooks: each figure with a unit in a paragraph that names a benchmark is a quote;
on the page of evidence and in the paper on methods each in any paragraph, and in the paper each row of a table. Figures
without a unit, and tables whose command stands elsewhere, are not looked through.
"""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import write_results
from benchmarks.commands import commands
from tests.test_results import MEASURED, prose

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("docs/**/*.md"), *ROOT.glob("notebooks/*.ipynb"))),
]
EVIDENCE = "docs/explanation/evidence.md"
METHODS = "docs/paper/methods.md"
WHOLE = (EVIDENCE, METHODS)  # pages of which every paragraph is looked through
NAMES_A_BENCHMARK = re.compile(r"python -m benchmarks|RESULTS\.md")


def spaced(text):
    """Return text with single spaces."""
    return re.sub(r"\s+", " ", text).strip()


def words(page):
    """Return the text of a page; of a notebook that of its cells without code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if not page.endswith(".ipynb"):
        return text
    return "\n\n".join("".join(one["source"]) for one in json.loads(text)["cells"] if one["cell_type"] == "markdown")


def quotes():
    """Return the quotes of each page, from the tables."""
    sections = re.split(r"^## (.+)$", write_results.render("quoted.md.j2"), flags=re.MULTILINE)[1:]
    return {
        page: [spaced(one) for one in re.split(r"\n\s*\n", text) if one.strip()]
        for page, text in zip(sections[::2], sections[1::2], strict=True)
    }


def missing(page, found):
    """Return the quotes that a page does not have."""
    text = spaced(words(page))
    return [quote for quote in found[page] if quote not in text]


def unquoted(page, found):
    """Return the figures with a unit of the paragraphs that name a benchmark, quotes left out."""
    text = re.sub(r"```.*?```", "", words(page), flags=re.DOTALL)
    figures = []
    for paragraph in map(spaced, re.split(r"\n\s*\n|\n(?=- )", text)):
        if page not in WHOLE and not NAMES_A_BENCHMARK.search(paragraph):
            continue
        for quote in sorted(found.get(page, []), key=len, reverse=True):
            paragraph = paragraph.replace(quote, "")
        figures += re.findall(MEASURED, prose(paragraph))
    return figures


FOUND = quotes()


@pytest.mark.parametrize("page", FOUND)
def test_pages_say_what_the_tables_say(page):
    """Mend the page; where a sentence is to be another one, `benchmarks/quoted.md.j2` too."""
    assert missing(page, FOUND) == []


@pytest.mark.parametrize("page", PAGES)
def test_measured_figures_are_quotes(page):
    assert unquoted(page, FOUND) == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_pages_name_exist(page):
    """The page on leverage named one that was gone."""
    named = re.findall(r"python -m\s+benchmarks\s+([a-z]\w*)", words(page))
    assert sorted(set(named) - set(commands())) == []


def test_rows_of_the_papers_tables_are_quotes():
    rows = [line for line in words(METHODS).splitlines() if re.match(r"\| [^|]+ \| \d", line)]
    quoted = [quote for quote in FOUND[METHODS] if quote.startswith("|")]
    assert rows == quoted
    assert len(rows) > 20


def test_the_papers_tables_name_commands_that_are_there():
    from benchmarks.commands import commands

    named = set(re.findall(r"python\s+-m\s+benchmarks\s+(\w+)", words(METHODS)))
    assert len(named) >= 6
    assert sorted(named - set(commands())) == []


def test_a_table_that_changes_is_seen(monkeypatch):
    """The control: with one more forged draw in the table README no longer says what it says."""
    read = pd.read_csv

    def changed(path, **options):
        frame = read(path, **options)
        if Path(path).name == "forgeries.csv":
            frame.loc[frame["model"] == "all", "forged"] += 1
        return frame

    monkeypatch.setattr(write_results.pd, "read_csv", changed)
    assert missing("README.md", quotes()) != []
    assert unquoted("README.md", {}) != unquoted("README.md", FOUND)
