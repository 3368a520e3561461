"""The compiled log posterior density: weighted log-likelihood and prior, value and gradient in one pass.

The samplers call it some 1e5 times a second, so it allocates little and never raises. The prior's formulas are those
of `priors`, which also holds the families' numbers; the likelihood's are its own, see `models.dispatch`.
"""

import math

import numpy as np

from bayescore.compiled import jit, jit_sums
from bayescore.types import FloatArray, Likelihood

_LOG_SQRT_2PI = math.log(math.sqrt(2.0 * math.pi))

# columns of Z, shape (D, n); weights; signed offsets, or none; likelihood; family of the prior and its table
DensityArguments = tuple[FloatArray, FloatArray, FloatArray, Likelihood, int, FloatArray]


@jit
def prior_terms(beta: FloatArray, family: int, table: FloatArray, gradient: FloatArray, curvature: FloatArray) -> float:
    """Return the log prior density; write its gradient and minus its second derivatives, shape (D,) each.

    `table`, shape (3, D), holds the parameters of each coefficient, see `priors`; of priors by name a fourth row holds
    their families.
    """
    total = 0.0
    if family == 4:  # multivariate normal: mean, log density there, precision
        for d in range(beta.size):
            gradient[d] = 0.0
            for j in range(beta.size):
                gradient[d] -= table[2 + d, j] * (beta[j] - table[0, j])
            total += 0.5 * gradient[d] * (beta[d] - table[0, d])
            curvature[d] = table[2 + d, d]
        return total + float(table[1, 0])
    for d in range(beta.size):
        kind = family if family != 5 else int(table[3, d])
        if kind == 0:  # normal: mean, sd
            sd = table[1, d]
            r = (beta[d] - table[0, d]) / sd
            total -= 0.5 * r * r + math.log(sd) + _LOG_SQRT_2PI
            gradient[d] = -r / sd
            curvature[d] = 1.0 / (sd * sd)
        elif kind == 1:  # Student t: location, scale, degrees of freedom
            scale, nu = table[1, d], table[2, d]
            r = (beta[d] - table[0, d]) / scale
            v = nu + r * r
            total += math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)
            total -= math.log(scale) + 0.5 * (nu + 1.0) * math.log1p(r * r / nu)
            gradient[d] = -(nu + 1.0) * r / (v * scale)
            curvature[d] = (nu + 1.0) * (nu - r * r) / (v * v * scale * scale)
        elif kind == 2:  # Laplace: location, scale, rounding of the kink
            scale, rounding = table[1, d], table[2, d]
            r = (beta[d] - table[0, d]) / scale
            size = math.sqrt(r * r + rounding * rounding)
            total -= size - rounding + math.log(2.0 * scale)
            gradient[d] = -r / (size * scale) if size > 0.0 else 0.0
            curvature[d] = (rounding / scale) ** 2 / size**3 if size > 0.0 else 0.0
        elif kind == 3:  # spike and slab: spike sd, slab sd, probability of the slab
            spike, slab, p = table[0, d], table[1, d], table[2, d]
            a = math.log(p) - math.log(slab) - 0.5 * (beta[d] / slab) ** 2
            b = math.log1p(-p) - math.log(spike) - 0.5 * (beta[d] / spike) ** 2
            top = max(a, b)
            total += top + math.log(math.exp(a - top) + math.exp(b - top)) - _LOG_SQRT_2PI
            share = 1.0 / (1.0 + math.exp(min(b - a, 700.0)))
            pull = share / (slab * slab) + (1.0 - share) / (spike * spike)
            gap = 1.0 / (spike * spike) - 1.0 / (slab * slab)
            gradient[d] = -beta[d] * pull
            curvature[d] = pull - share * (1.0 - share) * gap * gap * beta[d] * beta[d]
        else:  # a family that has no formula here
            total = math.nan
    return total


@jit_sums
def log_density(
    beta: FloatArray,
    gradient: FloatArray,
    columns: FloatArray,
    weights: FloatArray,
    shift: FloatArray,
    link: Likelihood,
    family: int,
    table: FloatArray,
) -> float:
    r"""Return the log posterior density and write its gradient, shape (D,).

    sum_n w_n log p(z_n . beta + shift_n) + log prior(beta), no shift where that is empty; `columns` is Z transposed,
    shape (D, n), so that the compiler vectorises over rows.
    """
    scratch = np.empty(beta.size)
    total = prior_terms(beta, family, table, gradient, scratch)
    eta = np.zeros(weights.size)
    for d in range(beta.size):
        for n in range(weights.size):
            eta[n] += columns[d, n] * beta[d]
    for n in range(shift.size):
        eta[n] += shift[n]
    log_p = np.empty(weights.size)
    link.rows(eta, log_p)
    for n in range(weights.size):
        total += weights[n] * log_p[n]
        eta[n] *= weights[n]
    for d in range(beta.size):
        part = 0.0
        for n in range(weights.size):
            part += columns[d, n] * eta[n]
        gradient[d] += part
    return total
