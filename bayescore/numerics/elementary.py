r"""Elementary functions of compiled loops: exponentials that vectorise, and random numbers that are hashes.

Small dense linear algebra for compiled samplers; `compiled` says why not BLAS.

Tall matrices are given by columns, shape (D, n), so that loops over rows vectorise; triangular ones are lower.

Adaptive Gauss-Hermite quadrature of one effect for each group, and the moments of the effects.

With centre c and scale s of a group, nodes b_k = c + s z_k, and phi(b) the log-likelihood of the group's rows,

.. math:: \log \int e^{\phi(b)} N(b; 0, \sigma^2) db \approx
          \log \sum_k e^{\phi(b_k) - b_k^2 / (2 \sigma^2)} \frac{s}{\sigma} \omega_k e^{z_k^2 / 2}

where z_k, omega_k are nodes and weights for N(0, 1). Nine nodes are exact to 1e-6 nats where c and s are near mean and
sd of the effect given the data and the effect is nearly normal; `models.groups.nodes` has a rule for every group.
Reference: Pinheiro and Bates (1995), JCGS 4, 12-35.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit, jit_inner, jit_inner_sums, jit_sums
from bayescore.types import FloatArray, IntArray

ATANH = np.array([1.0 / (2 * j + 1) for j in range(16, -1, -1)])  # the series of atanh(s) / s in s^2, highest first


REACH = 700.0  # exp overflows at 709


_EXP = np.array([1.0 / math.factorial(j) for j in range(13, -1, -1)])


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


_MIX1 = np.uint64(0xBF58476D1CE4E5B9)


_MIX2 = np.uint64(0x94D049BB133111EB)


_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


@jit
def exp_minus(x: float) -> float:
    """Return exp(-x) of x >= -700, to 4e-16; loops that call it vectorise, as libm's exp does not.

    exp(-x) = 2^n exp(r), abs(r) <= log(2) / 2. Adding 1.5 * 2^52 leaves n in the low bits, which are shifted into the
    exponent.
    """
    t = max(-x, -700.0)
    shifted = t * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = (t - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    total = _EXP[0]
    for j in range(1, 14):
        total = total * r + _EXP[j]
    exponent = (np.float64(shifted).view(np.int64) + 1023) << 52
    return float(total * np.int64(exponent).view(np.float64))


@jit_inner
def exp_up_to(x: float) -> float:
    """Return exp(x), that of `REACH` for any above."""
    return exp_minus(-min(x, REACH))


def bounded_exp(x: FloatArray) -> FloatArray:
    """Return exp(x) as NumPy has it, that of `REACH` for any above."""
    return np.exp(np.minimum(np.asarray(x, dtype=np.float64), REACH))


@jit_inner
def mix(x: np.uint64) -> np.uint64:
    """Return the splitmix64 finaliser of x (Steele, Lea and Flood 2014)."""
    x = (x ^ (x >> _S30)) * _MIX1
    x = (x ^ (x >> _S27)) * _MIX2
    return x ^ (x >> _S31)


@jit
def hash_uniform(seed: np.uint64, position: np.uint64, arrival: np.uint64) -> float:
    """Return a number in (0, 1) that is a function of seed, position and arrival number."""
    x = mix(seed + _GOLDEN * (position + np.uint64(1)))
    x = mix(x + _GOLDEN * (arrival + np.uint64(1)))
    return (float(x >> _S11) + 0.5) * 1.1102230246251565e-16  # 2^-53


@jit_inner
def copy_to(target: FloatArray, values: FloatArray) -> None:
    """Write values, shape (n,), where they belong: a slice assigned to a slice compiles the text of an error, too."""
    for n in range(target.size):
        target[n] = values[n]


@jit_inner
def fill(target: FloatArray, value: float) -> None:
    """Write one value everywhere, as `copy_to` writes many."""
    for n in range(target.size):
        target[n] = value


@jit_inner_sums
def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the sum of products of two vectors."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@jit
def tall_times(columns: FloatArray, vector: FloatArray) -> FloatArray:
    """Return A v, shape (n,)."""
    product = np.zeros(columns.shape[1])
    for d in range(columns.shape[0]):
        for n in range(product.size):
            product[n] += columns[d, n] * vector[d]
    return product


@jit_sums
def tall_transposed_times(columns: FloatArray, vector: FloatArray) -> FloatArray:
    """Return A' v, shape (D,)."""
    product = np.empty(columns.shape[0])
    for d in range(product.size):
        total = 0.0
        for n in range(vector.size):
            total += columns[d, n] * vector[n]
        product[d] = total
    return product


@jit_sums
def add_gram(columns: FloatArray, weights: FloatArray, matrix: FloatArray) -> None:
    """Add A' diag(weights) A to the lower triangle of `matrix`, shape (D, D)."""
    weighted = np.empty(weights.size)
    for i in range(columns.shape[0]):
        for n in range(weights.size):
            weighted[n] = columns[i, n] * weights[n]
        for j in range(i + 1):
            total = 0.0
            for n in range(weights.size):
                total += weighted[n] * columns[j, n]
            matrix[i, j] += total


@jit
def factorise(matrix: FloatArray) -> None:
    """Replace the lower triangle of a positive definite matrix by its Cholesky factor; the upper one is not read."""
    for j in range(matrix.shape[0]):
        for i in range(j, matrix.shape[0]):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = math.sqrt(total) if i == j else total / matrix[j, j]


@jit
def times(lower: FloatArray, vector: FloatArray) -> FloatArray:
    """Return L v."""
    product = np.zeros(vector.size)
    for i in range(vector.size):
        for j in range(i + 1):
            product[i] += lower[i, j] * vector[j]
    return product


@jit
def transposed_times(lower: FloatArray, vector: FloatArray) -> FloatArray:
    """Return L' v."""
    product = np.zeros(vector.size)
    for i in range(vector.size):
        for j in range(i + 1):
            product[j] += lower[i, j] * vector[i]
    return product


@jit
def solve(lower: FloatArray, vector: FloatArray) -> FloatArray:
    """Return L^-1 v."""
    x = vector.copy()
    for i in range(x.size):
        for j in range(i):
            x[i] -= lower[i, j] * x[j]
        x[i] /= lower[i, i]
    return x


@jit
def transposed_solve(lower: FloatArray, vector: FloatArray) -> FloatArray:
    """Return L'^-1 v."""
    x = vector.copy()
    for i in range(x.size - 1, -1, -1):
        x[i] /= lower[i, i]
        for j in range(i):
            x[j] -= lower[i, j] * x[i]
    return x


@jit
def log_diagonal(lower: FloatArray) -> float:
    """Return the sum of the logarithms of the diagonal: half the log determinant of L L'."""
    total = 0.0
    for i in range(lower.shape[0]):
        total += math.log(lower[i, i])
    return total


N_NODES = 9


_REACH = 6.0  # sds of the trapezoid to either side: 2e-9 lie beyond


_COVERED = 4.0  # mean of posterior over quadrature weights above which the nodes stand in the wrong place


NARROW = 0.57  # sd of posterior over that of quadrature weights below which nodes are too few: at 0.5 sds are 8% off


def normal_nodes(n_nodes: int = N_NODES) -> tuple[FloatArray, FloatArray]:
    """Return nodes and log weights, shape (n_nodes,) each, of quadrature against N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return nodes, np.log(weights / weights.sum())


def cumulative_shares(log_density: FloatArray) -> FloatArray:
    """Return the cumulative distribution at evenly spaced points that hold a density, by the trapezoidal rule."""
    density = np.exp(log_density - log_density.max())
    total = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1])))
    return np.asarray(total / total[-1])


def normal_steps(step: float) -> tuple[FloatArray, FloatArray]:
    """Return the same of the trapezoid with equal steps, for integrands that are not smooth on the normal's scale."""
    nodes = step * np.arange(-np.ceil(_REACH / step), np.ceil(_REACH / step) + 1.0)
    log_weights = -0.5 * nodes**2
    return nodes, log_weights - np.log(np.exp(log_weights).sum())


NODES, LOG_WEIGHTS = normal_nodes()


WEIGHTS = np.exp(LOG_WEIGHTS)


class EffectNodes(NamedTuple):
    """Centres and scales of the nodes of G effects, shape (G + 1,); the last, of rows of no group, are 0."""

    center: FloatArray
    scale: FloatArray


class EffectMoments(NamedTuple):
    """Effects b given the data, shape (G,) each."""

    log_marginal: FloatArray  # log-likelihood of each group, its effect integrated out
    mean: FloatArray
    variance: FloatArray
    square: FloatArray  # mean of b^2
    with_square: FloatArray  # covariance of b and b^2
    of_square: FloatArray  # variance of b^2
    poor: FloatArray  # whether the nodes stood in the wrong place, so that the moments are a Newton step's


def _misplaced(share: FloatArray) -> FloatArray:
    """Return whether nodes stand in the wrong place, or so wide that an effect lies between them, shape (...).

    `share`, shape (..., K), has the nodes' posterior probabilities. NaN is astray.
    """
    with np.errstate(invalid="ignore"):
        spread = share @ NODES**2 - (share @ NODES) ** 2
        return np.asarray(~((share**2 @ np.exp(-LOG_WEIGHTS) <= _COVERED) & (spread > NARROW**2)))


def log_terms(values: FloatArray, center: FloatArray, scale: FloatArray, log_sigma: FloatArray | float) -> FloatArray:
    """Return the logarithms of the terms of the sum, shape (..., K), given phi at the nodes, of that shape."""
    log_sigma = np.asarray(log_sigma)[..., None]
    b = center[..., None] + scale[..., None] * NODES
    prior = -0.5 * (b * np.exp(-log_sigma)) ** 2 - log_sigma
    return np.asarray(values + prior + np.log(scale)[..., None] + 0.5 * NODES**2 + LOG_WEIGHTS)


def effect_moments(
    values: FloatArray, nodes: EffectNodes, log_sigma: float, slope: FloatArray, information: FloatArray
) -> EffectMoments:
    """Return the moments of effects from phi at their nodes, shape (G, K).

    `slope` and `information` are the mean of phi' and of -phi'' over the nodes, for a Newton step where the nodes do
    not cover the effect, or are one point (scale 0).
    """
    precision, (center, scale) = np.exp(-2.0 * log_sigma), nodes
    with np.errstate(divide="ignore"):
        terms = log_terms(values, center, scale, log_sigma)
    top = terms.max(axis=1)
    is_finite = np.isfinite(top)
    log_marginal = np.where(is_finite, top, 0.0)
    powers = np.where(is_finite[:, None], np.exp(terms - log_marginal[:, None]), np.exp(LOG_WEIGHTS))
    total = powers.sum(axis=1)
    share = powers / total[:, None]
    poor = ~is_finite | _misplaced(share)
    b = center[:, None] + scale[:, None] * NODES
    mean = (share * b).sum(axis=1)
    gap = b - mean[:, None]
    variance, third, fourth = ((share * gap**power).sum(axis=1) for power in (2, 3, 4))
    curvature = np.maximum(information, 0.0) + precision
    step = (slope - center * precision) / curvature
    mean = np.where(poor, center + step, mean)
    variance = np.where(poor, 1.0 / curvature, variance)
    third, fourth = np.where(poor, 0.0, third), np.where(poor, 3.0 * variance**2, fourth)
    return EffectMoments(
        log_marginal=np.where(is_finite, log_marginal + np.log(total), -np.inf),
        mean=mean,
        variance=variance,
        square=mean**2 + variance,
        with_square=third + 2.0 * mean * variance,
        of_square=fourth - variance**2 + 4.0 * mean * third + 4.0 * mean**2 * variance,
        poor=poor,
    )


@jit_inner
def load(values: NDArray[Any], start: int, width: int, target: FloatArray) -> None:
    """Write the entries start, ..., start + width - 1 as the first ones of `target`.

    Like the next two it stands for NumPy's, whose compiling takes a second or two each: it includes texts of errors.
    """
    for lane in range(width):
        target[lane] = values[start + lane]


@jit_inner
def largest(values: FloatArray) -> float:
    """Return the largest entry; that of -inf alone is -inf."""
    top = -np.inf
    for value in values:
        top = max(top, value)
    return top


@jit_inner
def largest_count(first: IntArray) -> int:
    """Return the largest difference of an entry and the one before it."""
    most = 0
    for g in range(len(first) - 1):
        most = max(most, first[g + 1] - first[g])
    return most
