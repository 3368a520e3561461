r"""The spread-calibrated noise of Theorem 12, and delta_w and delta_s, which it rests on (Nock et al. 2016).

With phi(N) = sum_a min_{c in N} |a - c|^2 and rows in the L1 ball of radius R, whose diameter is 2 R,

.. math:: \delta_w = \max_{N} \frac{(2R)^2}{\phi(N) - \max_a \min_{c \in N} |a - c|^2}, \quad |N| = k - 1, \qquad
          1 + \delta_s = \max_{N, c} \frac{\phi(N)}{\phi(N \cup \{c\})}
          \le 2 \max_{N, x} \frac{\phi(N)}{\phi(N \cup \{x\})}, \quad 1 \le |N| \le k - 1,

N and x among the rows, c the mean of any "packed" subset of them (Definitions 7 and 8). delta_w leaves out the farthest
row, because a neighbouring data set may lack any one. The bound of delta_s holds for every point c: of the rows B that
c is nearest to, one x has sum_B |a - x|^2 <= 2 sum_B |a - c|^2, the mean over x in B. The source computes without the
factor 2, which is *too small*: 98.5 for 16 rows on a circle and one far away, where the circle's mean gives 197. Both
maxima are by enumeration where sets N are few, else over random sets as in the source, and then too small again.

When to use it: to repeat the source, or where delta_w and delta_s are public. Computed from the private rows themselves
they make the noise a function of what it should hide: that is NOT differential privacy.

Private k-variates++ over peers that add the noise themselves: pd-means++ (Nock et al. 2016).
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, check_peers, check_rows, divergences
from bayescore.clustering.peers import (
    LaplaceMechanism,
    PrivateSeeding,
    check_private,
    clip_to_ball,
    laplace,
    seed_private,
)
from bayescore.clustering.variates import UniformDraw
from bayescore.validation import RandomState, check_generator, check_integer, check_positive, one_seed

_MOST_SETS = 20_000


_MOST_ROWS = 1_000


_ANY_POINT = 2.0  # a row lowers the potential at least half as far as any point would


@dataclass(frozen=True)
class Spread:
    """delta_w and an upper bound of delta_s; estimates that may be too small unless `exact`."""

    delta_w: float
    delta_s: float
    exact: bool


def spread(
    X: ArrayLike,
    n_clusters: int,
    *,
    radius: float,
    samples: int = 1_000,
    random_state: RandomState = None,
    random_seed: RandomState = None,
) -> Spread:
    """Return delta_w and a bound of delta_s: certain for small data, else estimated from random sets of rows.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows, clipped to the ball.
    n_clusters : int
        Number k of centers, at least 2.
    radius : float
        R of the ball ``|x|_1 <= R``.
    samples : int
        Random sets to estimate with, where there are more than 20,000 sets or 1,000 rows.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name, of the random sets.

    Returns
    -------
    Spread
        delta_w and delta_s.

    Raises
    ------
    DataError
        If X cannot be used.
    ValueError, TypeError
        If n_clusters < 2 or exceeds the number of rows, or radius is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.papers import spread
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> found = spread(X / 10, 4, radius=1.0, random_state=1)
    >>> bool(found.delta_w > 0)
    True
    """
    ball = check_positive(radius, "radius")
    rows, _ = clip_to_ball(check_rows(X, "X"), ball)
    n = len(rows)
    k = check_integer(n_clusters, "n_clusters", low=2, high=n, why=", the rows of X")
    size = k - 1
    exact = n <= _MOST_ROWS and sum(math.comb(n, j) for j in range(1, k)) <= _MOST_SETS
    rng = check_generator(one_seed(random_state, random_seed))
    every: Iterable[tuple[int, ...]] = (
        chain.from_iterable(combinations(range(n), j) for j in range(1, k))
        if exact
        else (tuple(rng.choice(n, size, replace=False)) for _ in range(check_integer(samples, "samples", low=1)))
    )
    between = divergences(rows, rows, SQUARED_EUCLIDEAN) if exact else None
    delta_w, fall = 0.0, 1.0
    for N in every:
        if between is None:
            added = rng.integers(n, size=1)
            near, extra = (divergences(rows, rows[list(of)], SQUARED_EUCLIDEAN) for of in (N, added))
            near = near.min(axis=1)
        else:
            near, extra = between[:, N].min(axis=1), between
        total = near.sum()
        least = np.minimum(near[:, None], extra).sum(axis=0).min()
        fall = max(fall, _ratio(total, least))
        if len(N) == size:
            delta_w = max(delta_w, _ratio((2.0 * ball) ** 2, total - near.max()))
    return Spread(delta_w, _ANY_POINT * fall - 1.0, exact)


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below > 0.0 else math.inf if above > 0.0 else 1.0


def spread_calibrated(
    X: ArrayLike,
    n_clusters: int,
    *,
    epsilon: float,
    radius: float,
    delta_w: float,
    delta_s: float,
    f: float = 1.0,
    random_state: RandomState = None,
    random_seed: RandomState = None,
) -> PrivateSeeding:
    r"""Seed k centers with the noise of Theorem 12. NOT differentially private unless delta_w and delta_s are public.

    The likelihood ratio of Theorem 9, with noise of scale b = 2 R / epsilon~ on rows of the ball, is at most

    .. math:: (1 + \delta_w)^{k-1} + f(k) \, \delta_w (1 + \delta_s)^{k-1} e^{2R/b} = e^\epsilon, \qquad
              \tilde\epsilon = \log \frac{e^\epsilon - (1 + \delta_w)^{k-1}}{f(k) \, \delta_w (1 + \delta_s)^{k-1}} .

    delta_w and delta_s are properties of the very rows to be protected: noise set by them gives the rows away, and
    another data set has others. The source leaves the function f open: f = 1 is a convention, not a guarantee.

    Parameters
    ----------
    X, n_clusters, epsilon, radius, random_state, random_seed
        See `private_k_variates`; the seed goes by either name.
    delta_w, delta_s : float
        Spread and monotonicity of the rows, see `spread`.
    f : float
        f(k).

    Returns
    -------
    Seeding
        Centers with noise.

    Raises
    ------
    ValueError
        If the spread is too large for this epsilon; also as `private_k_variates`.

    Warns
    -----
    UserWarning
        Always: this is not differential privacy.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Theorem 9 and Theorem 12.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from bayescore.papers import spread_calibrated
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) / 10
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # that this is not differential privacy
    ...     found = spread_calibrated(X, 4, epsilon=1.0, radius=1.0, delta_w=1e-3, delta_s=0.1, random_state=1)
    >>> found.centers.shape
    (4, 2)
    """
    k, _, R = check_private(n_clusters, epsilon, radius)
    noise = calibrated_noise(k, epsilon, R, delta_w=delta_w, delta_s=delta_s, f=f)
    warnings.warn(
        "spread_calibrated is not differentially private: its noise is set by delta_w and delta_s, which come from the "
        "data themselves; release it only where the two are public, else use private_k_variates",
        UserWarning,
        stacklevel=2,
    )
    rows = [check_rows(X, "X")]
    seed = one_seed(random_state, random_seed)
    return seed_private(rows, k, noise, epsilon=epsilon, spent=None, radius=R, random_state=seed)


def calibrated_noise(
    n_clusters: int, epsilon: float, radius: float, *, delta_w: float, delta_s: float, f: float = 1.0
) -> LaplaceMechanism:
    """Return the mechanism of Theorem 12; its `epsilon` is epsilon~. See `spread_calibrated`."""
    w, s = check_positive(delta_w, "delta_w"), check_positive(1.0 + delta_s, "1 + delta_s")
    room = math.exp(epsilon) - (1.0 + w) ** (n_clusters - 1)
    equivalent = math.log(room / (check_positive(f, "f") * w * s ** (n_clusters - 1))) if room > 0.0 else -math.inf
    if not equivalent > 0.0:
        raise ValueError(
            f"delta_w={delta_w:g} and delta_s={delta_s:g} are too large for epsilon={epsilon:g} and "
            f"n_clusters={n_clusters}; take a larger epsilon or fewer clusters, or private_k_variates"
        )
    return laplace(2.0 * radius, equivalent)


def pd_means(
    peers: Sequence[ArrayLike],
    n_clusters: int,
    *,
    epsilon: float,
    radius: float,
    random_state: RandomState = None,
    random_seed: RandomState = None,
) -> PrivateSeeding:
    """Seed k private centers over peers that answer with a uniform draw of their rows plus noise (pd-means++).

    Each peer clips and adds noise itself. The centers are private as those of `private_k_variates`; the sums of D_t
    that peers send to the coordinator are not, so it has to be trusted with them.

    Parameters
    ----------
    peers : sequence of arrays, shapes (n_i, D)
        Rows of each peer.
    n_clusters, epsilon, radius, random_state, random_seed
        See `private_k_variates`; the seed goes by either name.

    Returns
    -------
    PrivateSeeding
        The centers, and the privacy loss that they spent.

    Raises
    ------
    DataError
        If a peer is empty or cannot be used, or peers differ in columns; also as `private_k_variates`.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Algorithm 1 (private version).

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.papers import pd_means
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> peers = [X[:500] / 10, X[500:] / 10]
    >>> pd_means(peers, 4, epsilon=1.0, radius=1.0, random_state=1).centers.shape
    (4, 2)
    """
    k, each, R = check_private(n_clusters, epsilon, radius)
    held = check_peers(peers)
    noise = laplace(2.0 * R, each)
    spent, seed = noise.epsilon * k, one_seed(random_state, random_seed)
    return seed_private(held, k, noise, UniformDraw, epsilon=epsilon, spent=spent, radius=R, random_state=seed)
