r"""Calibrated coresets: drawn by score and curvature, then weighted so that full-data totals are met exactly.

1. theta-hat, the MAP of the full data (`pilot.full_mode`); L L' = C, the inverse Hessian there.
2. Rows are drawn, M of them and each at most once, with probability proportional to
   g^2 / sum g^2 + g / sum g + h / sum h + 0.1 w / W, where g = w s |zL| is the whitened score and h = w c |zL|^2
   the curvature leverage; rows whose probability reaches 1 are in for certain.
3. `fit_weights` changes their weights w / pi as little as it can to meet, of the full data at theta-hat: the D
   whitened scores sum w s zL; the D forms sum w c (z . C e_j)^2 / C_jj; K random forms sum w c (zL . v)^2, K = M / 3
   (at most 400 or the D (D + 1) / 2 that fix the whole Hessian, but at least D + 20); the D sums
   sum w l''' |zL|^2 zL / 2, which to second order are the distance of the posterior mean from the mode; and the
   log-likelihood itself, so that the evidence agrees too.
4. The coreset is tried out: draws of its posterior, one pass for the full data's log-likelihood there (`trial`), and
   importance weights give the errors of its means and sds. Where they are above the tolerance, rows are drawn anew,
   with equal shares for step 2 and for the sd of w log p over the draws, and their weights meet the full data's
   log-likelihood at the draws as well (the scores count ten times then, and keep the mode): rows that say nothing at
   the mode can rule the tails. The better fit is kept.

So the coreset has the mode of the full data, matching curvature and skewness, while the shape of the tails comes from
real likelihood terms. When to use it: whenever the rows can be read more than once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayescore.coresets.fixed_size import Candidates, choose, distinct, draw_candidates
from bayescore.coresets.pilot import MAX_PILOTS, SCORE_TOTAL, Sums, Whitened, full_mode, sums_at
from bayescore.coresets.trial import Trial, try_out
from bayescore.coresets.weights import fit_weights
from bayescore.data.opened import Opened
from bayescore.models.posterior import Terms, prior_part
from bayescore.models.priors import Normal, Prior
from bayescore.types import FloatArray, Likelihood, WeightedData
from bayescore.validation import warn

TOLERANCE = 0.05
MAX_FORMS = 400  # the fit costs forms^2 x rows
MAX_ROUNDS = 2  # a third one was never better
SCORE_FACTOR = 10.0  # on the scores where there are draws to meet too, which would outvote the mode
LARGEST = 4  # times the size begun with


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

    def point(self) -> dict[str, float]:
        """Return its point on the curve of predicted error against size."""
        return {"size": self.size, "mean_error": self.mean_error, "sd_error": self.sd_error}


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
        shares, totals = shares_and_totals(rows, self.sums, self.likelihood_part, rng)
        D = rows.n_features
        score_factor = SCORE_FACTOR if trials else 1.0
        if trials:
            shares[:D] *= score_factor
            totals[:D] *= score_factor
            more, wanted = trials[-1].shares_and_totals(rows)
            shares, totals = np.concatenate([shares, more]), np.concatenate([totals, wanted])
        fit = fit_weights(shares, totals)
        kept = fit.factors > 0.0
        return Fitted(
            rows.take(kept).with_weights((rows.weights * fit.factors)[kept]),
            size,
            certain,
            float(np.abs(fit.residual[:D]).max() / score_factor),
            float(np.abs(fit.residual[D : 2 * D] / 3.0).max()),
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


def shares_and_totals(
    rows: WeightedData, sums: Sums, likelihood_part: Terms, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the rows' shares in the totals of step 3, shape (q, m), and the full data's totals, shape (q,)."""
    white = sums.white
    L = white.factor
    D = len(L)
    covariance = L @ L.T
    marginal = 3.0 * covariance / np.sqrt(np.diagonal(covariance))
    n_forms = max(D + 20, min(D * (D + 1) // 2, len(rows) // 3, MAX_FORMS))
    spread = L @ rng.standard_normal((D, n_forms)) * (3.0 / math.sqrt(2.0 * n_forms)) ** 0.5
    # a form's factor multiplies (z . d)^2, hence the roots
    directions = np.concatenate([marginal / math.sqrt(3.0), spread], axis=1)
    Z = rows.Z
    eta = Z @ white.theta
    score = rows.weights * white.likelihood.score(eta)
    curvature = rows.weights * white.likelihood.curvature(eta)
    level = 100.0 / max(1.0, abs(likelihood_part.value))  # as large as the other totals, or the fit is ill-conditioned
    shares = [
        (score[:, None] * (Z @ L)).T,
        (curvature[:, None] * (Z @ directions) ** 2).T,
        white.pulls(rows),
        (level * rows.weights * white.likelihood.log_p(eta))[None],
    ]
    totals = [
        L.T @ likelihood_part.gradient,
        ((likelihood_part.precision @ directions) * directions).sum(axis=0),
        sums.pull,
        np.array([level * likelihood_part.value]),
    ]
    return np.concatenate(shares), np.concatenate(totals)


def calibrated_coreset(
    opened: Opened,
    size: int | None,
    seed: int,
    *,
    likelihood: Likelihood,
    prior: Prior | None = None,
    tolerance: float = TOLERANCE,
    advise: bool = True,
) -> tuple[WeightedData, dict[str, Any]]:
    """Build a calibrated coreset; see `build_coreset` for the options. Without `advise` nobody is warned.

    Returns
    -------
    rows : WeightedData
        The coreset; rows whose weight was fitted to zero are left out.
    params : dict
        prior; mean_error and sd_error, the errors to expect under it; residual_mean and residual_curvature, what the
        weights miss; certain, dropped, rounds; size_curve, for each size tried a dict of size, mean_error, sd_error.
    """
    weak = Normal(0.0, 4.0) if prior is None else prior
    weak.table(opened.n_features)  # shapes
    seeds = np.random.default_rng(seed).integers(2**62, size=MAX_PILOTS + 2).tolist()
    mode = full_mode(opened, likelihood, weak, seeds[:MAX_PILOTS])
    white = Whitened(likelihood, mode.beta, mode.factor)
    sums = sums_at(opened, white)
    n_rows = opened.scan.n_rows
    start = min(n_rows, max(100, 20 * len(mode.beta)) if size is None else size)
    largest = min(n_rows, LARGEST * start)
    candidates = draw_candidates(opened, sums.probability, largest, seeds[-2])
    part = mode.terms - prior_part(mode.beta, weak)
    calibration = Calibration(opened, likelihood, weak, sums, part, candidates, seeds[-1], seeds[-2], largest)
    if start == n_rows:
        curve = [replace(calibration.fit(start), mean_error=0.0, sd_error=0.0)]  # all rows, with their own weights
    elif size is None:
        curve = calibration.search(start, tolerance)
    else:
        curve = calibration.asked(start, tolerance)
    best = min(curve, key=lambda fitted: (max(fitted.error, tolerance), fitted.size)) if size is None else curve[0]
    params = {
        "prior": repr(weak),
        "mean_error": best.mean_error,
        "sd_error": best.sd_error,
        "residual_mean": best.residual_mean,
        "residual_curvature": best.residual_curvature,
        "certain": best.certain,
        "dropped": best.size - len(best.rows),
        "rounds": best.rounds,
        "size_curve": [fitted.point() for fitted in sorted(curve, key=lambda fitted: fitted.size)],
    }
    if advise and not best.error <= 2.0 * tolerance:
        enough = [fitted.size for fitted in curve if fitted.error <= tolerance]
        remedy = (
            f"size={min(enough)} would do"
            if enough
            else "size='auto' looks for one that does"
            if size is not None
            else f"no size up to {largest} comes within tolerance={tolerance:g}; see what certify says"
        )
        errors = (
            f"expect errors of up to {best.mean_error:.2g} sd in means and {100.0 * best.sd_error:.2g}% in sds"
            if best.error < 1.0
            else "their posterior does not cover that of the full data"
        )
        warn(f"no weights on these {best.size} rows meet the full data: {errors}; {remedy}")
    return best.rows, params
