"""Whether counts are more spread than a family says: the figure, its reference, the size that is named, the advice."""

import math

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.model_check import Dispersion, dispersion_of
from bayescore.families.negative_binomial import most_likely_size
from tests.counted import QUIET, likely_size

POISSON = bc.families.Poisson()


def tiny_exposures(n=50_000, odd=30, seed=0):
    """Return Poisson counts of exposures up to 1, with a count of 1 in `odd` rows of exposures below 0.02."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"a": rng.normal(size=n), "years": rng.uniform(0.001, 1.0, n)})
    rate = np.exp(-1.8 + 0.2 * rows["a"])
    rows["n"] = rng.poisson(rows["years"] * rate)
    rows.loc[np.flatnonzero(rows["years"] < 0.02)[:odd], "n"] = 1
    return rows, (rows["years"] * rate).to_numpy()


def test_few_counts_of_tiny_exposures_are_no_overdispersion():
    """Pearson's statistic says more than 1.2 of them. The most likely size is at the end of what scipy goes through."""
    rows, expected = tiny_exposures()
    events = rows["n"].to_numpy(float)
    found = dispersion_of(events, expected[:, None], POISSON)
    assert ((events - expected) ** 2 / expected).mean() > 1.2
    assert not found.over
    squares = ((events - expected) ** 2).sum() / expected.sum()
    assert found.ratio == pytest.approx(squares, rel=1e-12)
    assert found.se == pytest.approx(math.sqrt((2.0 * expected**2 + expected).sum()) / expected.sum(), rel=1e-12)
    assert found.size is None
    assert likely_size(events, expected) > 2900.0


@pytest.mark.parametrize("rate", [0.0, 1e-300, 1e-12, math.inf, math.nan])
def test_counts_far_from_all_rates_have_no_size(rate):
    assert most_likely_size(np.array([0.0, 1.0, 2.0]), np.full(3, rate)) is None


def test_a_fit_of_them_has_no_advice():
    rows, _ = tiny_exposures(n=15_000, odd=12)
    fit = bc.fit("n ~ a", rows, family="poisson", exposure="years", random_state=1, **QUIET)
    assert "counts are as spread as the family says" in fit.certificate.dispersion.text
    assert "give" not in fit.certificate.dispersion.text


@pytest.mark.parametrize("size", [0.3, 2.0, 40.0])
def test_the_size_is_the_most_likely_one(size):
    """Within 1% of scipy's likelihood, and within 5 standard errors of the truth; the family does not matter."""
    rng = np.random.default_rng(3)
    eta = rng.normal(1.0, 1.0, 20_000)
    events, expected = bc.families.NegativeBinomial(size).draw(eta, rng), np.exp(eta)
    wanted = likely_size(events, expected)
    for family in (POISSON, bc.families.NegativeBinomial(size), bc.families.NegativeBinomial(5.0 * size)):
        assert dispersion_of(events, expected[:, None], family).size == pytest.approx(wanted, rel=0.01)
    own = dispersion_of(events, expected[:, None], bc.families.NegativeBinomial(size))
    assert own.size == pytest.approx(size, rel=0.2)
    assert not own.over
    assert not own.under
    assert "give" not in own.text


def test_counts_that_are_not_gamma_mixtures_have_no_size():
    assert most_likely_size(np.full(500, 3.0), np.full(500, 3.0)) is None
    assert most_likely_size(np.ones(500), np.full(500, math.inf)) is None
    big = np.full(500, 1e9) + 1e6 * np.random.default_rng(0).normal(size=500).round()
    assert most_likely_size(big, np.full(500, 1e9)) == pytest.approx(1e6, rel=0.3)


@pytest.mark.parametrize("size", [None, 1.5])
@pytest.mark.statistical(rate=1e-5)
def test_counts_of_the_family_are_rarely_said_to_be_off(size):
    """500 sets of 400 rows with skewed means: more than 14 verdicts, of at most 6 in 1,000, are rarer than 1e-5.

    Control: counts of twice that variance are found in most sets.
    """
    rng, off, found = np.random.default_rng(1), 0, 0
    family = POISSON if size is None else bc.families.NegativeBinomial(size)
    for _ in range(500):
        expected = rng.gamma(0.3, 1.0, 400) + 1e-6
        own = dispersion_of(family.draw(np.log(expected), rng), expected[:, None], family)
        other = bc.families.NegativeBinomial(0.3).draw(np.log(expected), rng)
        off += own.over + own.under
        found += dispersion_of(other, expected[:, None], family).over
    assert off <= 14
    assert found > 250


def test_the_figure_is_the_sandwich_of_an_intercept_over_the_models_variance():
    """Of negative binomial counts under a wrong size: replicated estimates spread by its root, within 5 sd of 2,000."""
    rng, n = np.random.default_rng(5), 400
    eta = rng.normal(0.0, 1.0, n)
    true, used = bc.families.NegativeBinomial(0.5), bc.families.NegativeBinomial(3.0)
    t = np.exp(eta)
    information = (t**2 / used.variance(eta)).sum()
    ratios, steps = [], []
    for _ in range(2000):
        events = true.draw(eta, rng)
        by = t / used.variance(eta)
        steps.append((by * (events - t)).sum() / information)
        ratios.append(dispersion_of(events, t[:, None], used).ratio)
    assert np.var(steps) * information == pytest.approx(np.mean(ratios), rel=5.0 * math.sqrt(2.0 / 2000))
    assert np.mean(ratios) > 2.0


@pytest.mark.slow
@pytest.mark.parametrize("size", [None, 2.0])
@pytest.mark.statistical(rate=1e-5)
def test_effects_that_follow_the_counts_are_no_underdispersion(size):
    """Squares of the model's own counts about fitted means: 0.8 of the expected ones, 4 a group, 0.99 in 20 groups.

    Each figure is beyond five standard errors in fewer than 1 of 100,000 sets. Control: the sum about fitted means.
    """
    rng, family = np.random.default_rng(4), POISSON if size is None else bc.families.NegativeBinomial(size)
    for n_groups, low, high in ((1000, 0.0, 0.9), (20, 0.9, 1.1)):
        rows = pd.DataFrame({"x": rng.normal(size=4000), "g": rng.integers(0, n_groups, 4000).astype(str)})
        effects = pd.Series(0.8 * rng.normal(size=n_groups), index=np.arange(n_groups).astype(str))
        rows["n"] = family.draw((0.3 * rows["x"] + rows["g"].map(effects)).to_numpy(), rng)
        fit = bc.fit("n ~ x + (1 | g)", rows, family=family, random_state=1, **QUIET)
        own = fit.certificate.dispersion
        assert abs(own.ratio - 1.0) < 5.0 * own.se
        assert not own.over
        assert not own.under
        expected = fit.predict(rows)["mean"].to_numpy()
        fitted = dispersion_of(rows["n"].to_numpy(float), expected[:, None], family)
        assert low < fitted.ratio < high
        if size is not None:  # at fitted means it would be 4 in many groups
            assert own.size == pytest.approx(size, rel=0.3)
            assert (fitted.size > 1.5 * size) == (n_groups == 1000)


@pytest.mark.slow
def test_counts_of_another_family_in_small_groups_have_a_figure_that_can_be():
    """Poisson counts, 4 a group, under a size of 0.3: phi at their true means is about 0.1."""
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(100), 4)
    eta = 0.5 + 1.5 * rng.normal(size=100)[g]
    rows = pd.DataFrame({"n": rng.poisson(np.exp(eta)), "g": g.astype(str)})
    family = bc.families.NegativeBinomial(0.3)
    found = bc.fit("n ~ 1 + (1 | g)", rows, family=family, random_state=1, **QUIET).certificate.dispersion
    true = dispersion_of(rows["n"].to_numpy(float), np.exp(eta)[:, None], family)
    assert 0.5 * true.ratio < found.ratio < 2.0 * true.ratio
    assert found.under


def test_effects_that_fit_whatever_the_counts_are_leave_no_figure():
    events = np.array([3.0, 4.0, 1.0])
    sides = events[:, None] + np.sqrt(events)[:, None] * [-1.0, 1.0]  # posterior means and variances are the counts
    assert dispersion_of(events, sides, POISSON) is None
    assert dispersion_of(events, events[:, None] + 0.5 * (sides - events[:, None]), POISSON) is not None


def test_advice_fits_how_the_counts_were_given():
    """An exposure is one of Poisson counts alone: what is named is given as it can be."""
    over = {"ratio": 2.0, "se": 0.02, "n_rows": 1000, "size": 1.5}
    named = "or give family='negative_binomial', of a size near 1.5"
    assert f"{named}, or take" in Dispersion(**over).text
    exposed = Dispersion(**over, exposed=True).text
    assert f"{named}, with offset= the log of the exposure in place of exposure=, or take" in exposed
    assert named not in Dispersion(**over, given=1.55).text  # what is named would not be another family
    assert named not in Dispersion(**over, given=0.5).text  # nor one with smaller variances
    assert named in Dispersion(**over, given=4.0).text
    under = {**over, "ratio": 0.5}
    assert "give family='negative_binomial', of a size near 1.5" in Dispersion(**under, given=0.5).text
    assert "give family='poisson'" in Dispersion(**{**under, "size": None}, given=0.5).text
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"a": rng.normal(size=4000), "years": rng.uniform(0.5, 2.0, 4000)})
    rows["n"] = rng.poisson(rows["years"] * rng.gamma(0.5, 2.0, 4000))
    fit = bc.fit("n ~ a", rows, family="poisson", exposure="years", random_state=1, **QUIET)
    said = fit.certificate.dispersion.text
    assert ", with offset= the log of the exposure in place of exposure=" in said
    rows["log_years"] = np.log(rows["years"])
    named = said.split("family='")[1].split("'")[0]
    again = bc.fit("n ~ a", rows, family=named, offset="log_years", random_state=1, **QUIET)
    assert "as spread as the family says" in again.certificate.dispersion.text


@pytest.mark.slow
def test_claims_of_vehicle_policies(shared_data):
    """Published counts with tiny exposures: Pearson's statistic is 1.46 there, and names a size of 0.08.

    The sandwich of rows has 0.92 to 1.02 times the model's sds; the most likely size of all rows is 2.08.
    """
    rows = pd.read_parquet(shared_data("ausprivauto0405.parquet"))
    rows["lo"] = np.log(rows["Exposure"])
    how = {"offset": "lo", "random_state": 1, **QUIET}
    fit = bc.fit("ClaimNb ~ VehValue + Gender", rows, family="poisson", **how)
    found = fit.certificate.dispersion
    assert not found.over
    assert not found.under
    with pytest.warns(UserWarning, match="each cluster is one row"):
        robust = fit.cluster_robust(np.arange(len(rows)))
    ratios = robust.summary()["sd"] / fit.summary()["sd"]
    assert ratios.between(0.85, 1.1).all()
    assert np.sqrt(found.ratio) == pytest.approx(ratios.mean(), abs=0.1)
    expected = fit.predict(rows)["mean"].to_numpy()
    assert most_likely_size(rows["ClaimNb"].to_numpy(float), expected) == pytest.approx(2.08, rel=0.01)
    assert found.size == pytest.approx(2.08, rel=0.15)  # of a sample of the rows
    small = bc.fit("ClaimNb ~ VehValue + Gender", rows, family="negative_binomial(0.08)", **how).certificate
    assert small.dispersion.under
    assert f"give family='negative_binomial', of a size near {small.dispersion.size:.3g}" in small.dispersion.text
    assert fit.certificate.elpd_loo > small.elpd_loo + 1000.0
    own = bc.fit("ClaimNb ~ VehValue + Gender", rows, family="negative_binomial(2.08)", **how).certificate
    assert "as spread as the family says" in own.dispersion.text
