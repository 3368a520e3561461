r"""Private seeding: k-variates++ whose centers are rows plus Laplace noise (Nock et al. 2016, section 4).

Rows are clipped to the L1 ball |x|_1 <= R, and each of the k centers is one row plus noise of scale b on every
coordinate. Two rows of the ball are at most 2 R apart, so the density of a center changes by at most a factor
exp(2 R / b) whatever row it was, and given the earlier centers *all* that the data decide is which row it is. Hence
b = 2 k R / epsilon makes the k centers epsilon-differentially private. Since any row may be taken,
this holds for any two data sets, not for neighbouring ones only (one row added, removed or replaced): the guarantee is
that of the local model, and so is its price. The noise does not shrink with n.

The noise comes from OpenDP, whose sampler is exact and safe in floating point; it is drawn from the operating system's
entropy and *cannot be seeded*: `random_state` repeats which rows are picked, not the noise.

`spread.spread_calibrated` has the smaller noise of Theorem 12, which rests on quantities of the data: it is NOT
differentially private unless those are public.

What is protected: the centers, against who sees nothing else. Labels, costs, the count of clipped rows, and the sums
that peers send to the coordinator of pd-means++ are not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from numpy.typing import ArrayLike

from bayescore.clustering.checks import check_rows, check_trials
from bayescore.clustering.coordinator import Held, seed
from bayescore.clustering.densities import Densities, Noisy, PointMasses
from bayescore.clustering.mechanisms import LaplaceMechanism, clip_to_ball, laplace
from bayescore.clustering.variates import Rows
from bayescore.types import FloatArray
from bayescore.validation import RandomState, check_generator, check_integer, check_positive


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSeeding:
    """Noisy centers, and what they cost in privacy.

    Parameters
    ----------
    centers : array, shape (k, D)
        The centers; they may lie outside the ball.
    epsilon : float
        Privacy loss that was asked for.
    spent : float
        Privacy loss of the k centers together, the sum of OpenDP's figures; None where there is no such guarantee.
    radius, scale : float
        R and b.
    n_rows, n_clipped : int
        Rows, and rows outside the ball that were clipped: for the owner of the data, not for release.
    """

    centers: FloatArray
    epsilon: float
    spent: float | None
    radius: float
    scale: float
    n_rows: int
    n_clipped: int

    def __repr__(self) -> str:
        k = len(self.centers)
        guarantee = (
            f"epsilon = {self.spent:.6g} for any two data sets ({k} centers, {self.spent / k:.6g} each)"
            if self.spent is not None
            else f"NOT differential privacy: likelihood ratio exp({self.epsilon:g}) if delta_w and delta_s are public"
        )
        return (
            f"PrivateSeeding\n  guarantee  {guarantee}\n"
            f"  noise      Laplace, scale {self.scale:.6g} on each coordinate\n"
            f"  ball       |x|_1 <= {self.radius:g}\n"
            f"  clipped    {self.n_clipped:,} of {self.n_rows:,} rows (not for release)"
        )


def private_k_variates(
    X: ArrayLike,
    n_clusters: int,
    *,
    epsilon: float,
    radius: float,
    n_local_trials: int | None = 1,
    random_state: RandomState = None,
) -> PrivateSeeding:
    """Seed k private centers on rows in an L1 ball.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows; those outside the ball are clipped. Center and scale them with public numbers only.
    n_clusters : int
        Number k of centers.
    epsilon : float
        Privacy loss of all k centers together.
    radius : float
        R of the ball ``|x|_1 <= R``; a public number, not computed from X.
    n_local_trials : int or None
        See `k_variates`; rows are compared before the noise is drawn, so that the loss stays the same.
    random_state : int, Generator, SeedSequence or None
        Seed of the rows picked; the noise cannot be seeded.

    Returns
    -------
    PrivateSeeding
        The centers, and the privacy loss that they spent.

    Raises
    ------
    ImportError
        If OpenDP is not installed.
    DataError
        If X cannot be used.
    ValueError, TypeError
        If n_clusters is not a positive integer, or epsilon or radius are not positive.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Theorem 12 (Laplace mechanism).
    Dwork, McSherry, Nissim and Smith (2006), Calibrating noise to sensitivity in private data analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import private_k_variates
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> private_k_variates(X / 10, 4, epsilon=1.0, radius=1.0, random_state=1).centers.shape
    (4, 2)
    """
    k, each, R = check_private(n_clusters, epsilon, radius)
    noise, trials = laplace(2.0 * R, each), check_trials(n_local_trials, k)
    return seed_private(
        [check_rows(X, "X")], k, epsilon, noise.epsilon * k, R, noise, PointMasses, trials, random_state
    )


def check_private(n_clusters: int, epsilon: float, radius: float) -> tuple[int, float, float]:
    """Return k, the privacy loss of one center, and R."""
    k = check_integer(n_clusters, "n_clusters", low=1)
    total, R = check_positive(epsilon, "epsilon"), check_positive(radius, "radius")
    return k, math.nextafter(total / k, 0.0), R  # the sum must not round to more than epsilon


def seed_private(
    peers: Sequence[FloatArray],
    k: int,
    epsilon: float,
    spent: float | None,
    radius: float,
    noise: LaplaceMechanism,
    below: Densities,
    trials: int,
    random_state: RandomState,
) -> PrivateSeeding:
    """Clip each peer's rows and seed with this noise on top of the density `below`."""
    rng = check_generator(random_state)
    clipped = [clip_to_ball(X, radius) for X in peers]
    density = partial(Noisy, noise=noise, density=below)
    centers, _ = seed(Held([Rows(X, density=density, n_local_trials=trials) for X, _ in clipped]), k, rng)
    return PrivateSeeding(
        centers,
        float(epsilon),
        spent,
        radius,
        noise.scale,
        n_rows=sum(len(X) for X, _ in clipped),
        n_clipped=sum(outside for _, outside in clipped),
    )
