r"""Log marginal likelihood of a coreset, and of the full data from the same draws.

.. math:: \ln E = \ln \int e^{L(\beta)} \pi_0(\beta)\, d\beta \approx \ln \frac1S \sum_s u_s, \qquad
          u_s = \frac{e^{L(\beta_s)} \pi_0(\beta_s)}{q(\beta_s)}, \quad L(\beta) = \sum_n w_n \log p(z_n \cdot \beta)

for draws beta_s of q, a multivariate Student t at the coreset's MAP (`propose_flat`); with effects of `(1 | g)`, which
are integrated out, of (beta, log sigma). The mean of u is unbiased for E; its logarithm has standard error
sd(u) / (mean(u) sqrt(S)) (delta method), and that of L where a sample of the rows tells it (`row_sums`).

The full data's likelihood at the same draws gives their ln E, and the difference of the two: the common draws cancel
most of its error. It need not be small where the posteriors are alike: a constant in L - L~ moves the evidence and not
the posterior. Calibrated coresets meet the value of L at the mode as well, others do not: compare models by the full
data's ln E. Proposition 2.1 of Huggins et al. (2016) bounds it: if |L - L~| <= eps |L| wherever there is
posterior mass, then |ln E - ln E~| <= eps |ln E|, so that for eps < 1

.. math:: \frac{\ln \tilde E}{1 - \epsilon} \le \ln E \le \frac{\ln \tilde E}{1 + \epsilon} .

Reference: Huggins, Campbell and Broderick (2016), Coresets for scalable Bayesian logistic regression, Proposition 2.1.

Importance sampling's proposal: the multivariate Student t at the MAP, its scale the inverse Hessian there.

Tails heavier than the posterior's keep the weights bounded. Five degrees of freedom cost little where the posterior is
normal (of the draws 84% are effective at D = 5, 40% at D = 50, 17% at D = 300) and still have a variance.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from bayescore.data.coreset import Coreset, family_or_own
from bayescore.data.dataset import Dataset
from bayescore.data.design import one_intercept, terms_text
from bayescore.diagnostics.certificate.nodes import NodeMoments, check_bytes, marginal_log_likelihoods, node_sums
from bayescore.diagnostics.row_sums import FINE, RowSums, RowSumsPlan, check_finite, check_weight, full_rows
from bayescore.families import Family
from bayescore.families.family import Sized, check_family
from bayescore.limits import EQUAL_WEIGHTS_SD, MAX_K, MIN_ESS_EVIDENCE
from bayescore.models.groups.marginal import CollapsedTarget
from bayescore.models.laplace import LaplaceApproximation, factor_of_inverse
from bayescore.models.modes import find_map
from bayescore.models.posterior import likelihood_terms, log_likelihoods, prior_part
from bayescore.numerics.psis import psislw
from bayescore.priors import Prior
from bayescore.priors.groups import GroupPrior, group_prior_for, log_sigma_terms, prior_for
from bayescore.priors.prior import names
from bayescore.text import number, see, with_error
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, RandomState, check_generator, check_integer, one_seed, warn

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
        near = RowSums.of(dataset, RowSumsPlan.near(laplace, core, FINE), "log evidence")
        check_finite(dataset, near.terms.precision)
        check_weight(core, near.weight)  # type: ignore[arg-type]
        if (proposal := near.at(beta)) is not None:
            return proposal.log_likelihood, proposal.error
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
        prior_terms = prior_part(beta, prior)
        precision[:-1, :-1] += _kink_precision(beta, -prior_terms.gradient, prior) - prior_terms.precision
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
    precision = prior_part(beta, prior).precision
    for part, kinks, table in prior.parts(len(beta)):
        if part.kinked:
            mu, b = table[:2]
            rate = np.maximum(1.0 / b - np.abs(gradient[kinks]), 1.0 / (2.0 * b + np.abs(beta[kinks] - mu)))
            precision[kinks, kinks] = 0.5 * rate**2
    return precision


CARRIED = 0.999  # share of either posterior that epsilon looks at


@dataclass(frozen=True)
class Evidence:
    """What `log_evidence` found; the fields from `full` on are NaN without full data.

    Parameters
    ----------
    log_evidence, se : float
        ln E~ of the coreset and its standard error.
    pareto_k, ess : float
        k-hat of the importance weights u and their effective sample size. Above 0.7, or below 100, the standard error
        is too small.
    n_draws : int
        Draws used.
    full, full_se : float
        ln E of the full data and its standard error.
    full_pareto_k, full_ess : float
        The same for the full data. A bad k-hat says that the coreset's posterior does not cover the full data's.
    difference, difference_se : float
        ln E - ln E~ and its standard error, from common draws.
    epsilon : float
        Largest ``|L - L~| / |L|`` over the draws that carry 99.9% of the weight of the coreset's posterior or of the
        full data's. It is an estimate on these draws, not a bound over a ball of coefficients.
    interval : tuple of two floats
        Where Proposition 2.1 with that epsilon puts ln E, given the coreset's `log_evidence`. Monte Carlo errors
        are not in it.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> evidence = bc.log_evidence(core, X, y, random_state=2, progressbar=False)
    >>> evidence.pareto_k < 0.7, abs(evidence.difference) < 1
    (True, True)
    >>> low, high = evidence.interval
    >>> low < evidence.full < high
    True
    """

    log_evidence: float
    se: float
    pareto_k: float
    ess: float
    n_draws: int
    full: float = math.nan
    full_se: float = math.nan
    full_pareto_k: float = math.nan
    full_ess: float = math.nan
    difference: float = math.nan
    difference_se: float = math.nan
    epsilon: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)

    def __repr__(self) -> str:
        lines = ["Evidence of all rows; pseudo-rows have none of their own"]
        if not math.isnan(self.log_evidence):
            figures = _figures(self.log_evidence, self.se, self.pareto_k, self.ess, self.n_draws)
            lines = [f"Evidence: ln E = {figures}"]
        if not math.isnan(self.full):
            whole = _figures(self.full, self.full_se, self.full_pareto_k, self.full_ess, self.n_draws)
            lines.append(f"  full data   {whole}")
        if not math.isnan(self.difference):
            low, high = (number(end, 8) for end in self.interval)
            lines += [
                f"  difference  {_plus_minus(self.difference, self.difference_se)}",
                f"  epsilon     {number(self.epsilon, 2)} on the draws: ln E between {low} and {high}",
            ]
        return "\n".join(lines)


def _plus_minus(value: float, se: float) -> str:
    shown, error = with_error(value, se)
    return f"{shown} ± {error}" if error else shown


def _figures(value: float, se: float, k: float, ess: float, n_draws: int) -> str:
    return f"{_plus_minus(value, se)} (k-hat {number(k, 2)}, effective draws {ess:.0f} of {n_draws})"


def log_evidence(
    core: WeightedData,
    data: Any = None,
    y: Any = None,
    *,
    family: str | None = None,
    prior: Prior | Mapping[str, Prior] | None = None,
    group_prior: GroupPrior | None = None,
    label: str | None = None,
    weights: Any = None,
    offset: Any = None,
    trials: Any = None,
    exposure: Any = None,
    missing: str = "raise",
    groups: Any = None,
    draws: int = 2000,
    random_state: RandomState = None,
    random_seed: RandomState = None,
    progressbar: bool = True,
) -> Evidence:
    r"""Estimate the log marginal likelihood of a coreset and, in a pass or two, of the full data.

    Differences between the ln E of two models of the same data are log Bayes factors. Only these have a
    meaning for counts: ln E leaves out y log E - log y! of each row, which no parameter changes, and of times -log t
    of each event. For a family with a size or shape, ln E is conditional on a given value, even if a fit has it as a
    parameter. For negative binomial counts and gamma numbers it leaves out what depends on this value, so that it
    compares only shapes of times.

    Parameters
    ----------
    core : WeightedData
        A coreset or `all_rows`.
    data, y, label, weights, offset, trials, exposure, missing, groups
        The full data, as given to `certify`; without them only the coreset's evidence is estimated.
    family : name of a registered family, optional
        By default the coreset's own.
    prior : prior or dict of str to prior, default that of `fit`
        Any with a density in closed form, or priors by name, as in `sample`. With `SpikeAndSlab` the posterior may have
        2^D modes, which one Student t covers for few coefficients only: heed the warning.
    group_prior : HalfStudentT or HalfNormal, default HalfStudentT(3, 2.5)
        Prior of the sd of the effects of `(1 | g)`, which are integrated out.
    draws : int
        Draws of the Student t. If a sample of rows does not give L within 0.02 nats, a pass evaluates all at all rows.
    random_state, random_seed : int, Generator or SeedSequence, optional
        Seed of the draws, by either name.
    progressbar : bool
        Show progress.

    Returns
    -------
    Evidence
        Pseudo-rows, but for sums of numbers, have the log-likelihood up to a constant. A coreset's own figures and
        differences are then NaN.

    Warns
    -----
    UserWarning
        If Pareto k-hat exceeds 0.7 or fewer than 100 draws are effective: the standard error cannot be trusted.

    Raises
    ------
    ValueError
        If the prior has no density in closed form, or posterior and full data have different features.
    DataError
        If a coreset with pseudo-rows, but sums, comes without the full data, or has other group terms than `(1 | g)`.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> evidence = bc.log_evidence(core, X, y, random_state=2, progressbar=False)
    >>> bool(abs(evidence.difference) < 1)
    True
    """
    resolved = check_family(family_or_own(core, family, "core"), rows=core)
    if family is None and isinstance(core, Coreset) and core._sd_unknown:
        raise DataError(
            "core was built with family='normal', and its sd is a parameter, which log_evidence does not integrate "
            f"out: give a sd, family={core.family!r}, or compare models by loo_compare"
        )
    if isinstance(resolved, Sized) and resolved.counts and not resolved.times:
        number = resolved.number
        warn(
            f"log_evidence is given the {number} of {resolved.name!r}, and leaves out what depends on it: compare "
            f"{number}s, and families, by loo_compare"
        )
    if core.group is not None and not (isinstance(core, Coreset) and one_intercept(core.groups)):
        terms = terms_text(core.groups) if isinstance(core, Coreset) else "groups without names"
        raise DataError(
            f"core has {terms}, and log_evidence integrates out the effects of one term (1 | g) only; compare such "
            "models by loo_compare"
        )
    if group_prior is not None and core.group is None:
        raise DataError("group_prior is given, and core has no groups: leave it out")
    up_to_constant = core.pseudo.any() and not resolved.quadratic  # sums of numbers have the constant, too
    if up_to_constant and data is None:
        raise DataError(
            "core has pseudo-rows, which meet the log-likelihood up to a constant only and have no evidence; give the "
            "full data too, for theirs"
        )
    chosen, spread = prior_for(prior, core, resolved), group_prior_for(group_prior, core, resolved)
    if chosen.bends:
        raise DataError(
            f"log_evidence needs a posterior with one mode, which {chosen.bends[0].term} does not have; compare such "
            "models by loo_compare"
        )
    if not chosen.closed_form:
        raise ValueError(
            f"prior={chosen} has no density in closed form, which the evidence needs; use "
            f"{names(lambda kind: kind.closed_form)}"
        )
    check_integer(draws, "draws", low=100)
    roles = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    roles["groups"] = groups
    if data is None and (given := [name for name, part in {"y": y, **roles}.items() if part is not None]):
        raise TypeError(f"{given[0]} belongs to the full data, but data is missing; give data too")
    if data is not None and not isinstance(core, Coreset):
        raise TypeError(f"core is a {type(core).__name__}; with full data it must be a Coreset, which knows its design")
    dataset = None
    if isinstance(core, Coreset) and data is not None:
        dataset = full_rows(core, data, y, progress=progressbar, missing=missing, **roles)
    rng = check_generator(one_seed(random_state, random_seed))
    if core.group is None:
        proposal = propose_flat(core, resolved, chosen, draws, rng)
    else:
        proposal = propose_grouped(core, resolved, (chosen, spread), draws, rng)  # type: ignore[arg-type]
    log_ratios, log_base = proposal.own, proposal.log_base
    value, se, k, ess, u = _estimate(log_ratios + log_base)
    if not up_to_constant and (k > MAX_K or ess < MIN_ESS_EVIDENCE):
        _warn("coreset", k, ess, draws, "ask for more draws, or use a prior with lighter tails")
    if dataset is None:
        return Evidence(value, se, k, ess, draws)
    full, error = proposal.of_all(dataset)
    full_value, full_se, full_k, full_ess, full_u = _estimate(full + log_base)
    full_se = math.hypot(full_se, error)
    if full_k > MAX_K or full_ess < MIN_ESS_EVIDENCE:
        remedy = "the coreset's posterior does not cover the full data's: use method='calibrated', or a larger size"
        _warn("full data", full_k, full_ess, draws, remedy)
    none = math.nan
    of_all = Evidence(none, none, none, none, draws, full_value, full_se, full_k, full_ess)
    if up_to_constant:
        return of_all
    carried = _heaviest(u) | _heaviest(full_u)
    epsilon = float(np.max(np.abs((full - log_ratios)[carried] / full[carried])))
    return replace(
        of_all,
        log_evidence=value,
        se=se,
        pareto_k=k,
        ess=ess,
        difference=full_value - value,
        difference_se=math.hypot(_standard_error(full_u - u), error),
        epsilon=epsilon,
        interval=(value / (1.0 - epsilon) if epsilon < 1.0 else -math.inf, value / (1.0 + epsilon)),
    )


def _estimate(log_u: FloatArray) -> tuple[float, float, float, float, FloatArray]:
    """Return ln mean u, its standard error, k-hat, the effective sample size, and u / mean u."""
    value = float(logsumexp(log_u)) - math.log(len(log_u))
    u = np.exp(log_u - value)
    k = float(psislw(log_u - log_u.max())[1]) if log_u.std() > EQUAL_WEIGHTS_SD else 0.0
    return value, _standard_error(u), k, float(len(u) ** 2 / (u @ u)), u


def _standard_error(terms: FloatArray) -> float:
    return float(terms.std(ddof=1)) / math.sqrt(len(terms))


def _heaviest(u: FloatArray) -> NDArray[np.bool_]:
    """Return which draws make up `CARRIED` of the total weight, the heaviest first."""
    order = np.argsort(-u)
    kept = np.zeros(len(u), dtype=bool)
    kept[order[: 1 + int(np.searchsorted(np.cumsum(u[order]), CARRIED * u.sum()))]] = True
    return kept


def _warn(what: str, k: float, ess: float, draws: int, remedy: str) -> None:
    warnings.warn(
        f"the standard error of the {what}'s log evidence cannot be trusted: Pareto k-hat is {number(k, 2)} (limit "
        f"{MAX_K}), effective draws are {ess:.0f} of {draws} (at least {MIN_ESS_EVIDENCE:.0f} needed); {remedy}"
        f"{see('glossary.md')}",
        UserWarning,
        stacklevel=3,
    )
