"""What one pass over all rows finds, and the pseudo-rows beside any number of kept rows that follow from it.

The pass adds up averaged scores and curvatures (`averages`) of all rows, so that those of the bulk, all rows but the
kept ones, are known for any choice of these. Kept are the rows of the largest reach (`calibration.remainder`), whose
terms have most shape: rows drawn by reach, or as `calibrated` draws them, leave more for the others to make up. Third
and fourth derivatives along the bulk's directions come from the pass's sample of the other rows by reach, which is all
of them where there are few.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import linalg

from bayescore.coresets.calibration.pilot import LaplaceApproximation, Shares
from bayescore.coresets.calibration.predicted_error import Problem
from bayescore.coresets.calibration.remainder import Expansion
from bayescore.coresets.condensing.averages import GaussianDensity
from bayescore.coresets.condensing.directions import diagonalising, root_of
from bayescore.coresets.condensing.pseudo_rows import Wanted, as_rows, solve
from bayescore.coresets.sampling.fixed_size import Bar, Candidates, Pool, candidates, select
from bayescore.coresets.ties import rounded
from bayescore.data.dataset import Dataset
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.posterior import Derivatives, likelihood_terms, no_terms, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import DataError

SHORT = 1e-6  # sds of a step of `converged`
WHOLE: tuple[float, ...] = (1.0,)  # shares of a step of `converged` that are tried
SHORTER = (*WHOLE, 0.5, 0.1)  # beside a wall
MAX_STEPS = 50  # whole ones
NEAR = 2.0  # sds of its predictor within which a row may come to where its terms have most shape
MOVED = 0.05  # sds, or relatively of an sd, by which a density has moved so that averages over it are worth a pass


@dataclass(frozen=True, eq=False)
class Condensation:
    """Rows to condense at a density, the averaged totals of all rows, and the rows of large reach.

    `part` are the terms of the log-likelihood of all rows at the mode, which is not averaged.
    `far` has these, there or nearby, and a sample of `n_sample` others by reach; `reach` is the sum of p over all rows.
    """

    density: GaussianDensity
    part: Derivatives
    totals: Derivatives
    far: Candidates
    reach: float
    n_sample: int
    shares: Shares

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        shares: Shares,
        n_sample: int,
        most: int,
        seed: int,
        *,
        part: Derivatives | None = None,
    ) -> "Condensation":
        """Look at all rows and keep up to `most`; one pass, which sums `part` where it is not known."""
        known = part is not None
        density, size = GaussianDensity(shares.laplace), n_sample + most
        pool, bar = Pool(size), Bar()

        def one(start: int, block: WeightedData) -> tuple[Derivatives | None, Derivatives, float, Candidates]:
            eta, squares = density.at.predictors(block)
            p = _probability(shares, block, eta, squares)
            terms = density.terms(block, density.averages(block, eta, squares))
            own = None if known else likelihood_terms(density.at.theta, block, density.at.family)
            return own, terms, float(p.sum()), candidates(p, start, block, size, seed, bar=bar)

        totals, reach = no_terms(dataset.n_features), 0.0
        plain = totals if part is None else part
        for own, terms, share, found in dataset.map(one, "averaging", canonical=True):
            plain = plain if own is None else plain + own
            totals, reach, bar = totals + terms, reach + share, pool.add(found)
        return cls(density, plain, totals, pool.best(), reach, n_sample, shares)

    def moved(self, dataset: Dataset, density: GaussianDensity) -> "Condensation":
        """Return the same averaged over another density; one pass."""
        parts = dataset.map(lambda _, block: density.terms(block), "averaging", canonical=True)
        return replace(self, density=density, totals=sum(parts, no_terms(dataset.n_features)))

    def expansion(self) -> Expansion:
        """Return the log-likelihood of all rows about the mode."""
        at, sample = self.shares.laplace, select(self.far, self.n_sample, self.reach)
        return Expansion(at.family, at.theta, self.part, sample.expanded(), sample.inclusion)

    def split(self, n_kept: int) -> tuple[WeightedData, WeightedData]:
        """Return the rows of the largest reach, and a sample that stands for the others."""
        far, shares = self.far, self.shares
        reach = rounded(shares.far(shares.laplace.row_scores(far.rows), far.rows.weights))
        order = np.lexsort((far.position, -reach))
        kept, rest = np.sort(order[:n_kept]), np.sort(order[n_kept:])
        others = Candidates(far.probability[rest], far.key[rest], far.position[rest], far.rows.take(rest))
        left = self.reach - float(far.probability[kept].sum())
        return far.rows.take(kept), select(others, self.n_sample, left).expanded()

    def rows(self, n_kept: int) -> WeightedData:
        """Return pseudo-rows, and `n_kept` rows beside them."""
        kept, others = self.split(n_kept)
        at, density = self.density.at, self.density
        bulk = self.totals - density.terms(kept)
        derivatives = density.derivatives(others)
        along = diagonalising(root_of(bulk.precision, at.factor), others, derivatives[2])
        p = others.X @ along.dual
        squares = p * p
        wanted = Wanted(
            along.dual.T @ bulk.gradient,
            derivatives[2] @ (squares * p),
            derivatives[3] @ (squares * squares),
            ((at.factor.T @ along.root) ** 2).sum(axis=0),
        )
        pseudo = as_rows(along.root, at.theta, solve(wanted, at.family))
        return stack([pseudo, kept]) if len(kept) else pseudo


def _probability(shares: Shares, block: WeightedData, eta: FloatArray, squares: FloatArray) -> FloatArray:
    """Return what rows are sampled by, shape (n,): their reach at the mode, and where they come nearest to a wall.

    Rows far on the right side have hardly any reach at the mode, and all of it some sds off: a sample by that at the
    mode alone has too few of them, and its standard error does not know.
    """
    laplace = shares.laplace
    own = block.y * eta
    near = np.multiply(block.y, np.minimum(own, np.maximum(0.0, own - NEAR * np.sqrt(squares))))
    here, there = (laplace.row_scores_at(block, at, squares) for at in (eta, near))
    return shares.far(here._replace(reach=here.reach + there.reach), block.weights)


@dataclass(frozen=True, eq=False)
class Unmoved(Problem):
    """A posterior of the full data whose draws, about the density `near`, are the coreset's as well, and stay.

    Pseudo-rows meet averages over the posterior: means and covariances agree already, the modes need not, and draws
    moved from one to the other would be off by that.
    """

    near: LaplaceApproximation

    far_reaching: ClassVar[bool] = True  # pseudo-rows know nothing of walls far out, where their bulk had none

    def at_mode(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and precision of that density."""
        inverse = linalg.solve_triangular(self.near.factor, np.eye(len(self.near.theta)), lower=True)
        return self.near.theta, inverse.T @ inverse

    def at_own_mode(self, rows: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return the same."""
        return self.at_mode()


def converged(
    rows: WeightedData, start: LaplaceApproximation, prior: Prior, shares: tuple[float, ...] = WHOLE
) -> LaplaceApproximation | None:
    """Return the normal density at which the averaged terms of the posterior of `rows` are its own mean and precision.

    It is the normal density nearest the posterior; None where the iteration from `start` does not come to it, by steps
    of any of the given shares of a whole one. Whole steps go back and forth where the posterior has a long tail.
    """
    found = (_settled(rows, start, prior, share) for share in shares)
    return next((at for at in found if at is not None), None)


def _settled(
    rows: WeightedData, start: LaplaceApproximation, prior: Prior, share: float
) -> LaplaceApproximation | None:
    at, precision = start, None
    for _ in range(round(MAX_STEPS / share)):
        terms = GaussianDensity(at).terms(rows) + prior_part(at.theta, prior)
        precision = terms.precision if precision is None else (1.0 - share) * precision + share * terms.precision
        try:
            factor = factor_of_inverse(precision)
        except DataError:
            return None
        step = share * (factor @ (factor.T @ terms.gradient))
        at = LaplaceApproximation(at.family, at.theta + step, factor)
        if np.linalg.norm(factor.T @ terms.gradient) < SHORT:
            return at
    return None


def gap(one: LaplaceApproximation, other: LaplaceApproximation) -> float:
    """Return the largest difference of a mean, in sds of `other`, or of an sd, relatively."""
    sd, before = (np.sqrt((at.factor**2).sum(axis=1)) for at in (other, one))
    return float(max(np.abs((one.theta - other.theta) / sd).max(), np.abs(before / sd - 1.0).max()))
