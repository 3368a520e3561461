"""The page of a fit says what the fit answers, to the digit, in the words of its family and of its rows."""

import html
import re

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.tables import rounded
from tests.golden import view

QUIET = {"random_state": 7, "progressbar": False}
RNG = np.random.default_rng(5)
N = 800
ROWS = pd.DataFrame({"width": RNG.normal(30.0, 7.0, N), "site": RNG.choice(["s1", "s2", "s3", "s4", "s5"], N)})
SHIFT = ROWS["site"].map(dict(zip(["s1", "s2", "s3", "s4", "s5"], [-0.6, -0.3, 0.0, 0.4, 0.7], strict=True)))
ETA = 0.05 * (ROWS["width"] - 30.0) + SHIFT
ROWS["died"] = np.where(ETA + RNG.logistic(size=N) > 0.4, "yes", "no")
ROWS["eggs"] = RNG.poisson(2.0 * np.exp(0.3 * ETA))
ROWS["mass"] = ETA + RNG.normal(size=N)
ROWS["years"] = RNG.choice([0.5, 1.5], N)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MODELS = {
    "labels, slopes": ("died ~ width + (1 + width | site)", {}),
    "counts, pseudo-rows": ("eggs ~ width", {"family": "poisson"}),
    "counts, exposure and groups": ("eggs ~ width + (1 | site)", {"family": "poisson", "exposure": "years"}),
    "numbers, slopes": ("mass ~ width + (1 + width | site)", {"family": "normal"}),
    "hazards, basis": ("died ~ poly(width, 2) + site", {"family": "cloglog"}),
}


def lines_of(fit, folder):
    fit.report(folder / "page.html")
    return view.of_page(folder / "page.html")["text"]


def has_row(lines, name, cells):
    wanted = [name, *cells]
    plain = [[cell.strip().replace("−", "-") for cell in line.strip("| ").split("|")] for line in lines if "|" in line]
    return wanted in plain


@pytest.mark.parametrize("kind", MODELS)
def test_the_page_has_the_tables_of_the_fit_to_the_digit(kind, tmp_path):
    formula, told = MODELS[kind]
    fit = bc.fit(formula, ROWS, **told, **QUIET)
    lines = lines_of(fit, tmp_path)
    text = "\n".join(lines)
    for name, row in rounded(fit.summary()).iterrows():
        assert has_row(lines, name, row), name
    for own in fit.coreset.groups:
        for effect in own.effects:
            for name, row in rounded(fit.effects(own.name, effect=effect)).iterrows():
                assert has_row(lines, str(name), row), (effect, name)
    observed = fit.check()
    outside = f"in {int(observed['outside'].sum())} of them"
    assert f"rows of the data in {len(observed)} groups" in text
    assert outside in text.replace("\n", " ")
    assert "800" in text
    assert not re.search(r"test rows|test=|pseudo-rows\. G|ESS of draws \| nan|core\.parquet|posterior\.nc", text)
    if fit.coreset.response == "labels":
        assert f"{100.0 * (ROWS['died'] == 'yes').mean():.1f}%" in text
    else:
        assert "two classes" not in text
        assert "Odds" not in text.replace("Odds ratios", "") if fit.coreset.counts else "Share of" not in text
    if fit.coreset.counts:
        assert f"{ROWS['eggs'].sum():,}" in text
        assert ("mean count lies" in text.replace("\n", " ")) == ("exposure" not in told)
        assert "Rate ratios" in text
        assert "Bayesian Poisson regression: 800 observations (" in text


def test_columns_of_a_basis_have_no_ratio(tmp_path):
    fit = bc.fit("died ~ poly(width, 2) + site", ROWS, **QUIET)
    lines = lines_of(fit, tmp_path)
    ratios = rounded(fit.summary(scale="ratio"))
    assert has_row(lines, "site[s2]", ratios.loc["site[s2]"])
    assert not has_row(lines, "poly(width, 2)[1]", ratios.loc["poly(width, 2)[1]"])


def test_the_call_of_the_page_makes_the_fit_again(tmp_path):
    prior = {"width": bc.priors.Normal(0, 0.2)}
    told = {"family": "poisson", "exposure": "years", "prior": prior, "group_prior": bc.priors.HalfNormal(1.0)}
    fit = bc.fit("eggs ~ width + (1 | site)", ROWS, **told, **QUIET)
    fit.report(tmp_path / "page.html")
    lines = html.unescape((tmp_path / "page.html").read_text("utf-8")).splitlines()
    call = next(line for line in lines if line.startswith("fit = bc.fit("))
    assert "random_state=7" in call
    held = {"bc": bc, "rows": ROWS}
    exec(call.replace("random_state", "progressbar=False, random_state"), held)
    pd.testing.assert_frame_equal(held["fit"].summary(), fit.summary())


def test_pages_without_rows_say_so(tmp_path):
    fit = bc.fit("eggs ~ width + (1 | site)", ROWS, family="poisson", **QUIET)
    fit.save(tmp_path / "fit")
    text = "\n".join(lines_of(bc.read_fit(tmp_path / "fit"), tmp_path))
    assert "Not looked at: the fit does not have its rows" in text
    core = bc.build_coreset(ROWS, formula="died ~ width + (1 | site)", method="multilevel", **QUIET)
    lossy = bc.fit(core, prior=bc.priors.Normal(0, 2.5), **QUIET)
    assert "not certified" in "\n".join(lines_of(lossy, tmp_path))
