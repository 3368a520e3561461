"""Closed forms of a normal model given the sds, averaged over a grid of their logarithms.

The priors are HalfStudentT(3, 2.5 sd(y)) of the noise's sd and of the effects', and the default ones of coefficients.
"""

from dataclasses import dataclass

import numpy as np

import bayescore as bc
from bayescore.priors.groups import autoscaled_prior, log_sigma_terms
from bayescore.types import FloatArray

NODES = 45, 151  # of log sd and log sigma
REACH = 7.0  # sds of the grids to each side
TURNS = 8  # of grids that narrow
GRIDS = [(2.0, 0.0), (4.0, -1.0)]  # half width and centre of the first grids, in logarithms over the sd found


@dataclass(frozen=True, eq=False)
class Exact:
    """Closed forms given log sd and log sigma, of all rows."""

    sums: tuple[FloatArray, FloatArray, float]  # X'X, X'r and r'r of residuals about the prior's means
    groups: tuple[FloatArray, FloatArray, FloatArray]  # counts, sums of X and of r; of no groups empty
    prior: tuple[FloatArray, FloatArray]  # means and sds
    scale: float  # of the priors of sds
    n: int

    @classmethod
    def of(
        cls, rows: bc.Coreset, prior: tuple[FloatArray, FloatArray] | None = None, scale: float | None = None
    ) -> "Exact":
        """Return those of all rows, under the default priors or given ones."""
        if prior is None:
            default = autoscaled_prior(rows)
            prior = np.array(default.mu), np.array(default.sigma)
        X, r = rows.X, -rows.offset - rows.X @ prior[0]
        codes, G = np.zeros(len(X), dtype=int), 0
        if rows.group is not None:
            codes, G = rows.group[:, 0], len(rows.groups[0])
        count, of_r = (np.bincount(codes, w, G)[:G].astype(float) for w in (None, r))
        of_x = np.stack([np.bincount(codes, column, G)[:G] for column in X.T], axis=1)
        scale = 2.5 * float(np.std(rows.offset)) if scale is None else scale
        return cls((X.T @ X, X.T @ r, float(r @ r)), (count, of_x, of_r), prior, scale, len(X))

    def at(self, log_sd: float, log_sigma: float) -> tuple[float, FloatArray, FloatArray]:
        """Return the log density of both, and means and variances of the coefficients given them."""
        (square, pull, rest), (count, of_x, of_r) = self.sums, self.groups
        sd2, v = np.exp(2.0 * log_sd), np.exp(2.0 * log_sigma)
        share = v / (sd2 * (sd2 + v * count))
        A = square / sd2 - (of_x.T * share) @ of_x + np.diag(self.prior[1] ** -2.0)
        b = pull / sd2 - of_x.T @ (share * of_r)
        moved = np.linalg.solve(A, b)
        value = 0.5 * (b @ moved - rest / sd2 + share @ of_r**2 - np.linalg.slogdet(A)[1])
        value -= self.n * log_sd + 0.5 * np.log1p(v * count / sd2).sum()
        value += log_sigma_terms(log_sd, 3.0, self.scale)[0]
        if len(count):
            value += log_sigma_terms(log_sigma, 3.0, self.scale)[0]
        return float(value), self.prior[0] + moved, np.diagonal(np.linalg.inv(A))

    def moments(self, sd: float, *, given: bool) -> tuple[FloatArray, FloatArray]:
        """Return means and sds of coefficients and log sigma, with the sd given, or unknown and near it."""
        middle = np.log(sd) + np.array([own[1] for own in GRIDS])
        wide = np.array([own[0] for own in GRIDS])
        n_nodes = 1 if given else NODES[0], NODES[1] if len(self.groups[0]) else 1
        for _ in range(TURNS):
            axes = [
                np.linspace(at - far, at + far, k) if k > 1 else np.array([np.log(sd) if f == 0 else -np.inf])
                for f, (at, far, k) in enumerate(zip(middle, wide, n_nodes, strict=True))
            ]
            points = np.array([(a, b) for a in axes[0] for b in axes[1]])
            found = [self.at(*point) for point in points]
            values = np.array([own[0] for own in found])
            weights = np.exp(values - values.max())
            weights /= weights.sum()
            points[~np.isfinite(points)] = 0.0
            middle = weights @ points
            spread = np.sqrt(weights @ (points - middle) ** 2)
            wide = np.maximum(REACH * spread, 3.0 * wide / np.array(NODES))
        log_sigma = points[:, [1]] if len(self.groups[0]) else np.empty((len(points), 0))
        means = np.column_stack([np.array([own[1] for own in found]), log_sigma])
        mean = weights @ means
        inside = np.column_stack([np.array([own[2] for own in found]), np.zeros_like(log_sigma)])
        return mean, np.sqrt(weights @ (inside + (means - mean) ** 2))
