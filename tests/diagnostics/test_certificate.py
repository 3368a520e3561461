import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.models.posterior import log_likelihoods

N, D = 12_000, 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D - 1)) * [1, 5, 1, 1]
    p = 1 / (1 + np.exp(1.5 - X @ np.array([1.0, -0.2, 0.3, 0.0])))
    return pd.DataFrame(X, columns=list("abcd")), np.where(rng.random(N) < p, "yes", "no")


def posterior(data, method, size, likelihood="logistic", seed=0):
    core = bc.build_coreset(
        *data,
        method=method,
        size=size,
        likelihood=likelihood,
        intercept=True,
        standardize=True,
        random_state=seed,
        progressbar=False,
    )
    return core, bc.sample(core, sampler="mala", random_seed=1, progressbar=False)


def full_of(data, likelihood="logistic"):
    return bc.full_data(*data, likelihood=likelihood, intercept=True, standardize=True, progressbar=False)


@pytest.mark.parametrize("likelihood", ["logistic", "probit"])
def test_a_calibrated_coreset_is_certified(data, likelihood, tmp_path):
    core, idata = posterior(data, "calibrated", 200, likelihood)
    cert = bc.certify(idata, core, *data, progressbar=False)
    assert cert.level == "certified"
    assert cert.pareto_k < 0.7
    assert cert.epsilon < 0.01
    assert cert.n_draws == 500
    assert cert.ess > 300
    assert list(cert.coordinates.index) == ["intercept", *"abcd"]
    assert "Pareto k-hat" in repr(cert)
    cert.to_html(tmp_path / "certificate.html", idata, core)
    assert cert.text.split(" at worst")[0] in (tmp_path / "certificate.html").read_text(encoding="utf-8")


def test_a_subsample_far_off_is_corrected(data):
    """Its posterior is 10 sd away; the corrected draws' means are within 5 Monte Carlo errors: alarms 3e-6."""
    core, idata = posterior(data, "uniform", 300)
    full = full_of(data)
    cert = bc.certify(idata, core, full, progressbar=False)
    assert cert.level == "corrected"
    assert cert.transported
    assert cert.n_passes <= 8
    assert "Certificate.idata" in cert.text
    truth = bc.find_map(full)
    own, better = (each.posterior["beta"].values.reshape(-1, D) for each in (idata, cert.idata))
    assert np.abs((own.mean(axis=0) - truth.beta) / truth.sd).max() > 5
    assert cert.idata.posterior["beta"].shape == idata.posterior["beta"].shape
    np.testing.assert_allclose(better.mean(axis=0), truth.beta, atol=float(0.1 * truth.sd.min()) + 0.002)
    np.testing.assert_allclose(better.std(axis=0), truth.sd, rtol=0.05)


def test_a_subsample_that_nothing_mends_is_not_certified():
    """Fifteen rows of a thousand, two of the rarer label, under a prior as good as flat: another shape altogether."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(4000), rng.normal(size=(4000, 3)) ** 3])
    y = rng.random(4000) < 1 / (1 + np.exp(3 - X @ [0.0, 0.2, 0.0, 0.0]))
    core = bc.build_coreset(X, y, method="uniform", size=25, random_state=1, progressbar=False)
    idata = bc.sample(core, prior=bc.Laplace(0, 20), sampler="mala", random_seed=1, progressbar=False)
    cert = bc.certify(idata, core, X, y, progressbar=False)
    assert cert.level == "not certified"
    assert cert.idata is None
    assert np.isnan(cert.elpd_loo)


def test_the_predicted_error_is_the_true_one_and_the_correction_repairs_it(data):
    """A coreset that lacks 1% of the rows: off by a fraction of an sd, which the correction must find."""
    core, idata = posterior(data, "uniform", int(0.99 * N))
    cert = bc.certify(idata, core, *data, max_draws=2000, progressbar=False)
    truth, own = bc.find_map(full_of(data)), bc.find_map(core)
    error = (own.beta - truth.beta) / truth.sd
    table = cert.coordinates
    assert np.abs(error).max() > 0.05
    assert (np.abs(table["mean_error_sd"] - error) < 4 * table["mean_error_sd_mcse"] + 0.05).all()
    assert np.abs(table["corrected_sd"] / truth.sd - 1).max() < 0.15
    assert (
        (table["corrected_q03"] < table["corrected_mean"]) & (table["corrected_mean"] < table["corrected_q97"])
    ).all()
    exact = full_of(data)
    same = bc.certify(bc.sample(exact, sampler="mala", draws=200, progressbar=False), exact, *data, progressbar=False)
    assert same.level == "certified"
    assert same.log_ratio_sd < 1e-6


def test_log_likelihoods_are_the_weighted_sums(data):
    core, idata = posterior(data, "uniform", 300)
    draws = idata.posterior["beta"].values.reshape(-1, D)[:7]
    pointwise = bc.log_likelihood(idata, core).values.reshape(-1, 300)[:7]
    from bayescore.models.likelihoods import LIKELIHOODS

    np.testing.assert_allclose(
        log_likelihoods(draws, core, LIKELIHOODS["logistic"]), pointwise @ core.weights, rtol=1e-10
    )


def test_full_data_may_come_as_a_coreset_and_gives_the_same(data):
    core, idata = posterior(data, "calibrated", 200)
    a = bc.certify(idata, core, *data, progressbar=False)
    b = bc.certify(idata, core, full_of(data), progressbar=False)
    assert a.pareto_k == pytest.approx(b.pareto_k, abs=1e-6)


def test_mismatches_are_named(data):
    core, idata = posterior(data, "uniform", 300)
    frame, y = data
    with pytest.raises(ValueError, match="data has the features a, b, c, the coreset was built from a, b, c, d"):
        bc.certify(idata, core, frame[["a", "b", "c"]], y, progressbar=False)
    other = bc.build_coreset(frame[["a"]], y, method="uniform", size=50, random_state=0, progressbar=False)
    with pytest.raises(ValueError, match="certify the posterior of this coreset"):
        bc.certify(idata, other, frame[["a"]], y, progressbar=False)
    with pytest.raises(ValueError, match="data has another design than the coreset"):
        bc.certify(idata, core, bc.full_data(frame, y, progressbar=False), progressbar=False)
    with pytest.raises(ValueError, match=r"data has the labels \(0, 1\)"):
        bc.certify(idata, core, frame, np.where(y == "yes", 1, 0), progressbar=False)
    with pytest.raises(ValueError, match="max_draws=5 must be at least 100"):
        bc.certify(idata, core, frame, y, max_draws=5, progressbar=False)


def test_other_data_than_the_coresets_are_refused(data):
    core, idata = posterior(data, "calibrated", 200)
    X, y = data
    with pytest.raises(bc.validation.DataError, match="total weight 11,900, the coreset stands for 12,000"):
        bc.certify(idata, core, X[:-100], y[:-100], progressbar=False)
    with pytest.raises(bc.validation.DataError, match="total weight 24,000"):
        bc.certify(idata, core, X, y, weights=np.full(N, 2.0), progressbar=False)
    with pytest.raises(bc.validation.DataError, match="total weight"):
        bc.log_evidence(core, X[:-100], y[:-100], random_state=0, progressbar=False)
    with pytest.raises(ValueError, match="y is given, but data is a Coreset"):
        bc.certify(idata, core, full_of(data), y, progressbar=False)
    with pytest.raises(TypeError, match="core is a DataFrame"):
        bc.certify(idata, X, X, y, progressbar=False)


def test_chains_that_disagree_certify_nothing(data):
    core, idata = posterior(data, "calibrated", 200)
    stuck = idata.copy()
    del stuck["sample_stats"]
    first = stuck.posterior["beta"].isel(draw=[0])
    stuck.posterior["beta"] = first.isel(draw=np.zeros(idata.posterior.sizes["draw"], int)).assign_coords(
        draw=idata.posterior["draw"]
    )
    cert = bc.certify(stuck, core, full_of(data), progressbar=False)
    assert cert.level == "not certified"
    assert "chains" in cert.text
