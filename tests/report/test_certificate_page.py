import dataclasses
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.report.pages import write_certificate
from tests.diagnostics.helpers import CURVE, alternatives, certificate, section


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
    names = ["verdict", "data", "coefficients", "effects", "fit", "health", "coreset", "reproduce", "glossary"]
    assert re.findall(r'<section id="(\w+)">', page) == names
    assert page.index("CERTIFIED AFTER CORRECTION") < page.index("<table>")
    for text in ("<title>A &amp; b</title>", "Because &lt;so&gt;.", "50 of 300 rows, 2 coefficients", "321 of 500",
                 "above 0.7 in 4 of 1,000 rows", "<dt>Passes over the data</dt>",
                 "<dt>Label</dt><dd>y: yes against no</dd>", "2,400", "4 × 500",
                 "bayescore certify p.nc", "certificate.to_html("):  # fmt: skip
        assert text in page, text
    assert re.findall(r'class="name">([^<]+)<', section(page, "coefficients")) == ["b", "&lt;script&gt;"]
    head = re.findall(r'class="num">([^<]+)</th>', section(page, "verdict"))
    assert set(head) <= set(re.findall(r"<dt>([^<]+)</dt>", section(page, "glossary")))
    for own in ("size_curve", "rounds"):  # builders' accounts
        assert own not in page
    assert "http" not in page
    assert not re.search(r"<(script|link|iframe)|url\(", page)
    assert re.findall(r'src="(.{10})', page) == ["data:image"] * 2
    assert len(alternatives(page)) == 2
    assert "not to be trusted" not in page


def test_page_of_a_failed_certificate_warns_of_its_figures(core, posterior, tmp_path):
    page = one_page(
        tmp_path / "c.html", core, posterior, certificate(level="not certified", pareto_k=np.inf, n_passes=1)
    )
    assert "<strong>NOT CERTIFIED: do not use</strong>" in page
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


def test_effects_are_in_units_of_the_data_and_priors_in_both(tmp_path):
    """A posterior of standardised columns, drawn by hand: one column in units of 100."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"dose": 100.0 * rng.normal(size=2000) + 500.0, "b": rng.normal(size=2000)})
    y = rng.random(2000) < 1.0 / (1.0 + np.exp(5.0 - 0.01 * X["dose"].to_numpy()))
    core = bc.all_rows(X, y, intercept=True, standardize=True, progressbar=False)
    prior = {"Intercept": bc.priors.StudentT(3), "*": bc.priors.Normal(0, 1)}
    idata = bc.sample(core, prior=prior, sampler="mala", draws=500, random_seed=1, progressbar=False)
    own = bc.certify(idata, core, core, progressbar=False)
    own.to_html(tmp_path / "c.html", idata, core)
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    effects = section(page, "effects")
    cells = re.findall(r'class="num">([^<]*)</td>', effects[effects.index(">dose<") :])
    coef = own.idata.posterior["coef"].values[:, :, 1]
    assert float(cells[0]) == pytest.approx(coef.mean(), rel=0.01)
    assert float(cells[2]) == pytest.approx(np.exp(np.median(coef)), rel=0.01)
    assert float(cells[2]) == pytest.approx(1.01, abs=0.003)
    shown = section(page, "prior")
    assert "StudentT(nu=3, mu=0, sigma=2.5), at the columns&#39; means" in shown
    assert f"Normal(mu=0, sigma={1.0 / core.design.scale[0]:.4g})" in shown
    assert "give test= rows" in section(page, "fit")
    own.to_html(tmp_path / "c.html", idata, core, test=core.take(slice(500)))
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "Left, test rows in 10 groups" in section(page, "fit")
    assert "design=core.design" in section(page, "reproduce")
    turned = replace(core.take(slice(500)), classes=core.classes[::-1])
    with pytest.raises(ValueError, match=r"test has the labels .*, the posterior .* the same positive="):
        own.to_html(tmp_path / "c.html", idata, core, test=turned)
    with pytest.raises(ValueError, match="test has another design"):
        own.to_html(tmp_path / "c.html", idata, core, test=bc.all_rows(X, y, intercept=True, progressbar=False))
