r"""Calibrations: fits of the weights of drawn rows, for several sizes, to totals of the full data (see `calibrated`).

`Calibration` holds what fits of several sizes share, and searches for a size; `Totals` has what is to be met.

Weights fitted to totals of the full data: where, to what, how well.

The totals that calibrated rows meet, group by group (step 3 of `calibrated`), and the rows' shares in them.

At a point theta with the scale L, LL' = C, of one posterior sd:

========= ========= =====================================================================================
group     entries   total
========= ========= =====================================================================================
scores    D         sum w s zL, in posterior sds
marginals D         sum w c (z . C e_j)^2 / C_jj: relative curvatures along the columns
forms     K         the whole whitened Hessian sum w c (zL)(zL)', K = D (D + 1) / 2, where that leaves enough rows free
                    (`rows_for_hessian`); else none: to meet some of so many costs more freedom than it gains
pulls     D         sum w l''' \|zL\|^2 zL / 2: to second order the distance of the mean from the mode
level     1         sum w log p, so that the evidence agrees too
draws     S         sum w log p at draws of a trial (`trial`)
========= ========= =====================================================================================

Calibration of weights: the smallest change of given weights that meets known totals.

With u the factors on the weights, A the rows' shares of the q totals b,

.. math:: \min_{u \ge 0}\; \tfrac{\lambda}{2} |u - 1|^2 + \tfrac12 |A u - b|^2.

In the residual r = b - A u the problem is dual, smooth and convex, u = max(0, 1 + A'r / lambda); a semismooth
Newton method with backtracking solves it in some ten steps. It takes some forty where the totals are so far apart in
size that what keeps the Hessian positive definite in floating point (1e-13 of its largest entry) halves steps.
The Hessian is A A' / lambda over the rows with u > 0: q^2 m operations at the first step, later ones for the rows that
come and go alone, and q^3 / 3 each time. Other totals of the same rows start from the last residual.

References
----------
Deville and Sarndal (1992), Calibration estimators in survey sampling, JASA 87.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bayescore.compiled import available_cores
from bayescore.coresets.pilot import PilotPass, Shares, survey
from bayescore.coresets.predicted_error import FullDataPosterior, Trial, try_out
from bayescore.data.dataset import Dataset
from bayescore.data.passes import csr_if_sparse
from bayescore.models.laplace import Expansion, LaplaceApproximation, factor_of_inverse
from bayescore.models.posterior import Derivatives, likelihood_terms, prior_part
from bayescore.numerics.moments import Errors
from bayescore.numerics.sampling import Candidates, choose, distinct
from bayescore.priors import Prior
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

MAX_TOTALS = 0.7  # of the rows, for the whole Hessian: with more, too few weights stay positive


MAX_COST = 10**10  # of a step of the fit with the whole Hessian, totals^2 x rows: 0.3 s


CURVATURE = 3.0  # how much a relative error of a curvature counts beside an error of a mean in posterior sds


LEVEL = 100.0  # size of the log-likelihood, in the units of the other totals, or the fit is ill-conditioned


class TotalsByKind(NamedTuple):
    """Totals to meet by kind, shape (entries,) each, or rows' shares in them, shape (entries, m) each."""

    scores: FloatArray
    marginals: FloatArray
    forms: FloatArray
    pulls: FloatArray
    level: FloatArray
    draws: FloatArray | None = None

    def stacked(self) -> FloatArray:
        """Return the totals of all kinds below each other."""
        return np.concatenate([group for group in self if group is not None])

    def split(self, stacked: FloatArray) -> "TotalsByKind":
        """Return stacked totals, or shares in them, by kind again."""
        ends = np.cumsum([len(group) for group in self if group is not None])
        return TotalsByKind(*np.split(stacked, ends[:-1]))


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

    def shares(self, rows: WeightedData) -> TotalsByKind:
        """Return the shares of rows."""
        laplace = self.laplace
        few = csr_if_sparse(rows.X)
        eta, W = rows.with_offset(rows.X @ laplace.theta), few @ laplace.factor
        score = rows.weights * laplace.family.score(eta, rows.y)
        curvature = rows.weights * laplace.family.curvature(eta, rows.y)
        third = laplace.row_scores_at(rows, eta, np.vecdot(W, W)).third
        W = np.ascontiguousarray(W.T)
        i, j, factor = self._entries()
        return TotalsByKind(
            scores=score * W,
            marginals=curvature * (few @ self.marginal).T ** 2,
            forms=W[i] * (curvature * W)[j] * factor[:, None],
            pulls=third * W,
            level=(self.level * rows.weights * laplace.family.log_p(eta, rows.y))[None],
        )

    def values(self, pull: FloatArray) -> TotalsByKind:
        """Return the totals of all rows, whose pulls add up to `pull`, shape (D,)."""
        L, precision = self.laplace.factor, self.part.precision
        i, j, factor = self._entries()
        return TotalsByKind(
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


def rows_for_hessian(n_features: int) -> int:
    """Return how many rows can meet the whole Hessian beside the other totals."""
    return math.ceil(_n_totals(n_features) / MAX_TOTALS)


def _n_totals(n_features: int) -> int:
    return n_features * (n_features + 1) // 2 + 3 * n_features + 1


_STRETCH = 1024  # rows of a sum of products: fixed, so that bits do not depend on the number of threads


@dataclass(frozen=True, eq=False)
class WeightFit:
    """Factors on the weights, shape (m,), the totals they miss, shape (q,), the dual point, and the Newton steps."""

    factors: FloatArray
    residual: FloatArray
    dual: FloatArray
    n_steps: int


def fit_weights(
    shares: FloatArray,
    totals: FloatArray,
    ridge: float = 1e-4,
    max_steps: int = 200,
    *,
    start: FloatArray | None = None,
    products: "ActiveGram | None" = None,
) -> WeightFit:
    """Return non-negative factors near 1, shape (m,), with ``shares @ factors`` as near `totals` as they can be.

    shares: (q, m), of each row at its given weight in each total. ridge is lambda: how much a factor's distance from 1
    counts. The residual tells what `max_steps` Newton steps left. start is the `dual` of a fit to like totals.
    `products` are those of the shares, where fits to other totals left them.
    """
    q = len(totals)

    def dual(r: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        factors = np.maximum(0.0, 1.0 + r @ shares / ridge)
        value = 0.5 * float(r @ r) - float(totals @ r) + 0.5 * ridge * float(factors @ factors)
        return value, r - totals + shares @ factors, factors

    r = np.zeros(q) if start is None else start
    products = ActiveGram(shares) if products is None else products
    value, gradient, factors = dual(r)
    goal = 1e-10 * max(1.0, float(np.abs(totals).max()))
    for step in range(max_steps):
        if np.abs(gradient).max() <= goal:
            return WeightFit(factors, totals - shares @ factors, r, step)
        hessian = products.update(factors > 0.0) / ridge
        hessian[np.diag_indices(q)] += 1.0 + 1e-13 * hessian.max()  # positive definite in spite of rounding
        factor = linalg.cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        direction = -linalg.cho_solve(factor, gradient, check_finite=False)
        slope = float(gradient @ direction)
        if -slope <= 1e-11 * max(1.0, abs(value)):  # less than 1e-5 of a residual is left, and rounding may hide it
            return WeightFit(factors, totals - shares @ factors, r, step)
        length = 1.0
        while True:
            ahead = dual(r + length * direction)
            if ahead[0] <= value + 1e-4 * length * slope + 1e-13 * abs(value):
                break
            length *= 0.5
            if length < 1e-12:
                return WeightFit(factors, totals - shares @ factors, r, step)
        r = r + length * direction
        value, gradient, factors = ahead
    return WeightFit(factors, totals - shares @ factors, r, max_steps)


class ActiveGram:
    """A A' over the active rows, updated by the rows that become active or inactive."""

    def __init__(self, shares: FloatArray) -> None:
        self._shares = shares
        self._active = np.zeros(shares.shape[1], dtype=bool)
        self._total = np.zeros((len(shares), len(shares)))

    def update(self, active: NDArray[np.bool_]) -> FloatArray:
        """Return the sum over the rows in `active`, shape (m,)."""
        come, gone = np.flatnonzero(active & ~self._active), np.flatnonzero(self._active & ~active)
        if len(come) + len(gone) < 0.5 * np.count_nonzero(active):
            self._total += self._sum(come)
            self._total -= self._sum(gone)
        else:
            self._total = self._sum(np.flatnonzero(active))
        self._active = active
        return self._total

    def _sum(self, rows: IntArray) -> FloatArray:
        def stretch(start: int) -> FloatArray:
            some = rows[start : start + _STRETCH]
            whole = some[-1] - some[0] == len(some) - 1  # then they need not be copied
            part = self._shares[:, some[0] : some[-1] + 1] if whole else self._shares[:, some]
            return np.asarray(part @ part.T)

        total = np.zeros_like(self._total)
        with ThreadPoolExecutor(available_cores()) as pool:
            for part in pool.map(stretch, range(0, len(rows), _STRETCH)):
                total += part
        return total


MAX_ROUNDS = 2  # a third one was never better


CORRELATION = 2.0 / 3.0  # how much its error counts: 0.075 at the default tolerance; `certify` allows 0.1, noise on top


UNKNOWN = Errors(math.inf, math.inf, math.inf)


RIDGE = 1e-4  # of the fit, up to 200 rows; less for more: each has a smaller share in the totals


SHIFT = 0.5  # of the error in variances: all of it would bring a fifth of the weights to zero at 200 columns


MAX_SHIFT = 0.5  # of a variance, relatively: the next order, its square, is half of it there


SCORE_FACTOR = 10.0  # on the scores where there are draws to meet too, which would outvote the mode


@dataclass(frozen=True, eq=False)
class Fitted:
    """Rows of positive fitted weight, and what is known of them.

    Largest whitened score left, in posterior sds; largest relative error of a marginal curvature; rounds of drawing
    and fitting; errors to expect.
    """

    rows: WeightedData
    size: int
    certain: int
    residual_mean: float
    residual_curvature: float
    rounds: int
    errors: Errors = UNKNOWN

    @property
    def error(self) -> float:
        """The largest of the errors to expect, that of a correlation less."""
        return max(self.errors.mean, self.errors.sd, CORRELATION * self.errors.correlation)


@dataclass(frozen=True, eq=False)
class Calibration:
    """All that fits of several sizes share: one mode, one draw of candidates, one set of totals.

    The candidates do for sizes up to `reach`; `largest` is the size that a search may come to.
    """

    dataset: Dataset
    prior: Prior
    shares: Shares
    survey: PilotPass
    seed: int
    draw_seed: int
    reach: int
    largest: int

    def with_more_candidates(self) -> "Calibration":
        """Return the same with candidates for the largest size; one pass."""
        surveyed = survey(self.dataset, self.shares, self.largest, 0, (self.draw_seed, 0), part=self.survey.part)
        return replace(self, survey=self.survey._replace(candidates=surveyed.candidates), reach=self.largest)

    @property
    def problem(self) -> FullDataPosterior:
        """The posterior of the full data."""
        laplace, sample = self.shares.laplace, self.survey.sample
        expansion = Expansion(laplace.family, laplace.theta, self.survey.part, sample.expanded(), sample.inclusion)
        return FullDataPosterior(laplace.family, self.prior, expansion)

    def drawn(self, size: int, trials: Sequence[Trial]) -> tuple[WeightedData, int]:
        """Return `size` rows, drawn by score and curvature and by what moved the log-likelihood in `trials`."""
        candidates, total = self.survey.candidates, self.survey.total
        earlier = [trial.candidates for trial in trials if trial.candidates is not None]
        if not earlier:
            return choose(candidates, size, total)
        pool = distinct([candidates, *earlier])
        p = self.shares.probability(pool.rows) / total
        for trial in trials:
            p += trial.probability(pool.rows) / (trial.total * len(trials))
        u = pool.key * pool.probability
        return choose(Candidates(p, u / p, pool.position, pool.rows), size, 2.0)

    def fit(self, size: int, trials: Sequence[Trial] = (), *, sds: bool = True) -> Fitted:
        """Fit the weights of `size` rows, to the draws of the last of `trials` too.

        To first order marginal curvatures fix marginal sds; half of what the rest of the Hessian, which is not met,
        adds to variances is put into the curvatures if `sds`.
        """
        rows, certain = self.drawn(size, trials)
        meant = Totals.at(self.shares.laplace, self.survey.part, len(rows))
        parts, totals = meant.shares(rows), meant.values(self.survey.pull)
        score_factor = SCORE_FACTOR if trials else 1.0
        if trials:
            each, wanted = trials[-1].shares_and_totals(rows)
            parts = parts._replace(scores=parts.scores * score_factor, draws=each)
            totals = totals._replace(scores=totals.scores * score_factor, draws=wanted)
        stacked = parts.stacked()
        ridge = min(RIDGE, 200.0 * RIDGE / len(rows))
        products = ActiveGram(stacked)
        fit = fit_weights(stacked, totals.stacked(), ridge, products=products)
        if sds and not meant.whole:
            shift = SHIFT * CURVATURE * self._variance_error(rows, fit.factors)
            totals = totals._replace(marginals=totals.marginals + shift)
            fit = fit_weights(stacked, totals.stacked(), ridge, start=fit.dual, products=products)
        left, kept = totals.split(fit.residual), fit.factors > 0.0
        return Fitted(
            rows.take(kept).with_weights((rows.weights * fit.factors)[kept]),
            size,
            certain,
            float(np.abs(left.scores).max() / score_factor),
            float(np.abs(left.marginals / CURVATURE).max()),
            len(trials),
        )

    def _variance_error(self, rows: WeightedData, factors: FloatArray) -> FloatArray:
        """Return how much larger the normal approximation's variances are with weights so changed, relatively, (D,).

        At most by `MAX_SHIFT`, beyond which the second order says nothing; 0 where there is no such approximation.
        """
        laplace = self.shares.laplace
        prior = prior_part(laplace.theta, self.prior)
        terms = likelihood_terms(laplace.theta, rows.with_weights(rows.weights * factors), laplace.family) + prior
        try:
            spread = factor_of_inverse(terms.precision)
        except DataError:  # of a likelihood that is not log-concave
            return np.zeros(len(laplace.theta))
        scale = factor_of_inverse((self.survey.part + prior).precision)
        error = (spread**2).sum(axis=1) / (scale**2).sum(axis=1) - 1.0
        return np.asarray(np.clip(error, -MAX_SHIFT, MAX_SHIFT))

    def with_predicted_errors(self, fitted: Fitted, trial: Trial) -> Fitted:
        """Return `fitted` with the errors that `trial` predicts."""
        return replace(fitted, errors=trial.errors(fitted.rows))

    def refine(self, size: int, tolerance: float) -> tuple[Fitted, Trial]:
        """Return the best of up to 1 + `MAX_ROUNDS` fits of `size` rows, and its trial.

        Rows are drawn anew only where the shape of the posterior is off: a mode or a Hessian that the weights could not
        meet is not mended by that. A pass for each such fit, and one where the sample of rows does not tell enough.
        """
        best: tuple[Fitted, Trial] | None = None
        trials: list[Trial] = []
        for rounds in range(1 + MAX_ROUNDS):
            fitted = self.fit(size, trials)
            trial = try_out(self.problem, fitted.rows, self.seed + rounds)
            if trials or trial.error > tolerance:
                trial = trial.over_all_rows(self.dataset, draw_seed=self.draw_seed, size=size)
            fitted = self.with_predicted_errors(fitted, trial)
            if best is None or fitted.error < best[0].error:
                best = fitted, trial
            if best[0].error <= tolerance or rounds == MAX_ROUNDS or best[1].shape_error(best[0].rows) <= tolerance:
                break
            if trial.candidates is None:
                trial = trial.over_all_rows(self.dataset, draw_seed=self.draw_seed, size=size)
            trials.append(trial)
        assert best is not None
        return best

    def search(self, start: int, tolerance: float) -> list[Fitted]:
        """Return fits of the sizes tried from `start` on, down or up; one should meet the tolerance.

        Smaller sizes are judged by the draws at hand, larger ones tried out themselves.
        """
        fitted, trial = self.refine(start, tolerance)
        curve = [fitted]
        if fitted.error > tolerance and start < self.largest:
            wide = self.with_more_candidates()
            while fitted.error > tolerance and fitted.size < self.largest:
                fitted, _ = wide.refine(min(2 * fitted.size, self.largest), tolerance)
                curve.append(fitted)
        elif fitted.rounds == 0:
            smallest = max(50, 5 * self.dataset.n_features)
            while fitted.error <= tolerance and (size := round(fitted.size / math.sqrt(2.0))) >= smallest:
                fitted = self.with_predicted_errors(self.fit(size), trial)
                curve.append(fitted)
        return curve

    def fit_asked_size(self, size: int, tolerance: float) -> list[Fitted]:
        """Return the fit of the size asked for, and where that is far off, larger ones to tell which would do."""
        fitted, trial = self.refine(size, tolerance)
        curve = [fitted]
        if fitted.error > 2.0 * tolerance and size < self.largest:
            wide = self.with_more_candidates()
            while curve[-1].error > 2.0 * tolerance and curve[-1].size < self.largest:
                curve.append(wide.with_predicted_errors(wide.fit(min(2 * curve[-1].size, self.largest)), trial))
        return curve
