"""Samplers against published posteriors: German credit, beetles, dogs.

The beetles stand in the tree, so that MALA's exactness and its negative control are always tested. See
`exactness.check`, whose rate is 1e-7 for each mean and sd.
"""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.compiled import jit
from bayescore.models.modes import find_map
from bayescore.models.posterior import posterior
from bayescore.numerics.chains import mcse_mean
from bayescore.samplers import mala
from bayescore.samplers.method import run_chains
from tests import published
from tests.samplers.exactness import check, weighted

SETTINGS = {
    "mala": {"draws": 4000, "tune": 1000, "chains": 4, "thin": 20},
    "langevin": {"draws": 4000, "tune": 1000, "chains": 4, "ess": 8000},
}
# NUTS on one posterior: that PyMC's density is the compiled one is tested for each family and prior
NUTS = {"draws": 3000, "tune": 500, "chains": 4}
FEW_ROWS = {**SETTINGS, "nuts": NUTS, "polya_gamma": {"draws": 3000, "tune": 200, "chains": 4, "thin": 10}}

FIGURES = ("mean", "mean_error", "sd")  # as `check` takes them

pytestmark = pytest.mark.slow


def beetles():
    """Return the beetles' rows (1, dose - its mean), and figures of draws of their coefficients for `check`."""
    rows, facts = published.beetles()
    center, known = np.mean(facts["dose"]), facts["posterior"]

    def figures(beta):
        star, slope = np.moveaxis(beta, -1, 0)
        draws = np.stack([star - slope * center, slope], axis=-1)  # the published intercept is that at dose 0
        return draws, *([known[f"{name}_{figure}"] for name in ("alpha", "beta")] for figure in FIGURES)

    return replace(rows, X=rows.X - [0.0, center]), figures


@pytest.mark.statistical(rate=5e-6)
@pytest.mark.parametrize("sampler", SETTINGS)
def test_german_credit(shared_data, sampler):
    frame = pd.read_parquet(shared_data("german_credit_numeric.parquet"))
    reference = json.loads(shared_data("german_credit_reference.json").read_text())["logistic_regression"]
    x = frame.drop(columns="y").to_numpy(dtype=float)
    X = np.column_stack([(x - x.mean(axis=0)) / x.std(axis=0), np.ones(len(x))])
    data = weighted(X, np.where(frame["y"] == 1, 1, -1))
    idata = bc.sample(
        data,
        "logistic",
        bc.priors.Normal(0, 1),
        sampler=sampler,
        random_seed=11,
        progressbar=False,
        **SETTINGS[sampler],
    )
    sd = reference["standard_deviation"]
    check(idata.posterior["beta"].values, reference["mean"], reference["mean_standard_error"], sd)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("sampler", FEW_ROWS)
def test_beetles(sampler):
    data, figures = beetles()
    prior = bc.priors.Normal(0, math.sqrt(1000))
    idata = bc.sample(data, "logistic", prior, sampler=sampler, random_seed=12, progressbar=False, **FEW_ROWS[sampler])
    check(*figures(idata.posterior["beta"].values))


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("sampler", SETTINGS)
def test_dogs(shared_data, sampler):
    frame = pd.read_parquet(shared_data("posteriordb_dogs_2020.parquet"))
    draws = pd.read_parquet(shared_data("posteriordb_dogs_2020_draws.parquet"))
    names = [name for name in draws.columns if name not in ("chain", "draw", "iteration")]
    reference = np.stack([draws[name].to_numpy().reshape(10, -1) for name in names], axis=-1)
    X = np.column_stack([np.ones(len(frame)), frame["n_avoid"], frame["n_shock"]])
    data = weighted(X, np.where(frame["y"] == 1, 1, -1))
    idata = bc.sample(
        data,
        "logistic",
        bc.priors.Normal(0, 100),
        sampler=sampler,
        random_seed=13,
        progressbar=False,
        **SETTINGS[sampler],
    )
    means, sds = reference.mean(axis=(0, 1)), reference.std(axis=(0, 1))
    check(idata.posterior["beta"].values, means, mcse_mean(reference), sds)


@jit
def _wrong_advance(normals, uniforms, theta, log_epsilon, factor, arguments, draws, values):
    # the way back is left out of the ratio, as if the proposal were symmetric
    state, scale = mala.init(theta, arguments), mala.Scale(log_epsilon, factor, math.inf)
    for i in range(len(draws)):
        for j in range(uniforms.shape[1]):
            there, _ = mala.step(mala.ProposalNoise(normals[i, j], -1.0), state, scale, arguments)
            if uniforms[i, j] < math.exp(min(0.0, there.value - state.value)):
                state = there
        draws[i] = state.theta
        values[i] = state.value
    return state.theta, log_epsilon


@pytest.mark.statistical(rate=1e-6)
def test_a_wrong_acceptance_ratio_fails_the_same_test():
    """Negative control: without the proposal's correction the sds come out too small and `check` must fail."""

    def advance(rng, theta, log_epsilon, arguments, segment):
        segment.acceptance[:] = np.nan
        noise = mala.noise_of(rng, segment)
        return _wrong_advance(*noise, theta, log_epsilon, *arguments, segment.draws, segment.values)

    data, figures = beetles()
    prior = bc.priors.Normal(0, math.sqrt(1000))
    mode, target = find_map(data, "logistic", prior), posterior(data, "logistic", prior)
    settings = {"draws": 4000, "tune": 500, "thin": 20, "cores": 2, "progressbar": False}
    for sampler, ok in ((mala, True), (SimpleNamespace(advance=advance), False)):
        drawn = run_chains(
            sampler.advance,
            (np.linalg.cholesky(mode.covariance), target.arguments()),
            np.tile(mode.beta, (4, 1)),
            0.2,
            seeds=np.random.SeedSequence(3).spawn(4),
            **settings,
        )
        if ok:
            check(*figures(drawn.theta))
        else:
            with pytest.raises(AssertionError, match=r"mean|sd"):
                check(*figures(drawn.theta))
