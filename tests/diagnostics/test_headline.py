"""What certificates, fits and pages begin with: verdict and check; the bound on means."""

import html
import math
import re

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.limits import MAX_FAILURE_PROBABILITY
from bayescore.numerics.moments import ErrorFamily, bound_of_means, risk
from tests.diagnostics.helpers import certificate
from tests.fitting.printed import without_next

RUNS = 200_000


def means(error, noise, kind="mean"):
    own = np.asarray(error, dtype=float)
    return ErrorFamily(kind, [f"x{d}" for d in range(len(own))], own, np.zeros(len(own)), np.full(len(own), noise))


def test_means_are_beyond_the_bound_as_rarely_as_it_says():
    # 200 of 200,000 runs are expected at most; beyond 300 by a chance of 1e-11. Two thirds of the bound is the control
    found = means([0.05, -0.02, 0.0, 0.01], 0.02)
    bound, rng = bound_of_means([found]), np.random.default_rng(0)
    worst = np.abs(found.error + 0.02 * rng.normal(size=(RUNS, 4))).max(axis=1)
    assert 0.3 * MAX_FAILURE_PROBABILITY < (worst > bound).mean() < 1.5 * MAX_FAILURE_PROBABILITY
    assert (worst > 0.67 * bound).mean() > 20.0 * MAX_FAILURE_PROBABILITY


def test_quartiles_count_where_there_is_no_mean_and_nothing_else_does():
    assert bound_of_means([means([], 0.1), means([0.2], 0.01, "quartile")]) > 0.2
    assert bound_of_means([means([0.0], 0.01), means([0.2], 0.01, "sd")]) < 0.1
    assert bound_of_means([means([], 0.1)]) == 0.0
    assert bound_of_means([means([0.0], 0.0)]) < 1e-5


@pytest.mark.parametrize(("gap", "reached"), [(-1e-6, False), (1e-6, True)])
def test_an_error_has_the_size_of_1_where_a_tail_counts_as_a_failure(gap, reached):
    """Both are by two standard errors on top, 0.05 of noise and 0.12 of the estimate: their hypotenuse is 0.13."""
    own = ErrorFamily("tail", ["tail"], *(np.array([each]) for each in (0.04 + gap, 0.12, 0.05)), limit=0.3)
    assert bool(own.size[0] >= 1.0) is reached
    assert risk([own]) == float(reached)


def test_the_check_has_the_largest_errors_and_their_limits():
    figures = {"sd_error": [-0.021, math.nan], "mean_mcse_sd": [0.018, 0.017]}
    found = certificate(level="certified", errors=[0.01, -0.034], columns=figures, n_passes=1)
    assert found.headline == "CERTIFIED"
    assert [(each.found, each.limit) for each in found.checks] == [
        ("0.034 sd", "0.10 sd"),
        ("2.1 %", "10 %"),
        ("0.018 sd", ""),
        ("< 1 in 1,000", "1 in 1,000"),
    ]
    tiny = certificate(level="certified", errors=[1e-6, 0.0], earlier_error=0.03, n_passes=1)
    assert [each.found for each in tiny.checks][:3] == ["< 0.001 sd", "2.0 %", "0.030 sd"]
    assert "before the update" in tiny.checks[2].what


def test_of_corrected_draws_errors_have_no_limit_and_of_refused_ones_there_is_no_check():
    found = certificate(errors=[0.4, 0.0], n_passes=1)
    assert found.headline == "CERTIFIED AFTER CORRECTION"
    assert (found.checks[0].found, found.checks[0].limit) == ("0.40 sd", "")
    assert repr(found).startswith("CERTIFIED AFTER CORRECTION: use Certificate.idata\n")
    refused = certificate(level="not certified", n_passes=1)
    assert (refused.headline, refused.checks) == ("NOT CERTIFIED: do not use", [])


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=8000), "g": rng.integers(0, 8, 8000)})
    rows["y"] = rows["x"] + 0.5 * rng.normal(size=8)[rows["g"]] + rng.logistic(size=8000) > 0
    return bc.fit("y ~ x + (1 | g)", rows, random_state=1, progressbar=False)


def test_a_fit_says_verdict_model_and_rows_in_terminal_notebook_and_page(fit, tmp_path):
    lines = repr(fit).splitlines()
    assert re.fullmatch(r"Bayesian logistic regression +CERTIFIED", lines[0])
    assert len(lines[0]) == 80
    assert lines[1] == "y ~ x + (1 | g)"
    share = 100.0 * fit.coreset.event_total / 8000
    assert lines[2].startswith(f"8,000 observations (y = True: {share:.1f}%), 8 groups of g")
    assert max(map(len, lines)) <= 80
    for heading in ("Coefficients (log odds)", "Random effects (standard deviations)"):
        assert heading in lines
    fit.report(tmp_path / "page.html")
    page, notebook = (html.unescape(text) for text in ((tmp_path / "page.html").read_text("utf-8"), fit._repr_html_()))
    assert "<h1>y ~ x + (1 | g)</h1>" in page
    for check in fit.certificate.checks:
        assert check.found
        assert all(check.what in text and check.found in text for text in (repr(fit), notebook, page))
    fit.save(tmp_path / "model")
    assert without_next(repr(bc.read_fit(tmp_path / "model"))) == without_next(repr(fit))


def test_the_bound_covers_the_largest_error_that_the_table_has(fit):
    """With two standard errors of these draws."""
    found = fit.certificate.coordinates
    least = (found["mean_error_sd"].abs() + 2.0 * np.hypot(found["mean_error_sd_mcse"], found["mean_mcse_sd"])).max()
    assert least <= fit.certificate.mean_bound <= 0.25
    assert fit.certificate.effects["mean_error_sd"].abs().max() <= fit.certificate.mean_bound


def test_the_bound_of_certified_draws_is_that_of_the_draws_themselves(fit):
    """Few weighed draws beside many do not widen it: 4,000 draws of three coordinates have an error of 0.016 sd."""
    found = fit.certificate
    noise = found.coordinates["mean_mcse_sd"].max()
    assert found.n_draws < 4000
    assert found.mean_bound < 4.5 * noise + found.coordinates["mean_error_sd"].abs().max()
