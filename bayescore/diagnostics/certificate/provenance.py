r"""Whose draws are these? Nothing is certified of draws that are not those of the coreset's posterior.

`sample` keeps with its draws a digest of the coreset's rows, the prior, the family, and the log density at each draw.
The latter must be that of the coreset's posterior there, up to one constant for all: at some draws where a digest tells
that nobody changed them, else at all, as parts of what `sample` returned are right draws too. What is a function of the
parameters (`coef`, `icc`) must be that function of them. Points that are met again after others came between, in the
same chain or another, are one run given twice.

Draws that `sample` moved to the full data's mode and curvature are moved back first: coreset and prior determine the
map. All draws are held to Stein's identities of the density that they are said to have (`stein`): log densities can be
forged as well as digests. Draws that were not made by `sample`, whose prior is not known, must meet them with the prior
left out: they are then the posterior under any prior that matters little.

Whether draws of coefficients whose priors have long tails reach all that the posterior has of these.

What no chain has visited, no figure of draws shows: a second mode, or a shelf far out that holds a hundredth of the
mass and half of the variance. The marginal density of such a coefficient by Laplace's method, on a grid, shows it:

.. math:: \log p(c) = \max_{\beta: \beta_d = c} \log\pi(\beta) - \frac{1}{2} \log\det H_{-d,-d}(c) + \text{const}

H is minus the Hessian at that maximum, without row and column d. A prior of long tails and a likelihood that disagree
make marginal densities with two modes, or with a shelf far out, which the normal approximation at one mode misses.

Reference: Tierney and Kadane (1986), Journal of the American Statistical Association 81, 82-86.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.interpolate import PchipInterpolator

from bayescore.data.coreset import Coreset
from bayescore.diagnostics.certificate.stein import Damping, enough_draws, stein
from bayescore.diagnostics.results import Need, Remedy, longer_warm_up
from bayescore.families import Family
from bayescore.limits import MAX_DRAWS
from bayescore.models.laplace import NoModeError, StaysError, Transport, factor_of_inverse, find_mode, to_full
from bayescore.models.modes import search_start
from bayescore.models.posterior import (
    ClosedForm,
    Derivatives,
    OfModel,
    likelihood_terms,
    log_likelihoods,
    mean_curvature,
    posterior,
    score,
)
from bayescore.priors import Prior
from bayescore.priors.groups import prior_for
from bayescore.samplers.groups import intraclass_correlation
from bayescore.samplers.posterior import Posterior, draws_digest, flat_draws, transport_of_draws
from bayescore.text import number
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

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


def marginal_density(data: WeightedData, family: Family, prior: Prior, place: int) -> MarginalDensity:
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
    profile = partial(_profile, target.terms, place)
    u = np.linspace(-_REACH, _REACH, _POINTS)
    start, order = np.zeros(D), np.argsort(np.abs(u), kind="stable")
    known: dict[float, tuple[float, float, FloatArray]] = {}
    for each in u[order]:
        near = min(known, key=lambda other: abs(other - each)) if known else None
        known[each] = profile(center + scale * np.sinh(each), start if near is None else known[near][2])
    for _ in range(_SPLITS):
        u = np.array(sorted(known))
        log_p = np.array([known[each][0] for each in u]) + np.log(np.cosh(u))  # of u
        slope = np.array([known[each][1] for each in u]) * scale * np.cosh(u)
        width = np.diff(u)
        mass = np.exp(np.maximum(log_p[1:], log_p[:-1]) - log_p.max()) * width
        peak = (slope[:-1] * width > 1.0) & (slope[1:] * width < -1.0)  # in between: higher than both ends
        for i in np.flatnonzero((mass > _MUCH * mass.sum()) | peak):
            middle = float(0.5 * (u[i] + u[i + 1]))
            known[middle] = profile(center + scale * np.sinh(middle), known[u[i]][2])
    u = np.array(sorted(known))
    curve = PchipInterpolator(u, np.array([known[each][0] for each in u]) + np.log(np.cosh(u)))
    fine = np.interp(np.arange((len(u) - 1) * _FINE + 1) / _FINE, np.arange(len(u)), u)
    value = curve(fine)
    weights = np.exp(value - value.max()) * np.gradient(fine)
    return MarginalDensity(center + scale * np.sinh(fine), weights / weights.sum())


def _profile(
    terms: Callable[[FloatArray], Derivatives], place: int, c: float, start: FloatArray
) -> tuple[float, float, FloatArray]:
    """Return the log density where a coefficient is c, the slope of its first part, and the maximum, shape (D,)."""
    others, beta = np.delete(np.arange(len(start)), place), start.copy()
    beta[place] = c
    if not len(others):
        here = terms(beta)
        return here.value, float(here.gradient[place]), beta

    def conditional(rest: FloatArray) -> Derivatives:
        beta[others] = rest
        all_of = terms(beta)
        return Derivatives(all_of.value, all_of.gradient[others], all_of.precision[np.ix_(others, others)])

    mode = find_mode(conditional, start[others], tolerance=1e-3, max_steps=100)
    beta[others] = mode.beta
    value = mode.terms.value - 0.5 * float(np.linalg.slogdet(mode.terms.precision)[1])
    return value, float(terms(beta).gradient[place]), beta


COPIED = 0.01  # share of moves from one point to the next that may be met twice: continuous draws never make one twice


_MAX_REPEATED = 0.45  # of points: a chain in another order meets those again at which proposals were rejected


_MAX_DENSITY_GAP = 1e-3  # nats by which that may differ; a shift by 0.01 sd in one coordinate shows


_UNCHANGED_DRAWS = 100  # whose log densities are compared where a digest tells that nobody changed them


_ROUNDING = 1e-9  # of the log density's own size


_SAME = 1e-6  # relative error of what is computed from parameters, which may have been stored in single precision


_FLOOR = 1e-8  # of the prior's precision, relative to the data's: the sum is positive definite in floating point


@dataclass(frozen=True)
class Origin:
    """What is known of how draws were made."""

    prior: ClosedForm | OfModel | None  # None where it is not known
    unchanged: bool = False  # a digest says that `sample` drew them from this coreset, and that nobody changed them
    trouble: str = ""  # why nothing can be certified of them


def transport_by_sample(posterior: Posterior, core: Coreset, family: Family, *, own_model: bool) -> Transport | None:
    """Return the map by which `sample` moved draws of the coreset's posterior; None where it did not.

    Draws that do not say whose they are, and are not of a model of the user's own, can be either under a prior that
    matters little: moved ones, where they would else miss Stein's identities.
    """
    if posterior.story or own_model or not missed_identities(posterior, core, family, Origin(None)):
        return transport_of_draws(posterior, core, family)
    try:
        return to_full(core, family, prior_for(None, core, family))
    except StaysError:
        return None


def origin_of(posterior: Posterior, core: Coreset, family: Family, drawn: FloatArray) -> Origin:
    """Return what the draws' attributes, their log densities and a comparison of all points tell.

    `drawn`, shape (S, D), are the draws before `sample` moved them, at which log densities are stored.
    """
    story = posterior.story
    prior = posterior.prior if story else None
    closed = ClosedForm(prior) if prior is not None and prior.closed_form else None
    if trouble := _refusal(posterior, core, family):
        return Origin(closed, trouble=trouble)
    if not story:
        return Origin(None)
    unchanged = story["draws"] == draws_digest(posterior.draws)
    if closed is None:
        return Origin(None, unchanged=unchanged)

    def density(at: IntArray) -> FloatArray:
        return log_likelihoods(drawn[at], core, family) + closed.log_density(drawn[at])

    trouble = trouble_of_densities(posterior, density, unchanged=unchanged)
    return Origin(closed, unchanged=unchanged, trouble=trouble)


def trouble_of_densities(posterior: Posterior, density: Callable[[IntArray], FloatArray], *, unchanged: bool) -> str:
    """Return how stored log densities differ from `density` of draws at positions, a constant apart; empty if not.

    They are compared at some draws where a digest tells that they are as `sample` made them (`unchanged`), else at all.
    """
    if posterior.log_density is None:
        return ""
    at = posterior.positions(_UNCHANGED_DRAWS if unchanged else posterior.log_density.size)
    values = posterior.log_density.ravel()[at]
    gap = values - density(at)
    worst = float(np.abs(gap - np.median(gap)).max())
    if worst <= _MAX_DENSITY_GAP + _ROUNDING * float(np.abs(values).max()):
        return ""
    return (
        "The draws, or the log densities stored with them (sample_stats), were changed after sampling: these are not "
        f"those of the coreset's posterior there, by {number(worst, 2)} nats. Certify what sample returned, or parts "
        "of it."
    )


_QUANTILE = 0.1  # by which the mean quantile of sds of smooth terms may differ from 0.5, a third of the sd of one


_DRAWS_A_QUANTILE = 4  # that say as much as an independent one


def altered_variable(idata: Any, posterior: Posterior) -> str:
    """Return which variable disagrees with the parameters that it is computed from; empty if none does."""
    source, expected = idata["posterior"], {}
    if posterior.design is not None:
        expected["coef"] = posterior.design.raw_coefficients(posterior.flat)
    latent: Any = posterior.family.latent_variance if posterior.terms else None
    latent = posterior.size**2 if posterior.terms and posterior.size is not None else latent
    for name, sigma in posterior.variables.items():
        if name.startswith("sigma_") and sigma.ndim == 1 and latent is not None:
            expected[name.replace("sigma_", "icc_", 1)] = intraclass_correlation(sigma, latent)
    for name, values in expected.items():
        if name in source and not _is_equal(flat_draws(idata, name), np.asarray(values)):
            return (
                f"The draws of {name!r} are not those that the parameters make: they were changed after sampling. "
                "Certify what sample returned, or drop that variable."
            )
    for bends in posterior.prior.bends if posterior.story else ():
        if bends.name not in posterior.variables:
            continue
        quantiles = bends.quantiles(posterior.variables[bends.name], posterior.flat)
        if abs(quantiles.mean() - 0.5) > max(_QUANTILE, 6.0 * math.sqrt(_DRAWS_A_QUANTILE / 12.0 / len(quantiles))):
            return (
                f"The draws of {bends.name!r} are not those that go with the coefficients: their quantiles given these "
                f"are {quantiles.mean():.2f} on average, and must be 0.5. Certify what sample returned."
            )
    return ""


def _is_equal(values: FloatArray, expected: FloatArray) -> bool:
    if values.shape != expected.shape:
        return False
    size = np.abs(expected).max(axis=0)
    return bool((np.abs(values - expected) <= _SAME * (size + np.abs(expected))).all())


def trouble_of_groups(posterior: Posterior, core: Coreset) -> str:
    """Return why draws with effects of groups are not those of `sample` from this coreset; empty if they may be."""
    attrs = posterior.attrs
    if "corrected" not in attrs and (not posterior.story or (posterior.terms and "group_prior" not in attrs)):
        return "The draws were not made by bayescore.sample of a coreset with groups; sample it."
    return _refusal(posterior, core, posterior.family)


def _refusal(posterior: Posterior, core: Coreset, family: Family) -> str:
    story = posterior.story
    if "corrected" in posterior.attrs:
        return (
            "The draws are corrected ones already, and theirs is the certificate that corrected them, of a fit "
            "fit.certificate; certify those that they came from."
        )
    if story and story["rows"] != core.rows_digest:
        return "The draws are of another coreset's posterior, or the coreset was changed; sample this one."
    if story and story["family"] != family.name:
        return f"The draws were made with the family {story['family']!r}, not {family.name!r}; sample again."
    repeated, runs = _repeated_shares(posterior.draws)
    if repeated > _MAX_REPEATED or (runs > COPIED and repeated > COPIED):
        return (
            f"Draws repeat: {repeated:.0%} of the points are met again after others, in the same chain or another, so "
            "that one run was given twice. Drop the copies, or sample again with another seed for each chain."
        )
    return ""


def missed_identities(posterior: Posterior, core: Coreset, family: Family, origin: Origin) -> str:
    """Return how the draws miss Stein's identities of the density that they are said to have; empty if they do not."""
    at = posterior.positions(enough_draws(len(core)))
    draws, names, of_beta = posterior.flat[at], list(posterior.features), slice(None)
    slope, scores = np.zeros_like(draws), score(draws, core, family)
    if isinstance(origin.prior, OfModel):
        values, gradients, names, place = origin.prior.joint(at)
        of_beta = place
        if place.stop:
            slope = gradients[:, place] - scores
        draws = values
    else:
        if origin.prior is not None:
            slope = origin.prior.gradient(at, draws)
        gradients = scores + slope
    K = np.diag(draws.var(axis=0, ddof=1))
    if draws[:, of_beta].size:
        beta = draws[:, of_beta]
        precision = likelihood_terms(np.median(beta, axis=0), core, family).precision
        K[of_beta, of_beta] = covariance_of(precision, beta, slope, K[of_beta, of_beta])
    shape = (len(posterior.draws), -1, len(names))
    damping = None
    if of_beta == slice(0, core.n_features) or of_beta == slice(None):
        damping = Damping(draws[:, of_beta], scores, core, family)
    missed = stein(draws.reshape(shape), gradients.reshape(shape), K, names, damping)
    if not missed:
        return ""
    if origin.prior is not None:
        return trouble_of_identities(missed, posterior)
    return (
        "The draws were not made by bayescore.sample, or were changed since, and they are not those of the coreset's "
        f"posterior under a prior that matters little: {missed} If they are of a model of your own, give model=."
    )


def trouble_of_identities(missed: str, posterior: Posterior) -> str:
    """Return what to do where draws miss an identity of their density, as `missed` says; empty if they do not."""
    if not missed:
        return ""
    return (
        f"The draws are not those of the posterior of the coreset: {missed} If nobody changed them, sample again, "
        f"with {longer_warm_up(posterior)}."
    )


def covariance_of(precision: FloatArray, draws: FloatArray, slope: FloatArray, plain: FloatArray) -> FloatArray:
    """Return the inverse of minus the Hessian, (D, D), given the rows' part `precision`; `plain` where it has none.

    It does not depend on the draws' own covariance, whose noise the identities would see. The prior's part is the
    `mean_curvature` of its gradients `slope`, shape (S, D).
    """
    floor = _FLOOR * np.abs(np.diagonal(precision)).max()
    try:
        factor = factor_of_inverse(precision + np.diag(np.maximum(mean_curvature(draws, slope), floor)))
    except DataError:
        return plain
    return np.asarray(factor @ factor.T)


def _repeated_shares(draws: FloatArray) -> tuple[float, float]:
    """Return the share of points that are met again, stays of a chain at one point counted once, and that of moves.

    Stays (rejections) of chains in another order are points met again, moves from one point to the next are not.
    """
    moves = np.ones(draws.shape[:2], dtype=bool)
    moves[:, 1:] = (draws[:, 1:] != draws[:, :-1]).any(axis=2)
    points = np.ascontiguousarray(draws[moves])
    single, codes = np.unique(points.view(f"V{points.itemsize * points.shape[1]}"), return_inverse=True)
    chain = np.nonzero(moves)[0]
    pairs = np.column_stack([codes.ravel()[:-1], codes.ravel()[1:]])[chain[1:] == chain[:-1]]
    return 1.0 - len(single) / len(points), 1.0 - len(np.unique(pairs, axis=0)) / max(len(pairs), 1)


_QUARTILES = np.array([0.25, 0.5, 0.75])


_MAX_SD_ERROR = 0.15  # relatively, by which an sd may be off: below `limits.MAX_ERROR`, as Laplace's method errs, too


_MAX_QUARTILE_SHARE = 0.1  # of probability, by which a quartile may be off: a quarter of an sd of a normal density


_DRAW_FACTOR = 4  # more draws than those that were refused


def missed_tails(
    posterior: Posterior,
    drawn: FloatArray,
    rows: WeightedData,
    family: Family,
    prior: Prior | None,
    *,
    given_effects: bool = False,
) -> tuple[str, Remedy] | None:
    """Return what draws of coefficients, shape (S, D), miss of marginal densities, and the remedy; None if nothing.

    ``given_effects`` is for rows whose offsets have the effects of groups: marginal densities are then too narrow, and
    only draws that are narrower still are refused.
    """
    if prior is None or not prior.long_tails:
        return None
    try:
        places = weakly_informed(rows, family, prior)
    except NoModeError:
        return None
    for d in places:
        try:
            density = marginal_density(rows, family, prior, int(d))
        except NoModeError:
            continue
        name, draws = posterior.features[d], drawn[:, d]
        of_one = prior.of_coefficient(int(d), name, len(posterior.features))
        gap = float(np.log(density.sd / draws.std())) if of_one.finite_variance and draws.std() > 0.0 else 0.0
        share = density.below(np.quantile(draws, _QUARTILES))
        what = ""
        if gap > _MAX_SD_ERROR or (gap < -_MAX_SD_ERROR and not given_effects):
            what = f"the draws' sd of {name!r} is {number(np.exp(-gap), 2)} times"
        elif not given_effects and (off := np.abs(share - _QUARTILES)).max() > _MAX_QUARTILE_SHARE:
            k = int(off.argmax())
            what = f"below the draws' quantile {_QUARTILES[k]:g} of {name!r} is {number(share[k], 2)} of the mass of"
        if what:
            n = posterior.draws.shape[1]
            more = min(_DRAW_FACTOR * n, max(MAX_DRAWS, n))
            text = (
                f"Too few draws: {what} what quadrature along it finds, as its prior has long tails, the rows say "
                "little of it, and chains are rarely far out; "
                + (f"sample with draws={more}, or give" if more > n else "give")
                + " it a prior with lighter tails."
            )
            return text, Remedy(Need.DRAWS, _DRAW_FACTOR * n)
    return None
