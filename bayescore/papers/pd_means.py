"""Private k-variates++ over peers that add the noise themselves: pd-means++ (Nock et al. 2016)."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from bayescore.clustering.checks import check_peers
from bayescore.clustering.densities import Uniform
from bayescore.clustering.private import PrivateSeeding, check_private, laplace, seed_private
from bayescore.validation import RandomState


def pd_means(
    peers: Sequence[ArrayLike], n_clusters: int, *, epsilon: float, radius: float, random_state: RandomState = None
) -> PrivateSeeding:
    """Seed k private centers over peers that answer with a uniform draw of their rows plus noise (pd-means++).

    Each peer clips and adds noise itself. The centers are private as those of `private_k_variates`; the sums of D_t
    that peers send to the coordinator are not, so it has to be trusted with them.

    Parameters
    ----------
    peers : sequence of arrays, shapes (n_i, D)
        Rows of each peer.
    n_clusters, epsilon, radius, random_state
        See `private_k_variates`.

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
    spent = noise.epsilon * k
    return seed_private(held, k, noise, Uniform, epsilon=epsilon, spent=spent, radius=R, random_state=random_state)
