"""Draws that are not those of the coreset's posterior certify nothing; parts of them do."""

import numpy as np
import pymc as pm
import pytest

import bayescore as bc
from bayescore import compat
from bayescore.diagnostics.origin import stein

N, D = 6000, 3


@pytest.fixture(scope="module")
def full():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, D - 1)) * [1.0, 3.0]])
    y = rng.random(N) < 1 / (1 + np.exp(-X @ [-1.0, 0.7, 0.2]))
    return bc.full_data(X, y, progressbar=False)


@pytest.fixture(scope="module")
def core(full):
    return bc.build_coreset(full, method="calibrated", size=120, random_state=0, progressbar=False)


def drawn(core, **options):
    return bc.sample(core, **{"sampler": "mala", "draws": 500, "random_seed": 1, "progressbar": False, **options})


@pytest.fixture(scope="module")
def idata(core):
    return drawn(core)


def changed(idata, change, *, stats=True):
    """Return a copy whose draws, shape (chain, draw, D), went through `change`."""
    groups = {"posterior": {"beta": change(idata.posterior["beta"].values.copy())}}
    if stats:
        groups["sample_stats"] = {"lp": idata["sample_stats"]["lp"].values}
    other = compat.inference_data(
        groups, coords={"feature": list(idata.posterior["feature"].values)}, dims={"beta": ["feature"]}
    )
    other.posterior.attrs.update(idata.posterior.attrs)
    return other


def told(idata, core, full, **options):
    return bc.certify(idata, core, full, progressbar=False, **options)


@pytest.mark.parametrize(
    "part",
    [{"draw": slice(50, None)}, {"draw": slice(None, None, 2)}, {"chain": [0, 2, 3]}],
    ids=["later draws", "thinned", "a chain less"],
)
def test_parts_of_the_draws_are_judged_by_what_is_left(idata, core, full, part):
    own = idata.sel(part) if compat.ARVIZ_1 else idata.sel(**part)
    assert told(own, core, full).level == "certified"


def test_a_posterior_of_another_coreset_is_refused(core, full):
    other = bc.build_coreset(full, method="uniform", size=150, random_state=3, progressbar=False)
    cert = told(drawn(other), core, full)
    assert cert.level == "not certified"
    assert "another coreset's posterior" in cert.text
    assert cert.idata is None


CHANGES = {
    "shifted": lambda x: x + 0.5 * x.std(axis=(0, 1)),
    "shifted by little": lambda x: x + 0.02 * x.std(axis=(0, 1)),
    "swapped columns": lambda x: x[:, :, [1, 0, 2]],
    "wider": lambda x: x.mean(axis=(0, 1)) + 1.5 * (x - x.mean(axis=(0, 1))),
    "another order": lambda x: x[:, ::-1],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_draws_are_seen_by_their_log_densities(idata, core, full, change):
    cert = told(changed(idata, change), core, full)
    assert cert.level == "not certified"
    assert "changed after sampling" in cert.text
    assert told(changed(idata, lambda x: x), core, full).level == "certified"


@pytest.mark.parametrize("name", ["shifted", "swapped columns", "wider"])
@pytest.mark.parametrize("attrs", [True, False], ids=["prior known", "prior unknown"])
def test_without_log_densities_steins_identities_see_it(idata, core, full, name, attrs):
    bad, same = changed(idata, CHANGES[name], stats=False), changed(idata, lambda x: x[:, ::-1], stats=False)
    for each in (bad, same):
        if not attrs:
            each.posterior.attrs.clear()
    cert = told(bad, core, full)
    assert cert.level == "not certified"
    assert "not those of the" in cert.text
    good = told(same, core, full)
    assert good.level == "certified"
    assert ("a prior that matters little" in good.text) is not attrs


def test_a_chain_copied_four_times_is_one_run(idata, core, full):
    cert = told(changed(idata, lambda x: np.repeat(x[:1], 4, axis=0), stats=False), core, full)
    assert cert.level == "not certified"
    assert "Chain 1 repeats draws of chain 0" in cert.text


def test_a_coordinate_that_never_moves_is_seen(idata, core, full):
    def freeze(x):
        x[:, :, 1] = x[0, 0, 1]
        return x

    cert = told(changed(idata, freeze, stats=False), core, full)
    assert cert.level == "not certified"
    assert "never moves" in cert.text


@pytest.mark.parametrize("n", [10, 60])
def test_too_few_draws_certify_nothing_and_say_how_many_would(idata, core, full, n):
    part = {"draw": slice(0, n), "chain": [0, 1]}
    cert = told(idata.sel(part) if compat.ARVIZ_1 else idata.sel(**part), core, full)
    assert cert.level == "not certified"
    assert "Too few draws" in cert.text
    assert "draws a chain in place of" in cert.text


def test_corrected_draws_are_not_certified_again(idata, core, full):
    corrected = told(idata, core, full).idata
    assert "corrected ones already" in told(corrected, core, full).text


@pytest.fixture(scope="module")
def shrinking(full):
    """A model that shrinks the coefficients hard, over a poor coreset, and its draws."""
    poor = bc.build_coreset(full, method="uniform", size=400, random_state=3, progressbar=False)
    with pm.Model(coords={"feature": poor.feature_names}) as model:
        tau = pm.HalfNormal("tau", 0.1)
        beta = pm.Normal("beta", 0.0, tau, dims="feature")
        bc.weighted_potential("loglik", poor, beta)
        idata = pm.sample(1000, tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    return poor, model, idata


def test_a_users_model_makes_the_certificate_of_its_draws_complete(full, shrinking):
    """Truth: the same model over all rows, its Monte Carlo error 0.03 to 0.05 sd; 0.25 sd is five of them."""
    poor, model, idata = shrinking
    assert told(idata, poor, full).level == "not certified"
    cert = told(idata, poor, full, model=model)
    assert cert.level == "corrected"
    with pm.Model():
        tau = pm.HalfNormal("tau", 0.1)
        beta = pm.Normal("beta", 0.0, tau, shape=D)
        bc.weighted_potential("loglik", full, beta)
        truth = pm.sample(1000, tune=500, chains=2, cores=1, random_seed=2, progressbar=False)
    own, better, true = (each.posterior["beta"].values.reshape(-1, D) for each in (idata, cert.idata, truth))
    sd = true.std(axis=0)
    assert np.abs(own.mean(axis=0) - true.mean(axis=0)).max() > 0.5 * sd.min()
    assert (np.abs(better.mean(axis=0) - true.mean(axis=0)) < 0.25 * sd).all()
    assert cert.idata.posterior["tau"].shape == idata.posterior["tau"].shape


def test_a_model_of_another_coreset_is_refused(core, full, shrinking):
    _, model, idata = shrinking
    with pytest.raises(ValueError, match="no potential of model= is the coreset's weighted log-likelihood"):
        bc.certify(idata, core, full, model=model, progressbar=False)


def test_exact_draws_meet_steins_identities():
    """Independent normal draws, 200 coordinates: alarms below 1% with the slack. Control: shifted, and too wide."""
    rng = np.random.default_rng(0)
    names = [f"x{d}" for d in range(200)]
    x = rng.normal(size=(4, 250, 200))
    assert stein(x, -x, np.eye(200), names) == ""
    assert "mean" in stein(x + 0.4, -x - 0.4, np.eye(200), names)
    assert "variance" in stein(1.4 * x, -1.4 * x, np.eye(200), names)
