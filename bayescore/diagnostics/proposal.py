"""Importance sampling's proposal: the multivariate Student t at the MAP, its scale the inverse Hessian there.

Tails heavier than the posterior's keep the weights bounded. Five degrees of freedom cost little where the posterior is
normal (of the draws 84% are effective at D = 5, 40% at D = 50, 17% at D = 300) and still have a variance.
"""

import math

import numpy as np
from scipy.special import gammaln

from bayescore.models.families import Family
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.modes import find_map
from bayescore.models.posterior import Derivatives, likelihood_terms, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData

DF = 5.0


def propose(
    core: WeightedData, family: Family, prior: Prior, n_draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return draws of the Student t, shape (S, D), and log prior minus log q there, shape (S,)."""
    D = core.n_features
    mode = find_map(core, family.name, prior.covering())
    factor = mode.factor
    if prior.kinked:
        factor = _laplace_factor(mode.beta, likelihood_terms(mode.beta, core, family), prior)
    normals = rng.standard_normal((n_draws, D))
    chi = rng.chisquare(DF, n_draws)
    beta = mode.beta + (normals * np.sqrt(DF / chi)[:, None]) @ factor.T
    log_q = gammaln(0.5 * (DF + D)) - gammaln(0.5 * DF) - 0.5 * D * math.log(DF * math.pi)
    log_q = log_q - np.log(np.diagonal(factor)).sum() - 0.5 * (DF + D) * np.log1p((normals**2).sum(axis=1) / chi)
    return beta, prior.log_density(beta) - log_q


def _laplace_factor(beta: FloatArray, terms: Derivatives, prior: Prior) -> FloatArray:
    """Return the proposal's scale where coefficients have a Laplace prior, whose curvature is 0 or infinite.

    On its flatter side the density falls off at the rate 1/b - |g|, g the likelihood's gradient at the MAP: 1/b where
    nothing pulls, 0 off the kink. An exponential of that rate stands in as a normal of precision rate^2 / 2; the
    floor keeps directions finite of which the data say nothing.
    """
    own = prior_part(beta, prior).precision
    for part, kinks, table in prior.parts(len(beta)):
        if part.kinked:
            mu, b = table[:2]
            rate = np.maximum(1.0 / b - np.abs(terms.gradient[kinks]), 1.0 / (2.0 * b + np.abs(beta[kinks] - mu)))
            own[kinks, kinks] = 0.5 * rate**2
    return factor_of_inverse(terms.precision + own)
