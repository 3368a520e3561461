"""d-means++ where the rows stay in pieces: partitions of a Dask collection, row groups of files.

Each piece is a peer. A worker reads the rows where they are, and answers with a sum of w D or with a center; no other
row travels. Workers keep nothing between requests, so a lost worker changes nothing, and the pieces need not fit in
memory together. In return, each request brings all earlier centers, and k centers take k + 1 passes.

Use it for rows that cannot, or must not, be gathered. Its centers are those of `peers.d_means` on the same peers for
the same seed.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bayescore.clustering.checks import check_rows
from bayescore.clustering.densities import Uniform
from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, Divergence, check_divergence
from bayescore.clustering.nearest import Nearest
from bayescore.clustering.peers import PeerSeeding
from bayescore.clustering.variates import Rows, seed
from bayescore.data.dataset import Dataset
from bayescore.data.passes.map import map_pieces
from bayescore.data.source import Source
from bayescore.data.tables import is_dask
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, RandomState, check_alone, check_finite, check_generator, check_integer


def d_means_partitions(
    data: Any,
    n_clusters: int,
    *,
    weights: Any = None,
    divergence: Divergence | str = SQUARED_EUCLIDEAN,
    random_state: RandomState = None,
    progressbar: bool = False,
) -> PeerSeeding:
    """Seed k centers over the partitions of a Dask collection, or the pieces of a source, which keep their rows.

    Parameters
    ----------
    data : dask.dataframe.DataFrame, dask.array.Array or Source
        Rows; each partition that has any is a peer. Of a `Source` (``as_source(path, label="y")``) row groups,
        partitions or blocks are peers, and its signed rows are clustered, with its weights.
    n_clusters : int
        Number k of centers.
    weights : dask Series or Array, optional
        Positive weights of a collection's rows, in the same partitions.
    divergence : Divergence or str
        D.
    random_state : int, Generator, SeedSequence or None
        Seed; its state travels with the requests for a center.
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
    rng, d = check_generator(random_state), check_divergence(divergence)
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
        from bayescore.data.sources.dask_source import dask_rows  # Dask is optional

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
    peer = Rows(block.Z, block.weights, density=Uniform, divergence=divergence)
    for center in centers:
        peer.add(center)
    return peer.answer(rng), rng
