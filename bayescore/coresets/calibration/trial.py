r"""Trying a coreset out: draws of its posterior, the full data's log-likelihood there, and the errors to expect.

For draws theta_s of the posterior of a coreset with log-likelihood L~, and L that of the full data, weights
proportional to exp(L(theta_s) - L~(theta_s)) turn them into draws of the full-data posterior. The errors of *any*
weighted rows follow from the same draws, by weights exp(L'(theta_s) - L~(theta_s)), without another pass.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayescore.coresets.draws.fixed_size import Candidates, candidates, keep, stack_candidates
from bayescore.data.opened import Opened
from bayescore.data.passes.threads import available_cores
from bayescore.limits import MIN_ESS_SHARE
from bayescore.models.posterior import log_likelihood_tiles, log_likelihoods, moments_over_draws, posterior
from bayescore.models.priors import Prior
from bayescore.samplers import mala
from bayescore.samplers.run import run_chains
from bayescore.samplers.start import mode_and_scale
from bayescore.types import FloatArray, Likelihood, WeightedData

N_DRAWS = 500
DRAWS = 6.0  # how much the log-likelihoods at the draws count, all together, beside the other totals (`totals`)
_CHAINS = 2


@dataclass(frozen=True, eq=False)
class Trial:
    """Draws of a coreset's posterior, shape (S, D), and the log-likelihoods there, shape (S,) each."""

    likelihood: Likelihood
    draws: FloatArray
    own: FloatArray
    full: FloatArray
    candidates: Candidates
    total: float

    def probability(self, rows: WeightedData) -> FloatArray:
        """Return w sd_s l(theta_s), shape (n,): how much each row moves the log-likelihood over the draws."""
        return np.concatenate([moves for _, _, moves in _moves(self.draws, rows, self.likelihood)])

    def errors(self, rows: WeightedData) -> tuple[float, float]:
        """Return to first order the largest error of a mean, in posterior sds, and relative error of an sd.

        Both are shrunk by the share of Monte Carlo noise in all coordinates' errors (James and Stein 1961), but are
        never said to be below that noise. Where the draws do not cover both posteriors, the sd of the difference of
        the log-likelihoods stands for both: it tells that they are far apart, not how far.
        """
        theirs = log_likelihoods(self.draws, rows, self.likelihood)
        here, there = importance(theirs - self.own), importance(self.full - self.own)
        if min(_ess(here), _ess(there)) < MIN_ESS_SHARE * len(self.draws):
            spread = float((self.full - theirs).std())
            return spread, spread
        mean = there @ self.draws
        squares = (self.draws - mean) ** 2
        sd = np.sqrt(there @ squares)
        change = here - there
        return (
            _largest(change, (self.draws - mean) / sd),
            # of the variance, halved
            _largest(change, 0.5 * (squares / sd**2 - 1.0)),
        )

    def shares_and_totals(self, rows: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return the rows' shares in the centred log-likelihoods at the draws, shape (S, m), and the full data's.

        Draws count by their importance, so that far-off ones do not rule the fit.
        """
        u = tempered(self.full - self.own)
        scale = DRAWS * np.sqrt(u)
        each = np.concatenate([part for _, part in log_likelihood_tiles(self.draws, rows, self.likelihood)])
        each = rows.weights[:, None] * (each - (each @ u)[:, None])
        return (each * scale).T, scale * (self.full - self.full @ u)


def _moves(
    draws: FloatArray, rows: WeightedData, likelihood: Likelihood
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield for some rows at a time their weights, their log p, shape (n, S), and w times its sd over the draws."""
    for part, log_p in log_likelihood_tiles(draws, rows, likelihood):
        w = rows.weights[part]
        yield w, log_p, w * np.sqrt(np.maximum(moments_over_draws(log_p)[1], 1e-200))


def importance(log_ratio: FloatArray) -> FloatArray:
    """Return importance weights that sum to 1, cut off at sqrt(S) times their mean (Ionides 2008)."""
    weights = np.exp(log_ratio - log_ratio.max())
    weights = np.minimum(weights, math.sqrt(len(weights)) * weights.mean())
    return np.asarray(weights / weights.sum())


def tempered(log_ratio: FloatArray) -> FloatArray:
    """Return `importance` of the largest power of the ratio at which `MIN_ESS_SHARE` of the draws still count."""
    power = 1.0
    while _ess(weights := importance(power * log_ratio)) < MIN_ESS_SHARE * len(log_ratio):
        power *= 0.7
    return weights


def _ess(weights: FloatArray) -> float:
    return float(1.0 / (weights**2).sum())


def _largest(change: FloatArray, values: FloatArray) -> float:
    """Return the largest change of a mean of `values`, shape (S, D), less its noise, if the weights change so."""
    errors = change @ values
    noise = float((change**2 @ values**2).mean())
    share = min(1.0, noise / max(float((errors**2).mean()), 1e-300))
    return max(float(np.abs(errors).max()) * (1.0 - share), math.sqrt(noise))


def try_out(
    opened: Opened,
    rows: WeightedData,
    likelihood: Likelihood,
    prior: Prior,
    guess: FloatArray,
    *,
    seed: int,
    draw_seed: int,
    size: int,
) -> Trial:
    """Draw from the posterior of `rows` by MALA, from about `guess`, and evaluate the full data there; one pass.

    `seed` is that of the posterior's draws; `draw_seed` and `size` are those of the rows that may join the coreset.
    """
    target = posterior(rows, likelihood, prior)
    mode, scale = mode_and_scale(target, guess)
    drawn = run_chains(
        mala,
        (np.ascontiguousarray(scale), target.arguments()),
        np.tile(mode, (_CHAINS, 1)),  # far-off starts can take long to come in, and nobody looks at R-hat here
        mala.first_step_size(target.n_features),
        draws=N_DRAWS // _CHAINS,
        tune=100,
        thin=10,
        cores=min(_CHAINS, available_cores()),
        seeds=np.random.SeedSequence(seed).spawn(_CHAINS),
        progressbar=False,
    )
    draws = drawn.theta.reshape(N_DRAWS, -1)

    def look(start: int, block: WeightedData) -> tuple[FloatArray, float, Candidates]:
        total, parts = np.zeros(N_DRAWS), []
        for w, log_p, moves in _moves(draws, block, likelihood):
            total += w @ log_p
            parts.append(moves)
        p = np.concatenate(parts)
        return total, float(p.sum()), candidates(p, start, block, size, draw_seed)

    full, total = np.zeros(N_DRAWS), 0.0
    kept: list[Candidates] = []
    for part, moves, more in opened.map(look, "trying the coreset out", canonical=True):
        full += part
        total += moves
        kept = keep(kept, more, size)
    return Trial(
        likelihood, draws, log_likelihoods(draws, rows, likelihood), full, stack_candidates(kept).best(size), total
    )
