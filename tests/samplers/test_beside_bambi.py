"""bambi's `(1 | g)` on all rows beside a multilevel coreset of them: the same posterior.

Moments of bambi's draws are kept: ``python -m tests.reference_moments bambi`` draws them again.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.numerics.chains import ess, mcse_mean
from tests.reference_moments import Moments, moments

FORMULA = "y ~ x + z + (1|g)"
FALSE_ALARM = 1e-6  # of all means together
OWN = 0.02  # sd, what the coreset's own means may be off by beside Monte Carlo error


def rows():
    rng = np.random.Generator(np.random.PCG64(5))  # the same rows under every shift: bambi's draws belong to them
    group = np.arange(900) % 20
    x, z = rng.normal(size=900), rng.choice(["a", "b"], 900)
    eta = -0.3 + 0.6 * x - 0.5 * (z == "b") + 0.8 * rng.normal(size=20)[group]
    y = (rng.random(900) < special.expit(eta)).astype(int)
    return pd.DataFrame({"y": y, "x": x, "z": z, "g": np.char.add("g", np.char.zfill(group.astype(str), 2))})


def of_bambi(frame):
    """Draws of beta, log sigma and the effects, in the order of `of_bayescore`."""
    import bambi

    wide = bambi.Prior("Normal", mu=0, sigma=2)
    priors = dict.fromkeys(("Intercept", "x", "z"), wide)
    priors["1|g"] = bambi.Prior("Normal", mu=0, sigma=bambi.Prior("HalfNormal", sigma=1))
    told = {"chains": 4, "cores": 1, "random_seed": 1, "progressbar": False, "target_accept": 0.9}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bambi's and formulae's own, of pandas
        model = bambi.Model(FORMULA, frame, family="bernoulli", priors=priors, center_predictors=False)
        posterior = model.fit(draws=5000, tune=1000, **told).posterior
    assert list(posterior["g__factor_dim"].values) == sorted(set(frame.g))
    parts = [posterior["Intercept"].values, posterior["x"].values, posterior["z"].values[..., 0]]
    return np.concatenate(
        [np.stack([*parts, np.log(posterior["1|g_sigma"].values)], axis=2), posterior["1|g"].values], axis=2
    )


def reference_draws(_):
    """Return bambi's draws, and rows, for `tests.reference_moments`."""
    frame = rows()
    return of_bambi(frame), arrays(frame)


def arrays(frame):
    return frame.y, frame.x, frame.z == "b", frame.g.str[1:].astype(int)


def of_bayescore(core, frame, group_prior):
    told = {"prior": bc.priors.Normal(0, 2), "group_prior": group_prior, "random_seed": 2, "progressbar": False}
    posterior = bc.sample(core, draws=2000, **told).posterior
    assert list(posterior["g"].values) == sorted(set(frame.g))
    return np.concatenate(
        [posterior["beta"].values, np.log(posterior["sigma_g"].values)[..., None], posterior["u_g"].values], axis=2
    )


def largest(own, theirs):
    """The largest error of a mean in standard errors, what the coreset may be off by taken away."""
    assert ess(own, "mean").min() > 400
    gap = np.abs(own.mean(axis=(0, 1)) - theirs.mean) - OWN * theirs.sd
    return (gap / np.hypot(mcse_mean(own), theirs.mean_error)).max()


@pytest.mark.statistical(rate=3e-6)
@pytest.mark.slow
def test_posterior_means_are_those_of_bambi():
    """Means of 3 coefficients, log sigma and 20 effects; rate: Bonferroni and the normal law, and the same for sds.

    Negative control: a narrow prior of sigma.
    """
    frame = rows()
    theirs = moments("bambi", arrays(frame))
    core = bc.build_coreset(frame, formula=FORMULA, method="multilevel", random_state=0, progressbar=False)
    assert core.params["pseudo_rows"] < 25
    limit = stats.norm.isf(FALSE_ALARM / (2 * len(theirs.mean)))
    own = of_bayescore(core, frame, bc.priors.HalfNormal(1))
    assert largest(own, theirs) < limit
    spread = Moments.of(own).sd / theirs.sd
    assert np.abs(spread - 1.0).max() < 0.22  # 6 times 0.036, of an sd of 400 effective draws
    assert largest(of_bayescore(core, frame, bc.priors.HalfNormal(0.1)), theirs) > limit
