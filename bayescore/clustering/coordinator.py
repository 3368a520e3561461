"""The one loop of every seeding: a coordinator asks peers, and sees their sums and centers only.

Peers that hold their rows in this process are `Held`, k-means++ being the case of one peer; `partitions` has peers
whose rows stay where Dask or a file keeps them.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bayescore.clustering.checks import too_few
from bayescore.clustering.nearest import pick
from bayescore.types import FloatArray
from bayescore.validation import DataError


class Peer(Protocol):
    """Who holds rows and answers."""

    def total(self) -> float:
        """Return the sum of w D_t over the rows, before the first center the sum of w."""
        ...

    def answer(self, rng: np.random.Generator) -> FloatArray:
        """Draw a row by w D_t and return a center, shape (D,), drawn from its density."""
        ...

    def add(self, center: FloatArray) -> None:
        """Take note of a new center, shape (D,)."""
        ...


class Peers(Protocol):
    """All peers, as the coordinator sees them."""

    def totals(self) -> FloatArray:
        """Fetch each peer's sum of w D_t, shape (m,)."""
        ...

    def answer(self, which: int, rng: np.random.Generator) -> FloatArray:
        """Fetch a center, shape (D,), from a peer."""
        ...

    def add(self, center: FloatArray) -> None:
        """Send a new center, shape (D,), to all peers."""
        ...


class Held:
    """Peers in this process; counts the bytes of float64 that would pass if they were elsewhere.

    Attributes
    ----------
    sent, received : int
        Bytes sent to all m peers, and received from them: for k centers 8 m k D, and 8 (m (k + 1) + k D).
    """

    def __init__(self, peers: Sequence[Peer]) -> None:
        self.peers = peers
        self.sent, self.received = 0, 0

    def totals(self) -> FloatArray:
        """Ask all peers for their sums."""
        sums = np.array([peer.total() for peer in self.peers])
        self.received += sums.nbytes
        return sums

    def answer(self, which: int, rng: np.random.Generator) -> FloatArray:
        """Ask one for a center."""
        center = self.peers[which].answer(rng)
        self.received += center.nbytes
        return center

    def add(self, center: FloatArray) -> None:
        """Tell all of a center."""
        self.sent += len(self.peers) * center.nbytes
        for peer in self.peers:
            peer.add(center)


def seed(peers: Peers, n_clusters: int, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Choose k centers among the rows of all peers.

    Returns
    -------
    centers : array, shape (k, D)
    potential : float
        Sum of w D over all peers once they know all centers.

    Raises
    ------
    DataError
        If every row coincides with a center before there are k.
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
