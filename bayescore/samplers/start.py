"""Where chains start and how far they step: the Laplace approximation of the posterior."""

import numpy as np

from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.newton import find_mode
from bayescore.models.posterior import TargetDensity, likelihood_terms, width_precision
from bayescore.types import FloatArray


def mode_and_precision(
    target: TargetDensity, guess: FloatArray, tolerance: float = 1e-8
) -> tuple[FloatArray, FloatArray]:
    """Return the mode, shape (D,), sought from `guess` to `tolerance` sds, and the `width_precision` there."""
    mode = find_mode(target.terms, guess, tolerance=tolerance)
    if not target.prior.kinked:
        return mode.beta, mode.terms.precision
    own = likelihood_terms(mode.beta, target.rows, target.family).precision
    return mode.beta, width_precision(own, mode.beta, target.prior)


def spread_starts(target: TargetDensity, chains: int, stream: np.random.SeedSequence) -> tuple[FloatArray, FloatArray]:
    """Return a first point for each chain, shape (chains, D), and the factor L of the scale.

    The points spread 1.5 times as wide as the posterior, so that R-hat means something.
    """
    mode, precision = mode_and_precision(target, np.zeros(target.n_features))
    scale = factor_of_inverse(precision)
    noise = np.random.default_rng(stream).standard_normal((chains, target.n_features))
    return mode + 1.5 * noise @ scale.T, scale
