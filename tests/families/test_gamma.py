"""The gamma likelihood: its density, pseudo-rows of Poisson's form, fits of a given and of an unknown shape, refusals.

The truth of an unknown shape is the posterior of coefficients and log shape by weighed points. Bars of means are four
standard errors of 4,000 draws, 0.016 sd each, and of the truth, as in `tests/fitting/test_size.py`.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.coresets.condensed import Condensed
from bayescore.diagnostics.model_check import check_model
from bayescore.families.family import check_family, register
from bayescore.families.gamma import Gamma
from bayescore.models.groups.joint_mode import joint_mode
from bayescore.models.groups.rows import JointRows
from bayescore.models.posterior import log_likelihoods
from bayescore.priors.groups import default_prior
from bayescore.validation import DataError
from tests.number_as_parameter import drawn, gaps, weighed_moments

QUIET = {"random_state": 1, "progressbar": False}
N, SHAPE = 400, 2.2
RNG = np.random.default_rng(8)
ROWS = pd.DataFrame({"x": RNG.normal(size=N), "g": RNG.integers(0, 12, N), "hours": RNG.uniform(0.5, 2.0, N)})
ROWS["x"] = (ROWS["x"] - ROWS["x"].mean()) / ROWS["x"].std(ddof=0)
EFFECTS = 0.4 * RNG.normal(size=12)
ROWS["y"] = np.exp(1.4 + 0.5 * ROWS["x"]) * ROWS["hours"] * RNG.gamma(SHAPE, 1.0 / SHAPE, N)
ROWS["grouped"] = ROWS["y"] * np.exp(EFFECTS[ROWS["g"]])
ROWS["twice"] = RNG.integers(1, 4, N)
FORMULA, PRIOR = "y ~ x + offset(log(hours))", bc.priors.Normal(0.0, 2.0)


@pytest.fixture(scope="module")
def flat():
    return bc.fit(FORMULA, ROWS, family="gamma", prior=PRIOR, **QUIET)


@pytest.mark.parametrize("shape", [0.05, 1.0, 2.5, 3e4])
def test_both_sides_and_the_constant_are_the_density_and_sums_have_theirs(shape):
    family, eta = Gamma(shape), np.linspace(-6.0, 5.0, 23)
    y = np.exp(eta) * np.geomspace(0.3, 2.0, 23)

    def log_p(y, times):
        return y * family.log_p(eta, 1) + times * family.log_p(eta, -1) + family.log_constant(y, np.full(23, times))

    for times in (1.0, 3.0):
        right = stats.gamma(times * shape, scale=np.exp(eta) / shape)
        np.testing.assert_allclose(log_p(y, times), right.logpdf(y), rtol=1e-9, atol=1e-7 * shape)
        assert not np.allclose(log_p(y, times), stats.gamma(1.2 * shape, scale=np.exp(eta) / shape).logpdf(y))
    drawn = family.draw(np.full(20_000, 0.7), np.random.default_rng(1), 3.0)
    assert drawn.mean() == pytest.approx(3.0 * math.exp(0.7), abs=5.0 * drawn.std() / math.sqrt(20_000))
    assert (Gamma(1e-3).draw(np.zeros(1000), np.random.default_rng(1)) > 0.0).all()


def test_a_constant_that_is_no_density_s_is_refused():
    class Wrong(Gamma):
        kind = "wrong"

        def log_constant(self, events, exposure):
            return super().log_constant(events, exposure) + 0.01

    with pytest.raises(ValueError, match="the sum of the probabilities of all positive numbers, by log_constant, is"):
        register(Wrong(2.0))


def test_slopes_in_the_shape_are_those_of_the_log_density():
    eta, y = np.array([[-3.0, 0.2, 4.0]]), np.array([0.01, 3.0, 40.0])
    for a in (0.05, 2.0, 3000.0):
        for one in y:
            found = Gamma(a).size_slopes(eta, np.array([one]), np.array([1.7]))
            ends = [
                stats.gamma(a * math.exp(s), scale=np.exp(eta[0]) / (a * math.exp(s))).logpdf(one)
                for s in (-1e-4, 1e-4)
            ]
            np.testing.assert_allclose(found, 1.7 * (ends[1] - ends[0]) / 2e-4, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [0.03, 1.0, 400.0])
def test_the_most_likely_shape_is_scipys(shape):
    y = np.random.default_rng(2).gamma(shape, 3.0 / shape, 500)
    y = np.maximum(y, 1e-300)
    found = Gamma().most_likely(y, np.full(500, y.mean()))
    assert found == pytest.approx(stats.gamma.fit(y, floc=0.0)[0], rel=1e-6)
    assert Gamma().most_likely(np.ones(5), np.ones(5)) is None


def test_pseudo_rows_are_those_of_poisson_rows_with_the_numbers_as_exposures():
    X = np.column_stack([np.ones(N), ROWS["x"]])
    method = Condensed(prior=bc.priors.Normal(0.0, 3.0))
    own = bc.build_coreset(X, ROWS["y"], family="gamma(1)", method=method, **QUIET)
    events = np.ones(N)
    mirrored = bc.build_coreset(-X, events, exposure=ROWS["y"], family="poisson", method=method, **QUIET)
    assert len(own) == len(mirrored) == 4
    beta = np.array([1.4, 0.5]) + 0.05 * np.random.default_rng(1).normal(size=(9, 2))
    ours, theirs = (log_likelihoods(beta, rows, check_family(rows.family)) for rows in (own, mirrored))
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-8)
    steep = bc.build_coreset(X, ROWS["y"], family="gamma(3)", method=method, **QUIET)
    whole = bc.all_rows(X, ROWS["y"], family="gamma(3)", progressbar=False)
    near = beta[0] + 0.02 * np.random.default_rng(2).normal(size=(9, 2))
    three, two = Gamma(3.0), Gamma(2.0)
    ours, every, other = (log_likelihoods(near, *of) for of in ((steep, three), (whole, three), (whole, two)))
    np.testing.assert_allclose(ours - ours[0], every - every[0], atol=0.2)
    assert np.abs(other - other[0] - every + every[0]).max() > 0.5


def test_rows_that_share_their_columns_become_one():
    rows = pd.DataFrame({"k": np.arange(N) % 3 == 0, "y": ROWS["y"]})
    core = bc.build_coreset(rows, formula="y ~ k", family="gamma(2)", **QUIET)
    assert core.lossless
    assert list(core.to_counts().columns[-2:]) == ["amount", "observation"]
    assert len(core) == 4  # two of numbers and two of their sums
    fit = bc.fit("y ~ k", rows, family="gamma(2)", **QUIET)
    means = rows.groupby("k")["y"].mean()
    np.testing.assert_allclose(fit.predict(pd.DataFrame({"k": [False, True]}))["mean"], means, rtol=0.02)


def truth(y, weights):
    """Return means and sds of coefficients and log shape."""

    def log_density(points):
        theta, a = points[:, -1], np.exp(points[:, -1])
        eta = points[:, 0] + ROWS["x"].to_numpy()[:, None] * points[:, 1] + np.log(ROWS["hours"].to_numpy())[:, None]
        each = a * (theta - eta) - special.gammaln(a) + (a - 1.0) * np.log(y[:, None]) - a * y[:, None] * np.exp(-eta)
        prior = (points[:, :-1] ** 2).sum(axis=1) / 2.0**2 + theta**2 / 2.0**2
        return weights @ each - 0.5 * prior

    return weighed_moments(log_density, np.array([1.4, 0.5, math.log(SHAPE)]), [0.1, 0.1, 0.2])


def test_coefficients_and_shape_are_those_of_all_rows_and_fewer_rows_are_seen(flat):
    y = ROWS["y"].to_numpy()
    mean, sd = truth(y, np.ones(N))
    of_means, of_sds = gaps(drawn(flat, "shape"), mean, sd)
    assert flat.level == "certified"
    assert of_means.max() < 0.08
    assert of_sds.max() < 0.06
    fewer = truth(y, np.repeat([0.0, 1.0], [20, N - 20]))[0]
    assert gaps(drawn(flat, "shape"), fewer, sd)[0].max() > 0.08


def test_weights_count_rows(flat):
    fit = bc.fit(FORMULA, ROWS, family="gamma", prior=PRIOR, weights="twice", **QUIET)
    mean, sd = truth(ROWS["y"].to_numpy(), ROWS["twice"].to_numpy(float))
    of_means, of_sds = gaps(drawn(fit, "shape"), mean, sd)
    assert of_means.max() < 0.08
    assert of_sds.max() < 0.06
    assert gaps(drawn(flat, "shape"), mean, sd)[0].max() > 0.08


def test_answers_have_the_shape(flat):
    assert list(flat.summary().index) == ["Intercept", "x", "shape"]
    assert flat.prior_summary()["prior"]["shape"] == "LogNormal(mu=0, sigma=2)"
    text = str(flat)
    assert "Bayesian gamma regression" in text
    assert "Shape (standard deviation = mean / sqrt(shape))" in text
    assert f"400 observations (mean of y: {ROWS['y'].mean():.3g})" in text
    new = ROWS.head(3)
    numbers, mean = np.asarray(flat.predict(new, kind="response", random_state=1)), flat.predict(new)["mean"]
    assert numbers.dtype == np.float64
    shapes = flat.idata.posterior["shape"].values.ravel()
    np.testing.assert_allclose(numbers.var(axis=0), mean.to_numpy() ** 2 * (1.0 / shapes).mean(), rtol=0.25)
    prior = flat.prior_predictive(50)
    assert "shape" in prior.prior
    assert prior.prior_predictive["y"].dtype == np.float64
    replicated = flat.inference_data(ROWS.head(20)).posterior_predictive["y"]
    assert (replicated.values % 1.0 > 0.0).any()


def test_the_posterior_density_left_out_is_that_of_the_numbers_and_a_wrong_shape_predicts_worse(flat):
    near = bc.fit(FORMULA, ROWS, family=flat.coreset.family, prior=PRIOR, **QUIET)
    far = bc.fit(FORMULA, ROWS, family="gamma(9)", prior=PRIOR, **QUIET)
    table = bc.loo_compare({"found": flat, "near": near, "far": far}, progressbar=False)["elpd_loo"]
    mean = near.predict(ROWS)["mean"] * ROWS["hours"] if "hours" not in near.coreset.design.raw_names else None
    eta = np.log(near.predict(ROWS)["mean"].to_numpy())
    at_means = stats.gamma(near._posterior().family.size, scale=np.exp(eta) / near._posterior().family.size)
    assert mean is not None
    assert abs(table["near"] - (at_means.logpdf(ROWS["y"]).sum() - 2.0)) < 1.0  # two coefficients
    assert abs(near.certificate.elpd_loo - table["near"]) < 0.2
    assert 0.0 < table["near"] - table["found"] < 3.0  # what one more parameter costs
    assert table["near"] - table["far"] > 50.0


def test_a_shape_that_is_too_large_or_too_small_is_named():
    for shape, what in ((9.0, "numbers are overdispersed"), (0.5, "numbers are underdispersed")):
        fit = bc.fit(FORMULA, ROWS, family=Gamma(shape), **QUIET)
        assert what in str(fit)
        assert "give family='gamma', of a shape near 2." in " ".join(str(fit).split())
    assert "numbers are as spread as the family says" in " ".join(str(bc.fit(FORMULA, ROWS, family="gamma")).split())


def test_the_check_of_the_model_is_of_numbers_even_if_they_are_whole():
    rows = ROWS.assign(y=np.ceil(10.0 * ROWS["y"]))
    fit = bc.fit("y ~ x", rows, family="gamma", **QUIET)
    core = bc.all_rows(rows, family="gamma(2)", design=fit.coreset.design, progressbar=False)
    found = check_model(fit._posterior(), core)
    assert found.frequencies is None
    assert found.replicated is not None
    assert not found.counts
    assert found.outside <= 4
    assert check_model(fit._posterior(), core.with_weights(core.weights * np.where(core.y > 0, 1.3, 1.0))).outside > 4
    assert fit.plot_check()[0].get_ylabel() == "mean of the responses"


def test_a_fit_saved_and_read_is_the_same_under_another_prior_too(flat, tmp_path):
    flat.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit", ROWS, progressbar=False)
    assert str(again) == str(flat)
    tight = again.with_prior({"x": bc.priors.Normal(0, 0.01), "Intercept": PRIOR})
    assert abs(tight.summary()["mean"]["x"]) < 0.2
    assert "shape" in tight.summary().index
    flat.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The shape is that of standard deviation = mean / sqrt(shape)." in page
    assert "positive numbers, mean" in page


def test_files_give_what_frames_give(flat, tmp_path):
    ROWS.to_parquet(tmp_path / "rows.parquet")
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    for name in ("rows.parquet", "rows.csv"):
        other = bc.fit(FORMULA, tmp_path / name, family="gamma", prior=PRIOR, **QUIET)
        np.testing.assert_allclose(drawn(other, "shape"), drawn(flat, "shape"), rtol=1e-6)


def test_effects_of_groups_go_with_the_shape():
    fit = bc.fit("grouped ~ x + (1 | g) + offset(log(hours))", ROWS, family="gamma", **QUIET)
    assert fit.level == "certified"
    assert list(fit.summary().index) == ["Intercept", "x", "sigma_g", "shape"]
    effects = fit.effects("g")
    assert np.corrcoef(effects["mean"], EFFECTS)[0, 1] > 0.9
    mean, sd = fit.summary().loc["shape", ["mean", "sd"]]
    assert abs(mean - SHAPE) < 3.0 * sd


def test_the_unit_of_the_numbers_moves_the_intercept_alone():
    """From coefficients of 0 the joint mode of crossed groups was not reached where units were small."""
    rows = ROWS.assign(h=np.arange(N) % 7)
    modes = []
    for unit in (1.0, 1e-6, 1e6):
        core = bc.all_rows(
            rows.assign(y=unit * rows["grouped"]),
            formula="y ~ x + (1 | g) + (1 | h)",
            family="gamma(2)",
            progressbar=False,
        )
        if unit < 1.0:  # rows weigh as much as their numbers
            prior = default_prior(core)
        wide = bc.priors.Normal(0.0, 1000.0)
        mode = joint_mode(JointRows.of(core), Gamma(2.0), wide, bc.priors.HalfStudentT(3.0, 2.5))
        sds = [math.sqrt(float(each[0, 0])) for each in mode.covariances]
        modes.append([mode.beta[0] - math.log(unit), mode.beta[1], *sds])
    np.testing.assert_allclose(modes[1:], [modes[0], modes[0]], atol=1e-3)
    counts = bc.all_rows(rows.assign(y=1), formula="y ~ x + (1 | g) + (1 | h)", family="poisson", progressbar=False)
    assert prior.sigma[0] == pytest.approx(10.0, rel=1e-6)
    assert default_prior(counts).sigma[0] == pytest.approx(2.5, rel=0.2)


def test_blocks_and_updates_take_a_given_shape():
    X, y = ROWS[["x"]].to_numpy(), ROWS["y"].to_numpy()
    half = N // 2
    core = bc.build_coreset(
        iter([(X[:half], y[:half]), (X[half:], y[half:])]), family="gamma(2)", intercept=True, **QUIET
    )
    assert core.n_observations == N
    fit = bc.fit("y ~ x", ROWS[:half], family="gamma(2)", **QUIET).update(ROWS[half:], progressbar=False)
    assert fit.coreset.n_observations == N
    whole = bc.fit("y ~ x", ROWS, family="gamma(2)", **QUIET).summary()
    np.testing.assert_allclose(fit.summary()["mean"], whole["mean"], atol=0.2 * whole["sd"].max())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": 0.0}, "'y' is not above 0 in 1 of rows 0 to 399, first 0 in row 7; .* fit whether a number is above 0"),
        ({"y": -2.5}, "'y' is not above 0 .* first -2.5 in row 7"),
        ({"y": math.nan}, "'y' is no finite number .* row 7; .* missing='drop'"),
        ({"y": math.inf}, "'y' is no finite number .* row 7"),
        ({"y": 1e30}, "'y' is above 1e[+]24 in 1 of rows 0 to 399, first 1e[+]30 in row 7; rescale it"),
        ({"family": "poisson"}, "'y' is no count"),
        ({"exposure": "hours"}, "exposure is given.* as offset$"),
        ({"trials": "twice"}, "trials is given.* positive numbers, not successes"),
        ({"positive": 1}, "positive=1 is given, but the family takes positive numbers"),
        ({"family": "gamma(1e8)"}, "shape=1e[+]08 must be below 1e[+]07: such numbers hardly vary"),
        ({"family": "gamma()"}, "family='gamma[(][)]' lacks its shape: give it, as in 'gamma[(]2.5[)]'"),
        ({"y": "same"}, "shape of family='gamma' is above 9e[+]06, as the response hardly varies"),
    ],
)
def test_what_is_no_gamma_model_is_refused(given, message):
    rows, asked = ROWS.copy(), {"family": "gamma", **given}
    y = asked.pop("y", None)
    if y == "same":
        rows["y"] = 3.0
    elif y is not None:
        rows.loc[7, "y"] = y
    with pytest.raises((DataError, ValueError), match=message):
        bc.fit("y ~ x", rows, **asked, **QUIET)


def test_what_needs_a_shape_says_so(flat):
    with pytest.raises(DataError, match=r"the shape of .* give all rows, fit.update\(data=rows\), .* given, as in"):
        flat.update(ROWS)
    with pytest.raises(DataError, match="shape"):
        flat.all_rows_posterior()
    with pytest.raises(DataError, match="'shape', the name of the family's parameter"):
        bc.fit("y ~ x + (1 | shape)", ROWS.rename(columns={"g": "shape"}), family="gamma", **QUIET)
    with pytest.raises(ValueError, match="lacks its shape"):
        bc.build_coreset(ROWS[["x"]], ROWS["y"], family="gamma", progressbar=False)
    core = bc.build_coreset(ROWS[["x"]], ROWS["y"], family="gamma(2)", progressbar=False)
    with pytest.raises(DataError, match="'poisson' takes counts, and the coreset was built of positive numbers"):
        bc.sample(core, family="poisson")


@pytest.mark.parametrize(("family", "name"), [("gamma", "shape"), ("negative_binomial", "size"), ("normal", "sigma")])
def test_a_column_may_not_have_the_name_of_the_family_s_parameter(family, name):
    rows = pd.DataFrame({name: np.arange(30.0) % 7, "y": 1.0 + np.arange(30) % 4})
    for formula, data in ((f"y ~ {name}", rows), ("y ~ .", rows)):
        with pytest.raises(DataError, match=rf"column '{name}' has the name of a parameter of the family: rename"):
            bc.fit(formula, data, family=family, progressbar=False)
    with pytest.raises(DataError, match=f"groups has the column '{name}', the name of the family's parameter"):
        bc.fit(f"y ~ 1 + (1 | {name})", rows, family=family, progressbar=False)
    with pytest.raises(DataError, match=f"groups has the column '{name}', the name of the family's parameter"):
        bc.fit(rows[["y"]], rows["y"], groups={name: rows[name]}, family=family, progressbar=False)
    given = {"normal": "normal(1)"}.get(family, f"{family}(2)")
    assert name in bc.fit(f"y ~ {name}", rows, family=given, random_state=1, progressbar=False).summary().index
