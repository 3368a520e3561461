"""Does one coreset serve other priors? Built under N(0, 4^2), 20 D rows, 3 seeds, against all rows under each.

Largest errors over coefficients, as in `posteriors`; "Laplace" is that approximation of all the data's posterior,
where the prior has a density in closed form. Horseshoe and "group scales" (beta_d ~ N(0, s_g), s_g ~ half-normal(2),
for two groups of columns, N(0, 4) for the intercept) are models of PyMC with `weighted_potential`, sampled by NUTS.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.accuracy.full_posteriors import Density, as_idata, digest, hmc, kept, reference
from benchmarks.accuracy.posteriors import ERRORS, errors_of, laplace_draws, over_seeds
from benchmarks.commands import command
from benchmarks.problems import load, readable
from benchmarks.tables import publish

LINK = "logistic"
SEEDS = 3
CLOSED = {"Cauchy(0, 2.5)": bc.priors.Cauchy(0, 2.5), "SpikeAndSlab(0.1, 4)": bc.priors.SpikeAndSlab(0.1, 4)}


def closed(core: bc.Coreset, prior: Any, seed: int) -> Any:
    """Sample under a prior with a density in closed form, as the reference is sampled."""
    return as_idata(hmc(Density(core, LINK, prior), 500, np.random.default_rng([2, seed])), core, LINK)


def horseshoe(n_features: int) -> Any:
    """Add the scales of the horseshoe, shape (D,), to the model."""
    import pymc as pm

    return pm.HalfCauchy("tau", 1.0) * pm.HalfCauchy("lambda", 1.0, shape=n_features)


def group_scales(n_features: int) -> Any:
    """Add a scale for each half of the columns to the model; return that of each coefficient, shape (D,)."""
    import pymc as pm

    half = n_features // 2
    scale = pm.HalfNormal("scale", 2.0, shape=2)
    return pm.math.concatenate([[4.0], scale])[np.repeat([0, 1, 2], [1, half, n_features - 1 - half])]


HIERARCHIES = {"Horseshoe(1)": horseshoe, "group scales": group_scales}


def hierarchical(data: bc.Coreset, scales: Callable[[int], Any], seed: int) -> Any:
    """Sample beta_d ~ N(0, scale_d), in coefficients whitened at the mode under N(0, 4): the likelihood dominates."""
    import pymc as pm  # takes seconds, which other benchmarks need not wait for

    mode = bc.find_map(data, LINK)
    with pm.Model(coords={"feature": data.feature_names}):
        scale = scales(data.n_features)
        white = pm.Flat("white", shape=data.n_features, initval=np.zeros(data.n_features))
        beta = pm.Deterministic("beta", mode.beta + pm.math.dot(mode.factor, white), dims="feature")
        pm.Potential("prior", pm.logp(pm.Normal.dist(0.0, scale), beta).sum())
        bc.weighted_potential("log_likelihood", data, beta, LINK)
        return pm.sample(
            draws=1000,
            tune=500,
            chains=4,
            cores=2,
            target_accept=0.9,
            nuts_sampler="nutpie",
            progressbar=False,
            random_seed=seed,
        )


def study(name: str) -> list[dict[str, Any]]:
    """Return the rows of one data set."""
    X, y = load(name)
    design = {"family": LINK, "intercept": True, "standardize": True, "progressbar": False}
    data = bc.build_coreset(X, y, method="aggregate", **design)
    size = 20 * data.n_features
    cores = {
        f"seed {seed}": bc.build_coreset(X, y, method="calibrated", size=size, random_state=seed, **design)
        for seed in range(SEEDS)
    }
    rows = []
    for label in [*CLOSED, *HIERARCHIES]:
        row: dict[str, Any] = {"data": name, "prior": label, "rows": size}
        if label in CLOSED:
            prior = CLOSED[label]
            truth = reference(name, data, LINK, prior)
            draws = {seed: closed(core, prior, i) for i, (seed, core) in enumerate(cores.items())}
            laplace = errors_of({"Laplace": laplace_draws(data, LINK, prior)}, truth)["Laplace"]
        else:
            scales = HIERARCHIES[label]
            key = f"{name} {LINK} {label} {digest(data)}"
            truth = kept(f"{name}-{LINK}", key, lambda scales=scales: hierarchical(data, scales, 100))
            draws = {seed: hierarchical(core, scales, i) for i, (seed, core) in enumerate(cores.items())}
            laplace = {}
        row |= over_seeds(pd.DataFrame.from_dict(errors_of(draws, truth), orient="index"))
        rows.append(row | {f"Laplace {error}": laplace[error] for error in ERRORS if laplace})
    return rows


@command("priors")
def main() -> None:
    warnings.filterwarnings("ignore", module="pymc")
    publish("priors", [row for name in readable(["chemreact_ds1_10", "Binary10"]) for row in study(name)])
