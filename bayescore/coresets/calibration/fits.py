r"""Calibrations: fits of the weights of drawn rows, for several sizes, to totals of the full data (see `calibrated`).

`Calibration` holds what fits of several sizes share, and searches for a size; `totals` has what is to be met.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayescore.coresets.calibration.paired import Errors
from bayescore.coresets.calibration.pilot import Shares, Survey, survey
from bayescore.coresets.calibration.predicted_error import Problem, Trial, try_out
from bayescore.coresets.calibration.remainder import Expansion
from bayescore.coresets.calibration.totals import CURVATURE, Totals
from bayescore.coresets.calibration.weights import fit_weights
from bayescore.coresets.sampling.fixed_size import Candidates, choose, distinct
from bayescore.data.dataset import Dataset
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.posterior import likelihood_terms, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

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
    survey: Survey
    seed: int
    draw_seed: int
    reach: int
    largest: int

    def widened(self) -> "Calibration":
        """Return the same with candidates for the largest size; one pass."""
        found = survey(self.dataset, self.shares, self.largest, 0, (self.draw_seed, 0), part=self.survey.part)
        return replace(self, survey=self.survey._replace(candidates=found.candidates), reach=self.largest)

    @property
    def problem(self) -> Problem:
        """The posterior of the full data."""
        laplace, sample = self.shares.laplace, self.survey.sample
        expansion = Expansion(laplace.family, laplace.theta, self.survey.part, sample.expanded(), sample.inclusion)
        return Problem(laplace.family, self.prior, expansion)

    def drawn(self, size: int, trials: Sequence[Trial]) -> tuple[WeightedData, int]:
        """Return `size` rows, drawn by score and curvature and by what moved the log-likelihood in `trials`."""
        candidates, total = self.survey.candidates, self.survey.total
        found = [trial.candidates for trial in trials if trial.candidates is not None]
        if not found:
            return choose(candidates, size, total)
        known = distinct([candidates, *found])
        p = self.shares.probability(known.rows) / total
        for trial in trials:
            p += trial.probability(known.rows) / (trial.total * len(trials))
        u = known.key * known.probability
        return choose(Candidates(p, u / p, known.position, known.rows), size, 2.0)

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
        fit = fit_weights(stacked, totals.stacked(), ridge)
        if sds and not meant.whole:
            shift = SHIFT * CURVATURE * self._variance_error(rows, fit.factors)
            totals = totals._replace(marginals=totals.marginals + shift)
            fit = fit_weights(stacked, totals.stacked(), ridge, start=fit.dual)
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
        own = likelihood_terms(laplace.theta, rows.with_weights(rows.weights * factors), laplace.family) + prior
        try:
            spread = factor_of_inverse(own.precision)
        except DataError:  # of a likelihood that is not log-concave
            return np.zeros(len(laplace.theta))
        scale = factor_of_inverse((self.survey.part + prior).precision)
        error = (spread**2).sum(axis=1) / (scale**2).sum(axis=1) - 1.0
        return np.asarray(np.clip(error, -MAX_SHIFT, MAX_SHIFT))

    def judged(self, fitted: Fitted, trial: Trial) -> Fitted:
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
            fitted = self.judged(fitted, trial)
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
            wide = self.widened()
            while fitted.error > tolerance and fitted.size < self.largest:
                fitted, _ = wide.refine(min(2 * fitted.size, self.largest), tolerance)
                curve.append(fitted)
        elif fitted.rounds == 0:
            smallest = max(50, 5 * self.dataset.n_features)
            while fitted.error <= tolerance and (size := round(fitted.size / math.sqrt(2.0))) >= smallest:
                fitted = self.judged(self.fit(size), trial)
                curve.append(fitted)
        return curve

    def asked(self, size: int, tolerance: float) -> list[Fitted]:
        """Return the fit of the size asked for, and where that is far off, larger ones to tell which would do."""
        fitted, trial = self.refine(size, tolerance)
        curve = [fitted]
        if fitted.error > 2.0 * tolerance and size < self.largest:
            wide = self.widened()
            while curve[-1].error > 2.0 * tolerance and curve[-1].size < self.largest:
                curve.append(wide.judged(wide.fit(min(2 * curve[-1].size, self.largest)), trial))
        return curve
