r"""Densities that k-variates++ draws its centers from, one attached to each row, as values.

A density is made from rows and weights; row a's has mean mu_a and covariance Sigma_a, and Theorem 2 charges
|mu_a - c_opt(a)|^2 for bias and tr Sigma_a for variance:

=================  =====================================  ==========================  ========================
value              row a stands for                       mu_a                        tr Sigma_a
=================  =====================================  ==========================  ========================
`PointMasses`      itself: k-means++                      a                           0
`Uniform`          any row of its group: d-means++        mean of the group           spread of the group
`Noisy`            a draw of another density, plus noise  that of the other density   its own and the noise's
=================  =====================================  ==========================  ========================

A density of your own is any class that is made and used like these.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.nearest import pick
from bayescore.types import FloatArray
from bayescore.validation import DataError


class Density(Protocol):
    """One density for each row."""

    def draw(self, row: int, rng: np.random.Generator) -> FloatArray:
        """Draw a center from the density of a row, shape (D,)."""

    def means(self) -> FloatArray:
        """Return the mean mu_a of each row's density, shape (n, D)."""

    def variances(self) -> FloatArray:
        """Return the trace of the covariance of each row's density, shape (n,)."""


Densities = Callable[[FloatArray, FloatArray], Density]


class Noise(Protocol):
    """Noise around a center, of mean zero."""

    def __call__(self, center: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the center, shape (D,), with noise."""

    def variance(self, n_features: int) -> float:
        """Return the trace of the noise's covariance."""


class PointMasses:
    """Each row stands for itself.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,)
        Their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import PointMasses, k_variates
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> k_variates(X, 4, density=PointMasses, random_state=1).centers.shape
    (4, 2)
    """

    def __init__(self, X: FloatArray, weights: FloatArray) -> None:  # noqa: ARG002 - one signature for all densities
        self.X = X

    def draw(self, row: int, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """Return the row itself."""
        return np.asarray(self.X[row])

    def means(self) -> FloatArray:
        """Return the rows."""
        return self.X

    def variances(self) -> FloatArray:
        """Return zeros."""
        return np.zeros(len(self.X))


class Uniform:
    """Each row stands for its group: the center is any row of it, by weight, as a peer of d-means++ answers.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,)
        Their weights.
    groups : array, shape (n,), optional
        The group of each row; one group of all rows by default.

    Raises
    ------
    DataError
        If there is not one group for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import Uniform, k_variates
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> groups = np.arange(1000) // 100
    >>> def of_ten_groups(X, weights):
    ...     return Uniform(X, weights, groups)
    >>> k_variates(X, 4, density=of_ten_groups, random_state=1).centers.shape
    (4, 2)
    """

    def __init__(self, X: FloatArray, weights: FloatArray, groups: ArrayLike | None = None) -> None:
        labels = np.zeros(len(X), dtype=np.int64) if groups is None else np.asarray(groups)
        if labels.shape != (len(X),):
            raise DataError(f"groups has shape {labels.shape}; it must be ({len(X)},), one group for each row")
        self.X, self.weights = X, weights
        self._group = np.unique(labels, return_inverse=True)[1]
        order = np.argsort(self._group, kind="stable")
        self._members = np.split(order, np.cumsum(np.bincount(self._group))[:-1])

    def draw(self, row: int, rng: np.random.Generator) -> FloatArray:
        """Draw a row of the row's group."""
        members = self._members[self._group[row]]
        return np.asarray(self.X[members[pick(self.weights[members], rng)[0]]])

    def means(self) -> FloatArray:
        """Return the mean of each row's group."""
        return self._averages(self.X)

    def variances(self) -> FloatArray:
        """Return the mean squared distance of each row's group from its mean."""
        squares = ((self.X - self.means()) ** 2).sum(axis=1, keepdims=True)
        return self._averages(squares)[:, 0]

    def _averages(self, values: FloatArray) -> FloatArray:
        """Return the weighted average of `values`, shape (n, m), over each row's group."""
        w, out = self.weights, np.zeros_like(values)
        for rows in self._members:
            if w[rows].any():  # else nothing is ever drawn from the group
                out[rows] = np.average(values[rows], axis=0, weights=w[rows])
        return out


class Noisy:
    """Noise on top of another density: pd-means++ on top of `Uniform`, private seeding on top of `PointMasses`.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,)
        Their weights.
    noise : Noise
        Noise of mean zero, drawn anew for each center.
    density : callable
        The other density, `PointMasses` by default.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import Noisy, PointMasses
    >>> class Gaussian:
    ...     def __call__(self, center, rng):
    ...         return center + rng.normal(0.0, 0.1, len(center))
    ...
    ...     def variance(self, n_features):
    ...         return 0.01 * n_features
    >>> Noisy(np.eye(3), np.ones(3), Gaussian()).variances().round(2)
    array([0.03, 0.03, 0.03])
    """

    def __init__(self, X: FloatArray, weights: FloatArray, noise: Noise, density: Densities = PointMasses) -> None:
        self.noise = noise
        self._below = density(X, weights)

    def draw(self, row: int, rng: np.random.Generator) -> FloatArray:
        """Draw from the density below and add noise."""
        return self.noise(self._below.draw(row, rng), rng)

    def means(self) -> FloatArray:
        """Return the means of the density below."""
        return self._below.means()

    def variances(self) -> FloatArray:
        """Return the variances of the density below, plus the noise's."""
        means = self._below.means()
        return self._below.variances() + self.noise.variance(means.shape[1])
