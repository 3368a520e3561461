"""The compiled log posterior density: weighted log-likelihood and prior, value and gradient in one pass.

The samplers call it some 1e5 times a second, so it allocates little and never raises. The formulas are those of the
likelihood and of the prior, which are arguments (`models.dispatch`).
"""

from typing import Any

import numpy as np
from numba import literal_unroll

from bayescore.compiled import jit, jit_sums
from bayescore.models.families import Family
from bayescore.models.priors import Part
from bayescore.types import FloatArray

# columns of X, shape (D, n); sides, as floats; weights; offsets, or none; family; prior
DensityArguments = tuple[FloatArray, FloatArray, FloatArray, FloatArray, Family, tuple[Part, ...]]


@jit
def prior_terms(beta: FloatArray, prior: tuple[Part, ...], gradient: FloatArray) -> float:
    """Return the log prior density and write its gradient, shape (D,); each part is compiled for its own prior."""
    total = 0.0
    for part in literal_unroll(prior):
        total += part[0].terms(part[0], beta, part[1], part[2], gradient)
    return total


@jit_sums
def add_predictors(beta: FloatArray, columns: FloatArray, offset: FloatArray, eta: FloatArray) -> None:
    """Add x . beta + offset to eta, shape (n,); columns of X have shape (D, n), and `offset` may be empty."""
    for d in range(beta.size):
        for n in range(eta.size):
            eta[n] += columns[d, n] * beta[d]
    for n in range(offset.size):
        eta[n] += offset[n]


@jit_sums
def add_scores(columns: FloatArray, scores: FloatArray, gradient: FloatArray) -> None:
    """Add the sum of score times row to the gradient, shape (D,)."""
    for d in range(columns.shape[0]):
        part = 0.0
        for n in range(scores.size):
            part += columns[d, n] * scores[n]
        gradient[d] += part


@jit_sums
def log_density(beta: FloatArray, gradient: FloatArray, *arguments: Any) -> float:
    """Return the log posterior density and write its gradient, shape (D,); `arguments` are `DensityArguments`.

    sum_n w_n l(x_n . beta + offset_n, side_n) + log prior(beta); X is transposed, so that loops over rows vectorise.
    """
    columns, side, weights, offset, family, prior = arguments
    total = prior_terms(beta, prior, gradient)
    eta = np.zeros(weights.size)
    add_predictors(beta, columns, offset, eta)
    log_p = np.empty(weights.size)
    family.rows(eta, side, log_p)
    for n in range(weights.size):
        total += weights[n] * log_p[n]
        eta[n] *= weights[n]
    add_scores(columns, eta, gradient)
    return total
