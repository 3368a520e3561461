"""The pages whose code uses a public name, which the reference lists below it."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
SHELVES = ("start", "how-to", "tutorials", "users", "explanation")  # in the order of the links
MOST = 6  # links below a name
FENCE = r"^( *)```(?:\{code-cell\} )?python\n(?:---\n.*?---\n|(?::.*\n)*)(.*?)^\1```"
# what calls and attributes give, so that methods of it are found
GIVES = {
    f"bayescore.{name}": f"bayescore.{kind}"
    for kind, names in {
        "Fit": "fit read_fit last_fit Fit.from_draws Fit.update Fit.with_prior Fit.cluster_robust",
        "Coreset": "build_coreset all_rows read_coreset Fit.coreset StreamingCoreset.coreset",
        "Certificate": "certify Fit.certificate",
        "StreamingCoreset": "stream read_stream",
        "report.compare.Comparison": "compare_posteriors",
    }.items()
    for name in names.split()
}


def gallery() -> list[str]:
    """Return the pages of the cards of examples."""
    return re.findall(r"^:link: (.+)$", (DOCS / "gallery.md").read_text(encoding="utf-8"), re.MULTILINE)


def cells(path: Path) -> Iterator[ast.Module]:
    """Yield the parsed code of a page or a notebook, without cells that are not Python alone."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        sources = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    else:
        sources = [cell for _, cell in re.findall(FENCE, text, re.DOTALL | re.MULTILINE)]
    for source in sources:
        try:
            yield ast.parse(source)
        except SyntaxError:
            continue


def names(parsed: list[ast.Module]) -> set[str]:
    """Return the public names that code uses, written as in the reference, and some longer ones."""
    kinds = {"bc": "bayescore", "bayescore": "bayescore"}
    nodes = [node for each in parsed for node in ast.walk(each)]

    def full(node: ast.expr) -> str:
        """Return the name of what an expression is, "" if that is not known."""
        if isinstance(node, ast.Name):
            return kinds.get(node.id, "")
        if isinstance(node, ast.Attribute) and (home := full(node.value)):
            return GIVES.get(f"{home}.{node.attr}", f"{home}.{node.attr}")
        return GIVES.get(called(node), "")

    def called(node: ast.expr) -> str:
        """Return the name of the function that a call calls."""
        if not isinstance(node, ast.Call):
            return ""
        if isinstance(node.func, ast.Attribute):
            return f"{full(node.func.value)}.{node.func.attr}"
        return full(node.func)

    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bayescore"):
            kinds |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and (kind := full(node.value)):
            kinds[node.targets[0].id] = kind
    calls = {called(node) for node in nodes if isinstance(node, ast.Call)}
    return calls | {full(node) for node in nodes if isinstance(node, ast.Attribute | ast.Name)}


def path_of(page: str) -> Path:
    """Return the file of a page; those of the course are in a folder of their own, before the site is built."""
    shelf, _, stem = page.partition("/")
    return DOCS.parent / "notebooks" / f"{stem}.ipynb" if shelf == "tutorials" else DOCS / f"{page}.md"


@cache
def pages() -> dict[str, list[str]]:
    """Return the pages that use each name, those of the examples first."""
    first = gallery()
    found: dict[str, list[str]] = {}
    for shelf in SHELVES:
        folder = path_of(f"{shelf}/*").parent
        for page in sorted(f"{shelf}/{path.stem}" for path in folder.iterdir() if path.suffix in {".md", ".ipynb"}):
            for name in names(list(cells(path_of(page)))):
                found.setdefault(name, []).append(page)
    # a stable sort: within both parts the order of the shelves stays
    return {name: sorted(some, key=lambda page: page not in first) for name, some in found.items()}


def links(name: str) -> list[str]:
    """Return lines for the reference, in reStructuredText, with links to pages that use a name."""
    some = pages().get(name, [])[:MOST]
    return ["", ".. rubric:: Used in", "", ", ".join(f":doc:`/{page}`" for page in some), ""] if some else []
