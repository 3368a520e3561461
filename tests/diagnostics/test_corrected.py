"""Corrected draws are InferenceData like any other."""

import arviz as az
import numpy as np
import pytest

import bayescore as bc
from bayescore import compat
from bayescore.diagnostics.corrected import systematic

N = 5000


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, 2)) * [1.0, 2.0]
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-X @ [0.8, -0.3])), "yes", "no")
    core = bc.build_coreset(X, y, method="uniform", size=200, intercept=True, random_state=0, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=500, random_seed=1, progressbar=False)
    return X, y, core, idata, bc.certify(idata, core, X, y, progressbar=False)


def test_every_chain_and_draw_is_there_for_arviz_prediction_comparison_and_netcdf(problem, tmp_path):
    X, y, _, idata, cert = problem
    assert cert.level == "corrected"
    better = cert.idata
    assert better.posterior["beta"].dims == idata.posterior["beta"].dims
    assert better.posterior["beta"].shape == idata.posterior["beta"].shape
    assert list(better.posterior["feature"].values) == list(idata.posterior["feature"].values)
    assert "moved to the full posterior's mode" in better.posterior.attrs["corrected"]
    assert float(az.ess(better.posterior["beta"].values[:, :, 0])) > 400
    full = bc.full_data(X, y, intercept=True, progressbar=False)
    truth = bc.sample(full, sampler="mala", draws=500, random_seed=2, progressbar=False)
    found = bc.compare({"raw": idata, "corrected": better}, truth)
    assert found.verdicts["raw"].level == "differs"
    assert found.verdicts["corrected"].level in ("indistinguishable", "close")
    np.testing.assert_allclose(bc.predict_proba(better, X[:50]), bc.predict_proba(truth, X[:50]), atol=0.01)
    compat.write_inference_data(better, str(tmp_path / "c.nc"))
    back = compat.read_inference_data(str(tmp_path / "c.nc"))
    np.testing.assert_array_equal(back.posterior["beta"].values, better.posterior["beta"].values)
    assert back.posterior.attrs["corrected"] == better.posterior.attrs["corrected"]


def test_systematic_resampling_keeps_each_draw_as_often_as_its_weight_says():
    w = np.random.default_rng(0).gamma(2.0, size=1000)
    kept = np.bincount(systematic(w), minlength=1000)
    assert (np.abs(kept - w / w.mean()) < 1.0).all()
    assert (np.diff(systematic(w)) >= 0).all()
    np.testing.assert_array_equal(systematic(np.ones(7)), np.arange(7))


def test_where_the_affine_map_will_not_do_the_draws_follow_the_weights():
    """A skewed posterior by a coreset of another shape: corrected quantiles against an exact grid, in one dimension."""
    X, y = np.ones((400, 1)), np.arange(400) < 3
    full = bc.full_data(X, y, progressbar=False)
    core = bc.build_coreset(full, method="uniform", size=200, random_state=3, progressbar=False)
    assert core.y.max() == 1
    idata = bc.sample(core, sampler="mala", draws=1000, random_seed=1, progressbar=False)
    cert = bc.certify(idata, core, full, progressbar=False)
    assert cert.level == "corrected"
    grid = np.linspace(-12.0, 0.0, 40_001)
    log_p = 3 * grid - 400 * np.logaddexp(0.0, grid) - grid**2 / 32
    share = np.cumsum(np.exp(log_p - log_p.max()))
    exact = np.interp([0.025, 0.25, 0.5, 0.75, 0.975], share / share[-1], grid)
    found = np.quantile(cert.idata.posterior["beta"].values, [0.025, 0.25, 0.5, 0.75, 0.975])
    np.testing.assert_allclose(found, exact, atol=0.12)  # sd 0.6; the tails' Monte Carlo error is 0.03
