"""k-variates++ where nobody holds all rows: on peers, on synopses of a stream, on minibatches (Nock et al. 2016).

*d-means++*: the coordinator picks a peer with probability proportional to its sum of D_t (its weight at t = 1), and the
peer answers with a uniform draw of its own rows. A round costs one center to each peer and one number back. The
expected potential is at most 10 phi_opt + 6 phi_s, phi_s the spread of the peers (Theorem 4), so it is good where peers
hold rows that lie together. *s-means++*: synopses s_j with masses m_j stand for a stream; m_j D_t(s_j) draws them
(Theorem 5). *ol-means++*: each minibatch gives one center, drawn by D_t over that minibatch alone (Theorem 6).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.checks import check_peers
from bayescore.clustering.densities import Densities, Uniform
from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, Divergence, check_divergence
from bayescore.clustering.variates import Held, Rows, Seeding, k_variates, seed
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, RandomState, check_alone, check_generator, check_integer


@dataclass(frozen=True, eq=False)
class PeerSeeding:
    """What the coordinator of d-means++ knows in the end.

    Parameters
    ----------
    centers : array, shape (k, D)
        The centers.
    cost : float
        Potential of all rows, the sum of the peers' sums.
    sent, received : int
        Bytes of float64 sent to all peers, and received from them: of `d_means` 8 m k D and 8 (m (k + 1) + k D) for m
        peers, of `d_means_partitions` as it says.
    """

    centers: FloatArray
    cost: float
    sent: int
    received: int


def d_means(
    peers: Sequence[ArrayLike],
    n_clusters: int,
    *,
    weights: Sequence[ArrayLike] | None = None,
    density: Densities = Uniform,
    divergence: Divergence | str = SQUARED_EUCLIDEAN,
    random_state: RandomState = None,
) -> PeerSeeding:
    """Seed k centers over peers that keep their rows (d-means++).

    Parameters
    ----------
    peers : sequence of arrays, shapes (n_i, D)
        Rows of each peer.
    n_clusters : int
        Number k of centers.
    weights : sequence of arrays, shapes (n_i,), optional
        Weights of the rows, 1 by default.
    density : callable
        How a peer answers: `Uniform` over its rows for d-means++, `Noisy` on top of it for noisy answers;
        `PointMasses` would make it k-means++ on all rows.
    divergence : Divergence or str
        D.
    random_state : int, Generator, SeedSequence or None
        Seed.

    Returns
    -------
    PeerSeeding
        The centers, and the bytes that were sent and received.

    Raises
    ------
    DataError
        If a peer is empty or cannot be used, peers differ in columns, or all rows coincide with fewer than k centers.
    ValueError, TypeError
        If n_clusters is not a positive integer or the divergence is unknown.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Algorithm 1 and Theorem 4.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import d_means
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> d_means([X[:500], X[500:]], 4, random_state=1).centers.shape
    (4, 2)
    """
    k = check_integer(n_clusters, "n_clusters", low=1)
    rng, d = check_generator(random_state), check_divergence(divergence)
    held = check_peers(peers, d)
    if weights is not None and len(weights) != len(held):
        raise DataError(f"weights has {len(weights)} entries for {len(held)} peers; give one array for each peer")
    rows = [
        Rows(X, None if weights is None else weights[i], density=density, divergence=d, name=f"peers[{i}]")
        for i, X in enumerate(held)
    ]
    wires = Held(rows)
    centers, cost = seed(wires, k, rng)
    return PeerSeeding(centers, cost, wires.sent, wires.received)


def s_means(
    synopses: WeightedData | ArrayLike,
    n_clusters: int,
    *,
    masses: ArrayLike | None = None,
    n_local_trials: int | None = 1,
    random_state: RandomState = None,
) -> Seeding:
    """Seed k centers on the synopses of a stream (s-means++).

    Parameters
    ----------
    synopses : array, shape (m, D), or WeightedData
        Points that stand for the stream; of a coreset, the signed rows are taken, with its weights as masses: after
        ``coreset()`` of a `stream` the rows of the stream are not needed.
    n_clusters : int
        Number k of centers.
    masses : array, shape (m,), optional
        Rows that each synopsis stands for, 1 by default; a coreset brings its own.
    n_local_trials : int or None
        See `k_variates`.
    random_state : int, Generator, SeedSequence or None
        Seed.

    Returns
    -------
    Seeding
        Labels and cost are those of the synopses.

    Raises
    ------
    DataError
        As `k_variates`, or if a coreset and masses are both given.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Algorithm 2 and Theorem 5.

    Examples
    --------
    >>> import numpy as np
    >>> import bayescore as bc
    >>> from bayescore.clustering import s_means
    >>> rng = np.random.default_rng(0)
    >>> stream = bc.stream("online", size=200, family="probit", random_state=1)
    >>> for _ in range(50):
    ...     X = rng.normal(size=(100, 2))
    ...     stream = stream.partial_fit(X, X[:, 0] + rng.normal(size=100) > 0)
    >>> s_means(stream.coreset(), 4, random_state=2).centers.shape
    (4, 2)
    """
    if not isinstance(synopses, WeightedData):
        points: ArrayLike = synopses
    else:
        check_alone("a coreset", masses=masses)
        points, masses = synopses.Z, synopses.weights
    return k_variates(points, n_clusters, weights=masses, n_local_trials=n_local_trials, random_state=random_state)


def ol_means(
    batches: Iterable[Any],
    n_clusters: int,
    *,
    divergence: Divergence | str = SQUARED_EUCLIDEAN,
    random_state: RandomState = None,
) -> FloatArray:
    """Seed k centers from a stream, one from each minibatch (ol-means++).

    Parameters
    ----------
    batches : iterable of arrays, shapes (n_t, D)
        Minibatches, read once, in order, no further than needed. One whose rows all coincide with centers gives none.
    n_clusters : int
        Number k of centers.
    divergence : Divergence or str
        D.
    random_state : int, Generator, SeedSequence or None
        Seed.

    Returns
    -------
    array, shape (k, D)

    Raises
    ------
    DataError
        If a minibatch cannot be used, or the stream ends before there are k centers.
    ValueError, TypeError
        If n_clusters is not a positive integer or the divergence is unknown.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Algorithm 3 and Theorem 6.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import ol_means
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> ol_means(np.split(X, 10), 4, random_state=1).shape
    (4, 2)
    """
    k = check_integer(n_clusters, "n_clusters", low=1)
    rng, d = check_generator(random_state), check_divergence(divergence)
    centers: list[FloatArray] = []
    for t, batch in enumerate(batches):
        center = next_center(Rows(batch, divergence=d, name=f"minibatch {t}"), centers, rng)
        if center is not None:
            centers.append(center)
        if len(centers) == k:
            return np.array(centers)
    raise DataError(
        f"n_clusters={k}, but the minibatches gave {len(centers)} centers; cut the stream into {k} of them at "
        "least, or ask for fewer clusters"
    )


def next_center(rows: Rows, centers: Iterable[FloatArray], rng: np.random.Generator) -> FloatArray | None:
    """Draw one more center from a minibatch, given the earlier centers; None if all its rows are centers."""
    for center in centers:
        rows.add(center)
    return rows.answer(rng) if rows.total() > 0.0 else None
