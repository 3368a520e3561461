"""The words that the page on style rules out, in all that people read: `python -m tests.docs.prose` prints them.

It reads README, the site's pages, the notebooks' text, and the docstrings, comments and messages of the package. Only
what a list of words or a count of words decides is a rule here; the other rules need a reader.
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 50  # words of a sentence
RULED_OUT = {  # the words, and what to write in their place
    r"(?<!each )(?<!all )(?<!none )[Oo]f which|[Oo]f whom|of whose": "begin a new sentence, or write whose",
    r"(?<!there )(?:is|are|was|be) none": "write is no, is not one of",
    r"(?:tell|tells|told|say|says|said)(?: nothing| much| more)? of": "write about, or what it says",
    r"so far off|as is told|is told by": "write how far, or what",
    r"[Tt]hus|[Hh]ence|herein|therein|wherein|thereof|whereof|whereby|thereby|whilst|ought": "write so, in it, by this",
    r"the former|the latter|respectively": "name the thing again",
    r"[Ii]n order to|[Uu]tili[sz]\w+|due to the fact that|is able to": "write to, use, because, can",
    r"[Nn]ote that|[Cc]learly|[Oo]bviously|[Oo]f course|[Ii]t is (?:noted|worth noting|easy to see)": "leave it out",
}
PATTERN = re.compile("|".join(rf"\b(?P<r{i}>{each})\b" for i, each in enumerate(RULED_OUT)))
# a sentence that begins with Who and is no question: "Who has groups names them"
HEADLESS = re.compile(r"^Who [^?]*\.$")
SENTENCE = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*(?:[A-Z\[]|\w+-(?:means|variates)))")
SHORTENED = re.compile(r"\b(?:e\.g|i\.e|et al|vs|cf|Eq|Sec|Fig|Thm|pp)\.(?=\s)")

BEGINS = re.compile(r"[-*+] |\d+\. |\||#|\[\^")  # items, cells, headings and notes
PROSE = re.compile(r"`{3,}\{(?:glossary|note|tip|important|warning|admonition|seealso)\}")  # directives that have prose
# examples, options, directives, rules and the parameters of docstrings
SKIPPED = re.compile(r">>> |\.\.\. |:[\w-]+:|\.\. |[-=~^]+$|\*{0,2}[\w.*, ]+ : ")


class Text(NamedTuple):
    """A paragraph, an item, a cell of a table or a message, and where it stands."""

    path: Path
    line: int
    text: str


def plain(text: str) -> str:
    """Return a text with code, formulas, links' addresses and marks replaced by single words."""
    for pattern, word in (
        (r"\{[\w:]+\}`[^`]*`", "Code"),
        (r"``[^`]+``|`[^`]*`", "Code"),
        (r"\$\$.*?\$\$|\$[^$]*\$", "Code"),
        (r"!?\[([^\]]*)\](?:\([^)]*\)|\{[^}]*\})?", r"\1"),
        (r"https?://\S+|<[^>]+>", " "),
    ):
        text = re.sub(pattern, word, text, flags=re.DOTALL)
    return " ".join(text.replace("*", "").split())


def paragraphs(lines: list[str], first: int = 1) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs, items and cells of a Markdown text or a docstring, without its code."""
    kept: list[str] = []
    at, fence, told, table = first, "", "", False  # told: the fence of a directive that has prose
    for number, raw in enumerate([*lines, ""], first):
        line = raw.strip()
        mark = re.match(r"(`{3,}|:{3,}|\$\$|\+\+\+)", line)
        if fence:
            fence = "" if line.startswith(fence) and not line.strip(fence[0]) else fence
            line = ""
        elif mark and (PROSE.match(line) or mark[0] == line == told):
            told, line = ("" if line == told else mark[0]), ""
        elif mark:
            fence = mark[0] if mark[0][0] == "`" or (mark[0] == "$$" and line.count("$$") == 1) else ""
            line = ""
        table = bool(line) and (table or bool(re.fullmatch(r"=+( +=+)+", line)))  # of a docstring
        line = "" if table else line
        ends = not line or BEGINS.match(line) or SKIPPED.match(line)
        if ends and kept:
            yield at, " ".join(kept)
            kept = []
        if line.startswith("|"):
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip("|")))
        elif line and not SKIPPED.match(line):
            at = number if not kept else at
            kept.append(re.sub(r"^([-*+]|\d+\.|#+) ", "", line))


def of_markdown(path: Path) -> Iterator[Text]:
    """Yield the texts of a page."""
    page = path.read_text(encoding="utf-8")
    head = re.match(r"---\n.*?\n---\n", page, re.DOTALL)
    skipped = head[0].count("\n") if head else 0
    yield from (Text(path, *each) for each in paragraphs(page.splitlines()[skipped:], skipped + 1))


def of_notebook(path: Path) -> Iterator[Text]:
    """Yield the texts of a notebook, whose lines are numbered by cells."""
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], 1):
        if cell["cell_type"] == "markdown":
            source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            yield from (Text(path, number, text) for _, text in paragraphs(source.splitlines()))


def of_code(path: Path) -> Iterator[Text]:
    """Yield the docstrings, messages and comments of a module."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            docstring = node.body[0].value  # type: ignore[attr-defined]
            docstrings.add(id(docstring))
            yield from (Text(path, *each) for each in paragraphs(docstring.value.splitlines(), docstring.lineno))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "`x`" for part in node.values]
            yield Text(path, node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | inside:
            yield from (Text(path, *each) for each in paragraphs(node.value.splitlines(), node.lineno))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], token.string.lstrip("# "))


def of_template(path: Path) -> Iterator[Text]:
    """Yield the texts of a report's template."""
    source = re.sub(r"\{[{%#].*?[}%#]\}", "Code", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    yield from (Text(path, number, line) for number, line in enumerate(source.splitlines(), 1))


def texts() -> Iterator[Text]:
    """Yield all that people read."""
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if "_build" not in path.parts:
            yield from of_markdown(path)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        yield from of_notebook(path)
    for path in sorted((ROOT / "bayescore").rglob("*.py")):
        yield from of_code(path)
    for path in sorted((ROOT / "bayescore").rglob("*.html.j2")):
        yield from of_template(path)


def faults(text: str) -> list[str]:
    """Return what is wrong with a text, each with what to write."""
    clean = plain(text)
    found = []
    for match in PATTERN.finditer(clean):
        found.append(f'"{match[0]}": {list(RULED_OUT.values())[int(match.lastgroup[1:])]}')  # type: ignore[index]
    for sentence in SENTENCE.split(SHORTENED.sub(lambda at: at[0][:-1], clean)):
        if HEADLESS.match(sentence):
            found.append(f'"{sentence[:40]} ...": begin with those, you or a name')
        if len(words := re.findall(r"[^\W\d_][\w'’-]*", sentence)) > LONGEST:
            found.append(f"{len(words)} words: {sentence}")
    return found


def wrong() -> list[str]:
    """Return what is wrong in all that people read, and where; of notebooks the number is the cell's."""
    return [f"{each.path.relative_to(ROOT)}:{each.line}: {fault}" for each in texts() for fault in faults(each.text)]


if __name__ == "__main__":
    found = wrong()
    print(*found, sep="\n")
    sys.exit(bool(found))
