"""The collapsed sampler: draws of rows with groups against brute force, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import special

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget, collapsed_density
from bayescore.numerics.chains import ess
from bayescore.samplers import groups
from bayescore.validation import DataError
from tests.coresets.test_multilevel import build, frame
from tests.models.grouped_rows import PRIORS, grouped

N_GROUPS = 40
TOLD = {"random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def rows():
    return grouped(2000, N_GROUPS)[0]


@pytest.fixture(scope="module")
def core(rows):
    return build(rows)


@pytest.fixture(scope="module")
def idata(core):
    return bc.sample(core, **TOLD)


def by_weights(rows, n=8000):
    """Return mean and sd of (beta, log sigma) of rows by importance sampling from a t around the mode."""
    target = CollapsedTarget.of(rows, check_family("logistic"), PRIORS, N_GROUPS)
    rng, L = np.random.default_rng(0), target.factor
    noise = rng.standard_normal((n, len(L))) / np.sqrt(rng.chisquare(8, n) / 8)[:, None]
    theta, gradient = target.point.theta + noise @ L.T, np.empty(len(L))
    log_q = -0.5 * (8 + len(L)) * np.log1p((noise**2).sum(axis=1) / 8)
    w = special.softmax([collapsed_density(each, gradient, target.arguments()) for each in theta] - log_q)
    assert 1.0 / (w @ w) > 2000
    mean = w @ theta
    return mean, np.sqrt(w @ (theta - mean) ** 2)


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_draws_are_those_of_the_posterior_of_all_rows(rows, idata):
    """Means within 0.22 sd of importance sampling on all rows, six of their errors; sds, known to 3%, within 20%."""
    theta = np.concatenate(
        [idata.posterior["beta"].values, np.log(idata.posterior["sigma_county"].values)[..., None]], axis=2
    )
    assert ess(theta, "bulk").min() > 1000
    assert ess(idata.posterior["u_county"].values, "bulk").min() > 1000
    mean, sd = by_weights(rows)
    flat = theta.reshape(-1, theta.shape[2])
    assert np.abs((flat.mean(axis=0) - mean) / sd).max() < 0.22
    assert np.abs(flat.std(axis=0) / sd - 1.0).max() < 0.2
    wrong = flat.mean(axis=0) + 0.5 * sd  # the control
    assert np.abs((wrong - mean) / sd).max() > 0.22


@pytest.mark.statistical(rate=1e-6)
def test_effects_are_drawn_with_the_rest(rows, idata):
    """Of rows with intercept, a group's level beta_0 + u_g is known better than either: correlations are negative."""
    beta, u = idata.posterior["beta"].values[..., 0].ravel(), idata.posterior["u_county"].values.reshape(-1, N_GROUPS)
    size = np.bincount(rows.group[:, 0])
    largest = int(size.argmax())
    assert np.corrcoef(beta, u[:, largest])[0, 1] < -0.3
    assert (beta + u[:, largest]).std() < u[:, largest].std()


def test_what_it_returns(core, idata):
    posterior = idata.posterior
    assert posterior["beta"].dims == ("chain", "draw", "feature")
    assert posterior["sigma_county"].dims == ("chain", "draw")
    assert posterior["u_county"].dims == ("chain", "draw", "county")
    assert list(posterior["county"].values) == list(core.groups[0].levels)
    assert posterior.attrs["sampler"] == "collapsed"
    assert posterior.attrs["group_terms"] == "(1 | county)"
    assert json.loads(posterior.attrs["group_prior"])["kind"] == "HalfStudentT"
    assert idata["constant_data"]["group"].shape == (len(core), 1)
    assert {"lp", "acceptance_rate", "step_size"} <= set(idata["sample_stats"].data_vars)
    assert float(idata["sample_stats"]["acceptance_rate"].mean()) > 0.6  # more where a turn is as long as may be


def test_draws_depend_on_the_seed_alone(core):
    draws = [
        bc.sample(core, draws=60, tune=60, chains=2, cores=cores, random_seed=seed, progressbar=False).posterior
        for cores, seed in ((1, 3), (2, 3), (1, 4))
    ]
    for name in ("beta", "sigma_county", "u_county"):
        assert np.array_equal(draws[0][name].values, draws[1][name].values)
        assert not np.array_equal(draws[0][name].values, draws[2][name].values)


def test_bad_input_is_refused(core, rows, monkeypatch):
    with pytest.raises(ValueError, match="sampler='mala' knows nothing of"):
        bc.sample(core, sampler="mala", **TOLD)
    with pytest.raises(ValueError, match="is for rows with groups"):
        bc.sample(bc.all_rows(rows.X, rows.y, progressbar=False), sampler="collapsed", **TOLD)
    with pytest.raises(TypeError, match="group_prior="):
        bc.sample(core, group_prior=2.0, **TOLD)
    with pytest.raises(ValueError, match="use another prior"):
        bc.sample(core, prior=bc.priors.Horseshoe(), **TOLD)
    two = bc.all_rows(frame(rows).assign(town=rows.index % 3), label="y", groups=["county", "town"], progressbar=False)
    with pytest.raises(DataError, match="one grouping factor whose intercept varies"):
        bc.sample(two, sampler="collapsed", **TOLD)
    monkeypatch.setattr("bayescore.samplers.groups.MAX_EFFECTS_BYTES", 1000)
    with pytest.raises(DataError, match="group effects take 1,280,000 bytes"):
        bc.sample(core, effects=1000, **TOLD)


def test_a_sample_of_groups_whose_density_rises_far_out_is_turned_down(monkeypatch):
    """Of a separated column the cubic of the groups outside the sample rose, and chains ran away without an end."""
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=10_000), np.arange(10_000) % 1000
    frame = pd.DataFrame({"x": x, "g": g, "y": rng.logistic(size=10_000) < x + rng.normal(size=1000)[g]})
    rows = bc.all_rows(frame, formula="y ~ x + (1 | g)", progressbar=False)
    tried = []
    monkeypatch.setattr(groups, "falls_off", lambda chosen, _: tried.append(chosen.n_sampled) or len(tried) == 2)
    idata = bc.sample(rows, draws=20, tune=60, chains=1, random_seed=1, progressbar=False)
    assert tried == [256, 1000]
    assert "sampled_groups" not in idata.posterior.attrs
