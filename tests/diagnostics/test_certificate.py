import numpy as np
import pandas as pd
import pytest
from scipy import special

import bayescore as bc
from bayescore import compat
from bayescore.models.posterior import log_likelihoods
from tests.hand_made import log_likelihood

N, D = 12_000, 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D - 1)) * [1, 5, 1, 1]
    p = 1 / (1 + np.exp(1.5 - X @ np.array([1.0, -0.2, 0.3, 0.0])))
    return pd.DataFrame(X, columns=list("abcd")), np.where(rng.random(N) < p, "yes", "no")


def posterior(data, method, size, family="logistic", seed=0):
    core = bc.build_coreset(
        *data,
        method=method,
        size=size,
        family=family,
        intercept=True,
        standardize=True,
        random_state=seed,
        progressbar=False,
    )
    return core, bc.sample(core, sampler="mala", random_seed=1, progressbar=False)


def full_of(data, family="logistic"):
    return bc.all_rows(*data, family=family, intercept=True, standardize=True, progressbar=False)


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_a_calibrated_coreset_is_certified(data, family, tmp_path):
    core, idata = posterior(data, "calibrated", 200, family)
    cert = bc.certify(idata, core, *data, progressbar=False)
    assert cert.level == "certified"
    assert cert.pareto_k < 0.7
    assert cert.epsilon < 0.01
    assert cert.n_draws == 500
    assert cert.ess > 300
    assert list(cert.coordinates.index) == ["Intercept", *"abcd"]
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
    correlation = truth.covariance / np.outer(truth.sd, truth.sd)
    np.testing.assert_allclose(np.corrcoef(better.T), correlation, atol=0.1)
    middle = (np.quantile(better, [0.025, 0.975], axis=0) - truth.beta) / truth.sd
    np.testing.assert_allclose(middle, np.array([[-1.96], [1.96]]) + np.zeros(D), atol=0.25)
    assert cert.n_draws in (500, 4000)


def test_a_subsample_whose_prior_is_not_known_cannot_be_moved_and_is_not_certified(data):
    core, idata = posterior(data, "uniform", 300)
    del idata.posterior.attrs["posterior_of"]
    cert = bc.certify(idata, core, *data, progressbar=False)
    assert cert.level == "not certified"
    assert "method='calibrated'" in cert.text
    assert cert.idata is None
    assert np.isnan(cert.elpd_loo)


@pytest.mark.filterwarnings("ignore:the labels are completely separated")
def test_a_coordinate_without_moments_is_judged_by_median_and_quartiles():
    """Separated data under a Cauchy prior: the posterior's tail is the prior's, its mean infinite.

    The draws are exact, by the inverse distribution function on a grid of logarithms. Control: a Normal prior.
    """
    X = np.linspace(0.5, 1.5, 600)[:, None] * np.tile([1.0, -1.0], 300)[:, None]
    full = bc.all_rows(X, X[:, 0] > 0, progressbar=False)
    core = bc.build_coreset(full, method="uniform", size=300, random_state=0, progressbar=False)
    grid = np.exp(np.linspace(0.0, 16.0, 400_001))
    log_p = -np.array([core.weights @ np.logaddexp(0.0, -core.Z[:, 0] * b) for b in grid[::200]])
    log_p = np.interp(np.log(grid), np.log(grid[::200]), log_p) - np.log1p((grid / 2.5) ** 2) + np.log(grid)
    share = np.cumsum(np.exp(log_p - log_p.max()))
    idata = bc.sample(core, prior=bc.priors.Cauchy(0, 2.5), sampler="mala", draws=5, random_seed=0, progressbar=False)
    u = np.random.default_rng(0).random((4, 1000, 1))
    exact = compat.inference_data(
        {"posterior": {"beta": np.interp(u, share / share[-1], grid)}},
        coords={"feature": list(idata.posterior["feature"].values)},
        dims={"beta": ["feature"]},
    )
    exact.posterior.attrs.update(idata.posterior.attrs)
    cert = bc.certify(exact, core, full, progressbar=False)
    assert "an sd does not exist, above 1 nor does a mean" in cert.text
    assert "Median and quartiles were judged" in cert.text
    row = cert.coordinates.iloc[0]
    assert row["tail_k"] > 0.7
    assert np.isnan(row["mean_error_sd"])
    assert np.isnan(row["mean"])
    assert row["median"] == np.median(exact.posterior["beta"])
    assert "quantile of" in cert.text
    assert "the mean of" not in cert.text
    normal = bc.certify(
        bc.sample(core, prior=bc.priors.Normal(0, 4), sampler="mala", random_seed=0, progressbar=False), core, full,
        progressbar=False,
    )  # fmt: skip
    assert normal.coordinates["tail_k"].isna().all()
    assert "Median" not in normal.text


@pytest.mark.essential("that predicted errors of a flat model are the true ones")
def test_the_predicted_error_is_the_true_one_and_the_correction_repairs_it(data):
    """A coreset that lacks 1% of the rows: off by a fraction of an sd, which the correction must find."""
    core, idata = posterior(data, "uniform", int(0.99 * N))
    cert = bc.certify(idata, core, *data, max_draws=2000, progressbar=False)
    truth, own = bc.find_map(full_of(data)), bc.find_map(core)
    error = (own.beta - truth.beta) / truth.sd
    table = cert.coordinates
    assert np.abs(error).max() > 0.05
    assert (np.abs(table["mean_error_sd"] - error) < 4 * table["mean_error_sd_mcse"] + 0.05).all()
    assert np.abs((core.design.scales * table["corrected_sd"] / truth.sd)[1:] - 1).max() < 0.15
    assert (
        (table["corrected_2.5%"] < table["corrected_mean"]) & (table["corrected_mean"] < table["corrected_97.5%"])
    ).all()
    exact = full_of(data)
    drawn = bc.sample(exact, sampler="mala", draws=200, random_seed=3, progressbar=False)
    same = bc.certify(drawn, exact, *data, progressbar=False)
    assert same.level == "certified"
    assert same.log_ratio_sd < 1e-6


def test_log_likelihoods_are_the_weighted_sums(data):
    core, idata = posterior(data, "uniform", 300)
    draws = idata.posterior["beta"].values.reshape(-1, D)[:7]
    pointwise = log_likelihood(idata, core).values.reshape(-1, 300)[:7]
    from bayescore.families.family import FAMILIES

    np.testing.assert_allclose(log_likelihoods(draws, core, FAMILIES["logistic"]), pointwise @ core.weights, rtol=1e-10)


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
        bc.certify(idata, core, bc.all_rows(frame, y, progressbar=False), progressbar=False)
    with pytest.raises(ValueError, match="column 'y' has the label 0, and the coreset was built with 'no' and 'yes'"):
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
    with pytest.raises(TypeError, match=f"core is an? {type(idata).__name__}; give the coreset") as found:
        bc.certify(core, idata, X, y, progressbar=False)
    assert "a Inf" not in str(found.value)


def test_divergences_certify_nothing(data):
    core, idata = posterior(data, "calibrated", 200)
    bad = idata.copy()
    stats = bad["sample_stats"].to_dataset() if hasattr(bad["sample_stats"], "to_dataset") else bad["sample_stats"]
    diverging = np.zeros(idata.posterior["beta"].shape[:2], bool)
    diverging[:, ::10] = True
    bad["sample_stats"] = stats.assign(diverging=(("chain", "draw"), diverging))
    cert = bc.certify(bad, core, full_of(data), progressbar=False)
    assert cert.level == "not certified"
    assert "400 transitions diverged" in cert.text


def test_a_page_is_written_of_draws_that_nothing_was_found_of(data, tmp_path):
    core, idata = posterior(data, "calibrated", 200)
    few = idata.isel(draw=slice(0, 20))
    cert = bc.certify(few, core, full_of(data), progressbar=False)
    assert cert.n_passes == 0
    cert.to_html(tmp_path / "few.html", few, core)
    assert "Too few draws" in (tmp_path / "few.html").read_text(encoding="utf-8")


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


def test_epsilon_of_pseudo_rows_is_none():
    """Their log-likelihood is that of the rows only up to a constant."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = np.where(rng.random(2000) < special.expit(X[:, 0]), 1, 0)
    core = bc.build_coreset(X, y, method="condensed", random_state=0, progressbar=False)
    idata = bc.sample(core, random_seed=1, progressbar=False)
    found = bc.certify(idata, core, X, y, progressbar=False)
    assert found.n_passes > 0
    assert np.isnan(found.epsilon)
