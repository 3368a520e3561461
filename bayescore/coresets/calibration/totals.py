r"""The totals that calibrated rows meet, group by group (step 3 of `calibrated`), and the rows' shares in them.

At a point theta with the scale L, LL' = C, of one posterior sd:

========= ========= =====================================================================================
group     entries   total
========= ========= =====================================================================================
scores    D         sum w s zL, in posterior sds
marginals D         sum w c (z . C e_j)^2 / C_jj: relative curvatures along the columns
forms     K         sum w c (zL . v)^2 for random v: K = M / 3, at most 400 or the D (D + 1) / 2 that fix the
                    whole Hessian, but at least D + 20
pulls     D         sum w l''' \|zL\|^2 zL / 2: to second order the distance of the mean from the mode
level     1         sum w log p, so that the evidence agrees too
draws     S         sum w log p at draws of a trial (`trial`)
========= ========= =====================================================================================
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from bayescore.coresets.calibration.pilot import PosteriorScale
from bayescore.models.posterior import Terms
from bayescore.types import FloatArray, WeightedData

MAX_FORMS = 400  # the fit costs forms^2 x rows
MORE_FORMS = 20  # than columns, at least
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
    """Totals at a point: the point and its scale, the log-likelihood's terms there, and the forms' directions.

    `directions`, shape (D, D + K), has those of the marginal curvatures first.
    """

    white: PosteriorScale
    part: Terms
    directions: FloatArray

    @classmethod
    def at(cls, white: PosteriorScale, part: Terms, n_rows: int, rng: np.random.Generator) -> Self:
        """Return the totals that `n_rows` rows are to meet at a point, with random forms."""
        L = white.factor
        D = len(L)
        covariance = L @ L.T
        marginal = CURVATURE * covariance / np.sqrt(np.diagonal(covariance))
        n_forms = max(D + MORE_FORMS, min(D * (D + 1) // 2, n_rows // 3, MAX_FORMS))
        spread = L @ rng.standard_normal((D, n_forms)) * (CURVATURE / math.sqrt(2.0 * n_forms)) ** 0.5
        # a form's factor multiplies (z . d)^2, hence the roots
        return cls(white, part, np.concatenate([marginal / math.sqrt(CURVATURE), spread], axis=1))

    @property
    def level(self) -> float:
        """Factor on the log-likelihood."""
        return LEVEL / max(1.0, abs(self.part.value))

    def shares(self, rows: WeightedData) -> Groups:
        """Return the shares of rows."""
        white, D = self.white, len(self.directions)
        Z = rows.Z
        eta = Z @ white.theta
        score = rows.weights * white.likelihood.score(eta)
        curvature = rows.weights * white.likelihood.curvature(eta)
        forms = (curvature[:, None] * (Z @ self.directions) ** 2).T
        return Groups(
            scores=(score[:, None] * (Z @ white.factor)).T,
            marginals=forms[:D],
            forms=forms[D:],
            pulls=white.pulls(rows),
            level=(self.level * rows.weights * white.likelihood.log_p(eta))[None],
        )

    def values(self, pull: FloatArray) -> Groups:
        """Return the totals of all rows, whose pulls add up to `pull`, shape (D,)."""
        D = len(self.directions)
        forms = ((self.part.precision @ self.directions) * self.directions).sum(axis=0)
        return Groups(
            scores=self.white.factor.T @ self.part.gradient,
            marginals=forms[:D],
            forms=forms[D:],
            pulls=pull,
            level=np.array([self.level * self.part.value]),
        )
