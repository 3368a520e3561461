"""Numbers with normal noise of a given sd: sums without loss, closed forms of the posterior, and what is refused."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from bayescore.cli import main
from bayescore.families.family import SIZED, check_family, find_family
from bayescore.models.groups.marginal import CollapsedTarget, collapsed_density
from bayescore.models.posterior import likelihood_terms
from bayescore.numerics.chains import ess as effective
from bayescore.priors.groups import HalfStudentT, log_sigma_terms
from bayescore.samplers.sample import sample
from bayescore.types import WeightedData
from bayescore.validation import DataError
from tests.counted import QUIET
from tests.hand_made import log_likelihood

SD = 3.0
FAMILY = bc.families.Gaussian(SD)
PRIOR = bc.priors.Normal(0.0, 4.0)


def numbers(n=4000, seed=0, n_groups=25):
    """Return rows with a skewed column, a factor, groups of unlike size, weights, and y far from 0."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "a": rng.exponential(size=n) + 40.0,
            "device": rng.choice(["phone", "tablet"], n),
            "g": rng.choice(n_groups, n, p=rng.dirichlet(np.full(n_groups, 2.0))),
            "h": rng.integers(0, 7, n),
            "w": rng.integers(1, 5, n).astype(float),
        }
    )
    effects, others = rng.normal(0.0, 2.0, n_groups), rng.normal(0.0, 1.0, 7)
    eta = 50.0 + 0.7 * rows["a"] - 2.0 * (rows["device"] == "tablet")
    return rows.assign(y=eta + effects[rows["g"]] + others[rows["h"]] + rng.normal(0.0, SD, n))


ROWS = numbers()
FLAT, GROUPED, CROSSED = "y ~ a + device", "y ~ a + device + (1 | g)", "y ~ a + device + (1 | g) + (1 | h)"
SLOPES = "y ~ a + device + (1 + a | g)"
X = np.column_stack([np.ones(len(ROWS)), ROWS["a"], ROWS["device"] == "tablet"]).astype(float)
Y = ROWS["y"].to_numpy()


def conjugate(X, y, w, mean, sd):
    """Return mean and covariance of the posterior of coefficients with independent normal priors."""
    precision = (X.T * w) @ X / SD**2 + np.diag(np.broadcast_to(sd, X.shape[1]) ** -2.0)
    shift = X.T @ (w * y) / SD**2 + np.broadcast_to(mean, X.shape[1]) / np.broadcast_to(sd, X.shape[1]) ** 2
    return np.linalg.solve(precision, shift), np.linalg.inv(precision)


def log_marginal(V, r, w, sigma, codes):
    """Return log N(r; 0, SD^2 / w + sigma^2 of rows of one group)."""
    covariance = np.diag(SD**2 / w) + sigma**2 * (codes[:, None] == codes)
    return stats.multivariate_normal.logpdf(r, np.zeros(len(r)), covariance + V)


# ------------------------------------------------------------------------------------------------------------- family


@pytest.mark.parametrize("sd", [1e-3, 1.0, 2.5, 3e6])
def test_the_density_is_scipys_and_draws_have_its_spread(sd):
    family, eta = bc.families.Gaussian(sd), sd * np.linspace(-5.0, 5.0, 11)
    for side in (1, -1):
        np.testing.assert_allclose(family.log_p(eta, side), stats.norm.logpdf(eta, scale=sd), rtol=1e-12)
    drawn = family.draw(np.full(40_000, 7.0 * sd), np.random.default_rng(1))
    assert abs(drawn.mean() / sd - 7.0) < 5.0 / 200.0
    assert abs(drawn.std() / sd - 1.0) < 5.0 / math.sqrt(80_000)
    assert bc.families.register(family) is family


def test_a_density_that_is_not_normal_is_refused():
    @dataclass(frozen=True)
    class Narrow(bc.families.Gaussian):
        kind = "narrow"

        def variance(self, eta):
            return np.full(np.shape(eta), self.size)

    with pytest.raises(ValueError, match=r"'narrow\(3\)': variance\(eta\) is 3 at eta = -3, and the square .* is 9"):
        bc.families.register(Narrow(3.0))
    assert "narrow" not in SIZED


def test_names_are_read_and_others_say_what_is_missing():
    assert check_family("normal(2.5)") == check_family("normal(sd=2.5)") == bc.families.Gaussian(2.5)
    assert FAMILY.name == "normal(3)"
    assert "normal" in SIZED
    assert find_family("normal") == check_family("normal", seek=True) == bc.families.Gaussian()
    with pytest.raises(ValueError, match=r"family='normal' lacks its sd: give it, as in 'normal\(2.5\)'; .* find it"):
        check_family("normal")
    with pytest.raises(ValueError, match=r"'normal\(x\)' must be written as 'normal\(2.5\)', with its sd"):
        find_family("normal(x)")
    for wrong in (0.0, -1.0, math.nan, math.inf, 1e25, 1e-25):
        with pytest.raises(ValueError, match="sd="):
            bc.families.Gaussian(wrong)
    with pytest.raises(TypeError, match="sd='2' must be a number"):
        bc.families.Gaussian("2")


# --------------------------------------------------------------------------------------------------------------- sums


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("formula", [FLAT, "y ~ 0 + a + device"])
def test_a_few_rows_have_the_log_likelihood_of_all(formula, weights):
    how = {"formula": formula, "family": FAMILY, "weights": weights, **QUIET}
    core, everything = bc.build_coreset(ROWS.drop(columns=["g", "h"]), **how), bc.all_rows(ROWS, **how)
    assert len(core) == core.n_features + 1
    assert core.lossless
    assert core.weights.sum() == pytest.approx(everything.weights.sum(), rel=1e-14)
    for beta in np.random.default_rng(0).normal(0.0, 30.0, (4, core.n_features)):
        few, all_of = (likelihood_terms(beta, rows, FAMILY) for rows in (core, everything))
        assert few.value == pytest.approx(all_of.value, rel=1e-12)
        np.testing.assert_allclose(few.gradient, all_of.gradient, rtol=1e-10, atol=1e-8 * abs(all_of.gradient).max())
        np.testing.assert_allclose(few.precision, all_of.precision, rtol=1e-11, atol=1e-8)


def test_mode_and_curvature_are_the_conjugate_posteriors():
    core = bc.build_coreset(ROWS, formula=FLAT, family=FAMILY, weights="w", **QUIET)
    mode = bc.find_map(core, prior=PRIOR)
    mean, covariance = conjugate(X, Y, ROWS["w"].to_numpy(), 0.0, 4.0)
    np.testing.assert_allclose(mode.beta, mean, rtol=1e-8)
    np.testing.assert_allclose(mode.sd, np.sqrt(np.diag(covariance)), rtol=1e-8)
    unweighted, _ = conjugate(X, Y, np.ones(len(Y)), 0.0, 4.0)  # a control: weights matter
    assert abs((mode.beta - unweighted) / mode.sd).max() > 0.1


def test_the_default_prior_is_that_of_rstanarm_in_units_of_y():
    core = bc.build_coreset(X[:, 1:], Y, family=FAMILY, intercept=True, standardize=True, **QUIET)
    mode, Z = bc.find_map(core), core.design.transform(X[:, 1:])
    mean, covariance = conjugate(Z, Y, np.ones(len(Y)), [Y.mean(), 0.0, 0.0], 2.5 * Y.std())
    np.testing.assert_allclose(mode.beta, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(mode.sd, np.sqrt(np.diag(covariance)), rtol=1e-8)
    named = bc.find_map(core, prior={"x0": bc.priors.Normal(1.0, 0.01)})  # the others keep theirs
    mean, _ = conjugate(Z, Y, np.ones(len(Y)), [Y.mean(), 1.0, 0.0], [2.5 * Y.std(), 0.01, 2.5 * Y.std()])
    np.testing.assert_allclose(named.beta, mean, rtol=1e-8, atol=1e-8)


def test_draws_are_the_conjugate_posteriors_and_a_wrong_sd_is_seen():
    core = bc.build_coreset(ROWS, formula=FLAT, family=FAMILY, **QUIET)
    idata = sample(core, prior=PRIOR, draws=2000, random_seed=1, **QUIET)
    found = idata.posterior["beta"].values.reshape(-1, 3)
    mean, covariance = conjugate(X, Y, np.ones(len(Y)), 0.0, 4.0)
    sd, ess = np.sqrt(np.diag(covariance)), 2000.0
    assert effective(idata.posterior["beta"].values, "bulk").min() > ess
    assert (abs(found.mean(axis=0) - mean) / sd).max() < 5.0 / math.sqrt(ess)  # false alarms: 1e-6 each
    assert abs(found.std(axis=0) / sd - 1.0).max() < 5.0 / math.sqrt(2.0 * ess)
    wrong = sd * 1.2
    assert abs(found.std(axis=0) / wrong - 1.0).max() > 5.0 / math.sqrt(2.0 * ess)


@pytest.mark.parametrize("weights", [None, "w"])
def test_groups_are_lossless_by_the_multivariate_normal_marginal_likelihood(weights):
    rows = ROWS[:400]
    how = {"formula": GROUPED, "family": FAMILY, "weights": weights, **QUIET}
    core = bc.build_coreset(rows, **how)
    assert len(core) <= rows["g"].nunique() + core.n_features + 1
    w = np.ones(len(rows)) if weights is None else rows["w"].to_numpy()
    spread = HalfStudentT(3.0, 2.5)
    for data in (core, bc.all_rows(rows, **how)):
        target = CollapsedTarget.of(data, FAMILY, (PRIOR, spread), len(core.groups[0]))
        rng = np.random.default_rng(0)
        for log_sigma in (-1.5, 0.3, 1.5, 3.0):
            beta = target.point.theta[:-1] + rng.normal(0.0, 0.1, 3)
            theta, gradient = np.append(beta, log_sigma), np.empty(4)
            found = collapsed_density(theta, gradient, target.arguments())
            r = rows["y"].to_numpy() - X[:400] @ beta
            wanted = log_marginal(0.0, r, w, math.exp(log_sigma), rows["g"].to_numpy())
            # rows of weight w are w rows, whose density differs from that of one by what has no parameters
            wanted += float((0.5 * np.log(w) * -1.0 - (w - 1.0) * math.log(SD * math.sqrt(2.0 * math.pi))).sum())
            wanted += float(PRIOR.log_density(beta)) + log_sigma_terms(log_sigma, *spread.table)[0]
            assert found == pytest.approx(wanted, abs=2e-4)  # WITHIN of a constant


def test_slopes_and_crossed_factors_keep_the_joint_density():
    for formula in (CROSSED, SLOPES):
        how = {"formula": formula, "family": FAMILY, **QUIET}
        core, everything = bc.build_coreset(ROWS, **how), bc.all_rows(ROWS, **how)
        assert len(core) < 0.2 * len(everything)
        rng = np.random.default_rng(3)
        differences = []
        for _ in range(3):
            beta = rng.normal(0.0, 2.0, core.n_features)
            effects = [rng.normal(0.0, 2.0, (len(own), len(own.effects))) for own in core.groups]
            values = []
            for data in (core, everything):
                eta = data.with_offset(data.X @ beta)
                for own, codes, u in zip(data.groups, data.group.T, effects, strict=True):
                    constant = data.design.constant
                    z = np.column_stack(
                        [data.X[:, constant if e == "1" else data.design.names.index(e)] for e in own.effects]
                    )
                    eta = eta + np.where(codes >= 0, (z * u[codes]).sum(axis=1), 0.0)
                values.append(data.weights @ FAMILY.log_p(eta, 1))
            differences.append(values[0] / values[1] - 1.0)
        assert np.abs(differences).max() < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("formula", [CROSSED, SLOPES])
def test_draws_of_sums_are_those_of_all_rows_by_the_same_seed(formula):
    found = []
    for build in (bc.build_coreset, bc.all_rows):
        core = build(ROWS, formula=formula, family=FAMILY, standardize=True, **QUIET)
        posterior = sample(core, draws=200, tune=300, random_seed=5, **QUIET).posterior
        found.append(
            np.column_stack([posterior["beta"].values.reshape(800, -1), posterior["sigma_g"].values.ravel()[:800]])
        )
    few, everything = found
    sd = everything.std(axis=0)
    assert (abs(few.mean(axis=0) - everything.mean(axis=0)) / sd).max() < 1e-5
    assert abs(few.std(axis=0) / sd - 1.0).max() < 1e-5
    assert 0.1 < sd[0] < 1.0  # the chains moved


@pytest.mark.parametrize("formula", [GROUPED, CROSSED, SLOPES])
def test_rows_of_unknown_groups_stay_in_sums_with_all_their_weight(formula):
    how = {"family": FAMILY, **QUIET}
    known = bc.all_rows(ROWS[:600], formula=formula, **how)
    new = bc.all_rows(ROWS[600:800].assign(g=99, y=ROWS["y"] + 50.0), design=known.design, new_groups=True, **how)
    both = bc.Coreset.concat([known, new])
    once = bc.build_coreset(both, **how)
    rng = np.random.default_rng(4)
    betas = rng.normal(0.0, 3.0, (3, known.n_features))
    for whole, few in ((new, bc.build_coreset(new, **how)), (both, once), (both, bc.build_coreset(once, **how))):
        assert len(few) < 0.6 * len(whole)
        assert few.weights.sum() == pytest.approx(len(whole), abs=1e-4)  # WITHIN of a few rows
        for beta in betas:  # with the effects at 0
            wanted = likelihood_terms(beta, whole, FAMILY).value
            assert likelihood_terms(beta, few, FAMILY).value == pytest.approx(wanted, rel=1e-8)
    wanted = np.bincount(both.group[:, 0] + 1, both.weights)
    np.testing.assert_allclose(np.bincount(once.group[:, 0] + 1, once.weights), wanted, atol=1e-4)


# ---------------------------------------------------------------------------------------------------- sources, streams


def test_sources_streams_updates_and_unions_say_the_same(tmp_path):
    path = tmp_path / "rows.parquet"
    ROWS.to_parquet(path)
    how = {"formula": GROUPED, "family": FAMILY, **QUIET}
    core = bc.build_coreset(ROWS, **how)
    stream = bc.stream(formula=GROUPED, family=FAMILY)
    for start in range(0, len(ROWS), 900):
        stream.partial_fit(ROWS[start : start + 900])
        if start == 900:
            stream.save(tmp_path / "stream.ckpt")
            stream = bc.read_stream(tmp_path / "stream.ckpt")
    parts = [bc.build_coreset(part, design=core.design, family=FAMILY, **QUIET) for part in (ROWS[:1500], ROWS[1500:])]
    union = bc.build_coreset(bc.Coreset.concat(parts), **QUIET)
    others = [bc.build_coreset(path, **how), stream.coreset(), union]
    mode = bc.find_map(core, prior=PRIOR)
    for other in others:
        assert other.lossless
        assert len(other) == len(core)
        assert other.n_total == len(ROWS)
        order = np.argsort(np.array([str(level) for level in other.groups[0].levels]))
        assert len(order) == len(core.groups[0])
        found = bc.find_map(other, prior=PRIOR)
        np.testing.assert_allclose(found.beta, mode.beta, rtol=1e-6)
        np.testing.assert_allclose(found.sd, mode.sd, rtol=1e-4)
    flat = bc.stream(family=FAMILY, intercept=True)
    once = bc.build_coreset(iter([(X[:, 1:], Y)]), family=FAMILY, intercept=True, **QUIET)
    for start in range(0, len(Y), 700):
        flat.partial_fit(X[start : start + 700, 1:], Y[start : start + 700])
    mean, _ = conjugate(X, Y, np.ones(len(Y)), 0.0, 4.0)
    for other in (flat.coreset(), once):
        np.testing.assert_allclose(bc.find_map(other, prior=PRIOR).beta, mean, rtol=1e-8)


def test_streams_of_arrays_know_groups():
    stream, order = bc.stream(family=FAMILY, intercept=True), np.argsort(-ROWS["g"].to_numpy(), kind="stable")
    for part in np.array_split(order, 5):
        stream.partial_fit(X[part, 1:], Y[part], groups={"g": ROWS["g"].to_numpy()[part]})
    found = stream.coreset()
    wanted = bc.build_coreset(X[:, 1:], Y, groups={"g": ROWS["g"].to_numpy()}, intercept=True, family=FAMILY, **QUIET)
    assert len(found) == len(wanted)
    own, other = (bc.find_map(core, prior=PRIOR) for core in (found, wanted))
    np.testing.assert_allclose(own.beta, other.beta, rtol=1e-6)
    np.testing.assert_allclose(own.sd, other.sd, rtol=1e-4)


def test_a_coresets_file_is_read_back_and_other_programs_find_y(tmp_path):
    core = bc.build_coreset(ROWS, formula=GROUPED, family=FAMILY, **QUIET)
    core.save(tmp_path / "core.parquet")
    again = bc.read_coreset(tmp_path / "core.parquet")
    assert again.rows_digest == core.rows_digest
    assert again.family == "normal(3)"
    flat = bc.build_coreset(ROWS, formula=FLAT, family=FAMILY, **QUIET).to_frame()
    root = np.sqrt(flat["weight"].to_numpy())[:, None]
    beta, *_ = np.linalg.lstsq(root * flat[["Intercept", "a", "device[tablet]"]], root[:, 0] * flat["y"], rcond=None)
    np.testing.assert_allclose(beta, np.linalg.lstsq(X, Y, rcond=None)[0], rtol=1e-8)
    with pytest.raises(DataError, match="numbers, no counts"):
        core.to_counts()


# ----------------------------------------------------------------------------------------------------------------- fit


@pytest.fixture(scope="module")
def fit():
    return bc.fit(FLAT, ROWS, family=FAMILY, random_state=1, **QUIET)


def test_a_fit_is_certified_as_exact_and_names_the_residual_sd(fit):
    assert fit.level == "certified"
    assert "The coreset is exact: with normal noise" in fit.certificate.text
    residual = math.sqrt(((Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]) ** 2).sum() / (len(Y) - 3))
    assert fit.certificate.dispersion.size == pytest.approx(residual, rel=2e-3)
    narrow = bc.fit(FLAT, ROWS, family="normal(2)", random_state=1, **QUIET)
    assert narrow.certificate.dispersion.over
    assert f"give family='normal({residual:.4g})'" in narrow.certificate.dispersion.text
    assert fit.coreset.n_total == len(ROWS)
    assert "mean(y)" in repr(fit)


@pytest.mark.parametrize(("n_groups", "each"), [pytest.param(400, 2, marks=pytest.mark.slow), (300, 3), (50, 20)])
def test_the_residual_sd_allows_for_effects_of_groups(n_groups, each):
    rng, n = np.random.default_rng(n_groups), n_groups * each
    rows = pd.DataFrame({"a": rng.normal(3.0, 2.0, n), "g": np.arange(n) % n_groups})
    rows["y"] = 10.0 + 0.7 * rows["a"] + rng.normal(0.0, 4.0, n_groups)[rows["g"]] + rng.normal(0.0, SD, n)
    found = bc.fit("y ~ a + (1 | g)", rows, family=FAMILY, random_state=1, **QUIET)
    dispersion = found.certificate.dispersion
    assert abs(dispersion.ratio - 1.0) < 4.0 * dispersion.se  # false alarms: 6e-5 each
    assert dispersion.size == pytest.approx(SD * math.sqrt(dispersion.ratio), rel=1e-12)
    effects = found.effects("g")["mean"].loc[rows["g"]].to_numpy()
    beta = found.summary()["mean"]
    gaps = rows["y"] - beta["Intercept"] - beta["a"] * rows["a"] - effects
    ignored = (gaps**2).sum() / (n - 2) / SD**2  # a control: without the effects' degrees of freedom
    assert abs(ignored - 1.0) > 4.0 * math.sqrt(2.0 / n) or each == 20


def test_rows_of_numbers_are_not_called_separated():
    rows = bc.all_rows(ROWS[:500], formula=FLAT, family=FAMILY, **QUIET)
    drawn = sample(rows, random_seed=1, **QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bc.certify(drawn, rows, ROWS[:500], **QUIET)
    assert found.level == "certified"
    away = bc.all_rows(ROWS[:500].assign(b=[False, True] * 250, c=[0.0, 1.0] * 250), formula="b ~ c", **QUIET)
    with pytest.warns(UserWarning, match="labels are completely separated"):  # a control
        bc.certify(sample(away, random_seed=1, **QUIET), away, away, **QUIET)


def test_predictions_and_averages_are_of_y_and_responses_have_noise(fit):
    new = ROWS[:6].drop(columns="y")
    beta = fit.summary()["mean"].to_numpy()
    np.testing.assert_allclose(fit.predict(new)["mean"], X[:6] @ beta, rtol=1e-6)
    np.testing.assert_allclose(fit.predict(ROWS[:6])["mean"], X[:6] @ beta, rtol=1e-6)  # y is no column of X
    drawn = fit.predict(new, kind="response", random_state=3)
    assert drawn.dtype == float
    assert drawn.std("sample").values == pytest.approx(SD, rel=0.07)
    averages = fit.average_predictions(by="device").set_index("device")["mean"]
    np.testing.assert_allclose(averages, ROWS.groupby("device")["y"].mean(), rtol=1e-3)
    assert fit.comparisons("device")["mean"].iloc[0] == pytest.approx(beta[2], rel=5e-3)
    assert fit.slopes("a")["mean"].iloc[0] == pytest.approx(beta[1], rel=5e-3)  # of fewer draws


def test_checks_hold_where_the_model_does_and_see_a_wrong_one(fit):
    assert fit.check()["outside"].sum() <= 4  # chance alone gives 5 of ten in 1e-4
    rng = np.random.default_rng(0)
    bent = ROWS.assign(y=ROWS["y"] + 3.0 * (ROWS["a"] - 41.0) ** 2 + rng.normal(size=len(ROWS)))
    wrong = bc.fit(FLAT, bent, family=FAMILY, random_state=1, **QUIET)
    assert wrong.check()["outside"].sum() > 4


@pytest.mark.parametrize("scale", [0.2, 1.0, 4.0])
def test_checks_of_weighted_rows_spread_as_the_weights_say(scale):
    rows = ROWS.assign(w=scale * ROWS["w"])
    checked = bc.fit(FLAT, rows, family=FAMILY, weights="w", random_state=1, **QUIET).check()
    each = rows["w"].sum() / len(checked)  # weight of a bin
    wanted = 2.0 * stats.norm.ppf(0.975) * SD / math.sqrt(each)  # coefficients add little
    assert (checked["97.5%"] - checked["2.5%"]).mean() == pytest.approx(wanted, rel=0.15)


def test_elpd_is_that_of_exact_leave_one_out(fit):
    sd = 2.5 * Y.std()
    Z = (X - np.append(0.0, X[:, 1:].mean(axis=0))) / np.append(1.0, X[:, 1:].std(axis=0))
    mean, covariance = conjugate(Z, Y, np.ones(len(Y)), [Y.mean(), 0.0, 0.0], sd)
    h = np.einsum("nd,de,ne->n", Z, covariance, Z)  # without row n: variance h SD^2 / (SD^2 - h)
    left = h * SD**2 / (SD**2 - h)
    centre = (Z @ mean - Y * h / SD**2) / (1.0 - h / SD**2)
    wanted = stats.norm.logpdf(Y, centre, np.sqrt(SD**2 + left))
    assert fit.certificate.elpd_loo == pytest.approx(wanted.sum(), abs=5.0 * fit.certificate.elpd_loo_mcse + 0.05)
    loo = fit.loo()
    assert getattr(loo, "elpd_loo", getattr(loo, "elpd", math.nan)) == pytest.approx(wanted.sum(), abs=1.0)
    tiny = ROWS.assign(y=ROWS["y"] / 1000.0)  # densities above 1: log densities are positive
    small = bc.fit(FLAT, tiny, family="normal(0.003)", random_state=1, **QUIET)
    assert small.certificate.elpd_loo == pytest.approx(wanted.sum() + len(Y) * math.log(1000.0), abs=3.0)


def test_fits_are_saved_updated_and_reported(fit, tmp_path):
    fit.save(tmp_path / "fit.zip")
    again = bc.read_fit(tmp_path / "fit.zip")
    pd.testing.assert_frame_equal(pd.DataFrame(again.summary()), pd.DataFrame(fit.summary()))
    assert again.certificate.dispersion == fit.certificate.dispersion
    fit.report(tmp_path / "fit.html")
    text = (tmp_path / "fit.html").read_text()
    assert "The coreset is exact" in text
    assert "mean of the responses" in text
    part = bc.fit(FLAT, ROWS[:2500], family=FAMILY, random_state=1, **QUIET)
    whole = part.update(ROWS[2500:])
    assert whole.level == "certified"
    np.testing.assert_allclose(whole.summary()["mean"], fit.summary()["mean"], rtol=5e-3)


def test_groups_fit_and_predict():
    found = bc.fit(GROUPED, ROWS, family=FAMILY, random_state=1, **QUIET)
    assert found.level == "certified"
    assert 1.2 < found.summary().loc["sigma_g", "mean"] < 3.3
    effects = found.effects("g")["mean"]
    eta = X @ found.summary()["mean"].to_numpy()[:3] + effects.loc[ROWS["g"]].to_numpy()
    np.testing.assert_allclose(found.predict(ROWS)["mean"], eta, rtol=2e-3)
    new = found.predict(ROWS[:2].assign(g=99))
    assert (new["sd"] > 1.0).all()
    assert math.isfinite(found.certificate.elpd_logo)
    sigma = found.idata.posterior["sigma_g"].values
    assert found.icc()["mean"].iloc[0] == pytest.approx((sigma**2 / (sigma**2 + SD**2)).mean(), rel=1e-6)


def test_an_update_with_new_groups_is_a_fit_of_all_rows():
    rows = ROWS.assign(g=np.where((ROWS.index > 3000) & (ROWS["g"] == 3), 77, ROWS["g"]))
    found = bc.fit(GROUPED, rows[:2500], family=FAMILY, random_state=1, **QUIET).update(rows[2500:])
    assert found.level == "certified"
    assert found.coreset.lossless
    assert set(found.coreset.groups[0].levels) == set(rows["g"])
    once = bc.find_map(bc.build_coreset(rows, formula=GROUPED, family=FAMILY, **QUIET))
    raw = found.idata.posterior["coef"].values.reshape(-1, 3)
    assert (abs(raw[:, 1:].mean(axis=0) - once.beta[1:3]) / once.sd[1:3]).max() < 0.3
    assert abs(raw[:, 1:].std(axis=0) / once.sd[1:3] - 1.0).max() < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("formula", [FLAT, GROUPED, CROSSED, SLOPES])
def test_units_of_y_do_not_matter(formula):
    found = []
    for unit in (1.0, 1e-22, 1e-10, 1e18):
        family = bc.families.Gaussian(SD * unit)
        own = bc.fit(formula, ROWS.assign(y=ROWS["y"] * unit), family=family, random_state=1, **QUIET)
        assert own.level == "certified"
        assert own.summary()["ess_bulk"].min() > 800
        summary = own.summary().drop(index="rho_g[1,a]", errors="ignore")  # which has no unit
        found.append(summary[["mean", "sd"]].to_numpy() / unit)
    for other in found[1:]:
        if formula == SLOPES:  # another path: within 5 Monte Carlo errors
            assert (abs(other[:, 0] - found[0][:, 0]) / found[0][:, 1]).max() < 0.25
            assert abs(other[:, 1] / found[0][:, 1] - 1.0).max() < 0.25
        else:
            np.testing.assert_allclose(other, found[0], rtol=1e-5)


def test_clusters_give_the_sandwich():
    clusters = np.arange(len(ROWS)) % 97
    found = bc.fit(FLAT, ROWS, family=FAMILY, cluster=clusters, random_state=1, **QUIET).summary()["sd"].to_numpy()
    gaps = Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    scores = np.array([X[clusters == g].T @ gaps[clusters == g] for g in range(97)])
    bread = np.linalg.inv(X.T @ X)
    meat = scores.T @ scores * len(scores) / (len(scores) - 1.0)
    np.testing.assert_allclose(found, np.sqrt(np.diag(bread @ meat @ bread)), rtol=0.05)  # noise of 4,000 draws


def test_leave_one_out_names_the_better_sd(fit):
    other = bc.fit(FLAT, ROWS, family="normal(5)", random_state=1, **QUIET)
    models = {"3": (fit.idata, fit.coreset), "5": (other.idata, other.coreset)}
    assert list(bc.loo_compare(models, ROWS, **QUIET).index) == ["3", "5"]


@pytest.mark.slow
def test_nuts_and_checks_for_arviz_know_numbers(fit):
    core = bc.build_coreset(ROWS, formula=FLAT, family=FAMILY, standardize=True, **QUIET)
    drawn = sample(core, sampler="nuts", draws=500, chains=2, random_seed=1, **QUIET).posterior["beta"].values
    mode = bc.find_map(core)
    assert (abs(drawn.mean(axis=(0, 1)) - mode.beta) / mode.sd).max() < 5.0 / math.sqrt(300.0)
    check = fit.inference_data(ROWS[:500])
    np.testing.assert_array_equal(check["observed_data"]["y"].values, ROWS["y"][:500])
    replicated = check["posterior_predictive"]["y"].values
    assert abs((replicated - replicated.mean(axis=(0, 1))).std() / SD - 1.0) < 0.02
    rows = bc.all_rows(ROWS[:9], design=fit.coreset.design, family=FAMILY, **QUIET)
    wanted = stats.norm.logpdf(
        Y[:9], (X[:9] @ fit.coreset.design.raw_coefficients(fit._used.posterior["beta"].values).reshape(-1, 3).T).T, SD
    )
    np.testing.assert_allclose(log_likelihood(fit.idata, rows).values.reshape(-1, 9), wanted, rtol=1e-9)
    log_p = fit.inference_data(ROWS[:9], max_draws=10**6)["log_likelihood"]["y"].values
    np.testing.assert_allclose(log_p.reshape(-1, 9), wanted, rtol=1e-9)


def test_pymc_agrees(fit):
    core = bc.build_coreset(ROWS, formula=FLAT, family=FAMILY, **QUIET)
    model = bc.model(core, prior=PRIOR)
    beta = np.array([50.0, 0.7, -2.0])
    own = likelihood_terms(beta, core, FAMILY).value + float(PRIOR.log_density(beta))
    assert float(model.compile_logp()({"beta": beta})) == pytest.approx(own, rel=1e-9)


def test_log_evidence_is_the_closed_form():
    core = bc.build_coreset(ROWS, formula=FLAT, family=FAMILY, **QUIET)
    found = bc.log_evidence(core, prior=PRIOR, random_state=1)
    wanted = stats.multivariate_normal.logpdf(Y[:600], np.zeros(600), SD**2 * np.eye(600) + 16.0 * X[:600] @ X[:600].T)
    some = bc.build_coreset(ROWS[:600], formula=FLAT, family=FAMILY, **QUIET)
    assert bc.log_evidence(some, prior=PRIOR, random_state=1).log_evidence == pytest.approx(wanted, abs=0.05)
    assert found.log_evidence < wanted


def test_the_command_line_fits_numbers(tmp_path, capsys):
    ROWS.to_parquet(tmp_path / "rows.parquet")
    out = str(tmp_path / "fit")
    main(["fit", str(tmp_path / "rows.parquet"), FLAT, "--family", "normal(3)", "--output", out, "--seed", "1"])
    assert "normal(3) regression" in capsys.readouterr().out


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ({"offset": "w"}, r"offset is given, .* give y - offset as y"),
        ({"trials": "w"}, r"trials is given, .* family='logistic'"),
        ({"exposure": "w"}, r"exposure is given, .* family='poisson'"),
        ({"positive": 1}, r"positive=1 is given, but the family takes numbers"),
        ({"method": "calibrated"}, r"method='calibrated' chooses rows, .* use 'auto' or 'aggregate'"),
        ({"method": "multilevel"}, r"method='multilevel' chooses rows"),
        ({"size": 10}, r"size=10 is given, and method='aggregate', .* takes none"),
    ],
)
def test_arguments_that_do_not_go_with_numbers_are_refused(beside, said):
    with pytest.raises((DataError, ValueError, TypeError), match=said):
        bc.build_coreset(ROWS, formula=FLAT, family=FAMILY, **beside, **QUIET)


def test_responses_that_are_no_numbers_are_refused(tmp_path):
    for bad, said in ((math.nan, "nan in row 7"), (math.inf, "inf in row 7")):
        y = Y.copy()
        y[7] = bad
        for data, own in ((X[:, 1:], {"y": y}), (ROWS.assign(y=y), {"formula": FLAT})):
            with pytest.raises(DataError, match=f"is no finite number .*{said}"):
                bc.build_coreset(data, **own, family=FAMILY, **QUIET)
    y = Y.copy()
    y[7] = math.nan
    with pytest.warns(UserWarning, match="left out 1 of 4,000 rows"):
        core = bc.build_coreset(ROWS.assign(y=y), formula=FLAT, family=FAMILY, missing="drop", **QUIET)
    assert core.n_total == len(ROWS) - 1
    mean, _ = conjugate(np.delete(X, 7, 0), np.delete(Y, 7), np.ones(len(Y) - 1), 0.0, 4.0)
    np.testing.assert_allclose(bc.find_map(core, prior=PRIOR).beta, mean, rtol=1e-8)
    with pytest.raises(DataError, match="every response is 4: numbers that do not vary"):
        bc.build_coreset(ROWS.assign(y=4.0), formula=FLAT, family=FAMILY, **QUIET)
    with pytest.raises(DataError, match="must be numbers"):
        bc.build_coreset(X[:, 1:], np.where(Y > 80, "yes", "no"), family=FAMILY, **QUIET)


def test_other_families_are_refused_for_a_coreset_of_numbers():
    core = bc.build_coreset(ROWS, formula=FLAT, family=FAMILY, **QUIET)
    with pytest.raises(DataError, match="takes labels, and the coreset was built of numbers"):
        sample(core, family="logistic", **QUIET)
    labels = bc.build_coreset(X[:, 1:], np.median(Y) < Y, size=200, random_state=1, **QUIET)
    with pytest.raises(DataError, match="takes numbers, and the coreset was built of labels"):
        sample(labels, family=FAMILY, **QUIET)
    with pytest.raises(DataError, match="have no offset, and those of a normal family have their responses"):
        bc.find_map(WeightedData(X, np.ones(len(X), np.int8), np.ones(len(X)), np.arange(len(X))), family="normal(3)")
    with pytest.raises(DataError, match=r"more than 5 classes .* for other numbers 'normal'"):
        bc.build_coreset(X, Y, **QUIET)
    with pytest.raises(DataError, match="beside no common intercept"):
        bc.build_coreset(ROWS, formula="y ~ 0 + a + (1 + a | g)", family=FAMILY, **QUIET)


def test_labels_of_any_text_are_no_numbers(fit):
    rows = ROWS.assign(b=np.where(np.median(Y) < Y, "number", ""))
    labels = bc.build_coreset(rows, formula="b ~ a + device", size=200, random_state=1, **QUIET)
    assert labels.classes == ("", "number")
    assert labels.response == "labels"
    models = {"n": (fit.idata, fit.coreset), "l": (sample(labels, random_seed=1, **QUIET), labels)}
    said = r"models\['l'\] has the labels \('', 'number'\), models\['n'\] numbers; build both of one response"
    with pytest.raises(DataError, match=said):
        bc.loo_compare(models, rows, **QUIET)


@pytest.mark.parametrize("formula", [FLAT, GROUPED])
def test_numbers_too_large_or_too_far_from_0_are_refused_and_others_fitted(formula):
    how = {"formula": formula, "family": FAMILY, **QUIET}
    with pytest.raises(
        DataError, match=r"y.? is above 1e\+24 in size in .* first 1e\+30 in row 7; rescale .*, and the sd"
    ):
        bc.build_coreset(ROWS.assign(y=np.where(ROWS.index == 7, 1e30, Y)), **how)
    with pytest.raises(DataError, match=r"y are up to 1e\+12 in size, and their range is .*; subtract the mean of y"):
        bc.build_coreset(ROWS.assign(y=Y + 1e12), **how)
    far = bc.fit(formula, ROWS.assign(y=Y + 1e11), family=FAMILY, random_state=1, **QUIET)
    large = bc.fit(formula, ROWS.assign(y=Y * 1e21), family=bc.families.Gaussian(SD * 1e21), random_state=1, **QUIET)
    near = bc.fit(formula, ROWS, family=FAMILY, random_state=1, **QUIET).summary()
    assert far.level == large.level == "certified"
    for other, unit in ((far, 1.0), (large, 1e21)):
        gaps = other.summary()["mean"].to_numpy()[1:] / unit - near["mean"].to_numpy()[1:]
        assert (abs(gaps) / near["sd"].to_numpy()[1:]).max() < 1e-2
