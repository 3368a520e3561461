"""Times to an event: person-period rows by cloglog, exact times by Poisson with cumulative base hazards as exposure."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import bayescore as bc
from bayescore.validation import DataError

QUIET = {"progressbar": False}
HOW = {"family": "poisson", "exposure": "at_risk", "random_state": 1, **QUIET}


def people(n=20_000, shape=1.5, seed=0):
    """Return persons with Weibull times of hazard ratios 0.5 and exp(0.4), some censored, after whole years."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"age": rng.normal(size=n), "treated": rng.integers(0, 2, n)})
    hazard = 0.1 * np.exp(0.4 * rows["age"] + np.log(0.5) * rows["treated"])
    end = (rng.exponential(size=n) / hazard) ** (1.0 / shape)
    stop = rng.integers(1, 7, n).astype(float)
    rows["died"], rows["time"] = (end < stop).astype(int), np.minimum(end, stop)
    rows["at_risk"] = rows["time"] ** shape
    return rows


@pytest.mark.parametrize("shape", [1.0, 1.5])
def test_the_mode_is_that_of_weibull_times(shape):
    """By the log density of times itself, with the prior Normal(0, 4)."""
    rows = people(shape=shape)
    full = bc.all_rows(rows, formula="died ~ age + treated", family="poisson", exposure="at_risk", **QUIET)
    X, died, time = full.design.transform(rows), rows["died"].to_numpy(), rows["time"].to_numpy()

    def loss(beta):
        log_rate = X @ beta
        hazard, survival = np.log(shape) + (shape - 1.0) * np.log(time) + log_rate, np.exp(log_rate) * time**shape
        return -(died * hazard - survival).sum() + 0.5 * (beta @ beta) / 16.0

    best = optimize.minimize(loss, np.array([-2.0, 0.0, 0.0]), method="BFGS", options={"gtol": 1e-3})
    np.testing.assert_allclose(bc.find_map(full, prior=bc.priors.Normal(0, 4)).beta, best.x, atol=1e-5)


def test_a_fit_of_one_column_has_the_rates_of_its_groups():
    """Without a prior worth the name the posterior of a group's rate is Gamma(deaths, exposure)."""
    rows = people()
    fit = bc.fit("died ~ treated", rows, **HOW)
    assert fit.level == "certified"
    assert fit.certificate.dispersion is None
    known = rows.groupby("treated")[["died", "at_risk"]].sum()
    rates, own = known["died"] / known["at_risk"], fit.summary()
    sd = np.sqrt((1.0 / known["died"]).sum())
    assert own["mean"]["treated"] == pytest.approx(np.log(rates[1] / rates[0]), abs=0.1 * sd)
    assert own["sd"]["treated"] == pytest.approx(sd, rel=0.08)
    wrong = rows.assign(at_risk=rows["time"])  # an exponential of Weibull times: another rate
    assert abs(bc.fit("died ~ treated", wrong, **HOW).summary()["mean"]["Intercept"] - own["mean"]["Intercept"]) > 0.1


def test_person_period_rows_have_the_hazard_ratio_of_the_times():
    rows = people(6000, shape=1.0)
    periods = np.ceil(rows["time"]).astype(int)
    long = rows.loc[rows.index.repeat(periods)]
    period = long.groupby(level=0).cumcount().to_numpy()
    last = period == periods.loc[long.index].to_numpy() - 1
    long = long.assign(event=(last & (long["died"].to_numpy() == 1)).astype(int)).reset_index(drop=True)
    fit = bc.fit("event ~ age + treated", long, family="cloglog", random_state=1, **QUIET)
    assert fit.certificate.trusted
    own = fit.summary()
    truth = {"Intercept": np.log(0.1), "age": 0.4, "treated": np.log(0.5)}
    for name, wanted in truth.items():  # four sds: 1 in 5,000 seeds
        assert abs(own["mean"][name] - wanted) < 4.0 * own["sd"][name]
    assert own["sd"]["treated"] < 0.1


def test_a_time_of_zero_and_a_missing_one_are_refused_with_their_row():
    for bad, said in ((0.0, "first 0 in row 3"), (np.nan, "first nan in row 3")):
        rows = people(200)
        rows.loc[3, "at_risk"] = bad
        with pytest.raises(DataError, match=f"'at_risk' is no exposure .* {said}"):
            bc.build_coreset(rows, formula="died ~ age", family="poisson", exposure="at_risk", **QUIET)
