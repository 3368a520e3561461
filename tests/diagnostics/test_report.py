import re

import pytest

from bayescore.diagnostics import compare, report
from bayescore.diagnostics.wording import number, with_error

CORESET = {
    "method": "calibrated",
    "size": 4,
    "n_total": 1000,
    "weight_total": 1000.0,
    "params": {"radius": 3.0},
    "random_state": 7,
}


@pytest.fixture(scope="module")
def comparison(posterior):
    features = ("<script>", "b")
    candidates = {
        "<b>bold</b>": posterior(1, features=features, coreset=CORESET),
        "far": posterior(2, mean=1.0, features=features),
    }
    return compare(candidates, posterior(0, features=features))


@pytest.fixture(scope="module")
def page(comparison, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.write_report(comparison, path, title="Title & more", command="bayescore compare a.nc")
    return path.read_text(encoding="utf-8")


def test_sections_stand_in_the_order_of_reading(page):
    places = [page.index(f'<section id="{name}">') for name in re.findall(r'<section id="(\w+)">', page)]
    assert places == sorted(places)
    names = ["verdict", "metrics", "plots", "coresets", "health", "coordinates", "reproduce", "glossary"]
    assert re.findall(r'<section id="(\w+)">', page) == names
    assert page.index("far: differs") < page.index("<table>")


def test_page_needs_no_network(page):
    assert "http" not in page
    assert "url(" not in page
    assert not re.search(r"<(script|link|iframe)", page)
    assert re.findall(r'src="(.{10})', page) == ["data:image"] * 3


def test_names_are_escaped(page):
    assert "&lt;script&gt;" in page
    assert "<b>bold" not in page
    assert "<title>Title &amp; more</title>" in page


def test_page_tells_what_the_coreset_and_the_chains_were(page):
    for text in ("0.40%", "3.3", "40%, 30%, 20%", "radius = 3", "noise floor", "bayescore compare a.nc", "bc.compare("):
        assert text in page


def test_foreign_posteriors_have_no_coreset_section(posterior, tmp_path):
    candidate = posterior(1)
    candidate.posterior.attrs.clear()
    path = tmp_path / "r.html"
    compare(candidate, posterior(0)).to_html(path)
    assert '<section id="coresets">' not in path.read_text(encoding="utf-8")


def test_long_tables_show_the_worst_and_say_so(posterior, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_MAX_ROWS", 2)
    monkeypatch.setattr(report, "_WORST", 1)
    compare({"x": posterior(1, mean=[0.0, 0.0, 1.0])}, posterior(0)).to_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="coordinates">') : page.index('<section id="reproduce">')]
    assert "the 1 of 3 with the largest errors" in section
    assert re.findall(r'class="name">(\w+)<', section) == ["c"]


def test_failure_leaves_the_old_file_and_nothing_else(comparison, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(report, "_picture", lambda *_: {"png": "", "width": 1})
    monkeypatch.setattr("bayescore.validation.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        comparison.to_html(path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_bad_path_is_refused_before_work(comparison, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "_render", None)
    with pytest.raises(FileNotFoundError, match="does not exist; create it"):
        comparison.to_html(tmp_path / "nowhere" / "report.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        comparison.to_html(tmp_path)


def test_notebooks_and_terminals_show_verdicts_first(comparison):
    text, fragment = repr(comparison), comparison._repr_html_()
    assert text.index("far: differs") < text.index("MMD, whitened")
    assert fragment.index("far: differs") < fragment.index("<table")
    assert "<b>bold" not in fragment


def test_numbers_have_the_digits_their_error_allows():
    assert with_error(0.12345, 0.0321) == ("0.123", "0.032")
    assert with_error(-1234.4, 12.0, signed=True) == ("−1,234", "12")
    assert with_error(0.5, float("nan")) == ("0.500", "")
    assert number(None) == "–"
    assert number(123456.0) == "123,456"
    assert number(1e-9) == "1e−09"
