"""Every message that users can meet is on the page of messages, and each page that a message names is there."""

import ast
import re
from functools import cache

from bayescore.text import PAGES
from tests.docs.generated import ROOT, generator

PACKAGE = ROOT / "bayescore"


MESSAGES = generator("messages")


def words(text):
    return " ".join(re.findall(r"[A-Za-z]+", text)).lower()


@cache
def raised():
    """Return place, class and the longest literal part of every error that is raised with a literal text."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = node.exc.args[0]
                parts = [each.value for each in getattr(text, "values", [text]) if isinstance(each, ast.Constant)]
                longest = max((words(str(part)) for part in parts), key=len, default="")
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", ast.unparse(node.exc.func), longest))
    return found


def test_every_literal_error_is_on_the_page():
    page = words(re.sub(r"\\(.)", r"\1", MESSAGES.page()))
    errors = [each for each in raised() if each[1].rpartition(".")[2] not in MESSAGES.CAUGHT]
    assert len(errors) > 600
    # a text of less than three words passes on another one
    assert not [each for each in errors if len(each[2].split()) >= 3 and each[2] not in page]


def test_classes_that_are_left_out_are_raised():
    assert set(MESSAGES.CAUGHT) <= {kind.rpartition(".")[2] for _, kind, _ in raised()}


def test_every_file_with_messages_has_a_topic():
    found = list(MESSAGES.messages())
    assert {MESSAGES.topic(each.file) for each in found} == {heading for heading, _, _ in MESSAGES.TOPICS}


def test_cause_and_remedy_are_parted():
    assert MESSAGES.parted("size=... is too small; give 2") == ("size=... is too small", "give 2")
    assert MESSAGES.parted("prior: ... must be finite") == ("prior: ... must be finite", "")
    assert MESSAGES.parted("columns joined by : or /") == ("columns joined by : or /", "")


def anchors(page):
    """Return the anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_that_messages_name_are_there():
    named = [
        place
        for path in PACKAGE.rglob("*.py")
        for place in re.findall(r"\bsee\([\"']([^\"']+)[\"']\)", path.read_text(encoding="utf-8"))
    ]
    assert len(named) >= 6
    for place in named:
        name, _, anchor = place.partition("#")
        page = ROOT / PAGES / name
        assert page.is_file(), place
        assert not anchor or anchor in anchors(page.read_text(encoding="utf-8")), place


def test_pages_that_the_page_links_are_there():
    for place in re.findall(r"\]\(([^)]+\.md)\)", MESSAGES.page()):
        assert (ROOT / "docs" / "reference" / place).is_file(), place
