r"""The prior of the bends of smooth terms: independent normal with one sd for each term, which has a half t prior.

Of a term with K bends, whose coefficients in units of the data's own columns are b, and their sd sigma,

.. math:: b \mid \sigma \sim N(0, \sigma^2 I), \qquad
          \pi(b) = \int_0^\infty (2 \pi \sigma^2)^{-K/2} e^{-|b|^2 / 2 \sigma^2} \, \pi(\sigma) \, d\sigma

The integral is a sum over log(sigma / |b|), so that pi(b), its gradient -E[1 / sigma^2 | b] b and its curvature need no
sigma: all that is asked of draws of coefficients, such as their certificate, goes by this density. It has a pole at
b = 0, so that no mode is sought under it (`unimodal` is False).

Reference: Gelman (2006), Prior distributions for variance parameters in hierarchical models, Bayesian Analysis 1.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, Self, cast

import numpy as np

from bayescore.data.design import Design, bend_columns
from bayescore.priors.by_name import ByName, prior_from_dict
from bayescore.priors.normal import Normal
from bayescore.priors.prior import OF_DESIGN, Independent, Part, Prior
from bayescore.types import FloatArray
from bayescore.validation import DataError

_STEP = 0.05
_GRID = np.arange(-4.0, 14.0, _STEP)  # of log(sigma / |b|): e^-14 of the mass is beyond, of two bends
_EDGES = np.append(_GRID, _GRID[-1] + _STEP) - 0.5 * _STEP  # of the grid's cells
_TILE = 4096  # draws at a time
_LEAST = 1e-150  # |b|, below which squares underflow


@dataclass(frozen=True)
class Bends:
    """The bends of one smooth term.

    Parameters
    ----------
    term : str
        As in the formula, "s(age)".
    places : tuple of int, length K
        Their places among the coefficients.
    scales : tuple of float, length K
        Coefficients of the design's columns for coefficients of 1 of the data's own: sds of the columns.
    nu, scale : float
        Of the half t prior of sigma; nu is infinite where that is half normal.
    """

    term: str
    places: tuple[int, ...]
    scales: tuple[float, ...]
    nu: float
    scale: float

    @property
    def name(self) -> str:
        """What sigma is called."""
        return f"sigma_{self.term}"

    @property
    def prior_text(self) -> str:
        """The prior of sigma in words."""
        kind = "HalfNormal(" if math.isinf(self.nu) else f"HalfStudentT(nu={self.nu:g}, "
        return f"{kind}sigma={self.scale:.4g})"

    def raw(self, beta: FloatArray) -> FloatArray:
        """Return the coefficients b of the data's own columns, shape (..., K)."""
        return np.asarray(beta[..., list(self.places)] / np.array(self.scales))

    def squares(self, beta: FloatArray) -> FloatArray:
        """Return |b|^2, shape (...)."""
        return np.asarray((self.raw(beta) ** 2).sum(axis=-1))

    def summands(self, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sigma on a grid, and the log of its density times that of b, each of shape (..., grid)."""
        log_sigma, K = _log_norms(squares)[..., None] + _GRID, len(self.places)
        t = np.exp(2.0 * (log_sigma - math.log(self.scale)))
        if math.isinf(self.nu):
            of_sigma = 0.5 * math.log(2.0 / math.pi) - 0.5 * t
        else:
            half = 0.5 * (self.nu + 1.0)
            constant = (
                math.log(2.0) + math.lgamma(half) - math.lgamma(0.5 * self.nu) - 0.5 * math.log(self.nu * math.pi)
            )
            of_sigma = constant - half * np.log1p(t / self.nu)
        of_sigma += math.log(_STEP / self.scale) - 0.5 * K * math.log(2.0 * math.pi)
        return np.exp(log_sigma), of_sigma - (K - 1.0) * log_sigma - 0.5 * np.exp(-2.0 * _GRID)

    def log_density(self, beta: FloatArray) -> FloatArray:
        """Return the log density of the coefficients of the design's columns, shape (...)."""

        def of_tile(squares: FloatArray) -> FloatArray:
            _, terms = self.summands(squares)
            peak = terms.max(axis=-1)
            return np.asarray(peak + np.log(np.exp(terms - peak[..., None]).sum(axis=-1)))

        return _apply_in_tiles(of_tile, self.squares(beta)) - float(np.log(self.scales).sum())

    def precisions(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the variance of 1 / sigma^2 given b, shape (...) each."""

        def of_tile(squares: FloatArray) -> FloatArray:
            sigma, terms = self.summands(squares)
            share = np.exp(terms - terms.max(axis=-1, keepdims=True))
            share /= share.sum(axis=-1, keepdims=True)
            mean = (share / sigma**2).sum(axis=-1)
            return np.stack([mean, (share / sigma**4).sum(axis=-1) - mean**2], axis=-1)

        both = _apply_in_tiles(of_tile, self.squares(beta))
        return both[..., 0], both[..., 1]

    def quantiles(self, sds: FloatArray, beta: FloatArray) -> FloatArray:
        """Return the probability of a smaller sigma given the coefficients, shape (...): uniform over draws of both."""
        squares = self.squares(beta)
        log_ratios = (np.log(sds) - _log_norms(squares)).reshape(-1)
        probabilities = [np.interp(at, _EDGES, cdf) for at, cdf in zip(log_ratios, self._cdfs(squares), strict=True)]
        return np.reshape(probabilities, sds.shape)

    def sds_of_quantiles(self, quantiles: FloatArray, beta: FloatArray) -> FloatArray:
        """Return the sigma that has a quantile given the coefficients, shape (...)."""
        squares = self.squares(beta)
        logs = [np.interp(p, cdf, _EDGES) for p, cdf in zip(quantiles.reshape(-1), self._cdfs(squares), strict=True)]
        return np.asarray(np.exp(np.reshape(logs, quantiles.shape) + _log_norms(squares)))

    def moved_sds(self, sds: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
        """Return sigma, shape (...), for coefficients that were moved from `before` to `after`.

        Its quantile given the coefficients stays, so that draws of both remain draws of both.
        """
        return self.sds_of_quantiles(self.quantiles(sds, before), after)

    def _cdfs(self, squares: FloatArray) -> Iterator[FloatArray]:
        """Yield the distribution function of sigma / |b| at the edges of the grid's cells, for each |b|^2 in turn."""
        flat = squares.reshape(-1)
        for start in range(0, len(flat), _TILE):
            _, terms = self.summands(flat[start : start + _TILE])
            share = np.exp(terms - terms.max(axis=-1, keepdims=True)).cumsum(axis=-1)
            yield from np.pad(share / share[:, -1:], ((0, 0), (1, 0)))


def _log_norms(squares: FloatArray) -> FloatArray:
    return np.asarray(0.5 * np.log(np.maximum(squares, _LEAST**2)))


def _apply_in_tiles(function: Callable[[FloatArray], FloatArray], squares: FloatArray) -> FloatArray:
    """Return function(squares), some at a time, as each takes a grid: of shape (...) or with more axes at the end."""
    flat = squares.reshape(-1)
    made = np.concatenate([function(flat[start : start + _TILE]) for start in range(0, len(flat), _TILE)])
    return np.asarray(made.reshape((*squares.shape, *made.shape[1:])))


@dataclass(frozen=True, repr=False)
class Smooths(Prior):
    """The prior of all coefficients of a model with smooth terms: that of the bends, and `base` of the `others`.

    `parts` are those of the others alone, for kernels that have sigma beside the coefficients.
    """

    base: Independent
    others: tuple[int, ...]  # places of the coefficients that are no bends
    bends: tuple[Bends, ...]

    unimodal = False
    of_design = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "finite_variance", self.base.finite_variance)

    def __repr__(self) -> str:
        return f"{self.base}, bends: {', '.join(f'{each.name} ~ {each.prior_text}' for each in self.bends)}"

    @property
    def n_features(self) -> int:
        """Number of all coefficients."""
        return len(self.others) + sum(len(each.places) for each in self.bends)

    def table(self, n_features: int) -> NoReturn:
        """Raise: there is a table of each part."""
        raise NotImplementedError

    def parts(self, n_features: int) -> tuple[Part, ...]:
        """Return the parts of the coefficients that are no bends."""
        if n_features != self.n_features:
            raise ValueError(f"prior: {self} was made for {self.n_features} coefficients, and there are {n_features}")
        others = np.array(self.others)
        return tuple((prior, others[places], table) for prior, places, table in self.base.parts(len(others)))

    def log_density(self, beta: FloatArray) -> FloatArray:
        """Return the log density, every sigma integrated out."""
        bends = sum(each.log_density(beta) for each in self.bends)
        return np.asarray(self.base.log_density(beta[..., list(self.others)]) + bends)

    def gradient(self, beta: FloatArray) -> FloatArray:
        """Return its gradient."""
        gradient, others = np.empty_like(beta), list(self.others)
        gradient[..., others] = self.base.gradient(beta[..., others])
        for each in self.bends:
            mean = each.precisions(beta)[0][..., None]
            gradient[..., list(each.places)] = -mean * each.raw(beta) / np.array(each.scales)
        return gradient

    def precision(self, beta: FloatArray) -> FloatArray:
        """Return minus its Hessian."""
        precision, others = np.zeros((len(beta), len(beta))), list(self.others)
        precision[np.ix_(others, others)] = self.base.precision(beta[others])
        for each in self.bends:
            (mean, variance), b = each.precisions(beta), each.raw(beta)
            of_bends = mean * np.eye(len(b)) - variance * np.outer(b, b)
            precision[np.ix_(each.places, each.places)] = of_bends / np.outer(each.scales, each.scales)
        return precision

    def given(self, sds: FloatArray) -> Independent:
        """Return the prior given each sigma, which has a mode."""
        priors: dict[int, Prior] = {
            place: self.base.of_coefficient(d, str(place), len(self.others)) for d, place in enumerate(self.others)
        }
        for each, sigma in zip(self.bends, sds, strict=True):
            priors |= {d: Normal(0.0, scale * float(sigma)) for d, scale in zip(each.places, each.scales, strict=True)}
        return join_priors([priors[d] for d in range(self.n_features)])

    def of_coefficient(self, d: int, name: str, n_features: int) -> Prior:
        """Return the prior of a coefficient; of a bend that of all."""
        return self.base.of_coefficient(self.others.index(d), name, len(self.others)) if d in self.others else self

    def distribution(self, n_features: int) -> NoReturn:
        """Raise: `variable` has a graph with sigma."""
        raise NotImplementedError

    def variable(self, near: Callable[[], tuple[FloatArray, FloatArray]] | None = None) -> Any:
        """Add sigma, standardised bends, the other coefficients, and `beta` to the model of the `with` block."""
        import pymc as pm
        import pytensor.tensor as pt

        kind, parameters = self.base.distribution(len(self.others))
        others = kind("beta_others", shape=len(self.others), **parameters)
        beta = pt.set_subtensor(pt.zeros(self.n_features)[list(self.others)], others)
        for each in self.bends:
            normal = math.isinf(each.nu)
            half, sd = (pm.HalfNormal if normal else pm.HalfStudentT), {"sigma": each.scale}
            sd |= {} if normal else {"nu": each.nu}
            sigma = half(each.name, **sd)
            standard = pm.Normal(f"bends_standardised_{each.term}", shape=len(each.places))
            beta = pt.set_subtensor(beta[list(each.places)], np.array(each.scales) * sigma * standard)
        return pm.Deterministic("beta", beta, dims="feature")

    def to_dict(self) -> dict[str, Any]:
        """Return base and bends as plain JSON values."""
        bends = [{**asdict(each), "nu": None if math.isinf(each.nu) else each.nu} for each in self.bends]
        return {"kind": type(self).__name__, "base": self.base.to_dict(), "others": list(self.others), "bends": bends}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Return the prior that `to_dict` wrote."""
        bends = tuple(
            Bends(each["term"], tuple(each["places"]), tuple(each["scales"]), each["nu"] or math.inf, each["scale"])
            for each in stored["bends"]
        )
        return cls(cast(Independent, prior_from_dict(stored["base"])), tuple(stored["others"]), bends)


def join_priors(each: list[Prior]) -> Independent:
    """Return one prior of coefficients, given that of each."""
    if all(type(prior) is Normal for prior in each):
        return Normal(*(tuple(float(getattr(prior, name)) for prior in each) for name in ("mu", "sigma")))
    return ByName(tuple((str(d), prior) for d, prior in enumerate(each)), tuple(range(len(each))))


def check_goes_with_smooths(prior: Prior, term: str) -> None:
    """Raise unless coefficients that are no bends may have a prior: one of independent coefficients with one mode."""
    if not (isinstance(prior, Independent) and prior.unimodal):
        raise DataError(
            f"prior is a {type(prior).__name__}, which does not go with {term}, whose coefficients have a prior of "
            "their own; give Normal, StudentT, Cauchy or Laplace, or a dict by names"
        )


def with_smooths(prior: Prior, design: Design, sd_prior: tuple[float, float]) -> Prior:
    """Return the prior of all coefficients of a design, given one of those that are no bends.

    `prior` has entries for bends, too, which do not count; `sd_prior` has degrees of freedom and scale of sigma's.
    """
    if not design.smooths or isinstance(prior, Smooths):
        return prior
    check_goes_with_smooths(prior, design.smooths[0])
    assert isinstance(prior, Independent)
    scales, names, D = design.scales, design.names, len(design.names)
    places = {term: bend_columns(design, term) for term in design.smooths}
    bends = tuple(Bends(term, tuple(at.tolist()), tuple(scales[at].tolist()), *sd_prior) for term, at in places.items())
    others = np.setdiff1d(np.arange(D), np.concatenate(list(places.values()))).tolist()
    return Smooths(join_priors([prior.of_coefficient(d, names[d], D) for d in others]), tuple(others), bends)


OF_DESIGN[Smooths.__name__] = Smooths.from_dict
