r"""The sampler of models with smooth terms: coefficients and the sd of each term's bends at once, by `langevin`.

Given sigma, the coefficients b of a term's bends have the prior N(0, sigma^2 I). By the rows, all else integrated out,
they are about N(m, S^{-1}) near the mode. In the eigenvectors of S, c = Q' b, S = Q diag(1 / h^2) Q',

.. math:: c_i = a_i m_i + \sqrt{a_i} \, h_i u_i, \qquad a_i = \sigma^2 / (\sigma^2 + h_i^2),

so that u_i is about N(0, 1) whatever sigma: centred where rows say much, and c_i = sigma u_i where they say nothing. It
is a change of coordinates, exact for any m and h, whose density is

.. math:: \log p(b(u, \sigma), y) - \sum_i \left( \tfrac12 c_i^2 / \sigma^2 + \tfrac12 \log(\sigma^2 + h_i^2) \right).

The posterior of coefficients, u and log sigma has no funnel, and is about normal.

Reference: Papaspiliopoulos, Roberts and Skold (2007), A general framework for the parametrization of hierarchical
models, Statistical Science 22.

When to use it: the default of formulas with s(x).
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from bayescore.compiled import StoredDensity, evaluate_stored, jit_sums
from bayescore.families import Family
from bayescore.families.normal import Gaussian
from bayescore.models.modes import SmoothMode, smooth_mode
from bayescore.models.posterior import TargetDensity, likelihood_terms, log_joint_density, log_likelihoods
from bayescore.models.predictor import Predictor
from bayescore.priors.groups import log_sigma_terms
from bayescore.priors.smooths import Smooths
from bayescore.samplers.adaptive import OPTIONS, ChainPlan, compiled_density, run_langevin, statistics
from bayescore.samplers.langevin import Dense
from bayescore.samplers.method import Request, Sampler
from bayescore.samplers.normal import SigmaArguments, rows_density
from bayescore.types import FloatArray, IntArray

_ALTERNATIONS = 4  # of the mode of coefficients and the sd of noise at the residuals there


class _BendArguments(NamedTuple):
    """What `_bent_density` takes after the point and the gradient."""

    density: StoredDensity  # of coefficients, and the log sd of noise where it is a parameter; without bends' prior
    places: IntArray  # of bends, those of all terms after each other, shape (K,)
    ends: IntArray  # where each term's begin, and the end of the last, (J + 1,)
    axes: FloatArray  # Q times the scales of columns, (K, largest K of a term)
    middle: FloatArray  # m, (K,)
    width: FloatArray  # h, (K,)
    nus: FloatArray  # degrees of freedom of the priors of sigma, (J,)
    scales: FloatArray  # and their scales, (J,)


@jit_sums
def _place_bends(theta: FloatArray, beta: FloatArray, c: FloatArray, bends: _BendArguments) -> None:
    """Write c, and the coefficients of bends in `beta`, given u in their places in `theta` and log sigma at its end."""
    J = bends.scales.size
    for j in range(J):
        square = math.exp(2.0 * theta[theta.size - J + j])
        first, last = bends.ends[j], bends.ends[j + 1]
        for k in range(first, last):
            a = square / (square + bends.width[k] ** 2)
            c[k] = a * bends.middle[k] + math.sqrt(a) * bends.width[k] * theta[bends.places[k]]
        for k in range(first, last):
            total = 0.0
            for i in range(last - first):
                total += bends.axes[k, i] * c[first + i]
            beta[bends.places[k]] = total


@jit_sums
def _bent_density(theta: FloatArray, gradient: FloatArray, bends: _BendArguments) -> float:
    """Return the log density of coefficients, u in the places of bends, [log sd of noise], and each log sigma."""
    J, K = bends.scales.size, bends.places.size
    D = theta.size - J
    beta, slope, c = theta[:D].copy(), np.zeros(D), np.empty(K)
    _place_bends(theta, beta, c, bends)
    value = evaluate_stored(bends.density.function, bends.density.data, beta, slope)
    for d in range(D):
        gradient[d] = slope[d]
    for j in range(J):
        log_sigma = theta[D + j]
        of_sigma, steep, _ = log_sigma_terms(log_sigma, bends.nus[j], bends.scales[j])
        square, first, last = math.exp(2.0 * log_sigma), bends.ends[j], bends.ends[j + 1]
        for i in range(first, last):
            pull = -c[i] / square
            for k in range(first, last):
                pull += bends.axes[k, i - first] * slope[bends.places[k]]
            u, h = theta[bends.places[i]], bends.width[i]
            a = square / (square + h * h)
            root = math.sqrt(a)
            value -= 0.5 * c[i] * c[i] / square + 0.5 * math.log(square + h * h)
            gradient[bends.places[i]] = pull * root * h
            steep += pull * (1.0 - a) * (2.0 * a * bends.middle[i] + root * h * u) + c[i] * c[i] / square - a
        value += of_sigma
        gradient[D + j] = steep
    return float(value)


def _coefficients(theta: FloatArray, D: int, bends: _BendArguments) -> FloatArray:
    """Return the coefficients at points of the sampler, shape (S, D), as `_place_bends` does."""
    beta, J = theta[:, :D].copy(), len(bends.scales)
    for j, (first, last) in enumerate(zip(bends.ends[:-1], bends.ends[1:], strict=True)):
        part, square = slice(first, last), np.exp(2.0 * theta[:, theta.shape[1] - J + j])[:, None]
        a = square / (square + bends.width[part] ** 2)
        c = a * bends.middle[part] + np.sqrt(a) * bends.width[part] * theta[:, bends.places[part]]
        beta[:, bends.places[part]] = c @ bends.axes[part, : last - first].T
    return beta


class SmoothSampler(Sampler):
    """The declaration of the sampler."""

    def draw(self, request: Request) -> Any:
        """Return draws of beta, of the sd of each term's bends, and of the sd of noise where that is a parameter."""
        rows, prior = request.data, request.prior
        assert isinstance(prior, Smooths)
        D, J, noisy = rows.n_features, len(prior.bends), request.sd_prior is not None
        target = request.target()
        family, mode = _mode(target, prior, noisy=noisy)
        kernel, data = compiled_density(target)
        if request.sd_prior is not None:
            arguments = target.arguments()
            of_rows = arguments.columns, arguments.weights, arguments.offset, arguments.prior
            kernel, data = rows_density, SigmaArguments(*of_rows, *request.sd_prior.table)
        bends, center, factor = _frame(StoredDensity.of(kernel, data), prior, mode)
        if noisy:
            scale = math.sqrt(0.5 / float(rows.weights.sum()))
            center = np.insert(center, D, math.log(float(family.unit)))
            factor = np.insert(np.insert(factor, D, 0.0, axis=0), D, 0.0, axis=1)
            factor[D, D] = scale
        plan = ChainPlan.of(request, "sampling coefficients and sds of smooths")
        drawn = run_langevin(Dense.of(_bent_density, bends, center, factor), plan)
        theta = drawn.theta.reshape(-1, len(center))
        beta = _coefficients(theta, D, bends)
        shape = drawn.theta.shape[:2]
        variables = {"beta": beta.reshape(*shape, D)}
        sizes = np.exp(theta[:, D]) if noisy else None
        if sizes is not None:
            lp = log_joint_density(Predictor(beta, size=sizes), rows, family, (prior, None, request.sd_prior))
            variables["sigma"] = sizes.reshape(shape)
        else:
            lp = log_likelihoods(beta, rows, family) + prior.log_density(beta)
        for j, each in enumerate(prior.bends):
            variables[each.name] = np.exp(theta[:, -J + j]).reshape(shape)
        stats = {**statistics(drawn), "lp": lp.reshape(shape)}
        return request.idata(variables, stats)


def _mode(target: TargetDensity, prior: Smooths, *, noisy: bool) -> tuple[Family, SmoothMode]:
    """Return the family, with the sd of noise at its mode where that is a parameter, and the mode."""
    rows, family = target.rows, target.family
    mode = smooth_mode(partial(likelihood_terms, data=rows, family=family), prior)
    for _ in range(_ALTERNATIONS if noisy else 0):
        left = rows.with_offset(rows.X @ mode.coefficients.beta) ** 2
        family = Gaussian(math.sqrt(float(rows.weights @ left) / float(rows.weights.sum())))
        mode = smooth_mode(partial(likelihood_terms, data=rows, family=family), prior)
    return family, mode


def _frame(density: StoredDensity, prior: Smooths, found: SmoothMode) -> tuple[_BendArguments, FloatArray, FloatArray]:
    """Return the coordinates of bends about a mode, and its center and factor in (coefficients with u, log sigma)."""
    D, J, mode = prior.n_features, len(prior.bends), found.coefficients
    largest = max(len(each.places) for each in prior.bends)
    places, axes, middles, widths = [], [], [], []
    beta, to_theta = mode.beta.copy(), np.eye(D)
    for each, sigma in zip(prior.bends, found.sigmas, strict=True):
        at, scales, b = list(each.places), np.array(each.scales), each.raw(mode.beta)
        covariance = mode.covariance[np.ix_(at, at)] / np.outer(scales, scales)
        information, Q = linalg.eigh(linalg.inv(covariance) - np.eye(len(b)) / sigma**2)
        h2 = 1.0 / np.maximum(information, 1e-8 / sigma**2)  # hardly any, or less by rounding
        m = Q.T @ b * (1.0 + h2 / sigma**2)  # the mode without its prior
        a = sigma**2 / (sigma**2 + h2)
        u_for_b = (Q / np.sqrt(a * h2)).T
        beta[at], to_theta[np.ix_(at, at)] = 0.0, u_for_b / scales
        places += at
        axes.append(np.pad(scales[:, None] * Q, ((0, 0), (0, largest - len(b)))))
        middles.append(m)
        widths.append(np.sqrt(h2))
    ends = np.cumsum([0, *(len(each.places) for each in prior.bends)])
    bends = _BendArguments(
        density,
        np.array(places, dtype=np.int64),
        ends.astype(np.int64),
        np.ascontiguousarray(np.concatenate(axes)),
        np.concatenate(middles),
        np.concatenate(widths),
        np.array([each.nu for each in prior.bends]),
        np.array([each.scale for each in prior.bends]),
    )
    factor = np.zeros((D + J, D + J))
    factor[:D, :D] = linalg.cholesky(to_theta @ mode.covariance @ to_theta.T, lower=True)
    factor[np.arange(D, D + J), np.arange(D, D + J)] = found.log_sigma_sds
    return bends, np.append(beta, np.log(found.sigmas)), factor


SMOOTHS = SmoothSampler(
    name="smooths",
    about="for smooth terms s(x): coefficients and the sds of their bends at once, by langevin steps",
    needs=("bends",),
    because="is for terms s(x)",
    options=OPTIONS,
    draws_sd=True,
)
