"""PyMC models with weighted potentials: the only file that builds a `pm.Model`.

The likelihood enters as one Potential, sum_n w_n log p(z_n . beta + y_n o_n), over signed rows z_n = y_n x_n with
known offsets o_n where they have any.
"""

from collections.abc import Mapping
from functools import singledispatch
from itertools import groupby
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescore.data.coreset import feature_names
from bayescore.models.given_priors import prior_of
from bayescore.models.likelihoods import check_likelihood
from bayescore.models.newton import Mode, find_map
from bayescore.models.priors import (
    INTERCEPTS,
    ByName,
    Cauchy,
    Horseshoe,
    Laplace,
    MultivariateNormal,
    Normal,
    Prior,
    SpikeAndSlab,
    StudentT,
)
from bayescore.types import Likelihood, WeightedData
from bayescore.validation import DataError

_SLAB_DF = 4.0  # of the regularised horseshoe's slab, as Piironen and Vehtari have it


def weighted_potential(
    name: str, data: WeightedData, beta: Any, likelihood: str | Likelihood = "logistic", offset: Any = None
) -> Any:
    """Add the weighted log-likelihood of `data` to the model of the `with` block.

    Parameters
    ----------
    name : str
        Name of the Potential.
    data : WeightedData
        A coreset or any weighted rows.
    beta : tensor, shape (D,)
        Coefficients, with any prior or hierarchy the model gives them.
    likelihood : str
        Name of a registered likelihood, such as "logistic" or "probit".
    offset : tensor, shape (n,), optional
        Added to the linear predictor of each row, which has the rows' own offsets already.

    Returns
    -------
    tensor
        The Potential, sum_n w_n log p(y_n (x_n . beta + offset_n)).

    Notes
    -----
    A Potential is no observed variable: `pm.sample_posterior_predictive` has nothing to draw and returns an empty
    object, and there is no pointwise log-likelihood. Use `posterior_predictive`, `predict_proba` and `log_likelihood`,
    which take the name of your vector as ``var_name``.
    """
    link = check_likelihood(likelihood)
    beta = pt.as_tensor_variable(beta)
    static = beta.type.shape
    if len(static) != 1 or static[0] not in (None, data.n_features):
        raise DataError(f"beta has shape {static}; the data have {data.n_features} features")
    eta = pt.dot(pt.as_tensor_variable(np.ascontiguousarray(data.Z)), beta)
    if data.offset is not None:
        eta = eta + data.shift
    if offset is not None:
        eta = eta + data.y.astype(np.float64) * offset
    return pm.Potential(name, pt.dot(data.weights, link.log_p_graph(eta)))


@singledispatch
def coefficients(prior: Prior, dims: str, n_features: int) -> Any:
    """Add the coefficients `beta` with their prior to the model of the `with` block."""
    raise TypeError(f"prior={prior!r} is not a prior of bayescore")


@coefficients.register
def _normal(prior: Normal, dims: str, n_features: int) -> Any:
    mu, sigma, _ = prior.table(n_features)
    return pm.Normal("beta", mu, sigma, dims=dims)


@coefficients.register
def _by_name(prior: ByName, dims: str, n_features: int) -> Any:
    prior.table(n_features)  # the number of coefficients

    def joined(size: Any) -> Any:
        runs = [(place, len(list(run))) for place, run in groupby(prior.which)]
        return pt.concatenate([_of_one(prior.priors[place][1], length) for place, length in runs])

    return pm.CustomDist("beta", dist=joined, dims=dims)


def _of_one(prior: Prior, length: int) -> Any:
    """Return the distribution of as many coefficients that have the same prior."""
    a, b, c = prior.table(length)
    if isinstance(prior, Normal):
        return pm.Normal.dist(mu=a, sigma=b)
    return pm.Laplace.dist(mu=a, b=b) if isinstance(prior, Laplace) else pm.StudentT.dist(nu=c, mu=a, sigma=b)


@coefficients.register
def _multivariate_normal(prior: MultivariateNormal, dims: str, n_features: int) -> Any:
    return pm.MvNormal("beta", mu=prior.table(n_features)[0], cov=np.array(prior.covariance), dims=dims)


@coefficients.register(StudentT)
@coefficients.register(Cauchy)
def _student_t(prior: StudentT | Cauchy, dims: str, n_features: int) -> Any:
    mu, sigma, nu = prior.table(n_features)
    return pm.StudentT("beta", nu=nu, mu=mu, sigma=sigma, dims=dims)


@coefficients.register
def _laplace(prior: Laplace, dims: str, n_features: int) -> Any:
    mu, b, _ = prior.table(n_features)
    return pm.Laplace("beta", mu=mu, b=b, dims=dims)


@coefficients.register
def _spike_and_slab(prior: SpikeAndSlab, dims: str, n_features: int) -> Any:
    spike, slab, inclusion = prior.table(n_features)
    shares = np.stack([1.0 - inclusion, inclusion], axis=-1)
    return pm.NormalMixture("beta", w=shares, mu=0.0, sigma=np.stack([spike, slab], axis=-1), dims=dims)


def _horseshoe(prior: Horseshoe, dims: str, near: Mode) -> Any:
    r"""Add the coefficients under the horseshoe, affine in standardised ones, given their sds s.

    With m, h what the rows alone say of a coefficient, mode and sd, its conditional posterior is about
    N(a m, a h^2), a = s^2 / (s^2 + h^2), and beta = a m + sqrt(a) h u has a posterior of u that scales hardly change:
    centred where rows say much, non-centred where the prior does (Papaspiliopoulos, Roberts and Skold 2007, Statistical
    Science 22). Exact whatever m and h are: u ~ N(-sqrt(a) m / h, (s^2 + h^2) / h^2).
    """
    tau = pm.HalfCauchy("tau", prior.tau)
    local = pm.HalfCauchy("lambda", 1.0, dims=dims)
    slab = pm.InverseGamma("c2", 0.5 * _SLAB_DF, 0.5 * _SLAB_DF * prior.slab**2)
    free = (tau * local) ** 2
    s = pt.sqrt(slab * free / (slab + free))
    if not prior.shrink_intercept:
        s = pt.switch(np.isin(pm.modelcontext(None).coords[dims], INTERCEPTS), Normal().sigma, s)
    m, h = near.beta, near.sd
    root = s / pt.sqrt(s**2 + h**2)
    u = pm.Normal("beta_standardised", -root * m / h, pt.sqrt(s**2 + h**2) / h, dims=dims)
    return pm.Deterministic("beta", root**2 * m + root * h * u, dims=dims)


def regression_model(
    data: WeightedData, likelihood: str | Likelihood, prior: Prior | Mapping[str, Prior] | None = None
) -> pm.Model:
    """Return the regression of `data` under a registered likelihood as a `pm.Model`; use it in a `with` block.

    Parameters
    ----------
    data : WeightedData
        A coreset, full data or any weighted rows.
    likelihood : str or Likelihood
        A registered one, or its name.
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior of the coefficients `beta`, dims "feature", or priors by name, as in `sample`. Under the horseshoe they
        are deterministic: an affine function of `beta_standardised`, which NUTS moves.
    """
    chosen = prior_of(prior, feature_names(data))
    with pm.Model(coords={"feature": feature_names(data)}) as model:
        if isinstance(chosen, Horseshoe):
            # what rows say alone, but for a prior that keeps the mode finite
            near = find_map(data, check_likelihood(likelihood).name, Normal())
            beta = _horseshoe(chosen, "feature", near)
        else:
            beta = coefficients(chosen, "feature", data.n_features)
        weighted_potential("log_likelihood", data, beta, likelihood)
    return model


def logistic_model(data: WeightedData, prior: Prior | Mapping[str, Prior] | None = None) -> pm.Model:
    """Return the logistic regression of `data`; see `regression_model`.

    Predictive draws are `posterior_predictive`'s: for `pm.sample_posterior_predictive` a potential has nothing to draw.
    """
    return regression_model(data, "logistic", prior)


def probit_model(data: WeightedData, prior: Prior | Mapping[str, Prior] | None = None) -> pm.Model:
    """Return the probit regression of `data`; see `regression_model`.

    Predictive draws are `posterior_predictive`'s: for `pm.sample_posterior_predictive` a potential has nothing to draw.
    """
    return regression_model(data, "probit", prior)
