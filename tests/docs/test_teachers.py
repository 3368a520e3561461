"""The page for teachers says of each chapter what the notebook has: minutes and exercises."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "teachers.md").read_text(encoding="utf-8").split("## The chapters")[1].split("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| [")]
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def said(row):
    """Return the chapter of a row, its minutes and the number of its exercises."""
    chapter = re.search(r"tutorials/(\w+)\.ipynb", row[0])[1]
    return chapter, int(row[1]), int(row[3])


def held(path):
    """Return the same of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    text = "\n".join(source for source, cell in zip(sources, cells, strict=True) if cell["cell_type"] == "markdown")
    exercises = text.split("## Exercises")[1].split("## Quiz")[0]
    return (
        path.stem,
        int(re.search(r"\*\*Time\*\*: (\d+) minutes", text)[1]),
        len(re.findall(r"^(?:\*\*)?\d+\. ?\*\*", exercises, re.MULTILINE)),
    )


def test_every_chapter_has_a_row():
    assert [said(row)[0] for row in ROWS] == [path.stem for path in CHAPTERS]


@pytest.mark.parametrize(("row", "path"), list(zip(ROWS, CHAPTERS, strict=True)), ids=[path.stem for path in CHAPTERS])
def test_a_row_says_what_the_notebook_has(row, path):
    assert said(row) == held(path)
    assert said([row[0], "1", *row[2:]]) != held(path)
