"""The six scripts of ten lines on the site: each runs as a reader would run it, and prints what its page says.

A script is the section that is named "ten lines", with the cells of its page before it.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bayescore import Fit

DOCS = Path(__file__).resolve().parents[2] / "docs"
CELL = re.compile(r"```\{code-cell\} python\n(.*?)```", re.DOTALL)
MONTH = r"month-\d\d.parquet certified, \d+0,000 rows\n"
PAGES: dict[str, tuple[str, tuple[str, ...]]] = {  # what is printed, and modules that a script needs
    "users/scikit-learn": (r"^certified accuracy 0\.(8\d|9\d?)\n$", ("sklearn",)),
    "users/bambi": (r"^certified\s+mean(.|\n)+scale\(age\)(.|\n)+sigma_county(.|\n)+ mean ", ()),
    "users/brms": (r"^certified\s+mean(.|\n)+sigma_g(.|\n)+icc_g", ()),
    "teachers": (r"^\s+observed\s+logistic\s+probit\s+cloglog\n(\d .*\n){8}$", ()),
    "how-to/table": (r"certified certified 0\.0\n$", ("dask.dataframe",)),
    "how-to/monthly": (rf"({MONTH}){{11}}certified at once; means at most 0\.[01]\d sd apart\n$", ()),
}

SLOW = ("users/bambi", "how-to/monthly")


def script(page: str) -> str:
    """Return the code of a page up to the end of its section of ten lines."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    begin = re.search(r"^## .*\b[Ii]n ten lines.*$", text, re.MULTILINE)
    assert begin is not None
    end = text.find("\n## ", begin.end())
    return "\n".join(CELL.findall(text[: end if end > 0 else None]))


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.slow if page in SLOW else ()) for page in PAGES])
def test_a_script_prints_what_its_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, needed = PAGES[page]
    for module in needed:
        pytest.importorskip(module, reason=f"the script is NOT run: {module} is not installed")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: dict[str, Any] = {}
    exec(compile(script(page), page, "exec"), made)
    told = capsys.readouterr()
    assert re.search(printed, told.out), told.out
    assert told.err == ""
    fits = [own for own in made.values() if isinstance(own, Fit)]
    assert all(fit.level in ("certified", "corrected") for fit in fits)


def test_a_script_that_prints_something_else_is_found() -> None:
    assert not re.search(PAGES["how-to/monthly"][0], "month-02.parquet not certified, 20,000 rows\n")
