"""Sums of squares within groups, which the rows of sums of numbers keep for all groups together.

Those rows tell W and the mean of each group, and so log p(y_g | beta, sigma) but for the squares of residuals about
their mean in the group, over -2 sd^2. One pass finds these for every group, as quadratics in beta.
"""

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.types import FloatArray, IntArray, WeightedData

_LONGEST = 2e9
"""Rows times squared columns above which no pass is made: it takes some ten seconds."""

_LARGEST = 10_000_000
"""Numbers of all groups' quadratics above which there are too many."""


def squares_within(beta: FloatArray, core: Coreset, dataset: Dataset) -> FloatArray | None:
    """Return the squares that rows of the data add to those of a coreset's rows, by group, at draws of beta: (S, G).

    None where that takes long.
    """
    G, K = len(core.groups[0]), core.n_features + 1
    if G * K * K > _LARGEST or core.n_total * K * K > _LONGEST:
        return None
    middle = beta.mean(axis=0)

    def columns(rows: WeightedData) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return codes, weights, and (x, residual at the middle) of rows that have a group."""
        assert rows.group is not None
        known = rows.group[:, 0] >= 0
        a = np.column_stack([rows.X, rows.with_offset(rows.X @ middle)])
        return rows.group[known, 0], rows.weights[known], a[known]

    codes, w, a = columns(core)
    weight = np.maximum(np.bincount(codes, w, G), np.finfo(float).tiny)
    mean = np.stack([np.bincount(codes, w * column, G) / weight for column in a.T], axis=1)

    def moments(rows: WeightedData) -> tuple[IntArray, FloatArray]:
        """Return the groups of rows, and the sums of products of columns about the groups' means, (g, K, K)."""
        codes, w, a = columns(rows)
        about = a - mean[codes]
        known, place = np.unique(codes, return_inverse=True)
        found = np.empty((len(known), K, K))
        for i in range(K):
            for j in range(i + 1):
                found[:, i, j] = found[:, j, i] = np.bincount(place, w * about[:, i] * about[:, j], len(known))
        return known, found

    total = np.zeros((G, K, K))
    for known, own in dataset.map(lambda _, block: moments(block), "adding up groups", canonical=True):
        total[known] += own
    known, own = moments(core)
    total[known] -= own
    step = np.column_stack([beta - middle, np.ones(len(beta))])
    products = (step[:, :, None] * step[:, None]).reshape(len(step), -1)
    return np.asarray(np.maximum(products @ total.reshape(G, -1).T, 0.0))
