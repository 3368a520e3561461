r"""A fit with Student t noise, whose scale sigma is a parameter, and whose degrees of freedom nu may be another.

Both are numbers of the family, and the posterior between fits at some of them is that of `fitting.size`: given nu,
fits at some sigmas; and where nu is a parameter, such fits at some nus, with the slope in log nu averaged over draws of
coefficients and sigma. So

1. rows are read as those of normal noise, whose sums tell the design and the default priors;
2. the mode of sigma, and of nu, given a sample of the rows, tells where both are. A climb weighs rows by (nu + 1) /
   (nu + r^2 / sigma^2), r the residual, until nothing moves (Lange, Little and Taylor 1989, section 3). There may be
   several modes where rows fall into clusters, so climbs begin at the least squares, at the least absolute deviations,
   and at the least squares of rows that are far from the mode so far, or on either side where few are near;
3. fits go out from the highest mode, as of all families with a number. Where another has a share of the posterior
   that is not negligible this is refused, as draws stay at one of them.

theta is the log of nu, or of sigma over its mode.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import optimize

from bayescore.coresets.build import check_no_groups
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.formula_parsing import parsed
from bayescore.families.family import Family, check_family
from bayescore.families.student_t import StudentT
from bayescore.fitting.route import FitOptions, Route, usable_draws
from bayescore.fitting.size import RowSlopes, SizeNode, SizesRoute, moved_like, repeated_warnings_off
from bayescore.limits import MAX_NUMBER
from bayescore.models.modes import lines, weighted_least_squares
from bayescore.models.predictor import Predictor
from bayescore.numerics.chains import evenly_spaced
from bayescore.numerics.sampling import hash_uniforms_of
from bayescore.priors.groups import (
    HalfStudentT,
    group_prior_to_dict,
    log_sigma_terms,
    moments_of_response,
    sd_prior_for,
)
from bayescore.samplers.posterior import SD_PRIOR
from bayescore.samplers.sample import AUTO
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import DataError

_SAMPLE = 200_000  # rows whose mode tells where to begin, where they are not all in memory
_FIRST_ROWS = 20_000  # rows whose mode tells where to seek that of more
_NEAR = 0.1  # sds of log sigma: moves at which that search ends
_SEED = 2027
_MAX_ROUNDS = 100  # of the search for the mode
_TOLERANCE = 1e-4  # moves of logs of sigma and nu at which it ends
_STEP = 1e-3  # of differences of slopes
_LOG_NU_RANGE = -3.0, 9.0  # logs of nus that are sought
_QUARTILE = 3.138  # sd over the lower quartile of sizes, of normal noise: that of one cluster where there are two
_ROWS_A_COLUMN = 2  # with fewer the posterior of sigma reaches so near 0 that fits at three sigmas do not say it
_MIN_LOG_SIGMA, _MAX_LOG_SIGMA = -29.0, 5.0  # logs of sigma over the scale of its prior, that are sought
_FAR = 10.0  # of (r / sigma)^2 / nu, from which rows may be a cluster of their own
_CLUSTER = 0.05  # share of such rows that is looked at
_APART = 6.0  # sds between modes that are two
_NEGLIGIBLE = 7.0  # nats below the highest mode: 1 in 1,000


class NoiseMode(NamedTuple):
    """The mode of log sigma and log nu; sds given the other number of log sigma, and of log nu over both."""

    log_sigma: float
    log_nu: float
    sd_sigma: float
    sd_nu: float
    other_mode: str = ""  # another mode that has a share of the posterior, in words


class _ModeSearch(NamedTuple):
    """Where a climb ended: log sigma and log nu, coefficients, and the log density with these integrated out."""

    theta: FloatArray
    beta: FloatArray
    value: float
    terms: Callable[[FloatArray], tuple[float, FloatArray]]
    weight: float  # of the rows, by which the terms are divided

    def sds(self, nu: float | None) -> tuple[float, float]:
        """Return the sds of log sigma given the other number, and of log nu over both."""
        ends = [[self.terms(self.theta + sign * move)[1] for sign in (1.0, -1.0)] for move in _STEP * np.eye(2)]
        bend = np.stack([(high - low) * self.weight / (2.0 * _STEP) for high, low in ends])
        along = bend[1, 1] - bend[0, 1] ** 2 / max(bend[0, 0], 1e-9) if nu is None else 1.0
        of_sigma, of_nu = 1.0 / np.sqrt(np.maximum([bend[0, 0], along], 0.25))
        return float(of_sigma), float(of_nu)


def size_route_type(family: str | Family) -> type[SizesRoute]:
    """Return the way to draws of a family whose number is a parameter."""
    family = check_family(family, seek=True)
    if not isinstance(family, StudentT):
        return SizesRoute
    return NuRoute if family.missing == "nu" else ScaleRoute


class ScaleRoute(SizesRoute):
    """The way to draws over which sigma varies, given nu."""

    some_rows: WeightedData | None = None  # a sample, in the design
    n_total: float  # that it stands for
    moved_node: SizeNode  # the fit whose draws are moved
    pattern: tuple[SizeNode, ...] = ()  # fits at another nu, as whose draws those of this one go with sigma

    def sample_until_certified(self, **_: Any) -> None:
        """Do nothing: `run` has settled the draws."""

    def prior_slope(self, log_size: float) -> float:
        """Return the slope of the log prior density of log sigma."""
        return log_sigma_terms(math.log(self.value(log_size)), *self._sd_prior.table)[1]

    def slopes_at(self, log_size: float, draws: Predictor) -> RowSlopes:  # noqa: ARG002
        """Return the slopes in log sigma."""
        family = cast(StudentT, self._family.completed(self.value(log_size)))
        return lambda eta, _, weights: family.scale_slopes(eta, weights)

    def draw_attrs(self) -> dict[str, str]:
        """Return attributes of the draws: the prior of sigma."""
        return {SD_PRIOR: json.dumps(group_prior_to_dict(self._sd_prior))}

    @property
    def _sd_prior(self) -> HalfStudentT:
        assert self.first is not None
        return sd_prior_for(self.first.core)

    def _check_given(self) -> None:
        super()._check_given()
        given = self.given
        named = given.roles.get("groups") is not None or (given.formula is not None and parsed(given.formula).groups)
        check_no_groups(self._family, named)

    def _start_theta(self) -> tuple[float, float | None]:
        if self.some_rows is None:
            self._prepare()
        mode = self._mode(cast(StudentT, self._family).size)
        self.unit = math.exp(mode.log_sigma)
        return 0.0, mode.sd_sigma

    def _add_node(self, log_size: float, n_draws: int, share: float) -> SizeNode:
        """Make another fit, or move the first one's draws."""
        if not self.pattern:
            return super()._add_node(log_size, n_draws, share)
        assert self.middle is not None
        if len(self.nodes) == 1:
            self.moved_node = self.nodes[0]
        idata = moved_like(self.pattern, self.moved_node, log_size)
        slope = self._slopes(self.middle, idata, n_draws, np.array([log_size]))[0]
        return self._insert_node(SizeNode(log_size, self.moved_node.certificate, idata, slope))

    def _prepare(self) -> None:
        """Read the rows as those of normal noise: their design, their default priors, and a sample of them."""
        options = replace(self.options, method=AUTO, size=AUTO, sampler=AUTO)
        self.first = first = Route(
            self.given, "normal(1)", self.prior, self.seed, self.max_seconds, in_design=self.in_design, options=options
        )
        self.tried.append(first)
        first.begin()
        core = first.core
        if core.n_total < (least := _ROWS_A_COLUMN * (core.n_features + 1)):
            raise DataError(
                f"data has {core.n_total} rows, and {core.n_features} columns with noise of family={self.family!r}, "
                f"whose numbers are parameters, need {least}: give both numbers, as in 'student_t(4, 1.3)', or "
                "family='normal'"
            )
        response = core.design.response or moments_of_response(core)
        family = StudentT(4.0, response[1]).name
        first.core = core = replace(core, design=replace(core.design, response=response), family=family, params={})
        with repeated_warnings_off():
            self.again = self._read_once(core)
            held = self.again.data if isinstance(self.again.data, Coreset) else None
            self.some_rows, self.n_total = held or sampled_rows(self.again.rows(core)), core.weight_total
        self.passes += 1

    def _mode(self, nu: float | None) -> NoiseMode:
        assert self.some_rows is not None
        mode = noise_mode(self.some_rows, self.n_total, self._sd_prior, nu)
        if mode.other_mode:
            raise DataError(mode.other_mode)
        return mode


class NuRoute(ScaleRoute):
    """The way to draws over which nu and sigma vary: at some nus those of `ScaleRoute`."""

    def prior_slope(self, log_size: float) -> float:
        """Return the slope of the log prior density of log nu."""
        return self._family.prior_slope(log_size)

    def slopes_at(self, log_size: float, draws: Predictor) -> RowSlopes:
        """Return the slopes in log nu, at the sigmas of the draws."""
        return StudentT(self.value(log_size), 1.0).at(draws.size).size_slopes

    def draw_attrs(self) -> dict[str, str]:
        """Return attributes of the draws: the prior of nu; that of sigma is there."""
        return super(ScaleRoute, self).draw_attrs()

    def draws_of(self, route: Route) -> Any:
        """Return draws of all sigmas."""
        return usable_draws(route.drawn, route.certificate)

    def _start_theta(self) -> tuple[float, float | None]:
        self._prepare()
        mode = self._mode(None)
        return mode.log_nu, mode.sd_nu

    @property
    def _pilot_options(self) -> FitOptions:
        """All draws are needed: sigma varies over them."""
        return self.options

    def _sampled_route(self, log_size: float, options: FitOptions) -> Route:
        """Return the way to draws given nu."""
        assert self.first is not None
        seed = int(np.random.SeedSequence([self.seed, len(self.tried)]).generate_state(1)[0])
        route = ScaleRoute(
            replace(self.again, predictive=False),
            self._family.completed(self.rounded(log_size)).name,
            self.prior,
            seed,
            self.max_seconds,
            in_design=self.first.design_prior(),
            options=options,
        )
        route.first, route.again = self.first, self.again
        route.some_rows, route.n_total = self.some_rows, self.n_total
        if isinstance(self.middle, ScaleRoute):
            route.pattern = self.middle.nodes
        self.tried.append(route)
        with repeated_warnings_off():
            route.run()
        return route


def sampled_rows(dataset: Dataset) -> WeightedData:
    """Return about `_SAMPLE` rows, chosen by a hash of their places; one pass."""
    share = min(1.0, _SAMPLE / max(dataset.source.n_rows, 1))

    def of_block(_: int, block: WeightedData) -> WeightedData:
        return block.take(hash_uniforms_of(block.index, _SEED) < share)

    return stack(list(dataset.map(of_block, "drawing rows", canonical=True)))


def noise_mode(rows: WeightedData, weight: float, sd_prior: HalfStudentT, nu: float | None) -> NoiseMode:
    """Return the mode of log sigma and log nu, or of log sigma given nu, by rows that stand for a `weight`."""
    some = rows if len(rows) <= _FIRST_ROWS else rows.take(evenly_spaced(len(rows), _FIRST_ROWS))
    best, beside = _highest_mode(some, weight, sd_prior, nu)
    sds = best.sds(nu)
    if some is not rows and not beside:
        best = _search_mode(
            *_parts(rows, weight), best.beta, sd_prior=sd_prior, nu=nu, start=best.theta, tolerance=_NEAR * sds[0]
        )
    return NoiseMode(float(best.theta[0]), float(best.theta[1]), *sds, beside)


def _parts(rows: WeightedData, weight: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return columns, responses and weights, which add up to `weight`."""
    return rows.X, -rows.offsets, rows.weights * (weight / rows.weights.sum())


def _highest_mode(
    rows: WeightedData, weight: float, sd_prior: HalfStudentT, nu: float | None
) -> tuple[_ModeSearch, str]:
    """Return the highest mode that climbs reach, and in words another one that has a share of the posterior."""
    X, y, w = _parts(rows, weight)
    climb = partial(_search_mode, X, y, w, sd_prior=sd_prior, nu=nu)
    found = [climb(beta) for beta in lines(X, y, w)]
    best = max(found, key=lambda each: each.value)
    sigma, freedom = np.exp(best.theta)
    far = (y - X @ best.beta) ** 2 > _FAR * freedom * sigma**2
    if w[far].sum() > _CLUSTER * w.sum():
        found.append(climb(weighted_least_squares(X[far], y[far], w[far])))
    best = max(found, key=lambda each: each.value)
    beside = next((_two_modes_text(each, best, nu) for each in found if _is_separate_mode(each, best, X, w)), "")
    return best, beside


def _is_separate_mode(each: _ModeSearch, best: _ModeSearch, X: FloatArray, w: FloatArray) -> bool:
    """Whether a climb ended at another mode than the best, whose share of the posterior is not negligible."""
    sigma = math.exp(max(each.theta[0], best.theta[0]))
    apart = float(w @ (X @ (each.beta - best.beta)) ** 2)
    return best.value - each.value < _NEGLIGIBLE and apart > (_APART * sigma) ** 2


def _two_modes_text(each: _ModeSearch, best: _ModeSearch, nu: float | None) -> str:
    """Return in words that there are two modes."""
    high, low = (f"sigma {math.exp(one.theta[0]):.3g}" for one in (best, each))
    if nu is None:
        high, low = (f"{text} and nu {math.exp(one.theta[1]):.3g}" for text, one in ((high, best), (low, each)))
    return (
        f"The posterior has several modes, as the rows fall into clusters about different lines: beside that of "
        f"{high} one of {low}, lower by {best.value - each.value:.2g} nats. Plot the residuals, "
        "and give a column that tells which cluster a row is of."
    )


def _search_mode(
    X: FloatArray,
    y: FloatArray,
    w: FloatArray,
    beta: FloatArray,
    *,
    sd_prior: HalfStudentT,
    nu: float | None,
    start: FloatArray | None = None,
    tolerance: float = _TOLERANCE,
) -> _ModeSearch:
    """Return the mode that a climb from some coefficients, and theta, reaches; raise if there sigma goes to 0."""
    lowest, highest = (math.log(sd_prior.sigma) + end for end in (_MIN_LOG_SIGMA, _MAX_LOG_SIGMA))
    lowest = max(lowest, 1.0 - math.log(MAX_NUMBER))
    bounds = [(lowest, highest), _LOG_NU_RANGE if nu is None else (math.log(nu), math.log(nu))]
    theta = np.zeros(2) if start is None else start
    for turn in range(_MAX_ROUNDS):
        residuals = y - X @ beta
        if turn == 0 and start is None:
            scale = _QUARTILE * float(np.quantile(np.abs(residuals), 0.25))
            scale = scale or float(np.sqrt(np.average(residuals**2, weights=w)))
            theta = np.array([np.clip(math.log(max(scale, math.exp(lowest))), lowest, highest), math.log(nu or 4.0)])
        terms, last = _terms_of(residuals, w, X.shape[1], (sd_prior, nu)), theta
        theta = optimize.minimize(terms, theta, jac=True, method="L-BFGS-B", bounds=bounds).x
        if theta[0] < lowest + 1.0:
            least = np.abs(residuals) <= 1e-9 * sd_prior.sigma
            raise DataError(
                f"sigma of family='student_t' goes to 0, as {least.mean():.0%} of {len(y)} responses lie on one line, "
                f"or plane, of {X.shape[1]} columns: there the posterior has no end. Give both numbers, as in "
                "'student_t(4, 1.3)', more rows, or leave out those of a response that many have"
            )
        sigma, freedom = np.exp(theta)
        beta = weighted_least_squares(X, y, w * (freedom + 1.0) / (freedom + (residuals / sigma) ** 2))
        if np.abs(theta - last).max() < tolerance:
            break
    return _ModeSearch(theta, beta, -terms(theta)[0] * w.sum(), terms, w.sum())


def _terms_of(
    residuals: FloatArray, w: FloatArray, n_features: int, given: tuple[HalfStudentT, float | None]
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Return minus the mean log density of log sigma and log nu given the residuals, with its gradient.

    Coefficients are integrated out: their sds are as sigma. `given` are the prior of sigma, and nu where it is known.
    """
    weight, (sd_prior, nu) = w.sum(), given

    def terms(theta: FloatArray) -> tuple[float, FloatArray]:
        sigma, freedom = np.exp(theta)
        family, eta = StudentT(freedom, sigma), residuals[:, None]
        value, slope, _ = log_sigma_terms(float(theta[0]), *sd_prior.table)
        gradient = np.array([slope + n_features + family.scale_slopes(eta, w)[0], 0.0])
        value += n_features * theta[0] + float(w @ family.log_p(residuals, 1))
        if nu is None:
            value += 2.0 * theta[1] - 0.1 * freedom
            gradient[1] = family.size_slopes(eta, w, w)[0] + family.prior_slope(theta[1])
        return -value / weight, -gradient / weight  # of the size of 1, so that first steps are short

    return terms
