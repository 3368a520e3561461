r"""Calibrations: fits of the weights of drawn rows, for several sizes, to totals of the full data (see `calibrated`).

`Calibration` holds what fits of several sizes share, and searches for a size; `totals` has what is to be met.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayescore.coresets.calibration.pilot import SCORE_TOTAL, Sums
from bayescore.coresets.calibration.totals import CURVATURE, Totals
from bayescore.coresets.calibration.trial import Trial, try_out
from bayescore.coresets.calibration.weights import fit_weights
from bayescore.coresets.draws.fixed_size import Candidates, choose, distinct
from bayescore.data.opened import Opened
from bayescore.models.posterior import Terms
from bayescore.models.priors import Prior
from bayescore.types import Likelihood, WeightedData

MAX_ROUNDS = 2  # a third one was never better
SCORE_FACTOR = 10.0  # on the scores where there are draws to meet too, which would outvote the mode


@dataclass(frozen=True, eq=False)
class Fitted:
    """Rows with fitted weights, and what is known of them.

    Parameters
    ----------
    rows : WeightedData
        Rows whose weight was not fitted to zero.
    size, certain : int
        Rows drawn, and those of them that were in for certain.
    residual_mean : float
        Largest whitened score left, in posterior sds.
    residual_curvature : float
        Largest relative error left in a marginal curvature.
    rounds : int
        Times that rows were drawn and fitted anew.
    mean_error, sd_error : float
        Largest error to expect of a mean, in posterior sds, and relative error of an sd.
    """

    rows: WeightedData
    size: int
    certain: int
    residual_mean: float
    residual_curvature: float
    rounds: int
    mean_error: float = math.inf
    sd_error: float = math.inf

    @property
    def error(self) -> float:
        """The larger of the two errors to expect."""
        return max(self.mean_error, self.sd_error)


@dataclass(frozen=True, eq=False)
class Calibration:
    """All that fits of several sizes share: one mode, one draw of candidates, one set of totals."""

    opened: Opened
    likelihood: Likelihood
    prior: Prior
    sums: Sums
    likelihood_part: Terms
    candidates: Candidates
    seed: int
    draw_seed: int
    largest: int

    def drawn(self, size: int, trials: Sequence[Trial]) -> tuple[WeightedData, int]:
        """Return `size` rows, drawn by score and curvature and by what moved the log-likelihood in `trials`."""
        if not trials:
            return choose(self.candidates, size, SCORE_TOTAL)
        known = distinct([self.candidates, *(trial.candidates for trial in trials)])
        p = self.sums.probability(known.rows) / SCORE_TOTAL
        for trial in trials:
            p += trial.probability(known.rows) / (trial.total * len(trials))
        u = known.key * known.probability
        return choose(Candidates(p, u / p, known.position, known.rows), size, 2.0)

    def fit(self, size: int, trials: Sequence[Trial] = ()) -> Fitted:
        """Fit the weights of `size` rows, to the draws of the last of `trials` too."""
        rows, certain = self.drawn(size, trials)
        rng = np.random.default_rng([self.seed, size])
        meant = Totals.at(self.sums.white, self.likelihood_part, len(rows), rng)
        shares, totals = meant.shares(rows), meant.values(self.sums.pull)
        score_factor = SCORE_FACTOR if trials else 1.0
        if trials:
            each, wanted = trials[-1].shares_and_totals(rows)
            shares = shares._replace(scores=shares.scores * score_factor, draws=each)
            totals = totals._replace(scores=totals.scores * score_factor, draws=wanted)
        fit = fit_weights(shares.stacked(), totals.stacked())
        left, kept = totals.split(fit.residual), fit.factors > 0.0
        return Fitted(
            rows.take(kept).with_weights((rows.weights * fit.factors)[kept]),
            size,
            certain,
            float(np.abs(left.scores).max() / score_factor),
            float(np.abs(left.marginals / CURVATURE).max()),
            len(trials),
        )

    def judged(self, fitted: Fitted, trial: Trial) -> Fitted:
        """Return `fitted` with the errors that `trial` predicts."""
        mean_error, sd_error = trial.errors(fitted.rows)
        return replace(fitted, mean_error=mean_error, sd_error=sd_error)

    def refine(self, size: int, tolerance: float) -> tuple[Fitted, Trial]:
        """Return the best of up to 1 + `MAX_ROUNDS` fits of `size` rows, and its trial; a pass for each."""
        best: tuple[Fitted, Trial] | None = None
        trials: list[Trial] = []
        for rounds in range(1 + MAX_ROUNDS):
            fitted = self.fit(size, trials)
            trial = try_out(
                self.opened,
                fitted.rows,
                self.likelihood,
                self.prior,
                self.sums.white.theta,
                seed=self.seed + rounds,
                draw_seed=self.draw_seed,
                size=self.largest,
            )
            trials.append(trial)
            fitted = self.judged(fitted, trial)
            if best is None or fitted.error < best[0].error:
                best = fitted, trial
            if best[0].error <= tolerance:
                break
        assert best is not None
        return best

    def search(self, start: int, tolerance: float) -> list[Fitted]:
        """Return fits of the sizes tried from `start` on, down or up, one of which should meet the tolerance.

        Smaller sizes are judged by the draws at hand, larger ones tried out themselves.
        """
        fitted, trial = self.refine(start, tolerance)
        curve = [fitted]
        if fitted.error > tolerance:
            while fitted.error > tolerance and fitted.size < self.largest:
                fitted, _ = self.refine(min(2 * fitted.size, self.largest), tolerance)
                curve.append(fitted)
        elif fitted.rounds == 0:
            smallest = max(50, 5 * self.candidates.rows.n_features)
            while fitted.error <= tolerance and (size := round(fitted.size / math.sqrt(2.0))) >= smallest:
                fitted = self.judged(self.fit(size), trial)
                curve.append(fitted)
        return curve

    def asked(self, size: int, tolerance: float) -> list[Fitted]:
        """Return the fit of the size asked for, and where that is far off, larger ones to tell which would do."""
        fitted, trial = self.refine(size, tolerance)
        curve = [fitted]
        while curve[-1].error > 2.0 * tolerance and curve[-1].size < self.largest:
            curve.append(self.judged(self.fit(min(2 * curve[-1].size, self.largest)), trial))
        return curve
