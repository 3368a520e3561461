r"""The figures of a certificate: own and corrected moments, what they differ by, and how far each can be believed.

With moved draws theta' (all of them) and importance weights w of a subset,

.. math:: \text{corrected} = m(\theta') + \big[m_w(\theta'_\text{sub}) - m(\theta'_\text{sub})\big], \qquad
          \text{error of the coreset} = m(\theta) - \text{corrected}

for m a mean, sd, correlation or quantile: all are of the same draws, so that their noise cancels. To the error's own
numerical error comes the Monte Carlo error of the draws, from their effective sample size: together the standard
error s with which a figure x of the draws is known to be off by e. The *risk* is the bound

.. math:: \sum_x P(|e_x + s_x Z| > 0.25), \qquad Z \sim N(0, 1)

(sds in a mean, relative in an sd, a correlation's own unit) of the chance that any of them is off by more.

A coordinate whose draws have a Pareto tail of k-hat above 0.5 on either side has no sd that draws could tell, above 1
no mean: median and quartiles are judged in their place, in units of the interquartile range / 1.349.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718; Vehtari, Simpson, Gelman, Yao and
Gabry (2024), JMLR 25 (k-hat of a variable's own tail).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from bayescore.diagnostics.correction import Weighted
from bayescore.diagnostics.draws import mcse_quantile
from bayescore.diagnostics.errors import TAILS, Moments, moments, moments_mcse
from bayescore.diagnostics.tails import quantile_change, tail_k
from bayescore.diagnostics.wording import number
from bayescore.limits import CERTIFIED, CLOSE, MAX_TAIL_K, SETTLED
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray, IntArray

QUARTILES = (0.25, 0.5, 0.75)
SHOWN = (0.03, 0.97)  # ends of the intervals that reports show
_IQR = 1.349  # of a standard normal


@dataclass(frozen=True, eq=False)
class Family:
    """Figures of one kind, flat, in units of the draws' own sds.

    Parameters
    ----------
    kind : str
        "mean", "sd", "correlation", "tail" or "quartile".
    names : sequence of str
        What each is of.
    own, moved : arrays
        The figure of the draws, and of the moved ones; sds as logarithms.
    change, change_mcse : arrays
        What the weights add to that of the moved draws, and its numerical error.
    steady : array
        Numerical error of own - moved.
    noise : array
        Monte Carlo error of the draws' own figure.
    limit : array or float
        Size from which an error is too large.
    unit : str
        " sd", "%" or "".
    """

    kind: str
    names: Sequence[str]
    own: FloatArray
    moved: FloatArray
    change: FloatArray
    change_mcse: FloatArray
    steady: FloatArray
    noise: FloatArray
    limit: FloatArray | float = CERTIFIED
    unit: str = " sd"

    @property
    def error(self) -> FloatArray:
        """Error of the coreset's figure."""
        return self.own - self.moved - self.change

    @property
    def error_mcse(self) -> FloatArray:
        """Its numerical error."""
        return np.hypot(self.change_mcse, self.steady)


@dataclass(frozen=True, eq=False)
class Errors:
    """How far figures of one kind may be off: error and standard error of each."""

    family: Family
    error: FloatArray
    spread: FloatArray

    def phrase(self, i: int) -> str:
        """Return a clause on one of them."""
        factor = 100.0 if self.family.unit == "%" else 1.0
        value, error = number(factor * abs(self.error[i]), 2), number(factor * self.spread[i], 1)
        return f"the {self.family.names[i]} is off by {value} ± {error}{self.family.unit}"


def own_errors(families: Sequence[Family]) -> list[Errors]:
    """Return the errors of the draws as they are: the coreset's, and the draws' own."""
    return [Errors(f, f.error, np.hypot(f.error_mcse, f.noise)) for f in families if len(f.names)]


def errors_left(families: Sequence[Family], weighted: Weighted, *, resampled: bool) -> list[Errors]:
    """Return the errors of the corrected draws: moved ones, either `resampled` by the weights or as they are."""
    found = []
    for f in (f for f in families if len(f.names)):
        if resampled:  # the weights' variance comes on top of the draws'
            found.append(Errors(f, np.zeros_like(f.error), f.noise * math.sqrt(len(weighted.weights) / weighted.ess)))
        else:
            found.append(Errors(f, -f.change, np.hypot(f.change_mcse, f.noise)))
    return found


def risk(errors: Sequence[Errors], *, shrink: float = 1.0) -> float:
    """Return the bound of the chance that any figure is off by more than its limit, its noise times `shrink`.

    Tails, whose noise is several times as large, count as a certain failure where error and two standard errors reach
    the limit, and not at all elsewhere.
    """
    total = 0.0
    for each in errors:
        s, limit = np.maximum(shrink * each.spread, 1e-12), each.family.limit
        if each.family.kind != "tail":
            total += float((special.ndtr((each.error - limit) / s) + special.ndtr((-each.error - limit) / s)).sum())
        elif (np.abs(each.error) + 2.0 * s >= limit).any():
            return 1.0
    return total


def close(families: Sequence[Family]) -> bool:
    """Whether every error of the coreset, two standard errors on top, is one that a reader need not mind: `CLOSE`."""
    return all(
        float((np.abs(f.error) + 2.0 * f.error_mcse).max(initial=0.0)) <= CLOSE for f in families if f.kind != "tail"
    )


def worst(errors: Sequence[Errors]) -> str:
    """Return a clause on the figure that comes nearest to its limit, two standard errors on top."""
    sizes = [(np.abs(each.error) + 2.0 * each.spread) / each.family.limit for each in errors]
    first = int(np.argmax([float(size.max()) for size in sizes]))
    return errors[first].phrase(int(sizes[first].argmax()))


def settled(families: Sequence[Family]) -> bool:
    """Whether the weights change no figure of the moved draws by more than `SETTLED`, beyond noise."""
    return all(
        float((np.abs(f.change) - 2.0 * f.change_mcse).max(initial=0.0)) <= SETTLED
        for f in families
        if f.kind != "tail"
    )


def families(posterior: Posterior, chosen: FloatArray, weighted: Weighted) -> list[Family]:
    """Return the figures of draws, given the weights of the `chosen` ones, shape (S, D)."""
    names, raw, w = posterior.features, posterior.flat, weighted.weights
    moved, x = weighted.move(raw), weighted.move(chosen)
    own, there, noise = moments(raw), moments(moved), moments_mcse(posterior.draws)
    sd = _positive(own.sd)
    heavy = tail_k(raw) > MAX_TAIL_K
    fit, rest = np.flatnonzero(~heavy), np.flatnonzero(heavy)
    steady = np.minimum((raw - moved).std(axis=0) / sd, 1.0)  # noise of own - moved, as a share of the draws' own
    change = w - 1.0 / len(w)
    z, before = _standard(x, w), _standard(x, np.full(len(w), 1.0 / len(w)))
    width, mean = z.sd / before.sd, (z.mean - before.mean) / sd
    mean_mcse = np.sqrt(change**2 @ (z.values * z.sd) ** 2) / sd
    sd_mcse = 0.5 * np.sqrt(change**2 @ (z.values**2 - 1.0) ** 2)
    i, j = (fit[side] for side in np.triu_indices(len(fit), 1))
    correlation, correlation_mcse = _correlation(z.values, w), _correlation_mcse(z.values, change)
    gap = (correlation - _correlation(before.values, before.weights))[i, j]

    def each(kind: str, size: Callable[[Moments], FloatArray], parts: tuple[FloatArray, ...], **about: Any) -> Family:
        a, b, gain, gain_mcse, still, own_noise = (part[fit] for part in (size(own), size(there), *parts))
        words = [f"{kind} of {names[d]!r}" for d in fit]
        return Family(kind, words, a, b, gain, gain_mcse, still, own_noise, **about)

    return [
        each("mean", lambda m: (m.mean - own.mean) / sd, (mean, mean_mcse, steady * noise.mean / sd, noise.mean / sd)),
        each(
            "sd",
            lambda m: np.log(_positive(m.sd)),
            (np.log(width), sd_mcse, steady * noise.sd / sd, noise.sd / sd),
            limit=math.log1p(CERTIFIED),
            unit="%",
        ),
        Family(
            "correlation",
            [f"correlation of {names[a]!r} and {names[b]!r}" for a, b in zip(i, j, strict=True)],
            own.correlation[i, j], there.correlation[i, j], gap,
            correlation_mcse[i, j], np.zeros(len(i)), noise.correlation[i, j], unit="",
        ),
        _quantiles("tail", TAILS, posterior, fit, moved, (x, w), sd),
        _quantiles("quartile", QUARTILES, posterior, rest, moved, (x, w), sd),
    ]  # fmt: skip


def _quantiles(
    kind: str,
    probs: Sequence[float],
    posterior: Posterior,
    which: IntArray,
    moved: FloatArray,
    weighted: tuple[FloatArray, FloatArray],
    sd: FloatArray,
) -> Family:
    """Return quantiles of some coordinates, tails in sds and quartiles in interquartile ranges."""
    if not len(which):
        none = np.empty(0)
        return Family(kind, [], none, none, none, none, none, none)
    chains, x, w = posterior.draws[:, :, which], weighted[0][:, which], weighted[1]
    raw, there = chains.reshape(-1, len(which)), moved[:, which]
    middle = np.median(raw, axis=0)
    unit = sd[which] if kind == "tail" else np.ptp(np.quantile(raw, QUARTILES, axis=0), axis=0) / _IQR
    share = np.minimum((raw - there).std(axis=0) / _positive(raw.std(axis=0)), 1.0)
    rows, words = [], []
    for prob in probs:
        own, other, noise = (
            np.quantile(raw, prob, axis=0),
            np.quantile(there, prob, axis=0),
            mcse_quantile(chains, prob),
        )
        parts = [own - middle, other - middle, *quantile_change(x, w, prob), share * noise, noise]
        rows.append(np.array(parts) / unit)
        words += [f"{100 * prob:g}% quantile of {posterior.features[d]!r}" for d in which]
    own, other, change, change_mcse, steady, noise = np.concatenate(rows, axis=1)
    limit = CERTIFIED * np.maximum(np.abs(own), 1.0) if kind == "tail" else CERTIFIED
    return Family(kind, words, own, other, change, change_mcse, steady, noise, limit)


@dataclass(frozen=True, eq=False)
class _Standard:
    mean: FloatArray
    sd: FloatArray
    values: FloatArray
    weights: FloatArray


def _standard(x: FloatArray, w: FloatArray) -> _Standard:
    mean = w @ x
    sd = _positive(np.sqrt(w @ (x - mean) ** 2 / (1.0 - w @ w)))
    return _Standard(mean, sd, (x - mean) / sd, w)


def _correlation(z: FloatArray, w: FloatArray) -> FloatArray:
    return np.asarray((z.T * w) @ z / (1.0 - w @ w))


def _correlation_mcse(z: FloatArray, change: FloatArray) -> FloatArray:
    """Return the numerical error of what the weights change: influences z_i z_j - r (z_i^2 + z_j^2) / 2."""
    c = change**2
    r = z.T @ z / len(z)
    cross, both, fourth = (z.T**3 * c) @ z, (z.T**2 * c) @ z**2, c @ z**4
    return np.sqrt(
        np.maximum(both - r * (cross + cross.T) + 0.25 * r**2 * (fourth[:, None] + fourth + 2.0 * both), 0.0)
    )


def _positive(sd: FloatArray) -> FloatArray:
    return np.where(sd > 0.0, sd, 1.0)


def table(posterior: Posterior, found: Sequence[Family], chosen: FloatArray, weighted: Weighted) -> pd.DataFrame:
    """Return `CertificateData.coordinates`; NaN for the moments of a coordinate that has none."""
    raw, names = posterior.flat, posterior.features
    moved = weighted.move(raw)
    by_kind = {family.kind: family for family in found}
    judged = set(by_kind["mean"].names)
    fit = [name for name in names if f"mean of {name!r}" in judged]
    own = moments(raw)
    frame = pd.DataFrame({"mean": own.mean, "sd": own.sd}, index=pd.Index(names, name="feature"))
    mean, sd = by_kind["mean"], by_kind["sd"]
    errors = pd.DataFrame(
        {
            "mean_error_sd": mean.error,
            "mean_error_sd_mcse": mean.error_mcse,
            "mean_mcse_sd": mean.noise,
            "sd_error": -np.expm1(-sd.error),
            "sd_error_mcse": sd.error_mcse,
            "sd_mcse": sd.noise,
        },
        index=pd.Index(fit, name="feature"),
    )
    frame = frame.join(errors)
    frame["tail_k"] = np.where(frame.index.isin(fit), np.nan, tail_k(raw))
    frame["corrected_mean"] = frame["mean"] - frame["mean_error_sd"] * frame["sd"]
    frame["corrected_sd"] = frame["sd"] * (1.0 - frame["sd_error"])
    x = weighted.move(chosen)
    for prob in SHOWN:
        change, _ = quantile_change(x, weighted.weights, prob)
        frame[f"corrected_q{round(100 * prob):02d}"] = np.quantile(moved, prob, axis=0) + change
    frame.loc[~frame.index.isin(fit), "mean"] = np.median(raw[:, [name not in fit for name in names]], axis=0)
    return frame
