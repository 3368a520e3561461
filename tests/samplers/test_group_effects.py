"""Very many groups: draws by a sample of groups beside those of all, and effects that are drawn when asked for."""

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayescore as bc
from bayescore.models.groups import effects as effect_draws
from bayescore.models.groups.effects import EffectDraws, unkept_effects
from bayescore.models.groups.marginal import SampledArguments
from bayescore.numerics.chains import mcse_mean
from bayescore.samplers import groups as collapsed
from bayescore.validation import DataError
from tests.hand_made import fit_of

TOLD = {"random_seed": 4, "progressbar": False}


def built(n_groups, n, name="g"):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=n), "g": rng.integers(0, n_groups, n)})
    eta = -0.5 + 0.6 * frame["x"] + rng.normal(size=n_groups)[frame["g"]]
    frame["y"] = eta + rng.logistic(size=n) > 0
    frame = frame.rename(columns={"y": "label", "g": name})
    return frame, bc.build_coreset(frame, formula=f"label ~ x + (1 | {name})", random_state=0, progressbar=False)


@pytest.fixture(scope="module")
def few():
    return built(40, 4000)


@pytest.fixture(scope="module")
def both(few):
    core = few[1]
    return bc.sample(core, effects=8, draws=500, **TOLD), bc.sample(core, draws=500, **TOLD)


def effects(idata, core, groups):
    """Return draws of the effects of some groups."""
    return fit_of(idata, core).effects("g", draws=groups)


def test_draws_of_a_group_are_the_same_whatever_else_is_asked_for(both, few):
    (some, whole), core = both, few[1]
    assert some.posterior["u_g"].sizes["g"] == 8
    for asked in ([3], [39, 3, 17], some.posterior["g"].values.tolist()):
        expected = whole.posterior["u_g"].sel(g=asked)
        np.testing.assert_allclose(effects(some, core, asked), expected, rtol=1e-5)
        np.testing.assert_allclose(effects(whole, core, asked), expected)
    kept = some.posterior["g"].values
    np.testing.assert_array_equal(some.posterior["u_g"], effects(some, core, kept.tolist()))


def test_draws_of_a_part_of_the_posterior_are_that_part(both, few):
    some, whole = both
    part = some.isel(draw=slice(100, 300), chain=[0, 2])
    expected = whole.posterior["u_g"].sel(g=[5]).isel(draw=slice(100, 300), chain=[0, 2])
    np.testing.assert_allclose(effects(part, few[1], [5]), expected, rtol=1e-5)


def test_effects_that_are_asked_for_many_times_stay_in_memory(both, few, monkeypatch):
    """Of tiles of rows; draws are the same from memory, and where all would be too many to hold."""
    design, posterior = few[1].design, both[0].posterior
    held, other = (unkept_effects(both[0], design) for _ in range(2))
    times, drawn = [], EffectDraws._drawn
    monkeypatch.setattr(EffectDraws, "_drawn", lambda own, *given: times.append(own) or drawn(own, *given))
    found = [held.of(np.array([3, 17]), np.arange(0, 2000, 2)) for _ in range(100)]
    assert times.count(held) == 41  # the sum over 40 of 1,000 x 2, and all of 2,000 x 40
    np.testing.assert_allclose(found[-1], found[0], rtol=1e-5)
    assert cloudpickle.loads(cloudpickle.dumps(held))._cache.draws is None
    monkeypatch.setattr(effect_draws, "_MAX_HELD_BYTES", 4 * posterior["u_g"].sizes["draw"] * 4 * 40 - 1)
    for _ in range(100):
        again = other.of(np.array([3, 17]), np.arange(0, 2000, 2))
    assert times.count(other) == 100
    np.testing.assert_allclose(found[-1], again, rtol=1e-5)


def test_the_summary_of_all_groups_is_that_of_their_draws(both, few):
    some, whole = (fit_of(each, few[1]).effects() for each in both)
    assert len(some) == len(whole) == 40
    assert (np.abs(some["mean"] - whole["mean"]) < 0.2 * whole["sd"]).all()
    assert (np.abs(np.log(some["sd"] / whole["sd"])) < 0.1).all()
    assert (np.abs(some["97.5%"] - whole["97.5%"]) < 0.4 * whole["sd"]).all()


NAMES = ("grouping", "quantile", "X", "y", "weights", "offset")


def test_predictions_and_certificates_know_all_groups(both, few):
    frame, core = few
    tables = [fit_of(each, core).predict(frame.iloc[:60]) for each in both]
    np.testing.assert_allclose(*tables, rtol=1e-4)
    found = [bc.certify(each, core, frame, progressbar=False) for each in both]
    assert found[0].level == found[1].level == "certified"
    assert len(found[0].effects) == 40
    np.testing.assert_allclose(found[0].effects["corrected_mean"], found[1].effects["corrected_mean"], rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["group", "row", *(pytest.param(each, marks=pytest.mark.slow) for each in NAMES)],
)
def test_a_factor_may_have_the_name_of_what_rows_have(name):
    """As an array of groups without a name has."""
    frame, core = built(20, 1000, name)
    idata = bc.sample(core, effects=5, draws=500, **TOLD)
    assert idata.posterior[f"u_{name}"].sizes[name] == 5
    assert idata.constant_data[f"u_{name}_mean"].sizes == {f"{name}_level": 20}
    assert len(fit_of(idata, core).predict(frame.iloc[:9])) == 9
    found = bc.certify(idata, core, frame, progressbar=False)
    assert len(found.effects) == len(fit_of(found.idata, core).effects()) == 20


def test_changed_effects_of_some_groups_are_not_certified(both, few):
    frame, core = few
    changed = both[0].copy()
    changed.posterior["u_g"] = changed.posterior["u_g"] + 1.0
    found = bc.certify(changed, core, frame, progressbar=False)
    assert found.level == "not certified"


def test_unknown_groups_and_lost_rows_are_said(both, few):
    some = both[0]
    with pytest.raises(DataError, match="draws names 99"):
        effects(some, few[1], [99])
    lost = some.copy()
    lost["constant_data"] = xr.Dataset(lost["constant_data"].data_vars).drop_vars("X")
    with pytest.raises(DataError, match="idata lacks 'X' in constant_data"):
        bc.Fit.from_draws(lost, few[1])


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_draws_by_a_sample_of_groups_are_those_of_all(monkeypatch):
    """Means of beta and of log sigma: three, each beyond 5.3 Monte Carlo errors once in 1e7."""
    _, core = built(1500, 45_000)
    sampled = bc.sample(core, **TOLD)
    assert sampled.posterior.attrs["sampled_groups"] < 1500
    assert sampled.posterior.attrs["density_error"] <= collapsed.MAX_DENSITY_ERROR
    monkeypatch.setattr(collapsed, "MANY_GROUPS", 10**9)
    whole = bc.sample(core, random_seed=5, progressbar=False)
    assert "sampled_groups" not in whole.posterior.attrs
    assert largest_gap(sampled, whole) < 5.3
    # a sample of groups without the quadratic of the others
    monkeypatch.setattr(collapsed, "MANY_GROUPS", 1000)
    monkeypatch.setattr(collapsed, "MAX_DENSITY_ERROR", np.inf)
    monkeypatch.setattr(collapsed, "SampledGroups", WithoutQuadratic)
    assert largest_gap(bc.sample(core, **TOLD), whole) > 5.3


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_draws_by_a_sample_of_small_groups_take_a_cubic(monkeypatch):
    """Effects with a large sd and two rows a group: three means, each beyond 5.3 Monte Carlo errors once in 1e7."""
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(1200), 2)
    frame = pd.DataFrame({"x": rng.normal(size=len(g)), "g": g})
    frame["y"] = 0.6 * frame["x"] + 2.5 * rng.normal(size=1200)[g] + rng.logistic(size=len(g)) > 0
    core = bc.all_rows(frame, formula="y ~ x + (1 | g)")
    sampled = bc.sample(core, **TOLD)
    assert sampled.posterior.attrs["sampled_groups"] == collapsed.FIRST_SAMPLE_SIZE
    assert bc.certify(sampled, core, frame, progressbar=False).level == "certified"  # looks at log densities
    monkeypatch.setattr(collapsed, "FIRST_SAMPLE_SIZE", 10**9)
    assert largest_gap(sampled, bc.sample(core, random_seed=5, progressbar=False)) < 5.3


class WithoutQuadratic(collapsed.SampledGroups):
    @property
    def data(self):
        rest = self.rest
        nothing = {"gradient": 0.0 * rest.gradient, "precision": 0.0 * rest.precision, "third": 0.0 * rest.third}
        return SampledArguments.of(self.target.kernel, self.arguments, rest._replace(**nothing))


def largest_gap(one, other):
    """Return the largest distance of means, in Monte Carlo errors."""
    draws = []
    for idata in (one, other):
        log_sigma = np.log(idata.posterior["sigma_g"].values)[..., None]
        draws.append(np.concatenate([idata.posterior["beta"].values, log_sigma], axis=2))
    error = np.hypot(*map(mcse_mean, draws))
    return np.abs((draws[0].mean(axis=(0, 1)) - draws[1].mean(axis=(0, 1))) / error).max()
