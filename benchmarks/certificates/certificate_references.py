r"""What the posteriors of `certificate_problems` truly are, each with its reference's own error.

Up to two coefficients: a grid, theta = m + L Q tan(pi u / 2), m, L mode and scale under N(0, 4), Q orthogonal, u on
a regular grid over (-1, 1)^D, which sees heavy tails too; the error is the difference from half as many points a side.
Up to 12: importance sampling from a t of 5 degrees of freedom around the mode,

.. math:: w_s \propto p(y | \theta_s)\, \pi_0(\theta_s) / t_5(\theta_s; m, L L'),

with the delta method's errors, believed from 2,000 effective draws and k-hat below 0.5 on. Else split HMC
(`full_posteriors.hmc`), of R-hat below 1.005, or the problem is left out. Where an sd does not exist (Cauchy prior,
separated labels) medians and quartiles stand for means and sds. The horseshoe's
scales are integrated out by the quantiles of their distributions.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import special, stats

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.chains import ess, mcse_mean, mcse_sd, rhat
from bayescore.numerics.psis import psislw
from benchmarks.accuracy.full_posteriors import FOLDER, Density, digest, hmc
from benchmarks.certificates.certificate_problems import PRIORS, Problem

GRID = {1: 40_001, 2: 501}  # points a side, odd: every other one is the coarser grid
STRETCH = (20.0, 4.0)  # of the grid's axes where sds do not exist
MAX_IMPORTANCE = 12  # coefficients
PROPOSALS = 40_000
LEAST_ESS = 2_000
MAX_RHAT = 1.005
RUNS = (1000, 1000, 2000, 8000)  # draws of a chain of HMC, one run after the other until chains agree


@dataclass(frozen=True, eq=False)
class Figures:
    """What a user reads off a posterior: location and scale, shape (D,), and correlations, one for each pair."""

    location: np.ndarray
    scale: np.ndarray
    correlation: np.ndarray


@dataclass(frozen=True, eq=False)
class Reference:
    """A posterior's figures with their standard errors; `robust` are median and quartile spread / 1.349."""

    moments: Figures
    error: Figures
    robust: Figures
    robust_error: Figures
    kind: str
    quality: float  # R-hat of HMC, effective draws of importance sampling, NaN for a grid


def figures(draws: np.ndarray, weights: np.ndarray | None = None, *, robust: bool = False) -> Figures:
    """Return the figures of draws, shape (S, D), of total weight 1 or equal ones."""
    w = np.full(len(draws), 1.0 / len(draws)) if weights is None else weights
    if robust:
        low, mid, high = (quantiles(draws, w, np.full(draws.shape[1], q)) for q in (0.25, 0.5, 0.75))
        return Figures(mid, (high - low) / 1.349, np.empty(0))
    mean = w @ draws
    centred = draws - mean
    covariance = (centred * w[:, None]).T @ centred
    sd = np.sqrt(np.diagonal(covariance))
    upper = np.triu_indices(len(mean), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = covariance[upper] / (sd[upper[0]] * sd[upper[1]])
    return Figures(mean, sd, np.nan_to_num(correlation))


def quantiles(draws: np.ndarray, w: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return a quantile of each coordinate, `levels` of shape (D,)."""
    found = np.empty(draws.shape[1])
    for d, q in enumerate(levels):
        order = np.argsort(draws[:, d])
        found[d] = np.interp(q, np.cumsum(w[order]) - 0.5 * w[order], draws[order, d])
    return found


def standard_errors(draws: np.ndarray, w: np.ndarray, about: Figures, inflation: float = 1.0) -> Figures:
    """Return standard errors of weighted draws' moments by the delta method, times sqrt(inflation)."""
    z = (draws - about.location) / about.scale
    squares, upper = w[:, None] ** 2 * inflation, np.triu_indices(z.shape[1], 1)
    mean = about.scale * np.sqrt((squares * z**2).sum(axis=0))
    sd = 0.5 * about.scale * np.sqrt((squares * (z**2 - 1.0) ** 2).sum(axis=0))
    a, b = z[:, upper[0]], z[:, upper[1]]
    influence = a * b - 0.5 * about.correlation * (a**2 + b**2)
    return Figures(mean, sd, np.sqrt((squares * influence**2).sum(axis=0)))


def _robust_errors(draws: np.ndarray, w: np.ndarray) -> Figures:
    ends = []
    for level in (0.25, 0.5, 0.75):
        spread = math.sqrt(level * (1.0 - level) * float((w**2).sum()))
        up, down = (quantiles(draws, w, np.full(draws.shape[1], level + sign * spread)) for sign in (1, -1))
        ends.append(0.5 * (up - down))
    return Figures(ends[1], np.hypot(ends[0], ends[2]) / 1.349, np.empty(0))


def horseshoe(beta: np.ndarray, prior: Any, nodes: int = 40) -> np.ndarray:
    """Return the log density of one coefficient, shape (S,), under the horseshoe, its scales integrated out."""
    u = (np.arange(nodes) + 0.5) / nodes  # quantiles, of equal weight
    half_cauchy, slab = np.tan(0.5 * math.pi * u), stats.invgamma(2.0, scale=2.0 * prior.slab**2).ppf(u)
    free = ((prior.tau * half_cauchy[:, None] * half_cauchy) ** 2).ravel()[:, None]
    scale = np.sqrt(slab * free / (slab + free)).ravel()
    at = np.geomspace(1e-6, 1e3, 1000)
    known = [special.logsumexp(stats.norm.logpdf(b, 0.0, scale)) - math.log(len(scale)) for b in at]
    return np.interp(np.log(np.maximum(np.abs(beta), 1e-6)), np.log(at), known)


def log_prior(prior: Any, beta: np.ndarray) -> np.ndarray:
    """Return the log prior density at draws, shape (S,)."""
    if isinstance(prior, bc.priors.Horseshoe):
        return stats.norm.logpdf(beta[:, 0], 0.0, 4.0) + horseshoe(beta[:, 1], prior)  # intercept and slope
    if isinstance(prior, bc.priors.SpikeAndSlab):
        slab = stats.norm.logpdf(beta, 0.0, prior.slab) + math.log(prior.inclusion)
        spike = stats.norm.logpdf(beta, 0.0, prior.spike) + math.log1p(-prior.inclusion)
        return np.logaddexp(slab, spike).sum(axis=1)
    frozen = {
        bc.priors.Normal: lambda: stats.norm(prior.mu, prior.sigma),
        bc.priors.StudentT: lambda: stats.t(prior.nu, prior.mu, prior.sigma),
        bc.priors.Cauchy: lambda: stats.cauchy(prior.loc, prior.scale),
        bc.priors.Laplace: lambda: stats.laplace(prior.mu, prior.b),
    }[type(prior)]()
    return frozen.logpdf(beta).sum(axis=1)


def log_density(problem: Problem) -> Callable[[np.ndarray], np.ndarray]:
    """Return the log posterior density as a function of draws, shape (S, D)."""
    family, prior = check_family(problem.family), PRIORS[problem.prior]
    return lambda beta: log_likelihoods(beta, problem.data, family) + log_prior(prior, beta)


def by_grid(problem: Problem) -> Reference:
    """Integrate over a grid."""
    mode, side = bc.find_map(problem.data, problem.family), GRID[problem.data.n_features]
    D = problem.data.n_features
    u = (np.arange(side) + 1.0) / (side + 1.0) * 2.0 - 1.0
    t, log_jacobian = np.tan(0.5 * math.pi * u), -2.0 * np.log(np.cos(0.5 * math.pi * u))
    points = np.stack(np.meshgrid(*[t] * D, indexing="ij"), axis=-1).reshape(-1, D)
    jacobian = np.sum(np.meshgrid(*[log_jacobian] * D, indexing="ij"), axis=0).ravel()
    # the first axis points away from zero, where the cone of separated labels goes
    axes = np.linalg.qr(np.column_stack([np.linalg.solve(mode.factor, mode.beta), np.eye(D)]))[0]
    stretch = np.array(STRETCH[:D]) if problem.robust else np.ones(D)
    beta = mode.beta + (stretch * points) @ (mode.factor @ axes).T
    log_w = log_density(problem)(beta) + jacobian
    w = np.exp(log_w - log_w.max())
    coarse = np.zeros((side,) * D, dtype=bool)
    coarse[(slice(1, None, 2),) * D] = True
    thick = w > 1e-14
    found = []
    for kept in (thick, thick & coarse.ravel()):
        share = w[kept] / w[kept].sum()
        found.append([figures(beta[kept], share, robust=robust) for robust in (False, True)])
    fine, rough = found
    gaps = [
        Figures(*(np.abs(getattr(a, f.name) - getattr(b, f.name)) for f in fields(Figures)))
        for a, b in zip(fine, rough, strict=True)
    ]
    return Reference(fine[0], gaps[0], fine[1], gaps[1], "grid", math.nan)


def by_importance(problem: Problem) -> Reference | None:
    """Sample a t around the mode and weigh; None if too few draws count."""
    mode, rng = bc.find_map(problem.data, problem.family), np.random.default_rng(1)
    D = problem.data.n_features
    proposal = stats.multivariate_t(mode.beta, mode.covariance, df=5, seed=rng)
    beta = np.concatenate([proposal.rvs(PROPOSALS // 8).reshape(-1, D) for _ in range(8)])
    log_w = np.concatenate([log_density(problem)(part) for part in np.split(beta, 8)]) - proposal.logpdf(beta)
    w = np.exp(log_w - special.logsumexp(log_w))
    n_effective = 1.0 / float((w**2).sum())
    if n_effective < LEAST_ESS or not psislw(log_w)[1] < 0.5:
        return None
    moments = figures(beta, w)
    return Reference(
        moments,
        standard_errors(beta, w, moments),
        figures(beta, w, robust=True),
        _robust_errors(beta, w),
        "importance",
        n_effective,
    )


def by_hmc(problem: Problem) -> Reference | None:
    """Run split HMC, whitened anew by its draws while its chains disagree; None if they never agree."""
    density, rng = Density(problem.merged, problem.family, PRIORS[problem.prior]), np.random.default_rng(2)
    for draws in RUNS:
        chains = hmc(density, draws, rng)
        mixed = float(rhat(chains).max())
        if mixed < MAX_RHAT:
            break
        flat = chains.reshape(-1, chains.shape[2])
        density.whiten(flat.mean(axis=0), np.linalg.cholesky(np.cov(flat.T)))
    else:
        return None
    beta = chains.reshape(-1, chains.shape[2])
    w, moments = np.full(len(beta), 1.0 / len(beta)), figures(beta)
    n_effective = np.minimum(ess(chains, "bulk"), ess(chains, "sd"))
    upper = np.triu_indices(len(moments.location), 1)
    each = np.minimum(n_effective[upper[0]], n_effective[upper[1]])
    error = Figures(mcse_mean(chains), mcse_sd(chains), (1.0 - moments.correlation**2) / np.sqrt(each))
    return Reference(moments, error, figures(beta, robust=True), _robust_errors(beta, w), "HMC", mixed)


def reference(problem: Problem) -> Reference | None:
    """Return the figures of a posterior from its file, or found now; None where no method vouches for them."""
    key = hashlib.sha256(f"{problem!r} {PRIORS[problem.prior]!r} {digest(problem.data)}".encode()).hexdigest()[:12]
    path = FOLDER / f"small-{problem.rows}-{problem.d}-{problem.family}-{problem.prior}-{key}.npz"
    parts = ("moments", "error", "robust", "robust_error")
    if not path.is_file():
        if problem.data.n_features in GRID:
            found = by_grid(problem)
        else:
            few = problem.data.n_features <= MAX_IMPORTANCE
            found = (by_importance(problem) if few else None) or (
                None if problem.prior == "Horseshoe" else by_hmc(problem)
            )
        FOLDER.mkdir(exist_ok=True)
        arrays = (
            {}
            if found is None
            else {f"{part}_{f.name}": getattr(getattr(found, part), f.name) for part in parts for f in fields(Figures)}
        )
        about = (
            {"kind": "none", "quality": math.nan} if found is None else {"kind": found.kind, "quality": found.quality}
        )
        np.savez(path, **arrays, **about)
    with np.load(path) as kept:
        if str(kept["kind"]) == "none":
            return None
        own: dict[str, Any] = {part: Figures(*(kept[f"{part}_{f.name}"] for f in fields(Figures))) for part in parts}
        return Reference(**own, kind=str(kept["kind"]), quality=float(kept["quality"]))
