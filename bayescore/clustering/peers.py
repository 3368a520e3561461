"""k-variates++ where nobody holds all rows: on peers, on synopses of a stream, on minibatches (Nock et al. 2016).

*d-means++*: the coordinator picks a peer with probability proportional to its sum of D_t (its weight at t = 1), and the
peer answers with a uniform draw of its own rows. A round costs one center to each peer and one number back. The
expected potential is at most 10 phi_opt + 6 phi_s, phi_s the spread of the peers (Theorem 4), so it is good where peers
hold rows that lie together. *s-means++*: synopses s_j with masses m_j stand for a stream; m_j D_t(s_j) draws them
(Theorem 5). *ol-means++*: each minibatch gives one center, drawn by D_t over that minibatch alone (Theorem 6).

d-means++ where the rows stay in pieces: partitions of a Dask collection, row groups of files.

Each piece is a peer. A worker reads the rows where they are, and answers with a sum of w D or with a center; no other
row travels. Workers keep nothing between requests, so a lost worker changes nothing, and the pieces need not fit in
memory together. In return, each request brings all earlier centers, and k centers take k + 1 passes.

Use it for rows that cannot, or must not, be gathered. Its centers are those of `peers.d_means` on the same peers for
the same seed.

Private seeding: k-variates++ whose centers are rows plus Laplace noise (Nock et al. 2016, section 4).

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.divergences import (
    SQUARED_EUCLIDEAN,
    Divergence,
    Nearest,
    check_divergence,
    check_peers,
    check_rows,
    check_trials,
)
from bayescore.clustering.variates import (
    Densities,
    Held,
    Noisy,
    PointMasses,
    Rows,
    Seeding,
    UniformDraw,
    k_variates,
    seed,
)
from bayescore.data.dataset import Dataset
from bayescore.data.passes import map_pieces
from bayescore.data.source import Source
from bayescore.data.tables import is_dask
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import (
    DataError,
    RandomState,
    check_alone,
    check_finite,
    check_generator,
    check_integer,
    check_positive,
    one_seed,
)


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
    density: Densities = UniformDraw,
    divergence: Divergence | str = SQUARED_EUCLIDEAN,
    random_state: RandomState = None,
    random_seed: RandomState = None,
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
        How a peer answers: `UniformDraw` over its rows for d-means++, `Noisy` on top of it for noisy answers;
        `PointMasses` would make it k-means++ on all rows.
    divergence : Divergence or str
        D.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name.

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
    rng, d = check_generator(one_seed(random_state, random_seed)), check_divergence(divergence)
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
    random_seed: RandomState = None,
) -> Seeding:
    """Seed k centers on the synopses of a stream (s-means++).

    Parameters
    ----------
    synopses : array, shape (m, D), or WeightedData
        Points that represent the stream; of a coreset, the signed rows are taken, with its weights as masses: after
        ``coreset()`` of a `stream` the rows of the stream are not needed.
    n_clusters : int
        Number k of centers.
    masses : array, shape (m,), optional
        Rows that each synopsis represents, 1 by default; a coreset has them.
    n_local_trials : int or None
        See `k_variates`.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name.

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
    seed = one_seed(random_state, random_seed)
    return k_variates(points, n_clusters, weights=masses, n_local_trials=n_local_trials, random_state=seed)


def ol_means(
    batches: Iterable[Any],
    n_clusters: int,
    *,
    divergence: Divergence | str = SQUARED_EUCLIDEAN,
    random_state: RandomState = None,
    random_seed: RandomState = None,
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
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name.

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
    rng, d = check_generator(one_seed(random_state, random_seed)), check_divergence(divergence)
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


def d_means_partitions(
    data: Any,
    n_clusters: int,
    *,
    weights: Any = None,
    divergence: Divergence | str = SQUARED_EUCLIDEAN,
    random_state: RandomState = None,
    random_seed: RandomState = None,
    progressbar: bool = False,
) -> PeerSeeding:
    """Seed k centers over the partitions of a Dask collection, or the pieces of a source, which keep their rows.

    Parameters
    ----------
    data : dask.dataframe.DataFrame, dask.array.Array or Source
        Rows; each partition that has any is a peer. In a `Source` (``as_source(path, label="y")``) row groups,
        partitions or blocks are peers, and its signed rows are clustered, with its weights.
    n_clusters : int
        Number k of centers.
    weights : dask Series or Array, optional
        Positive weights of a collection's rows, in the same partitions.
    divergence : Divergence or str
        D.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name; its state travels with the requests for a center.
    progressbar : bool
        Whether to show progress of the passes.

    Returns
    -------
    PeerSeeding
        ``sent`` is 8 D (m k (k + 1) / 2 + k (k - 1) / 2) bytes for m peers, ``received`` 8 (m (k + 1) + k D), and 8
        more in each pass for each further block that a piece is read in. What Dask adds to requests is not counted.

    Raises
    ------
    DataError
        If the rows cannot be used or do not come in pieces, or coincide with fewer than k centers.
    ValueError, TypeError
        If n_clusters is not a positive integer, the divergence is unknown, or data is of another kind.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Algorithm 1 and Theorem 4.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from bayescore.clustering import d_means_partitions
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> d_means_partitions(da.from_array(X, chunks=(250, 2)), 4, random_state=1).centers.shape
    (4, 2)
    """
    k = check_integer(n_clusters, "n_clusters", low=1)
    rng, d = check_generator(one_seed(random_state, random_seed)), check_divergence(divergence)
    return seed_peers(_dataset(data, weights, progressbar), k, rng, d)


def seed_peers(
    dataset: Dataset, n_clusters: int, rng: np.random.Generator, divergence: Divergence = SQUARED_EUCLIDEAN
) -> PeerSeeding:
    """Seed k centers over the pieces of a data set."""
    peers = Partitions(dataset, divergence)
    centers, cost = seed(peers, n_clusters, rng)
    return PeerSeeding(centers, cost, peers.sent, peers.received)


def _dataset(data: Any, weights: Any, progress: bool) -> Dataset:
    if is_dask(data):
        from bayescore.data.dask import dask_rows  # Dask is optional

        return Dataset(dask_rows(data, weights), progress=progress)
    if not isinstance(data, Source):
        raise TypeError(
            f"data is a {type(data).__name__}; give a Dask collection or a Source (see as_source), or give d_means the "
            "rows of each peer"
        )
    check_alone("a Source", weights=weights)
    return Dataset(data, progress=progress)


class Partitions:
    """The pieces of a data set as peers; `sent` and `received` count bytes of float64."""

    def __init__(self, dataset: Dataset, divergence: Divergence) -> None:
        division = dataset.division()
        if division is None:
            raise DataError(
                "data come in one stream, and d-means++ needs peers: give a Dask collection, a Parquet file or an "
                "array, or take ol_means over the blocks"
            )
        self.dataset, self.divergence = dataset, divergence
        self.division = replace(division, pieces=[piece for piece in division.pieces if piece.n_rows])
        self.centers = np.empty((0, dataset.n_features))
        self.sent, self.received = 0, 0
        self._ends = np.cumsum([piece.n_rows for piece in self.division.pieces])

    def totals(self) -> FloatArray:
        """Return the sums of w D of all peers, shape (m,); one pass."""
        sums = np.zeros(len(self._ends))
        ask = partial(_sum, self.centers, self.divergence, self.dataset.design.names)
        for start, total in self.dataset.map(ask, "d-means++"):
            sums[np.searchsorted(self._ends, start, side="right")] += total
            self.received += 8
        self.sent += len(sums) * self.centers.nbytes
        return sums

    def answer(self, which: int, rng: np.random.Generator) -> FloatArray:
        """Return a uniform draw from a peer."""
        piece = self.division.pieces[which]
        ask = partial(_drawn, self.centers, self.divergence, rng)
        ((_, (center, advanced)),) = map_pieces(replace(self.division, pieces=[piece]), ask, piece.n_rows, cores=1)
        rng.bit_generator.state = advanced.bit_generator.state  # a worker elsewhere has drawn from a copy
        self.sent += self.centers.nbytes
        self.received += center.nbytes
        return center

    def add(self, center: FloatArray) -> None:
        """Add a center; later requests bring all centers."""
        self.centers = np.vstack([self.centers, center])


def _sum(
    centers: FloatArray, divergence: Divergence, names: tuple[str, ...], start: int, block: WeightedData
) -> tuple[int, float]:
    """Return a block's start and its sum of w D, or of w before the first center."""
    if not len(centers):
        check_finite(block.X, names, start)
        check_rows(block.Z, f"the block from row {start} on", divergence)
    return start, Nearest(block.Z, block.weights, divergence, centers).total


def _drawn(
    centers: FloatArray, divergence: Divergence, rng: np.random.Generator, _: int, block: WeightedData
) -> tuple[FloatArray, np.random.Generator]:
    """Return the answer of a peer with these rows, and the generator after the draw."""
    peer = Rows(block.Z, block.weights, density=UniformDraw, divergence=divergence)
    for center in centers:
        peer.add(center)
    return peer.answer(rng), rng


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
    random_seed: RandomState = None,
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
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed of the rows picked, by either name; the noise cannot be seeded.

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
    rows, spent, seed = [check_rows(X, "X")], noise.epsilon * k, one_seed(random_state, random_seed)
    return seed_private(rows, k, noise, epsilon=epsilon, spent=spent, radius=R, trials=trials, random_state=seed)


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
