import re

import pytest

from bayescore.report import page as page_module
from bayescore.report import pages
from bayescore.text import with_error
from tests.diagnostics.helpers import certificate, section


@pytest.fixture(scope="module")
def certified_page(comparison, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    certificates = {
        "far": certificate(level="not certified", errors=(0.777, 0.1)),
        "<b>bold</b>": certificate(elpd_loo=-1234.5, elpd_loo_se=12.0),
    }
    comparison.to_html(path, certificates=certificates)
    return path.read_text(encoding="utf-8")


def test_certificates_stand_after_the_verdict_with_their_words(certified_page):
    names = re.findall(r'<section id="(\w+)">', certified_page)
    assert names[:3] == ["verdict", "data", "certificates"]
    words = section(certified_page, "certificates")
    assert words.index("&lt;b&gt;bold&lt;/b&gt;: corrected") < words.index("far: not certified")  # as the candidates
    assert words.index("far: not certified") < words.index("<table>")
    assert "Because &lt;so&gt;." in words


def test_certificates_figures_stand_beside_the_measured_error(comparison, certified_page):
    shown = section(certified_page, "certificates")
    measured = with_error(*comparison.metrics.loc["far", ["mean_error_sd", "mean_error_sd_mcse"]])
    for text in ("0.31", "321 of 500", "0.012", "0.45", "0.300 <small>± 0.010", "−1,234 <small>± 12", *measured):
        assert text in shown, text
    assert (
        "Of the 1 certificate whose correction can be trusted, the predictions of 0 agree" in shown
    )  # 0.3 sd, where there is none
    assert "no correction can be trusted and none is shown" in shown
    assert "0.78" not in shown
    far = shown[shown.index('class="name">far<') :]
    assert re.findall(r'"num">([^<]*)<', far[: far.index("</tr>")])[4:] == ["–", f"{measured[0]} ", "–", "–"]


def test_corrected_coefficients_are_sorted_and_only_of_trusted_candidates(certified_page):
    details = re.findall(r"<details>.*?</details>", section(certified_page, "certificates"), re.DOTALL)
    assert len(details) == 1
    assert "&lt;b&gt;bold&lt;/b&gt;: corrected" in details[0]
    assert re.findall(r'class="name">([^<]+)<', details[0]) == ["b", "&lt;script&gt;"]
    for text in ("0.987", "−1.88", "1.89", "−0.300 <small>± 0.010"):
        assert text in details[0]


def test_every_column_of_certificates_is_in_the_glossary(certified_page, page):
    head = re.findall(r'class="num">([^<]+)</th>', section(certified_page, "certificates").split("</thead>")[0])
    terms = re.findall(r"<dt>([^<]+)</dt>", section(certified_page, "glossary"))
    assert {*head, "Certified", "Corrected", "Not certified"} <= set(terms)
    assert "Pareto" not in page  # of a report without certificates


def test_where_none_is_certified_the_report_says_so(comparison, tmp_path):
    comparison.to_html(tmp_path / "r.html", certificates={"far": certificate(level="not certified")})
    shown = section((tmp_path / "r.html").read_text(encoding="utf-8"), "certificates")
    assert "No candidate is certified" in shown
    assert "<details>" not in shown


def test_no_elpd_is_a_dash(comparison, tmp_path):
    comparison.to_html(tmp_path / "r.html", certificates={"far": certificate()})
    row = section((tmp_path / "r.html").read_text(encoding="utf-8"), "certificates").split("<tbody>")[1]
    assert re.findall(r'"num">([^<]*)<', row[: row.index("</tr>")])[-1] == "–"


def test_long_tables_of_certificates_are_cut(comparison, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "MAX_ROWS", 1)
    monkeypatch.setattr(page_module, "WORST", 1)
    comparison.to_html(tmp_path / "r.html", certificates={"far": certificate()})
    shown = section((tmp_path / "r.html").read_text(encoding="utf-8"), "certificates")
    assert "the 1 of 2 with the largest errors; Certificate.coordinates has all" in shown
    assert re.findall(r'class="name">([^<]+)<', shown.split("<details>")[1]) == ["b"]


@pytest.mark.parametrize(
    ("certificates", "error", "told"),
    [
        (
            {"near": certificate()},
            ValueError,
            "'near', which is no candidate; the candidates are '<b>bold</b>', 'far'",
        ),
        ([certificate()], TypeError, "certificates is of type list"),
        (
            {"far": "certified"},
            TypeError,
            r"certificates\['far'\] is of type str; give what bayescore.certify",
        ),
        ({"far": certificate(("a", "b"))}, ValueError, r"certificates\['far'\] has the features a, b, the posterior"),
    ],
    ids=["name", "list", "text", "features"],
)
def test_wrong_certificates_are_refused_before_work(comparison, tmp_path, monkeypatch, certificates, error, told):
    monkeypatch.setattr(pages, "_sections", None)
    with pytest.raises(error, match=told):
        comparison.to_html(tmp_path / "r.html", certificates=certificates)
    assert not list(tmp_path.iterdir())
