"""Files for a class, from the notebooks of the course by the tags of their cells: hand-outs, solutions and slides.

`make docs` puts hand-outs and solutions into the site, `make course` writes slides beside it.
"""

import re
import sys
import tomllib
from copy import deepcopy
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = "hide-cell"  # the tag of a cell that solves an exercise
ANSWERS = re.compile(r"\n*<details>.*?</details>", re.DOTALL)  # of the quiz
FOLDED = "Try first; the solutions are folded, and run with the notebook."
LONGEST = 8  # lines of code on a slide; of longer cells it shows what they put out


def repository() -> str | None:
    """Return the address of the repository, or None as long as pyproject.toml names none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address: str | None = project.get("urls", {}).get("Repository")
    return address


def badge(name: str, address: str | None) -> str:
    """Return a line of Markdown that opens a notebook of a GitHub repository in Binder, "" without an address."""
    if not address:
        return ""
    link = f"https://mybinder.org/v2/gh/{urlsplit(address).path.strip('/')}/main?labpath=notebooks%2F{name}.ipynb"
    return f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({link})"


def with_badge(notebook: NotebookNode, name: str, address: str | None) -> NotebookNode:
    """Return a notebook with the badge below its title."""
    notebook = deepcopy(notebook)
    title, _, rest = notebook.cells[0].source.partition("\n")
    line = badge(name, address)
    notebook.cells[0].source = f"{title}\n\n{line}\n{rest}" if line else notebook.cells[0].source
    return notebook


def solves(cell: NotebookNode) -> bool:
    """Return whether a cell is a solution."""
    return SOLUTION in cell.metadata.get("tags", [])


def handout(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook for students: without outputs and answers, and with room for each solution."""
    given = deepcopy(notebook)
    cells = []
    for cell in given.cells:
        if cell.cell_type == "markdown":
            cell.source = ANSWERS.sub("", cell.source).replace(FOLDED, "Write your answer into the cell below each.")
        elif solves(cell):
            number = re.match(r"# Exercise \d+", cell.source)
            cell = new_code_cell(f"{number[0] if number else '# Exercise'}: your answer", id=cell.id)
        else:
            cell.outputs, cell.execution_count = [], None
        cells.append(cell)
    given.cells = cells
    return given


def solution(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook for teachers: with outputs, solutions and answers open."""
    opened = deepcopy(notebook)
    for cell in opened.cells:
        cell.source = cell.source.replace("<details>", "<details open>").replace(FOLDED, "")
        if solves(cell):
            cell.metadata.pop("jupyter", None)
            cell.metadata.tags = ["solution"]
    return opened


def slides(notebook: NotebookNode) -> str:
    """Return slides as HTML: sections side by side, their steps below each other, without solutions."""
    from nbconvert import SlidesExporter
    from traitlets.config import Config

    shown = deepcopy(notebook)
    shown.cells = [cell for cell in shown.cells if not solves(cell)]
    for cell in shown.cells:
        heading = cell.cell_type == "markdown" and cell.source.startswith("#")
        kind = "slide" if heading else "subslide" if cell.cell_type == "markdown" else "fragment"
        hidden = cell.cell_type == "code" and cell.source.count("\n") >= LONGEST
        cell.metadata = NotebookNode(slideshow={"slide_type": kind}, tags=["hide-input"] if hidden else [])
    config = Config()
    config.TagRemovePreprocessor.enabled = True
    config.TagRemovePreprocessor.remove_input_tags = {"hide-input"}
    exporter = SlidesExporter(config=config, exclude_input_prompt=True, exclude_output_prompt=True)
    page: str = exporter.from_notebook_node(shown)[0]
    return page


def write_notebooks(executed: Path, folder: Path) -> None:
    """Write hand-outs and solutions of executed notebooks."""
    for path in sorted(executed.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for name, make in (("handouts", handout), ("solutions", solution)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            nbformat.write(make(notebook), folder / name / path.name)


def write_slides(executed: Path, folder: Path) -> None:
    """Write the slides of executed notebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(executed.glob("*.ipynb")):
        page = slides(nbformat.read(path, as_version=4))
        (folder / f"{path.stem}.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    write_slides(source, target)
    print(f"slides are in {target}")
