r"""The figures of a certificate: those of the full data's posterior, and how far draws are from them.

With moved draws theta' (all of them) and importance weights w of a subset, the full posterior's figures are

.. math:: m(\theta') + \big[m_w(\theta'_\text{sub}) - m(\theta'_\text{sub})\big]

for m a mean, log sd, correlation or quantile. Draws as they are and corrected draws are held to them by one function,
each in units of their own sds and with the Monte Carlo error of their own effective sample sizes, in which copies that
weights made count as what they are. All figures are of the same draws, so that most of their noise cancels: with z and
u the standardised draws and moved draws, d = sd(z - u), correlations differ by noise of at most about
sqrt((d_i^2 + d_j^2) / ESS).

A coordinate whose tail is too long for moments (`tails`) has its median and quartiles judged in their place, in units
of the interquartile range / 1.349; of logarithms of sds that reach 0 tails are judged in the same units.

The table of a certificate: own and corrected figures of each coefficient, `CertificateData.coordinates`.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import linalg

from bayescore.limits import ENDS, MAX_ERROR
from bayescore.models.laplace import Transport
from bayescore.numerics.chains import ordered_columns, quantile_errors, quantiles
from bayescore.numerics.moments import TAILS, ErrorFamily, Moments, correlation_influence, moments, moments_mcse
from bayescore.numerics.psis import WeightedColumns
from bayescore.samplers.posterior import Posterior
from bayescore.samplers.summaries import DataUnits
from bayescore.tables import Table
from bayescore.types import FloatArray, IntArray

QUARTILES = (0.25, 0.5, 0.75)


IQR = 1.349  # of a standard normal


@dataclass(frozen=True, eq=False)
class DrawFigures:
    """Draws, shape (chain, draw, D), with their moments and Monte Carlo errors, each computed once."""

    draws: FloatArray

    @property
    def flat(self) -> FloatArray:
        """The draws, chains below each other."""
        return self.draws.reshape(-1, self.draws.shape[2])

    @cached_property
    def ordered(self) -> FloatArray:
        """The draws of each coordinate in ascending order, shape (D, S)."""
        return ordered_columns(self.draws)

    @cached_property
    def moments(self) -> Moments:
        """Their moments, sds of constant coordinates 1."""
        figures = moments(self.flat, self.ordered)
        return Moments(figures.mean, _positive(figures.sd), figures.correlation, figures.tail)

    @cached_property
    def mcse(self) -> Moments:
        """Monte Carlo errors of the moments."""
        return moments_mcse(self.draws, self.ordered)

    @property
    def standard(self) -> FloatArray:
        """Draws in sds from their mean, shape (S, D)."""
        return (self.flat - self.moments.mean) / self.moments.sd


@dataclass(frozen=True, eq=False)
class FullFigures:
    """Figures of the full data's posterior, with their numerical errors given the draws.

    `moved` are all draws, `x` and `weights`, shapes (S, D) and (S,), those that were weighed. `slow`, shape (D,), is by
    what factor draws that are not independent make numerical errors larger.
    """

    moved: DrawFigures
    chosen: IntArray  # places of those that were weighed
    x: FloatArray
    weights: FloatArray
    mean: FloatArray
    sd: FloatArray
    correlation: FloatArray
    mean_mcse: FloatArray
    log_sd_mcse: FloatArray
    correlation_mcse: FloatArray
    slow: FloatArray

    @cached_property
    def _columns(self) -> WeightedColumns:
        return WeightedColumns(self.x, self.weights)

    @cached_property
    def tails(self) -> list[tuple[FloatArray, FloatArray]]:
        """The quantiles `TAILS` of each coordinate, and their numerical errors."""
        return [self.quantile(prob) for prob in TAILS]

    def quantile(self, prob: float) -> tuple[FloatArray, FloatArray]:
        """Return a quantile of each coordinate, shape (D,), and its numerical error."""
        change, mcse = self._columns.change(prob)
        return quantiles(self.moved.ordered, prob) + change, mcse * self.slow


def full_figures(moved: DrawFigures, chosen: IntArray, weights: FloatArray) -> FullFigures:
    """Return the full posterior's figures from moved draws, given the weights of the `chosen` ones, shape (S,)."""
    x, w, even = moved.flat[chosen], weights, np.full(len(weights), 1.0 / len(weights))
    change, target_moments = w - even, moved.moments
    (mean, sd), (before, width) = _mean_sd(x, w), _mean_sd(x, even)
    width = _positive(width)
    sd = sd_or_width(sd, width)
    z, plain = (x - mean) / sd, (x - before) / width
    gap = (z.T * w) @ z / _variance_divisor(w) - (plain.T * even) @ plain / _variance_divisor(even)
    slow = np.sqrt(np.maximum(len(w) * (moved.mcse.mean / target_moments.sd) ** 2, 1.0))
    return FullFigures(
        moved,
        chosen,
        x,
        w,
        target_moments.mean + mean - before,
        target_moments.sd * sd / width,
        np.clip(target_moments.correlation + gap, -1.0, 1.0),
        slow * np.sqrt(change**2 @ (z * sd) ** 2),
        slow * 0.5 * np.sqrt(change**2 @ (z**2 - 1.0) ** 2),
        np.maximum(slow[:, None], slow) * np.sqrt(correlation_influence(z, change**2)),
        slow,
    )


def error_families(
    run: DrawFigures, names: Sequence[str], heavy: IntArray, full: FullFigures, *, resampled: bool = False
) -> list[ErrorFamily]:
    """Return the errors of draws' moments and quantiles against the full posterior's, a family for each kind.

    `heavy`, shape (D,), is 1 for coordinates whose moments are not judged, and 2 where their tails are. What draws that
    were `resampled` by the weights of `full` differ by is exact.
    """
    run_moments, noise, sd = run.moments, run.mcse, run.moments.sd
    fit, rest, tailed = np.flatnonzero(heavy == 0), np.flatnonzero(heavy), np.flatnonzero(heavy == 2)
    still = np.zeros(len(heavy))  # sd of draws minus moved ones: in sds, and of standardised ones
    spread = still
    if not resampled and run is not full.moved:
        still = (run.flat - full.moved.flat).std(axis=0) / sd
        spread = (run.standard - full.moved.standard).std(axis=0)
    i, j = (fit[side] for side in np.triu_indices(len(fit), 1))
    pair = np.minimum(  # the noise of both at most
        np.hypot(spread[i], spread[j]) * np.maximum(noise.sd[i] / sd[i], noise.sd[j] / sd[j]) * math.sqrt(2.0),
        noise.correlation[i, j] + full.moved.mcse.correlation[i, j],
    )

    def known(mcse: FloatArray, paired: FloatArray) -> FloatArray:
        return np.zeros_like(mcse) if resampled else np.hypot(mcse, paired)

    of = [repr(name) for name in names]
    return [
        ErrorFamily(
            "mean",
            [f"mean of {of[d]}" for d in fit],
            ((run_moments.mean - full.mean) / sd)[fit],
            known(full.mean_mcse / sd, still * noise.mean / sd)[fit],
            (noise.mean / sd)[fit],
        ),
        ErrorFamily(
            "sd",
            [f"sd of {of[d]}" for d in fit],
            np.log(sd / full.sd)[fit],
            known(full.log_sd_mcse, math.sqrt(2.0) * spread * noise.sd / sd)[fit],
            (noise.sd / sd)[fit],
            limit=math.log1p(MAX_ERROR),
            unit="%",
        ),
        ErrorFamily(
            "correlation",
            [f"correlation of {of[a]} and {of[b]}" for a, b in zip(i, j, strict=True)],
            (run_moments.correlation - full.correlation)[i, j],
            known(full.correlation_mcse[i, j], pair),
            noise.correlation[i, j],
            unit="",
        ),
        *(
            _quantiles(kind, run, of, which, full, unit=unit, still=still, resampled=resampled)
            for kind, which, unit in (
                ("tail", fit, sd[fit]),
                ("quartile", rest, interquartile_sd(run.ordered[rest])),
                ("tail", tailed, interquartile_sd(run.ordered[tailed])),
            )
            if len(which)
        ),
    ]


def combinations(run: DrawFigures, transport: Transport) -> list[ErrorFamily]:
    r"""Return how far mean and sd of the worst linear combination of coefficients are off, by the map alone.

    With A the map's matrix, V the full posterior's covariance and b what the map adds to the draws' mean,

    .. math:: \max_a \frac{|a'b|}{\sqrt{a'Va}} = |V^{-1/2} b|, \qquad
        \max_a \Big| \log \frac{\mathrm{sd}(a'A\theta)}{\mathrm{sd}(a'\theta)} \Big| = \max_k |\log \lambda_k(A)|.

    Noise of the draws' mean in b, of expected square :math:`\sum_k (1 - 1 / \lambda_k)^2` / ESS, is taken off.
    """
    mean, stretch = run.moments.mean, transport.stretch
    b = linalg.solve_triangular(transport.root, transport(mean) - mean, lower=True)
    noise = float(np.sum((1.0 - 1.0 / stretch) ** 2) * np.max(run.mcse.mean / run.moments.sd) ** 2)
    furthest = -np.log(stretch)[np.abs(np.log(stretch)).argmax()]
    none = np.zeros(1)
    of = "of a linear combination of coefficients"
    return [
        ErrorFamily(
            "combination",
            [f"mean {of}"],
            np.array([math.sqrt(max(float(b @ b) - noise, 0.0))]),
            np.array([math.sqrt(noise)]),
            none,
        ),
        ErrorFamily("combination", [f"sd {of}"], np.array([furthest]), none, none, math.log1p(MAX_ERROR), unit="%"),
    ]


def _quantiles(
    kind: str,
    run: DrawFigures,
    of: list[str],
    which: IntArray,
    full: FullFigures,
    *,
    unit: FloatArray,
    still: FloatArray,
    resampled: bool,
) -> ErrorFamily:
    """Return quantiles of some coordinates, tails or quartiles, in units of their own."""
    ordered = run.ordered[which]
    middle, tails = quantiles(ordered, 0.5), kind == "tail"
    probs = TAILS if tails else QUARTILES
    rows, words = [], []
    for place, prob in enumerate(probs):
        quantile = run.moments.tail[place, which] if tails else quantiles(ordered, prob)
        noise = run.mcse.tail[place, which] if tails else quantile_errors(run.draws[:, :, which], prob, ordered)
        at_target, mcse = (each[which] for each in (full.tails[place] if tails else full.quantile(prob)))
        noise_left = np.zeros_like(mcse) if resampled else np.hypot(mcse, still[which] * noise)
        rows.append(np.array([quantile - middle, quantile - at_target, noise_left, noise]) / unit)
        words += [f"{100 * prob:g}% quantile of {of[d]}" for d in which]
    distance, error, noise_left, noise = np.concatenate(rows, axis=1)
    limit = MAX_ERROR * np.maximum(np.abs(distance), 1.0) if kind == "tail" else MAX_ERROR
    return ErrorFamily(kind, words, error, noise_left, noise, limit)


def interquartile_sd(ordered: FloatArray) -> FloatArray:
    """Return the sds of normal coordinates with the interquartile ranges of these, their draws in order."""
    return _positive((quantiles(ordered, QUARTILES[-1]) - quantiles(ordered, QUARTILES[0])) / IQR)


def sd_or_width(sd: FloatArray, width: FloatArray) -> FloatArray:
    """Return sds under weights, and `width`, those of the draws, where one draw has all the weight but for rounding.

    One draw says nothing about an sd: what is left, such as 1e-120, is no scale, and fourth powers in it overflow.
    """
    return np.where(sd > np.finfo(np.float64).eps * width, sd, width)


def _mean_sd(x: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean = w @ x
    return mean, np.sqrt(w @ (x - mean) ** 2 / _variance_divisor(w))


def _variance_divisor(w: FloatArray) -> float:
    """Return 1 - w.w, what an unbiased variance is divided by, above 0 where one draw has all the weight."""
    return max(1.0 - float(w @ w), float(np.finfo(float).eps))


def _positive(sd: FloatArray) -> FloatArray:
    return np.where(sd > 0.0, sd, 1.0)


_ERRORS = (
    "mean_error_sd", "mean_error_sd_mcse", "mean_mcse_sd", "sd_error", "sd_error_mcse", "sd_mcse", "tail_k",
    "corrected_mean", "corrected_sd",
)  # fmt: skip


def table(
    posterior: Posterior,
    tail_k: FloatArray,
    heavy: IntArray,
    raw: list[ErrorFamily],
    full: FullFigures,
    *,
    units: DataUnits,
) -> Table:
    """Return `CertificateData.coordinates`; NaN for the moments of a coordinate that has none."""
    mean, sd = raw[0], raw[1]

    def filled(values: FloatArray) -> FloatArray:
        column = np.full(len(heavy), np.nan)
        column[heavy == 0] = values
        return column

    shown = _in_data_units(posterior, units, heavy, full)
    errors = {
        "mean_error_sd": filled(mean.error),
        "mean_error_sd_mcse": filled(mean.error_mcse),
        "mean_mcse_sd": filled(mean.noise),
        "sd_error": filled(np.expm1(sd.error)),
        "sd_error_mcse": filled(np.exp(sd.error) * sd.error_mcse),
        "sd_mcse": filled(sd.noise),
        "tail_k": np.where(heavy > 0, tail_k, np.nan),
    }
    shown_columns = {name: shown.pop(name) for name in ("mean", "median", "sd")}
    return Table(shown_columns | errors | shown, index=_index(posterior))


def bare_table(posterior: Posterior, units: DataUnits) -> Table:
    """Return the table of draws that were held to nothing: own figures, and NaN."""
    unknown = np.full(len(posterior.features), np.nan)
    figures = _own_figures(units(posterior.flat)) | dict.fromkeys([*_ERRORS, *map(_quantile_name, ENDS)], unknown)
    return Table(figures, index=_index(posterior))


def _in_data_units(posterior: Posterior, units: DataUnits, heavy: IntArray, full: FullFigures) -> dict[str, FloatArray]:
    """Return own and corrected means, sds and quantiles in units of the data, shape (K,) each."""
    K, D = len(posterior.features), len(units.design.names)
    factor, shift, mixed = units.factor(K), units.shift(K), units.mixed(K)
    shown = {
        name: values * factor + (0.0 if name.endswith("sd") else shift)
        for name, values in _figures(posterior.flat, heavy, full).items()
    }
    if len(mixed):
        moved = DrawFigures(units(full.moved.draws)[..., mixed])
        no_mean = np.where(mixed < D, heavy[:D].max(), heavy[mixed])  # the intercept has a part of each slope
        draws = units(posterior.flat)[:, mixed]
        for name, values in _figures(draws, no_mean, full_figures(moved, full.chosen, full.weights)).items():
            shown[name][mixed] = values
    return shown


def _figures(draws: FloatArray, heavy: IntArray, full: FullFigures) -> dict[str, FloatArray]:
    """Return own figures of draws, shape (S, K), and those of the full posterior; NaN where there are no moments."""

    def fit(values: FloatArray) -> FloatArray:
        return np.where(heavy > 0, np.nan, values)

    figures = _own_figures(draws)
    corrected = {"corrected_mean": fit(full.mean), "corrected_sd": fit(full.sd)}
    corrected |= {_quantile_name(prob): full.quantile(prob)[0] for prob in ENDS}
    return {**figures, "mean": fit(figures["mean"]), **corrected}


def _own_figures(draws: FloatArray) -> dict[str, FloatArray]:
    return {"mean": draws.mean(axis=0), "median": np.median(draws, axis=0), "sd": draws.std(axis=0, ddof=1)}


def _index(posterior: Posterior) -> pd.Index:
    return pd.Index(posterior.features, name="feature")


def _quantile_name(prob: float) -> str:
    return f"corrected_{100.0 * prob:g}%"
