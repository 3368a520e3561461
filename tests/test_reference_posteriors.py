"""Reference posteriors meet posteriordb's definition, and fresh coresets' corrected posteriors agree with them.

Means and sds of coresets are compared within 5.5 standard errors, ours and the reference's: 4e-8 a comparison, counted
as 1e-7, of at most 50 in a case.
"""

import numpy as np
import pytest

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.numerics.moments import moments_mcse
from benchmarks.accuracy.reference_posteriors import summary
from benchmarks.accuracy.reference_posteriors.data import DATA, SETTINGS, WEIGHTED, rows_of
from benchmarks.accuracy.reference_posteriors.make import (
    CHAINS,
    DRAWS,
    LEVELS,
    LINKS,
    MAX_LAG_1,
    MAX_RHAT,
    PRIOR,
    meets,
)

EVERY = [(name, family) for name in (*DATA, *WEIGHTED) for family in LINKS]


def misses(draws, family, name):
    """Return the largest distance of a mean or sd from the reference, in standard errors of both."""
    known = {key: np.array(value) for key, value in summary(name, family).items() if key[:2] in ("me", "sd")}
    mean = np.abs(draws.mean(axis=(0, 1)) - known["mean"]) / np.hypot(mcse_mean(draws), known["mean_mcse"])
    sd = np.abs(draws.std(axis=(0, 1), ddof=1) - known["sd"]) / np.hypot(moments_mcse(draws).sd, known["sd_mcse"])
    return max(mean.max(), sd.max())


def test_there_are_eight_real_data_sets():
    assert len(DATA) >= 8


@pytest.mark.parametrize(("name", "family"), EVERY)
def test_summaries_meet_the_definition(name, family):
    found = summary(name, family)
    assert (found["data"], found["family"], found["prior"]) == (name, family, repr(PRIOR))
    assert found["chains"] == CHAINS
    assert found["draws"] == CHAINS * DRAWS == 10_000
    assert found["rhat_largest"] < MAX_RHAT
    assert found["lag_1_largest"] < MAX_LAG_1
    mean, sd = np.array(found["mean"]), np.array(found["sd"])
    assert len(mean) == len(found["features"])
    # of 10,000 independent draws: 0.01 sd, and quantiles in order
    assert np.all(np.array(found["mean_mcse"]) < 0.0115 * sd)
    quantiles = np.array([found[f"q{100 * level:02.0f}"] for level in LEVELS])
    assert np.all(np.diff(quantiles, axis=0) > 0.0)
    assert np.all((quantiles[0] < mean) & (mean < quantiles[-1]))


@pytest.mark.parametrize("name", DATA)
def test_data_are_those_that_were_summarised(name):
    if not DATA[name].path.is_file():
        pytest.skip(f"{DATA[name].path} is absent: this check did NOT run")
    for family in LINKS:
        found, rows = summary(name, family), rows_of(name, family)
        assert DATA[name].sha256 == found["sha256"]
        assert list(rows.feature_names) == found["features"]
        assert (len(rows), rows.weights.sum()) == (found["rows"], found["weight"])


def test_the_definition_refuses_what_is_not_a_reference():
    rng = np.random.default_rng(0)
    good = rng.normal(size=(10, 1000, 3))
    assert meets(good)
    assert not meets(good[:, :999])  # too few draws
    assert not meets(good[:9])  # too few chains
    assert not meets(good + (np.arange(10) == 4)[:, None, None])  # a chain apart
    sticky = good.copy()
    sticky[:, 1:, 1] += 0.1 * sticky[:, :-1, 1]  # autocorrelation 0.1
    assert not meets(sticky)


@pytest.mark.parametrize("family", LINKS)
def test_two_coefficients_agree_with_a_grid(family):
    """The beetles' posterior by quadrature, exact but for the grid; control: that of the prior N(0, 1)."""
    rows, found = rows_of("beetles", family), summary("beetles", family)
    mean, sd = np.array(found["mean"]), np.array(found["sd"])
    side = np.linspace(-7.0, 7.0, 401)
    grid = mean + sd * np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    log_p = log_likelihoods(grid, rows, check_family(family))
    for scale, agrees in ((4.0, True), (1.0, False)):
        w = log_p - 0.5 * ((grid / scale) ** 2).sum(axis=1)
        w = np.exp(w - w.max()) / np.exp(w - w.max()).sum()
        exact = w @ grid
        exact_sd = np.sqrt(w @ (grid - exact) ** 2)
        z = np.abs(np.append((mean - exact) / found["mean_mcse"], (sd - exact_sd) / found["sd_mcse"]))
        assert (z.max() < 4.0) == agrees


@pytest.mark.statistical(rate=5e-6)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "family"), [("chemreact", "logistic"), ("wells", "probit"), ("german_credit", "probit")]
)
def test_a_fresh_coresets_corrected_posterior_agrees(name, family):
    if not DATA[name].path.is_file():
        pytest.skip(f"{DATA[name].path} is absent: this check did NOT run")
    X, y, _ = DATA[name].table()
    rows = bc.all_rows(X, y, family=family, **SETTINGS)
    told = {"size": 20 * rows.n_features, "random_state": 5, "progressbar": False}
    core = bc.build_coreset(rows, method="calibrated", **told)
    idata = bc.sample(core, prior=PRIOR, sampler="mala", random_seed=6, thin=20, progressbar=False)
    corrected = bc.certify(idata, core, rows, progressbar=False).idata.posterior["beta"].values
    assert ess(corrected, "sd").min() > 2000
    assert misses(corrected, family, name) < 5.5
    bare = bc.build_coreset(rows, method="uniform", **told)  # negative control
    control = bc.sample(bare, prior=PRIOR, sampler="mala", random_seed=6, progressbar=False).posterior["beta"].values
    assert misses(control, family, name) > 5.5
