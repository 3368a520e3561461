"""Maximum mean discrepancy (MMD) between two sets of posterior draws, polynomial kernel.

`mmd` is the distance; block sums of the kernel give those of parts of the draws and a jackknife, too. The published
conventions differ: Huggins et al. (2016) report the square, with c = 0.2 in their code; Peters (2021) reports the root
with p = 2; both without scaling.

Reference: Gretton et al. (2012), A kernel two-sample test, JMLR 13, 723-773.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescore.compat import is_inference_data
from bayescore.samplers.posterior import read_posterior
from bayescore.types import FloatArray, IntArray
from bayescore.validation import check_integer, check_matrix, check_positive

BLOCK = 1024
N_BATCHES = 20


@dataclass(frozen=True)
class Kernel:
    """Polynomial kernel (gamma x.y + coef0)^degree."""

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0

    def __call__(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Return the kernel of every row of `a` with every row of `b`, shape (n, m)."""
        base = a @ b.T
        base *= self.gamma
        base += self.coef0
        power = base.copy()
        for _ in range(self.degree - 1):
            power *= base
        return power


def reference_scale(draws: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the affine map x -> ((x - center) / scale) root that gives `draws`, shape (n, D), mean 0 and covariance I.

    The root of the inverse correlation comes from its eigenvectors. Directions without variance are dropped (the
    pseudo-inverse). The kernel sees inner products only, so the Cholesky factor would give the same MMD.
    """
    sd = draws.std(axis=0, ddof=1)
    scale = np.where(sd > 0.0, sd, np.inf)
    center = draws.mean(axis=0)
    standard = (draws - center) / scale
    values, vectors = np.linalg.eigh(standard.T @ standard / (len(draws) - 1))
    kept = values > len(values) * np.finfo(np.float64).eps * max(values[-1], 1.0)
    root = vectors[:, kept] / np.sqrt(values[kept])
    return lambda x: ((x - center) / scale) @ root


def batch_edges(n_chains: int, n_draws: int) -> IntArray:
    """Return the edges of about 20 contiguous batches, none across chains, of flattened (chain, draw) draws.

    Every chain has the same number of batches, so a half of the chains is a set of batches.
    """
    per_chain = min(-(-N_BATCHES // n_chains), n_draws)
    inside = np.linspace(0, n_draws, per_chain + 1).round().astype(np.int64)
    starts = n_draws * np.arange(n_chains)[:, None] + inside[None, :-1]
    return np.append(starts.ravel(), n_chains * n_draws)


def block_sums(a: FloatArray, b: FloatArray, edges_a: IntArray, edges_b: IntArray, kernel: Kernel) -> FloatArray:
    """Return sums of the kernel over blocks of rows, shape (len(edges_a) - 1, len(edges_b) - 1).

    Block g of `a` is rows edges_a[g] to edges_a[g + 1]. Every statistic of subsets of blocks (their MMD, a
    jackknife over them) follows from this one pass. Where `b` is `a`, half of the blocks are mirrored.
    """
    sums = np.empty((len(edges_a) - 1, len(edges_b) - 1))
    for g in range(len(sums)):
        rows = a[edges_a[g] : edges_a[g + 1]]
        for h in range(g if b is a else 0, sums.shape[1]):
            sums[g, h] = kernel(rows, b[edges_b[h] : edges_b[h + 1]]).sum()
            if b is a:
                sums[h, g] = sums[g, h]
    return sums


def root_of_sums(aa: Any, bb: Any, ab: Any, n: Any, m: Any) -> Any:
    """Return the MMD from sums of the kernel over pairs of n and m draws; any argument may be a number or an array."""
    # rounding can leave a tiny negative square where the two sets agree
    return np.sqrt(np.maximum(aa / n**2 + bb / m**2 - 2.0 * ab / (n * m), 0.0))


def mmd_of_sums(aa: FloatArray, bb: FloatArray, ab: FloatArray, n: FloatArray, m: FloatArray) -> tuple[float, float]:
    """Return the MMD and its jackknife standard error, given the whitening, from `block_sums`.

    The sums aa, bb and ab have the shapes (G, G), (H, H) and (G, H); n and m count the draws of the blocks. One block
    is left out at a time, of each side in turn, and the variances (G - 1)/G sum (theta_g - mean)^2 of both sides add.
    Each side needs two blocks or more, long against the autocorrelation of its chains.
    """
    totals = aa.sum(), bb.sum(), ab.sum()
    value = root_of_sums(*totals, n.sum(), m.sum())
    without_a = root_of_sums(
        totals[0] - 2.0 * aa.sum(axis=1) + np.diag(aa), totals[1], totals[2] - ab.sum(axis=1), n.sum() - n, m.sum()
    )
    without_b = root_of_sums(
        totals[0], totals[1] - 2.0 * bb.sum(axis=1) + np.diag(bb), totals[2] - ab.sum(axis=0), n.sum(), m.sum() - m
    )
    variance = sum((len(left) - 1) * left.var() for left in (without_a, without_b))
    return float(value), float(np.sqrt(variance))


def mmd(
    a: object, b: object, *, degree: int = 3, gamma: float = 1.0, coef0: float = 1.0, whiten: object = None
) -> float:
    r"""Return the maximum mean discrepancy between draws `a` and `b`.

    .. math::

        \mathrm{MMD}^2 = \frac{1}{n^2} \sum_{ij} k(a_i, a_j) + \frac{1}{m^2} \sum_{ij} k(b_i, b_j)
                       - \frac{2}{nm} \sum_{ij} k(a_i, b_j), \qquad k(x, y) = (\gamma\, x \cdot y + c)^p.

    With degree p the distance compares all moments up to order p. It depends on the units of the coordinates; `whiten`
    removes them, and is what to look at first.

    Parameters
    ----------
    a, b : array of shape (n, D) and (m, D), or InferenceData
        Draws; the features of InferenceData are matched by name.
    degree, gamma, coef0 : int, float, float
        Kernel (gamma x.y + coef0)^degree; gamma in the inverse square of the coordinates' units.
    whiten : array of shape (r, D) or InferenceData, optional
        Draws, usually the reference's, whose mean and covariance standardise both sets first.

    Returns
    -------
    float
        Root of the biased squared MMD (V-statistic), at least 0; for the square, square it.

    Raises
    ------
    ValueError
        If shapes or features differ, or a value is not finite or out of range.

    References
    ----------
    Gretton et al. (2012), A kernel two-sample test, JMLR 13, 723-773.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.diagnostics import mmd
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 2))
    >>> round(mmd(a, b), 2), round(mmd(a, b + 1.0), 2)
    (0.42, 8.61)
    """
    kernel = Kernel(
        check_integer(degree, "degree", low=1),
        check_positive(gamma, "gamma"),
        0.0 if coef0 == 0 else check_positive(coef0, "coef0"),
    )
    names = next((read_posterior(x, "draws").features for x in (a, b, whiten) if is_inference_data(x)), None)
    first = _rows(a, "a", names, None)
    second = _rows(b, "b", names, first.shape[1])
    if whiten is not None:
        white = reference_scale(_rows(whiten, "whiten", names, first.shape[1]))
        first, second = white(first), white(second)
    edges_a, edges_b = (np.append(np.arange(0, len(x), BLOCK), len(x)) for x in (first, second))
    return float(
        root_of_sums(
            block_sums(first, first, edges_a, edges_a, kernel).sum(),
            block_sums(second, second, edges_b, edges_b, kernel).sum(),
            block_sums(first, second, edges_a, edges_b, kernel).sum(),
            len(first),
            len(second),
        )
    )


def _rows(draws: object, name: str, features: tuple[str, ...] | None, n_columns: int | None) -> FloatArray:
    if features is not None and is_inference_data(draws):
        draws = read_posterior(draws, name).aligned(features).flat
    rows = np.asarray(check_matrix(draws, name, n_columns=n_columns), dtype=np.float64)
    if len(rows) < 2:
        raise ValueError(f"{name} has one draw; give two or more")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} holds NaN or infinity; drop those draws")
    return rows
