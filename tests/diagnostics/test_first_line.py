"""The line that certificates, fits and pages begin with, and the bound on means that it names."""

import html
import math
import re

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Need, Remedy, first_line
from bayescore.limits import MAX_FAILURE_PROBABILITY
from bayescore.numerics.moments import ErrorFamily, bound_of_means
from tests.diagnostics.helpers import certificate

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


def test_the_line_says_what_can_be_used_and_how_far_means_are_off():
    assert first_line(certificate(level="certified", mean_bound=0.0412)) == (
        "These draws can be used: certified. Means are within 0.05 posterior sd of the full data's."
    )
    own = certificate(mean_bound=1e-9)
    assert own.first_line == (
        "These draws can be used once corrected, as Certificate.idata: corrected. "
        "Their means are within 0.01 posterior sd of the full data's."
    )
    assert first_line(own, corrected=True) == (
        "These draws can be used: corrected. Means are within 0.01 posterior sd of the full data's."
    )
    assert certificate(level="certified").first_line == "These draws can be used: certified."  # of an older file
    own.coordinates["tail_k"] = [0.6, math.nan]
    assert "Their means, and quartiles where there is no mean, are within 0.01" in own.first_line


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        (None, ""),
        (Remedy(Need.ROWS), " Needed: a coreset that covers the posterior."),
        (Remedy(Need.DRAWS, draws=700, max_draws=900), " Needed: more draws (draws=700, max_draws=900)."),
    ],
)
def test_refused_draws_should_not_be_used_and_the_line_has_the_remedy(remedy, said):
    own = certificate(level="not certified", remedy=remedy, mean_bound=0.01)
    assert own.first_line == f"These draws should not be used: not certified.{said}"


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=8000), "g": rng.integers(0, 8, 8000)})
    rows["y"] = rows["x"] + 0.5 * rng.normal(size=8)[rows["g"]] + rng.logistic(size=8000) > 0
    return bc.fit("y ~ x + (1 | g)", rows, random_state=1, progressbar=False)


def test_certificate_fit_file_and_page_begin_with_the_same_words(fit, tmp_path):
    line = fit.certificate.first_line
    told = re.fullmatch(r"These draws can be used: certified\. Means are within (0\.\d\d) posterior sd of .*", line)
    assert told
    assert repr(fit).splitlines()[0] == repr(fit.certificate).splitlines()[0] == line
    fit.report(tmp_path / "page.html")
    assert line in " ".join(html.unescape((tmp_path / "page.html").read_text("utf-8")).split())
    fit.save(tmp_path / "model")
    assert bc.read_fit(tmp_path / "model").certificate.first_line == line
    # the bound covers the largest error that the table has, with two standard errors of these draws
    table = fit.certificate.coordinates
    least = (table["mean_error_sd"].abs() + 2.0 * np.hypot(table["mean_error_sd_mcse"], table["mean_mcse_sd"])).max()
    assert least <= fit.certificate.mean_bound <= float(told[1]) <= 0.25
    assert fit.certificate.effects["mean_error_sd"].abs().max() <= fit.certificate.mean_bound


def test_the_bound_of_certified_draws_is_that_of_the_draws_themselves(fit):
    """Few weighed draws beside many do not widen it: 4,000 draws of three coordinates have an error of 0.016 sd."""
    found = fit.certificate
    noise = found.coordinates["mean_mcse_sd"].max()
    assert found.n_draws < 4000
    assert found.mean_bound < 4.5 * noise + found.coordinates["mean_error_sd"].abs().max()
