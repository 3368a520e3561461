"""`sample`: from weighted rows to draws of the posterior, as ArviZ's InferenceData."""

import importlib.util
import json
import math
import time
from importlib.metadata import version
from typing import Any

import arviz as az
import numpy as np
import xarray as xr

from bayescore.data.coreset import Coreset, feature_names, own_likelihood
from bayescore.data.passes import available_cores
from bayescore.models.likelihoods import check_likelihood
from bayescore.models.posterior import posterior
from bayescore.models.priors import SMOOTH, SPIKE_AND_SLAB, Normal, Prior, check_density, check_prior
from bayescore.samplers import mala
from bayescore.samplers.run import Draws, run_chains
from bayescore.samplers.start import spread_starts
from bayescore.types import WeightedData
from bayescore.validation import RandomState, check_choice, check_integer, check_seed

SAMPLERS = ("nuts", "mala")


def sample(
    core: WeightedData,
    likelihood: str | None = None,
    prior: Prior | None = None,
    sampler: str = "nuts",
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    random_seed: RandomState = None,
    progressbar: bool = True,
    **options: Any,
) -> Any:
    """Sample the posterior of a coreset, or of any weighted rows.

    Parameters
    ----------
    core : WeightedData
        A coreset or full data.
    likelihood : {"logistic", "probit"}, optional
        By default the one that the coreset was built for.
    prior : prior, default Normal(0, 4)
        Prior of the coefficients; 4 is the standard deviation.
    sampler : {"nuts", "mala"}
        * ``"nuts"``: the No-U-Turn sampler through `pm.sample`; any prior.
        * ``"mala"``: adaptive Metropolis-adjusted Langevin, compiled; smooth or Laplace priors.
    draws, tune, chains : int
        Draws kept of each chain, draws of warm-up before them, and chains.
    cores : int, optional
        Chains that run at once; by default as many as there are cores, at most `chains`. Draws do not depend
        on it.
    random_seed : int, Generator, SeedSequence or None
        Seed; the one used is kept in the posterior's attributes.
    progressbar : bool
        Show progress.
    **options
        For ``"nuts"``: anything that `pm.sample` takes, such as ``target_accept=0.95`` or
        ``nuts_sampler="nutpie"``. For ``"mala"``: `thin`, transitions for each draw kept (default 10), and
        `preconditioner`, "laplace" (inverse Hessian at the mode, default) or "identity" (as Huggins et al.).

    Returns
    -------
    InferenceData
        What the installed `pm.sample` returns: posterior `beta` with dims (chain, draw, feature),
        sample_stats, and constant_data with X, y and weights. The potentials of weighted rows have no
        log_likelihood group: see `log_likelihood` for the pointwise one.

    Raises
    ------
    ValueError, TypeError
        For arguments that are out of range or do not fit the sampler, before sampling starts.
    """
    chosen = check_choice(sampler, "sampler", SAMPLERS)
    link = check_likelihood(own_likelihood(core, likelihood)).name
    prior = check_prior(Normal(0.0, 4.0) if prior is None else prior)
    if prior.family is not None:
        prior.table(core.n_features)  # shapes
    check_integer(draws, "draws", low=1)
    check_integer(tune, "tune", low=0)
    check_integer(chains, "chains", low=1)
    if cores is not None:
        check_integer(cores, "cores", low=1)
    workers = min(chains, cores or available_cores())
    seed = check_seed(random_seed, "random_seed")
    streams = np.random.SeedSequence(seed).spawn(chains + 1)
    begin = time.perf_counter()
    if chosen == "nuts":
        from bayescore.samplers.nuts import OWN_START, sample_nuts  # PyMC takes seconds to import

        if options.get("nuts_sampler") == "nutpie" and importlib.util.find_spec("nutpie") is None:
            raise ImportError("nuts_sampler='nutpie' needs the package nutpie: pip install 'bayescore[nutpie]'")
        laplace = None
        if prior.family in SMOOTH and not options.keys() & OWN_START:
            starts, spread = spread_starts(posterior(core, link, prior), chains, streams[-1])
            laplace = starts, spread @ spread.T
        idata = sample_nuts(
            core,
            link,
            prior,
            laplace,
            draws=draws,
            tune=tune,
            chains=chains,
            cores=workers,
            seed=seed,
            progressbar=progressbar,
            options=options,
        )
    else:
        thin, preconditioner = _mala_options(options)
        if check_density(prior, "sampler='mala'").family == SPIKE_AND_SLAB:
            raise ValueError("sampler='mala' cannot cross between spike and slab; use sampler='nuts'")
        target = posterior(core, link, prior)
        starts, spread = spread_starts(target, chains, streams[-1])
        log_epsilon = mala.first_step_size(target.n_features)
        if preconditioner == "identity":
            log_epsilon += math.log(float(np.linalg.norm(spread, axis=1).min()))
            spread = np.eye(target.n_features)
        drawn = run_chains(
            mala,
            target.arguments(),
            starts,
            np.ascontiguousarray(spread),
            log_epsilon,
            draws=draws,
            tune=tune,
            thin=thin,
            cores=workers,
            seeds=streams[:-1],
            progressbar=progressbar,
        )
        idata = _to_inference_data(drawn, core)
    return _with_story(idata, core, link, prior, chosen, seed, tune, time.perf_counter() - begin)


def _mala_options(options: dict[str, Any]) -> tuple[int, str]:
    known = {"thin": 10, "preconditioner": "laplace"}
    for name in options:
        if name not in known:
            raise TypeError(f"{name!r} is not an option of sampler='mala', which takes {', '.join(known)}")
    chosen = {**known, **options}
    return (
        check_integer(chosen["thin"], "thin", low=1),
        check_choice(chosen["preconditioner"], "preconditioner", ("laplace", "identity")),
    )


def _to_inference_data(drawn: Draws, data: WeightedData) -> Any:
    return az.from_dict(
        posterior={"beta": drawn.theta},
        sample_stats={
            "lp": drawn.log_density,
            "acceptance_rate": drawn.acceptance_rate,
            "step_size": np.repeat(drawn.step_size[:, None], drawn.log_density.shape[1], axis=1),
        },
        coords={"feature": list(feature_names(data))},
        dims={"beta": ["feature"]},
    )


def _with_story(
    idata: Any, data: WeightedData, likelihood: str, prior: Prior, sampler: str, seed: int, tune: int, seconds: float
) -> Any:
    """Add the data and what made the draws: enough to predict, report and repeat."""
    features = {"feature": list(feature_names(data))}
    constants = xr.Dataset(
        {"X": (("row", "feature"), data.X), "y": ("row", data.y), "weights": ("row", data.weights)},
        coords={"row": data.index, **features},
    )
    idata.add_groups(constant_data=constants)
    story: dict[str, Any] = {
        "likelihood": likelihood,
        "prior": repr(prior),
        "sampler": sampler,
        "random_seed": str(seed),
        "sampling_time": seconds,
        "tuning_steps": tune,
        "bayescore_version": version("bayescore"),
    }
    if sampler != "nuts":
        story |= {"inference_library": "bayescore", "inference_library_version": version("bayescore")}
    if isinstance(data, Coreset):
        story |= {"coreset": json.dumps(data.summary()), "design": json.dumps(data.design.to_dict())}
    idata.posterior.attrs.update(story)
    return idata
