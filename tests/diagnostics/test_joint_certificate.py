"""Certificates of several group terms, or of slopes that vary."""

import json
from copy import deepcopy
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.data.design import Grouping
from bayescore.diagnostics import row_sums
from bayescore.diagnostics.certificate import joint
from bayescore.diagnostics.certificate.joint import JointDraws
from bayescore.diagnostics.certificate.whole import weigher_of
from bayescore.diagnostics.loo import loo
from bayescore.diagnostics.row_sums import DrawnApproximation, RowSums, RowSumsPlan
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import log_likelihoods
from bayescore.models.predictor import Factor, Predictor
from bayescore.numerics.psis import FullWeights
from bayescore.samplers.posterior import draws_digest, read_posterior
from tests import group_draws
from tests.coresets.celled import celled

pytestmark = pytest.mark.essential("the certificate of several group terms by a sample")


@pytest.mark.parametrize("second", [0.0, 1e-249])
def test_one_draw_with_all_the_weight_has_figures_without_warnings(second):
    w = np.zeros(200)
    w[[3, 7]] = 1.0, second
    u, groups = np.random.default_rng(0).normal(size=(200, 4)), (Grouping("g", ("a", "b", "c", "d")),)
    weights = FullWeights(np.zeros(200), w, 0.0)
    predictor = Predictor(np.zeros((200, 1)), [Factor(groups[0], u[:, :, None])])
    told = {"family": FAMILIES["logistic"], "n_chains": 1, "sums": None, "labels": np.ones((4, 2))}
    found = JointDraws(at=np.arange(200), weights=weights, predictor=predictor, **told).effects(1.0)
    assert np.isfinite(found.to_numpy()).all()
    assert (found["log_sd_error_mcse"] > 0.4).all()


@pytest.fixture(scope="module")
def drawn():
    """Return rows of slopes and a crossed factor, their coreset and draws of its posterior."""
    frame = celled(n_a=12, n_b=6, median=20, slope=0.7, seed=4)
    told = {"formula": "y ~ w + x + z + (1 + x | a) + (1 | b)", "method": "multilevel", "random_state": 0}
    core = bc.build_coreset(frame, **told, progressbar=False)
    return frame, core, group_draws.sampled(core)


def shift(draws, by):
    return draws + by * draws.std(axis=(0, 1))


def wider(draws):
    mean = draws.mean(axis=(0, 1))
    return mean + 1.5 * (draws - mean)


def permuted(draws):
    order = np.random.default_rng(0).permutation(draws.shape[0] * draws.shape[1])
    return draws.reshape(-1, *draws.shape[2:])[order].reshape(draws.shape)


def one_level(draws):
    draws[:, :, 3] = shift(draws[:, :, 3], 1.0)
    return draws


WRONG = {
    "none": ("beta", lambda draws: draws, ""),
    "all coefficients shifted": ("beta", lambda draws: shift(draws, 0.5), "misses"),
    "wider coefficients": (
        "beta",
        lambda draws: draws.mean(axis=(0, 1)) + 1.5 * (draws - draws.mean(axis=(0, 1))),
        "misses",
    ),
    "larger sds": ("sigma_a", lambda draws: 1.5 * draws, "log sigma_a"),
    "other correlations": ("rho_a", lambda draws: -draws, "rho_a"),
    "one level's effects shifted": ("u_b", one_level, "'u_b[3]' misses"),
    "effects of other draws": ("u_a", permuted, "miss"),
}


@pytest.mark.parametrize("name", WRONG)
def test_draws_of_another_density_miss_steins_identities(drawn, name):
    """Digests are as good as those of `sample`; exact draws are refused in less than 1%."""
    frame, core, idata = drawn
    variable, change, said = WRONG[name]
    wrong = deepcopy(idata)
    values = wrong["posterior"][variable].values
    values[:] = change(values.copy())
    attrs = wrong["posterior"].attrs
    if variable == "beta":
        wrong["posterior"]["coef"].values[:] = core.design.raw_coefficients(values)
        attrs["posterior_of"] = json.dumps(json.loads(attrs["posterior_of"]) | {"draws": draws_digest(values)})
    else:
        attrs["effects_of"] = json.dumps(json.loads(attrs["effects_of"]) | {variable: draws_digest(values)})
    found = bc.certify(wrong, core, frame, label="y", progressbar=False)
    assert ("Stein's identity" in found.text) == bool(said), found.text
    assert said in found.text
    assert found.n_passes == (0 if said else 1)


def test_leave_one_out_is_that_of_all_rows(drawn):
    """Given effects; `loo` does without sampled rows and cumulants, and its weights are all rows' own."""
    frame, core, idata = drawn
    found = bc.certify(idata, core, frame, label="y", max_draws=1000, progressbar=False)
    assert found.trusted
    rows = loo(idata, core, frame, label="y", max_draws=1000, progressbar=False)
    elpd = rows.elpd_loo if hasattr(rows, "elpd_loo") else rows.elpd
    assert abs(found.elpd_loo - elpd) < 4.0 * found.elpd_loo_mcse
    assert found.elpd_loo_mcse < found.elpd_loo_se
    assert found.elpd_loo_rows == 1000
    assert "elpd_loo" in repr(found)


# --- sums by a sample of the rows ---------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """Samples of 600 of the rows."""
    monkeypatch.setattr(row_sums, "sample_rows", lambda *_: 600)


def predicted(drawn, seed, times=1.0):
    """Return the error of differences between draws, and the one that is said; the sample's weights by `times`."""
    frame, core, idata = drawn
    draws = read_posterior(idata, "idata").predictor().take(np.arange(0, 1000, 10))
    rows = bc.all_rows(frame, label="y", design=core.design, progressbar=False)
    with mock.patch.object(row_sums, "_SEED", seed):
        near = RowSumsPlan.near(DrawnApproximation.of(FAMILIES["logistic"], draws), core)
        found = RowSums.of(Dataset(rows.as_source()), near)
    sample = found.sample.rows
    weighed = found.sample._replace(rows=sample.with_weights(times * sample.weights))
    sums = replace(found, sample=weighed).at(draws)
    return (sums.log_likelihood - log_likelihoods(draws, rows, FAMILIES["logistic"])).std(), sums.error


@pytest.mark.statistical(rate=1e-5)
def test_errors_of_sums_are_as_large_as_they_say(drawn, small, monkeypatch):
    """Of 30 samples; the mean square of 30 ratios lies within 0.3 and 2.5 but once in 10^5, if they are normal."""
    monkeypatch.setattr(row_sums, "MAX_SUM_ERROR", 1.0)
    ratio = np.array([np.divide(*predicted(drawn, seed)) for seed in range(30)])
    assert 0.3 < np.mean(ratio**2) < 2.5
    assert np.mean([np.divide(*predicted(drawn, seed, times=0.3)) ** 2 for seed in range(5)]) > 2.5


def test_a_certificate_by_a_sample_of_the_rows_is_that_of_all_rows(drawn, monkeypatch):
    """Most of the rows are in the sample here, as what is beyond second order grows where groups are small."""
    frame, core, idata = drawn
    monkeypatch.setattr(row_sums, "sample_rows", lambda *_: len(frame) * 9 // 10)
    monkeypatch.setattr(joint, "MIN_SAVING", 0)
    monkeypatch.setattr(row_sums, "MAX_SUM_ERROR", 0.05)
    found = bc.certify(idata, core, frame, label="y", progressbar=False)
    monkeypatch.setattr(row_sums, "MAX_SUM_ERROR", 0.0)
    exact = bc.certify(idata, core, frame, label="y", progressbar=False)
    assert (found.n_passes, exact.n_passes) == (1, 2)
    assert found.level is exact.level
    assert found.log_ratio_sd == pytest.approx(exact.log_ratio_sd, abs=0.03)
    assert found.elpd_loo == pytest.approx(exact.elpd_loo, abs=2.0 * exact.elpd_loo_mcse)
    np.testing.assert_allclose(found.coordinates["mean_error_sd"], exact.coordinates["mean_error_sd"], atol=0.05)
    np.testing.assert_allclose(found.effects["mean_error_sd"], exact.effects["mean_error_sd"], atol=0.05)
    np.testing.assert_array_equal(found.effects["weight"], exact.effects["weight"])


def test_the_pass_ships_few_draws_and_no_names(drawn):
    frame, core, idata = drawn
    draws = read_posterior(idata, "idata").predictor()
    near = row_sums.DrawnApproximation.of(FAMILIES["logistic"], draws)
    assert len(near.predictor) < 10
    assert all(not own.grouping.levels for own in near.predictor.factors)
    rows = bc.all_rows(frame, label="y", design=core.design, progressbar=False)
    eta, squares = near.predictors(rows)
    np.testing.assert_allclose(eta, draws.eta(rows).mean(axis=1))
    assert 0.3 < np.mean(squares / draws.eta(rows).var(axis=1)) < 3.0


def test_effects_that_rows_tell_far_better_than_the_intercept_are_not_refused():
    """Groups differ by 300 and 3,000 sds of the noise. Control: effects about as far off as the noise of a group."""
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"x": rng.normal(size=900), "g": rng.integers(0, 12, 900)})
    for ratio in (300.0, 3000.0):
        y = 1.0 + 0.5 * rows["x"] + rng.normal(size=12)[rows["g"]] + rng.normal(size=900) / ratio
        told = {"formula": "y ~ x + (1 | g)", "family": "normal", "progressbar": False}
        core = bc.build_coreset(rows.assign(y=y), **told)
        idata = bc.sample(core, random_seed=1, progressbar=False)
        strategy = weigher_of(idata, read_posterior(idata, "idata"), core, Dataset(core.as_source(), core.design))
        assert strategy.missed_identities() == ""
        u = idata.posterior["u_g"]
        u[:] = u.values + rng.normal(size=u.shape) / ratio / np.sqrt(75.0)
        strategy = weigher_of(idata, read_posterior(idata, "idata"), core, Dataset(core.as_source(), core.design))
        assert "misses Stein's identity" in strategy.missed_identities()


def factors(levels, sds, n=600, seed=0):
    """Return counts of two crossed factors, given their numbers of levels and sds of effects."""
    rng = np.random.Generator(np.random.PCG64(seed))
    codes = [rng.integers(0, k, n) for k in levels]
    eta = 0.5 + sum(rng.normal(0.0, sd, k)[code] for k, sd, code in zip(levels, sds, codes, strict=True))
    return pd.DataFrame({"y": rng.poisson(np.exp(eta)), "a": codes[0], "b": codes[1]})


def test_the_logarithm_of_an_sd_that_may_be_0_is_judged_by_quartiles_and_tails():
    """The error of its sd is that of a left tail; the control is a factor whose sd is known."""
    rows = factors((30, 20), (0.5, 0.0))
    core = bc.all_rows(rows, formula="y ~ 1 + (1 | a) + (1 | b)", family="poisson", progressbar=False)
    idata = bc.sample(core, random_seed=1, progressbar=False)
    found = bc.certify(idata, core, rows, label="y", progressbar=False)
    assert found.level == "certified"
    assert "A long tail decides the sd of 'log sigma_b': median and quartiles were judged" in found.text
    assert found.coordinates["mean"].isna().tolist() == [name == "log sigma_b" for name in found.coordinates.index]


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_few_levels_are_certified_and_what_only_the_prior_tells_is_said(levels):
    rows = factors((levels, 4), (0.1, 0.0))
    fit = bc.fit("y ~ 1 + (1 | a)", rows, family="poisson", random_state=1, progressbar=False)
    assert fit.level == "certified"
    text = fit.certificate.text
    assert ("few levels leave the sds of effects to their prior" in text) == ("'Intercept': median" in text)
    assert levels > 3 or "few levels leave" in text
