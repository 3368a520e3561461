"""Simulation-based calibration of the joint sampler: crossed factors, and slopes with their correlation, in miniature.

Coefficients, sds, the correlation, effects and labels are drawn from the prior: 12 x 8 levels and two rows a cell, or
12 groups of 12 rows with a slope. Ranks of the truth among 99 draws are uniform if all is right: `p_value` is that of a
chi-square test of ten bins. `control` is that of draws under another prior of the sds, half normal of scale 1/2 in
place of 1; it must be small for the sds.
"""

import warnings

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.multilevel_sbc import DRAWS, p_value_rows, p_values, publish_p_values
from benchmarks.sbc.ranks import rank

PRIOR, SCALE = bc.priors.Normal(0.0, 1.0), 1.0
TERMS = {"crossed": "y ~ x + (1 | a) + (1 | b)", "slopes": "y ~ x + (1 + x | a)"}
NAMES = {
    "crossed": ("intercept", "x", "sigma a", "sigma b", "u of the first a", "u of the first b"),
    "slopes": ("intercept", "x", "sigma", "sigma of x", "correlation", "u of the first", "slope of the first"),
}


def simulated(kind: str, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows and the truth of each quantity."""
    rng = np.random.default_rng([seed, len(kind)])
    beta, sigma = rng.normal(size=2), np.abs(rng.normal(size=2)) * SCALE
    if kind == "crossed":
        a, b = np.repeat(np.arange(12), 16), np.tile(np.repeat(np.arange(8), 2), 12)
        u, v = sigma[0] * rng.normal(size=12), sigma[1] * rng.normal(size=8)
        x = rng.normal(size=len(a))
        effects, told = u[a] + v[b], [*sigma, u[0], v[0]]
    else:
        a = b = np.repeat(np.arange(12), 12)
        rho = 2.0 * rng.beta(2.0, 2.0) - 1.0  # LKJ(2)
        z = rng.normal(size=(2, 12))
        u, v = sigma[0] * z[0], sigma[1] * (rho * z[0] + np.sqrt(1.0 - rho**2) * z[1])
        x = rng.normal(size=len(a))
        effects, told = u[a] + v[a] * x, [*sigma, rho, u[0], v[0]]
    y = rng.random(len(a)) < 1.0 / (1.0 + np.exp(-(beta[0] + beta[1] * x + effects)))
    return pd.DataFrame({"x": x, "a": a, "b": b, "y": y.astype(int)}), np.array([*beta, *told])


def ranks(kind: str, seed: int, scale: float) -> np.ndarray | None:
    """Return the rank of the truth of each quantity for one data set; None if its labels are all alike."""
    frame, truth = simulated(kind, seed)
    if frame.y.nunique() < 2:
        return None
    kept = {"draws": 2 * (DRAWS + 1), "tune": 300, "chains": 2, "random_seed": seed, "progressbar": False, "cores": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = bc.all_rows(frame, formula=TERMS[kind], progressbar=False)
        posterior = bc.sample(core, prior=PRIOR, group_prior=bc.priors.HalfNormal(scale), **kept)["posterior"]
    parts = [posterior["beta"].values]
    if kind == "crossed":
        parts += [posterior[name].values[..., None] for name in ("sigma_a", "sigma_b")]
        parts += [posterior[name].values[..., :1] for name in ("u_a", "u_b")]
    else:
        parts += [posterior["sigma_a"].values, posterior["rho_a"].values, posterior["u_a"].values[:, :, 0]]
    draws = np.concatenate(parts, axis=2)[:, 3::4]  # far enough apart
    return rank(draws.reshape(-1, draws.shape[2])[:DRAWS], truth)


def main(trials: int = 200) -> None:
    """Test the ranks of both kinds, and of the control."""
    rows = []
    for kind, names in NAMES.items():
        own, control = (
            p_values(np.array([found for seed in range(trials) if (found := ranks(kind, seed, scale)) is not None]))
            for scale in (SCALE, 0.5 * SCALE)
        )
        rows += p_value_rows({"kind": kind}, names, trials, own, control)
    publish_p_values("several_terms_sbc", rows)
