"""NUTS through PyMC: the weighted model of `models.graph`, sampled by `pm.sample`."""

from typing import Any

import pymc as pm

from bayescore.compat import with_pymc_names
from bayescore.models.graph import regression_model
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData

_OF_THE_STEP = ("target_accept", "max_treedepth")
OWN_START = {"step", "init", "initvals", "nuts_sampler"}  # who gives one of these chooses starts and mass matrix


def sample_nuts(
    data: WeightedData,
    likelihood: str,
    prior: Prior,
    laplace: tuple[FloatArray, FloatArray] | None,
    *,
    draws: int,
    tune: int,
    chains: int,
    cores: int,
    seed: int,
    progressbar: bool,
    options: dict[str, Any],
) -> Any:
    """Return what the installed `pm.sample` returns, statistics under PyMC's names whatever its `nuts_sampler`.

    `laplace` holds a first point for each chain, shape (chains, D), and the covariance of the Laplace
    approximation, which serves as the (dense) mass matrix: PyMC's own jitter of 1 can be hundreds of posterior
    standard deviations where the weights sum to millions. None leaves starts and mass matrix to PyMC. Model and
    step are built afresh for each call, as a step that has adapted in other processes does not adapt again.
    `options` go to `pm.sample`. Unless they name a ``nuts_sampler`` it is PyMC's own: nutpie, which PyMC 6 prefers
    where it is installed, takes neither starts nor mass matrix.
    """
    options = dict(options)
    if prior.family is None and not options.keys() & OWN_START:
        options.setdefault("target_accept", 0.95)  # hierarchies such as the horseshoe's have funnels
    options.setdefault("nuts_sampler", "pymc")
    with regression_model(data, likelihood, prior):
        if laplace is not None:
            starts, covariance = laplace
            tuning = {name: options.pop(name) for name in _OF_THE_STEP if name in options}
            options["step"] = pm.NUTS(scaling=covariance, is_cov=True, **tuning)
            options["initvals"] = [{"beta": start} for start in starts]
        idata = pm.sample(
            draws=draws,
            tune=tune,
            chains=chains,
            cores=cores,
            random_seed=seed,
            progressbar=progressbar,
            **options,
        )
    return with_pymc_names(idata)
