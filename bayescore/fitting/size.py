r"""A fit whose family has a number that is a parameter: the size of negative binomial counts.

Given the size r a fit is as any other, and judged as any other. With theta = log r the posterior between some sizes
needs no more than sums over all rows, as Fisher's identity has it:

.. math:: \frac{d}{d\theta} \log p(\theta | y) = \frac{d}{d\theta} \log p(\theta)
          + E\Bigl[\sum_n w_n \frac{d}{d\theta} \log p(y_n | \eta_n, \theta) \Bigm| y, \theta\Bigr],

the mean over the draws at theta. So

1. a first fit, at r = 1, tells about where theta is: the size that is most likely at the means of a draw;
2. a fit there is the middle, and mean and variance of its draws' sums give slope and curvature, so mode and sd, of
   theta; where the mode is far off, the middle moves there;
3. fits are made outwards on both sides until the density has fallen to `_FALL` nats below that of the middle, or
   `_MOST_FITS` are there;
4. a spline through the slopes, integrated, is the log density of theta, which goes on beyond them as a normal one's;
5. theta is drawn from it, and the other parameters from the draws of the nearest fit, moved by polynomials in theta
   through means and log sds of all fits.

The prior is theta ~ N(0, 2^2): sizes from 0.02 to 50. Counts that are as spread as Poisson's tell no large
size; then the posterior there is the prior's.

Reference: Gelman and Meng (1998), Simulating normalizing constants: from importance sampling to bridge sampling to path
sampling, Statistical Science 13.
"""

import math
import time
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.interpolate import make_interp_spline

from bayescore.compat import as_xarray
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import terms_text
from bayescore.data.passes import map_stream
from bayescore.data.responses import events_of
from bayescore.diagnostics.elpd import sampled_counts, whole_counts
from bayescore.diagnostics.model_check import most_likely_size
from bayescore.families.family import check_family
from bayescore.families.negative_binomial import LARGEST_SIZE, SIZE_PRIOR_SD, NegativeBinomial
from bayescore.fitting.route import Route, Step, badness, usable
from bayescore.models.predictor import Predictor
from bayescore.samplers.posterior import read_posterior, with_draws
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

PRIOR = f"LogNormal(mu=0, sigma={SIZE_PRIOR_SD:g})"

_DIGITS = 6  # of sizes that fits are made at
_TURNS = 8  # of the search for the middle
_NEAR = 1.0  # sds from the mode that the middle may be
_WIDE = 0.1  # sd of theta from which the posterior is taken for skewed
_SAMPLE = 20_000  # counts that tell where to begin
_SEED = 2026  # of these, and of theta
_STEP = 0.05  # of theta, for a second difference
_MOST_FITS = 12
_FALL = {False: 2.8, True: 4.2}  # nats, of a posterior that is narrow and so nearly normal, and of one that is wide
_APART = {False: 2.4, True: 1.5}  # sds between fits
_STRETCH = 1.25  # of that from fit to fit
_BEYOND = 4.0  # sds beyond the last fits where the density ends
_GRID = 4001
_ERROR = 0.03  # of the mean of theta, in its sds, that draws whose sums are taken are enough for
_LEAST, _MOST = 32, 1000  # of these
_PREDICTORS = 1 << 18  # at a time


class Slope(NamedTuple):
    """The slope of the log posterior of theta, and the sd over draws of the sums that it is the mean of."""

    value: float
    spread: float

    @classmethod
    def of(cls, sums: FloatArray, log_size: float) -> "Slope":
        """Return the slope given the slopes of the log-likelihood at draws, shape (S,)."""
        return cls(float(sums.mean()) - log_size / SIZE_PRIOR_SD**2, float(sums.std(ddof=1)))


@dataclass(frozen=True, eq=False)
class SizeNode:
    """A fit given a size: the route to it, the draws to use, and the slope there."""

    log_size: float
    route: Route
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
        low, high = (_BEYOND / math.sqrt(bend) for bend in self._bends)
        points = np.linspace(self.ends[0] - low, min(self.ends[1] + high, math.log(LARGEST_SIZE)), _GRID)
        values = self(points)
        density = np.exp(values - values.max())
        total = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1])))
        return points, total / total[-1]


class SizesRoute(Route):
    """The way from rows to draws over which the size varies too."""

    first: Route | None = None  # the fit at the size 1
    tried = 0
    nodes: tuple[SizeNode, ...] = ()

    def run(self) -> None:
        """Make fits at some sizes; certificate, draws and story are those of all, the coreset is the middle one's."""
        data, begin = self.given.data, time.perf_counter()
        if self.given.once or (isinstance(data, Coreset) and data.method != "full"):
            raise DataError(
                "family='negative_binomial' has its size as a parameter, which needs rows that can be read again: give "
                "these, or the size, as in 'negative_binomial(2.5)'"
            )
        middle, mode, sd = self._middle()
        wide, n_draws = sd > _WIDE, _enough(middle.slope, sd)
        for sign in (-1.0, 1.0):
            at, step = mode, _APART[wide] * sd
            while len(self.nodes) < _MOST_FITS and (at := at + sign * step) < math.log(LARGEST_SIZE):
                node = self._node(at, n_draws)
                self.nodes = tuple(sorted((*self.nodes, node), key=lambda each: each.log_size))
                values = self.density()(np.array([each.log_size for each in self.nodes]))
                if values.max() - values[self.nodes.index(node)] > _FALL[wide]:
                    break
                step *= _STRETCH
        self._join(middle, time.perf_counter() - begin)

    def leaves(self, error: BaseException) -> bool:  # noqa: ARG002
        """Whether a run that an error ended has finished a fit of one size."""
        return bool(self.nodes)

    def ended(self) -> Route:
        """Return the route to the fit of one size, after a run that was interrupted."""
        return self.nodes[len(self.nodes) // 2].route

    def density(self) -> SizeDensity:
        """Return the density of theta by the fits so far."""
        return SizeDensity(
            np.array([node.log_size for node in self.nodes]), np.array([node.slope.value for node in self.nodes])
        )

    def _middle(self) -> tuple[SizeNode, float, float]:
        """Return the fit in the middle, and mode and sd of theta by the curvature there."""
        at = self._begin()
        for turn in range(_TURNS):
            route = self._drawn(at)
            sums = self._sums(route, route.drawn, _LEAST, at + _STEP * np.arange(-1.0, 2.0))
            slope, spread = Slope.of(sums[1], at), float(sums[1].var(ddof=1))
            bend = SIZE_PRIOR_SD**-2 - spread - float((sums[2] - sums[0]).mean()) / (2.0 * _STEP)
            sd = 1.0 / math.sqrt(max(bend, SIZE_PRIOR_SD**-2))
            if abs(slope.value) * sd <= _NEAR or turn == _TURNS - 1:
                break
            at = min(at + float(np.clip(slope.value * sd**2, -1.0, 1.0)), math.log(LARGEST_SIZE) - 1.0)
        node = self._node(at, _enough(slope, sd), route)
        self.nodes = (node,)
        return node, at + node.slope.value * sd**2, sd

    def _begin(self) -> float:
        """Return the log of about the size, by the means of a draw of the fit at the size 1."""
        self.first = route = self._drawn(0.0)
        if "effects_seed" in route.drawn.posterior.attrs:
            raise DataError(
                f"family='negative_binomial' has its size as a parameter, and {terms_text(route.core.groups)} more "
                "groups than effects are kept of: give the size, as in 'negative_binomial(2.5)'"
            )
        counts = sampled_counts(self.given.rows(route.core), check_family(route.core.family), _SAMPLE, _SEED)
        rows, events = counts.responses.rows, counts.responses.events
        assert events is not None
        y = events / rows.weights
        draw = read_posterior(route.drawn, "draws").predictor().take(slice(0, 1))
        size, top = most_likely_size(y, np.exp(draw.eta(rows)[:, 0])), 10.0 * max(float(y.mean()), 1.0)
        return math.log(top if size is None else min(size, top))  # of counts like Poisson's no more is known

    def _drawn(self, log_size: float) -> Route:
        """Return the way to draws given a size, not yet judged."""
        given, in_design = self.given, self.in_design
        if self.first is not None:
            given = replace(given, like=self.first.core, positive=None)
            in_design = self.first.design_prior()
        name = NegativeBinomial(float(f"{math.exp(log_size):.{_DIGITS}g}")).name
        asked: dict[str, Any] = {"in_design": in_design, "group_prior": self.group_prior, "options": self.options}
        route = Route(given, name, self.prior, self.seed + self.tried, self.max_seconds, **asked)
        self.tried += 1
        route.begin()
        route.draw()
        return route

    def _node(self, log_size: float, n_draws: int, route: Route | None = None) -> SizeNode:
        """Return the fit given a size, judged."""
        if route is None:
            route = self._drawn(log_size)
            route.given = replace(route.given, predictive=False)
        route.settle(sampled=True)
        idata = usable(route.drawn, route.certificate)
        sums = self._sums(route, idata, n_draws, np.array([log_size]))
        return SizeNode(log_size, route, idata, Slope.of(sums[0], log_size))

    def _sums(self, route: Route, idata: Any, n_draws: int, log_sizes: FloatArray) -> FloatArray:
        """Return slopes of the log-likelihood of all rows at sizes and draws, shape (K, S)."""
        return slopes_of(self.given.rows(route.core), read_posterior(idata, "draws").predictor(n_draws), log_sizes)

    def _join(self, middle: SizeNode, seconds: float) -> None:
        """Take the middle's coreset, the worst certificate, and draws over which the size varies."""
        route, sizes = middle.route, [math.exp(node.log_size) for node in self.nodes]
        worst = max((node.route.certificate for node in self.nodes), key=badness)
        draws = with_draws(middle.idata, varied(self.nodes, middle, self.density(), self.seed))
        span = f"{len(sizes)} fits of sizes from {sizes[0]:.3g} to {sizes[-1]:.3g}"
        self.certificate = worst._with(
            text=f"Of {span} this is the worst: {worst.text}", idata=draws, elpd_loo=math.nan, elpd_loo_se=math.nan
        )
        self.core = replace(
            route.core, params={**route.core.params, "size_sd": float(draws["posterior"]["size"].std())}
        )
        self.drawn = route.drawn
        self.drawn.posterior.attrs["size_prior"] = PRIOR
        passes = sum(step.passes for node in self.nodes for step in node.route.story)
        why = f"{span}, and the posterior between them; the steps above are those of {math.exp(middle.log_size):.3g}"
        self.story = [*route.story, Step("size", self.core.n_total, passes, seconds, why)]


def _enough(slope: Slope, sd: float) -> int:
    """Return how many draws tell the mean of theta, whose sd is given, to `_ERROR` of its sds."""
    return int(np.clip((slope.spread * sd / _ERROR) ** 2, _LEAST, _MOST))


def slopes_of(dataset: Dataset, draws: Predictor, log_sizes: FloatArray) -> FloatArray:
    """Return the slope in theta of the log-likelihood of all rows, at each size and draw, shape (K, S); one pass."""
    families = [NegativeBinomial(math.exp(each)) for each in log_sizes]

    def of_block(_: int, block: WeightedData) -> FloatArray:
        rows, events = events_of(block)
        y, found, step = events / rows.weights, np.zeros((len(families), len(draws))), _PREDICTORS // len(draws)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            some = rows.take(part)
            eta = draws.eta(some)
            found += [family.size_slopes(eta, y[part], some.weights) for family in families]
        return found

    blocks = map_stream(whole_counts(dataset.blocks()), of_block, None, dataset.cores)
    return reduce(add, dataset.tracked(blocks, "slopes of the size"))


def varied(nodes: tuple[SizeNode, ...], middle: SizeNode, density: SizeDensity, seed: int) -> xr.Dataset:
    """Return draws of theta, and of other parameters by those of the nearest fit, moved to where theta is."""
    sets = [as_xarray(node.idata["posterior"]) for node in nodes]
    shape = tuple(min(one.sizes[dim] for one in sets) for dim in ("chain", "draw"))
    n, rng = math.prod(shape), np.random.default_rng([_SEED, seed])
    points, share = density.grid()
    theta = rng.permutation(np.interp((np.arange(n) + rng.random(n)) / n, share, points)).reshape(shape)
    at = np.array([node.log_size for node in nodes])
    nearest = np.abs(theta[..., None] - at).argmin(axis=-1)
    base = sets[nodes.index(middle)].isel(chain=slice(shape[0]), draw=slice(shape[1]))
    found = {}
    for name, own in base.data_vars.items():
        dims = ("chain", "draw", *(dim for dim in own.dims if dim not in ("chain", "draw")))
        each = [one[name].transpose(*dims).values[: shape[0], : shape[1]] for one in sets]
        log, moves = str(name).startswith("sigma_"), str(name).startswith(("beta", "u_", "sigma_"))
        each = [np.log(values) for values in each] if log else each
        values = np.choose(nearest.reshape(*shape, *(1,) * (own.ndim - 2)), each) if len(each) < 32 else each[0]
        if moves:
            values = _moved(values, each, at, theta, nearest)
        found[str(name)] = (dims, np.exp(values) if log else values)
    found["size"] = (("chain", "draw"), np.exp(theta))
    attrs = {name: value for name, value in base.attrs.items() if name != "posterior_of"}
    made = f"moved between {len(nodes)} sizes"
    return base.assign(found).assign_attrs({**attrs, "size_prior": PRIOR, "corrected": made})


def _moved(
    values: FloatArray, each: list[FloatArray], at: FloatArray, theta: FloatArray, nearest: FloatArray
) -> FloatArray:
    """Return draws of the nearest fits moved along polynomials in theta through means, and log sds, of all fits."""
    means, sds = np.stack([one.mean(axis=(0, 1)) for one in each]), np.stack([one.std(axis=(0, 1)) for one in each])
    shape, scale = means.shape[1:], max(float(np.ptp(at)), 1e-9)
    curves = [
        np.polynomial.polynomial.polyfit((at - at.mean()) / scale, part.reshape(len(at), -1), min(degree, len(at) - 1))
        for part, degree in ((means, 2), (np.log(np.maximum(sds, np.finfo(float).tiny)), 1))
    ]

    def here(curve: FloatArray, places: FloatArray) -> FloatArray:
        found = np.polynomial.polynomial.polyval((places - at.mean()) / scale, curve)
        return np.moveaxis(found.reshape(*shape, *theta.shape), (-2, -1), (0, 1))

    (m_to, m_from), (s_to, s_from) = ([here(curve, places) for places in (theta, at[nearest])] for curve in curves)
    return np.asarray(m_to + np.exp(s_to - s_from) * (values - m_from))
