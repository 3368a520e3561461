"""The documentation: it builds, no link is broken, and every public name is explained.

The build here runs no page; `make docs` runs them all.
"""

import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import is_dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="the documentation is NOT checked: install the extra `docs`, as make does")
docscrape = pytest.importorskip(
    "numpydoc.docscrape", reason="the documentation is NOT checked: install the extra `docs`"
)

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LISTED = sorted(
    name
    for page in (DOCS / "reference").glob("*.md")
    for block in re.findall(r"autosummary::\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for name in re.findall(r"^   ([\w.]+)$", block, re.MULTILINE)
)
MADE_BY_PAGES = "_static/reports/"  # which this build does not run


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
    return ["summary"] * (not found["Summary"]) + [section for section in needed if not found[section]]


class Page(HTMLParser):
    """The anchors of a page, and where it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.families: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.families += [given[name] for name in ("href", "src") if name in given]


def broken_links(folder: Path) -> list[str]:
    """Return the links between pages of a folder that lead nowhere."""
    pages = {path.resolve(): Page(path) for path in folder.rglob("*.html") if "_static" not in path.parts}
    broken = []
    for path, page in pages.items():
        for family in page.families:
            parts = urlsplit(family)
            if parts.scheme or parts.netloc or parts.path.startswith(MADE_BY_PAGES):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = not target.exists()
            if target in pages and parts.fragment:
                lost = unquote(parts.fragment) not in pages[target].anchors
            if lost:
                broken.append(f"{path.relative_to(folder)}: {family}")
    return broken


@pytest.mark.slow
def test_builds_without_a_warning_and_no_link_is_broken(tmp_path: Path) -> None:
    html, trees = tmp_path / "html", tmp_path / "trees"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "nb_execution_mode=off"]
    built = subprocess.run(
        [*command, "-b", "html", "-d", trees, DOCS, html], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert not (broken := broken_links(html.resolve())), broken
    for name in LISTED:
        assert (html / "reference" / "generated" / f"bayescore.{name}.html").is_file(), name
    assert '"offset"' in (html / "searchindex.js").read_text(encoding="utf-8")


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here">1</a><a href="b.html#there">2</a><a href="c.html">3</a>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#here">4</a><a href="https://example.org/c.html">5</a>')
    assert broken_links(tmp_path.resolve()) == ["a.html: b.html#there", "a.html: c.html"]


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
