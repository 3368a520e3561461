import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics import compare
from bayescore.diagnostics.agreement import agreement, predicted_error
from bayescore.diagnostics.certificate import Certificate
from bayescore.diagnostics.report import comparison as module
from bayescore.diagnostics.report import page as page_module
from bayescore.diagnostics.report import write_certificate, write_report
from bayescore.diagnostics.results import Level
from bayescore.diagnostics.wording import with_error

CORESET = {
    "method": "calibrated",
    "size": 4,
    "n_total": 1000,
    "weight_total": 1000.0,
    "params": {"radius": 3.0},
    "random_state": 7,
}


def certificate(features=("<script>", "b"), level="correct it", errors=(0.1, -0.3), **figures):
    errors = np.array(errors)
    table = pd.DataFrame(
        {
            "mean": errors,
            "sd": 1.0,
            "corrected_mean": 0.0,
            "corrected_sd": 0.987,
            "corrected_q03": -1.88,
            "corrected_q97": 1.89,
            "mean_error_sd": errors,
            "mean_error_sd_mcse": 0.01,
        },
        index=pd.Index(features, name="feature"),
    )
    known = {"pareto_k": 0.31, "ess": 321.0, "n_draws": 500, "epsilon": 0.0123, "log_ratio_sd": 0.45, **figures}
    return Certificate(level=Level(level), text="Because <so>.", coordinates=table, **known)


def section(page, name):
    start = page.index(f'<section id="{name}">')
    return page[start : page.index("</section>", start)]


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
    write_report(comparison, path, title="Title & more", command="bayescore compare a.nc")
    return path.read_text(encoding="utf-8")


def test_sections_stand_in_the_order_of_reading(page):
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
    monkeypatch.setattr(page_module, "MAX_ROWS", 2)
    monkeypatch.setattr(page_module, "WORST", 1)
    compare({"x": posterior(1, mean=[0.0, 0.0, 1.0])}, posterior(0)).to_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    shown = section(page, "coordinates")
    assert "the 1 of 3 with the largest errors" in shown
    assert re.findall(r'class="name">(\w+)<', shown) == ["c"]


def test_failure_leaves_the_old_file_and_nothing_else(comparison, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(page_module, "picture", lambda *_: {"png": "", "width": 1})
    monkeypatch.setattr("bayescore.validation.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        comparison.to_html(path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_bad_path_is_refused_before_work(comparison, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_render", None)
    with pytest.raises(FileNotFoundError, match="does not exist; create it"):
        comparison.to_html(tmp_path / "nowhere" / "report.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        comparison.to_html(tmp_path)


def test_notebooks_and_terminals_show_verdicts_first(comparison):
    text, fragment = repr(comparison), comparison._repr_html_()
    assert text.index("far: differs") < text.index("MMD, whitened")
    assert fragment.index("far: differs") < fragment.index("<table")
    assert "<b>bold" not in fragment


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
    assert names[:3] == ["verdict", "certificates", "metrics"]
    words = section(certified_page, "certificates")
    assert words.index("&lt;b&gt;bold&lt;/b&gt;: correct it") < words.index("far: not certified")  # as the candidates
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
    assert {*head, "Certified", "Correct it", "Not certified"} <= set(terms)
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
    monkeypatch.setattr(module, "_render", None)
    with pytest.raises(error, match=told):
        comparison.to_html(tmp_path / "r.html", certificates=certificates)
    assert not list(tmp_path.iterdir())


def measured(errors, sd=1.0):
    """What a reference tells, with a Monte Carlo error of 0.02."""
    return pd.DataFrame(
        {"feature": ["b", "<script>"], "reference_sd": sd, "mean_error_sd": errors, "mean_error_sd_mcse": 0.02}
    )


def test_agreement_is_judged_by_coefficient_in_the_references_unit():
    own = certificate(errors=(0.1, -0.3))
    assert agreement(own, measured([-0.32, 0.11])) is True
    assert agreement(own, measured([-0.15, 0.05], sd=2.0)) is True
    assert agreement(own, measured([0.1, -0.3])) is False  # right sizes, wrong coefficients
    assert agreement(own, measured([-0.3, np.nan])) is False
    assert agreement(dataclasses.replace(own, level=Level.NOT_CERTIFIED), measured([-0.3, 0.1])) is None


def test_agreement_is_refused_to_exact_predictions_once_in_a_hundred():
    """The rate is 1%: of 2000 more than 45 in one of 10^6 runs. Control: noise twice as large as stated."""
    rng = np.random.default_rng(0)
    own = certificate(errors=(0.0, 0.0))
    shifts = np.hypot(0.01, 0.02) * rng.normal(size=(2000, 2))
    assert sum(not agreement(own, measured(shift)) for shift in shifts) <= 45
    assert sum(not agreement(own, measured(2.0 * shift)) for shift in shifts) > 45


def test_the_largest_predicted_error_is_the_one_the_text_names():
    own = certificate(errors=(0.1, -0.09))
    own.coordinates["mean_error_sd_mcse"] = [0.01, 0.05]
    assert predicted_error(own) == (0.09, 0.05)


CURVE = [{"size": 1200, "mean_error": 0.4321, "sd_error": 0.1}, {"size": 2400, "mean_error": 0.09, "sd_error": 0.0123}]


def test_predicted_error_against_size_has_a_table_of_its_own(posterior, tmp_path):
    about = {**CORESET, "params": {"size_curve": CURVE, "skew": 0.25, "rounds": 3}}
    compare({"x": posterior(1, coreset=about), "y": posterior(2, coreset=CORESET)}, posterior(0)).to_html(
        tmp_path / "r.html"
    )
    shown = section((tmp_path / "r.html").read_text(encoding="utf-8"), "coresets")
    own, curve = shown.split("Predicted error against size")
    assert "skew = 0.25, rounds = 3" in own
    assert "size_curve" not in shown
    assert re.findall(r'"num">([^<]+)</td>', curve) == ["1,200", "0.43", "10", "2,400", "0.090", "1.2"]
    assert re.findall(r'class="name">([^<]*)<', curve) == ["x", ""]


def test_no_curve_no_heading(page):
    assert "Predicted error against size" not in page


@pytest.fixture(scope="module")
def core():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["<script>", "b"])
    y = np.where(rng.random(300) < 0.5, "no", "yes")
    return bc.build_coreset(X, y, method="uniform", size=50, random_state=3, progressbar=False)


def one_page(path, core, posterior, own, **options):
    write_certificate(own, posterior(1, features=("<script>", "b")), core, path, **options)
    return path.read_text(encoding="utf-8")


def test_certificate_has_a_page_of_its_own(core, posterior, tmp_path):
    core = dataclasses.replace(core, params={**core.params, "rounds": 7, "size_curve": CURVE})
    own = certificate(elpd_loo=-1234.5, elpd_loo_se=12.0, elpd_loo_mcse=0.3, elpd_loo_rows=1000, elpd_loo_bad_k=4)
    page = one_page(tmp_path / "c.html", core, posterior, own, title="A & b", command="bayescore certify p.nc")
    names = ["verdict", "coefficients", "health", "coreset", "reproduce", "glossary"]
    assert re.findall(r'<section id="(\w+)">', page) == names
    assert page.index("uniform 50: correct it") < page.index("<table>")
    for text in ("<title>A &amp; b</title>", "Because &lt;so&gt;.", "50 of 300 rows, 2 coefficients", "321 of 500",
                 "above 0.7 in 4 of 1,000 rows", "<dt>rounds</dt><dd>7</dd>", "2,400", "4 × 500",
                 "bayescore certify p.nc", "certificate.to_html("):  # fmt: skip
        assert text in page, text
    assert re.findall(r'class="name">([^<]+)<', section(page, "coefficients")) == ["b", "&lt;script&gt;"]
    head = re.findall(r'class="num">([^<]+)</th>', section(page, "verdict"))
    assert set(head) <= set(re.findall(r"<dt>([^<]+)</dt>", section(page, "glossary")))
    assert "size_curve" not in page
    assert "http" not in page
    assert not re.search(r"<(script|link|iframe)|url\(", page)
    assert re.findall(r'src="(.{10})', page) == ["data:image"]
    assert "not to be trusted" not in page


def test_page_of_a_failed_certificate_warns_of_its_figures(core, posterior, tmp_path):
    page = one_page(tmp_path / "c.html", core, posterior, certificate(level="not certified", pareto_k=np.inf))
    assert "uniform 50: not certified" in page
    assert "No correction can be trusted here" in page
    assert "0.300" not in section(page, "verdict")


def test_certificate_of_another_posterior_is_refused(core, posterior, tmp_path):
    with pytest.raises(ValueError, match="certificate has the features a, b, the posterior <script>, b"):
        one_page(tmp_path / "c.html", core, posterior, certificate(("a", "b")))
    with pytest.raises(TypeError, match="idata is of type int"):
        write_certificate(certificate(), 3, core, tmp_path / "c.html")
    with pytest.raises(FileNotFoundError, match="does not exist; create it"):
        one_page(tmp_path / "nowhere" / "c.html", core, posterior, certificate())
    assert not list(tmp_path.iterdir())
