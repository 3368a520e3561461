"""The sampler of numbers whose noise has an unknown sd: sds first, then coefficients and effects exactly.

Without groups sigma has one dimension: draws are independent, by the inverse of its distribution on a grid. Under
other priors than normal ones `langevin` moves coefficients and log sigma.

With groups (log sigma, log sds, correlations) have a few dimensions (`models.normal`). A mixture of Student t about
weighed points fits them so well (adaptive importance sampling; Cappé, Guillin, Marin and Robert 2004, Population Monte
Carlo; West 1993, Mixture models, Monte Carlo, Bayesian updating and dynamic models) that chains of its independent
proposals accept most. Coefficients and effects are then drawn given these, independently of each other.

Where a density of sds takes long, rows and levels are so many that sigma is known to a hundredth. Then `collapsed` or
`joint` draws the rest given its mode, sigma is drawn by its standard error, and sds of effects follow it.

When to use it: family="normal", where it is the default unless there are groups and a prior that is not normal.
"""

import json
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, special

from bayescore.compiled import jit_sums
from bayescore.data.coreset import Coreset
from bayescore.data.design import one_intercept
from bayescore.families.family import check_family
from bayescore.families.normal import Gaussian
from bayescore.models.normal import GroupSdPosterior, NoiseSdPosterior, SdMode, correlations_of
from bayescore.models.posterior import add_predictors, add_scores, log_joint_density, posterior, prior_terms
from bayescore.models.predictor import Factor, Predictor
from bayescore.priors.groups import log_sigma_terms
from bayescore.priors.prior import Part
from bayescore.progress import progress
from bayescore.samplers.adaptive import ChainPlan, run_langevin
from bayescore.samplers.groups import (
    COLLAPSED,
    JOINT,
    add_group_attrs,
    check_effects,
    check_groups,
    coords_of,
    dims_of,
    intraclass_correlation,
)
from bayescore.samplers.langevin import Dense, long_tailed_coefficients
from bayescore.samplers.method import CLOSED_FORM, Request, Sampler, mode_and_factor
from bayescore.types import FloatArray

_ALTERNATIONS = 4  # of the mode of coefficients and sigma at the residuals there
_DF = 5.0
_FIRST_INFLATION = 1.3  # than the curvature at the mode, of the first proposals
_BEND_SDS = 2.0  # sds below the mode, from where a log sd's tail is bent
_ROUNDS = 300, 600, 1200  # points weighed
_KERNELS = 400
_DEFENSIVE = 0.1  # share of proposals as wide as all points
_PIECE = 256  # points at a time
_MIN_EFFICIENCY = 0.3  # effective draws for each proposal, from which none is thinned
_MOST_THIN = 4
_MAX_SECONDS = 1.5e-3  # seconds of a density: with 4 chains of 1,000 draws some twenty
_NORMAL_FROM_DF = 2000.0  # degrees of freedom, from which sigma's own distribution is as good as normal


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of Student t about centers, shape (M, k), with L, and one that is wider, about their middle."""

    centers: FloatArray
    factor: FloatArray
    middle: FloatArray
    wide: FloatArray

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return points, shape (n, k)."""
        k = len(self.factor)
        steps = rng.standard_normal((n, k)) * np.sqrt(_DF / rng.chisquare(_DF, n))[:, None]
        near = self.centers[rng.integers(len(self.centers), size=n)] + steps @ self.factor.T
        return np.where(rng.random((n, 1)) < _DEFENSIVE, self.middle + steps @ self.wide.T, near)

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density at points, up to a constant that all mixtures share."""
        near = special.logsumexp(_student(points[:, None] - self.centers, self.factor), axis=1)
        wide = _student(points - self.middle, self.wide) + math.log(_DEFENSIVE)
        return np.asarray(np.logaddexp(near + math.log((1.0 - _DEFENSIVE) / len(self.centers)), wide))

    @classmethod
    def about(cls, points: FloatArray, log_weights: FloatArray, before: FloatArray, rng: np.random.Generator) -> Any:
        """Return the mixture near weighed points; `before` is a covariance that counts as much as 2 k of them."""
        k, w = points.shape[1], np.exp(log_weights - special.logsumexp(log_weights))
        size, middle = 1.0 / float(w @ w), w @ points
        rest = points - middle
        covariance = (size * (rest.T * w) @ rest + 2.0 * k * before) / (size + 2.0 * k)
        h = (4.0 / (k + 2.0) / size) ** (1.0 / (k + 4.0))
        centers = points[rng.choice(len(w), size=_KERNELS, p=w)]
        factor: FloatArray = np.linalg.cholesky(covariance).astype(np.float64)
        shrunk = middle + math.sqrt(max(1.0 - h**2, 0.0)) * (centers - middle)  # so that the spread stays
        return cls(shrunk, min(h, 1.0) * factor, middle, 1.5 * factor)


def _student(steps: FloatArray, factor: FloatArray) -> FloatArray:
    k = len(factor)
    white = linalg.solve_triangular(factor, steps.reshape(-1, k).T, lower=True)
    square = (white**2).sum(axis=0).reshape(steps.shape[:-1])
    return np.asarray(-0.5 * (_DF + k) * np.log1p(square / _DF) - np.log(np.diagonal(factor)).sum())


@dataclass(frozen=True, eq=False)
class BentDensity:
    """The density of sds and correlations in coordinates t in which the left tails of log sds are those of a normal.

    As the sd of effects falls to 0 the likelihood is constant, and the density of s = log sd falls as exp(s): far too
    slowly for a mixture of Student t about points nearby. Below b, s = t - (t - b)^2 / 2; elsewhere s = t.
    """

    target: GroupSdPosterior
    bend: FloatArray  # b, (k,); -inf where a coordinate is no log sd of effects

    @classmethod
    def of(cls, target: GroupSdPosterior, mode: SdMode) -> "BentDensity":
        """Return the density that is bent below two sds from the mode."""
        places = np.concatenate([np.r_[each] for each in target.log_sds.values()])
        bend = np.full(len(mode.point), -np.inf)
        bend[places] = mode.point[places] - _BEND_SDS * np.sqrt(np.diagonal(mode.covariance)[places])
        return cls(target, bend)

    def points(self, t: FloatArray) -> FloatArray:
        """Return log sigma, log sds and z at t, shape (n, k)."""
        return t - 0.5 * np.minimum(t - self.bend, 0.0) ** 2

    def log_densities(self, t: FloatArray) -> FloatArray:
        """Return the log density at t, shape (n,), a piece at a time."""
        pieces = np.array_split(self.points(t), max(len(t) // _PIECE, 1))
        values = np.concatenate([self.target.log_densities(piece) for piece in pieces])
        return np.asarray(values + np.log1p(-np.minimum(t - self.bend, 0.0)).sum(axis=1))


def fit_proposals(density: BentDensity, mode: SdMode, rng: np.random.Generator) -> tuple[Mixture, FloatArray, int]:
    """Return proposals of t, points to start from, and how many proposals make a draw."""
    factor = np.asarray(np.linalg.cholesky(mode.covariance), dtype=np.float64)
    made = [Mixture(mode.point[None], _FIRST_INFLATION * factor, mode.point, 2.0 * _FIRST_INFLATION * factor)]
    points, values = np.empty((0, len(factor))), np.empty(0)
    for n in _ROUNDS:
        new = made[-1].draw(n, rng)
        points, values = np.concatenate([points, new]), np.append(values, density.log_densities(new))
        shares = np.log(np.array(_ROUNDS[: len(made)]) / len(points))
        log_q = special.logsumexp([one.log_density(points) + a for one, a in zip(made, shares, strict=True)], axis=0)
        made.append(Mixture.about(points, values - log_q, mode.covariance, rng))
    last = np.exp((values - made[-1].log_density(points))[-_ROUNDS[-1] :] - (values - log_q).max())
    w = np.exp(values - log_q - special.logsumexp(values - log_q))
    worth = float(last.sum() ** 2 / (last @ last) / len(last))
    thin = min(max(math.ceil(_MIN_EFFICIENCY / worth), 1), _MOST_THIN)
    return made[-1], points[rng.choice(len(w), size=64, p=w)], thin


class SigmaArguments(NamedTuple):
    """What `rows_density` takes after the point and the gradient."""

    columns: FloatArray  # of X, shape (D, n)
    weights: FloatArray
    offset: FloatArray  # minus the numbers
    prior: tuple[Part, ...]
    nu: float  # of the prior of sigma
    scale: float


@jit_sums
def rows_density(theta: FloatArray, gradient: FloatArray, rows: SigmaArguments) -> float:
    """Return the log density of coefficients and log sigma, and write its gradient."""
    weights = rows.weights
    D = theta.size - 1
    beta = theta[:D].copy()
    slope, scores = np.zeros(D), np.zeros(D)
    total = prior_terms(beta, rows.prior, slope)
    eta = np.zeros(weights.size)
    add_predictors(beta, rows.columns, rows.offset, eta)
    square, weight, precision = 0.0, 0.0, math.exp(-2.0 * theta[D])
    for n in range(weights.size):
        square += weights[n] * eta[n] * eta[n] * precision
        weight += weights[n]
        eta[n] *= -weights[n] * precision
    add_scores(rows.columns, eta, scores)
    value, steep, _ = log_sigma_terms(theta[D], rows.nu, rows.scale)
    for d in range(D):  # a slice assigned to a slice compiles the text of an error about their shapes
        gradient[d] = slope[d] + scores[d]
    gradient[D] = square - weight + steep
    return float(total - 0.5 * square - weight * theta[D] + value)


class NormalSampler(Sampler):
    """The declaration of the sampler."""

    def draw(self, request: Request) -> Any:
        """Return draws of beta, sigma and, with groups, of u_g, sigma_g and rho_g for each factor g."""
        core, sd_prior = request.data, request.sd_prior
        assert sd_prior is not None
        if core.group is None:
            drawn = self._draw_without_groups(request) if request.prior.gaussian else self._draw_by_langevin(request)
            draws = dict(zip(("beta", "sigma"), drawn, strict=True))
            predictor = Predictor(draws["beta"].reshape(-1, core.n_features), size=draws["sigma"].ravel())
            return self._as_inference_data(request, draws, predictor)
        if not request.prior.gaussian:
            raise ValueError(
                f"sampler='normal' with groups needs a normal prior, not {request.prior}: use sampler='nuts'"
            )
        groups, group_prior = check_groups(core), request.options["group_prior"]
        assert isinstance(core, Coreset)
        target = GroupSdPosterior.of(core, request.prior, group_prior, sd_prior)
        mode = target.find_mode(float(check_family(request.family).unit))
        if target.seconds_per_density > _MAX_SECONDS and 0.5 / mode.covariance[0, 0] > _NORMAL_FROM_DF:
            return self._draw_about_mode(request, target, mode)
        check_effects(request, core.n_features + sum(len(group) * len(group.effects) for group in groups), "effects")
        draws = self._draw_chains(request, target, mode)
        flat_ones = {name: each.reshape(-1, *each.shape[2:]) for name, each in draws.items()}
        factors = [Factor.of(group, flat_ones) for group in groups]
        predictor = Predictor(flat_ones["beta"], factors, core.design, size=flat_ones["sigma"])
        if one_intercept(groups):
            name = groups[0].name
            draws[f"icc_{name}"] = intraclass_correlation(draws[f"sigma_{name}"], draws["sigma"] ** 2)
        return self._as_inference_data(request, draws, predictor)

    def _as_inference_data(self, request: Request, draws: dict[str, FloatArray], predictor: Predictor) -> Any:
        """Return draws with their log densities, and attributes that say what they are of."""
        groups = () if request.data.group is None else check_groups(request.data)
        family, group_prior = check_family(request.family), request.options["group_prior"]
        priors = request.prior, group_prior, request.sd_prior
        lp = log_joint_density(predictor, request.data, family, priors).reshape(draws["sigma"].shape)
        idata = request.idata(draws, {"lp": lp}, coords_of(groups), dims_of(groups))
        if groups:
            of_groups = sorted(name for name in draws if name not in ("beta", "sigma") and not name.startswith("icc_"))
            add_group_attrs(idata, groups, group_prior, of_groups)
        return idata

    def _draw_without_groups(self, request: Request) -> tuple[FloatArray, FloatArray]:
        """Return independent draws of the coefficients, shape (chains, draws, D), and of sigma."""
        assert request.sd_prior is not None
        target = NoiseSdPosterior.of(request.data, request.prior, request.sd_prior)
        chains = [target.draw(request.draws, np.random.default_rng(stream)) for stream in request.streams[:-1]]
        return np.stack([beta for beta, _ in chains]), np.stack([sd for _, sd in chains])

    def _draw_by_langevin(self, request: Request) -> tuple[FloatArray, FloatArray]:
        """Return the same where the prior is not normal, by `langevin` on coefficients and log sigma."""
        rows, sd_prior, sd = request.data, request.sd_prior, float(check_family(request.family).unit)
        assert sd_prior is not None
        weight, D = float(rows.weights.sum()), rows.n_features
        for _ in range(_ALTERNATIONS):
            mode, factor = mode_and_factor(posterior(rows, Gaussian(sd), request.prior))
            sd = math.sqrt(float(rows.weights @ rows.with_offset(rows.X @ mode) ** 2) / weight)
        arguments, prior = request.target().arguments(), request.prior
        data = SigmaArguments(arguments.columns, arguments.weights, arguments.offset, prior.parts(D), *sd_prior.table)
        center, scale = np.append(mode, math.log(sd)), np.zeros((D + 1, D + 1))
        scale[:D, :D], scale[D, D] = factor, math.sqrt(0.5 / weight)
        frame = Dense.of(rows_density, data, center, scale, long_tailed_coefficients(mode, factor, prior, D))
        drawn = run_langevin(frame, ChainPlan.of(request, "sampling coefficients and sigma"))
        return drawn.theta[..., :D], np.exp(drawn.theta[..., D])

    def _draw_chains(self, request: Request, target: GroupSdPosterior, mode: SdMode) -> dict[str, FloatArray]:
        """Return variables of models with groups, shape (chains, draws, ...) each."""
        core = request.data
        assert isinstance(core, Coreset)
        rng = np.random.default_rng(request.streams[-1])
        density = BentDensity.of(target, mode)
        proposals, starts, thin = fit_proposals(density, mode, rng)
        chains, n = [], request.draws * thin
        with progress(request.progressbar, "sampling sds", request.chains * n) as bar:
            for c, stream in enumerate(request.streams[:-1]):
                generator = np.random.default_rng(stream)
                points = np.concatenate([starts[c % len(starts)][None], proposals.draw(n, generator)])
                ratios, accept = (
                    density.log_densities(points) - proposals.log_density(points),
                    np.log(generator.random(n)),
                )
                places, now = np.empty(n, dtype=np.int64), 0
                for place in range(n):
                    now = place + 1 if accept[place] < ratios[place + 1] - ratios[now] else now
                    places[place] = now
                chains.append(self._draw_given_sds(target, density.points(points[places[thin - 1 :: thin]]), generator))
                bar.advance(n)
        return {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}

    def _draw_given_sds(
        self, target: GroupSdPosterior, points: FloatArray, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Return variables of a chain, given its points, shape (n, k): coefficients and effects are drawn."""
        pieces = np.array_split(points, max(len(points) // _PIECE, 1))
        beta, effects = zip(*(target.draw_effects(piece, rng) for piece in pieces), strict=True)
        draws = {"beta": np.concatenate(beta), "sigma": np.exp(points[:, 0])}
        for f, (factor, B) in enumerate(zip(target.rows.factors, target.unpack(points).factors, strict=True)):
            (sd, R), q = correlations_of(B), len(factor.effects)
            u = np.concatenate([each[f] for each in effects])
            draws |= {f"u_{factor.name}": u if q > 1 else u[:, :, 0], f"sigma_{factor.name}": sd if q > 1 else sd[:, 0]}
            i, j = factor.pairs
            if i.size:
                draws[f"rho_{factor.name}"] = R[:, i, j]
        return draws

    def _draw_about_mode(self, request: Request, target: GroupSdPosterior, mode: SdMode) -> Any:
        """Return draws given the coreset's sigma, moved to draws of sigma by its standard error; sds of effects follow.

        Log sds move with log sigma as in the normal distribution that the mode has.
        """
        from bayescore.compat import as_xarray  # xarray is slow to import, and builders do without it

        groups = check_groups(request.data)
        sampler = COLLAPSED if one_intercept(groups) else JOINT
        asked = {name: option for name, option in request.options.items() if name in sampler.options}
        idata = sampler.draw(replace(request, sd_prior=None, options=sampler.checked_options(asked)))
        del idata["sample_stats"]["lp"]  # of other parameters
        source, rng = as_xarray(idata["posterior"]), np.random.default_rng(request.streams[-1].spawn(1)[0])
        log_se, sd_given = math.sqrt(mode.covariance[0, 0]), float(check_family(request.family).unit)
        log_sd = mode.point[0] + log_se * rng.standard_normal((request.chains, request.draws))
        source["sigma"] = (("chain", "draw"), np.exp(log_sd))
        for group in groups:
            name = f"sigma_{group.name}"
            moves = mode.covariance[0, target.log_sds[group.name]] / log_se**2
            sd = source[name]
            factor = np.exp((log_sd - math.log(sd_given))[..., None] * moves).reshape(*log_sd.shape, *sd.shape[2:])
            source[name] = sd.copy(data=sd.transpose("chain", "draw", ...).values * factor)
            if (icc := f"icc_{group.name}") in source:
                correlation = intraclass_correlation(source[name].values, source["sigma"].values ** 2)
                source[icc] = source[icc].copy(data=correlation)
        idata["posterior"] = source
        add_group_attrs(idata, groups, request.options["group_prior"], sorted(json.loads(source.attrs["effects_of"])))
        return idata


NORMAL = NormalSampler(
    name="normal",
    about="for numbers whose noise has an unknown sd: sds first, then coefficients and effects exactly given these",
    **CLOSED_FORM,
    options=COLLAPSED.options,
    grouped=None,
    draws_sd=True,
)
