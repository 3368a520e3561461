"""Where chains start and how far they step: the Laplace approximation of the posterior."""

import numpy as np
from scipy import linalg

from bayescore.models.newton import find_mode
from bayescore.models.posterior import Posterior, likelihood_terms
from bayescore.models.priors import LAPLACE
from bayescore.types import FloatArray


def laplace_starts(
    target: Posterior, chains: int, stream: np.random.SeedSequence, guess: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return a first point for each chain, shape (chains, D), and the Cholesky factor of the Laplace covariance.

    The points spread 1.5 times as wide as the posterior, so that R-hat means something. The mode is sought from
    `guess`, by default from zero.
    """
    mode = find_mode(target.terms, np.zeros(target.n_features) if guess is None else guess)
    spread = mode.factor
    if target.prior.family == LAPLACE:  # the kink's curvature says nothing of the prior's width, its variance does
        own = likelihood_terms(mode.beta, target.Z, target.weights, target.likelihood).precision
        variance = 2.0 * target.prior.table(target.n_features)[1] ** 2
        spread = np.asarray(linalg.cholesky(linalg.inv(own + np.diag(1.0 / variance)), lower=True))
    noise = np.random.default_rng(stream).standard_normal((chains, target.n_features))
    return mode.beta + 1.5 * noise @ spread.T, spread
