r"""Logistic coresets by sensitivity sampling (Huggins, Campbell and Broderick 2016, Algorithm 1).

M rows are drawn with p_n proportional to w_n m_n, m_n the bound of the sensitivity (`scores.sensitivity_block`). Row n,
drawn K_n times, gets the unbiased weight w_n K_n / (M p_n). Known offsets are one more column of the signed rows, whose
coefficient is 1 at the center of the ball.

When to use it: it needs no fit of the model and has a guarantee, but its posterior means are off by about
sqrt(N / M) posterior standard deviations.

Bounds of sensitivities under the logistic likelihood, and how many draws they ask for (Huggins et al. 2016).

The sensitivity of row n over the ball of radius R around theta* is at most

.. math:: m_n = \frac{W}{w_n + \sum_i W_i^{(-n)}
          \exp(-R\,|\bar Z_i^{(-n)} - z_n| - |(\bar Z_i^{(-n)} - z_n) \cdot \theta^*|)}

for any k-clustering of the signed rows, Zbar_i and W_i the clusters' means and weights, "(-n)" without row n
(Lemmas 3.1 and B.5; with unit weights their formula).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.assignment import Clustering, assign, fit_centers, seed_centers
from bayescore.clustering.peers import seed_peers
from bayescore.coresets.method import DELTA, BuildInfo, BuildResult, Method, ReduceRequest, ReduceResult, check_epsilon
from bayescore.coresets.scores import Clusters, sensitivity_block
from bayescore.data.dataset import Dataset
from bayescore.data.design import append_offset
from bayescore.data.passes import TileRows
from bayescore.data.sources import as_source, unlabelled
from bayescore.families import Family
from bayescore.numerics.sampling import draw, equal_rates, weighted
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_choice, check_integer, check_matrix, check_positive


def bounds_of(block: WeightedData, clusters: Clustering, radius: float, theta: FloatArray, total: float) -> FloatArray:
    """Return the sensitivity bounds of the rows of a block, shape (n,)."""
    compiled = Clusters(clusters.centers, clusters.means, clusters.masses, clusters.counts)
    return sensitivity_block(TileRows.of(block), compiled, radius, theta, total)


def sensitivity_bounds(
    Z: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    centers: ArrayLike,
    radius: float,
    center: ArrayLike | None = None,
) -> FloatArray:
    """Return the bounds m_n, shape (n,), of the signed rows Z, shape (n, D), on the ball of a radius about `center`.

    Each row belongs to the nearest of the `centers`, shape (k, D).

    Examples
    --------
    >>> sensitivity_bounds([[1.0, 0.0], [1.1, 0.0], [-5.0, 0.0]], centers=[[0.0, 0.0]], radius=1.0).round(2)
    array([2.72, 2.75, 2.99])
    """
    dataset = Dataset(unlabelled(Z, weights, "Z"))
    n_features = dataset.n_features
    points = check_centers(centers, n_features)
    theta = np.zeros(n_features) if center is None else np.array(center, dtype=np.float64, order="C")
    if theta.shape != (n_features,) or not np.isfinite(theta).all():
        raise ValueError(f"center has shape {theta.shape}; it must be ({n_features},), finite, one for each column")
    R = check_positive(radius, "radius")
    total, clusters = dataset.scan.weight_total, assign(dataset, points)
    return np.concatenate(list(dataset.map(lambda _, block: bounds_of(block, clusters, R, theta, total))))


def sensitivity_size(mean_sensitivity: float, n_features: int, epsilon: float, delta: float, c: float = 1.0) -> int:
    """Return the number of draws M that makes an epsilon-coreset on the ball with probability 1 - delta.

    M = ceil(c mbar / epsilon^2 ((D + 1) log mbar + log(1 / delta))), mbar >= 1 the mean bound (Theorem 3.2). The
    theorem leaves c open: 1 is a convention, not a guarantee.

    Examples
    --------
    >>> sensitivity_size(5.0, 10, epsilon=0.5, delta=0.05)
    414
    """
    epsilon, delta = check_positive(epsilon, "epsilon", below=1.0), check_positive(delta, "delta", below=1.0)
    return math.ceil(check_positive(c, "c") * _size_at_unit_epsilon(mean_sensitivity, n_features, delta) / epsilon**2)


def sensitivity_epsilon(mean_sensitivity: float, n_features: int, size: int, delta: float) -> float:
    """Return the epsilon of `size` draws, by `sensitivity_size` with c = 1; from 1 on it promises nothing.

    Examples
    --------
    >>> round(sensitivity_epsilon(5.0, 10, size=1000, delta=0.05), 2)
    0.32
    """
    return math.sqrt(_size_at_unit_epsilon(mean_sensitivity, n_features, delta) / size)


def _size_at_unit_epsilon(mean_sensitivity: float, n_features: int, delta: float) -> float:
    return mean_sensitivity * ((n_features + 1) * math.log(max(mean_sensitivity, 1.0)) + math.log(1.0 / delta))


def check_centers(clustering: Any, n_features: int) -> FloatArray:
    """Return the centers of a clustering, shape (k, D): an array, a seeding, or a fitted scikit-learn clusterer."""
    centers = getattr(clustering, "cluster_centers_", getattr(clustering, "centers", clustering))
    if hasattr(centers, "fit"):
        raise TypeError(
            f"clustering is a {type(centers).__name__}, which has no cluster_centers_; give a clusterer that has them, "
            "such as KMeans or KVariates, or an array of centers"
        )
    points = check_matrix(centers, "clustering", n_columns=n_features)
    if not np.isfinite(points).all():
        raise DataError("clustering has centers with NaN or infinity")
    return np.ascontiguousarray(points, dtype=np.float64)


D_MEANS = "d-means++"  # the clustering that is named, not given


RESOLUTION = 1024  # rates are w m in units of mean weight / 1024, rounded up


@dataclass(frozen=True)
class SensitivityInfo(BuildInfo):
    """Draws, the clustering, and the options given."""

    draws: int
    clusters: int
    radius: float
    cost: float  # normalised k-means cost
    mean_sensitivity: float  # mean bound, rounded up by at most 1/1024
    clustering: list[list[float]] | None = None
    epsilon: float | None = None
    delta: float | None = None


@dataclass(frozen=True)
class Sensitivity(Method):
    """Draws by a bound of the sensitivity (Huggins et al. 2016): logistic only, with a guarantee on a ball.

    Parameters
    ----------
    clusters : int, optional
        Number k of clusters; by default 4 up to 10 columns, else 6.
    radius : float or "auto"
        Radius R of the ball of coefficients that the bound holds on; "auto" is 3 / sqrt(normalised k-means cost).
    clustering : optional
        Clustering of the signed rows in place of greedy k-means++ on a subsample: centers of shape (k, D); the result
        of a function of `bayescore.clustering`; a scikit-learn clusterer with ``cluster_centers_``, which is fitted to
        the subsample unless it is fitted; or "d-means++". The peers of "d-means++" are the partitions, row groups or
        blocks of the data: no row but the centers comes here, and the coreset then depends on how the rows are cut.
    epsilon, delta : float, optional
        For ``size="auto"``: relative error of the log-likelihood, and probability of failure (default 0.05); see
        `sensitivity_size`.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range, or `clusters` and `clustering` are both given, or `delta`
        without `epsilon`.

    Notes
    -----
    It needs no fit of the model; its posterior means have errors of about sqrt(N / M) posterior sds.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method="sensitivity", clusters=3, size=100, random_state=1, progressbar=False)
    >>> core.method, core.n_total
    ('sensitivity', 5000)
    """

    clusters: int | None = None
    radius: float | str = "auto"
    clustering: Any = None
    epsilon: float | None = None
    delta: float | None = None

    name: ClassVar[str] = "sensitivity"
    families: ClassVar[tuple[str, ...]] = ("logistic",)
    size_options: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        if isinstance(self.clustering, str):
            check_choice(self.clustering, "clustering", [D_MEANS])
        elif self.clusters is not None and self.clustering is not None:
            raise ValueError("clusters and clustering are both given; give one of them")
        if self.clusters is not None:
            check_integer(self.clusters, "clusters", low=1)
        if self.radius != "auto":
            check_positive(self.radius, "radius")
        if isinstance(self.clustering, np.ndarray) and self.clustering.ndim == 2:
            object.__setattr__(self, "clustering", tuple(map(tuple, self.clustering.tolist())))
        check_epsilon(self, "delta")

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[SensitivityInfo]:
        """Draw by the bounds."""
        rng = np.random.default_rng(seed)
        seen, theta = dataset.append_offset(), np.zeros(dataset.n_features)
        if seen is not dataset:
            theta = np.append(theta, 1.0)  # an offset is a column of coefficient 1
        n_features, n_rows, weight_total = seen.n_features, seen.scan.n_rows, seen.scan.weight_total
        if self.clusters is not None and self.clusters > n_rows:
            raise DataError(f"clusters={self.clusters} exceeds the {n_rows} rows; ask for fewer")
        centers = check_centers(self._clustering(seen, rng), n_features)
        part = assign(seen, centers)
        # with cost 0 every row sits on a center: the distances in the bound vanish, and any radius will do
        R = 3.0 / math.sqrt(part.cost or 1.0) if self.radius == "auto" else float(self.radius)
        per_weight = n_rows / weight_total

        def rates(block: WeightedData) -> IntArray:
            bounds = bounds_of(append_offset(block), part, R, theta, weight_total)
            return np.ceil(RESOLUTION * per_weight * block.weights * bounds).astype(np.int64)

        delta = DELTA if self.delta is None else self.delta
        if self.epsilon is None:
            draws = self.draws(dataset, size)
        else:
            total = sum(dataset.map(lambda _, block: int(rates(block).sum()), "scores"))
            draws = sensitivity_size(total / (RESOLUTION * n_rows), n_features, self.epsilon, delta)
            if draws > n_rows:
                raise ValueError(
                    f"epsilon={self.epsilon:g} needs {draws} draws, more than the {n_rows} rows; "
                    "give a larger epsilon, a smaller radius, or a size"
                )
        drawn = draw(dataset, rates, draws, int(rng.integers(2**63)))
        info = SensitivityInfo(
            draws=draws,
            clusters=len(part.centers),
            radius=R,
            cost=part.cost,
            mean_sensitivity=drawn.total / (RESOLUTION * n_rows),
            clustering=None if self.clustering is None else centers.tolist(),
            epsilon=self.epsilon,
            delta=None if self.epsilon is None else delta,
        )
        return BuildResult(weighted(drawn, draws), info, self)

    def _clustering(self, dataset: Dataset, rng: np.random.Generator) -> Any:
        if isinstance(self.clustering, str):
            return seed_peers(dataset, self.clusters or _default_clusters(dataset.n_features), rng)
        if self.clustering is None or (
            hasattr(self.clustering, "fit") and not hasattr(self.clustering, "cluster_centers_")
        ):
            return _seeding(dataset, getattr(self.clustering, "n_clusters", self.clusters), self.clustering, rng)
        return self.clustering

    def reduce(self, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
        """Return fewer rows in place of `rows`, with their epsilon on the ball."""
        built = self.build(Dataset(as_source(rows)), request.size, request.seed, request.family)
        info = built.info
        epsilon = sensitivity_epsilon(info.mean_sensitivity, append_offset(rows).n_features, info.draws, request.delta)
        return ReduceResult(built.rows, epsilon, info.radius)


def _default_clusters(n_features: int) -> int:
    return 4 if n_features <= 10 else 6


def _seeding(dataset: Dataset, clusters: int | None, clusterer: Any, rng: np.random.Generator) -> Any:
    """Seed (or fit the clusterer) on a uniform subsample of min(1000 k, N / 40) rows, enlarged till k are distinct."""
    k = _default_clusters(dataset.n_features) if clusters is None else clusters
    n_rows = dataset.scan.n_rows
    size = min(n_rows, max(min(1000 * k, n_rows // 40), 20 * k))
    seed = int(rng.integers(2**63))
    while True:
        sample = draw(dataset, equal_rates, size, seed, replace=False, description="subsample").rows
        try:
            return seed_centers(sample, k, rng) if clusterer is None else fit_centers(clusterer, sample, rng)
        except DataError:
            if size < n_rows:
                size = min(n_rows, 8 * size)
            elif clusters is None and k > 1:
                k -= 1
            else:
                raise
