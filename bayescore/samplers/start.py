"""Where chains start and how far they step: the Laplace approximation of the posterior."""

import numpy as np

from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.newton import find_mode
from bayescore.models.posterior import TargetDensity, likelihood_terms, width_precision
from bayescore.models.priors import LAPLACE
from bayescore.types import FloatArray


def mode_and_scale(target: TargetDensity, guess: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return the mode, shape (D,), sought from `guess` or from zero, and the Cholesky factor L of the scale."""
    mode = find_mode(target.terms, np.zeros(target.n_features) if guess is None else guess)
    if target.prior.family != LAPLACE:
        return mode.beta, factor_of_inverse(mode.terms.precision)
    own = likelihood_terms(mode.beta, target.Z, target.weights, target.likelihood).precision
    return mode.beta, factor_of_inverse(width_precision(own, mode.beta, target.prior))


def spread_starts(target: TargetDensity, chains: int, stream: np.random.SeedSequence) -> tuple[FloatArray, FloatArray]:
    """Return a first point for each chain, shape (chains, D), and the factor L of the scale.

    The points spread 1.5 times as wide as the posterior, so that R-hat means something.
    """
    mode, scale = mode_and_scale(target)
    noise = np.random.default_rng(stream).standard_normal((chains, target.n_features))
    return mode + 1.5 * noise @ scale.T, scale
