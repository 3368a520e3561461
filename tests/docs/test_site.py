"""The documentation: it builds, no link is broken, and every public name is explained.

The build here runs no page; `make docs` and `make pages` run them all, and `make pages` has the same checks.
"""

import importlib
import inspect
import json
import re
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sphinx", reason="the documentation is NOT checked: install the extra `docs`, as make does")
docscrape = pytest.importorskip(
    "numpydoc.docscrape", reason="the documentation is NOT checked: install the extra `docs`"
)
from tests.docs.site import (  # noqa: E402
    ABSENT,
    CHROMIUM,
    DOCS,
    LISTED,
    broken_links,
    faults,
    misprints,
    missing_entries,
    pages_with,
    search_index,
)

ROOT = Path(__file__).resolve().parents[2]
MADE_BY_PAGES = "_static/reports/"  # which this build does not run
LONGEST_LINE = 75  # characters that a page shows at 1,000 px without breaking a line of code


def named(name: str) -> Any:
    """Return what a name of the reference, without "bayescore.", stands for."""
    home, _, own = f"bayescore.{name}".rpartition(".")
    module = importlib.import_module(home)
    return getattr(module, own) if hasattr(module, own) else importlib.import_module(f"{home}.{own}")


def checks(kind: type) -> bool:
    """Whether making an object of a class may raise: whether its constructor says so or calls what checks."""
    made = "__post_init__" if is_dataclass(kind) else "__init__"
    own = [vars(base)[made] for base in kind.__mro__ if made in vars(base)]
    sources = [inspect.getsource(each) for each in own if getattr(each, "__module__", "").startswith("bayescore")]
    return any(re.search(r"\braise\b|check", source) for source in sources)


def missing_sections(thing: Any) -> list[str]:
    """Return the sections that the docstring of a function or class lacks."""
    found = docscrape.get_doc_object(thing)
    needed = ["Parameters", "Returns", "Raises", "Examples"]
    if inspect.isclass(thing):
        needed.remove("Returns")
        makes = is_dataclass(thing) and bool(vars(thing).get("__annotations__"))
        inherited = not makes and (is_dataclass(thing) or "__init__" not in vars(thing))  # its base says them
        if inherited or not inspect.signature(thing).parameters:
            needed.remove("Parameters")
        if not checks(thing):
            needed.remove("Raises")
    elif not inspect.signature(thing).parameters:
        needed.remove("Parameters")
    return ["summary"] * (not found["Summary"]) + [section for section in needed if not found[section]]


def long_lines(page: str) -> list[str]:
    """Return the lines of a page's code that are longer than 75 characters."""
    languages = r"\{code-cell\} python|python|r|sh|text|toml"
    blocks = re.findall(rf"^( *)```(?:{languages})\n(---\n.*?---\n)?(.*?)^\1```", page, re.DOTALL | re.MULTILINE)
    return [line for _, _, block in blocks for line in block.splitlines() if len(line) > LONGEST_LINE]


@pytest.mark.slow
@pytest.mark.pages
def test_builds_without_a_warning_and_no_link_is_broken(tmp_path: Path) -> None:
    html, trees = tmp_path / "html", tmp_path / "trees"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "nb_execution_mode=off"]
    built = subprocess.run(
        [*command, "-b", "html", "-d", trees, DOCS, html], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert not (broken := broken_links(html.resolve(), MADE_BY_PAGES)), broken
    assert not (lost := missing_entries(html)), lost
    assert not pages_with(search_index(html / "searchindex.js"), "heteroskedasticity tobit")


def test_ten_lines_that_print_something_else_are_found(tmp_path: Path) -> None:
    """What is printed before their section counts, what comes after does not; a page without the section is wrong."""

    def cell(kind: str, source: str, text: str = "") -> dict[str, Any]:
        outputs = [{"output_type": "stream", "name": "stdout", "text": text}, {"output_type": "execute_result"}]
        return {"cell_type": kind, "source": [source], **({"outputs": outputs} if kind == "code" else {})}

    first, last = cell("code", "print(1)", "one\n"), cell("code", "print(3)", "three\n")
    inside = [cell("markdown", "Text.\n\n## A page in ten lines\n\nText."), cell("code", "print(2)", "two\n")]
    for name, cells in {
        "a": [first, *inside, cell("markdown", "## Next"), last],
        "b": [first, *inside],
        "c": [first, cell("markdown", "## Next"), last],
    }.items():
        (tmp_path / f"{name}.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert misprints(tmp_path, dict.fromkeys("ab", "^one\ntwo\n$")) == []
    assert misprints(tmp_path, {"a": "^two", "c": "one"}) == ["a: prints 'one\\ntwo\\n'", "c: prints ''"]


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here">1</a><a href="b.html#there">2</a><a href="c.html">3</a>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#here">4</a><a href="https://example.org/c.html">5</a>')
    assert broken_links(tmp_path.resolve()) == ["a.html: dead link b.html#there", "a.html: dead link c.html"]


@pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)
def test_a_browser_finds_what_is_wrong_with_a_page(tmp_path: Path) -> None:
    good = "<!doctype html><html><head></head><body style='margin: 0'><p>Good</p><img src='dot.svg' alt='A dot'>"
    (tmp_path / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    (tmp_path / "good.html").write_text(
        f"{good}<div style='overflow-x: auto'><table style='width: 2000px'><tr></table>"
    )
    assert not (wrong := faults(tmp_path, {})), wrong
    bad = {
        "wide": "<p style='width: 900px'>wide</p>",
        "cut": "<div style='overflow: hidden'><table style='width: 1200px'><tr><td>cut</table></div>",
        "code": f"<div class='highlight'><pre style='overflow: auto'>{'x' * 120}</pre></div>",
        "error": "<script>console.error('a complaint')</script>",
        "thrown": "<script>null.x</script>",
        "lost": "<a href='nowhere.html'>lost</a>",
        "unseen": "<img src='gone.svg' alt='Gone'>",
        "mute": "<img src='dot.svg' alt='../dot.svg'>",
    }
    for name, body in bad.items():
        (tmp_path / f"{name}.html").write_text(good + body)
    wrong = faults(tmp_path, {})
    expected = [
        "lost.html: dead link nowhere.html",
        "unseen.html: dead link gone.svg",
        "code.html at 400 px: pre",
        'cut.html at 400 px: table "cut" is cut off',
        'cut.html at 1000 px: table "cut" is cut off',
        "error.html: a complaint",
        "mute.html: no alt text of",
        "thrown.html: Uncaught TypeError",
        "unseen.html: cannot load",
        "wide.html at 400 px: is 900 px wide",
    ]
    assert len(wrong) == len(expected), wrong
    assert not [text for text in expected if not any(text in each for each in wrong)], wrong


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.relative_to(DOCS).as_posix())
def test_no_line_of_code_is_long(path: Path) -> None:
    assert not (long := long_lines(path.read_text(encoding="utf-8"))), long


def test_a_long_line_of_code_is_found() -> None:
    short = "x" * LONGEST_LINE
    page = "```{code-cell} python\n---\n" + "a" * 99 + "\n---\n" + short + "\n" + "y" * 76 + "\n```\n" + "z" * 99
    assert long_lines(page) == ["y" * 76]


def test_every_name_is_listed_once() -> None:
    assert len(LISTED) == len(set(LISTED))
    assert {f"clustering.{name}" for name in importlib.import_module("bayescore.clustering").__all__} <= set(LISTED)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in set(re.findall(r"`bayescore\.([a-z_]+(?:\.\w+)*)", readme)):
        assert any(listed.startswith(name) for listed in LISTED), name


@pytest.mark.parametrize("name", LISTED)
def test_docstring_has_its_sections(name: str) -> None:
    thing = named(name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert not (lacks := missing_sections(thing)), lacks
    else:
        assert inspect.getdoc(thing)


def test_a_docstring_without_examples_is_found() -> None:
    def bare(x: float) -> float:
        """Return x.

        Parameters
        ----------
        x : float
            A number.
        """
        return x

    assert missing_sections(bare) == ["Returns", "Raises", "Examples"]
