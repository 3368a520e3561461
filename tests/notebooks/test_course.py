"""Hand-outs, solutions and slides hold what their readers should see, and nothing else."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.docs.generated import ROOT, generator

course = generator("course")
ANSWER = "<details><summary>Answer</summary>\n\nBecause.\n\n</details>"
FOLDED = {"jupyter": {"source_hidden": True}, "tags": ["hide-cell"]}


def chapter():
    """Return a small executed chapter."""
    shown = [new_output("stream", name="stdout", text="42")]
    return new_notebook(
        cells=[
            new_markdown_cell("# Title\n\nText."),
            new_code_cell("print(42)", outputs=shown, execution_count=1),
            new_code_cell("\n".join(f"line_{i} = {i}" for i in range(20)), outputs=shown, execution_count=2),
            new_markdown_cell(f"## Exercises\n\n{course.FOLDED}\n\n1. **Do** it."),
            new_code_cell("# Exercise 1\nassert solved", metadata=FOLDED, outputs=shown, execution_count=3),
            new_markdown_cell(f"## Quiz\n\n1. Why?\n\n{ANSWER}\n\n2. How?\n\n{ANSWER}\n"),
        ]
    )


def text(notebook):
    return "\n".join(cell.source for cell in notebook.cells)


def test_a_handout_asks_and_does_not_answer():
    before = chapter()
    given = course.handout(before)
    nbformat.validate(given)
    assert "solved" not in text(given)
    assert "Because" not in text(given)
    assert "2. How?" in text(given)
    assert given.cells[4].source == "# Exercise 1: your answer"
    assert not any(cell.get("outputs") for cell in given.cells)
    assert "# Exercise 1\nassert solved" in text(before)


def test_a_solution_has_outputs_and_all_answers_open():
    opened = course.solution(chapter())
    nbformat.validate(opened)
    assert opened.cells[4].source == "# Exercise 1\nassert solved"
    assert "jupyter" not in opened.cells[4].metadata
    assert text(opened).count("<details open>") == 2
    assert opened.cells[1].outputs


def test_slides_leave_solutions_and_long_code_out():
    pytest.importorskip("nbconvert")
    page = course.slides(chapter())
    assert "reveal" in page
    assert "solved" not in page
    assert "line_3" not in page
    assert page.count("42") >= 2
    assert "print" in page


def test_every_chapter_can_be_a_handout():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        given = course.handout(notebook)
        assert sum(": your answer" in cell.source for cell in given.cells) == sum(map(course.solves, notebook.cells))
        assert "<details>" not in text(given)
        assert "assert" not in "".join(cell.source for cell in given.cells if cell.source.startswith("# Exercise"))


def test_the_badge_opens_the_notebook_of_the_repository():
    line = course.badge("01_why", "https://github.com/someone/bayescore")
    assert line.endswith("(https://mybinder.org/v2/gh/someone/bayescore/main?labpath=notebooks%2F01_why.ipynb)")
    opened = course.with_badge(chapter(), "01_why", "https://github.com/someone/bayescore")
    assert (
        opened.cells[0].source
        == f"# Title\n\n{course.badge('01_why', 'https://github.com/someone/bayescore')}\n\nText."
    )
    assert course.with_badge(chapter(), "01_why", None).cells[0].source == "# Title\n\nText."
