r"""Predicted errors of a coreset: its posterior against the full data's, by the same draws moved to both (`paired`).

The draws are weighted independent draws of the coreset's normal approximation, if at least half of them are effective;
else draws of its posterior by MALA, or with many columns by `batched_hmc`. They are moved to the full data's mode and
Hessian, where the full data's log-likelihood is needed: it comes from its second-order expansion and a sample of rows
(`laplace.with_remainders`) if the sample's standard error is below the tolerance, else from a pass over all rows. The
same draws then judge any other weighted rows too.

A pass over all rows also finds the rows that move the log-likelihood over the draws, for a sample that knows the tails.

Draws of a posterior with many columns, all at once by matrix products.

Each is moved from the mode by a few trajectories of Hamiltonian Monte Carlo (Neal 2011) in coordinates u,
theta = mode + L u, where the posterior is round. Steps of 2 / D^(1/4) keep the acceptance at about 0.7 in any
dimension (Beskos et al. 2013). As many are made as take a quarter of a period: a normal posterior has then forgotten
where it began. The first trajectory makes the start and is not accepted or rejected: from the mode it ends about where
the posterior is, skewed as that is, where draws of the normal approximation may lie beyond a wall that none gets over.

When to use it: for some hundred draws where a gradient is two products of wide matrices, so that a chain, which takes
them one draw at a time, is bound by memory: 2.8 s in place of MALA's 10.2 on 6,020 rows of w8a, 301 columns. Draws are
independent of each other.

References
----------
Beskos, Pillai, Roberts, Sanz-Serna and Stuart (2013), Optimal tuning of the hybrid Monte Carlo algorithm, Bernoulli 19.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from bayescore.compiled import available_cores
from bayescore.data.dataset import Dataset
from bayescore.data.passes import csr_if_sparse
from bayescore.families import Family
from bayescore.limits import MIN_ESS_SHARE
from bayescore.models.laplace import Expansion, Transport, factor_of_inverse
from bayescore.models.posterior import (
    WIDE,
    TargetDensity,
    log_likelihood_tiles,
    log_likelihoods,
    moments_over_draws,
    posterior,
    prior_part,
    values_and_scores,
    width_precision,
)
from bayescore.numerics.moments import Errors, WeightedDraws, errors_between, importance
from bayescore.numerics.sampling import CandidatePool, Candidates, Threshold, candidates
from bayescore.priors import Prior
from bayescore.samplers import mala
from bayescore.samplers.method import Advance, mode_and_precision, run_chains
from bayescore.types import FloatArray, WeightedData

TRAJECTORIES = 4  # after the first: where it is off by something, 0.3^4 of the draws keep that, at this acceptance


STEP = 2.0  # times D^(-1/4)


LONGEST = 0.5  # step, in sds: at least three of them to a quarter of a period, so that skewness bends the path


LEAST_ACCEPTED = 0.5  # of a trajectory, below which steps are shortened


SHORTER = 0.7  # times


_TOGETHER = 125  # draws that are moved together: fixed, so that bits do not depend on the number of threads


def batched_hmc(
    target: TargetDensity, mode: FloatArray, scale: FloatArray, n_draws: int, seed: np.random.SeedSequence
) -> tuple[FloatArray, FloatArray]:
    """Return draws of a posterior, shape (n_draws, D), and its log density there, shape (n_draws,).

    `mode`, shape (D,), is its mode and `scale`, shape (D, D), L with L L' the covariance of its normal approximation.
    """
    density = _WhitenedDensity(target, mode, scale)
    sizes = [min(_TOGETHER, n_draws - begin) for begin in range(0, n_draws, _TOGETHER)]
    with ThreadPoolExecutor(available_cores()) as pool:
        moved = list(pool.map(density.drawn, sizes, map(np.random.default_rng, seed.spawn(len(sizes)))))
    return np.concatenate([mode + u @ scale.T for u, _ in moved]), np.concatenate([value for _, value in moved])


class _WhitenedDensity:
    """The log density in whitened coordinates, at many points."""

    def __init__(self, target: TargetDensity, mode: FloatArray, scale: FloatArray) -> None:
        self.target, self.mode, self.scale = target, mode, scale
        X = target.rows.X
        few = csr_if_sparse(X)
        self.sparse = issparse(few)  # rows that have few entries stay as they are, and the points are moved back
        self.eta, self.rows = target.rows.with_offset(X @ mode), few if self.sparse else few @ scale

    def at(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log density at points, shape (S, D), and its gradients, shape (S, D)."""
        moves = u @ self.scale.T
        beta, prior = self.mode + moves, self.target.prior
        points = moves if self.sparse else u
        value, slope = values_and_scores(points, self.eta, self.rows, self.target.rows, self.target.family)
        gradient = prior.gradient(beta) @ self.scale
        return value + prior.log_density(beta), gradient + (slope @ self.scale if self.sparse else slope)

    def drawn(self, n_draws: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return draws, shape (n_draws, D), and the log density there, shape (n_draws,)."""
        u = np.zeros((n_draws, len(self.mode)))
        value, gradient = self.at(u)
        step = min(LONGEST, STEP * len(self.mode) ** -0.25)
        for trajectory in range(1 + TRAJECTORIES):
            momentum = rng.standard_normal(u.shape)
            point, slope, value_ahead = u, gradient, value
            energy = value - 0.5 * np.vecdot(momentum, momentum)
            for _ in range(max(1, round(0.5 * math.pi / step))):
                momentum += 0.5 * step * slope
                point = point + step * momentum
                value_ahead, slope = self.at(point)
                momentum += 0.5 * step * slope
            gain = value_ahead - 0.5 * np.vecdot(momentum, momentum) - energy
            probability = np.exp(np.minimum(np.nan_to_num(gain, nan=-math.inf), 0.0))
            accepted = (rng.random(n_draws) < probability) | (trajectory == 0)
            u = np.where(accepted[:, None], point, u)
            gradient, value = np.where(accepted[:, None], slope, gradient), np.where(accepted, value_ahead, value)
            if trajectory > 0 and probability.mean() < LEAST_ACCEPTED:
                step *= SHORTER
        return u, value


N_DRAWS = 500


DRAWS = 6.0  # how much the log-likelihoods at the draws count, all together, beside the other totals (`totals`)


NORMAL_ESS_SHARE = 0.5  # of the draws, that must count for those of the normal approximation to do


_CHAINS = 2


_LONG = 800  # draws of warm-up that finds the scale of a posterior far wider than its mode says


@dataclass(frozen=True, eq=False)
class Base:
    """Draws, shape (S, D), about the posterior of some rows, their log density, shape (S,), and its mode and precision.

    `log_weights`, shape (S,), make them draws of that posterior: 0 where they are, other than 0 of normal draws.
    """

    draws: FloatArray
    log_density: FloatArray
    mode: FloatArray
    precision: FloatArray
    log_weights: FloatArray

    def moved(self, mode: FloatArray, precision: FloatArray) -> FloatArray:
        """Return the draws moved to another mode and minus the Hessian there."""
        return Transport.between(self.mode, self.precision, mode, precision)(self.draws)


@dataclass(frozen=True, eq=False)
class FullDataPosterior:
    """A posterior of the full data: link, prior and the log-likelihood's expansion about the mode."""

    family: Family
    prior: Prior
    expansion: Expansion

    far_reaching: ClassVar[bool] = False  # whether chains must find mass of a coreset's posterior far from its mode

    def log_prior(self, draws: FloatArray) -> FloatArray:
        """Return the log prior density at draws, shape (S,)."""
        return self.prior.log_density(draws)

    def at_mode(self) -> tuple[FloatArray, FloatArray]:
        """Return the mode of the full data's posterior, by a Newton step from nearby, and its `width_precision`."""
        at, part = self.expansion.at, self.expansion.part
        terms = part + prior_part(at, self.prior)
        return at + np.linalg.solve(terms.precision, terms.gradient), width_precision(part.precision, at, self.prior)

    def mode_and_precision_of(self, rows: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return the same of the posterior of `rows`."""
        return mode_and_precision(posterior(rows, self.family, self.prior), self.expansion.at, tolerance=1e-4)

    def weighted_draws(
        self, rows: WeightedData, base: Base, at: tuple[FloatArray, FloatArray] | None = None
    ) -> WeightedDraws:
        """Return the base's draws moved to the posterior of `rows`, weighed; `at` is its mode and precision."""
        draws = base.moved(*(self.mode_and_precision_of(rows) if at is None else at))
        values = log_likelihoods(draws, rows, self.family) + self.log_prior(draws)
        return WeightedDraws(draws, values - base.log_density)


@dataclass(frozen=True, eq=False)
class Trial:
    """`rows` tried out: the base's draws moved to the full data's posterior, and the log-likelihood there, shape (S,).

    `error` is the standard error of the log-likelihoods' differences; 0 once all rows were passed over, which also
    finds `candidates` and the `total` of their probabilities.
    """

    problem: FullDataPosterior
    rows: WeightedData
    base: Base
    full: WeightedDraws
    values: FloatArray
    error: float
    candidates: Candidates | None = None
    total: float = math.nan

    def weighted_draws(self, rows: WeightedData) -> WeightedDraws:
        """Return the base's draws moved to the posterior of `rows`, and weighed; known of the rows tried out."""
        if rows is self.rows:
            return WeightedDraws(self.base.draws, self.base.log_weights)
        return self.problem.weighted_draws(rows, self.base)

    def errors(self, rows: WeightedData) -> Errors:
        """Return the errors to expect of the posterior of `rows`.

        Where the draws do not cover both posteriors, the sd of the log weights stands for all: it tells that they are
        far apart, not how far.
        """
        log_ratios = self.weighted_draws(rows)
        if min(log_ratios.ess, self.full.ess) < MIN_ESS_SHARE * len(log_ratios.draws):
            spread = float((self.full.log_weights - log_ratios.log_weights).std())
            return Errors(spread, spread, spread)
        return errors_between(log_ratios, self.full)

    def shape_error(self, rows: WeightedData) -> float:
        """Return what is left of the errors of `rows` where mode and Hessian are mended: their posterior's shape.

        It is what rows that know of the tails are drawn for.
        """
        weighted = WeightedDraws(self.full.draws, self.weighted_draws(rows).log_weights)
        if min(weighted.ess, self.full.ess) < MIN_ESS_SHARE * len(self.values):
            return math.inf
        errors = errors_between(weighted, self.full)
        return max(errors.mean, errors.sd)

    def probability(self, rows: WeightedData) -> FloatArray:
        """Return w sd_s l(theta_s), shape (n,): how much each row moves the log-likelihood over the draws."""
        return np.concatenate([moves for _, _, moves in _moves(self.full.draws, rows, self.problem.family)])

    def shares_and_totals(self, rows: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return the rows' shares in the centred log-likelihoods at the draws, shape (S, m), and the full data's.

        Draws count by their importance, so that far-off ones do not rule the fit.
        """
        u = tempered(self.full.log_weights)
        scale = DRAWS * np.sqrt(u)
        tiles = log_likelihood_tiles(self.full.draws, rows, self.problem.family)
        each = np.concatenate([part for _, part in tiles])
        each = rows.weights[:, None] * (each - (each @ u)[:, None])
        return (each * scale).T, scale * (self.values - self.values @ u)

    def over_all_rows(self, dataset: Dataset, *, draw_seed: int, size: int) -> "Trial":
        """Return the trial with the log-likelihood of all rows, and up to `size` rows that may join; one pass."""
        draws, family = self.full.draws, self.problem.family
        pool, bar = CandidatePool(size), Threshold()

        def one(start: int, block: WeightedData) -> tuple[FloatArray, float, Candidates]:
            total, parts = np.zeros(len(draws)), []
            for w, log_p, moves in _moves(draws, block, family):
                total += w @ log_p
                parts.append(moves)
            p = np.concatenate(parts)
            return total, float(p.sum()), candidates(p, start, block, size, draw_seed, bar=bar)

        values, total = np.zeros(len(draws)), 0.0
        for part, moves, more in dataset.map(one, "trying the coreset out", canonical=True):
            values += part
            total += moves
            bar = pool.add(more)
        full = WeightedDraws(draws, self.full.log_weights + (values - self.values))
        return replace(self, full=full, values=values, error=0.0, candidates=pool.best(), total=total)


def _moves(
    draws: FloatArray, rows: WeightedData, family: Family
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield for some rows at a time their weights, their log p, shape (n, S), and w times its sd over the draws."""
    for part, log_p in log_likelihood_tiles(draws, rows, family):
        w = rows.weights[part]
        yield w, log_p, w * np.sqrt(np.maximum(moments_over_draws(log_p)[1], 1e-200))


def tempered(log_ratio: FloatArray) -> FloatArray:
    """Return `importance` of the largest power of the ratio at which `MIN_ESS_SHARE` of the draws still count."""
    power = 1.0
    while 1.0 / ((weights := importance(power * log_ratio)) ** 2).sum() < MIN_ESS_SHARE * len(log_ratio):
        power *= 0.7
    return weights


def draw_base(problem: FullDataPosterior, rows: WeightedData, seed: int) -> Base:
    """Return draws of the posterior of `rows`: weighed normal ones about its mode where they do, else others."""
    mode, precision = problem.mode_and_precision_of(rows)
    scale = factor_of_inverse(precision)
    stream, chains = np.random.SeedSequence(seed).spawn(2)
    normals = np.random.default_rng(stream).standard_normal((N_DRAWS, len(mode)))
    even = np.zeros(N_DRAWS)
    normal = Base(mode + normals @ scale.T, -0.5 * (normals**2).sum(axis=1), mode, precision, even)
    own = problem.weighted_draws(rows, normal, (mode, precision))
    if own.ess >= NORMAL_ESS_SHARE * N_DRAWS:
        return replace(normal, log_weights=own.log_weights)
    target = posterior(rows, problem.family, problem.prior)
    if len(mode) >= WIDE:
        return Base(*batched_hmc(target, mode, scale, N_DRAWS, chains), mode, precision, even)
    chosen: tuple[Advance, Any, int, int] = (mala.advance, mala.first_step_size(len(mode)), 100, 10)
    if problem.far_reaching:
        chosen = (mala.MALA.advance, mala.first_tuning(scale), _LONG, mala.thinning(len(mode)))
    advance, tuning, tune, thin = chosen
    drawn = run_chains(
        advance,
        (scale, target.arguments()),
        np.tile(mode, (_CHAINS, 1)),  # far-off starts can take long to come in, and nobody looks at R-hat here
        tuning,
        draws=N_DRAWS // _CHAINS,
        tune=tune,
        thin=thin,
        cores=min(_CHAINS, available_cores()),
        seeds=chains.spawn(_CHAINS),
        progressbar=False,
    )
    draws = drawn.theta.reshape(N_DRAWS, -1)
    values = log_likelihoods(draws, rows, problem.family) + problem.log_prior(draws)
    return Base(draws, values, mode, precision, even)


def try_out(problem: FullDataPosterior, rows: WeightedData, seed: int) -> Trial:
    """Draw from the posterior of `rows`, move the draws to the full data's and estimate its log-likelihood there."""
    base = draw_base(problem, rows, seed)
    draws = base.moved(*problem.at_mode())
    values, error = problem.expansion.at_draws(draws)
    full = WeightedDraws(draws, values + problem.log_prior(draws) - base.log_density)
    return Trial(problem, rows, base, full, values, error)
