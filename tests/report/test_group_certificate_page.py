"""The page of a certificate with groups."""

import re
from dataclasses import replace

import numpy as np
import pytest

import bayescore as bc
from bayescore.diagnostics.model_check import check_model
from bayescore.diagnostics.results import Level
from bayescore.report import pages
from tests.coresets.test_multilevel import build, frame
from tests.diagnostics.helpers import alternatives, section
from tests.models.grouped_rows import grouped


@pytest.fixture(scope="module")
def made():
    rows = grouped(1500, 25, seed=3)[0]
    core = build(rows)
    idata = bc.sample(core, random_seed=1, progressbar=False)
    return rows, core, idata, bc.certify(idata, core, frame(rows), label="y", progressbar=False)


def page(path, made, certificate=None, **options):
    _, core, idata, own = made
    (own if certificate is None else certificate).to_html(path / "c.html", idata, core, **options)
    return (path / "c.html").read_text(encoding="utf-8")


def test_page_has_variance_effects_and_coefficients(made, tmp_path):
    rows, _, idata, own = made
    text = page(tmp_path, made)
    names = ["verdict", "data", "variance", "groups", "coefficients", "effects", "prior", "fit", "health", "coreset"]
    assert re.findall(r'<section id="(\w+)">', text) == [*names, "reproduce", "glossary"]
    assert text.count("<h2>") == len(names) + 2
    posterior = (idata if own.idata is None else own.idata).posterior
    sigma = posterior["sigma_county"].values
    cells = re.findall(r'class="num">([^<]*)</td>', section(text, "variance"))
    assert float(cells[0]) == pytest.approx(sigma.mean(), rel=0.01)
    assert float(cells[6]) == pytest.approx(posterior["icc_county"].values.mean(), rel=0.01)
    assert f"{np.exp(sigma.mean()):.3g}" in section(text, "variance")
    worst = re.findall(r'class="name">([^<]+)<', section(text, "groups"))
    size = np.fmax(own.effects["mean_error_sd"].abs(), own.effects["log_sd_error"].abs())
    assert worst == list(size.sort_values(ascending=False).index.get_level_values("group"))
    assert "log sigma_county" in section(text, "coefficients")
    assert "log sigma_county" not in section(text, "effects")
    assert "HalfStudentT" in section(text, "prior")
    assert "Normal(mu=0, sigma=2.5" in section(text, "prior")
    assert "pseudo-rows" in section(text, "fit")
    share = (rows.y > 0).mean()
    assert f"{100 * share:.1f}% of the rows" in section(text, "data")
    check, head = (
        re.findall(r'class="num">([^<]+)</th>', table) for table in section(text, "verdict").split("</table>")[:2]
    )
    assert check == ["Found", "Limit"]
    assert set(head) <= set(re.findall(r"<dt>([^<]+)</dt>", section(text, "glossary")))
    assert len(head) == 7


def test_every_picture_has_a_text_in_its_place(made, tmp_path):
    text = page(tmp_path, made)
    told = alternatives(text)
    assert len(told) == text.count("<img") == 2  # own and corrected intervals would be the same
    assert told[0].startswith("Caterpillar plot")
    assert told[1].startswith("Shrinkage plot")
    assert "http" not in text
    assert '<html lang="en">' in text


def test_many_groups_are_cut_to_the_worst(made, tmp_path, monkeypatch):
    monkeypatch.setattr("bayescore.report.page.WORST", 7)
    shown = section(page(tmp_path, made), "groups")
    assert "the 7 of 25 with the largest errors" in shown
    assert len(re.findall(r'class="name">', shown)) == 7


def test_fit_is_checked_on_test_rows_with_the_effects_of_their_groups(made, tmp_path, monkeypatch):
    rows, core, _, _ = made
    test = bc.all_rows(frame(rows)[:900], label="y", design=core.design, progressbar=False)
    seen = []
    monkeypatch.setattr(pages, "check_model", lambda *told: seen.append(check_model(*told)) or seen[-1])
    text = page(tmp_path, made, test=test)
    group, n = test.group[:, 0], np.bincount(test.group[:, 0])
    predicted, observed = (np.bincount(group, values) / n for values in (seen[0].p, seen[0].positive))
    assert np.corrcoef(predicted, observed)[0, 1] > 0.8  # without effects -0.2
    assert "test rows in 10 groups" in section(text, "fit")
    assert text.count("<img") == 3
    other = frame(rows)[:900].assign(county="nowhere")
    new = bc.all_rows(other, label="y", design=core.design, new_groups=True, progressbar=False)
    with pytest.raises(ValueError, match="groups that the coreset does not know"):
        page(tmp_path, made, test=new)


def test_refused_draws_have_a_page_without_errors(made, tmp_path):
    rows, core, idata, _ = made
    other = replace(core, weights=1.01 * core.weights)
    refused = bc.certify(idata, other, frame(rows), label="y", progressbar=False)
    assert refused.level is Level.NOT_CERTIFIED
    text = page(tmp_path, made, refused)
    assert "another coreset" in section(text, "verdict")
    assert "groups" not in re.findall(r'<section id="(\w+)">', text)
    assert text.count("<img") == 2  # no shrinkage without a pass
    assert "not certified" in section(text, "variance")


def test_names_are_escaped(made, tmp_path):
    own = made[-1]
    text = page(tmp_path, made, replace(own, text="<b>"))
    assert "<b>" not in text
    with pytest.raises(ValueError, match="no row for the group"):
        page(tmp_path, made, replace(own, effects=own.effects.iloc[1:]))
