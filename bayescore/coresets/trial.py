r"""Trying a coreset out: draws of its posterior, the full data's log-likelihood there, and the errors to expect.

For draws theta_s of the posterior of a coreset with log-likelihood L~, and L that of the full data, weights
proportional to exp(L(theta_s) - L~(theta_s)) turn them into draws of the full-data posterior. The errors of *any*
weighted rows follow from the same draws, by weights exp(L'(theta_s) - L~(theta_s)), without another pass.
"""

import math
from dataclasses import dataclass

import numpy as np

from bayescore.data.passes import available_cores, map_blocks
from bayescore.models.likelihoods import Logistic, Probit
from bayescore.models.posterior import log_likelihood_tiles, log_likelihoods, posterior
from bayescore.models.priors import Prior
from bayescore.samplers import mala
from bayescore.samplers.run import run_chains
from bayescore.samplers.start import laplace_starts
from bayescore.types import FloatArray, Source, WeightedData

N_DRAWS = 500
MIN_ESS = 0.2  # share of the draws below which importance weights are not trusted
_CHAINS = 2


@dataclass(frozen=True, eq=False)
class Trial:
    """Draws of a coreset's posterior, shape (S, D), and the log-likelihoods there, shape (S,) each."""

    likelihood: Logistic | Probit
    draws: FloatArray
    own: FloatArray
    full: FloatArray

    @property
    def importance(self) -> FloatArray:
        """Weights that turn the draws into draws of the full-data posterior, shape (S,)."""
        return importance(self.full - self.own)

    def errors(self, rows: WeightedData) -> tuple[float, float]:
        """Return the largest error of a mean, in posterior sds, and the largest relative error of an sd.

        Where the draws do not cover both posteriors, the sd of the difference of the log-likelihoods stands for both:
        for normal posteriors it is at least either error.
        """
        theirs = log_likelihoods(self.draws, rows, self.likelihood)
        here, there = importance(theirs - self.own), self.importance
        if min(_ess(here), _ess(there)) < MIN_ESS * len(self.draws):
            spread = float((self.full - theirs).std())
            return spread, spread
        mean, sd = _moments(self.draws, here)
        true_mean, true_sd = _moments(self.draws, there)
        return float(np.abs((mean - true_mean) / true_sd).max()), float(np.abs(sd / true_sd - 1.0).max())

    def shares_and_totals(self, rows: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return the rows' shares in the centred log-likelihoods at the draws, shape (S, m), and the full data's.

        Draws count by their importance, so that far-off ones do not rule the fit.
        """
        u = self.importance
        scale = 6.0 * np.sqrt(u)
        each = np.concatenate([part for _, part in log_likelihood_tiles(self.draws, rows, self.likelihood)])
        each = rows.weights[:, None] * (each - (each @ u)[:, None])
        return (each * scale).T, scale * (self.full - self.full @ u)


def importance(log_ratio: FloatArray) -> FloatArray:
    """Return importance weights that sum to 1, cut off at sqrt(S) times their mean (Ionides 2008)."""
    weights = np.exp(log_ratio - log_ratio.max())
    weights = np.minimum(weights, math.sqrt(len(weights)) * weights.mean())
    return np.asarray(weights / weights.sum())


def _ess(weights: FloatArray) -> float:
    return float(1.0 / (weights**2).sum())


def _moments(draws: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean = weights @ draws
    return mean, np.sqrt(weights @ (draws - mean) ** 2)


def try_out(
    source: Source,
    rows: WeightedData,
    likelihood: Logistic | Probit,
    prior: Prior,
    guess: FloatArray,
    seed: int,
    progressbar: bool,
) -> Trial:
    """Draw from the posterior of `rows` by MALA, from about `guess`, and evaluate the full data there; one pass."""
    target = posterior(rows, likelihood, prior)
    *streams, last = np.random.SeedSequence(seed).spawn(_CHAINS + 1)
    starts, factor = laplace_starts(target, _CHAINS, last, guess)
    drawn = run_chains(
        mala,
        target.arguments(),
        starts,
        np.ascontiguousarray(factor),
        mala.first_step_size(target.n_features),
        draws=N_DRAWS // _CHAINS,
        tune=100,
        thin=10,
        cores=min(_CHAINS, available_cores()),
        seeds=streams,
        progressbar=False,
    )
    draws = drawn.theta.reshape(N_DRAWS, -1)
    full = np.zeros(N_DRAWS)
    for part in map_blocks(
        source,
        lambda _, block: log_likelihoods(draws, block, likelihood),
        description="trying the coreset out",
        progressbar=progressbar,
        canonical=True,
    ):
        full += part
    return Trial(likelihood, draws, log_likelihoods(draws, rows, likelihood), full)
