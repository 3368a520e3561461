"""The samplers that `sample` knows: what each can do, its options, and how its chains are set up."""

import importlib.util
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescore.compat import effective_size, inference_data, split_rhat
from bayescore.data.coreset import feature_names
from bayescore.limits import MAX_RHAT, MIN_ESS_A_CHAIN
from bayescore.models.posterior import TargetDensity, posterior, prior_part
from bayescore.models.priors import GAUSSIAN, SMOOTH, SPIKE_AND_SLAB, Prior, check_density
from bayescore.samplers import gibbs, mala, polya_gamma
from bayescore.samplers.run import CHUNK, Draws, Sampler, run_chains
from bayescore.samplers.start import spread_starts
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import check_choice, check_integer

_WORK = 2e7  # entries of X read between two looks at Ctrl-C: some tenths of a second
_MIN_DRAWS = 100  # fewer in a chain tell nothing of mixing


@dataclass(frozen=True, eq=False)
class Task:
    """What `sample` was asked for, checked; `streams` has one seed for each chain and one for their starts."""

    data: WeightedData
    likelihood: str
    prior: Prior
    draws: int
    tune: int
    chains: int
    cores: int
    seed: int
    streams: list[np.random.SeedSequence]
    progressbar: bool
    options: dict[str, Any]

    def starts(self, target: TargetDensity) -> tuple[FloatArray, FloatArray]:
        """Return a first point for each chain, shape (chains, D), and the factor L of the posterior's scale."""
        return spread_starts(target, self.chains, self.streams[-1])

    def run(self, sampler: Sampler, arguments: tuple[Any, ...], starts: FloatArray, tuning: Any, thin: int) -> Draws:
        """Return the draws of one chain from each start."""
        return run_chains(
            sampler,
            arguments,
            starts,
            tuning,
            draws=self.draws,
            tune=self.tune,
            thin=thin,
            cores=self.cores,
            seeds=self.streams[:-1],
            progressbar=self.progressbar,
            chunk=max(1, min(CHUNK, int(_WORK // (thin * self.data.X.size)))),
        )

    def chosen_options(self, sampler: str, **known: Any) -> dict[str, Any]:
        """Return the options given, and those in `known` where none is given."""
        for name in self.options:
            if name not in known:
                raise TypeError(f"{name!r} is not an option of sampler={sampler!r}, which takes {', '.join(known)}")
        return {**known, **self.options}


def sample_by_nuts(task: Task) -> Any:
    """Run NUTS through PyMC, from Laplace's approximation where it tells the posterior's width."""
    from bayescore.samplers.nuts import OWN_START, sample_nuts  # PyMC takes seconds to import

    if task.options.get("nuts_sampler") == "nutpie" and importlib.util.find_spec("nutpie") is None:
        raise ImportError("nuts_sampler='nutpie' needs the package nutpie: pip install 'bayescore[nutpie]'")
    laplace = None
    if task.prior.family in SMOOTH and not task.options.keys() & OWN_START:
        starts, spread = task.starts(posterior(task.data, task.likelihood, task.prior))
        laplace = starts, spread @ spread.T
    return sample_nuts(
        task.data,
        task.likelihood,
        task.prior,
        laplace,
        draws=task.draws,
        tune=task.tune,
        chains=task.chains,
        cores=task.cores,
        seed=task.seed,
        progressbar=task.progressbar,
        options=task.options,
    )


def sample_by_mala(task: Task) -> Any:
    """Run adaptive MALA."""
    options = task.chosen_options("mala", thin=10, preconditioner="laplace")
    thin = check_integer(options["thin"], "thin", low=1)
    check_choice(options["preconditioner"], "preconditioner", ("laplace", "identity"))
    if check_density(task.prior, "sampler='mala'").family == SPIKE_AND_SLAB:
        raise ValueError("sampler='mala' cannot cross between spike and slab; use sampler='nuts'")
    target = posterior(task.data, task.likelihood, task.prior)
    starts, spread = task.starts(target)
    log_epsilon = mala.first_step_size(target.n_features)
    if options["preconditioner"] == "identity":
        log_epsilon += math.log(float(np.linalg.norm(spread, axis=1).min()))
        spread = np.eye(target.n_features)
    drawn = task.run(mala, (np.ascontiguousarray(spread), target.arguments()), starts, log_epsilon, thin)
    step_size = np.repeat(np.exp(drawn.tuning)[:, None], task.draws, axis=1)
    return _to_inference_data(drawn, task.data, step_size=step_size)


def sample_by_gibbs(task: Task) -> Any:
    """Run Albert and Chib's sampler: `gibbs`."""
    return _augmented(task, gibbs, "gibbs", "probit")


def sample_by_polya_gamma(task: Task) -> Any:
    """Run the Polya-Gamma sampler: `polya_gamma`."""
    return _augmented(task, polya_gamma, "polya_gamma", "logistic")


def _augmented(task: Task, sampler: Any, name: str, likelihood: str) -> Any:
    """Run a sampler by data augmentation, which fits one likelihood and Gaussian priors."""
    thin = check_integer(task.chosen_options(name, thin=1)["thin"], "thin", low=1)
    if task.likelihood != likelihood:
        other = "polya_gamma" if name == "gibbs" else "gibbs"
        raise ValueError(
            f"sampler={name!r} is for the {likelihood} likelihood and this one is {task.likelihood}; "
            f"use sampler={other!r}, 'mala' or 'nuts'"
        )
    if task.prior.family not in GAUSSIAN:
        raise ValueError(
            f"sampler={name!r} needs a Gaussian prior, Normal or MultivariateNormal; {task.prior} is none: "
            "use sampler='nuts', or 'mala' if it is StudentT, Cauchy or Laplace"
        )
    target = posterior(task.data, task.likelihood, task.prior)
    starts, _ = task.starts(target)
    arguments = sampler.prepare(target.Z, target.weights, prior_part(np.zeros(target.n_features), task.prior))
    return _to_inference_data(task.run(sampler, arguments, starts, None, thin), task.data)


SAMPLERS: dict[str, Callable[[Task], Any]] = {
    "nuts": sample_by_nuts,
    "mala": sample_by_mala,
    "gibbs": sample_by_gibbs,
    "polya_gamma": sample_by_polya_gamma,
}


def _to_inference_data(drawn: Draws, data: WeightedData, **stats: FloatArray) -> Any:
    return inference_data(
        {
            "posterior": {"beta": drawn.theta},
            "sample_stats": {"lp": drawn.log_density, "acceptance_rate": drawn.acceptance_rate, **stats},
        },
        coords={"feature": list(feature_names(data))},
        dims={"beta": ["feature"]},
    )


def warn_unless_mixed(idata: Any, sampler: str) -> None:
    """Warn where the smallest effective sample size or the largest R-hat says that the chains have not mixed.

    Both are rank-normalised (Vehtari et al. 2021). R-hat is looked at from 1000 draws on, as it is noisy before;
    of fewer than 1000 draws a tenth must be effective.
    """
    beta = idata.posterior["beta"]
    chains, draws, _ = beta.shape
    if draws < _MIN_DRAWS:
        return
    with np.errstate(all="ignore"):  # a chain that stood still
        each = np.moveaxis(beta.values, 2, 0)
        sizes = np.array([effective_size(one, "bulk") for one in each])
        ratios = np.array([split_rhat(one) if chains > 1 and draws >= 1000 else 1.0 for one in each])
    found = []
    if not sizes.min() >= chains * min(MIN_ESS_A_CHAIN, draws / 10):
        name = beta["feature"].values[np.argmin(sizes)]
        found.append(f"the effective sample size of {name} is {sizes.min():.0f} of {chains * draws} draws")
    if not ratios.max() <= MAX_RHAT:
        found.append(f"R-hat of {beta['feature'].values[np.argmax(ratios)]} is {ratios.max():.3g}")
    if found:
        others = "'nuts'" if sampler == "mala" else "'mala' or 'nuts'"
        warnings.warn(
            f"the chains have not mixed, {' and '.join(found)}: take more draws, a larger thin, or sampler={others}",
            UserWarning,
            stacklevel=3,
        )
