r"""The marginal density of one coefficient by Laplace's method, on a grid: what no chain has visited is seen, too.

.. math:: \log p(c) = \max_{\beta: \beta_d = c} \log\pi(\beta) - \frac{1}{2} \log\det H_{-d,-d}(c) + \text{const}

H is minus the Hessian at that maximum, without row and column d. A prior of long tails and a likelihood that disagree
make marginal densities with two modes, or with a shelf far out, which the normal approximation at one mode misses.

Reference: Tierney and Kadane (1986), Journal of the American Statistical Association 81, 82-86.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.interpolate import PchipInterpolator

from bayescore.families import Family
from bayescore.models.laplace import find_mode
from bayescore.models.posterior import Derivatives, likelihood_terms, posterior
from bayescore.models.robust_start import search_start
from bayescore.priors import Prior
from bayescore.types import FloatArray, IntArray, WeightedData

_REACH, _POINTS = 8.0, 81  # of the first grid: asinh of distances from the prior's center, in its scales
_SPLITS = 6  # rounds in which intervals with much mass, or with a peak inside, are halved
_MUCH = 0.02  # of the mass in one interval
_FINE = 40  # points of an interval by which moments are summed
_WEAK = 0.3  # sd that the likelihood alone gives a coefficient, over the scale of its prior, from which it is weak
_WORK = 2e10  # rows times squared columns times evaluations: some ten seconds


@dataclass(frozen=True, eq=False)
class MarginalDensity:
    """A density on a grid: points, weights of these that add up to 1."""

    c: FloatArray
    weights: FloatArray

    @property
    def mean(self) -> float:
        """Its mean."""
        return float(self.weights @ self.c)

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        return float(np.sqrt(self.weights @ (self.c - self.mean) ** 2))

    def below(self, at: FloatArray) -> FloatArray:
        """Return the probability below points."""
        return np.interp(at, self.c, np.cumsum(self.weights) - 0.5 * self.weights)


def weakly_informed(data: WeightedData, family: Family, prior: Prior) -> IntArray:
    """Return the places of coefficients whose prior has long tails, and is as narrow as what the rows say, or nearly.

    Elsewhere such a prior is as good as flat over all that the likelihood leaves, and makes no second mode. Where they
    are more than can be scanned in some seconds, the weakest are returned.
    """
    if not prior.long_tails:
        return np.empty(0, dtype=np.int64)
    target = posterior(data, family, prior.smoothed())
    mode = find_mode(target.terms, search_start(target.rows, target.family))
    F = likelihood_terms(mode.beta, data, family).precision
    values, vectors = linalg.eigh(F)
    with np.errstate(divide="ignore"):
        sd = np.sqrt((vectors**2 / np.maximum(values, 0.0)).sum(axis=1))
    scale = np.full(len(sd), np.inf)
    for part, places, table in prior.parts(len(sd)):
        if part.long_tails:
            scale[places] = table[1]
    ratio = sd / scale
    weakest = np.argsort(-ratio, kind="stable")[: max(int(_WORK / (data.X.size * len(sd) * 3.0 * _POINTS)), 1)]
    return np.sort(weakest[ratio[weakest] > _WEAK])


def marginal(data: WeightedData, family: Family, prior: Prior, place: int) -> MarginalDensity:
    """Return the marginal density of a coefficient whose prior has long tails, over rows in memory.

    Raises
    ------
    NoModeError
        If the other coefficients have no mode at some value of this one.
    """
    target = posterior(data, family, prior.smoothed())
    D = target.n_features
    center, scale = next(
        (float(table[0, i]), float(table[1, i]))
        for _, places, table in prior.parts(D)
        for i, d in enumerate(places)
        if d == place
    )
    profile = _Profile(target.terms, place, D)
    u = np.linspace(-_REACH, _REACH, _POINTS)
    start, order = np.zeros(D), np.argsort(np.abs(u), kind="stable")
    known: dict[float, tuple[float, float, FloatArray]] = {}
    for each in u[order]:
        near = min(known, key=lambda other: abs(other - each)) if known else None
        known[each] = profile.at(center + scale * np.sinh(each), start if near is None else known[near][2])
    for _ in range(_SPLITS):
        u = np.array(sorted(known))
        log_p = np.array([known[each][0] for each in u]) + np.log(np.cosh(u))  # of u
        slope = np.array([known[each][1] for each in u]) * scale * np.cosh(u)
        width = np.diff(u)
        mass = np.exp(np.maximum(log_p[1:], log_p[:-1]) - log_p.max()) * width
        peak = (slope[:-1] * width > 1.0) & (slope[1:] * width < -1.0)  # in between: higher than both ends
        for i in np.flatnonzero((mass > _MUCH * mass.sum()) | peak):
            middle = float(0.5 * (u[i] + u[i + 1]))
            known[middle] = profile.at(center + scale * np.sinh(middle), known[u[i]][2])
    u = np.array(sorted(known))
    curve = PchipInterpolator(u, np.array([known[each][0] for each in u]) + np.log(np.cosh(u)))
    fine = np.interp(np.arange((len(u) - 1) * _FINE + 1) / _FINE, np.arange(len(u)), u)
    value = curve(fine)
    weights = np.exp(value - value.max()) * np.gradient(fine)
    return MarginalDensity(center + scale * np.sinh(fine), weights / weights.sum())


@dataclass(frozen=True, eq=False)
class _Profile:
    terms: Callable[[FloatArray], Derivatives]
    place: int
    size: int

    def at(self, c: float, start: FloatArray) -> tuple[float, float, FloatArray]:
        """Return the log density at a value, the slope of its first part, and the maximum, shape (D,)."""
        others = np.delete(np.arange(self.size), self.place)
        beta = start.copy()
        beta[self.place] = c
        if not len(others):
            here = self.terms(beta)
            return here.value, float(here.gradient[self.place]), beta

        def conditional(rest: FloatArray) -> Derivatives:
            beta[others] = rest
            all_of = self.terms(beta)
            return Derivatives(all_of.value, all_of.gradient[others], all_of.precision[np.ix_(others, others)])

        mode = find_mode(conditional, start[others], tolerance=1e-3, max_steps=100)
        beta[others] = mode.beta
        value = mode.terms.value - 0.5 * float(np.linalg.slogdet(mode.terms.precision)[1])
        return value, float(self.terms(beta).gradient[self.place]), beta
