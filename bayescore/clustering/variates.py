r"""k-variates++: seeding by D^2 with probes and densities (Nock et al. 2016, Algorithm 0).

For t = 1, ..., k a row a is drawn with probability proportional to

.. math:: w_a D_t(a), \qquad D_t(a) = \min_{c \in C} d(\wp_t(a), c), \qquad D_1 = 1,

and the center from the density p_a attached to it. The one loop is `coordinator.seed`, which asks peers; what differs
between the algorithms of the paper are values:

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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescore.clustering.checks import check_masses, check_rows, check_trials, distinct_rows, too_few
from bayescore.clustering.coordinator import Held, seed
from bayescore.clustering.densities import Densities, PointMasses
from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, Divergence, check_divergence
from bayescore.clustering.nearest import Nearest
from bayescore.types import FloatArray
from bayescore.validation import DataError, RandomState, check_generator, check_integer

Probe = Callable[[FloatArray, FloatArray], FloatArray]


class Rows:
    """A peer with rows in memory.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,), optional
        Weights, 1 by default; rows of weight 0 are never drawn.
    probe : callable, optional
        Takes X and the centers chosen before, shape (t, D), and returns what stands for the rows when D is taken, shape
        (n, D); the same array as long as nothing changes saves time. By default X itself.
    density : callable
        Takes X and weights, returns a `Density`.
    divergence : Divergence
        d(x, c).
    n_local_trials : int
        Rows drawn for each center after the first; the one that would leave the least sum of w D is kept ("greedy").
    name : str
        What errors call the rows.

    Raises
    ------
    DataError
        For rows, weights or probes that cannot be used.
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
        """Return the sum of w D_t."""
        return self.nearest.total

    def answer(self, rng: np.random.Generator) -> FloatArray:
        """Draw a row, the best of some, and a center from its density."""
        rows = self.nearest.draw(rng, self._trials if len(self.centers) else 1)
        return self.density.draw(self.nearest.best(rows) if len(rows) > 1 else int(rows[0]), rng)

    def add(self, center: FloatArray) -> None:
        """Take note of a new center; where the probes have moved, of all centers anew."""
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
    probe, density, divergence
        See `Rows`; the divergence may be given by name.
    n_local_trials : int or None
        Rows tried for each center, see `Rows`; None for 2 + floor(log k), scikit-learn's greedy default.
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
