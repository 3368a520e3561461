r"""Reference posteriors: long MCMC on all the data (identical rows merged: lossless), kept in ``.references/``.

Up to 3e5 numbers, and of more than 200 columns, independent of coresets and of bayescore's samplers: split Hamiltonian
Monte Carlo on coefficients whitened by the Laplace approximation, theta = mode + L q (half-way through warm-up by mean
and covariance of the draws so far), several chains side by side so that one reading of the rows serves all. The normal
part moves exactly, a rotation of (q, p) by an angle h, and half a kick of the rest,

.. math:: p \leftarrow p + \tfrac{h}{2} \nabla \big( \log\pi(q) + \tfrac12 |q|^2 \big),

comes before and after. Where the posterior is nearly normal, one gradient makes an independent draw in any dimension. A
path turns by an angle ~ U(pi/4, 3 pi/4) in steps of at most epsilon, tuned in warm-up.

Else surrogate transitions: `INNER` MALA transitions on a coreset's posterior propose theta', accepted with
probability min(1, exp(r(theta') - r(theta))), r = log-likelihood of all the data minus the coreset's. The MALA part is
reversible, so the invariant density is exactly the full-data posterior, whatever the coreset; a poor one is rarely
accepted, which R-hat and the ESS show. Of hundreds of columns none may be near: the build of w8a's, 301, warns.

References: Shahbaba, Lan, Johnson and Neal (2014), Split Hamiltonian Monte Carlo, Statistics and Computing 24; Liu
(2001), Monte Carlo Strategies in Scientific Computing, section 9.4.3.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import bayescore as bc
from bayescore import compat
from bayescore.families.family import check_family
from bayescore.files import whole_file
from bayescore.models.posterior import log_likelihoods, posterior
from bayescore.numerics.chains import ess, rhat
from bayescore.samplers import mala
from bayescore.samplers.method import Segment
from bayescore.types import FloatArray, WeightedData

FOLDER = Path(__file__).parents[1] / ".references"
CHAINS = 8
WARMUP = 100
ACCEPTANCE = 0.9
MAX_STEPS = 25
INNER = 100
WIDE = 200  # columns, beyond which a coreset's posterior may not cover that of all rows
_TILE = 1024  # rows whose linear predictors of all chains stay in cache


class Density:
    """The log posterior of several chains at once, as a function of whitened coefficients q, shape (D, chains)."""

    def __init__(self, data: WeightedData, family: str, prior: Any) -> None:
        self.target = posterior(data, family, prior)
        self.family = self.target.family.rows
        mode = bc.find_map(data, family, prior)
        self.whiten(mode.beta, mode.factor)
        self.evaluations = 0

    def whiten(self, center: FloatArray, factor: FloatArray) -> None:
        """Let q stand for center + factor q from now on."""
        self.center, self.factor = center, factor
        self.rows, self.offset = self.target.rows.X @ factor, self.target.rows.X @ center

    def theta(self, q: FloatArray) -> FloatArray:
        """Return the coefficients, shape (D, chains)."""
        return self.center[:, None] + self.factor @ q

    def __call__(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log densities, shape (chains,), and their gradients in q, shape (D, chains)."""
        self.evaluations += 1
        theta, prior = self.theta(q).T, self.target.prior
        value, own = prior.log_density(theta), prior.gradient(theta)
        gradient = self.factor.T @ own.T
        for start in range(0, len(self.rows), _TILE):
            cut = slice(start, start + _TILE)
            rows, w = self.rows[cut], self.target.rows.weights[cut]
            eta = (rows @ q + self.offset[cut, None]).ravel()
            log_p = np.empty_like(eta)
            self.family(eta, np.repeat(self.target.rows.y[cut].astype(np.float64), q.shape[1]), log_p)
            value += w @ log_p.reshape(len(w), -1)
            gradient += rows.T @ (w[:, None] * eta.reshape(len(w), -1))
        return value, gradient


def advance(
    density: Density, q: FloatArray, iterations: int, log_epsilon: float, rng: np.random.Generator, goal: str | None
) -> tuple[FloatArray, float]:
    """Return the states after each transition, shape (iterations, D, chains), and log epsilon.

    `goal` is what warm-up tunes epsilon for: "mean" acceptance, or that of the "least" chain, lest one stay where it
    began, in a steep tail; None keeps epsilon.
    """
    value, gradient = density(q)
    states = np.empty((iterations, *q.shape))
    for i in range(iterations):
        angle = math.pi * rng.uniform(0.25, 0.75)
        steps = min(math.ceil(angle / math.exp(log_epsilon)), MAX_STEPS)
        h = min(angle / steps, math.exp(log_epsilon))
        p = rng.standard_normal(q.shape)
        at, there, slope, momentum = q, value, gradient, p
        for _ in range(steps):
            half = momentum + 0.5 * h * (slope + at)
            at, turned = math.cos(h) * at + math.sin(h) * half, math.cos(h) * half - math.sin(h) * at
            there, slope = density(at)
            momentum = turned + 0.5 * h * (slope + at)
        log_ratio = there - value + 0.5 * ((p**2).sum(axis=0) - (momentum**2).sum(axis=0))
        probability = np.exp(np.minimum(0.0, np.where(np.isnan(log_ratio), -np.inf, log_ratio)))
        taken = rng.random(q.shape[1]) < probability
        q, gradient = np.where(taken, at, q), np.where(taken, slope, gradient)
        value = np.where(taken, there, value)
        states[i] = q
        if goal is not None:
            surplus = probability.min() - 0.4 if goal == "least" else probability.mean() - ACCEPTANCE
            log_epsilon = min(log_epsilon + surplus * (1.0 + i) ** -0.6, 1.0)
    return states, log_epsilon


def hmc(density: Density, draws: int, rng: np.random.Generator, chains: int = CHAINS) -> FloatArray:
    """Return draws of the coefficients, shape (chains, draws, D), after warm-up."""
    D = len(density.center)
    states, log_epsilon = advance(density, 1.5 * rng.standard_normal((D, chains)), WARMUP, -1.0, rng, "least")
    # whiten anew by the second half of warm-up; ten draws a coefficient outweigh what was
    known = states[WARMUP // 2 :].transpose(1, 0, 2).reshape(D, -1)
    share = known.shape[1] / (known.shape[1] + 10.0 * D)
    center = known.mean(axis=1)
    spread = np.linalg.cholesky(share * np.cov(known) + (1.0 - share) * np.eye(D))
    q = np.linalg.solve(spread, states[-1] - center[:, None])
    density.whiten(density.theta(center[:, None])[:, 0], density.factor @ spread)
    states, log_epsilon = advance(density, q, WARMUP // 2, log_epsilon, rng, "mean")
    states, _ = advance(density, states[-1], draws, log_epsilon, rng, None)
    return (density.center + (states.transpose(2, 0, 1) @ density.factor.T)).copy()


def surrogate_transitions(
    data: bc.Coreset, family: str, prior: Any, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Return draws of the coefficients, shape (chains, draws, D), and the acceptance rate."""
    D, family = data.n_features, check_family(family)
    core = bc.build_coreset(
        data, method="calibrated", size=min(20 * D, len(data)), family=family, random_state=0, progressbar=False
    )
    mode = bc.find_map(core, family, prior)
    factor = np.ascontiguousarray(mode.factor)
    arguments = factor, posterior(core, family, prior).arguments()
    theta = mode.beta + 1.5 * rng.standard_normal((CHAINS, D)) @ factor.T
    log_epsilon = np.full(CHAINS, mala.first_step_size(D))

    def propose(start: FloatArray, iteration: int) -> FloatArray:
        ends = np.empty((CHAINS, D))
        for c in range(CHAINS):
            segment = Segment.empty(1, D, INNER)._replace(iteration=iteration)
            ends[c], log_epsilon[c] = mala.advance(rng, start[c], log_epsilon[c], arguments, segment)
        return ends

    def ratio(theta: FloatArray) -> FloatArray:
        return log_likelihoods(theta, data, family) - log_likelihoods(theta, core, family)

    for i in range(WARMUP // 2):
        theta = propose(theta, i * INNER)
    here, accepted = ratio(theta), 0
    kept = np.empty((CHAINS, draws, D))
    for i in range(draws):
        proposal = propose(theta, -1)
        there = ratio(proposal)
        taken = np.log(rng.random(CHAINS)) < there - here
        theta, here = np.where(taken[:, None], proposal, theta), np.where(taken, there, here)
        kept[:, i], accepted = theta, accepted + int(taken.sum())
    return kept, accepted / (CHAINS * draws)


def digest(data: WeightedData) -> str:
    """Return a name for the rows, labels and weights."""
    found = hashlib.sha256()
    for part in (data.X, data.y, data.weights):
        found.update(np.ascontiguousarray(part))
    return found.hexdigest()[:16]


def kept(name: str, key: str, make: Callable[[], Any]) -> Any:
    """Return what `make` returned when it was first called for this `key`; `name` begins the file's name."""
    path = FOLDER / f"{name.replace(' ', '_')}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.nc"
    if not path.is_file():
        idata = make()
        idata.posterior.attrs["key"] = key
        FOLDER.mkdir(exist_ok=True)
        with whole_file(path) as partial:
            compat.write_inference_data(idata, str(partial))
    return compat.read_inference_data(str(path))


def reference(name: str, data: bc.Coreset, family: str, prior: Any) -> Any:
    """Return the posterior of all the rows, `data`, from its file or by a long run, as InferenceData.

    Its attributes hold the sampler, evaluations of all rows, seconds, the smallest ESS (of means and of sds) and the
    largest R-hat over coefficients.
    """
    direct = data.X.size <= 300_000 or data.n_features > WIDE
    draws = 1000 if direct or data.X.size < 10_000_000 else 400

    def make() -> Any:
        begin = time.perf_counter()
        rng = np.random.default_rng(0)
        with threadpool_limits(1):
            if direct:
                density = Density(data, family, prior)
                beta, acceptance = hmc(density, draws, rng), math.nan
                evaluations = density.evaluations * CHAINS
            else:
                beta, acceptance = surrogate_transitions(data, family, prior, draws, rng)
                evaluations = (draws + 1) * CHAINS
        idata = as_idata(beta, data, family)
        idata.posterior.attrs |= {
            "sampler": "HMC" if direct else "surrogate transitions",
            "likelihoods": evaluations,
            "acceptance": acceptance,
            "seconds": time.perf_counter() - begin,
            "ess": float(ess(beta, "mean").min()),
            "ess_sd": float(ess(beta, "sd").min()),
            "rhat": float(rhat(beta).max()),
        }
        return idata

    return kept(f"{name}-{family}", f"{name} {family} {prior!r} {draws} {digest(data)}", make)


def as_idata(beta: FloatArray, data: bc.Coreset, family: str) -> Any:
    """Return draws, shape (chains, draws, D), as `bc.compare_posteriors` and `bc.certify` take them."""
    idata = compat.inference_data(
        {"posterior": {"beta": beta}}, coords={"feature": list(data.feature_names)}, dims={"beta": ["feature"]}
    )
    idata.posterior.attrs |= {"family": family, "design": json.dumps(data.design.to_dict())}
    return idata
