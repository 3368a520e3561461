r"""A fit whose family has a number that is a parameter: the size of negative binomial counts, the shape of a gamma.

Given this number, here the size r of any family, a fit is as any other, and judged as any other. With theta = log r
the posterior between some sizes needs no more than sums over all rows, as Fisher's identity has it:

.. math:: \frac{d}{d\theta} \log p(\theta | y) = \frac{d}{d\theta} \log p(\theta)
          + E\Bigl[\sum_n w_n \frac{d}{d\theta} \log p(y_n | \eta_n, \theta) \Bigm| y, \theta\Bigr],

the mean over the draws at theta. So

1. the mode of coefficients and theta, of a sample of the rows and then of all, tells where theta is (`size_mode`);
   with groups that at a draw of their effects, of a short fit at r = 1, tells it about;
2. a fit there is the middle, and the mean of its draws' sums gives the slope, so the mode, of theta; where that is far
   off, the middle moves there. Without the mode of all rows their variance gives the curvature, of few draws;
3. fits are made outwards on both sides until the density has fallen to `_FALL_NATS` nats below that of the best of
them,
   and between those that are too far apart. They have as many draws as are taken of them, or as a certificate takes;
4. a spline through the slopes, integrated, is the log density of theta, which goes on beyond them as a normal one's;
5. theta is drawn from it, and the other parameters from the draws of the nearest fit, moved by polynomials in theta
   through means and log sds of all fits.

Rows that fit in memory are read once, in the design of the first build: each fit reads them there.

Where the sums vary much over the draws, as those of censored times do, whose theta and intercept go together, their
regression on the draws' coefficients, and means of effects, at few draws tells the mean over all draws.

The prior is theta ~ N(0, 2^2): sizes from 0.02 to 50. Counts that are as spread as Poisson's tell no large
size; then the posterior there is the prior's.

Reference: Gelman and Meng (1998), Simulating normalizing constants: from importance sampling to bridge sampling to path
sampling, Statistical Science 13.

About where the number of a family is, before any fit at it: the mode of coefficients and theta, its logarithm.

Newton's method in theta, along the mode of coefficients given theta. With P the precision of coefficients there, and t
the slope of their score in theta, that mode moves by P^-1 t, and the log density along it bends by

.. math:: - \frac{d^2 \ell}{d\theta^2} - t' P^{-1} t + \frac{1}{s^2},

s the sd of theta's prior: one over the variance of theta in the normal approximation. Slopes of coefficients are
differences, and rows may be a sample.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.interpolate import make_interp_spline

from bayescore.compat import as_xarray
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.passes import map_stream
from bayescore.data.responses import TWO_SIDED, events_of, response_of
from bayescore.diagnostics.elpd import sampled_counts, whole_counts
from bayescore.diagnostics.results import Level
from bayescore.families.family import LARGEST_SIZE, SIZE_PRIOR_SD, Varying, check_exposure, check_family
from bayescore.fitting.route import FAILURES, FitOptions, Given, Route, Step, certificate_rank, usable_draws
from bayescore.limits import NEGLIGIBLE_ERROR
from bayescore.models.laplace import find_mode
from bayescore.models.posterior import likelihood_terms, posterior
from bayescore.models.predictor import Predictor
from bayescore.numerics.elementary import cumulative_shares
from bayescore.priors import Prior
from bayescore.priors.groups import default_prior
from bayescore.report.certify import Certificate
from bayescore.samplers.groups import COLLAPSED
from bayescore.samplers.posterior import SIZE_PRIOR, read_posterior, with_draws
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import DataError

MAX_LOG_SIZE = math.log(LARGEST_SIZE) - 0.1  # from 0, of theta


STEP = 0.05  # of theta, for a second difference


_NEWTON_STEPS = 12


_MODE_TOLERANCE = 1e-3  # sds from the mode of coefficients


_NEWTON_TOLERANCE = 0.02  # steps of theta after which Newton's method has arrived


class SizeMode(NamedTuple):
    """The mode: theta, coefficients, and the sd of theta."""

    log_size: float
    beta: FloatArray
    sd: float


def size_mode(
    rows: WeightedData, events: FloatArray, kind: type[Varying], prior: Prior, start: SizeMode | None = None
) -> SizeMode:
    """Return about the mode given rows of counts, or other numbers, and their events; raise if there is none."""
    sides = stack([rows, replace(rows, y=np.ones(len(rows), dtype=np.int8), weights=events)])
    y = events / rows.weights
    theta, beta, sd = start or _start_mode(rows, sides, y, kind, prior)
    for _ in range(_NEWTON_STEPS):
        below, here, above = (kind(math.exp(theta + move)) for move in (-STEP, 0.0, STEP))
        mode = find_mode(posterior(sides, here, prior).terms, beta, tolerance=_MODE_TOLERANCE)
        eta = Predictor(mode.beta[None]).eta(rows)
        slopes = [float(family.size_slopes(eta, y, rows.weights)[0]) for family in (below, here, above)]
        low, high = (likelihood_terms(mode.beta, sides, family).gradient for family in (below, above))
        tilt = (high - low) / (2.0 * STEP)
        along = mode.covariance @ tilt
        bend = (slopes[0] - slopes[2]) / (2.0 * STEP) - float(tilt @ along)
        sd = 1.0 / math.sqrt(max(bend, 0.0) + SIZE_PRIOR_SD**-2)
        move = float(np.clip((slopes[1] + here.prior_slope(theta)) * sd**2, -1.0, 1.0))
        theta, beta = float(np.clip(theta + move, -MAX_LOG_SIZE, MAX_LOG_SIZE)), mode.beta + move * along
        if abs(move) <= max(sd, _NEWTON_TOLERANCE):
            break
    return SizeMode(theta, beta, sd)


def _start_mode(rows: WeightedData, sides: WeightedData, y: FloatArray, kind: type[Varying], prior: Prior) -> SizeMode:
    """Return the mode of coefficients given the size 1, and the size that is most likely at their means."""
    family = kind(1.0)
    beta = find_mode(posterior(sides, family, prior).terms, np.zeros(rows.n_features), tolerance=_MODE_TOLERANCE).beta
    size = family.most_likely(y, np.exp(Predictor(beta[None]).eta(rows)[:, 0]))
    top = LARGEST_SIZE if kind.amounts else 10.0 * max(float(y.mean()), 1.0)
    at = math.log(top if size is None else min(size, top))  # of counts like Poisson's no more is known
    return SizeMode(float(np.clip(at, -MAX_LOG_SIZE, MAX_LOG_SIZE)), beta, SIZE_PRIOR_SD)


_DIGITS = 6  # of sizes that fits are made at


_MAX_ROUNDS = 12  # of the search for the middle


_TIED_VARIANCE = 4.0  # variance of sums, times that of theta, from which more fits tell what the draws of one do not


_MIDDLE_SDS = 1.0  # sds from the mode that the middle may be


_SKEWED_SD = 0.15  # sd of theta from which the posterior is taken for skewed


_SAMPLE = 20_000  # counts whose mode tells where to begin


_ROWS_BYTES = 1 << 27  # of rows that are read once, and kept in memory


_PILOT_DRAWS = 100  # of a chain of fits that search for the middle
_SHORT_TUNE = 200  # draws of warm-up of all fits but the middle one


_CERTIFIED_DRAWS = 1000  # draws that a certificate takes


_SPARE_DRAWS = 1.1  # more draws of a fit than are taken of it


_SEED = 2026  # of these, and of theta


_MOST_FITS = 7  # on each side


_EFFECTS_BYTES = 1 << 29  # of draws of effects at one size


_FALL_NATS = {False: 2.2, True: 3.0}  # of a posterior that is narrow and so nearly normal, and of one that is wide


_NODE_GAP_SDS = {False: 2.4, True: 1.6}  # sds between fits


_MAX_GAP_SDS = {False: 3.2, True: 2.4}  # of these at the end


_GAP_GROWTH = 1.25  # of that from fit to fit


_END_SDS = 4.0  # sds beyond the last fits where the density ends


_GRID = 4001


_MEAN_ERROR = 0.03  # of the mean of theta, in its sds, that draws whose sums are taken are enough for


_LEAST_DRAWS, _MOST_DRAWS = 32, 4000  # of these


_DRAWS_PER_REGRESSOR = 8  # draws for each number that sums are regressed on


_PREDICTORS = 1 << 18  # at a time


RowSlopes = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""The slope in theta of the log-likelihood of rows: predictors (n, S), responses and weights (n,) to shape (S,)."""


class Slope(NamedTuple):
    """The slope of the log posterior of theta, its standard error, and the sd of the sums that it is the mean of.

    Where these are regressed, the sd is that of what is left; `variance` is that of the sums.
    """

    value: float
    se: float
    spread: float
    variance: float

    @classmethod
    def of(cls, sums: FloatArray, of_prior: float) -> "Slope":
        """Return the slope given the slopes of the log-likelihood at draws, shape (S,), and that of the prior."""
        spread = float(sums.std(ddof=1))
        value = float(sums.mean()) + of_prior
        return cls(value, spread / math.sqrt(len(sums)), spread, float(sums.var(ddof=1)))

    @classmethod
    def by_regression(cls, sums: FloatArray, of_prior: float, known: FloatArray, every: FloatArray) -> "Slope":
        """Return the slope by regression of S sums on numbers at their draws, `known`, (S, P), and at `every` draw."""
        n, center = len(sums), every.mean(axis=0)
        columns = np.column_stack([np.ones(n), known - center])
        coefficients = np.linalg.lstsq(columns, sums)[0]
        residuals = sums - columns @ coefficients
        spread = math.sqrt(float(residuals @ residuals) / (n - columns.shape[1]))
        explained = float(((every - center) @ coefficients[1:]).var())
        value = float(coefficients[0]) + of_prior
        return cls(value, math.sqrt(spread**2 / n + explained / len(every)), spread, spread**2 + explained)


@dataclass(frozen=True, eq=False)
class SizeNode:
    """A fit given a size: its certificate, the draws to use, and the slope there."""

    log_size: float
    certificate: Certificate
    idata: Any
    slope: Slope


class SizeDensity:
    """The log density of theta, up to a constant, by its slopes at some points."""

    def __init__(self, points: FloatArray, slopes: FloatArray) -> None:
        self.ends = float(points[0]), float(points[-1])
        self._slope = make_interp_spline(points, slopes, k=min(3, len(points) - 1))
        self._value, bend = self._slope.antiderivative(), self._slope.derivative()
        chord = max(float(slopes[0] - slopes[-1]) / (self.ends[1] - self.ends[0]), SIZE_PRIOR_SD**-2)
        self._bends = [max(-float(bend(end)), 0.25 * chord) for end in self.ends]

    def __call__(self, theta: FloatArray) -> FloatArray:
        """Return the log density at points, beyond the ends as that of a normal one."""
        inside = np.clip(theta, *self.ends)
        over = theta - inside
        return np.asarray(
            self._value(inside) + self._slope(inside) * over - 0.5 * np.where(over < 0.0, *self._bends) * over**2
        )

    def grid(self) -> tuple[FloatArray, FloatArray]:
        """Return points, and the cumulative distribution there."""
        low, high = (_END_SDS / math.sqrt(bend) for bend in self._bends)
        points = np.linspace(self.ends[0] - low, min(self.ends[1] + high, math.log(LARGEST_SIZE)), _GRID)
        return points, cumulative_shares(self(points))

    @property
    def mean(self) -> float:
        """The mean."""
        points, share = self.grid()
        return float(np.diff(share) @ (0.5 * (points[1:] + points[:-1])))


class SizesRoute(Route):
    """The way from rows to draws over which the size varies too."""

    first: Route | None = None  # the build at the size 1, and with groups a short fit
    middle: Route | None = None
    nodes: tuple[SizeNode, ...] = ()
    regressed: bool = False  # whether sums are
    unit: float = 1.0  # of the number, whose logarithm theta is

    def run(self) -> None:
        """Make fits at some sizes; certificate, draws and story are those of all, the coreset is the middle one's."""
        self._check_given()
        self.begin_at, self.tried, self.passes = time.perf_counter(), list[Route](), 0
        mode, sd = self._find_middle()
        slope = self.nodes[0].slope
        wide, n_draws = sd > _SKEWED_SD or slope.variance * sd**2 > _TIED_VARIANCE, _draws_for_mean(slope, sd)
        ends = [self._add_nodes_outwards(sign, mode, sd, n_draws, wide=wide) for sign in (-1.0, 1.0)]
        if len(self.nodes) < 2:
            only = self.value(self.nodes[0].log_size)
            name = self._family.missing
            raise RuntimeError(f"only the fit of the {name} {only:.3g} was found: give it, or a prior that says more")
        self._add_nodes_between(n_draws, wide=wide)
        self._combine_nodes(complete=all(ends))

    def can_finish(self, error: BaseException) -> bool:  # noqa: ARG002
        """Whether a run that an error ended has draws at one size, in the middle of the posterior."""
        return self.middle is not None

    def finish(self) -> Route:
        """Return the route to the middle fit, of one size, after a run that was interrupted."""
        assert self.middle is not None
        return self.middle.finish()

    def density(self, off: FloatArray | float = 0.0) -> SizeDensity:
        """Return the density of theta by the fits so far, with slopes that are off by some numbers."""
        points, slopes = np.array([(node.log_size, node.slope.value) for node in self.nodes]).T
        return SizeDensity(points, slopes + off)

    def _mean_error(self) -> float:
        """Return the standard error of the mean of theta by those of the slopes."""
        mean, each = self.density().mean, np.diag([node.slope.se for node in self.nodes])
        return math.hypot(*(self.density(off).mean - mean for off in each))

    def _check_given(self) -> None:
        """Raise if rows cannot be read again, or have exposures."""
        given, name = self.given, self._family.missing
        if given.once or (isinstance(given.data, Coreset) and given.data.method != "full"):
            raise DataError(
                f"family={self.family!r} has its {name} as a parameter, which needs rows that can be read again: give "
                f"these, or the {name}, as in '{self._family.kind}({self._family.example})'"
            )
        check_exposure(self._family, given.roles.get("exposure"))

    @property
    def _family(self) -> Varying:
        """The family, without its size."""
        family = check_family(str(self.family), seek=True)
        assert isinstance(family, Varying)
        return family

    def _find_middle(self) -> tuple[float, float]:
        """Make the fit in the middle; return mode and sd of theta by the curvature there."""
        (at, known), move, last = self._start_theta(), 0.0, 0.0
        for _ in range(_MAX_ROUNDS):
            route = self._sampled_route(at, self.options if known else self._pilot_options)
            slope, sd = self._slope_and_sd(route, at, known)
            posterior = read_posterior(self.draws_of(route), "draws")
            if not self.regressed and _draws_for_mean(slope, sd) > _draws_for_regression(
                regressors(posterior.predictor())
            ):
                self.regressed = True
                slope, sd = self._slope_and_sd(route, at, known)
            known = None
            step = slope.value * sd**2
            if abs(step) <= _MIDDLE_SDS * sd:
                break
            most = 0.5 * abs(move) if step * last < 0.0 else 1.0
            # where the slope dies away as a power of the size Newton's steps stay as long as they were
            stays = step * last > 0.0 and abs(step) > 0.5 * abs(last)
            move, last = 2.0 * move if stays else float(np.clip(step, -most, most)), step
            at = float(np.clip(at + move, -MAX_LOG_SIZE, MAX_LOG_SIZE))
        if self._family.amounts and at >= MAX_LOG_SIZE:
            raise DataError(
                f"the {self._family.missing} of family={self.family!r} is above {self.value(at):.2g}, as the response "
                "hardly varies about its mean given the columns: look at it, or fit its logarithm by family='normal'"
            )
        self.middle = route
        if route.options is not self.options:  # few draws told where it is
            del route.story[1:]
            route.options, route.draws, route.tune = self.options, self.options.draws, self.options.tune
            with repeated_warnings_off():
                route.draw()
        route.sample_until_certified(sampled=True)
        self.nodes = (self._node(route, at, _draws_for_mean(slope, sd)),)
        mode = np.clip(at + self.nodes[0].slope.value * sd**2, at - 2.0 * sd, at + 2.0 * sd)
        return float(np.clip(mode, sd - MAX_LOG_SIZE, MAX_LOG_SIZE - sd)), sd

    def _start_theta(self) -> tuple[float, float | None]:
        """Return theta, and its sd, by the mode of coefficients and theta; of groups, at a draw of effects, no sd."""
        self.first = first = self._route(self.given, 0.0, self.options)
        first.begin()
        core, effects = first.core, Predictor(np.zeros((1, first.core.n_features)))
        if core.groups:
            first.draws, first.tune = self._pilot_options.draws, self._pilot_options.tune
            first.draw()
            self._check_effects(first)
            effects = replace(read_posterior(first.drawn, "draws").predictor().take(slice(0, 1)), beta=effects.beta)
        with repeated_warnings_off():
            self.again = self._read_once(core)
            found = sampled_counts(self.again.rows(core), check_family(core.family), _SAMPLE, _SEED)
            self.passes += 1
        rows, events = found.responses.rows, found.responses.events
        assert events is not None
        prior, kind = first.design_prior(), type(self._family)
        if prior.bends or not (prior.closed_form and prior.unimodal):
            prior = default_prior(core)
        try:
            mode = size_mode(replace(rows, offset=effects.eta(rows)[:, 0]), events, kind, prior)
            if found.n_rows > len(rows) and isinstance(self.again.data, Coreset) and not core.groups:
                mode = size_mode(*events_of(self.again.data), kind, prior, mode)
        except FAILURES:
            return 0.0, None
        return mode.log_size, None if core.groups else mode.sd

    def _check_effects(self, first: Route) -> None:
        """Raise if draws of all effects, which fits at each size keep, would take too much memory."""
        G = len(first.core.groups[0])
        taken = 8 * self.options.draws * self.options.chains * G
        if first.sampler == COLLAPSED.name and taken > _EFFECTS_BYTES:
            name = self._family.missing
            raise DataError(
                f"family={self.family!r} has its {name} as a parameter, and draws of the effects of {G:,} groups "
                f"take {taken / 1e9:.1f} GB for each of some {name}s: give the {name}, as in '{self.family}(2.5)'"
            )

    def _read_once(self, core: Coreset) -> Given:
        """Return the rows in the design of the first coreset: in memory, unless they would take too much."""
        again = replace(self.given, like=core, positive=None)
        if isinstance(again.data, Coreset) or 8 * core.n_total * core.n_features > _ROWS_BYTES:
            return again
        self.passes += 2
        return replace(again, data=again.everything(core.family), y=None, formula=None, like=None, roles={})

    @property
    def _pilot_options(self) -> FitOptions:
        """The options of short fits that search for the middle."""
        draws, tune = min(_PILOT_DRAWS, self.options.draws), min(_SHORT_TUNE, self.options.tune)
        return replace(self.options, draws=draws, tune=tune)

    def _node_options(self, share: float) -> FitOptions:
        """Return the options of a fit that a share of the draws of theta will be taken from."""
        least = math.ceil(_CERTIFIED_DRAWS / self.options.chains)
        draws = max(least, math.ceil(_SPARE_DRAWS * share * self.options.draws))
        return replace(self.options, draws=min(draws, self.options.draws), tune=min(_SHORT_TUNE, self.options.tune))

    def _route(self, given: Given, log_size: float, options: FitOptions) -> Route:
        """Return the way to draws given a size, not yet gone."""
        family = self._family.completed(self.rounded(log_size))
        in_design = self.in_design if self.first is None else self.first.design_prior()
        asked: dict[str, Any] = {"in_design": in_design, "group_prior": self.group_prior, "options": options}
        seed = self.seed
        if self.tried:
            seed = int(np.random.SeedSequence([self.seed, len(self.tried)]).generate_state(1)[0])
        route = Route(given, family.name, self.prior, seed, self.max_seconds, **asked)
        if self.first is not None and self.first.sampler == COLLAPSED.name:
            route.effects = len(self.first.core.groups[0])
        self.tried.append(route)
        return route

    def _sampled_route(self, log_size: float, options: FitOptions) -> Route:
        """Return the way to draws given a size, not yet judged."""
        route = self._route(self.again, log_size, options)
        with repeated_warnings_off():
            route.begin()
            route.draw()
        return route

    def _add_node(self, log_size: float, n_draws: int, share: float) -> SizeNode:
        """Make, judge and keep another fit given a size, that a share of the draws is nearest to."""
        route = self._sampled_route(log_size, self._node_options(share))
        route.given = replace(route.given, predictive=False)
        with repeated_warnings_off():
            route.sample_until_certified(sampled=True)
        return self._insert_node(self._node(route, log_size, n_draws))

    def _insert_node(self, node: SizeNode) -> SizeNode:
        """Keep a fit among the others, by its size."""
        self.nodes = tuple(sorted((*self.nodes, node), key=lambda each: each.log_size))
        return node

    def _node(self, route: Route, log_size: float, n_draws: int) -> SizeNode:
        """Return a fit that was judged, with the slope of theta there."""
        idata = usable_draws(route.drawn, route.certificate)
        return SizeNode(
            log_size, route.certificate, idata, self._slopes(route, idata, n_draws, np.array([log_size]))[0]
        )

    def _add_nodes_outwards(self, sign: float, mode: float, sd: float, n_draws: int, *, wide: bool) -> bool:
        """Make fits on one side until the density has fallen; return whether it has, or the largest size is reached."""
        at, step = mode, _NODE_GAP_SDS[wide] * sd
        for _ in range(_MOST_FITS):
            at += sign * step
            if abs(at) >= MAX_LOG_SIZE:
                return True
            try:
                node = self._add_node(at, n_draws, _normal_tail((abs(at - mode) - 0.5 * step) / sd))
            except FAILURES as error:
                assert self.middle is not None
                why = f"the fit of {self._family.missing} {self.value(at):.3g} failed: {error}"
                self.middle.story.append(Step("stop", 0, 0, 0.0, why))
                return False
            values = self.density()(np.array([each.log_size for each in self.nodes]))
            if values.max() - values[self.nodes.index(node)] > _FALL_NATS[wide]:
                return True
            step *= _GAP_GROWTH
        return False

    def _add_nodes_between(self, n_draws: int, *, wide: bool) -> None:
        """Make fits between those that lie too far from each other where the posterior is."""
        for _ in range(_MOST_FITS):
            points, share = self.density().grid()
            low, left, right, high = np.interp([0.01, 0.16, 0.84, 0.99], share, points)
            gaps = [
                (b.log_size - a.log_size, 0.5 * (a.log_size + b.log_size))
                for a, b in pairwise(self.nodes)
                if a.log_size < high and b.log_size > low
            ]
            gap, between = max(gaps, default=(0.0, 0.0))
            if gap <= 0.5 * _MAX_GAP_SDS[wide] * (right - left):
                return
            self._add_node(between, n_draws, 0.5)

    def _slope_and_sd(self, route: Route, log_size: float, sd: float | None = None) -> tuple[Slope, float]:
        """Return the slope at the size of a fit that is not yet judged, and the sd of theta by the curvature there.

        Where the sd is known it is that.
        """
        if sd is not None:
            return self._slopes(route, self.draws_of(route), _LEAST_DRAWS, np.array([log_size]))[0], sd
        below, slope, above = self._slopes(
            route, self.draws_of(route), _LEAST_DRAWS, log_size + STEP * np.arange(-1.0, 2.0)
        )
        bend = (below.value - above.value) / (2.0 * STEP)
        return slope, 1.0 / math.sqrt(max(bend - slope.variance, SIZE_PRIOR_SD**-2))

    def _slopes(self, route: Route, idata: Any, n_draws: int, log_sizes: FloatArray) -> list[Slope]:
        """Return the slopes at sizes, over the draws of a fit."""
        posterior = read_posterior(idata, "draws")
        every = regressors(posterior.predictor()) if self.regressed else None
        if every is None or (least := _draws_for_regression(every)) > len(every):
            pairs = zip(self._sums(route, idata, n_draws, log_sizes), log_sizes, strict=True)
            return [Slope.of(sums, self.prior_slope(log_size)) for sums, log_size in pairs]
        n_draws = max(n_draws, least)
        known = regressors(posterior.predictor(n_draws))
        pairs = zip(self._sums(route, idata, n_draws, log_sizes), log_sizes, strict=True)
        return [Slope.by_regression(sums, self.prior_slope(log_size), known, every) for sums, log_size in pairs]

    def _sums(self, route: Route, idata: Any, n_draws: int, log_sizes: FloatArray) -> FloatArray:
        """Return slopes of the log-likelihood of all rows at sizes and draws, shape (K, S)."""
        self.passes += 1
        with repeated_warnings_off():
            draws = read_posterior(idata, "draws").predictor(n_draws).for_rows(route.core.n_total)
            slopes = [self.slopes_at(each, draws) for each in log_sizes]
            return size_slope_sums(self.again.rows(route.core), draws, slopes, self._family.missing)

    def draws_of(self, route: Route) -> Any:
        """Return the draws of a fit that may not be judged yet."""
        return route.drawn

    def value(self, log_size: float) -> float:
        """Return the number at theta."""
        return self.unit * math.exp(log_size)

    def rounded(self, log_size: float) -> float:
        """Return the number that a fit is made at."""
        return float(f"{self.value(log_size):.{_DIGITS}g}")

    def prior_slope(self, log_size: float) -> float:
        """Return the slope of the log prior density of theta."""
        return self._family.prior_slope(log_size)

    def slopes_at(self, log_size: float, draws: Predictor) -> RowSlopes:  # noqa: ARG002
        """Return what gives the slopes of rows' log-likelihood at theta and draws."""
        return self._family.completed(self.value(log_size)).size_slopes

    def draw_attrs(self) -> dict[str, str]:
        """Return attributes of the draws: the prior of the number."""
        return {SIZE_PRIOR: self._family.number_prior}

    def _combine_nodes(self, *, complete: bool) -> None:
        """Take the middle's coreset, the worst certificate, and draws over which the size varies."""
        route, sizes, name = self.middle, [self.value(node.log_size) for node in self.nodes], self._family.missing
        assert route is not None
        node = next(each for each in self.nodes if each.certificate is route.certificate)
        theta, moved = draws_between_fits(self.nodes, node, self.density(), self.seed)
        number = (("chain", "draw"), self.unit * np.exp(theta))
        about = {**moved.attrs, **self.draw_attrs(), "corrected": f"moved between {len(sizes)} {name}s"}
        draws = with_draws(node.idata, moved.assign({name: number}).assign_attrs(about))
        error = self._mean_error() / float(theta.std())
        worst = max((each.certificate for each in self.nodes), key=certificate_rank)
        fits = len({id(each.certificate) for each in self.nodes})
        made = f"{fits} fits of" if fits > 1 else "a fit, moved to"
        span = f"{made} {name}s from {sizes[0]:.3g} to {sizes[-1]:.3g}"
        text, level = f"Of {span} this is the worst: {worst.text}", worst.level
        if not complete:
            text, level = (
                f"Of {span} the last do not reach where the posterior of the {name} ends; give it.",
                Level.NOT_CERTIFIED,
            )
        elif error > NEGLIGIBLE_ERROR:
            said = f"tell the mean of its logarithm to {error:.2g} sd (limit {NEGLIGIBLE_ERROR:g}): give more draws"
            text, level = f"{span.capitalize()} {said}, or the {name}. {worst.text}", Level.NOT_CERTIFIED
        dispersion = node.certificate.dispersion
        # the elpd is that of one size; 0 rows say that there is none
        whole = {"elpd_loo": math.nan, "elpd_loo_se": math.nan, "elpd_loo_rows": 0, "dispersion": dispersion}
        self.certificate = worst._with(level=level, text=text, idata=draws, **whole)
        self.core, self.drawn = route.core, route.drawn
        self.drawn.posterior.attrs.update(self.draw_attrs())
        passes = self.passes + sum(step.passes for one in self.tried if one is not route for step in one.story)
        seconds = time.perf_counter() - self.begin_at - sum(step.seconds for step in route.story)
        why = f"{span}, and the posterior between them; the steps above are those of {self.value(node.log_size):.3g}"
        self.story = [*route.story, Step(name, self.core.n_total, passes, seconds, why)]


@contextmanager
def repeated_warnings_off() -> Iterator[None]:
    """Silence warnings of rows, labels and draws, which the first fits have given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _normal_tail(z: float) -> float:
    """Return the share of a normal distribution beyond z sds."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _draws_for_mean(slope: Slope, sd: float) -> int:
    """Return how many draws give the mean of theta a standard error of `_MEAN_ERROR` of its sd, which is given."""
    return int(np.clip((slope.spread * sd / _MEAN_ERROR) ** 2, _LEAST_DRAWS, _MOST_DRAWS))


def regressors(draws: Predictor) -> FloatArray:
    """Return numbers that sums over rows vary with, shape (S, P): coefficients, means of effects, log of a scale."""
    at = slice(None) if draws.at is None else draws.at
    means = [own.effects[at].mean(axis=1) for own in draws.factors if isinstance(own.effects, np.ndarray)]
    numbers = [] if draws.size is None else [np.log(draws.size)]
    return np.column_stack([draws.beta, *means, *numbers])


def _draws_for_regression(numbers: FloatArray) -> int:
    """Return how many draws the regression of sums on numbers, shape (S, P), needs."""
    return max(_LEAST_DRAWS, _DRAWS_PER_REGRESSOR * (1 + int(numbers.shape[1])))


def size_slope_sums(dataset: Dataset, draws: Predictor, slopes: Sequence[RowSlopes], name: str) -> FloatArray:
    """Return the slope in theta of the log-likelihood of all rows, at each size and draw, shape (K, S); one pass."""
    two_sided = response_of(dataset.design.classes) in TWO_SIDED

    def of_block(_: int, block: WeightedData) -> FloatArray:
        rows, events = events_of(block) if two_sided else (block, block.weights)
        y, found, step = events / rows.weights, np.zeros((len(slopes), len(draws))), _PREDICTORS // len(draws)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            some = rows.take(part)
            eta = draws.eta(some)
            found += [slope(eta, y[part], some.weights) for slope in slopes]
        return found

    blocks = whole_counts(dataset.blocks()) if two_sided else dataset.blocks()
    return reduce(add, dataset.tracked(map_stream(blocks, of_block, None, dataset.cores), f"slopes of the {name}"))


def draws_between_fits(
    nodes: tuple[SizeNode, ...], middle: SizeNode, density: SizeDensity, seed: int
) -> tuple[FloatArray, xr.Dataset]:
    """Return draws of theta, shape (chain, draw), and of other parameters: the nearest fit's, moved to where it is."""
    sets = [as_xarray(node.idata["posterior"]) for node in nodes]
    base = sets[nodes.index(middle)]
    shape = base.sizes["chain"], base.sizes["draw"]
    n, rng = math.prod(shape), np.random.default_rng([_SEED, seed])
    points, share = density.grid()
    theta = rng.permutation(np.interp((np.arange(n) + rng.random(n)) / n, share, points))
    at = np.array([node.log_size for node in nodes])
    nearest = np.abs(theta[:, None] - at).argmin(axis=1)
    found = {}
    for name, own in base.data_vars.items():
        dims = ("chain", "draw", *(dim for dim in own.dims if dim not in ("chain", "draw")))
        each = [one[name].transpose(*dims).values for one in sets]
        each = [values.reshape(-1, *values.shape[2:]) for values in each]
        log, moves = str(name).startswith("sigma"), str(name).startswith(("beta", "u_", "sigma"))
        each = [np.log(values) for values in each] if log else each
        values = np.empty((n, *each[0].shape[1:]))
        for k, there in enumerate(each):
            mine = np.flatnonzero(nearest == k)
            values[mine] = there[np.arange(len(mine)) * len(there) // max(len(mine), 1)]
        if moves:
            values = _moved(values, each, at, theta, nearest)
        values = values.reshape(*shape, *values.shape[1:])
        found[str(name)] = (dims, np.exp(values) if log else values)
    moved = base.assign(found)
    moved.attrs.pop("posterior_of", None)
    return theta.reshape(shape), moved


def moved_like(pattern: tuple[SizeNode, ...], node: SizeNode, log_size: float) -> Any:
    """Return the draws of a fit moved to another theta nearby, as those of other fits, the pattern, go with theta."""
    at = np.array([each.log_size for each in pattern])
    middle = int(np.abs(at - node.log_size).argmin())
    base = as_xarray(node.idata["posterior"])
    beta = [as_xarray(each.idata["posterior"])["beta"].transpose("chain", "draw", ...).values for each in pattern]
    each = [values.reshape(-1, values.shape[2]) for values in beta]
    own = base["beta"].transpose("chain", "draw", ...)
    values = own.values.reshape(-1, own.shape[2])
    off = values.mean(axis=0) - each[middle].mean(axis=0)
    theta = np.full(len(values), at[middle] + log_size - node.log_size)
    moved = off + _moved(values - off, each, at, theta, np.full(len(values), middle))
    return with_draws(node.idata, base.assign(beta=own.copy(data=moved.reshape(own.shape))))


def _moved(
    values: FloatArray, each: list[FloatArray], at: FloatArray, theta: FloatArray, nearest: FloatArray
) -> FloatArray:
    """Return draws of the nearest fits moved along polynomials in theta through means, and log sds, of all fits."""
    means, sds = np.stack([one.mean(axis=0) for one in each]), np.stack([one.std(axis=0) for one in each])
    shape, scale = means.shape[1:], max(float(np.ptp(at)), 1e-9)
    curves = [
        np.polynomial.polynomial.polyfit((at - at.mean()) / scale, part.reshape(len(at), -1), min(degree, len(at) - 1))
        for part, degree in ((means, 2), (np.log(np.maximum(sds, np.finfo(float).tiny)), 1))
    ]

    def curve_at(curve: FloatArray, places: FloatArray) -> FloatArray:
        found = np.polynomial.polynomial.polyval((places - at.mean()) / scale, curve)
        return np.moveaxis(found.reshape(*shape, len(theta)), -1, 0)

    (m_to, m_from), (s_to, s_from) = ([curve_at(curve, places) for places in (theta, at[nearest])] for curve in curves)
    return np.asarray(m_to + np.exp(s_to - s_from) * (values - m_from))
