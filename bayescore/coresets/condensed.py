"""Condensed coresets: binomial pseudo-rows with offsets, one for each column, that meet the whole Hessian.

1. theta-hat, the MAP of the full data (`pilot.full_mode`); L L' = C, the inverse Hessian there.
2. The pass there sums the score and the whole curvature of all rows, averaged over N(theta-hat, C)
   (`Condensation`), and finds the rows of the largest reach, w (|l'''| |zL|^3 / 6 + c |zL|^4 / 24).
3. Rows of the largest reach are kept, none at first. All others become one pseudo-row for each direction of a root of
   their curvature (`pseudo_rows.Directions`): a binomial with real numbers of successes and failures and an offset,
   that meets the averages, the third derivative and where possible the fourth (`pseudo_rows`).
4. Errors are predicted as those of calibrated coresets are. Where they are too large, terms are averaged anew over the
   normal density nearest the coreset's posterior, and up to 5 D rows are kept (`SizeSearch`).

When to use it: tens of columns and more, where rows do not repeat. On separated rows `calibrated` needs fewer. Sources
and limits of pseudo-rows: docs/explanation/pseudo_rows.md.

Which rows to keep beside pseudo-rows: sizes are tried in turn, up to one whose error to expect is small enough.

A size costs draws of its posterior, and a pass over all rows where a sample of them does not tell. Both are spared
where they would tell what is known: a posterior that is far off by the sample already needs no pass, and where that is
so without kept rows, only the largest size is tried beside it.

What one pass over all rows finds, and the pseudo-rows beside any number of kept rows that follow from it.

The pass adds up averaged scores and curvatures (`averages`) of all rows, so that those of the bulk, all rows but the
kept ones, are known for any choice of these. Kept are the rows of the largest reach (`laplace.RowScores`), whose
terms have most shape: rows drawn by reach, or as `calibrated` draws them, leave more for the others to make up. Third
and fourth derivatives along the bulk's directions come from the pass's sample of the other rows by reach, which is all
of them where there are few.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import linalg

from bayescore.compiled import one_blas_thread
from bayescore.coresets.calibrated import (
    TOLERANCE,
    PredictedInfo,
    PredictingMethod,
    check_tolerance,
    size_curve,
    smallest_within,
)
from bayescore.coresets.drift import mode_of, remainder_loss, score_error_of_pseudo_rows
from bayescore.coresets.method import BuildResult, ReduceRequest, ReduceResult, ScoreError
from bayescore.coresets.pilot import MAX_PILOTS, Shares, full_mode
from bayescore.coresets.predicted_error import FullDataPosterior, try_out
from bayescore.coresets.pseudo_rows import (
    GaussianDensity,
    TargetDerivatives,
    as_rows,
    diagonalising,
    root_of,
    rounded,
    solve,
)
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families import Family
from bayescore.models.laplace import Expansion, LaplaceApproximation, factor_of_inverse, sample_rows
from bayescore.models.posterior import Derivatives, likelihood_terms, no_terms, prior_part
from bayescore.numerics.moments import Errors
from bayescore.numerics.sampling import CandidatePool, Candidates, Chosen, Threshold, candidates, select
from bayescore.priors import Prior
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import DataError

SHORT = 1e-6  # sds of a step of `nearest_normal`


WHOLE: tuple[float, ...] = (1.0,)  # shares of a step of `nearest_normal` that are tried


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
        cls, dataset: Dataset, shares: Shares, n_sample: int, most: int, seed: int, *, part: Derivatives | None = None
    ) -> "Condensation":
        """Look at all rows and keep up to `most`; one pass, which sums `part` where it is not known."""
        has_part = part is not None
        density, size = GaussianDensity(shares.laplace), n_sample + most
        pool, bar = CandidatePool(size), Threshold()

        def one(start: int, block: WeightedData) -> tuple[Derivatives | None, Derivatives, float, Candidates]:
            eta, squares = density.at.predictors(block)
            p = _probability(shares, block, eta, squares)
            terms = density.terms(block, density.averages(block, eta, squares))
            terms_of_block = None if has_part else likelihood_terms(density.at.theta, block, density.at.family)
            return terms_of_block, terms, float(p.sum()), candidates(p, start, block, size, seed, bar=bar)

        totals, reach = no_terms(dataset.n_features), 0.0
        plain = totals if part is None else part
        for of_block, terms, share, more in dataset.map(one, "averaging", canonical=True):
            plain = plain if of_block is None else plain + of_block
            totals, reach, bar = totals + terms, reach + share, pool.add(more)
        return cls(density, plain, totals, pool.best(), reach, n_sample, shares)

    @property
    def curvature_ratio(self) -> float:
        """The largest ratio of the averaged curvature to that of the posterior at the mode; infinite if not finite."""
        factor = self.density.at.factor
        averaged = factor.T @ self.totals.precision @ factor
        return float(linalg.eigvalsh(averaged)[-1]) if np.isfinite(averaged).all() else math.inf

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
        wanted = TargetDerivatives(
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
    margin = block.y * eta
    near = np.multiply(block.y, np.minimum(margin, np.maximum(0.0, margin - NEAR * np.sqrt(squares))))
    scores_at, scores_near = (laplace.row_scores_at(block, at, squares) for at in (eta, near))
    return shares.far(scores_at._replace(reach=scores_at.reach + scores_near.reach), block.weights)


@dataclass(frozen=True, eq=False)
class SharedDrawsPosterior(FullDataPosterior):
    """A posterior of the full data that shares its draws, about the density `near`, with the coreset, unmoved.

    Pseudo-rows meet averages over the posterior: means and covariances agree already, the modes need not, and draws
    moved from one to the other would be off by that.
    """

    near: LaplaceApproximation

    far_reaching: ClassVar[bool] = True  # pseudo-rows know nothing of walls far out, where their bulk had none

    def at_mode(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and precision of that density."""
        inverse = linalg.solve_triangular(self.near.factor, np.eye(len(self.near.theta)), lower=True)
        return self.near.theta, inverse.T @ inverse

    def mode_and_precision_of(self, rows: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return the same."""
        return self.at_mode()


def nearest_normal(
    rows: WeightedData, start: LaplaceApproximation, prior: Prior, shares: tuple[float, ...] = WHOLE
) -> LaplaceApproximation | None:
    """Return the normal density at which the averaged terms of the posterior of `rows` are its own mean and precision.

    It is the normal density nearest the posterior; None where the iteration from `start` does not come to it, by steps
    of any of the given shares of a whole one. Whole steps go back and forth where the posterior has a long tail.
    """
    tries = (_iterate_to_normal(rows, start, prior, share) for share in shares)
    return next((at for at in tries if at is not None), None)


def _iterate_to_normal(
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


def largest_difference(one: LaplaceApproximation, other: LaplaceApproximation) -> float:
    """Return the largest difference of a mean, in sds of `other`, or of an sd, relatively."""
    sd, before = (np.sqrt((at.factor**2).sum(axis=1)) for at in (other, one))
    return float(max(np.abs((one.theta - other.theta) / sd).max(), np.abs(before / sd - 1.0).max()))


STEEPER = 20.0
"""Averaged curvature over that of the posterior at the mode, in some direction, above which averages of exp(eta) are of
a tail that the posterior does not have: a predictor with an sd of 2.4 over the density has exp(2.4^2 / 2) = 18."""


class TooFarFromNormalError(RuntimeError):
    """Pseudo-rows would have averages over a normal density that is far from the posterior."""


MAX_MOVES = 4  # passes that average anew


FAR = 0.4  # sds between mode and mean, or of sds relatively, beyond which a sample of rows may miss what matters


LOST = 1.0  # sds: an error beyond which draws of the coreset do not cover the posterior


SHAPE = 5.0 / 3.0  # how much errors of sds and correlations count beside those of means: 3% and 0.03 where that is 0.05


class CondensedRows(NamedTuple):
    """Rows of a size, the errors to expect, and the normal density nearest their posterior if it was found."""

    rows: WeightedData
    size: int
    errors: Errors
    near: LaplaceApproximation | None = None

    @property
    def error(self) -> float:
        """The largest error, as it is compared with a tolerance."""
        return largest_error(self.errors)


def largest_error(errors: Errors) -> float:
    """Return the largest of three errors, as it is compared with a tolerance of means."""
    return max(errors.mean, SHAPE * errors.sd, SHAPE * errors.correlation)


@dataclass(frozen=True, eq=False)
class SizeSearch:
    """A search for the smallest size within a tolerance: what its trials share."""

    dataset: Dataset
    prior: Prior
    tolerance: float
    seed: int
    shares: tuple[float, ...] = WHOLE  # of steps to the density of rows

    def run(self, condensation: Condensation, kept: list[int]) -> tuple[list[CondensedRows], int]:
        """Return the best of each size that was tried, up to one within the tolerance, and the number of moves.

        A move averages all rows' terms anew. Sizes are tried again where that gave nothing within the tolerance and
        a density was not found by whole steps.
        """
        tried, moves = self._run(condensation, kept)
        if min(one.error for one in tried) > self.tolerance and any(one.near is None for one in tried):
            more, again = replace(self, shares=SHORTER)._run(condensation, kept)
            moves += again
            sizes = sorted({one.size for one in tried + more})
            tried = [
                min((one for one in tried + more if one.size == size), key=lambda one: one.error) for size in sizes
            ]
        return tried, moves

    def _run(self, condensation: Condensation, kept: list[int]) -> tuple[list[CondensedRows], int]:
        expansion, moves, tried = condensation.expansion(), 0, list[CondensedRows]()
        for n_kept in kept:
            if tried and tried[0].error > LOST and n_kept < kept[-1]:
                continue
            tries = [self._try_size(condensation, n_kept, expansion)]
            for _ in range(MAX_MOVES if n_kept == kept[-1] else 1):
                near = tries[-1].near
                if tries[-1].error <= self.tolerance or moves == MAX_MOVES or near is None:
                    break
                if largest_difference(condensation.density.at, near) <= MOVED:
                    break
                condensation, moves = condensation.moved(self.dataset, GaussianDensity(near)), moves + 1
                tries.append(self._try_size(condensation, n_kept, expansion))
            tried.append(min(tries, key=lambda one: one.error))
            if tried[-1].error <= self.tolerance:
                break
            if self.shares == SHORTER and len(tried) > 1 and tried[-1].near is None and tried[0].error <= LOST:
                break  # the rows kept have led away, and more would
        return tried, moves

    def _try_size(self, around: Condensation, n_kept: int, expansion: Expansion) -> CondensedRows:
        rows = around.rows(n_kept)
        near = nearest_normal(rows, around.density.at, self.prior, self.shares)
        trial = try_out(
            SharedDrawsPosterior(expansion.family, self.prior, expansion, near or around.density.at), rows, self.seed
        )
        errors = trial.errors(rows)
        doubtful = (
            near is None or _far_from_normal(trial.full.draws, around.shares.laplace) or trial.error > self.tolerance
        )
        if doubtful and largest_error(errors) <= LOST + 3.0 * trial.error:
            errors = trial.over_all_rows(self.dataset, draw_seed=self.seed, size=1).errors(rows)
        return CondensedRows(rows, n_kept + 2 * self.dataset.n_features, errors, near)


def _far_from_normal(draws: FloatArray, at: LaplaceApproximation) -> bool:
    """Return whether draws, shape (S, D), have another mean than the mode, or other sds than the Hessian there gives.

    Draws tell, not `nearest_normal`: a normal density may settle beside the mode of a posterior that has a long tail.
    """
    sd = np.sqrt((at.factor**2).sum(axis=1))
    moved, wider = np.abs(draws.mean(axis=0) - at.theta) / sd, np.abs(draws.std(axis=0) / sd - 1.0)
    return bool(max(moved.max(), wider.max()) > FAR)


KEPT = (0, 1, 3, 5)  # times D rows to keep, tried in turn: where that is not enough, calibrated coresets do with less


@dataclass(frozen=True)
class CondensedInfo(PredictedInfo):
    """Errors to expect; pseudo-rows, and rows kept; passes that averaged anew; sizes tried."""

    pseudo_rows: int
    kept: int
    moves: int
    size_curve: list[dict[str, float]]


@dataclass(frozen=True)
class Condensed(PredictingMethod):
    """Condenses rows into binomial pseudo-rows, one for each column, with the whole Hessian: the fewest rows.

    Parameters
    ----------
    prior : prior, default that of `fit`
        Prior under which the mode is sought; only the likelihood is condensed, so that the coreset serves other priors
        of like strength too.
    tolerance : float, default 0.05
        Error to aim at with ``size="auto"``, of means in posterior sds; of sds, relatively, and of correlations 0.6
        times that.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range.
    RuntimeError
        By a build of Poisson counts, if few rows have a 1 in some column, and none of them an event.

    Notes
    -----
    A pseudo-row counts as two rows, its successes and its failures, so that `size` is at least 2 D; what is above that
    are rows kept as they are. With ``size="auto"`` 2 D to 7 D rows are tried, and the first taken whose predicted error
    is within `tolerance`; a warning says if no size is. Pseudo-rows have ``index`` -1 and an offset.

    Means, sds and correlations of the posterior are matched, not its mode: `find_map` of the coreset has an error of
    about the distance of mean and mode of the posterior.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method=bc.methods.Condensed(), random_state=1, progressbar=False)
    >>> core.method, core.index.min()
    ('condensed', np.int64(-1))
    """

    name: ClassVar[str] = "condensed"

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[CondensedInfo]:
        """Condense the rows; caution where the errors to expect are above the tolerance."""
        if dataset.design.groups:
            raise DataError(
                "method='condensed' knows nothing of groups, and its pseudo-rows stand for rows of all: use "
                "method='multilevel' for (1 | g), or 'aggregate' where all columns are discrete"
            )
        D, n_rows = dataset.n_features, dataset.scan.n_rows
        if size is not None and size < n_rows:
            self.check_size(size, D)
        tolerance = check_tolerance(self.tolerance)
        with one_blas_thread():
            tried, moves = self._try_sizes(dataset, size, seed, family, tolerance=tolerance)
        best = smallest_within(tried, tolerance)
        pseudo = best.rows.pseudo
        info = CondensedInfo(
            repr(self.mode_prior()),
            *best.errors,
            pseudo_rows=len(np.unique(best.rows.X[pseudo], axis=0)),
            kept=int((~pseudo).sum()),
            moves=moves,
            size_curve=size_curve(tried),
        )
        return BuildResult(best.rows, info, self, None if best.error <= tolerance else _caution(info, tolerance))

    def check_size(self, size: int, n_features: int) -> None:
        """Raise `ValueError` if there are less than two rows for each column."""
        if size < 2 * n_features:
            raise ValueError(
                f"size={size} is less than two rows, successes and failures, for each of {n_features} columns; give at "
                f"least {2 * n_features}, or method='calibrated'"
            )

    def _try_sizes(
        self, dataset: Dataset, size: int | None, seed: int, family: Family, *, tolerance: float
    ) -> tuple[list[CondensedRows], int]:
        """Return what was tried, and how often terms were averaged anew."""
        prior, D, n_rows = self.mode_prior(), dataset.n_features, dataset.scan.n_rows
        prior.parts(D)  # shapes
        if n_rows <= (2 * D if size is None else size):
            return [CondensedRows(dataset.load(), n_rows, Errors(0.0, 0.0, 0.0))], 0  # all rows
        seeds = np.random.default_rng(seed).integers(2**62, size=MAX_PILOTS + 2).tolist()
        kept = [times * D for times in KEPT if (2 + times) * D < n_rows] if size is None else [size - 2 * D]

        def look(shares: Shares) -> Condensation:
            return Condensation.of(dataset, shares, sample_rows(shares.reach, tolerance, D), kept[-1], seeds[-1])

        _, look_at_mode = full_mode(dataset, family, prior, seeds[:MAX_PILOTS], look)
        if family.linear and (ratio := look_at_mode.curvature_ratio) > STEEPER:
            raise TooFarFromNormalError(
                "the posterior is too far from normal to be condensed: averaged over its normal approximation, rows "
                f"bend it {ratio:.2g} times as much as at the mode (limit {STEEPER:g}), as where few rows have a 1 "
                "in some column, and none of them an event; method='calibrated' keeps real rows"
            )
        return SizeSearch(dataset, prior, tolerance, seeds[-2]).run(look_at_mode, kept)

    def reduce(self, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
        """Return pseudo-rows, and rows kept beside them, that meet averaged totals of `rows` about the anchor.

        Averages are over the posterior of all rows seen so far, because later data may move the mode that far.
        """
        dataset, family, prior = Dataset(as_source(rows)), request.family, self.mode_prior()
        theta = mode_of(rows, family, prior).beta if request.anchor is None else request.anchor
        part = likelihood_terms(theta, rows, family)
        factor = factor_of_inverse((part + prior_part(theta, prior)).precision)
        at = LaplaceApproximation(family, theta, math.sqrt(request.share) * factor)
        shares = Shares.estimated(at, Chosen(rows, np.ones(len(rows)), len(rows)), dataset.scan.weight_total)
        n_kept, n_sample = request.size - 2 * rows.n_features, sample_rows(shares.reach, TOLERANCE, rows.n_features)
        condensed = Condensation.of(dataset, shares, n_sample, n_kept, request.seed, part=part).rows(n_kept)
        lost, missed = remainder_loss(condensed, rows, at.theta, at.factor, family)
        return ReduceResult(condensed, missed, anchor=theta, lost=lost)

    def score_error(self, rows: WeightedData, family: Family, lost: FloatArray | None) -> ScoreError:
        """Return as large a share of the rows' own remainder as they were seen to miss (`drift`)."""
        return score_error_of_pseudo_rows(rows, family, self.mode_prior(), lost)


def _caution(info: CondensedInfo, tolerance: float) -> str:
    """Return a warning that the error to expect is more than the tolerance."""
    errors = (
        f"expect errors of up to {info.mean_error:.2g} sd in means, {100.0 * info.sd_error:.2g}% in sds and "
        f"{info.correlation_error:.2g} in correlations"
        if info.mean_error < 1.0
        else "their posterior does not cover that of the full data"
    )
    return (
        f"{info.pseudo_rows} pseudo-rows and {info.kept} rows beside them do not come within "
        f"tolerance={tolerance:g}: {errors}; the posterior is too far from normal to be condensed so far: "
        "method='calibrated' keeps real rows"
    )
