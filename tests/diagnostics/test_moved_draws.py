"""Draws that `sample` moved to the full data's mode and curvature: what they say, and what is made of them."""

import json
from dataclasses import replace

import numpy as np
import pytest

import bayescore as bc
from bayescore.diagnostics.loo import loo, loo_draws, weights_of
from bayescore.families.family import check_family
from bayescore.models.laplace import MOVED, to_full
from bayescore.models.posterior import log_likelihoods
from bayescore.samplers.posterior import draws_digest
from bayescore.validation import DataError

LOGISTIC, PRIOR = check_family("logistic"), bc.priors.Normal(0, 3)


@pytest.fixture(scope="module")
def made():
    """Rows, and a coreset whose every marginal is about right and whose correlations are far off."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(6000, 25))
    y = X @ rng.normal(size=25) / 5.0 + rng.logistic(size=6000) > 0.5
    core = bc.build_coreset(X, y, method="calibrated", size=400, standardize=True, random_state=0, progressbar=False)
    return X, y, core


def drawn(core, **options):
    return bc.sample(core, "logistic", PRIOR, random_seed=0, progressbar=False, **options)


@pytest.fixture(scope="module")
def moved(made):
    return drawn(made[2])


def flat(idata, name="beta"):
    values = idata.posterior[name].values
    return values.reshape(-1, values.shape[2])


def test_moved_draws_say_so_and_all_that_is_kept_fits_them(made, moved):
    *_, core = made
    raw = drawn(replace(core, shortfall=None))
    assert moved.posterior.attrs["moved"] == MOVED
    assert raw.posterior.attrs["moved"].startswith("no: the coreset does not know")
    transport = to_full(core, LOGISTIC, PRIOR)
    np.testing.assert_allclose(flat(moved), transport(flat(raw)), rtol=1e-12)
    np.testing.assert_array_equal(flat(moved, "coef"), core.design.raw_coefficients(flat(moved)))
    story = json.loads(moved.posterior.attrs["posterior_of"])
    assert story["draws"] == draws_digest(moved.posterior["beta"].values)
    # lp is the log density of the coreset's posterior where the sampler was
    own = log_likelihoods(flat(raw), core, LOGISTIC) + PRIOR.log_density(flat(raw))
    np.testing.assert_array_equal(moved.sample_stats["lp"], raw.sample_stats["lp"])
    gap = moved.sample_stats["lp"].values.ravel() - own
    np.testing.assert_allclose(gap, np.median(gap), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["mala", "polya_gamma"])
def test_moved_draws_are_certified_where_those_of_the_coreset_need_a_correction(made, sampler):
    X, y, core = made
    certificate = bc.certify(drawn(core, sampler=sampler), core, X, y, progressbar=False)
    assert certificate.level == "certified"
    assert certificate.log_ratio_sd < 0.1
    raw = replace(core, shortfall=None)
    certificate = bc.certify(drawn(raw, sampler=sampler), raw, X, y, progressbar=False)
    assert certificate.level == "corrected"
    assert "the sd of a linear combination of coefficients is off" in certificate.text


def test_a_shortfall_with_a_shifted_score_is_noticed(made):
    X, y, core = made
    known = core.shortfall
    sd = bc.find_map(core, "logistic", PRIOR).factor
    shifted = replace(known, score=known.score + 0.5 * np.linalg.inv(sd).T[3])
    wrong = replace(core, shortfall=shifted)
    certificate = bc.certify(drawn(wrong), wrong, X, y, progressbar=False)
    assert certificate.level == "corrected"
    assert certificate.log_ratio_sd < 0.1  # the full data tell where the draws belong


def test_moved_draws_are_refused_with_a_coreset_that_moves_them_otherwise(made, moved):
    X, y, core = made
    known = core.shortfall
    wrong = replace(core, shortfall=replace(known, precision=1.3 * known.precision))
    certificate = bc.certify(moved, wrong, X, y, progressbar=False)
    assert certificate.level == "not certified"
    assert not certificate.n_passes
    with pytest.raises(DataError, match=r"were moved .* give the coreset that was sampled"):
        bc.certify(moved, replace(core, shortfall=None), X, y, progressbar=False)


def test_leave_one_out_weighs_moved_draws_by_where_they_came_from(made, moved):
    X, y, core = made
    raw = replace(core, shortfall=None)
    draws = {
        "moved": loo_draws("moved", moved, core, 500, weighted=False),
        "raw": loo_draws("raw", drawn(raw), raw, 500, weighted=False),
    }
    data = bc.all_rows(X, y, design=core.design, progressbar=False)
    spread = {
        name: weights_of(each, log_likelihoods(each.predictor, data, LOGISTIC)).spread for name, each in draws.items()
    }
    assert spread["moved"] < 0.05
    assert spread["raw"] > 0.2
    assert (loo(moved, core, X, y, progressbar=False).pareto_k < 0.7).all()


def test_draws_stay_where_mode_and_curvature_say_little_of_them():
    """Five rows have a column of their own and one label: their coefficient's posterior is a wall and a long tail."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=2000), np.arange(2000) < 5])
    y = (X[:, 0] + rng.logistic(size=2000) > 0) | (X[:, 1] > 0)
    core = bc.build_coreset(X, y, method="calibrated", size=300, random_state=0, progressbar=False)
    known = core.shortfall
    missed = {"score": known.score + np.array([0.0, 0.05]), "precision": known.precision - np.diag([0.0, 0.01])}
    far = replace(core, shortfall=replace(known, **missed))
    idata = bc.sample(far, "logistic", bc.priors.Normal(0, 10), random_seed=0, progressbar=False)
    assert idata.posterior.attrs["moved"].startswith("no: mode and curvature say too little of the draws")
    assert bc.certify(idata, far, X, y, progressbar=False).level != "not certified"
