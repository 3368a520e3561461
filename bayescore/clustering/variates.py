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
d-means++       many, each its own rows    identity       `Uniform` over the peer's rows
pd-means++      many, each its own rows    identity       `Noisy` over `Uniform`
s-means++       one, synopses with masses  identity       `PointMasses`
ol-means++      one minibatch at a time    identity       `PointMasses`, one center each
private         one, all rows              identity       `Noisy` with a Laplace mechanism
==============  =========================  =============  ==============================================

When to use it: to start Lloyd's algorithm, or for a clustering good enough for the sensitivity bound. `guarantee` gives
the bound on the expected cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescore.clustering.checks import check_masses, check_rows, check_trials, distinct_rows, too_few
from bayescore.clustering.densities import Densities, PointMasses
from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, Divergence, check_divergence
from bayescore.clustering.nearest import Nearest, pick
from bayescore.types import FloatArray
from bayescore.validation import DataError, RandomState, check_generator, check_integer

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
    random_state : int, Generator, SeedSequence or None
        Seed.

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
    rng, d = check_generator(random_state), check_divergence(divergence)
    trials = check_trials(n_local_trials, k)
    rows = Rows(X, weights, probe=probe, density=density, divergence=d, n_local_trials=trials)
    found = distinct_rows(rows.X if rows.weights.all() else rows.X[rows.weights > 0.0], k)
    if found < k:
        raise DataError(too_few(k, found))
    centers, _ = seed(Held([rows]), k, rng)
    nearest = rows.nearest if probe is None else Nearest(rows.X, rows.weights, d, centers)
    return Seeding(centers, nearest.owner, nearest.total)
