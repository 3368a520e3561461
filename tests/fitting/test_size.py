"""Fits of negative binomial counts whose size is a parameter: beside the density of all rows, through verbs, refused.

The truth is the posterior of coefficients and log size by weighed points. Bars of means are four standard errors of
4,000 draws, 0.016 sd each, and of the truth: of eight figures one is beyond by chance once in some thousand runs.
"""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.diagnostics.model_check import check_model
from bayescore.fitting import size
from bayescore.validation import DataError
from tests.number_as_parameter import drawn, gaps, weighed_moments

QUIET = {"random_state": 1, "progressbar": False}
N, SIZE = 400, 1.3
RNG = np.random.default_rng(3)
ROWS = pd.DataFrame({"x": RNG.normal(size=N), "g": RNG.integers(0, 12, N), "hours": RNG.uniform(0.5, 2.0, N)})
ROWS["x"] = (ROWS["x"] - ROWS["x"].mean()) / ROWS["x"].std(ddof=0)
MEAN = np.exp(0.4 + 0.5 * ROWS["x"]) * ROWS["hours"]
ROWS["y"] = RNG.poisson(MEAN * RNG.gamma(SIZE, 1.0 / SIZE, N))
ROWS["twice"] = RNG.integers(1, 4, N)
PRIOR = bc.priors.Normal(0.0, 2.0)


@pytest.fixture(scope="module")
def flat():
    return bc.fit("y ~ x + offset(log(hours))", ROWS, family="negative_binomial", prior=PRIOR, **QUIET)


def log_density(points, y, eta, weights):
    """Return the log density of coefficients and log size at points, shape (S,), eta of shape (n, S)."""
    theta, r = points[:, -1], np.exp(points[:, -1])
    t = np.exp(eta)
    each = special.gammaln(y + r) - special.gammaln(r) + y * (eta - np.log(r + t)) - r * np.log1p(t / r)
    prior = (points[:, :-1] ** 2).sum(axis=1) / 2.0**2 + theta**2 / 2.0**2
    return weights @ each - 0.5 * prior


def truth(y, weights=None, size=SIZE):
    """Return means and sds of coefficients and log size, by points that are sought from a size on."""
    weights = np.ones(N) if weights is None else weights

    def of_points(points):
        eta = points[:, 0] + ROWS["x"].to_numpy()[:, None] * points[:, 1] + np.log(ROWS["hours"].to_numpy())[:, None]
        return log_density(points, y[:, None], eta, weights)

    sds = [0.1, 0.1, 0.2 if size == SIZE else 1.0]
    return weighed_moments(of_points, np.array([0.4, 0.5, math.log(size)]), sds)


def test_coefficients_and_size_are_those_of_all_rows_and_a_wrong_prior_is_seen(flat):
    mean, sd = truth(ROWS["y"].to_numpy(float))
    of_means, of_sds = gaps(drawn(flat, "size"), mean, sd)
    assert flat.level == "certified"
    assert of_means.max() < 0.08
    assert of_sds.max() < 0.06
    fewer = truth(ROWS["y"].to_numpy(float), np.repeat([0.0, 1.0], [20, N - 20]))[0]
    assert gaps(drawn(flat, "size"), fewer, sd)[0].max() > 0.08


def test_weights_count_rows(flat):
    w = ROWS["twice"].to_numpy(float)
    fit = bc.fit("y ~ x + offset(log(hours))", ROWS, family="negative_binomial", prior=PRIOR, weights="twice", **QUIET)
    mean, sd = truth(ROWS["y"].to_numpy(float), w)
    of_means, of_sds = gaps(drawn(fit, "size"), mean, sd)
    assert of_means.max() < 0.08
    assert of_sds.max() < 0.06
    assert gaps(drawn(flat, "size"), mean, sd)[0].max() > 0.08


def test_answers_have_the_size(flat):
    assert list(flat.summary().index) == ["Intercept", "x", "size"]
    assert flat.prior_summary()["prior"]["size"] == "LogNormal(mu=0, sigma=2)"
    assert "Bayesian negative binomial regression" in str(flat)
    assert flat.coreset.family.startswith("negative_binomial(")
    new = ROWS.head(3)
    counts, mean = flat.predict(new, kind="response", random_state=1), flat.predict(new)["mean"].to_numpy()
    sizes = flat.idata.posterior["size"].values.ravel()
    expected = mean + mean**2 * (1.0 / sizes).mean()
    # the sd of a variance of 4,000 such counts is some 6% of it
    np.testing.assert_allclose(np.asarray(counts).var(axis=0), expected, rtol=0.25)
    assert "size" in flat.prior_predictive(50).prior


def test_loo_averages_over_sizes_as_all_counts_do(flat):
    by_row = float(flat.loo().elpd_loo if hasattr(flat.loo(), "elpd_loo") else flat.loo().elpd)
    known = bc.fit("y ~ x + offset(log(hours))", ROWS, family=flat.coreset.family, prior=PRIOR, **QUIET)
    table = bc.loo_compare({"found": flat, "given": known})["elpd_loo"]
    assert abs(table["found"] - by_row) < 0.05
    assert 0.2 < table["given"] - table["found"] < 3.0  # what one more parameter costs


def test_a_fit_saved_and_read_is_the_same(flat, tmp_path):
    flat.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit", ROWS, progressbar=False)
    assert str(again) == str(flat)
    tight = again.with_prior({"x": bc.priors.Normal(0, 0.01), "Intercept": PRIOR})
    assert abs(tight.summary()["mean"]["x"]) < 0.1
    assert "size" in tight.summary().index


def test_files_give_what_frames_give(flat, tmp_path):
    ROWS.to_parquet(tmp_path / "rows.parquet")
    told = {"family": "negative_binomial", "prior": PRIOR, **QUIET}
    other = bc.fit("y ~ x + offset(log(hours))", tmp_path / "rows.parquet", **told)
    np.testing.assert_allclose(drawn(other, "size"), drawn(flat, "size"), rtol=1e-6)


def test_effects_of_groups_go_with_the_size():
    known = {**QUIET, "random_state": 2}
    fit = bc.fit("y ~ x + (1 | g)", ROWS, family="negative_binomial", **known)
    assert fit.level == "certified"
    assert list(fit.summary().index) == ["Intercept", "x", "sigma_g", "size"]
    given = bc.fit("y ~ x + (1 | g)", ROWS, family=fit.coreset.family, **known).effects("g")
    effects = fit.effects("g")
    assert (np.abs(effects["mean"] - given["mean"]) / given["sd"]).max() < 0.12
    assert np.abs(effects["sd"] / given["sd"] - 1.0).max() < 0.1


def test_a_middle_fit_that_was_sampled_for_longer_keeps_the_size():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = bc.fit("y ~ x", ROWS, family="negative_binomial", draws=200, chains=1, **QUIET)
    assert any(step.what == "sample" and "200 draws" not in step.why for step in fit.story)  # asked for more
    assert list(fit.summary().index) == ["Intercept", "x", "size"]
    assert "size" in fit.idata.posterior


def test_imputed_tables_have_a_size_each():
    fit = bc.fit("y ~ x", [ROWS, ROWS.assign(x=ROWS["x"] + 0.01)], family="negative_binomial", imputed=True, **QUIET)
    summary = fit.summary()
    assert np.isfinite(summary.loc["size", ["mean", "sd"]].to_numpy(float)).all()
    assert fit.idata.posterior.sizes["chain"] == 8


def test_replicated_counts_have_the_sizes_of_the_draws():
    few = bc.fit("y ~ x", ROWS.head(40), family="negative_binomial", **QUIET)
    own = few._posterior()
    sizes = own.variables["size"]
    smooth = replace(own, variables={**own.variables, "size": np.full_like(sizes, 1e6)})  # Poisson's
    wide, narrow = (check_model(each, few.coreset) for each in (own, smooth))
    assert (wide.high - wide.low).mean() > 1.08 * (narrow.high - narrow.low).mean()


def test_sizes_that_no_count_tells_end_at_the_largest():
    rng = np.random.default_rng(5)
    rows = ROWS.assign(y=rng.binomial(4, 0.5, N), w=1e6)  # less spread than Poisson's
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = bc.fit("y ~ x", rows, family="negative_binomial", weights="w", **QUIET)
    assert fit.idata.posterior["size"].values.min() > 1e6


def test_a_search_that_does_not_end_is_not_certified(monkeypatch):
    monkeypatch.setattr(size, "_MOST_FITS", 1)
    monkeypatch.setattr(size, "_FALL_NATS", {False: 9.0, True: 9.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = bc.fit("y ~ x", ROWS, family="negative_binomial", **QUIET)
    assert fit.level == "not certified"
    assert "do not reach where the posterior of the size ends" in fit.certificate.text


def test_a_fit_that_was_interrupted_between_sizes_leaves_that_of_one(monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(size.SizesRoute, "_add_nodes_outwards", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bc.fit("y ~ x", ROWS, family="negative_binomial", **QUIET)
    left = bc.last_fit()
    assert list(left.summary().index) == ["Intercept", "x"]
    assert left.coreset.family.startswith("negative_binomial(")


def test_slopes_in_the_size_are_those_of_the_log_density():
    eta, y = np.array([[-3.0, 0.2, 4.0]]), np.array([0.0, 3.0, 40.0])
    for r in (0.05, 2.0, 300.0):
        for count in y:
            rows = np.array([count]), np.array([1.7])
            found = bc.families.NegativeBinomial(r).size_slopes(eta, *rows)
            ends = [log_density_of(count, eta[0], r * math.exp(step)) for step in (-1e-4, 1e-4)]
            np.testing.assert_allclose(found, 1.7 * (ends[1] - ends[0]) / 2e-4, rtol=2e-5, atol=1e-6)


def log_density_of(count, eta, r):
    t = np.exp(eta)
    return special.gammaln(count + r) - special.gammaln(r) + count * (eta - np.log(r + t)) - r * np.log1p(t / r)


def test_counts_like_poissons_leave_large_sizes_to_the_prior():
    rows = ROWS.assign(y=np.random.default_rng(5).poisson(MEAN))
    fit = bc.fit("y ~ x + offset(log(hours))", rows, family="negative_binomial", prior=PRIOR, **QUIET)
    mean, sd = truth(rows["y"].to_numpy(float), size=20.0)
    of_means, of_sds = gaps(drawn(fit, "size"), mean, sd)
    assert of_means.max() < 0.1
    assert of_sds.max() < 0.08


def test_an_update_by_all_rows_is_the_fit_of_these(flat, tmp_path):
    bc.fit("y ~ x + offset(log(hours))", ROWS[:250], family="negative_binomial", prior=PRIOR, **QUIET).save(tmp_path)
    first = bc.read_fit(tmp_path)
    found = first.update(ROWS[250:], data=ROWS, progressbar=False)
    np.testing.assert_array_equal(drawn(found, "size"), drawn(flat, "size"))
    assert found.coreset.n_observations == N
    assert [step.what for step in found.story] == [step.what for step in (*first.story, *flat.story)]
    assert found.average_predictions()["mean"].iloc[0] > 0.0  # it has its rows
    with pytest.raises(TypeError, match="rows come once"):
        first.update(data=iter([ROWS]))


def test_what_needs_a_size_says_so(flat):
    blocks = iter([(ROWS[["x"]].to_numpy(), ROWS["y"].to_numpy())])
    with pytest.raises(DataError, match="rows that can be read again"):
        bc.fit(blocks, family="negative_binomial", progressbar=False)
    with pytest.raises(DataError, match=r"the size of .* give all rows, fit.update\(data=rows\), .* given, as in"):
        flat.update(ROWS)
    with pytest.raises(DataError, match="size"):
        flat.all_rows_posterior()
    with pytest.raises(DataError, match="rename it"):
        bc.fit("y ~ x + (1 | size)", ROWS.rename(columns={"g": "size"}), family="negative_binomial", **QUIET)
    with pytest.raises(DataError, match="give log"):
        bc.fit("y ~ x", ROWS, family="negative_binomial", exposure="hours", **QUIET)
    with pytest.raises(DataError, match="with_prior"):
        flat.prior_sensitivity([0.01])
    with pytest.raises(ValueError, match="lacks its size"):
        bc.build_coreset(ROWS[["x"]], ROWS["y"], family="negative_binomial", progressbar=False)
    assert "corrected ones already" in bc.certify(flat.idata, flat.coreset, ROWS, progressbar=False).text


def test_the_mean_of_sums_by_regression_is_that_over_all_draws():
    """Sums that vary with a coefficient, at 40 of 4,000 draws: their own mean is off by a sixth of their sd."""
    rng = np.random.default_rng(3)
    every = rng.normal(size=(4000, 2)) * [1.0, 3.0]
    sums = 5.0 + every @ [30.0, 2.0] + 0.1 * rng.normal(size=4000)
    plain = size.Slope.of(sums[:40], 0.0)
    found = size.Slope.by_regression(sums[:40], 0.0, every[:40], every)
    assert found.value == pytest.approx(sums.mean(), abs=0.1)
    assert abs(plain.value - sums.mean()) > 1.0
    assert found.spread == pytest.approx(0.1, rel=0.3)
    assert found.variance == pytest.approx(sums.var(), rel=0.02)
    assert found.se == pytest.approx(math.sqrt(0.01 / 40 + sums.var() / 4000), rel=0.05)
    assert size.Slope.by_regression(sums[:40], -0.5, every[:40], every).value == pytest.approx(found.value - 0.5)


def test_sums_are_regressed_where_the_number_goes_with_the_intercept(monkeypatch):
    rng = np.random.default_rng(1)
    x, time, end = rng.normal(size=3000), rng.weibull(1.5, 3000), 0.25
    rows = pd.DataFrame({"x": x, "t": np.minimum(time, end), "died": time <= end})
    taken = []
    kept = size.SizesRoute._sums
    monkeypatch.setattr(size.SizesRoute, "_sums", lambda *given: [taken.append(given[3]), kept(*given)][1])
    fit = bc.fit("Surv(t, died) ~ x", rows, family="weibull", random_state=1, progressbar=False)
    assert max(taken) == 32  # 300 and more without
    assert fit.level == "certified"
    truth = stats.weibull_min.fit(stats.CensoredData.right_censored(rows["t"], ~rows["died"]), floc=0.0)[0]
    mean, sd = fit.summary().loc["shape", ["mean", "sd"]]
    assert abs(mean - truth) < 0.3 * sd


def test_a_certificate_tells_nothing_of_an_elpd_that_is_of_one_size(monkeypatch):
    monkeypatch.setattr(
        size, "certificate_rank", lambda certificate: certificate.elpd_loo_rows
    )  # that with an elpd is taken
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(size=400), "t": rng.weibull(1.5, 400)})
    fit = bc.fit("Surv(t) ~ x", rows, family="weibull", random_state=1, progressbar=False)
    assert fit.level == "certified"
    assert "elpd" not in str(fit.certificate)
    assert "the draws are off" not in fit.certificate._elpd_text


def test_the_density_between_slopes_is_that_of_a_normal():
    points = np.array([-2.4, 0.3, 2.4])
    density = size.SizeDensity(points, -points)
    theta = np.linspace(-5.0, 5.0, 9)
    np.testing.assert_allclose(density(theta) - density(np.zeros(1)), -0.5 * theta**2, atol=1e-12)
    grid, share = density.grid()
    assert abs(np.interp(0.5, share, grid)) < 1e-3


def test_the_density_between_slopes_has_the_skewness_of_a_log_gamma():
    points = np.array([-2.0, -1.0, 0.0, 1.0, 1.6])
    density = size.SizeDensity(points, 4.0 * (1.0 - np.exp(points)))  # of the log of a gamma variable of shape 4
    grid, share = density.grid()
    quantiles = np.interp([0.025, 0.5, 0.975], share, grid)
    np.testing.assert_allclose(quantiles, np.log(stats.gamma.ppf([0.025, 0.5, 0.975], 4.0) / 4.0), atol=0.02)
