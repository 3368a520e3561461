"""Logistic coresets by sensitivity sampling (Huggins, Campbell and Broderick 2016, Algorithm 1).

M rows are drawn with p_n proportional to w_n m_n, m_n the bound of the sensitivity (`scores.sensitivity`), and row n,
drawn K_n times, gets the unbiased weight w_n K_n / (M p_n). Known offsets are one more column of the signed rows, whose
coefficient is 1 at the center of the ball.

When to use it: it needs no fit of the model and has a guarantee, but its posterior means are off by about
sqrt(N / M) posterior standard deviations.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayescore.clustering.assignment import assign, fit_centers, seed_centers
from bayescore.clustering.partitions import seed_peers
from bayescore.coresets.method import DELTA, BuildInfo, BuildResult, Method, ReduceRequest, ReduceResult, check_epsilon
from bayescore.coresets.sampling.draw import draw, equal_rates, weighted
from bayescore.coresets.scores.sensitivity import bounds_of, check_centers, sensitivity_epsilon, sensitivity_size
from bayescore.data.dataset import Dataset
from bayescore.data.design import append_offset
from bayescore.data.sources import as_source
from bayescore.models.families import Family
from bayescore.types import IntArray, WeightedData
from bayescore.validation import DataError, check_choice, check_integer, check_positive

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
    It needs no fit of the model; its posterior means are off by about sqrt(N / M) posterior sds.

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
