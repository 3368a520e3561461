import re

import numpy as np
import pytest

from bayescore.report import page as page_module
from bayescore.report import pages
from bayescore.report.compare import compare_posteriors
from bayescore.report.page import Picture
from bayescore.types import WeightedData
from tests.diagnostics.helpers import CORESET, CURVE, alternatives, section


def test_sections_stand_in_the_order_of_reading(page):
    names = ["verdict", "data", "metrics", "plots", "coresets", "health", "coordinates", "reproduce", "glossary"]
    assert re.findall(r'<section id="(\w+)">', page) == names
    assert page.index("far: differs") < page.index("<table>")


def test_page_needs_no_network(page):
    assert "http" not in page
    assert "url(" not in page
    assert not re.search(r"<(script|link|iframe)", page)
    assert re.findall(r'src="(.{10})', page) == ["data:image"] * 3


@pytest.mark.slow
def test_test_rows_show_whether_the_model_fits(posterior, tmp_path):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.1, np.int8(-1), np.int8(1))
    test = WeightedData(rng.normal(size=(300, 3)), y, np.ones(300), np.arange(300))
    found = compare_posteriors(posterior(1), posterior(0), test=test)
    assert found.fit.outside > 0  # of 90% +1, where it predicts a half
    for comparison, told in ((found, True), (compare_posteriors(posterior(1), posterior(0)), False)):
        comparison.to_html(tmp_path / "r.html")
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert ("Does the model fit the test rows?" in text) == told
        assert len(alternatives(text)) == 3 + told


def test_every_picture_has_a_text_in_its_place(page, comparison):
    mmd, forest, marginals = alternatives(page)
    far = comparison.metrics["mmd_whitened"]["far"]
    assert re.match(r"Whitened MMD of each candidate, from [\d.]+ \(<b>bold</b>\) to ([\d.]+) \(far\)", mmd)
    assert float(re.search(r"to ([\d.]+) ", mmd)[1]) == pytest.approx(far, rel=0.1)
    assert "of 2 coefficients: the reference's, and below them those of 2 candidates" in forest
    assert "of 2 coefficients" in marginals


def test_names_are_escaped(page):
    assert "&lt;script&gt;" in page
    assert "<b>bold" not in page
    assert "<title>Title &amp; more</title>" in page


def test_page_tells_what_the_coreset_and_the_chains_were(page):
    for text in (
        "0.40%",
        "3.3",
        "40%, 30%, 20%",
        "radius = 3",
        "noise floor",
        "bayescore compare a.nc",
        "bc.compare_posteriors(",
    ):
        assert text in page


def test_foreign_posteriors_have_no_coreset_section(posterior, tmp_path):
    candidate = posterior(1)
    candidate.posterior.attrs.clear()
    path = tmp_path / "r.html"
    compare_posteriors(candidate, posterior(0)).to_html(path)
    assert '<section id="coresets">' not in path.read_text(encoding="utf-8")


def test_long_tables_show_the_worst_and_say_so(posterior, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "MAX_ROWS", 2)
    monkeypatch.setattr(page_module, "WORST", 1)
    compare_posteriors({"x": posterior(1, mean=[0.0, 0.0, 1.0])}, posterior(0)).to_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    shown = section(page, "coordinates")
    assert "the 1 of 3 with the largest errors" in shown
    assert re.findall(r'class="name">(\w+)<', shown) == ["c"]


def test_failure_leaves_the_old_file_and_nothing_else(comparison, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(page_module, "picture", lambda *_: Picture("", "", "", 1))
    monkeypatch.setattr("bayescore.files.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        comparison.to_html(path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_bad_path_is_refused_before_work(comparison, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_sections", None)
    with pytest.raises(FileNotFoundError, match="does not exist; create it"):
        comparison.to_html(tmp_path / "nowhere" / "report.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        comparison.to_html(tmp_path)


def test_notebooks_and_terminals_show_verdicts_first(comparison):
    text, fragment = repr(comparison), comparison._repr_html_()
    assert text.index("far: differs") < text.index("MMD, whitened")
    assert fragment.index("far: differs") < fragment.index("<table")
    assert "<b>bold" not in fragment


def test_predicted_error_against_size_has_a_table_of_its_own(posterior, tmp_path):
    about = {**CORESET, "params": {"size_curve": CURVE, "skew": 0.25, "rounds": 3}}
    compare_posteriors({"x": posterior(1, coreset=about), "y": posterior(2, coreset=CORESET)}, posterior(0)).to_html(
        tmp_path / "r.html"
    )
    shown = section((tmp_path / "r.html").read_text(encoding="utf-8"), "coresets")
    own, curve = shown.split("Predicted error against size")
    assert "skew = 0.250" in own
    assert "size_curve" not in shown
    assert re.findall(r'"num">([^<]+)</td>', curve) == ["1,200", "0.43", "10", "2,400", "0.090", "1.2"]
    assert re.findall(r'class="name">([^<]*)<', curve) == ["x", ""]


def test_no_curve_no_heading(page):
    assert "Predicted error against size" not in page


def test_a_table_of_verdicts_comes_first_where_there_are_many(posterior, tmp_path):
    path = tmp_path / "r.html"
    for count, shown in ((4, False), (5, True)):
        candidates = {f"c{i}": posterior(i + 1, mean=0.5 * (i == 2)) for i in range(count)}
        compare_posteriors(candidates, posterior(0)).to_html(path)
        verdict = section(path.read_text(encoding="utf-8"), "verdict")
        assert ("<table>" in verdict) is shown
        assert ("Each verdict in words" in verdict) is shown
        assert verdict.count("<li class") == count
    assert re.findall(r'class="level (\w+)"', verdict)[2] == "bad"
    assert re.findall(r'class="name">(\w+)<', verdict) == list(candidates)


def test_page_tells_of_the_data(posterior, tmp_path):
    design = {"raw_names": ["age", "device"], "formula": "y ~ age + device", "levels": {"device": ["a", "b"]},
              "center": None, "offset": "exposure"}  # fmt: skip
    about = {**CORESET, "label": "y", "classes": ["no", "yes"], "weight_total": 2.5e6, "design": design}
    idata = posterior(1, coreset=about)
    weights = idata["constant_data"]["weights"]
    idata["constant_data"]["y"] = weights.copy(data=np.where(np.arange(len(weights)) == 0, 1, -1))
    compare_posteriors({"x": idata}, posterior(0)).to_html(tmp_path / "r.html")
    shown = section((tmp_path / "r.html").read_text(encoding="utf-8"), "data")
    share = 100.0 / sum(range(1, CORESET["size"] + 1))
    facts = {"Label": "y: yes against no", "Columns": "2: age, device", "Factors": "device (2 levels)",
             "Formula": "y ~ age + device", "Offset": "exposure", "Total weight": "2.5e+06"}  # fmt: skip
    for label, text in facts.items():
        assert f"<dt>{label}</dt><dd>{text}</dd>" in shown
    assert float(re.search(r"Share of yes</dt><dd>([\d.]+)%", shown)[1]) == pytest.approx(share, rel=0.01)
