"""Importance sampling's proposal: the multivariate Student t at the MAP, its scale the inverse Hessian there.

Tails heavier than the posterior's keep the weights bounded. Five degrees of freedom cost little where the posterior is
normal (of the draws 84% are effective at D = 5, 40% at D = 50, 17% at D = 300) and still have a variance.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from bayescore.coresets.calibration.pilot import LaplaceApproximation
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate.nodes import NodeMoments, check_bytes, marginal_log_likelihoods, node_sums
from bayescore.diagnostics.full_pass import check_finite, check_weight
from bayescore.diagnostics.row_sums import FINE, RowSums
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.families import Family
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.group_priors import GroupPrior, log_sigma_terms
from bayescore.models.modes import find_map
from bayescore.models.posterior import likelihood_terms, log_likelihoods, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData

DF = 5.0


class Proposed(NamedTuple):
    """Log-likelihood of the coreset at draws of q, log prior minus log q, and what finds all rows' and its error."""

    own: FloatArray
    log_base: FloatArray
    of_all: Callable[[Dataset], tuple[FloatArray, float]]


def propose_flat(core: WeightedData, family: Family, prior: Prior, draws: int, rng: np.random.Generator) -> Proposed:
    """Propose beta; the full data's log-likelihoods come from a sample of the rows where that tells them."""
    beta, log_base, laplace = propose(core, family, prior, draws, rng)

    def of_all(dataset: Dataset) -> tuple[FloatArray, float]:
        near = RowSums.of(dataset, laplace, core, "log evidence", aim=FINE)
        check_finite(dataset, near.terms.precision)
        check_weight(core, near.weight)  # type: ignore[arg-type]
        if (found := near.at(beta)) is not None:
            return found.log_likelihood, found.error
        parts = dataset.map(lambda _, block: log_likelihoods(beta, block, family), "log evidence", canonical=True)
        full = sum(parts, np.zeros(draws))
        check_finite(dataset, full)
        return full, 0.0

    return Proposed(log_likelihoods(beta, core, family), log_base, of_all)


def propose_grouped(
    core: Coreset, family: Family, priors: tuple[Prior, GroupPrior], draws: int, rng: np.random.Generator
) -> Proposed:
    """Propose (beta, log sigma), effects of (1 | g) integrated out by quadrature."""
    prior, group_prior = priors
    target = CollapsedTarget.of(core, family, (prior.covering(), group_prior), len(core.groups[0]))
    factor, beta = target.factor, target.point.theta[:-1]
    if prior.kinked:
        precision = np.asarray(np.linalg.inv(factor @ factor.T), dtype=np.float64)
        own = prior_part(beta, prior)
        precision[:-1, :-1] += _kink_precision(beta, -own.gradient, prior) - own.precision
        factor = factor_of_inverse(precision)
    theta, log_q = student_t(target.point.theta, factor, draws, rng)
    log_prior = prior.log_density(theta[:, :-1])
    log_prior = log_prior + [log_sigma_terms(each, *group_prior.table)[0] for each in theta[:, -1]]

    def of_all(dataset: Dataset) -> tuple[FloatArray, float]:
        check_bytes(theta, target.arguments(), "draws")
        sums = node_sums(theta, core, dataset, target)  # whose ratio is less the coreset's
        assert isinstance(sums.core, NodeMoments)
        return sums.ratio + sums.core.log_p.sum(axis=1), 0.0

    return Proposed(marginal_log_likelihoods(theta, target), log_prior - log_q, of_all)


def propose(
    core: WeightedData, family: Family, prior: Prior, n_draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, LaplaceApproximation]:
    """Return draws of the Student t, shape (S, D), log prior minus log q there, shape (S,), and its normal middle."""
    mode = find_map(core, family.name, prior.covering())
    factor = mode.factor
    if prior.kinked:
        terms = likelihood_terms(mode.beta, core, family)
        factor = factor_of_inverse(terms.precision + _kink_precision(mode.beta, terms.gradient, prior))
    beta, log_q = student_t(mode.beta, factor, n_draws, rng)
    return beta, prior.log_density(beta) - log_q, LaplaceApproximation(family, mode.beta, factor)


def student_t(
    center: FloatArray, factor: FloatArray, n_draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return draws, shape (S, D), and their log density q, shape (S,); `factor` is triangular."""
    D = len(center)
    normals = rng.standard_normal((n_draws, D))
    chi = rng.chisquare(DF, n_draws)
    draws = center + (normals * np.sqrt(DF / chi)[:, None]) @ factor.T
    log_q = gammaln(0.5 * (DF + D)) - gammaln(0.5 * DF) - 0.5 * D * math.log(DF * math.pi)
    log_q = log_q - np.log(np.diagonal(factor)).sum() - 0.5 * (DF + D) * np.log1p((normals**2).sum(axis=1) / chi)
    return draws, log_q


def _kink_precision(beta: FloatArray, gradient: FloatArray, prior: Prior) -> FloatArray:
    """Return the prior's part of the proposal's precision where coefficients have a Laplace prior, of no curvature.

    On its flatter side the density falls off at the rate 1/b - |g|, g the likelihood's `gradient` at the MAP: 1/b where
    nothing pulls, 0 off the kink. An exponential of that rate stands in as a normal of precision rate^2 / 2; the
    floor keeps directions finite about which the data say nothing.
    """
    own = prior_part(beta, prior).precision
    for part, kinks, table in prior.parts(len(beta)):
        if part.kinked:
            mu, b = table[:2]
            rate = np.maximum(1.0 / b - np.abs(gradient[kinks]), 1.0 / (2.0 * b + np.abs(beta[kinks] - mu)))
            own[kinks, kinks] = 0.5 * rate**2
    return own
