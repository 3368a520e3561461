"""Corrected draws are InferenceData like any other."""

import arviz as az
import numpy as np
import pytest

import bayescore as bc
from bayescore import compat
from bayescore.diagnostics.certificate.weigh import Weighed, corrected_idata, resample_systematically
from bayescore.numerics.psis import FullWeights
from bayescore.samplers.posterior import read_posterior
from tests.hand_made import fit_of

N = 5000


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, 2)) * [1.0, 2.0]
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-X @ [0.8, -0.3])), "yes", "no")
    core = bc.build_coreset(X, y, method="uniform", size=200, intercept=True, random_state=0, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=500, random_seed=1, progressbar=False)
    return X, y, core, idata, bc.certify(idata, core, X, y, progressbar=False)


@pytest.mark.slow
def test_every_chain_and_draw_is_there_for_arviz_prediction_comparison_and_netcdf(problem, tmp_path):
    X, y, _, idata, cert = problem
    assert cert.level == "corrected"
    better = cert.idata
    assert better.posterior["beta"].dims == idata.posterior["beta"].dims
    assert better.posterior["beta"].shape == idata.posterior["beta"].shape
    assert list(better.posterior["feature"].values) == list(idata.posterior["feature"].values)
    np.testing.assert_array_equal(better.posterior["coef"].values, better.posterior["beta"].values)
    assert "moved to the full posterior's mode" in better.posterior.attrs["corrected"]
    assert float(az.ess(better.posterior["beta"].values[:, :, 0])) > 400
    full = bc.all_rows(X, y, intercept=True, progressbar=False)
    truth = bc.sample(full, sampler="mala", draws=500, random_seed=2, progressbar=False)
    found = bc.compare_posteriors({"raw": idata, "corrected": better}, truth)
    assert found.verdicts["raw"].level == "differs"
    assert found.verdicts["corrected"].level in ("indistinguishable", "close")
    mean, known = (fit_of(each, full).predict(X[:50])["mean"] for each in (better, truth))
    np.testing.assert_allclose(mean, known, atol=0.01)
    compat.write_inference_data(better, str(tmp_path / "c.nc"))
    back = compat.read_inference_data(str(tmp_path / "c.nc"))
    np.testing.assert_array_equal(back.posterior["beta"].values, better.posterior["beta"].values)
    assert back.posterior.attrs["corrected"] == better.posterior.attrs["corrected"]


def test_systematic_resampling_keeps_each_draw_as_often_as_its_weight_says():
    w = np.random.default_rng(0).gamma(2.0, size=1000)
    kept = np.bincount(resample_systematically(w), minlength=1000)
    assert (np.abs(kept - w / w.mean()) < 1.0).all()
    assert (np.diff(resample_systematically(w)) >= 0).all()
    np.testing.assert_array_equal(resample_systematically(np.ones(7)), np.arange(7))
    backwards = resample_systematically(w[::-1])  # points are in the middle
    np.testing.assert_array_equal(backwards, 999 - resample_systematically(w)[::-1])


def test_where_the_affine_map_will_not_do_the_draws_follow_the_weights():
    """A skewed posterior by a coreset of another shape: corrected quantiles against an exact grid, in one dimension."""
    X, y = np.ones((400, 1)), np.arange(400) < 3
    full = bc.all_rows(X, y, progressbar=False)
    core = bc.build_coreset(full, method="uniform", size=200, random_state=3, progressbar=False)
    assert core.y.max() == 1
    prior = bc.priors.Normal(0, 4)
    idata = bc.sample(core, prior=prior, sampler="mala", draws=1000, random_seed=1, progressbar=False)
    cert = bc.certify(idata, core, full, progressbar=False)
    assert cert.level == "corrected"
    grid = np.linspace(-12.0, 0.0, 40_001)
    log_p = 3 * grid - 400 * np.logaddexp(0.0, grid) - grid**2 / 32
    share = np.cumsum(np.exp(log_p - log_p.max()))
    exact = np.interp([0.025, 0.25, 0.5, 0.75, 0.975], share / share[-1], grid)
    found = np.quantile(cert.idata.posterior["beta"].values, [0.025, 0.25, 0.5, 0.75, 0.975])
    np.testing.assert_allclose(found, exact, atol=0.12)  # sd 0.6; the tails' Monte Carlo error is 0.03


def test_dims_of_any_order_are_put_right_and_chains_of_unequal_weight_keep_their_share(problem):
    _, _, _, idata, _ = problem
    own = read_posterior(idata, "it")
    raw = idata["posterior"].to_dataset() if hasattr(idata["posterior"], "to_dataset") else idata["posterior"]
    turned = raw.transpose("feature", "draw", "chain").assign(tau=(("draw", "chain"), own.draws[:, :, 0].T))
    weights = np.repeat([0.6, 0.2, 0.1, 0.1], 500) / 500
    weighed = Weighed(at=np.arange(2000), weights=FullWeights(np.log(weights / weights.max()), weights, 0.1))
    made = corrected_idata({"posterior": turned}, own, weighed, resample_systematically(weights))
    assert made.posterior["beta"].dims == ("chain", "draw", "feature")
    np.testing.assert_array_equal(made.posterior["tau"].values, made.posterior["beta"].values[:, :, 0])
    exact = weights @ own.flat
    found = made.posterior["beta"].values.reshape(2000, -1).mean(axis=0)
    np.testing.assert_allclose(found, exact, atol=1e-3 * own.flat.std())


@pytest.mark.parametrize("seed", [1, 3])
def test_draws_whose_sd_is_a_thousand_times_the_truths_are_corrected_to_a_fraction_of_that(seed):
    """A column that the coreset lacks, against exact posteriors on grids: errors in sds of the truth.

    Over 8 seeds the sd of a mean is 0.02, of the lower quantile, in the long tail, 0.09, of the upper one 0.03; in sds
    of the coreset's draws nothing would be seen to be left.
    """
    N, R, k, size = 4000, 100, 10, 100.0
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(N), np.where(np.arange(N) < R, size, 0.0)])
    y = np.zeros(N, bool)
    y[R:] = rng.random(N - R) < 0.4
    y[:k] = True
    full = bc.all_rows(X, y, progressbar=False)
    cores = (bc.build_coreset(full, method="uniform", size=60, random_state=s, progressbar=False) for s in range(40))
    core = next(each for each in cores if not each.X[:, 1].any())
    idata = bc.sample(core, sampler="mala", draws=2000, tune=500, random_seed=seed, progressbar=False)
    cert = bc.certify(idata, core, full, progressbar=False)
    assert cert.level == "corrected"
    assert "off by a factor of" in cert.text or "the mean of" in cert.text
    a, u = np.linspace(-0.8, 0.0, 4001), np.linspace(-9.0, 2.0, 4001)
    n = y[R:].sum()
    log_a, log_u = n * a - (N - R) * np.logaddexp(0, a) - a**2 / 32, k * u - R * np.logaddexp(0, u)
    p, q = (np.exp(each - each.max()) / np.exp(each - each.max()).sum() for each in (log_a, log_u))
    exact = (rng.choice(u, 400_000, p=q) - rng.choice(a, 400_000, p=p)) / size
    found, sd = cert.idata.posterior["beta"].values[:, :, 1].ravel(), exact.std()
    assert abs(found.mean() - exact.mean()) < 0.08 * sd
    np.testing.assert_allclose(
        np.quantile(found, [0.025, 0.975]), np.quantile(exact, [0.025, 0.975]), atol=0.36 * float(sd)
    )
