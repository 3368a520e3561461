"""What tells whether a sampler draws from the posterior, for all tests of samplers.

`check` compares means and sds with a reference, `rank_p_values` is simulation-based calibration. Both must reject
deliberately wrong kernels: every file of tests that uses one shows it.
"""

import math

import numpy as np
from scipy import stats

from bayescore.families.family import FAMILIES
from bayescore.models.posterior import prior_part
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.numerics.moments import moments_mcse
from bayescore.priors import Normal
from bayescore.samplers.method import Segment
from bayescore.types import WeightedData
from benchmarks.accuracy.reference_posteriors import summary

MIN_ESS = 5000
SDS = 5.5  # standard errors by which means and sds may be off
SD_ERROR = 0.0085  # relative, of the sd of 10,000 draws: 0.0071 of normal ones, a fifth more of these posteriors
P_VALUE = 1e-6  # below which ranks are not uniform


def weighted(X, y, weights=None):
    w = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    return WeightedData(np.ascontiguousarray(X, dtype=float), np.asarray(y, dtype=np.int8), w, np.arange(len(X)))


def check(draws, mean, mean_error, sd):
    """Assert that draws, shape (chain, draw, D), have the reference's means and sds.

    Every mean and every sd must lie within 5.5 standard errors, ours and the reference's: 4e-8 each for a normal error,
    which counts as 1e-7 because standard errors are themselves estimated, to 3% with the ESS asked for. The reference's
    sd is known to `SD_ERROR`, that of 10,000 draws, or better.
    """
    errors, sd_errors = mcse_mean(draws), moments_mcse(draws).sd
    assert min(ess(draws, "mean").min(), ess(draws, "sd").min()) > MIN_ESS
    for d in range(draws.shape[-1]):
        own = draws[..., d]
        error = math.hypot(errors[d], mean_error[d])
        assert abs(own.mean() - mean[d]) < SDS * error, f"mean {d}: {own.mean()} against {mean[d]}, error {error}"
        error = math.hypot(sd_errors[d], SD_ERROR * sd[d])
        assert abs(own.std() - sd[d]) < SDS * error, f"sd {d}: {own.std()} against {sd[d]}, error {error}"


def known(name, family):
    """Return figures for `check` of a reference posterior: 10,000 draws of PyMC's NUTS, a program that is not ours.

    The rows are those of `benchmarks.accuracy.reference_posteriors.data`, the prior is N(0, 4).
    """
    found = summary(name, family)
    return found["mean"], found["mean_mcse"], found["sd"]


def rank_p_values(sampler, family, counts, n_sims=600, seed=0):
    """Return the p-value of each coefficient's rank histogram in simulation-based calibration, shape (3,).

    Coefficients from the prior and labels from the model are a draw of the joint distribution. Put at a random place of
    a chain of 32 draws that leaves its posterior invariant, the true coefficient has a uniform rank among them, however
    slowly the chain mixes (Gandy and Scott 2020). As the samplers are reversible, both arms of the chain run forward.
    `counts` are the numbers of trials at each point of the design; the rows' weights are their successes and failures.
    Chi-squared test of 16 bins.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(len(counts)), rng.normal(size=(len(counts), 2))])
    prior = prior_part(np.zeros(3), Normal((0.5, 0.0, 0.0), (1.0, 1.0, 2.0)))
    ranks = np.empty((n_sims, 3))
    for i in range(n_sims):
        beta = rng.normal([0.5, 0.0, 0.0], [1.0, 1.0, 2.0])
        hits = rng.binomial(counts, FAMILIES[family].mean(X @ beta))
        weights = np.concatenate([hits, counts - hits]).astype(float)
        kept = weights > 0
        arguments = sampler.prepare(np.vstack([X, -X])[kept], weights[kept], prior)
        ahead = rng.integers(32)
        below = np.zeros(3)
        for n in (ahead, 31 - ahead):
            segment = Segment.empty(n, 3, thin=3)
            if n:
                sampler.advance(rng, beta, None, arguments, segment)
            below += (segment.draws < beta).sum(axis=0)
        ranks[i] = below
    found = np.stack([np.bincount(column.astype(int) // 2, minlength=16) for column in ranks.T])
    return stats.chisquare(found, axis=1).pvalue
