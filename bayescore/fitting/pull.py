r"""How far the prior moves the mode from where the data alone would have it, in nats of log likelihood.

.. math:: L(\hat\theta) - L(t)

t is the mode of the posterior, \hat\theta that of the likelihood, both of the coreset with what its rows miss. A prior
about t of 1e-10 of the data's information takes the place of none: where the likelihood has no maximum, as of separated
rows, the figure is a bound from below. Of a prior without a closed form t is the mean. With groups the effects' sds
stay where they are, and L is the quadratic in the coefficients that the effects' modes leave
(`models.groups.joint_mode`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from bayescore.data.coreset import Coreset
from bayescore.families.family import check_family
from bayescore.limits import MAX_PULL
from bayescore.models.groups.joint_mode import curvature_at, solver_at
from bayescore.models.groups.rows import JointRows
from bayescore.models.laplace import Mode, NoModeError, find_mode, missed_terms
from bayescore.models.posterior import Derivatives, likelihood_terms, prior_part
from bayescore.models.predictor import Factor
from bayescore.priors import Prior
from bayescore.priors.by_name import prior_from_dict
from bayescore.samplers.posterior import Posterior, read_posterior
from bayescore.text import number
from bayescore.types import FloatArray
from bayescore.validation import DataError

_FAINT = 1e-10  # of the data's information, in place of a prior: rows may be separated, and columns combinations
_LOST = 0.01  # of the data's information at the one mode, left at the other: less is left where there is no mode
_LITTLE = 0.25  # of the limit: draws tell the pull to their noise
_MOST_STEPS = 60


@dataclass(frozen=True)
class Pull:
    """The coefficient that the prior moves most, in sds of the data alone: its values without the prior and with it.

    `nats` of log likelihood, lost by all coefficients together; whether the likelihood has its maximum, `ends`.
    """

    feature: str
    without: float
    under: float
    nats: float
    ends: bool

    @property
    def doubt(self) -> str:
        """What the prior does, in few words."""
        return f"it moves {self.feature!r} by {number(self.nats, 2)} nats{'' if self.ends else ' or more'}"

    def __str__(self) -> str:
        costs = f"{number(self.nats, 2)} nats of log likelihood"
        under, without = (f"{own:.3g}" for own in (self.under, self.without))
        if self.ends:
            return f"The prior moves {self.feature!r} to {under} from the data's {without}, at a cost of {costs}."
        return (
            f"The prior keeps {self.feature!r} at {under}, where the data alone would have it at {without} or beyond, "
            f"at a cost of {costs} or more."
        )


def pull_of(idata: Any, core: Coreset) -> Pull | None:
    """Return how the prior of draws of a coreset's posterior moves them; None where that is less than `MAX_PULL`."""
    posterior = read_posterior(idata, "the fit's draws")
    if not posterior.story:  # of a model of the user's own
        return None
    prior = prior_from_dict(posterior.story["prior"])
    if prior.closed_form and _surely_little(posterior.flat, prior):
        return None
    start = posterior.flat.mean(axis=0)
    moved: Moved | None
    try:
        if core.groups:
            moved = _of_groups(posterior, core, prior)
        else:
            moved = _of_rows(start, core, prior) or _of_rows(start, replace(core, shortfall=None), prior)
    except (DataError, np.linalg.LinAlgError):  # the fit's other lines say why
        return None
    if moved is None:
        return None
    under, without, sd, nats, ends = moved
    if not nats > MAX_PULL:
        return None
    d = int(np.argmax(np.abs(without - under) / sd))
    scale = core.design.scales[d]
    return Pull(core.feature_names[d], float(without[d] / scale), float(under[d] / scale), nats, ends)


Moved = tuple[FloatArray, FloatArray, FloatArray, float, bool]
"""Coefficients under the prior and without, their sds by the data alone, nats, and whether the likelihood's mode ends
there."""


def _surely_little(draws: FloatArray, prior: Prior) -> bool:
    """Whether draws say that the prior has little information, and pulls little, in any direction."""
    part, V = prior_part(draws.mean(axis=0), prior), np.atleast_2d(np.cov(draws.T))
    share = float(np.linalg.eigvals(V @ part.precision).real.max())
    return share < 0.5 and float(part.gradient @ V @ part.gradient) < _LITTLE * MAX_PULL


def _of_rows(start: FloatArray, core: Coreset, prior: Prior) -> Moved | None:
    """Return the two modes of rows without groups; None where they are not found.

    They may not be found far out, as of separated rows, where what the rows miss is no quadratic.
    """
    family = check_family(core.family)

    def likelihood(beta: FloatArray) -> Derivatives:
        own = likelihood_terms(beta, core, family)
        return own if core.shortfall is None else own + missed_terms(core.shortfall, beta)

    def density(beta: FloatArray) -> Derivatives:
        return likelihood(beta) + prior_part(beta, prior)

    under = start
    if prior.closed_form:
        mode = _climbed(density, start)
        if mode is None:
            return None
        under = mode.beta
    here = likelihood(under)
    faint = _faint(here.precision)

    def freed(beta: FloatArray) -> Derivatives:
        pull = faint @ (beta - under)
        return likelihood(beta) + Derivatives(-0.5 * float(pull @ (beta - under)), -pull, faint)

    free = _climbed(freed, under)
    if free is None:
        return None
    there = likelihood(free.beta)
    left = linalg.eigvalsh(there.precision + faint, here.precision + faint)[0]
    return under, free.beta, free.sd, there.value - here.value, bool(left > _LOST)


def _climbed(terms: Callable[[FloatArray], Derivatives], start: FloatArray) -> Mode | None:
    """Return the mode, or where the steps allowed have led; None where the density is not concave there."""
    try:
        return find_mode(terms, start, tolerance=1e-3, max_steps=_MOST_STEPS)
    except NoModeError as error:
        return error.reached


def _of_groups(posterior: Posterior, core: Coreset, prior: Prior) -> Moved:
    """Return the mean of the coefficients and a Newton step from it without the prior, the effects' sds as they are."""
    family, rows, beta = check_family(core.family), JointRows.of(core), posterior.flat.mean(axis=0)
    factors = [Factor.of(own, posterior.variables) for own in rows.factors]
    effects = [own.mean(slice(None)) for own in factors]
    covariances = [np.asarray(own.covariance).mean(axis=0) for own in factors]
    curvature, D = curvature_at(rows, beta, effects, family), len(beta)
    solver = solver_at(curvature, rows, _faint(curvature.rest[:D, :D]), covariances)
    covariance = linalg.cho_solve((solver.factor, True), np.eye(len(solver.factor))[:, :D])[:D]
    pull = prior_part(beta, prior).gradient  # which the likelihood's balances
    step = -covariance @ pull
    return beta, beta + step, np.sqrt(np.diagonal(covariance)), -0.5 * float(pull @ step), True


def _faint(precision: FloatArray) -> FloatArray:
    """Return the precision of a prior that tells hardly anything, shape (D, D), beside the data's at one point."""
    own = np.diagonal(precision)
    return np.diag(_FAINT * np.maximum(own, _FAINT * own.max()))
