"""What the tests of seedings share: data sets, repeated runs, and one-sided and two-sample tests of mean costs."""

import math
from functools import cache

import numpy as np
from scipy import stats
from sklearn.cluster import KMeans

from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, Nearest

FALSE_ALARM = 1e-6  # of each comparison, if its hypothesis is true


def blobs(seed=0, sizes=(150, 90, 40, 15, 5), width=1.0, apart=12.0, n_features=2):
    """Clusters of unequal sizes, the same under every shift of the seeds."""
    rng = np.random.Generator(np.random.PCG64(seed))
    middles = rng.uniform(-apart, apart, (len(sizes), n_features))
    return np.concatenate([m + width * rng.normal(size=(n, n_features)) for m, n in zip(middles, sizes, strict=True)])


DATA = {
    "blobs": blobs(),
    "one far cluster": blobs(1, sizes=(300, 3), apart=400.0),
    "heavy tails": np.random.default_rng(2).standard_t(2.0, size=(250, 3)),
    "repeated rows": np.random.default_rng(3).integers(0, 4, (200, 3)).astype(float),
}


@cache
def optimum(name, k=5):
    """The best known centers of one of DATA."""
    return KMeans(k, n_init=5, random_state=0).fit(DATA[name]).cluster_centers_


def cost(X, centers, weights=None):
    """The potential of centers on rows."""
    return Nearest(X, np.ones(len(X)) if weights is None else weights, SQUARED_EUCLIDEAN, centers).total


def exceeds(costs, bound):
    """Whether the mean cost is refuted to be at most `bound` (one-sided, false-alarm rate at most FALSE_ALARM)."""
    spread = np.std(costs, ddof=1) / math.sqrt(len(costs))
    return np.mean(costs) - bound > stats.norm.isf(FALSE_ALARM) * spread


def differ(a, b):
    """Whether two samples of costs are refuted to have one mean and one law (Welch and Kolmogorov-Smirnov)."""
    welch = stats.ttest_ind(a, b, equal_var=False).pvalue
    return min(welch, stats.ks_2samp(a, b).pvalue) < FALSE_ALARM / 2.0
