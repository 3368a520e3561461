"""The posterior of all rows under a fit's design and priors, and what comparisons say of priors and of effects' sds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Level

QUIET = {"random_state": 3, "progressbar": False}
RNG = np.random.default_rng(12)
N = 900
ROWS = pd.DataFrame({"age": RNG.normal(40.0, 9.0, N), "g": RNG.integers(0, 12, N)})
ETA = 0.05 * (ROWS["age"] - 40.0) + RNG.normal(0.0, 0.7, 12)[ROWS["g"]]
ROWS["y"] = ETA + RNG.logistic(size=N) > 0
ROWS["n"] = RNG.poisson(np.exp(0.5 * ETA))
ROWS["z"] = ETA + RNG.normal(size=N)
FAMILIES = {"logistic": "y", "probit": "y", "cloglog": "y", "poisson": "n", "negative_binomial(4)": "n", "normal": "z"}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("terms", ["age", "age + (1 | g)"])
def test_all_rows_have_the_posterior_of_the_fit(family, terms):
    prior = {"age": bc.priors.Normal(0.0, 0.02)}
    fit = bc.fit(f"{FAMILIES[family]} ~ {terms}", ROWS, family=family, prior=prior, **QUIET)
    reference = fit.all_rows_posterior(progressbar=False)
    found = bc.compare_posteriors(fit, reference)
    assert found.verdicts["candidate"].level != Level.DIFFERS
    assert "priors differ" not in found.verdicts["candidate"].text
    features = set(found.coordinates["feature"])
    sds = {"log sigma_g"} if "|" in terms else set()
    assert features == {"Intercept", "age", *sds, *({"log sigma"} if family == "normal" else set())}
    assert found.coordinates["mean_error_sd"].abs().max() < 0.25


def test_priors_that_differ_come_first_and_the_coreset_is_not_blamed():
    fit = bc.fit("y ~ age", ROWS, **QUIET)
    other = fit.with_prior(bc.priors.Normal(0.0, 0.01))
    said = bc.compare_posteriors(other, fit).verdicts["candidate"].text
    assert said.startswith("The priors differ")
    assert "larger coreset" not in said
    assert (
        "priors differ"
        not in bc.compare_posteriors(fit, fit.all_rows_posterior(progressbar=False)).verdicts["candidate"].text
    )


def test_sds_of_effects_are_compared(tmp_path):
    fit = bc.fit("y ~ age + (1 | g)", ROWS, **QUIET)
    tight = bc.fit("y ~ age + (1 | g)", ROWS, group_prior=bc.priors.HalfNormal(0.1), **QUIET)
    found = bc.compare_posteriors(tight, fit)
    verdict = found.verdicts["candidate"]
    assert verdict.level == Level.DIFFERS
    assert "priors of effects' sds differ" in verdict.text
    assert "log sigma_g" in verdict.text
    assert verdict.text.endswith("Effects of single groups are not compared.")
    found.to_html(tmp_path / "page.html", certificates={"candidate": tight.certificate})
    assert "log sigma_g" in (tmp_path / "page.html").read_text("utf-8")


def test_a_fit_without_rows_asks_for_them(tmp_path):
    fit = bc.fit("y ~ age", ROWS, **QUIET)
    with pytest.raises(ValueError, match="does not have all its rows"):
        replace(fit, _given=None, coreset=replace(fit.coreset, method="calibrated")).all_rows_posterior()
