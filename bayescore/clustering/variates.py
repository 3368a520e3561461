r"""k-variates++: seeding by D^2 with probes and densities (Nock et al. 2016, Algorithm 0).

For t = 1, ..., k a row a is drawn with probability proportional to

.. math:: w_a D_t(a), \qquad D_t(a) = \min_{c \in C} d(\wp_t(a), c), \qquad D_1 = 1,

and the center from the density p_a attached to it. The one loop is `seed`: a
coordinator asks peers, and sees only their sums and centers. The algorithms of the paper differ in values:

==============  =========================  =============  ==============================================
algorithm       peers                      probes         density
==============  =========================  =============  ==============================================
k-means++       one, all rows              identity       `PointMasses`
k-variates++    one, all rows              any            any
d-means++       many, each its own rows    identity       `UniformDraw` over the peer's rows
pd-means++      many, each its own rows    identity       `Noisy` over `UniformDraw`
s-means++       one, synopses with masses  identity       `PointMasses`
ol-means++      one minibatch at a time    identity       `PointMasses`, one center each
private         one, all rows              identity       `Noisy` with a Laplace mechanism
==============  =========================  =============  ==============================================

When to use it: to start Lloyd's algorithm, or for a clustering good enough for the sensitivity bound. `guarantee` gives
the bound on the expected cost.

Densities that k-variates++ draws its centers from, one attached to each row, as values.

A density is made from rows and weights; row a's has mean mu_a and covariance Sigma_a, and Theorem 2 charges
|mu_a - c_opt(a)|^2 for bias and tr Sigma_a for variance:

=================  =====================================  ==========================  ========================
value              row a stands for                       mu_a                        tr Sigma_a
=================  =====================================  ==========================  ========================
`PointMasses`      itself: k-means++                      a                           0
`UniformDraw`          any row of its group: d-means++        mean of the group           spread of the group
`Noisy`            a draw of another density, plus noise  that of the other density   its own and the noise's
=================  =====================================  ==========================  ========================

A density of your own is any class that is made and used like these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescore.clustering.divergences import (
    SQUARED_EUCLIDEAN,
    Divergence,
    Nearest,
    check_divergence,
    check_masses,
    check_rows,
    check_trials,
    distinct_rows,
    pick,
    too_few,
)
from bayescore.types import FloatArray
from bayescore.validation import DataError, RandomState, check_generator, check_integer, one_seed


class Density(Protocol):
    """One density for each row."""

    def draw(self, row: int, rng: np.random.Generator) -> FloatArray:
        """Draw a center from the density of a row, shape (D,)."""

    def means(self) -> FloatArray:
        """Return the mean mu_a of each row's density, shape (n, D)."""

    def variances(self) -> FloatArray:
        """Return the trace of the covariance of each row's density, shape (n,)."""


Densities = Callable[[FloatArray, FloatArray], Density]


class Noise(Protocol):
    """Noise around a center, of mean zero."""

    def __call__(self, center: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the center, shape (D,), with noise."""

    def variance(self, n_features: int) -> float:
        """Return the trace of the noise's covariance."""


class PointMasses:
    """Each row stands for itself.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,)
        Their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import PointMasses, k_variates
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> k_variates(X, 4, density=PointMasses, random_state=1).centers.shape
    (4, 2)
    """

    def __init__(self, X: FloatArray, weights: FloatArray) -> None:  # noqa: ARG002 - one signature for all densities
        self.X = X

    def draw(self, row: int, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """Return the row itself."""
        return np.asarray(self.X[row])

    def means(self) -> FloatArray:
        """Return the rows."""
        return self.X

    def variances(self) -> FloatArray:
        """Return zeros."""
        return np.zeros(len(self.X))


class UniformDraw:
    """Each row stands for its group: the center is any row of it, by weight, as a peer of d-means++ answers.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,)
        Their weights.
    groups : array, shape (n,), optional
        The group of each row; one group of all rows by default.

    Raises
    ------
    DataError
        If there is not one group for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import UniformDraw, k_variates
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> groups = np.arange(1000) // 100
    >>> def of_ten_groups(X, weights):
    ...     return UniformDraw(X, weights, groups)
    >>> k_variates(X, 4, density=of_ten_groups, random_state=1).centers.shape
    (4, 2)
    """

    def __init__(self, X: FloatArray, weights: FloatArray, groups: ArrayLike | None = None) -> None:
        labels = np.zeros(len(X), dtype=np.int64) if groups is None else np.asarray(groups)
        if labels.shape != (len(X),):
            raise DataError(f"groups has shape {labels.shape}; it must be ({len(X)},), one group for each row")
        self.X, self.weights = X, weights
        self._group = np.unique(labels, return_inverse=True)[1]
        order = np.argsort(self._group, kind="stable")
        self._members = np.split(order, np.cumsum(np.bincount(self._group))[:-1])

    def draw(self, row: int, rng: np.random.Generator) -> FloatArray:
        """Draw a row of the row's group."""
        members = self._members[self._group[row]]
        return np.asarray(self.X[members[pick(self.weights[members], rng)[0]]])

    def means(self) -> FloatArray:
        """Return the mean of each row's group."""
        return self._averages(self.X)

    def variances(self) -> FloatArray:
        """Return the mean squared distance of each row's group from its mean."""
        squares = ((self.X - self.means()) ** 2).sum(axis=1, keepdims=True)
        return self._averages(squares)[:, 0]

    def _averages(self, values: FloatArray) -> FloatArray:
        """Return the weighted average of `values`, shape (n, m), over each row's group."""
        w, out = self.weights, np.zeros_like(values)
        for rows in self._members:
            if w[rows].any():  # else nothing is ever drawn from the group
                out[rows] = np.average(values[rows], axis=0, weights=w[rows])
        return out


class Noisy:
    """Noise on top of another density: pd-means++ on top of `UniformDraw`, private seeding on top of `PointMasses`.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,)
        Their weights.
    noise : Noise
        Noise of mean zero, drawn for each center.
    density : callable
        The other density, `PointMasses` by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import Noisy, PointMasses
    >>> class Gaussian:
    ...     def __call__(self, center, rng):
    ...         return center + rng.normal(0.0, 0.1, len(center))
    ...
    ...     def variance(self, n_features):
    ...         return 0.01 * n_features
    >>> Noisy(np.eye(3), np.ones(3), Gaussian()).variances().round(2)
    array([0.03, 0.03, 0.03])
    """

    def __init__(self, X: FloatArray, weights: FloatArray, noise: Noise, density: Densities = PointMasses) -> None:
        self.noise = noise
        self._below = density(X, weights)

    def draw(self, row: int, rng: np.random.Generator) -> FloatArray:
        """Draw from the density below and add noise."""
        return self.noise(self._below.draw(row, rng), rng)

    def means(self) -> FloatArray:
        """Return the means of the density below."""
        return self._below.means()

    def variances(self) -> FloatArray:
        """Return the variances of the density below, plus the noise's."""
        means = self._below.means()
        return self._below.variances() + self.noise.variance(means.shape[1])


Probe = Callable[[FloatArray, FloatArray], FloatArray]


class Rows:
    """A peer with rows in memory.

    `probe` maps X and the earlier centers, shape (t, D), to the points, shape (n, D), whose D counts; it may return the
    same array while nothing changes, which saves time. `density` maps X and weights to a `Density`. Of
    `n_local_trials` rows drawn for each center after the first, the one that would leave the least sum of w D is taken.
    Errors call the rows `name`. Rows of weight 0 are never drawn.
    """

    def __init__(
        self,
        X: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        probe: Probe | None = None,
        density: Densities = PointMasses,
        divergence: Divergence = SQUARED_EUCLIDEAN,
        n_local_trials: int = 1,
        name: str = "X",
    ) -> None:
        self.X = check_rows(X, name, divergence)
        self.weights = check_masses(weights, len(self.X), name)
        self.density = density(self.X, self.weights)
        self.centers = np.empty((0, self.X.shape[1]))
        self._probe, self._trials = probe, n_local_trials
        self._probed = self.X
        self.nearest = Nearest(self.X, self.weights, divergence)

    def total(self) -> float:
        """Return the sum of w D_t, before the first center the sum of w."""
        return self.nearest.total

    def answer(self, rng: np.random.Generator) -> FloatArray:
        """Draw a row by w D_t, the best of some, and a center from its density."""
        rows = self.nearest.draw(rng, self._trials if len(self.centers) else 1)
        return self.density.draw(self.nearest.best(rows) if len(rows) > 1 else int(rows[0]), rng)

    def add(self, center: FloatArray) -> None:
        """Add a center; if the probes have moved, add all centers anew."""
        self.nearest.divergence.check(center[None], "a center drawn from the density")
        self.centers = np.vstack([self.centers, center])
        points = self._probed if self._probe is None else self._probe(self.X, self.centers)
        if points is self._probed:
            self.nearest.add(center)
            return
        if np.shape(points) != self.X.shape:
            raise DataError(
                f"probe returned shape {np.shape(points)} for X of shape {self.X.shape}; it must return "
                "one point for each row"
            )
        self._probed = points
        probed = check_rows(points, "what probe returned", self.nearest.divergence)
        self.nearest = Nearest(probed, self.weights, self.nearest.divergence, self.centers)


class Peers(Protocol):
    """All peers, as the coordinator sees them."""

    def totals(self) -> FloatArray:
        """Return each peer's sum of w D_t, shape (m,), before the first center of w."""

    def answer(self, which: int, rng: np.random.Generator) -> FloatArray:
        """Return a center, shape (D,), from a peer."""

    def add(self, center: FloatArray) -> None:
        """Send a new center, shape (D,), to all peers."""


class Held:
    """Peers in this process; counts the bytes of float64 that would pass if they were elsewhere.

    For m peers and k centers these are 8 m k D sent, and 8 (m (k + 1) + k D) received.
    """

    def __init__(self, peers: Sequence[Rows]) -> None:
        self.peers = peers
        self.sent, self.received = 0, 0

    def totals(self) -> FloatArray:
        """Return each peer's sum."""
        sums = np.array([peer.total() for peer in self.peers])
        self.received += sums.nbytes
        return sums

    def answer(self, which: int, rng: np.random.Generator) -> FloatArray:
        """Return a center from one peer."""
        center = self.peers[which].answer(rng)
        self.received += center.nbytes
        return center

    def add(self, center: FloatArray) -> None:
        """Send a center to all peers."""
        self.sent += len(self.peers) * center.nbytes
        for peer in self.peers:
            peer.add(center)


def seed(peers: Peers, n_clusters: int, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Choose k centers, shape (k, D), among the rows of all peers; return them and the final sum of w D.

    Raises `DataError` if every row coincides with a center before there are k.
    """
    centers: list[FloatArray] = []
    totals = peers.totals()
    for _ in range(n_clusters):
        if not totals.sum() > 0.0:
            raise DataError(too_few(n_clusters, len(centers)))
        center = peers.answer(int(pick(totals, rng)[0]), rng)
        peers.add(center)
        totals = peers.totals()
        centers.append(center)
    return np.array(centers), float(totals.sum())


@dataclass(frozen=True, eq=False)
class Seeding:
    """Centers and what they are worth.

    Parameters
    ----------
    centers : array, shape (k, D)
        The centers; `build_coreset(..., clustering=seeding.centers)` takes them.
    labels : array, shape (n,)
        Number of each row's nearest center.
    cost : float
        Potential: weighted sum of the divergences of the rows from their nearest centers.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import k_variates
    >>> seeding = k_variates(np.array([[0.0], [1.0], [9.0], [9.5]]), 2, random_state=1)
    >>> bool(seeding.labels[2] == seeding.labels[3]), seeding.cost <= 1.25
    (True, True)
    """

    centers: FloatArray
    labels: NDArray[np.int32]
    cost: float


def k_variates(
    X: ArrayLike,
    n_clusters: int,
    *,
    weights: ArrayLike | None = None,
    probe: Probe | None = None,
    density: Densities = PointMasses,
    divergence: Divergence | str = SQUARED_EUCLIDEAN,
    n_local_trials: int | None = 1,
    random_state: RandomState = None,
    random_seed: RandomState = None,
) -> Seeding:
    """Seed k centers by k-variates++; by default this is k-means++.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    n_clusters : int
        Number k of centers.
    weights : array, shape (n,), optional
        Weights: a row of weight w counts as w rows, one of weight 0 not at all.
    probe : callable, optional
        Takes X and the earlier centers, shape (t, D); returns the points, shape (n, D), that stand for the rows when D
        is computed. Returning the same array while nothing changes saves time. By default X itself.
    density : callable
        Takes X and weights; returns the densities that centers are drawn from, such as `PointMasses`.
    divergence : Divergence or str
        d(x, c), or its name.
    n_local_trials : int or None
        Rows drawn for each center after the first; the one that leaves the least cost is taken. None for
        2 + floor(log k), scikit-learn's greedy default.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name.

    Returns
    -------
    Seeding

    Raises
    ------
    DataError
        If X, weights or probes cannot be used, or fewer than k rows are distinct.
    ValueError, TypeError
        If n_clusters or n_local_trials is not a positive integer, or the divergence is unknown.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), k-variates++: more pluses in the k-means++, Algorithm 0.
    Arthur and Vassilvitskii (2007), k-means++: the advantages of careful seeding.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import k_variates
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> k_variates(X, 4, random_state=1).centers.shape
    (4, 2)
    """
    k = check_integer(n_clusters, "n_clusters", low=1)
    rng, d = check_generator(one_seed(random_state, random_seed)), check_divergence(divergence)
    trials = check_trials(n_local_trials, k)
    rows = Rows(X, weights, probe=probe, density=density, divergence=d, n_local_trials=trials)
    distinct = distinct_rows(rows.X if rows.weights.all() else rows.X[rows.weights > 0.0], k)
    if distinct < k:
        raise DataError(too_few(k, distinct))
    centers, _ = seed(Held([rows]), k, rng)
    nearest = rows.nearest if probe is None else Nearest(rows.X, rows.weights, d, centers)
    return Seeding(centers, nearest.owner, nearest.total)
