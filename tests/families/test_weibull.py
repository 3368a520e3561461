"""The Weibull likelihood of times, some censored: its density, fits of a given and of an unknown shape, refusals.

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
from bayescore.families.weibull import Weibull
from bayescore.models.posterior import log_likelihoods
from bayescore.validation import DataError
from tests.diagnostics.test_loo_counts import elpd_of
from tests.number_as_parameter import drawn, gaps, weighed_moments

QUIET = {"random_state": 1, "progressbar": False}
N, SHAPE = 400, 1.7
RNG = np.random.default_rng(8)
ROWS = pd.DataFrame({"x": RNG.normal(size=N), "g": RNG.integers(0, 12, N)})
ROWS["x"] = (ROWS["x"] - ROWS["x"].mean()) / ROWS["x"].std(ddof=0)
EFFECTS = 0.4 * RNG.normal(size=12)
TIMES = np.exp(1.4 + 0.5 * ROWS["x"]) * RNG.standard_exponential(N) ** (1.0 / SHAPE) / special.gamma(1.0 + 1.0 / SHAPE)
END = RNG.uniform(1.0, 8.0, N)
ROWS["t"], ROWS["died"] = np.minimum(TIMES, END), TIMES <= END
GROUPED = TIMES * np.exp(EFFECTS[ROWS["g"]])
ROWS["t_grouped"], ROWS["died_grouped"] = np.minimum(GROUPED, END), (GROUPED <= END).astype(int)
ROWS["twice"] = RNG.integers(1, 4, N)
FORMULA, PRIOR = "Surv(t, died) ~ x", bc.priors.Normal(0.0, 2.0)


@pytest.fixture(scope="module")
def flat():
    return bc.fit(FORMULA, ROWS, family="weibull", prior=PRIOR, **QUIET)


def scaled(shape, mean):
    """Return SciPy's distribution of times with these means."""
    return stats.weibull_min(shape, scale=mean / special.gamma(1.0 + 1.0 / shape))


@pytest.mark.parametrize("shape", [0.2, 1.0, 2.5, 300.0])
def test_both_sides_and_the_time_are_the_density_and_the_survival(shape):
    family, eta = Weibull(shape), np.linspace(-6.0, 5.0, 23)
    y = np.exp(eta + np.linspace(-3.0, 2.0, 23) / shape)
    right, e = scaled(shape, np.exp(eta)), eta - np.log(y)
    np.testing.assert_allclose(family.log_p(e, -1), right.logsf(y), rtol=1e-8)
    np.testing.assert_allclose(family.log_p(e, 1) + family.log_p(e, -1) - np.log(y), right.logpdf(y), rtol=1e-8)
    assert not np.allclose(family.log_p(e, -1), scaled(1.2 * shape, np.exp(eta)).logsf(y))
    np.testing.assert_allclose(family.mean(eta), right.mean(), rtol=1e-9)
    np.testing.assert_allclose(family.variance(eta), right.var(), rtol=1e-6)
    times = family.draw(np.full(20_000, 0.7), np.random.default_rng(1))
    assert np.quantile(times, 0.3) == pytest.approx(scaled(shape, math.exp(0.7)).ppf(0.3), rel=0.15)
    assert (Weibull(1e-3).draw(np.zeros(1000), np.random.default_rng(1)) > 0.0).all()


def test_a_hazard_or_a_moment_that_is_not_the_likelihood_s_is_refused():
    class Steep(Weibull):
        kind = "steep"

        def log_p(self, eta, side):
            return super().log_p(eta, side) + 0.01 * (np.asarray(side) > 0)

    class Spread(Weibull):
        kind = "spread"

        def variance(self, eta):
            return 1.01 * super().variance(eta)

    for family, message in ((Steep, "the slope of the cumulative hazard"), (Spread, r"variance\(eta\) is .* mend one")):
        with pytest.raises(ValueError, match=message):
            register(family(2.0))
    assert register(Weibull(2.0)) == Weibull(2.0)


def test_slopes_in_the_shape_are_those_of_the_log_likelihood():
    e, d, w = np.array([[-1.0, 0.2, 0.7], [0.1, -0.3, 0.0]]), np.array([1.0, 0.0]), np.array([1.7, 0.6])
    for k in (0.05, 1.0, 2.0, 300.0):
        near = e / max(k, 1.0)
        ends = [
            (w * d) @ Weibull(k * math.exp(s)).log_p(near, 1) + w @ Weibull(k * math.exp(s)).log_p(near, -1)
            for s in (-1e-5, 1e-5)
        ]
        np.testing.assert_allclose(Weibull(k).size_slopes(near, d, w), (ends[1] - ends[0]) / 2e-5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [0.1, 1.0, 40.0])
def test_the_most_likely_shape_is_scipys_and_censored_times_tell_it(shape):
    y = scaled(shape, 3.0).rvs(500, random_state=2)
    found = Weibull().most_likely(np.ones(500), 7.0 / y)  # wherever the intercept is
    fitted = stats.weibull_min.fit(stats.CensoredData(y), floc=0.0)[0]
    assert found == pytest.approx(fitted, rel=1e-3)
    stop = np.quantile(y, 0.6)
    censored = stats.CensoredData.right_censored(np.minimum(y, stop), y > stop)
    fewer = Weibull().most_likely((y <= stop).astype(float), 7.0 / np.minimum(y, stop))
    assert fewer == pytest.approx(stats.weibull_min.fit(censored, floc=0.0)[0], rel=1e-3)
    assert fewer != pytest.approx(found, rel=3e-3)
    assert Weibull().most_likely(np.ones(5), np.ones(5)) is None
    assert Weibull().most_likely(np.zeros(5), np.arange(1.0, 6.0)) is None


def test_exponential_times_are_poisson_events_with_the_time_as_exposure():
    X, died, t = np.column_stack([np.ones(N), ROWS["x"]]), ROWS["died"].astype(int), ROWS["t"]
    method = Condensed(prior=bc.priors.Normal(0.0, 3.0))
    known = {"exposure": t, "method": method, **QUIET}
    own = bc.build_coreset(X, died, family="weibull(1)", **known)
    mirrored = bc.build_coreset(-X, died, family="poisson", **known)
    assert len(own) == len(mirrored) == 4
    beta = np.array([1.4, 0.5]) + 0.05 * np.random.default_rng(1).normal(size=(9, 2))
    ours, theirs = (log_likelihoods(beta, rows, check_family(rows.family)) for rows in (own, mirrored))
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-8)
    steep = bc.build_coreset(X, died, family="weibull(3)", **known)
    whole = bc.all_rows(X, died, exposure=t, family="weibull(3)", progressbar=False)
    mode = bc.find_map(whole, prior=bc.priors.Normal(0.0, 3.0)).beta
    near = mode + 0.02 * np.random.default_rng(2).normal(size=(9, 2))
    three, two = Weibull(3.0), Weibull(2.0)
    ours, every, other = (log_likelihoods(near, *of) for of in ((steep, three), (whole, three), (whole, two)))
    np.testing.assert_allclose(ours - ours[0], every - every[0], atol=0.2)
    assert np.abs(other - other[0] - every + every[0]).max() > 0.5


def test_a_fit_of_shape_one_is_the_mirror_image_of_the_poisson_fit_with_its_elpd():
    own = bc.fit(FORMULA, ROWS, family="weibull(1)", prior=PRIOR, **QUIET)
    rates = bc.fit("died ~ x", ROWS.astype({"died": int}), family="poisson", exposure="t", prior=PRIOR, **QUIET)
    ours, theirs = own.summary(), rates.summary()
    np.testing.assert_allclose(ours["mean"], -theirs["mean"], atol=0.08 * theirs["sd"].max())
    np.testing.assert_allclose(ours["sd"], theirs["sd"], rtol=0.06)
    events = ROWS["died"]
    assert elpd_of(rates.loo()) - elpd_of(own.loo()) == pytest.approx(np.log(ROWS["t"][events]).sum(), abs=0.5)


def truth(died, weights, center=(1.4, 0.5, 0.5)):
    """Return means and sds of coefficients and log shape."""

    def log_density(points):
        theta, k = points[:, -1], np.exp(points[:, -1])
        eta = points[:, 0] + ROWS["x"].to_numpy()[:, None] * points[:, 1]
        z = k * (np.log(ROWS["t"].to_numpy())[:, None] - eta + special.gammaln(1.0 + 1.0 / k))
        each = died[:, None] * (theta + z) - np.exp(z)
        prior = (points[:, :-1] ** 2).sum(axis=1) / 2.0**2 + theta**2 / 2.0**2
        return weights @ each - 0.5 * prior

    return weighed_moments(log_density, np.array(center), [0.1, 0.1, 0.2])


def test_coefficients_and_shape_are_those_of_all_rows_and_censoring_is_seen(flat):
    died = ROWS["died"].to_numpy(float)
    mean, sd = truth(died, np.ones(N))
    of_means, of_sds = gaps(drawn(flat, "shape"), mean, sd)
    assert flat.level == "certified"
    assert of_means.max() < 0.08
    assert of_sds.max() < 0.06
    uncensored = truth(np.ones(N), np.ones(N), (1.0, 0.4, math.log(1.5)))
    for other in (uncensored, truth(died, np.repeat([0.0, 1.0], [20, N - 20]))):
        assert gaps(drawn(flat, "shape"), other[0], sd)[0].max() > 0.08


def test_weights_count_rows(flat):
    fit = bc.fit(FORMULA, ROWS, family="weibull", prior=PRIOR, weights="twice", **QUIET)
    mean, sd = truth(ROWS["died"].to_numpy(float), ROWS["twice"].to_numpy(float))
    of_means, of_sds = gaps(drawn(fit, "shape"), mean, sd)
    assert of_means.max() < 0.08
    assert of_sds.max() < 0.06
    assert gaps(drawn(flat, "shape"), mean, sd)[0].max() > 0.08


def test_answers_have_the_shape_and_times(flat):
    assert list(flat.summary().index) == ["Intercept", "x", "shape"]
    assert flat.prior_summary()["prior"]["shape"] == "LogNormal(mu=0, sigma=2)"
    text = str(flat)
    assert "Bayesian Weibull regression" in text
    assert "Shape (hazard ~ time^(shape - 1))" in text
    assert f"400 observations ({ROWS['died'].sum()} events of died)" in text
    new = ROWS[["x"]].head(3)
    numbers, mean = np.asarray(flat.predict(new, kind="response", random_state=1)), flat.predict(new)["mean"]
    assert numbers.dtype == np.float64
    shapes = flat.idata.posterior["shape"].values.ravel()
    ratio = (special.gamma(1.0 + 2.0 / shapes) / special.gamma(1.0 + 1.0 / shapes) ** 2 - 1.0).mean()
    np.testing.assert_allclose(numbers.var(axis=0), mean.to_numpy() ** 2 * ratio, rtol=0.25)
    np.testing.assert_allclose(flat.average_predictions()["mean"], flat.predict(ROWS[["x"]])["mean"].mean(), rtol=2e-3)
    slopes = flat.slopes("x")["mean"].iloc[0] / flat.average_predictions()["mean"].iloc[0]
    assert slopes == pytest.approx(flat.summary()["mean"]["x"], rel=0.02)
    prior = flat.prior_predictive(50)
    assert "shape" in prior.prior
    assert prior.prior_predictive["y"].dtype == np.float64
    known = flat.inference_data(ROWS.head(20))
    np.testing.assert_allclose(known.observed_data["y"], ROWS["t"].head(20), rtol=1e-12)
    mean_of_draws = known.posterior_predictive["y"].mean(("chain", "draw"))
    np.testing.assert_allclose(mean_of_draws, flat.predict(ROWS.head(20))["mean"], rtol=0.1)
    assert flat.plot("x").get_ylim()[1] < 40.0


def test_the_density_left_out_is_that_of_times_and_a_wrong_shape_predicts_worse(flat):
    near = bc.fit(FORMULA, ROWS, family=flat.coreset.family, prior=PRIOR, **QUIET)
    far = bc.fit(FORMULA, ROWS, family="weibull(5)", prior=PRIOR, **QUIET)
    table = bc.loo_compare({"found": flat, "near": near, "far": far}, progressbar=False)["elpd_loo"]
    at_means = scaled(near._posterior().family.size, near.predict(ROWS)["mean"].to_numpy())
    whole = np.where(ROWS["died"], at_means.logpdf(ROWS["t"]), at_means.logsf(ROWS["t"])).sum()
    assert abs(table["near"] - (whole - 2.0)) < 1.0  # two coefficients
    assert abs(near.certificate.elpd_loo - table["near"]) < 0.2
    assert 0.0 < table["near"] - table["found"] < 3.0  # what one more parameter costs
    assert table["near"] - table["far"] > 50.0
    times = bc.fit("t ~ x", ROWS, family="gamma", **QUIET)
    with pytest.raises(DataError, match=r"models.'t'. has positive numbers, models.'w'. times; .* az.compare"):
        bc.loo_compare({"w": flat, "t": times})
    tenths = bc.fit("Surv(t / 10, died) ~ x", ROWS, family=flat.coreset.family, **QUIET)
    with pytest.raises(DataError, match="of the same rows and responses, in the same unit"):
        bc.loo_compare({"near": near, "tenths": tenths}, progressbar=False)


def test_the_check_of_the_model_is_of_events_by_time(flat):
    core = bc.all_rows(ROWS, family="weibull(2)", design=flat.coreset.design, progressbar=False)
    found = check_model(flat._posterior(), core)
    assert found.counts
    assert found.frequencies is None
    assert found.outside <= 3
    assert ROWS["died"].sum() == pytest.approx(float(found.positive.sum()))
    np.testing.assert_allclose(found.weights, ROWS["t"])
    np.testing.assert_allclose(found.p @ found.weights, ROWS["died"].sum(), rtol=0.05)
    more = core.with_weights(core.weights * np.where(core.y > 0, 1.7, 1.0))
    assert check_model(flat._posterior(), more).outside > 3
    table = flat.check(by="g")
    rates = ROWS.groupby("g")[["died", "t"]].sum()
    np.testing.assert_allclose(table["observed"], rates["died"] / rates["t"], rtol=1e-3)


def test_a_fit_saved_and_read_is_the_same_under_another_prior_too(flat, tmp_path):
    flat.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit", ROWS, progressbar=False)
    assert str(again) == str(flat)
    tight = again.with_prior({"x": bc.priors.Normal(0, 0.01), "Intercept": PRIOR})
    assert abs(tight.summary()["mean"]["x"]) < 0.2
    assert "shape" in tight.summary().index
    flat.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The shape is that of hazard ~ time^(shape - 1)." in page
    assert "died after the time t" in page


def test_every_source_gives_the_rows_of_the_frame(flat, tmp_path):
    ROWS.to_parquet(tmp_path / "rows.parquet")
    ROWS.astype({"died": int}).to_csv(tmp_path / "rows.csv", index=False)
    for name in ("rows.parquet", "rows.csv"):
        other = bc.fit(FORMULA, tmp_path / name, family="weibull", prior=PRIOR, **QUIET)
        np.testing.assert_allclose(drawn(other, "shape"), drawn(flat, "shape"), rtol=1e-6)
    X, died, t = ROWS[["x"]].to_numpy(), ROWS["died"].to_numpy(), ROWS["t"].to_numpy()
    known = {"family": "weibull", "prior": PRIOR, **QUIET}
    cut = [slice(0, 150), slice(150, N)]
    arrays = bc.fit(X, died, exposure=t, **known)
    frame = bc.fit("died ~ x", ROWS, exposure="t", **known)
    blocks = bc.fit(lambda: ((X[part], died[part], None, None, t[part]) for part in cut), **known)
    for fit in (arrays, frame, blocks):
        np.testing.assert_allclose(drawn(fit, "shape"), drawn(flat, "shape"), rtol=1e-6)
    assert dict(arrays.coreset.design.to_dict())["exposure"] == "exposure"


def test_a_core_written_and_read_is_the_same(tmp_path):
    core = bc.all_rows(ROWS, formula=FORMULA, family="weibull(2)", progressbar=False)
    core.save(tmp_path / "core.parquet")
    again = bc.read_coreset(tmp_path / "core.parquet")
    np.testing.assert_array_equal(again.offset, core.offset)
    np.testing.assert_allclose(np.unique(-core.offset), np.unique(np.log(ROWS["t"])))
    assert again.rows_digest == core.rows_digest
    assert core.event_total == ROWS["died"].sum()


def test_times_may_be_computed_and_all_of_them_end_without_an_event():
    whole = bc.all_rows(ROWS, formula="Surv(t) ~ x", family="weibull(2)", progressbar=False)
    assert whole.event_total == N
    rows = ROWS.assign(days=365.25 * ROWS["t"], status=1 + ROWS["died"])
    core = bc.all_rows(rows, formula="Surv(days / 365.25, status - 1) ~ x", family="weibull(2)", progressbar=False)
    assert core.event_total == ROWS["died"].sum()
    np.testing.assert_allclose(core.offset[core.y < 0], -np.log(ROWS["t"]), rtol=1e-12)
    every = bc.all_rows(rows[["x", "t", "died"]], formula="Surv(t, died) ~ .", family="weibull(2)", progressbar=False)
    assert every.feature_names == ("Intercept", "x")


def test_effects_of_groups_go_with_the_shape():
    fit = bc.fit("Surv(t_grouped, died_grouped) ~ x + (1 | g)", ROWS, family="weibull", **QUIET)
    assert fit.level == "certified"
    assert list(fit.summary().index) == ["Intercept", "x", "sigma_g", "shape"]
    effects = fit.effects("g")
    assert np.corrcoef(effects["mean"], EFFECTS)[0, 1] > 0.9
    mean, sd = fit.summary().loc["shape", ["mean", "sd"]]
    assert abs(mean - SHAPE) < 3.0 * sd


def test_the_unit_of_time_moves_the_intercept_alone():
    found = []
    for unit in (1.0, 1e-5, 1e5):
        own = bc.fit(FORMULA, ROWS.assign(t=unit * ROWS["t"]), family="weibull", **QUIET).summary()["mean"]
        found.append([own["Intercept"] - math.log(unit), own["x"], own["shape"]])
    np.testing.assert_allclose(found[1:], [found[0], found[0]], atol=0.02)


def test_blocks_and_updates_take_a_given_shape():
    X, died, t = ROWS[["x"]].to_numpy(), ROWS["died"].to_numpy(), ROWS["t"].to_numpy()
    half = N // 2
    blocks = ((X[part], died[part], None, None, t[part]) for part in (slice(0, half), slice(half, N)))
    core = bc.build_coreset(blocks, family="weibull(2)", intercept=True, **QUIET)
    assert core.n_observations == N
    fit = bc.fit(FORMULA, ROWS[:half], family="weibull(2)", **QUIET).update(ROWS[half:], progressbar=False)
    assert fit.coreset.n_observations == N
    whole = bc.fit(FORMULA, ROWS, family="weibull(2)", **QUIET).summary()
    np.testing.assert_allclose(fit.summary()["mean"], whole["mean"], atol=0.2 * whole["sd"].max())


@pytest.mark.parametrize(
    ("family", "role", "said"),
    [
        ("weibull(2)", "trials", "trials is given, but the family takes times, not successes"),
        ("poisson", "trials", "counts without an upper end; give exposure="),
        ("gamma(2)", "trials", "trials is given, but the family takes positive numbers"),
        ("logistic", "exposure", "exposure is given, but the family takes labels"),
        ("weibull(2)", "offset", "offset is given, but the family takes times, which it multiplies"),
    ],
)
def test_blocks_of_a_stream_have_times_as_exposures_alone(family, role, said):
    X, died, t = ROWS[["x"]].to_numpy(), ROWS["died"].to_numpy(), ROWS["t"].to_numpy()
    times = bc.stream(size=60, family="weibull(2)", random_state=1).partial_fit(X, died, exposure=t)
    assert times.coreset().n_observations == N
    with pytest.raises(DataError, match=said):
        bc.stream(size=60, family=family).partial_fit(X, died, **{role: t})


def test_evidence_compares_shapes_and_of_numbers_says_that_it_does_not(recwarn):
    """Of one mean the evidence is an integral over a line; both shapes leave out the logs of the times."""
    found, wanted = [], []
    eta = np.linspace(0.0, 3.0, 2001)
    for shape in (1.0, 2.0):
        core = bc.all_rows(ROWS, formula="Surv(t, died) ~ 1", family=f"weibull({shape:g})", progressbar=False)
        found.append(bc.log_evidence(core, prior=PRIOR, random_state=1, progressbar=False).log_evidence)
        own = stats.weibull_min(shape, scale=np.exp(eta)[:, None] / special.gamma(1.0 + 1.0 / shape))
        t, died = ROWS["t"].to_numpy(), ROWS["died"].to_numpy() == 1
        log_p = own.logpdf(t[died]).sum(axis=1) + own.logsf(t[~died]).sum(axis=1) + stats.norm(0, 2).logpdf(eta)
        wanted.append(special.logsumexp(log_p) + math.log(eta[1]))
    assert found[1] - found[0] == pytest.approx(wanted[1] - wanted[0], abs=0.02)
    assert not [each for each in recwarn if "leaves out" in str(each.message)]
    rows = bc.all_rows(ROWS, formula="t ~ x", family="gamma(2)", progressbar=False)
    with pytest.warns(UserWarning, match=r"is given the shape of 'gamma\(2\)', and leaves out what depends on it"):
        bc.log_evidence(rows, random_state=1, progressbar=False)


def test_an_update_may_have_no_event():
    quiet = ROWS[: N // 2].assign(died=False)
    fit = bc.fit(FORMULA, ROWS, family="weibull(2)", **QUIET)
    found = fit.update(quiet, progressbar=False).summary()
    whole = bc.fit(FORMULA, pd.concat([ROWS, quiet]), family="weibull(2)", **QUIET).summary()
    assert (abs(whole["mean"] - fit.summary()["mean"]) > 2.0 * whole["sd"]).any()
    np.testing.assert_allclose(found["mean"], whole["mean"], atol=0.2 * whole["sd"].max())
    np.testing.assert_allclose(found["sd"], whole["sd"], rtol=0.1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"t": 0.0}, "'t' is no time in 1 of rows 0 to 399, first 0 in row 7; times are above 0 and at most 1e[+]24"),
        ({"t": -2.5}, "'t' is no time .* first -2.5 in row 7"),
        ({"t": math.nan}, "'t' is no time .* first nan in row 7"),
        ({"t": math.inf}, "'t' is no time .* first inf in row 7"),
        ({"t": 1e30}, "'t' is no time .* first 1e[+]30 in row 7; times are above 0 and at most 1e[+]24"),
        ({"died": 2}, "'died' is no event in 1 of rows 0 to 399, first 2 in row 7; an event is 1 or True.* status - 1"),
        ({"died": math.nan}, "'died' is no event .* first nan in row 7.* missing='drop' leaves missing ones out"),
        (
            {"formula": "Surv(t, died == 1) ~ x"},
            "must be Surv[(]time, event[)] alone, where .* arithmetic on one",
        ),
        ({"formula": "2 * Surv(t) ~ x"}, "must be Surv[(]time, event[)] alone, where"),
        ({"formula": "Surv(t, t + 1, died) ~ x"}, "times that begin late, or are known by interval, have a row for"),
        ({"formula": "died ~ x"}, "'died' says whether there was the event, 1 or 0, and times are missing: write Surv"),
        ({"exposure": "t"}, "exposure is given beside formula=.*, which has Surv, which names it"),
        ({"formula": FORMULA + " + offset(x)"}, "offset is given, but the family takes times, which it multiplies"),
        ({"trials": "twice"}, "trials is given, but the family takes times, not successes"),
        ({"positive": 1}, "positive=1 is given, but the family takes times"),
        ({"family": "poisson", "formula": FORMULA + " + t"}, "'t' stands on both sides; times are no feature"),
        ({"family": "logistic"}, "exposure is given, but the family takes labels; .*, 'weibull' for times"),
        ({"family": "gamma"}, "exposure is given, but the family takes positive numbers, .* family='weibull'"),
        ({"family": "normal"}, "exposure is given, but the family takes numbers, .* or 'weibull'"),
        ({"family": "weibull(1e8)"}, "shape=1e[+]08 must be below 1e[+]07: such times hardly vary"),
        ({"family": "weibull()"}, "family='weibull[(][)]' lacks its shape: give it, as in 'weibull[(]2.5[)]'"),
        ({"all died": 0}, "none of 400 times ends with an event: 'died' is 0 in all rows"),
        ({"all t": 3.0}, "shape of family='weibull' is above 9e[+]06, as the response hardly varies"),
    ],
)
def test_what_is_no_model_of_times_is_refused(given, message):
    asked = {"family": "weibull", **given}
    rows, formula = ROWS.astype({"died": float}), asked.pop("formula", FORMULA)
    for name in ("t", "died"):
        if f"all {name}" in asked:
            rows[name] = asked.pop(f"all {name}")
            rows["died"] = rows["died"] if name == "died" else 1.0
        elif name in asked:
            rows.loc[7, name] = asked.pop(name)
    with pytest.raises((DataError, ValueError), match=message):
        bc.fit(formula, rows, **asked, **QUIET)


def test_rows_that_miss_something_may_be_left_out():
    rows = ROWS.astype({"died": float})
    rows.loc[3, "t"], rows.loc[4, "died"] = math.nan, math.nan
    with pytest.warns(UserWarning, match=r"left out 2 of 400 rows, that miss 'died' \(1\), 't' \(1\):"):
        core = bc.all_rows(rows, formula=FORMULA, family="weibull(2)", missing="drop", progressbar=False)
    assert core.n_observations == N - 2
    assert np.isfinite(core.offset).all()


def test_what_needs_a_shape_says_so(flat):
    with pytest.raises(DataError, match=r"the shape of .* give all rows, fit.update\(data=rows\), .* given, as in"):
        flat.update(ROWS)
    with pytest.raises(DataError, match="shape"):
        flat.all_rows_posterior()
    with pytest.raises(DataError, match="column 'shape' has the name of a parameter of the family: rename"):
        bc.fit("Surv(t, died) ~ shape", ROWS.rename(columns={"x": "shape"}), family="weibull", **QUIET)
    with pytest.raises(ValueError, match="lacks its shape"):
        bc.build_coreset(ROWS[["x"]], ROWS["died"], exposure=ROWS["t"], family="weibull", progressbar=False)
    core = bc.build_coreset(ROWS[["x"]], ROWS["died"], exposure=ROWS["t"], family="weibull(2)", progressbar=False)
    with pytest.raises(DataError, match="'poisson' takes counts, and the coreset was built of times"):
        bc.sample(core, family="poisson")
    with pytest.raises(DataError, match=r"exposure is given, but the fit's family is .*, which takes no counts"):
        flat.predict(ROWS, exposure="t")
