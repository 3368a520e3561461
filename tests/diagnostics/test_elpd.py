"""The certificate's elpd against ArviZ's on the full data's posterior, and the calibration of its numerical error.

Rates: a single comparison allows 6 standard errors, 2e-9, and counts as 1e-6, because the errors are estimated from
draws with long tails. Limits of calibrations are six sds from what many seeds showed, which their docstrings say.
"""

import math
import warnings
from itertools import pairwise
from types import SimpleNamespace

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy import special

import bayescore as bc
from bayescore import compat
from bayescore.diagnostics import elpd
from bayescore.diagnostics.elpd import LeftOut
from bayescore.diagnostics.results import CertificateData, Level
from bayescore.diagnostics.row_sums import EveryRowPlan, Gathered
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.psis import psislw
from bayescore.numerics.sampling import Threshold
from bayescore.types import WeightedData
from tests.diagnostics.helpers import SMOOTHED_APART
from tests.hand_made import log_likelihood

logistic, probit = FAMILIES["logistic"], FAMILIES["probit"]


def some_rows(n, n_features, seed=0, weights=False):
    """Return rows that are the same under every shift: how many k-hats are large hangs on them."""
    rng = np.random.Generator(np.random.PCG64(seed))
    X = np.column_stack([np.ones(n), rng.standard_t(5, size=(n, n_features - 1))])
    y = np.where(rng.random(n) < special.expit(X @ rng.normal(size=n_features) * 0.5), 1, -1).astype(np.int8)
    return WeightedData(X, y, rng.uniform(0.3, 3.0, n) if weights else np.ones(n), np.arange(n))


def full_posterior(data, draws=500, family="logistic", seed=1):
    return bc.sample(data, family, sampler="mala", draws=draws // 4, chains=4, random_seed=seed, progressbar=False)


def arviz_loo(idata, data):
    idata = idata.copy()
    idata["log_likelihood"] = log_likelihood(idata, data).to_dataset()
    with warnings.catch_warnings(action="ignore"):  # one k-hat in hundreds is large
        loo = az.loo(idata, pointwise=True, reff=1.0)
    if not compat.ARVIZ_1:
        return SimpleNamespace(elpd=loo.elpd_loo, se=loo.se, pareto_k=loo.pareto_k)
    n = loo.n_data_points  # its standard error divides by n - 1
    return SimpleNamespace(elpd=loo.elpd, se=loo.se * math.sqrt((n - 1) / n), pareto_k=loo.pareto_k)


def figures(fields):
    """Return a certificate with the fields of `elpd_loo` and no others."""
    return CertificateData(Level.CERTIFIED, "", pd.DataFrame(), **fields)


def from_normal(data, n_draws, seed, *, shift=0.0, corrected=True, family=logistic):
    """Return the elpd from independent draws of a normal distribution `shift` sds from the mode."""
    mode = bc.find_map(data, family.name)
    z = np.random.default_rng(seed).normal(size=(n_draws, data.n_features))
    draws = mode.beta + (z + shift) @ mode.factor.T
    ratio = log_likelihoods(draws, data, family) - 0.5 * (draws**2).sum(axis=1) / 16 + 0.5 * (z**2).sum(axis=1)
    ratio = ratio - ratio.max() if corrected else np.zeros(n_draws)
    w = np.exp(psislw(ratio)[0]) if corrected else np.full(n_draws, 1 / n_draws)
    return figures(elpd.elpd_loo(elpd.pass_sums(draws, 0, data, family), ratio, w, draws, family))


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_it_is_arvizs_where_all_rows_are_sampled(family):
    rows = some_rows(700, 4)
    full = bc.all_rows(rows.X, rows.y, family=family, progressbar=False)
    idata = full_posterior(full, family=family)
    cert, loo = bc.certify(idata, full, rows.X, rows.y, progressbar=False), arviz_loo(idata, full)
    assert cert.elpd_loo_rows == 700
    assert cert.elpd_loo == pytest.approx(loo.elpd, abs=SMOOTHED_APART)
    assert cert.elpd_loo_se == pytest.approx(loo.se, rel=SMOOTHED_APART)
    assert cert.elpd_loo_bad_k == (loo.pareto_k > 0.7).sum()
    assert 0.01 < cert.elpd_loo_mcse < 1
    assert "elpd_loo −" in repr(cert)


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("method", ["calibrated", "uniform"])
def test_a_coreset_and_a_sample_of_rows_give_the_full_datas(method):
    rows = some_rows(3000, 5, seed=3)
    about = {"intercept": False, "progressbar": False}
    core = bc.build_coreset(
        rows.X, rows.y, method=method, size=300 if method == "calibrated" else 2700, random_state=0, **about
    )
    full = bc.all_rows(rows.X, rows.y, **about)
    reference = full_posterior(full, 1200, seed=5)
    loo = arviz_loo(reference, full)
    error = bc.certify(reference, full, rows.X, rows.y, max_draws=1200, progressbar=False)
    idata = bc.sample(core, sampler="mala", random_seed=6, progressbar=False)
    cert = bc.certify(idata, core, rows.X, rows.y, max_draws=1000, progressbar=False)
    assert cert.level in ("certified", "corrected")
    assert cert.elpd_loo_rows == 1000
    assert cert.elpd_loo_mcse < 1
    assert abs(cert.elpd_loo - loo.elpd) < 6 * math.hypot(cert.elpd_loo_mcse, error.elpd_loo_mcse)
    assert cert.elpd_loo_se == pytest.approx(loo.se, rel=0.05)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("family", [logistic, probit])
def test_importance_weights_correct_for_a_poor_posterior(family):
    rows = some_rows(500, 4, seed=7)
    truth = from_normal(rows, 4000, 8, family=family)
    poor = from_normal(rows, 4000, 9, shift=0.7, family=family)
    wrong = from_normal(rows, 4000, 9, shift=0.7, corrected=False, family=family)  # negative control

    def errors(found):
        return abs(found.elpd_loo - truth.elpd_loo) / math.hypot(found.elpd_loo_mcse, truth.elpd_loo_mcse)

    assert errors(poor) < 6
    assert errors(wrong) > 8


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.slow
def test_the_error_of_the_draws_is_calibrated():
    """Over 400 seeds 84% have a figure; squares of their standardised errors have a mean of 1.5 and an sd of 2.3.

    The mean over 168 of 200 seeds then has an sd of 0.18: 2.6 is six of them away, and 0.4 as many.
    """
    rows = some_rows(100, 3, seed=10)
    truth = from_normal(rows, 20_000, 11)
    runs = [from_normal(rows, 500, seed, shift=0.2) for seed in range(200)]
    runs = [run for run in runs if not math.isnan(run.elpd_loo)]
    assert len(runs) >= 130  # k-hat is bad in several rows of the others; 168 expected, their sd 5
    z = np.array([(run.elpd_loo - truth.elpd_loo) / run.elpd_loo_mcse for run in runs])
    assert 0.4 < np.mean(z**2) < 2.6
    assert np.mean((2 * z) ** 2) > 2.6  # negative control: half the error


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.slow
def test_the_error_of_the_sampled_rows_is_calibrated(monkeypatch):
    """Against all rows and the same draws, whose error is taken out of both.

    Over 150 seeds squares of standardised errors have a mean of 1.4 and an sd of 3.3: their mean over 120 an sd of 0.3,
    of which 3.5 is seven away.
    """
    rows = some_rows(2000, 25, seed=12, weights=True)
    monkeypatch.setattr(elpd, "ROWS", 2000)
    truth = from_normal(rows, 500, 13)
    monkeypatch.setattr(elpd, "ROWS", 200)
    monkeypatch.setattr(elpd, "draws_variance", lambda *_: 0.0)
    runs = []
    for seed in range(120):
        monkeypatch.setattr(elpd, "_SEED", seed)
        runs.append(from_normal(rows, 500, 13))
    errors = np.array([run.elpd_loo - truth.elpd_loo for run in runs])
    assert 0.4 < np.mean([(e / run.elpd_loo_mcse) ** 2 for e, run in zip(errors, runs, strict=True)]) < 3.5
    assert abs(errors.mean()) < 6 * errors.std() / math.sqrt(120)
    assert np.mean([run.elpd_loo_se for run in runs]) == pytest.approx(truth.elpd_loo_se, rel=0.02)
    monkeypatch.setattr(
        elpd,
        "psis_loo",
        lambda log_p, _: LeftOut(log_p.mean(axis=1), np.zeros(len(log_p)), np.zeros_like(log_p)),
    )
    wrong = np.array([from_normal(rows, 500, 13).elpd_loo])  # negative control: no row left out
    assert np.abs(wrong - truth.elpd_loo).min() > 6 * errors.std()


def test_a_weight_is_a_number_of_copies():
    rows = some_rows(150, 3, seed=14)
    counts = np.arange(150) % 4 + 1
    copies = rows.take(np.repeat(np.arange(150), counts))
    a = from_normal(rows.with_weights(counts.astype(float)), 500, 15)
    b = from_normal(copies, 500, 15)
    for field in ("elpd_loo", "elpd_loo_se"):
        assert getattr(a, field) == pytest.approx(getattr(b, field), rel=1e-8)
    assert a.elpd_loo_mcse == pytest.approx(b.elpd_loo_mcse, rel=1e-6)


def test_the_sample_does_not_depend_on_the_cuts(monkeypatch):
    monkeypatch.setattr(elpd, "ROWS", 100)
    rows, draws = some_rows(3000, 3), np.random.default_rng(0).normal(size=(100, 3)) * 0.1
    whole = elpd.pass_sums(draws, 0, rows, logistic)
    cuts = [0, 40, 1000, 1001, 2999, 3000]
    plan = EveryRowPlan(draws, logistic)
    gathered, samples = Gathered(plan), []
    for a, b in pairwise(cuts):
        part = rows.take(slice(a, b))
        gathered.add(plan(a, part, Threshold()))
        samples.append(elpd.rows_left_out(a, part))
    total = gathered.row_sums(elpd.left_out_of(samples)).at(draws)
    assert set(total.sample.positions) == set(whole.sample.positions)
    assert total.sample.total == 3000
    assert len(total.sample.positions) == 100
    np.testing.assert_allclose(total.log_likelihood, whole.log_likelihood)
    np.testing.assert_allclose([total.variance, total.square], [whole.variance, whole.square])


def test_rows_that_say_nothing_have_no_tail():
    log_p = np.full((3, 200), -1e-12)
    left = elpd.psis_loo(log_p, np.zeros(200))
    np.testing.assert_allclose(left.value, -1e-12, rtol=1e-3)
    assert (left.k == 0).all()


def test_it_is_missing_without_trust():
    rows = some_rows(6000, 5, seed=3)
    frame = pd.DataFrame(rows.X, columns=list("abcde"))
    core = bc.build_coreset(frame, rows.y, method="uniform", size=150, random_state=0, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=20, random_seed=6, progressbar=False)
    cert = bc.certify(idata, core, frame, rows.y, progressbar=False)
    assert cert.level == "not certified"
    assert math.isnan(cert.elpd_loo)
    assert math.isnan(cert.elpd_loo_se)
    assert "elpd" not in repr(cert)


def few_rows(seed, n=15):
    """Return n rows of an intercept and a t2 column."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_t(2, size=n)])
    y = np.where(rng.random(n) < special.expit(X @ [0.3, 1.5]), 1, -1)
    return bc.all_rows(X, y, progressbar=False)


def by_mala(full, prior_sd):
    """Return the elpd from 500 of 2,000 draws."""
    idata = bc.sample(
        full, prior=bc.priors.Normal(0, prior_sd), sampler="mala", draws=500, random_seed=0, progressbar=False
    )
    draws = idata.posterior["beta"].to_numpy()[:, ::4]
    flat, even = draws.reshape(-1, 2), np.full(500, 1 / 500)

    def density(at):
        return log_likelihoods(at, full, logistic) - 0.5 * (at**2).sum(axis=1) / prior_sd**2

    sums = elpd.pass_sums(flat, 0, full, logistic)
    return figures(elpd.elpd_loo(sums, np.zeros(500), even, flat, logistic, n_chains=4, density=density))


def exact_loo(full, prior_sd):
    """Return the elpd by quadrature over 4 prior sds to each side: each row is left out exactly."""
    grid = np.linspace(-4 * prior_sd, 4 * prior_sd, 601)
    at = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    log_p = -np.logaddexp(0.0, -(full.Z @ at.T))
    total = log_p.sum(axis=0) - 0.5 * (at**2).sum(axis=1) / prior_sd**2
    return sum(special.logsumexp(total) - special.logsumexp(total - row) for row in log_p)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*have not mixed:UserWarning", "ignore:.*effective sample size:UserWarning")
def test_few_rows_under_a_wide_prior_get_no_figure_or_an_honest_one():
    """Seed 2: an elpd of -11.3 was told to be -9.4 ± 0.15. False-alarm rate below 0.1%: 4 figures within 4 errors."""
    found = {seed: (by_mala(few_rows(seed), 100), few_rows(seed)) for seed in (2, 6, 7, 8, 12)}
    assert math.isnan(found[2][0].elpd_loo)
    figures = {seed: pair for seed, pair in found.items() if not math.isnan(pair[0].elpd_loo)}
    assert len(figures) >= 2
    for own, full in figures.values():
        assert abs(own.elpd_loo - exact_loo(full, 100)) < 4 * own.elpd_loo_mcse


def test_moment_matching_integrates_a_row_whose_k_is_bad():
    """Within 4 errors, false-alarm rate 6e-5."""
    full = few_rows(17)
    moved = by_mala(full, 10)
    assert moved.elpd_loo_moved >= 3
    assert moved.elpd_loo_bad_k == 0
    assert abs(moved.elpd_loo - exact_loo(full, 10)) < 4 * moved.elpd_loo_mcse < 0.6


def test_there_is_no_figure_where_k_is_bad_in_many_rows():
    bad = from_normal(some_rows(100, 3, seed=10), 500, 30, shift=0.2)
    assert bad.elpd_loo_bad_k > 40  # ArviZ 0.23 counts 60, ArviZ 1 counts 52
    assert math.isnan(bad.elpd_loo)
    assert math.isnan(bad.elpd_loo_mcse)
    told = bad._elpd_text
    assert told.startswith(f"k-hat above 0.7 in {bad.elpd_loo_bad_k} of 100 rows, too many for a figure")


@pytest.mark.parametrize("far", [0.0, 1e4])
def test_there_is_no_figure_where_draws_without_weight_are_far_off(far):
    """Their weights are 0, but second cumulants are over all draws, and summed to an elpd above 0."""
    data = some_rows(3000, 2, seed=1)
    mode = bc.find_map(data, "logistic")
    z = np.random.default_rng(0).normal(size=(2000, 2))
    z[:5] += far
    ratio = np.where(np.arange(2000) < 5, -far, 0.0)
    draws, w = mode.beta + z @ mode.factor.T, np.exp(psislw(ratio)[0])
    found = figures(elpd.elpd_loo(elpd.pass_sums(draws, 0, data, logistic), ratio, w, draws, logistic))
    assert found.elpd_loo_bad_k <= 10
    assert math.isnan(found.elpd_loo) is (far > 0.0)
    told = found._elpd_text
    assert ("the draws are off" in told) is (far > 0.0)


def test_certify_integrates_rows_whose_k_is_bad():
    full = few_rows(7)
    idata = bc.sample(full, sampler="mala", draws=2000, random_seed=0, progressbar=False)
    found = bc.certify(idata, full, full, progressbar=False)
    assert found.level is Level.CERTIFIED
    assert found.elpd_loo_moved >= 2
    assert abs(found.elpd_loo - exact_loo(full, 4)) < 4 * found.elpd_loo_mcse < 0.6
