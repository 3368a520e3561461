"""What people read has none of the words that the page on style rules out, and no sentence that is too long."""

import re
from pathlib import Path

import pytest

from tests.docs import prose

STYLE = prose.ROOT / "docs" / "development" / "style.md"


@pytest.mark.essential("the words of all texts")
def test_no_word_is_ruled_out_and_no_sentence_too_long():
    assert not (found := prose.wrong()), "\n".join(found)


@pytest.mark.slow
def test_every_kind_of_text_is_read():
    read = {(each.path.relative_to(prose.ROOT).parts[0], each.path.suffix) for each in prose.texts()}
    kinds = {("README.md", ".md"), ("CONTRIBUTING.md", ".md"), ("docs", ".md"), ("notebooks", ".ipynb")}
    assert read == kinds | {("bayescore", ".py"), ("bayescore", ".j2")}


@pytest.mark.parametrize("pattern", prose.RULED_OUT)
def test_the_page_names_words_of_every_kind(pattern):
    assert re.search(rf"`[^`]*\b(?:{pattern})\b", STYLE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    ["two labels, of which one is +1", "this level is none", "It tells nothing of groups.", "means so far off",
     "Hence it is so.", "the latter", "in order to see", "Note that it is so.", "Rows. Who has groups, names them.",
     "word " * (prose.LONGEST + 1)],
)  # fmt: skip
def test_what_the_rules_name_is_found(text):
    assert len(prose.faults(text)) == 1


@pytest.mark.parametrize(
    "text",
    ["rows, each of which counts", "there is none", "`of which` is code", "[link](of-which.html)", "It is $of which$.",
     "Who reads it?", "enhance the method", ". ".join(["Word " * (prose.LONGEST // 2)] * 3), "word " * prose.LONGEST],
)  # fmt: skip
def test_what_they_do_not_name_passes(text):
    assert prose.faults(text) == []


def test_places_are_told_and_code_is_left_out(tmp_path):
    page, code = tmp_path / "a.md", tmp_path / "a.py"
    page.write_text(
        "---\nof: which\n---\n# Title\n\n```python\nof which\n```\n\n- item\n- thus it is\n\n| a | hence |\n"
        "\n```{note}\nthus\n```\n\n```\nthus\n```\n\nwhereby\n"
    )
    assert [each.line for each in prose.of_markdown(page) if prose.faults(each.text)] == [11, 13, 16, 23]
    code.write_text(
        '"""Thus.\n\n    Parameters\n    ----------\n    thus : int\n        Hence.\n    >>> thus\n    """\n'
        'x = "thus"  # hence\nraise ValueError(f"{x} is none")\nhence = 1\n'
    )
    assert sorted(each.line for each in prose.of_code(code) if prose.faults(each.text)) == [1, 6, 9, 9, 10]


@pytest.mark.slow
def test_lines_of_notebooks_are_those_of_cells():
    path = Path(prose.ROOT / "notebooks" / "01_why_not_sample_rows.ipynb")
    some = [each for each in prose.texts() if each.path == path]
    assert some[0].line == 1
    assert len({each.line for each in some}) > 5
