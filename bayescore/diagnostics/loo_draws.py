"""Draws that rows of the full data are left out of, and their weights from the coreset's to the full posterior."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.matching import check_same_design
from bayescore.diagnostics.full_weights import FullWeights, full_weights
from bayescore.models.families import Family
from bayescore.models.posterior import log_likelihoods
from bayescore.models.predictor import Predictor
from bayescore.models.priors import prior_from_dict
from bayescore.samplers.inference_data import read_posterior
from bayescore.samplers.moves import move_of
from bayescore.types import FloatArray
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class LooDraws:
    """Draws of one model, those of all chains below each other.

    `shape` is the number of chains and of draws of each; `corrected` draws are of the full data's posterior already.
    `log_base`, shape (S,), is the coreset's log-likelihood at each draw before `sample` moved it, and the log ratio of
    the prior there to that here.
    """

    name: str
    shape: tuple[int, int]
    predictor: Predictor
    core: Coreset
    family: Family
    corrected: bool
    log_base: FloatArray


def loo_draws(name: str, idata: Any, core: Coreset, max_draws: int, *, weighted: bool) -> LooDraws:
    """Return at most `max_draws` draws of a posterior, evenly spaced.

    Raises
    ------
    TypeError, DataError
        If they are no draws of the coreset's posterior, or of counts that are `weighted`.
    """
    if not isinstance(core, Coreset):
        raise TypeError(f"{name}: a {type(core).__name__} stands for the coreset; give (posterior, coreset)")
    posterior = read_posterior(idata, name)
    if "spread" in posterior.attrs:
        raise DataError(
            f"{name}: the spread of its draws is {posterior.attrs['spread']}: no row can be left out of it; give "
            "those of the model's own posterior, fit.cluster_robust(None).idata"
        )
    if core.counts and (weighted or core.design.weighted):
        exponential = posterior.family.exponential
        why = ", which cannot be told from exposures" if exponential else ""
        raise DataError(
            f"{name} is a model of counts with weights{why}: leave rows of counts out without weights"
            f"{', or compare models by log_evidence' if exponential else ''}"
        )
    check_same_design(core, posterior.features, posterior.design, f"the coreset of {name}")
    if posterior.story and posterior.story["rows"] != core.rows_digest:
        raise DataError(f"{name}: the draws are of another coreset's posterior; give the one that was sampled")
    predictor, n_chains = posterior.predictor(max_draws), len(posterior.draws)
    family, corrected = posterior.family, "corrected" in posterior.attrs
    if corrected:
        log_base = np.zeros(len(predictor))
    elif (move := move_of(posterior, core, family)) is None:
        log_base = log_likelihoods(predictor, core, family)
    else:
        drawn, prior = move.inverse(predictor.beta), prior_from_dict(posterior.story["prior"])
        log_base = log_likelihoods(drawn, core, family) + prior.log_density(drawn) - prior.log_density(predictor.beta)
    shape = n_chains, len(predictor) // n_chains
    return LooDraws(name, shape, predictor, core, family, corrected, log_base)


def weights_of(model: LooDraws, log_likelihood: FloatArray) -> FullWeights:
    """Return the weights of draws whose log-likelihood of the full data, shape (S,), is known; equal if corrected."""
    return full_weights(np.zeros(len(log_likelihood)) if model.corrected else log_likelihood - model.log_base)


def too_far(full: FullWeights) -> str:
    """Return what to do where weights cannot be trusted."""
    return (
        f"its draws are too far from the full data's posterior (k-hat {full.pareto_k:.2g} of the weights): certify "
        "them and give certificate.idata, or sample a larger coreset"
    )
