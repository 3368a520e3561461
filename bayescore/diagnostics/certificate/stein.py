r"""Stein's identities, which say whether draws have the density that they are said to have.

With g the gradient of the density's logarithm at theta, draws of it satisfy

.. math:: \mathrm E\, g = 0, \qquad \mathrm E\, (\theta - \bar\theta)(K g)' = -K

for any matrix K; with K near the covariance, K mean(g) is how far the draws' mean is from the density's, and the
second, made symmetric and in units of sqrt(K_ii K_jj), by how much variances and correlations are off. All its entries
are needed: K g = -(theta - m) of a normal density says nothing of correlations on the diagonal. Each may miss by
`NEGLIGIBLE_ERROR` and by what Monte Carlo error explains.

Beside a wall, where a rare column separates rows, gradients are so steep that a few draws in ten thousand hold the
identity up, K is far from the covariance, and K mean(g) says nothing of the mean.

References
----------
Stein (1972), Proc. Sixth Berkeley Symp. 2, 583-602. Gorham and Mackey (2015), Measuring sample quality with Stein's
method, NeurIPS.
"""

import math

import numpy as np

from bayescore.diagnostics.errors import sidak_quantile
from bayescore.diagnostics.formatting import number
from bayescore.diagnostics.mcse import ess_mean
from bayescore.limits import NEGLIGIBLE_ERROR
from bayescore.types import FloatArray

STEIN_DRAWS = 1000  # whose gradients are computed: correlations are told to 0.03
NORMAL = 1.25  # factor between sd of draws and normal width up to which a coordinate is normal enough for the means
_TINY = 1e-300  # sd of a constant coordinate


def stein(
    chains: FloatArray,
    gradients: FloatArray,
    K: FloatArray,
    names: list[str],
    *,
    most: float = math.inf,
    parts: int = 1,
) -> str:
    """Return how draws, shape (chain, draw, P), miss Stein's identities, given their log density's gradients.

    Coordinates are left out whose sd differs from sqrt(K_ii) by more than the factor `most`. `parts` is how many such
    sets of coordinates are checked, at one false alarm rate for all.
    """
    P, width = chains.shape[2], np.sqrt(np.diagonal(K))
    z, s = (chains - chains.mean(axis=(0, 1))) / width, gradients @ K / width
    flat_z, flat_s = z.reshape(-1, P), s.reshape(-1, P)
    n, quantile = len(flat_z), sidak_quantile(parts * (P + P * (P + 1) // 2))
    off = flat_s.mean(axis=0)
    excess = (
        np.abs(off) - quantile * flat_s.std(axis=0, ddof=1) / np.sqrt(np.minimum(ess_mean(s), n)) - NEGLIGIBLE_ERROR
    )
    normal = np.abs(np.log(np.maximum(flat_z.std(axis=0, ddof=1), _TINY))) <= math.log(most)
    excess[~normal] = -np.inf
    if (excess > 0.0).any():
        i = int(excess.argmax())
        return f"the mean of {names[i]!r} misses Stein's identity by {number(abs(off[i]), 2)} sd."
    # -(z_i s_j + z_j s_i) / 2, its mean and the mean of its square; products mix like their squares
    product = flat_z.T @ flat_s / n
    mean = -0.5 * (product + product.T)
    squares, both = (flat_z**2).T @ flat_s**2 / n, (flat_z * flat_s).T @ (flat_z * flat_s) / n
    variance = np.maximum(0.25 * (squares + squares.T + 2.0 * both) - mean**2, 0.0)
    size = np.minimum(ess_mean(z * s), n)
    gap = mean - K / np.outer(width, width)
    over = np.abs(gap) - quantile * np.sqrt(variance / np.minimum(size[:, None], size)) - NEGLIGIBLE_ERROR
    over[~(normal[:, None] & normal)] = -np.inf
    if not (over > 0.0).any():
        return ""
    i, j = divmod(int(over.argmax()), P)
    what = f"variance of {names[i]!r}" if i == j else f"correlation of {names[i]!r} and {names[j]!r}"
    return f"the {what} misses Stein's identity by {number(abs(gap[i, j]), 2)}."
