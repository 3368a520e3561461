"""The documentation site: `make docs` builds it; `-D nb_execution_mode=off` builds it without running any page."""

import hashlib
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS)]

import nbformat  # noqa: E402
from _generate import answers, course, decision, messages, uses  # noqa: E402
from docutils import nodes  # noqa: E402
from numpydoc.xref import DEFAULT_LINKS  # noqa: E402

import bayescore  # noqa: E402

project = "bayescore"
author = "the bayescore developers"
project_copyright = "the bayescore developers, Apache-2.0"
version = release = bayescore.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "numpydoc",
    "myst_nb",
]
if find_spec("sphinx-mathjax-offline"):  # without it browsers fetch MathJax from its CDN
    extensions.append("sphinx-mathjax-offline")
# drafts of papers and a checklist for reviewers are not pages
exclude_patterns = ["_build", "_figures", "_generate", "paper", "development/standards.md", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]

# the reference
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say types and shapes
smartquotes_action = "D"  # dashes alone: quotes and dots stay as they are typed, so that a message can be found
default_role = "py:obj"  # single backticks in docstrings
nitpicky = True  # a role that points nowhere is an error
nitpick_ignore_regex = [("py:obj", ".*")]  # single backticks name arguments, too
numpydoc_show_class_members = False  # the class template lists members with their docstrings
requests = ("fit", "partial_fit", "predict", "score")  # scikit-learn adds these, with links into its own pages
autodoc_default_options = {"exclude-members": ", ".join(f"set_{method}_request" for method in requests)}
numpydoc_validation_checks: set[str] = set()  # tests/docs checks the sections
# types in docstrings link to their pages: own classes, and what the inventories name; other words stay words
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    **{word: word for word in DEFAULT_LINKS},
    **{
        name: f"bayescore.{room}.{name}".replace("..", ".")
        for room in ("", "families", "methods", "priors")
        for module in (getattr(bayescore, room) if room else bayescore,)
        for name in module.__all__
        if isinstance(getattr(module, name), type)
    },
    "Axes": "matplotlib.axes.Axes",
    "DataArray": "xarray.DataArray",
    "DataFrame": "pandas.DataFrame",
    **{name: f":exc:`{name}`" for name in ("FileNotFoundError", "KeyboardInterrupt", "TypeError", "ValueError")},
    "Generator": "numpy.random.Generator",
    "InferenceData": "arviz.InferenceData",
    "Path": "pathlib.Path",
    "RandomState": "numpy.random.RandomState",
    "SeedSequence": "numpy.random.SeedSequence",
    "pm.Model": "pymc.model.core.Model",
}
# kept in the tree, so that the build needs no network: only what pages refer to
intersphinx_mapping = {
    path.stem: (path.read_text(encoding="utf-8").split("# Address: ")[1].splitlines()[0], str(path))
    for path in sorted((DOCS / "_inventories").glob("*.inv"))
}

# pages that run code
myst_enable_extensions = [
    "amsmath",
    "attrs_block",
    "attrs_inline",
    "colon_fence",
    "deflist",
    "dollarmath",
    "substitution",
]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 1800  # s for one cell: 1,000 coefficients take minutes
nb_output_stderr = "error"  # a page that warns is mended
nb_merge_streams = True
nb_ipywidgets_js = {}  # progress bars of notebooks are not shown, and nothing is fetched from elsewhere
os.environ["PYTHONWARNINGS"] = ",".join(  # notices of other packages, for the kernels
    (
        "ignore::FutureWarning",  # ArviZ 0.23 announces its successor at import
        "ignore:PyTensor could not link to a BLAS:UserWarning",
        "ignore:Could not find the number of physical cores:UserWarning",  # joblib, in a container without /sys
    )
)


def sources_digest() -> str:
    """Return a hash of the code that pages run: where it changes, they run again."""
    folders = (ROOT / "bayescore", DOCS / "_figures")
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".j2"})
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


SIZES = "quick" if os.environ.get("BAYESCORE_QUICK") == "1" else "full"  # of the notebooks
nb_execution_cache_path = str(DOCS / "_build" / "cache" / f"{sources_digest()}-{SIZES}")

# the course: Sphinx reads the notebooks from a copy, whose links to each other it can follow
ADDRESS = course.repository()
chapters = {path.name: path for path in (ROOT / "notebooks").glob("*.ipynb")}
for copy in (DOCS / "tutorials").glob("*.ipynb"):
    if copy.name not in chapters:
        copy.unlink()  # of a chapter that has another name now
for name, chapter in chapters.items():
    copy = DOCS / "tutorials" / name
    opened = course.with_badge(nbformat.read(chapter, as_version=4), chapter.stem, course.repository())
    text = nbformat.writes(opened) + "\n"
    if not copy.is_file() or copy.read_text(encoding="utf-8") != text:  # else Sphinx would read it again
        copy.write_text(text, encoding="utf-8")

# parts of pages that code writes; pages include them
GENERATED = DOCS / "reference" / "generated"
GENERATED.mkdir(exist_ok=True)
for part in (answers, decision, messages):
    (GENERATED / f"{part.__name__.rpartition('.')[2]}.txt").write_text(part.page(), encoding="utf-8")


def describe_figures(_: Any, doctree: nodes.document) -> None:
    """Give figures of cells that have no description one: the title and the labels of axes that the code sets."""
    for cell in doctree.findall(lambda node: isinstance(node, nodes.container) and "cell" in node["classes"]):
        code = "\n".join(block.astext() for block in cell.findall(nodes.literal_block))
        parts = re.findall(r'(title|xlabel|ylabel)(?:=|\(\s*)f?"([^"{]+)"', code)
        said = "; ".join(dict.fromkeys(f'{PARTS[kind]} "{text}"' for kind, text in parts))
        for image in cell.findall(nodes.image):
            if not image.get("alt"):
                image["alt"] = f"Figure with {said}" if said else "Figure drawn by the code above"


def thumbnail(_: str, rawtext: str, text: str, *__: Any) -> tuple[list[nodes.Node], list[Any]]:
    """Return the place of a page's first picture, which `show_thumbnails` puts there when all pages have been read."""
    return [nodes.inline(rawtext, "", classes=["thumbnail"], page=text)], []


def show_thumbnails(app: Any, doctree: nodes.document, _: str) -> None:
    """Replace thumbnails by the first pictures that the code of their pages has drawn; without a run there are none."""
    for place in list(doctree.findall(lambda node: isinstance(node, nodes.inline) and "thumbnail" in node["classes"])):
        drawn = [
            image
            for cell in app.env.get_doctree(place["page"]).findall(nodes.container)
            if "cell_output" in cell["classes"]
            for image in cell.findall(nodes.image)
        ]
        for image in drawn[:1]:
            place += image.deepcopy()
            place[0]["alt"] = f"The first picture of: {app.env.titles[place['page']].astext()}"


def pages_with_thumbnails(*_: Any) -> list[str]:
    """Return the pages that are written anew with every build, as other pages' pictures are on them."""
    return ["gallery", "index"]


def add_uses(_: Any, __: str, name: str, ___: Any, ____: Any, lines: list[str]) -> None:
    """Append to a docstring of the reference links to the pages that use the name."""
    lines += uses.links(name)


def write_course(app: Any, exception: Exception | None) -> None:
    """Put hand-outs and solutions of the course into the site."""
    if exception is None and app.builder.name == "html":
        executed = Path(app.outdir).parent / "jupyter_execute" / "tutorials"
        course.write_notebooks(executed if executed.is_dir() else ROOT / "notebooks", Path(app.outdir) / "course")


PARTS = {"title": "the title", "xlabel": "the horizontal axis", "ylabel": "the vertical axis"}


def setup(app: Any) -> None:
    """Connect what Sphinx calls."""
    app.add_role("thumbnail", thumbnail)
    app.connect("doctree-read", describe_figures)
    app.connect("env-updated", pages_with_thumbnails)
    app.connect("doctree-resolved", show_thumbnails)
    app.connect("autodoc-process-docstring", add_uses, priority=900)  # after numpydoc has read the sections
    app.connect("build-finished", write_course)


# the look
html_theme = "pydata_sphinx_theme"
html_title = "bayescore"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "_static" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # else the theme complains in the console of whoever comes first
html_theme_options = {
    "logo": {"text": "bayescore"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,  # every shelf of the site is one click away
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "gallery": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
