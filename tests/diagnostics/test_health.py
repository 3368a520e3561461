import numpy as np
import pytest

from bayescore.diagnostics.results import health, unfit
from bayescore.samplers.posterior import read_posterior


def state(idata):
    return health(read_posterior(idata, "idata"))


def test_good_chains_have_nothing_to_say(posterior):
    found = state(posterior(0))
    assert (found.chains, found.draws, found.divergences, found.text) == (4, 500, 0, "")
    assert found.ess_per_second == pytest.approx(found.ess_bulk / 2.0)
    assert found.acceptance_rate == pytest.approx(0.9)


def test_what_the_sampler_does_not_report_is_none(posterior):
    foreign = posterior(1, sampler="mala")
    del foreign.posterior.attrs["sampling_time"]
    found = state(foreign)
    assert found.divergences is found.sampling_time is found.ess_per_second is None


def test_few_effective_draws_are_told_of_the_worst_coordinate(posterior):
    idata = posterior(1, draws=200)
    slow = posterior(2, draws=200, rho=0.9).posterior["beta"].values
    idata.posterior["beta"].values[..., 1] = slow[..., 1]
    found = state(idata)
    assert "effective sample size of 'b'" in found.text
    assert "below 400: sample with draws=" in found.text
    assert found.ess_bulk < 400


def test_divergences_are_counted(posterior):
    diverging = posterior(2)
    diverging.sample_stats["diverging"].values[0, :7] = True
    assert "7 transitions diverged: raise target_accept" in state(diverging).text
    assert "7 transitions diverged" in fit(diverging)


def test_chains_apart_disagree(posterior):
    apart = posterior(1)
    apart.posterior["beta"].values[0, :, 2] += 2.0
    found = state(apart)
    assert f"R-hat of 'c' is {found.rhat:.3f}, above 1.01 and more than chance explains" in found.text
    drifting = posterior(1, chains=1)
    drifting.posterior["beta"].values[:, 250:] += 2.0
    assert state(drifting).rhat > 1.1


def test_a_coordinate_that_never_moves_is_named(posterior):
    stuck = posterior(1)
    stuck.posterior["beta"].values[..., 0] = 3.0
    found = state(stuck)
    assert found.text.startswith("'a' never moves")
    assert np.isfinite(found.rhat)  # of the others


def fit(idata):
    found = unfit(read_posterior(idata, "idata"))
    return found[0] if found else ""


@pytest.mark.parametrize("D", [3, 100])
def test_a_thousand_good_draws_are_fit_for_a_verdict_whatever_the_number_of_coordinates(posterior, D):
    """The least of 100 R-hats is above 1.01 in some of these; an alarm has a chance of 1% in each of 10."""
    idata = [posterior(seed, draws=250, features=tuple(f"x{d}" for d in range(D))) for seed in range(10)]
    assert sum(bool(fit(each)) for each in idata) <= 2


def test_health_and_verdicts_have_one_rule(posterior):
    """R-hats that chance explains are no fault in either."""
    for seed in range(10):
        each = posterior(seed, draws=250, features=tuple(f"x{d}" for d in range(100)))
        assert bool(state(each).text) == bool(fit(each))


def test_what_is_not_fit_is_said_in_order(posterior):
    still = posterior(1)
    still.posterior["beta"].values[2, :, 1] = 3.0
    assert "'b' never moves" in fit(still)
    few = fit(posterior(1, draws=20))
    assert "Too few draws: the effective sample size of" in few
    assert "in place of 20" in few
    apart = posterior(1, draws=4000)
    apart.posterior["beta"].values[0, :, 2] += 0.5
    assert fit(apart)
