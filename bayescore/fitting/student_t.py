r"""A fit with Student t noise, whose scale sigma is a parameter, and whose degrees of freedom nu may be another.

Both are numbers of the family, and the posterior between fits at some of them is that of `fitting.size`: given nu,
fits at some sigmas; and where nu is a parameter, such fits at some nus, with the slope in log nu averaged over draws of
coefficients and sigma. So

1. rows are read as those of normal noise, whose sums tell the design and the default priors;
2. the mode of sigma, and of nu, given a sample of the rows, tells where both are. It begins at the least squares, and
   weighs rows by (nu + 1) / (nu + r^2 / sigma^2), r the residual, until nothing moves (Lange, Little and Taylor 1989,
   section 3);
3. fits go out from there, as of all families with a number.

theta is the log of nu, or of sigma over the responses' sd.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import optimize

from bayescore.coresets.build import check_no_groups
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.formula_parsing import parsed
from bayescore.families.family import Family, check_family
from bayescore.families.student_t import StudentT
from bayescore.fitting.route import FitOptions, Route, usable
from bayescore.fitting.size import RowSlopes, SizeNode, SizesRoute, moved_like, said_before
from bayescore.models.predictor import Predictor
from bayescore.numerics.chains import evenly_spaced
from bayescore.numerics.sampling import hash_uniforms
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

_SAMPLE = 200_000  # rows whose mode tells where to begin, where they are not all in memory
_FEW = 20_000  # rows whose mode tells where to seek that of more
_SEED = 2027
_TURNS = 100  # of the search for the mode
_STILL = 1e-4  # moves of logs of sigma and nu at which it ends
_NEAR = 0.1  # sds of log sigma, where the search began at the mode of fewer rows
_FARTHEST = 40.0  # of log sigma from that of the scale of its prior
_STEP = 1e-3  # of differences of slopes
_NU = -3.0, 9.0  # logs of nus that are sought
_MEDIAN = 1.4826  # sd over the median of sizes, of normal noise


class NoiseMode(NamedTuple):
    """The mode of log sigma and log nu; sds given the other number of log sigma, and of log nu over both."""

    log_sigma: float
    log_nu: float
    sd_sigma: float
    sd_nu: float
    beta: FloatArray


def route_between(family: str | Family) -> type[SizesRoute]:
    """Return the way to draws of a family whose number is a parameter."""
    family = check_family(family, seek=True)
    if not isinstance(family, StudentT):
        return SizesRoute
    return NuRoute if family.missing == "nu" else ScaleRoute


class ScaleRoute(SizesRoute):
    """The way to draws over which sigma varies, given nu."""

    some_rows: WeightedData | None = None  # a sample, in the design
    n_total: float  # that it stands for
    made: SizeNode  # the fit whose draws are moved
    pattern: tuple[SizeNode, ...] = ()  # fits at another nu, as whose draws those of this one go with sigma
    response_sd: float

    def settle(self, **_: Any) -> None:
        """Do nothing: `run` has settled the draws."""

    def prior_slope(self, log_size: float) -> float:
        """Return the slope of the log prior density of log sigma."""
        return log_sigma_terms(math.log(self.value(log_size)), *self._sd_prior.table)[1]

    def slopes_at(self, log_size: float, draws: Predictor) -> RowSlopes:  # noqa: ARG002
        """Return the slopes in log sigma."""
        family = cast(StudentT, self._family.completed(self.value(log_size)))
        return lambda eta, _, weights: family.scale_slopes(eta, weights)

    def about(self) -> dict[str, str]:
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

    def _begin(self) -> tuple[float, float | None]:
        if self.some_rows is None:
            self._prepare()
        self.unit = self.response_sd
        mode = self._mode(cast(StudentT, self._family).size)
        return mode.log_sigma - math.log(self.unit), mode.sd_sigma

    def _add_node(self, log_size: float, n_draws: int, share: float) -> SizeNode:
        """Make another fit, or move the first one's draws."""
        if not self.pattern:
            return super()._add_node(log_size, n_draws, share)
        assert self.middle is not None
        if len(self.nodes) == 1:
            self.made = self.nodes[0]
        idata = moved_like(self.pattern, self.made, log_size)
        slope = self._slopes(self.middle, idata, n_draws, np.array([log_size]))[0]
        return self._keep(SizeNode(log_size, self.made.certificate, idata, slope))

    def _prepare(self) -> None:
        """Read the rows as those of normal noise: their design, their default priors, and a sample of them."""
        options = replace(self.options, method=AUTO, size=AUTO, sampler=AUTO)
        self.first = first = Route(
            self.given, "normal", self.prior, self.seed, self.max_seconds, in_design=self.in_design, options=options
        )
        self.tried.append(first)
        first.begin()
        core = first.core
        response = core.design.response or moments_of_response(core)
        self.response_sd = response[1]
        family = StudentT(4.0, response[1]).name
        first.core = core = replace(core, design=replace(core.design, response=response), family=family, params={})
        with said_before():
            self.again = self._read_once(core)
            held = self.again.data if isinstance(self.again.data, Coreset) else None
            self.some_rows, self.n_total = held or sampled(self.again.rows(core)), core.weight_total
        self.passes += 1

    def _mode(self, nu: float | None) -> NoiseMode:
        assert self.some_rows is not None
        return noise_mode(self.some_rows, self.n_total, self._sd_prior, nu)


class NuRoute(ScaleRoute):
    """The way to draws over which nu and sigma vary: at some nus those of `ScaleRoute`."""

    def prior_slope(self, log_size: float) -> float:
        """Return the slope of the log prior density of log nu."""
        return self._family.prior_slope(log_size)

    def slopes_at(self, log_size: float, draws: Predictor) -> RowSlopes:
        """Return the slopes in log nu, at the sigmas of the draws."""
        return StudentT(self.value(log_size), 1.0).at(draws.size).size_slopes

    def about(self) -> dict[str, str]:
        """Return attributes of the draws: the prior of nu; that of sigma is there."""
        return super(ScaleRoute, self).about()

    def draws_of(self, route: Route) -> Any:
        """Return draws of all sigmas."""
        return usable(route.drawn, route.certificate)

    def _begin(self) -> tuple[float, float | None]:
        self._prepare()
        mode = self._mode(None)
        return mode.log_nu, mode.sd_nu

    @property
    def _few(self) -> FitOptions:
        """All draws are needed: sigma varies over them."""
        return self.options

    def _drawn(self, log_size: float, options: FitOptions) -> Route:
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
        route.first, route.again, route.response_sd = self.first, self.again, self.response_sd
        route.some_rows, route.n_total = self.some_rows, self.n_total
        if isinstance(self.middle, ScaleRoute):
            route.pattern = self.middle.nodes
        self.tried.append(route)
        with said_before():
            route.run()
        return route


def sampled(dataset: Dataset) -> WeightedData:
    """Return about `_SAMPLE` rows, chosen by a hash of their places; one pass."""
    share = min(1.0, _SAMPLE / max(dataset.source.n_rows, 1))

    def of_block(_: int, block: WeightedData) -> WeightedData:
        first = int(block.index.min())
        uniform = hash_uniforms(first, int(block.index.max()) - first + 1, _SEED)
        return block.take(uniform[block.index - first] < share)

    return stack(list(dataset.map(of_block, "drawing rows", canonical=True)))


def noise_mode(rows: WeightedData, weight: float, sd_prior: HalfStudentT, nu: float | None) -> NoiseMode:
    """Return the mode of log sigma and log nu, or of log sigma given nu, by rows that stand for a `weight`."""
    assert rows.offset is not None
    w, start = rows.weights * (weight / rows.weights.sum()), None
    if len(rows) > _FEW:
        start = noise_mode(rows.take(evenly_spaced(len(rows), _FEW)), weight, sd_prior, nu)
    y, u = -rows.offset, w
    theta = np.zeros(2)
    for turn in range(_TURNS):
        if turn == 0 and start is not None:
            beta, theta = start.beta, np.array([start.log_sigma, start.log_nu])
        else:
            root = np.sqrt(u)
            beta = np.linalg.lstsq(rows.X * root[:, None], y * root)[0]
        residuals = y - rows.X @ beta
        if turn == 0 and start is None:
            scale = _MEDIAN * float(np.median(np.abs(residuals))) or float(np.sqrt(np.average(residuals**2, weights=w)))
            theta = np.log([max(scale, np.finfo(float).tiny), nu or 4.0])
        terms, last = _terms_of(residuals, w, sd_prior, nu), theta
        widest = math.log(sd_prior.sigma)
        bounds = [(widest - _FARTHEST, widest + _FARTHEST), _NU if nu is None else (theta[1], theta[1])]
        theta = optimize.minimize(terms, theta, jac=True, method="L-BFGS-B", bounds=bounds).x
        sigma, freedom = np.exp(theta)
        u = w * (freedom + 1.0) / (freedom + (residuals / sigma) ** 2)
        if np.abs(theta - last).max() < (_STILL if start is None else _NEAR * start.sd_sigma):
            break
    bend = np.stack([(terms(theta + move)[1] - terms(theta - move)[1]) / (2.0 * _STEP) for move in _STEP * np.eye(2)])
    bend *= weight
    along = bend[1, 1] - bend[0, 1] ** 2 / max(bend[0, 0], 1e-9) if nu is None else 1.0
    sds = 1.0 / np.sqrt(np.maximum([bend[0, 0], along], 0.25))
    return NoiseMode(float(theta[0]), float(theta[1]), float(sds[0]), float(sds[1]), beta)


def _terms_of(
    residuals: FloatArray, w: FloatArray, sd_prior: HalfStudentT, nu: float | None
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Return minus the mean log density of log sigma and log nu given the residuals, with its gradient."""
    weight = w.sum()

    def terms(theta: FloatArray) -> tuple[float, FloatArray]:
        sigma, freedom = np.exp(theta)
        family, eta = StudentT(freedom, sigma), residuals[:, None]
        value, slope, _ = log_sigma_terms(float(theta[0]), *sd_prior.table)
        gradient = np.array([slope + family.scale_slopes(eta, w)[0], 0.0])
        value += float(w @ family.log_p(residuals, 1))
        if nu is None:
            value += 2.0 * theta[1] - 0.1 * freedom
            gradient[1] = family.size_slopes(eta, w, w)[0] + family.prior_slope(theta[1])
        return -value / weight, -gradient / weight  # of the size of 1, so that first steps are short

    return terms
