"""Private seeding: k-variates++ whose centers are rows plus Laplace noise (Nock et al. 2016, section 4).

Rows are clipped to the ball |x|_1 <= R. Each of the k centers is one row plus noise of scale b on every coordinate. Two
rows of the ball are at most 2 R apart, so the density of a center changes by at most a factor exp(2 R / b) whichever
row it is, and b = 2 k R / epsilon makes the k centers epsilon-differentially private. The guarantee is that of the
local model: it holds for any two data sets, not only for neighbours, and the noise does not shrink with n.

OpenDP draws the noise. Its sampler is exact and safe in floating point, the privacy loss is its own figure, and it uses
the operating system's entropy: `random_state` repeats which rows are picked, not the noise. Protected are the centers,
from those who see nothing else. Labels, costs, the number of clipped rows, and the sums that peers of pd-means++ send
to the coordinator are not. The smaller noise of `papers.spread_calibrated` is not differentially private.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.divergences import check_rows, check_trials
from bayescore.clustering.variates import Densities, Held, Noisy, PointMasses, Rows, seed
from bayescore.types import FloatArray
from bayescore.validation import RandomState, check_generator, check_integer, check_positive

_ROUNDING = 1.0 + 1e-9  # of sums of absolute values, far above D units in the last place


def opendp() -> Any:
    """Return OpenDP's prelude with the mechanisms enabled; raise ImportError if it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ImportError(
            "private seeding takes its noise from OpenDP, which is not installed: pip install 'bayescore[private]'"
        ) from None
    dp.enable_features("contrib")
    return dp


@dataclass(frozen=True, eq=False)
class LaplaceMechanism:
    """OpenDP's Laplace mechanism on vectors; a `Noise`."""

    scale: float
    epsilon: float
    measure: Any

    def __call__(self, center: FloatArray, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002 - OpenDP draws alone
        """Return the center with noise."""
        return np.array(self.measure(center.tolist()))

    def variance(self, n_features: int) -> float:
        """Return the trace of the covariance, 2 b^2 D."""
        return 2.0 * self.scale**2 * n_features


@lru_cache(maxsize=64)
def laplace(sensitivity: float, epsilon: float, whole: bool = False) -> LaplaceMechanism:
    """Return the Laplace mechanism of least scale that spends at most `epsilon` on values of this L1 sensitivity.

    With `whole` the values, and the noise, are whole numbers.
    """
    dp = opendp()
    domain = dp.vector_domain(dp.atom_domain(T="i64") if whole else dp.atom_domain(T=float, nan=False))
    metric = dp.l1_distance(T="i64" if whole else float)
    distance = math.ceil(sensitivity) if whole else sensitivity * _ROUNDING

    def made(scale: float) -> Any:
        return dp.m.make_laplace(domain, metric, scale=scale)

    scale = dp.binary_search_param(made, d_in=distance, d_out=epsilon, T=float)
    measure = made(scale)
    return LaplaceMechanism(scale, measure.map(distance), measure)


def clip_to_ball(X: FloatArray, radius: float) -> tuple[FloatArray, int]:
    """Return X, shape (n, D), with rows outside |x|_1 <= radius moved to its border, and how many were."""
    norms = np.abs(X).sum(axis=1, keepdims=True)
    outside = norms > radius
    return np.where(outside, X * (radius / np.where(outside, norms, 1.0)), X), int(outside.sum())


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
    rows, spent = [check_rows(X, "X")], noise.epsilon * k
    return seed_private(
        rows, k, noise, epsilon=epsilon, spent=spent, radius=R, trials=trials, random_state=random_state
    )


def check_private(n_clusters: int, epsilon: float, radius: float) -> tuple[int, float, float]:
    """Return k, the privacy loss of one center, and R."""
    k = check_integer(n_clusters, "n_clusters", low=1)
    total, R = check_positive(epsilon, "epsilon"), check_positive(radius, "radius")
    return k, math.nextafter(total / k, 0.0), R  # the sum must not round to more than epsilon


def seed_private(
    peers: Sequence[FloatArray],
    k: int,
    noise: LaplaceMechanism,
    below: Densities = PointMasses,
    *,
    epsilon: float,
    spent: float | None,
    radius: float,
    trials: int = 1,
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
