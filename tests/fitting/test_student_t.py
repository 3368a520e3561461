"""Student t noise: its density, fits whose scale, and degrees of freedom, are parameters, and what it refuses.

The truth is the posterior of coefficients, log sigma and log nu by weighed points of all rows. Bars of means are four
standard errors of 4,000 draws, 0.016 sd each, and of the truth, as in `tests/fitting/test_size.py`: a false alarm of
one of these comparisons in some thousand.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.families.family import find_family, register
from bayescore.families.student_t import StudentT
from bayescore.fitting.student_t import noise_mode
from bayescore.priors.groups import HalfStudentT, default_prior
from bayescore.validation import DataError
from tests.number_as_parameter import gaps, weighed_moments

QUIET = {"random_state": 1, "progressbar": False}
N, NU, SIGMA = 400, 3.0, 2.0
RNG = np.random.default_rng(4)
ROWS = pd.DataFrame({"x": RNG.normal(size=N), "twice": RNG.integers(1, 4, N)})
ROWS["x"] = (ROWS["x"] - ROWS["x"].mean()) / ROWS["x"].std(ddof=0)
ROWS["y"] = 50.0 + 3.0 * ROWS["x"] + SIGMA * RNG.standard_t(NU, size=N)


@pytest.fixture(scope="module")
def fit():
    return bc.fit("y ~ x", ROWS, family="student_t", **QUIET)


@pytest.fixture(scope="module")
def given():
    return bc.fit("y ~ x", ROWS, family="student_t(3)", **QUIET)


def drawn(fit):
    """Return draws of two coefficients, log sigma, and log nu where it is a parameter."""
    posterior = fit.idata.posterior
    names = [name for name in ("sigma", "nu") if name in posterior]
    logs = [np.log(posterior[name].values.ravel()) for name in names]
    return np.column_stack([posterior["coef"].values.reshape(-1, 2), *logs])


def truth(weights, nu=None):
    """Return means and sds of these parameters."""
    x, y, w = ROWS["x"].to_numpy(), ROWS["y"].to_numpy(), np.asarray(weights, float)
    mean = np.average(y, weights=w)
    unit = math.sqrt(np.average((y - mean) ** 2, weights=w))
    center = np.average(x, weights=w)
    spread = math.sqrt(np.average((x - center) ** 2, weights=w))

    def log_density(points):
        freedom = np.full(len(points), nu) if nu else np.exp(points[:, 3])
        sigma = np.exp(points[:, 2])
        eta = points[:, 0] + np.outer(x, points[:, 1])
        value = w @ stats.t(freedom).logpdf((y[:, None] - eta) / sigma) - w.sum() * points[:, 2]
        value += stats.norm(mean, 2.5 * unit).logpdf(points[:, 0] + center * points[:, 1])
        value += stats.norm(0.0, 2.5 * unit / spread).logpdf(points[:, 1])
        value += stats.t(3).logpdf(sigma / (2.5 * unit)) + points[:, 2]
        return value if nu else value + stats.gamma(2.0, scale=10.0).logpdf(freedom) + points[:, 3]

    start = [50.0, 3.0, math.log(SIGMA), *([] if nu else [math.log(NU)])]
    return weighed_moments(log_density, np.array(start), np.array([0.15, 0.15, 0.1, 0.25])[: len(start)])


@pytest.mark.parametrize(("nu", "sigma"), [(0.7, 0.01), (4.0, 1.3), (300.0, 1e4)])
def test_the_density_and_its_slopes_are_those_of_scipy(nu, sigma):
    family, eta = StudentT(nu, sigma), sigma * np.linspace(-9.0, 9.0, 19)
    right = stats.t(nu, scale=sigma)
    np.testing.assert_allclose(family.log_p(eta, 1), right.logpdf(eta), rtol=1e-9)
    np.testing.assert_array_equal(family.log_p(eta, 1), family.log_p(eta, -1))
    np.testing.assert_allclose(family.variance(eta), right.var() if nu > 2.0 else np.inf, rtol=1e-12)
    np.testing.assert_allclose(family.excess_kurtosis(eta), right.stats("k") if nu > 4.0 else np.inf, rtol=1e-9)
    w, step = np.linspace(0.5, 2.0, 19), 1e-5
    for slopes, at in (
        (family.size_slopes(eta[:, None], w, w), lambda move: stats.t(nu * math.exp(move), scale=sigma)),
        (family.scale_slopes(eta[:, None], w), lambda move: stats.t(nu, scale=sigma * math.exp(move))),
    ):
        wanted = w @ (at(step).logpdf(eta) - at(-step).logpdf(eta)) / (2.0 * step)
        assert slopes[0] == pytest.approx(wanted, rel=1e-5, abs=1e-4)
    y = family.draw(np.zeros(40_000), np.random.default_rng(1))
    assert stats.kstest(y, right.cdf).pvalue > 1e-4
    assert stats.kstest(1.1 * y, right.cdf).pvalue < 1e-4


def test_draws_of_numbers_go_with_their_own_predictors():
    both = np.array([(2.0, 1.0), (9.0, 5.0)], dtype=[("nu", float), ("sigma", float)])
    found = StudentT(4.0, 1.0).at(both).log_p(np.array([[0.5, 0.7]]), 1)
    np.testing.assert_allclose(found, [[stats.t(2).logpdf(0.5), stats.t(9, scale=5).logpdf(0.7)]])
    np.testing.assert_allclose(
        StudentT(4.0).at(np.array([2.0, 3.0])).log_p(0.5, 1), stats.t(4, scale=[2, 3]).logpdf(0.5)
    )


def test_noise_that_is_no_density_is_refused():
    class Wrong(StudentT):
        kind = "wrong"

        def log_p(self, eta, side):
            return super().log_p(eta, side) + 0.01

    with pytest.raises(ValueError, match=r"has the integral 1\.01005, not 1"):
        register(Wrong(3.0, 1.0))


def test_all_numbers_are_those_of_all_rows_and_other_rows_are_seen(fit, given):
    for found, nu in ((fit, None), (given, 3.0)):
        mean, sd = truth(np.ones(N), nu)
        of_means, of_sds = gaps(drawn(found), mean, sd)
        assert found.level == "certified"
        assert of_means.max() < 0.08
        assert of_sds.max() < 0.06
        fewer = truth(np.repeat([0.0, 1.0], [20, N - 20]), nu)[0]
        assert gaps(drawn(found), fewer, sd)[0].max() > 0.08


def test_weights_count_rows(given):
    found = bc.fit("y ~ x", ROWS, family="student_t(3)", weights="twice", **QUIET)
    mean, sd = truth(ROWS["twice"], 3.0)
    of_means, of_sds = gaps(drawn(found), mean, sd)
    assert of_means.max() < 0.08
    assert of_sds.max() < 0.06
    assert gaps(drawn(given), mean, sd)[0].max() > 0.08


def test_the_mode_of_noise_is_that_of_the_log_density():
    rows = bc.all_rows(ROWS, formula="y ~ x", family=StudentT(4.0, 1.0), progressbar=False)
    found = noise_mode(rows, N, HalfStudentT(3.0, 2.5 * ROWS["y"].std(ddof=0)), None)
    mean, sd = truth(np.ones(N))
    assert abs(found.log_sigma - mean[2]) < 0.5 * sd[2]
    assert abs(found.log_nu - mean[3]) < 0.5 * sd[3]
    assert found.sd_nu == pytest.approx(sd[3], rel=0.3)
    assert found.sd_sigma < sd[2]  # given nu


def test_one_outlier_moves_normal_coefficients_and_not_these(given):
    rows = ROWS.copy()
    rows.loc[0, "y"] = 1e6
    far = bc.fit("y ~ x", rows, family="student_t(3)", **QUIET)
    shift = (far.summary()["mean"] - given.summary()["mean"]) / given.summary()["sd"]
    assert far.level == "certified"
    assert shift.abs().max() < 0.3
    normal = bc.fit("y ~ x", rows, family="normal", **QUIET)
    assert abs(normal.summary()["mean"]["Intercept"] - 50.0) > 1000.0


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_of_the_response_change_units_alone(given, unit):
    found = bc.fit("y ~ x", ROWS.assign(y=unit * ROWS["y"]), family="student_t(3)", **QUIET)
    np.testing.assert_allclose(found.summary()["mean"] / unit, given.summary()["mean"], rtol=2e-3)
    np.testing.assert_allclose(found.summary()["sd"] / unit, given.summary()["sd"], rtol=0.05)


def test_many_rows_become_few_and_cost_little_more():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30_000, 3))
    rows = pd.DataFrame(X, columns=list("abc")).assign(y=X @ [1.0, 2.0, 0.0] + 0.5 * rng.standard_t(5, 30_000))
    found = bc.fit("y ~ a + b + c", rows, family="student_t(5)", **QUIET)
    assert found.level == "certified"
    assert len(found.coreset) < 500
    assert found.coreset.design.response == pytest.approx((rows["y"].mean(), rows["y"].std(ddof=0)), rel=1e-9)
    prior = default_prior(found.coreset)
    assert prior.sigma[0] == pytest.approx(2.5 * rows["y"].std(ddof=0), rel=1e-6)
    gap = (found.summary()["mean"][["a", "b", "c"]] - [1.0, 2.0, 0.0]) / found.summary()["sd"][["a", "b", "c"]]
    assert gap.abs().max() < 4.5
    assert found.idata.posterior["sigma"].values.std() == pytest.approx(0.5 * math.sqrt(8.0 / 10.0 / 30_000), rel=0.1)


def test_answers_have_both_numbers(fit, given, tmp_path):
    assert list(fit.summary().index) == ["Intercept", "x", "nu", "sigma"]
    assert list(given.summary().index) == ["Intercept", "x", "sigma"]
    priors = fit.prior_summary()["prior"]
    assert priors["nu"] == "Gamma(alpha=2, beta=0.1)"
    assert priors["sigma"].startswith("HalfStudentT(nu=3, sigma=")
    text = str(fit)
    assert "Bayesian Student t regression" in text
    assert "Noise (Student t of scale sigma, nu degrees of freedom)" in text
    new = ROWS.head(3)
    y, mean = np.asarray(fit.predict(new, kind="response", random_state=1)), fit.predict(new)["mean"].to_numpy()
    numbers = fit.idata.posterior["nu"].values.ravel(), fit.idata.posterior["sigma"].values.ravel()
    wanted = np.mean([stats.t(nu, scale=sigma).ppf(0.9) for nu, sigma in zip(*numbers, strict=True)])
    np.testing.assert_allclose(np.quantile(y - mean, 0.9, axis=0), wanted, rtol=0.15)
    prior = fit.prior_predictive(2000)
    assert {"nu", "sigma"} <= set(prior.prior)
    assert prior.prior["nu"].values.mean() == pytest.approx(20.0, rel=0.15)
    fit.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit")
    pd.testing.assert_frame_equal(again.summary(), fit.summary())
    assert again._family_asked == "student_t"
    assert given._family_asked == "student_t(3)"
    fit.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert all(text in page for text in ("Bayesian Student t regression", ">nu<", ">sigma<"))


def test_left_out_rows_favour_the_family_of_the_noise(fit, given):
    normal = bc.fit("y ~ x", ROWS, family="normal", **QUIET)
    table = bc.loo_compare({"t": fit, "three": given, "normal": normal}, progressbar=False)["elpd_loo"]
    mean, sigma = given.predict(ROWS)["mean"], float(given.summary()["mean"]["sigma"])
    at_means = stats.t(3, loc=mean, scale=sigma).logpdf(ROWS["y"]).sum()
    assert abs(table["three"] - (at_means - 3.0)) < 1.0  # three parameters
    assert table["three"] - table["normal"] > 20.0
    assert abs(table["t"] - table["three"]) < 3.0


def test_a_given_pair_is_a_plain_fit_and_the_graph_of_pymc_has_its_density():
    found = bc.fit("y ~ x", ROWS, family="student_t(3, 2)", **QUIET)
    assert list(found.summary().index) == ["Intercept", "x"]
    core = bc.all_rows(ROWS, formula="y ~ x", family="student_t(3, 2)", progressbar=False)
    mode, model = bc.find_map(core), bc.model(core)
    beta = mode.beta + 0.1
    y, eta = ROWS["y"].to_numpy(), beta[0] + beta[1] * ROWS["x"].to_numpy()
    prior = default_prior(core).log_density(beta)
    wanted = stats.t(3, loc=eta, scale=2).logpdf(y).sum() + float(prior)
    with model:
        assert float(model.compile_logp()({"beta": beta})) == pytest.approx(wanted, rel=1e-9)


def test_update_by_all_rows_and_another_prior_are_fits_anew(given):
    tight = given.with_prior({"x": bc.priors.Normal(0.0, 0.05)})
    assert tight.summary()["mean"]["x"] < 0.5 * given.summary()["mean"]["x"]
    assert tight._family_asked == "student_t(3)"
    with pytest.raises(DataError, match=r"the sigma of family='student_t\(3\)' is a parameter"):
        given.update(ROWS.head(20), progressbar=False)


@pytest.mark.parametrize("family", ["student_t", "student_t(4)", "student_t(4, 1)"])
def test_groups_are_refused(family):
    rows = ROWS.assign(g=np.arange(N) % 20)
    for call in (
        lambda: bc.fit("y ~ x + (1 | g)", rows, family=family, **QUIET),
        lambda: bc.fit(rows[["x"]], rows["y"], groups=rows["g"], family=family, **QUIET),
    ):
        with pytest.raises(DataError, match="goes without them so far"):
            call()


def test_names_are_read_and_wrong_ones_answered():
    assert find_family("student_t(nu=4, sigma=2)") == StudentT(4.0, 2.0)
    assert find_family("student_t(4)").missing == "sigma"
    for name, message in (
        ("student_t(a)", r"must be written as 'student_t\(4, 1.3\)', with its nu and sigma as numbers"),
        ("student_t(1, 2, 3)", "must be written as"),
        ("student_t()", "lacks its nu and sigma"),
        ("student_t(0)", "nu=0 must be positive"),
        ("student_t(3, -1)", "sigma=-1 must be positive"),
        ("student_t(1e9)", "must be below"),
    ):
        with pytest.raises(ValueError, match=message):
            find_family(name)
    with pytest.raises(ValueError, match=r"sigma=2\.0 is given without nu"):
        StudentT(sigma=2.0)
    with pytest.raises(ValueError, match="lacks its nu and sigma"):
        bc.build_coreset(ROWS, formula="y ~ x", family="student_t", progressbar=False)
    with pytest.raises(DataError, match="every response is 3"):
        bc.fit("y ~ x", ROWS.assign(y=3.0), family="student_t", **QUIET)


def test_too_few_rows_and_a_perfect_fit_are_refused():
    with pytest.raises(DataError, match=r"data has 5 rows, and 2 columns .* need 6: give both numbers"):
        bc.fit("y ~ x", ROWS.head(5), family="student_t", **QUIET)
    assert bc.fit("y ~ x", ROWS.head(12), family="student_t", **QUIET).level == "certified"
    with pytest.raises(DataError, match=r"sigma of family='student_t' goes to 0, as 100% of 400 responses"):
        bc.fit("y ~ x", ROWS.assign(y=2.0 * ROWS["x"] + 1.0), family="student_t(4)", **QUIET)


def test_two_clusters_are_one_mode_or_refused():
    """Half of the rows 100 sd away: given nu climbs from the line between both end at lines that fit neither."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + rng.normal(size=200) + np.repeat([100.0, 0.0], [90, 110])
    found = bc.fit("y ~ x", pd.DataFrame({"x": x, "y": y}), family="student_t(0.3)", **QUIET)
    assert found.level == "certified"
    assert abs(found.summary()["mean"]["x"] - 1.0) < 0.5
    assert abs(found.summary()["mean"]["Intercept"]) < 0.5
    y = x + rng.normal(size=200) + np.repeat([100.0, 0.0], 100)
    twice = pd.DataFrame({"x": np.tile(x, 2), "y": np.concatenate([y, 100.0 - y + 2.0 * x])})
    with pytest.raises(DataError, match="The posterior has several modes"):
        bc.fit("y ~ x", twice, family="student_t(0.3)", **QUIET)


def test_special_functions_agree_where_nu_is_large():
    family = StudentT(9e6, 1.0)
    assert family.log_p(0.3, 1) == pytest.approx(stats.norm.logpdf(0.3), abs=1e-6)
    assert special.gammaln(4.5e6) > 1e7  # of which differences are taken
