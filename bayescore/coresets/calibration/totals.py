r"""The totals that calibrated rows meet, group by group (step 3 of `calibrated`), and the rows' shares in them.

At a point theta with the scale L, LL' = C, of one posterior sd:

========= ========= =====================================================================================
group     entries   total
========= ========= =====================================================================================
scores    D         sum w s zL, in posterior sds
marginals D         sum w c (z . C e_j)^2 / C_jj: relative curvatures along the columns
forms     K         the whole whitened Hessian sum w c (zL)(zL)', K = D (D + 1) / 2, where that leaves enough rows free
                    (`rows_for_all`); else none: to meet some of so many costs more freedom than it gains
pulls     D         sum w l''' \|zL\|^2 zL / 2: to second order the distance of the mean from the mode
level     1         sum w log p, so that the evidence agrees too
draws     S         sum w log p at draws of a trial (`trial`)
========= ========= =====================================================================================
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from bayescore.coresets.calibration.pilot import LaplaceApproximation
from bayescore.data.passes.nonzeros import compact
from bayescore.models.posterior import Derivatives
from bayescore.types import FloatArray, IntArray, WeightedData

MAX_TOTALS = 0.7  # of the rows, for the whole Hessian: with more, too few weights stay positive
MAX_COST = 10**10  # of a step of the fit with the whole Hessian, totals^2 x rows: 0.3 s
CURVATURE = 3.0  # how much a relative error of a curvature counts beside an error of a mean in posterior sds
LEVEL = 100.0  # size of the log-likelihood, in the units of the other totals, or the fit is ill-conditioned


class Groups(NamedTuple):
    """Totals, shape (entries,) each, or rows' shares in them, shape (entries, m) each."""

    scores: FloatArray
    marginals: FloatArray
    forms: FloatArray
    pulls: FloatArray
    level: FloatArray
    draws: FloatArray | None = None

    def stacked(self) -> FloatArray:
        """Return all groups below each other."""
        return np.concatenate([group for group in self if group is not None])

    def split(self, stacked: FloatArray) -> "Groups":
        """Return what belongs to totals as these, stacked, in groups again."""
        ends = np.cumsum([len(group) for group in self if group is not None])
        return Groups(*np.split(stacked, ends[:-1]))


@dataclass(frozen=True, eq=False)
class Totals:
    """Totals at a point: the point and its scale, the log-likelihood's terms there, and what there is of the Hessian.

    `marginal`, shape (D, D), has the directions of the marginal curvatures; `whole` is whether all of it is met.
    """

    laplace: LaplaceApproximation
    part: Derivatives
    marginal: FloatArray
    whole: bool

    @classmethod
    def at(cls, laplace: LaplaceApproximation, part: Derivatives, n_rows: int) -> Self:
        """Return the totals that `n_rows` rows are to meet at a point."""
        covariance = laplace.factor @ laplace.factor.T
        # a form's factor multiplies (z . d)^2, so roots are taken
        marginal = math.sqrt(CURVATURE) * covariance / np.sqrt(np.diagonal(covariance))
        n_totals = _n_totals(len(covariance))
        return cls(laplace, part, marginal, n_totals <= MAX_TOTALS * n_rows and n_totals**2 * n_rows <= MAX_COST)

    @property
    def level(self) -> float:
        """Factor on the log-likelihood."""
        return LEVEL / max(1.0, abs(self.part.value))

    def shares(self, rows: WeightedData) -> Groups:
        """Return the shares of rows."""
        laplace = self.laplace
        few = compact(rows.X)
        eta, W = rows.with_offset(rows.X @ laplace.theta), few @ laplace.factor
        score = rows.weights * laplace.family.score(eta, rows.y)
        curvature = rows.weights * laplace.family.curvature(eta, rows.y)
        i, j, factor = self._entries()
        return Groups(
            scores=(score[:, None] * W).T,
            marginals=curvature * ((few @ self.marginal) ** 2).T,
            forms=W.T[i] * (curvature * W.T)[j] * factor[:, None],
            pulls=laplace.pulls(rows),
            level=(self.level * rows.weights * laplace.family.log_p(eta, rows.y))[None],
        )

    def values(self, pull: FloatArray) -> Groups:
        """Return the totals of all rows, whose pulls add up to `pull`, shape (D,)."""
        L, precision = self.laplace.factor, self.part.precision
        i, j, factor = self._entries()
        return Groups(
            scores=L.T @ self.part.gradient,
            marginals=((precision @ self.marginal) * self.marginal).sum(axis=0),
            forms=(L.T @ precision @ L)[i, j] * factor,
            pulls=pull,
            level=np.array([self.level * self.part.value]),
        )

    def _entries(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return entries of the Hessian, all on and below the diagonal or none, and what each counts."""
        i, j = np.tril_indices(len(self.marginal) if self.whole else 0)
        return i, j, np.where(i == j, CURVATURE, math.sqrt(2.0) * CURVATURE)


def rows_for_all(n_features: int) -> int:
    """Return how many rows can meet the whole Hessian beside the other totals."""
    return math.ceil(_n_totals(n_features) / MAX_TOTALS)


def _n_totals(n_features: int) -> int:
    return n_features * (n_features + 1) // 2 + 3 * n_features + 1
