"""PyMC models with weighted potentials: the only file that builds a `pm.Model`.

The likelihood enters as one Potential, sum_n w_n log p(z_n . beta), over signed rows z_n = y_n x_n.
"""

from functools import singledispatch
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescore.data.coreset import feature_names
from bayescore.models.likelihoods import check_likelihood
from bayescore.models.priors import (
    Cauchy,
    Horseshoe,
    Laplace,
    MultivariateNormal,
    Normal,
    Prior,
    SpikeAndSlab,
    StudentT,
    check_prior,
)
from bayescore.types import Likelihood, WeightedData
from bayescore.validation import DataError

_SQRT2 = np.sqrt(2.0)  # a NumPy constant: pt.sqrt(2.0) would be a float32


def log_p(eta: Any, likelihood: str | Likelihood) -> Any:
    """Return log p(eta) as a PyTensor expression with finite value and gradient for abs(eta) up to 1e4."""
    if check_likelihood(likelihood).name == "logistic":
        return -pt.softplus(-eta)
    # both branches are evaluated: each gets arguments on which it is finite
    left, right = pt.minimum(eta, -1.0), pt.maximum(eta, -1.0)
    tail = pt.log(0.5 * pt.erfcx(-left / _SQRT2)) - 0.5 * left**2
    return pt.switch(eta < -1.0, tail, pt.log1p(-0.5 * pt.erfc(right / _SQRT2)))


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
    likelihood : {"logistic", "probit"}
        Link.
    offset : tensor, shape (n,), optional
        Added to the linear predictor x . beta of each row.

    Returns
    -------
    tensor
        The Potential, sum_n w_n log p(y_n (x_n . beta + offset_n)).

    Notes
    -----
    A Potential has no pointwise log-likelihood and no posterior predictive: see `log_likelihood` and
    `predict_proba`.
    """
    beta = pt.as_tensor_variable(beta)
    static = beta.type.shape
    if len(static) != 1 or static[0] not in (None, data.n_features):
        raise DataError(f"beta has shape {static}; the data have {data.n_features} features")
    eta = pt.dot(pt.as_tensor_variable(np.ascontiguousarray(data.Z)), beta)
    if offset is not None:
        eta = eta + data.y.astype(np.float64) * offset
    return pm.Potential(name, pt.dot(data.weights, log_p(eta, likelihood)))


@singledispatch
def coefficients(prior: Prior, dims: str, n_features: int) -> Any:
    """Add the coefficients `beta` with their prior to the model of the `with` block."""
    raise TypeError(f"prior={prior!r} is not a prior of bayescore")


@coefficients.register
def _normal(prior: Normal, dims: str, n_features: int) -> Any:
    mu, sigma, _ = prior.table(n_features)
    return pm.Normal("beta", mu, sigma, dims=dims)


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


@coefficients.register
def _horseshoe(prior: Horseshoe, dims: str, n_features: int) -> Any:
    tau = pm.HalfCauchy("tau", np.asarray(prior.tau, dtype=np.float64))
    local = pm.HalfCauchy("lambda", 1.0, dims=dims)
    return pm.Deterministic("beta", tau * local * pm.Normal("z", 0.0, 1.0, dims=dims), dims=dims)


def _model(data: WeightedData, likelihood: str | Likelihood, prior: Prior | None) -> pm.Model:
    chosen = check_prior(Normal(0.0, 4.0) if prior is None else prior)
    with pm.Model(coords={"feature": feature_names(data)}) as model:
        beta = coefficients(chosen, "feature", data.n_features)
        weighted_potential("log_likelihood", data, beta, likelihood)
    return model


def logistic_model(data: WeightedData, prior: Prior | None = None) -> pm.Model:
    """Return the logistic regression of `data` as a `pm.Model`; use it in a `with` block.

    Parameters
    ----------
    data : WeightedData
        A coreset, full data or any weighted rows.
    prior : prior, default Normal(0, 4)
        Prior of the coefficients `beta`, dims "feature".
    """
    return _model(data, "logistic", prior)


def probit_model(data: WeightedData, prior: Prior | None = None) -> pm.Model:
    """Return the probit regression of `data` as a `pm.Model`; see `logistic_model`."""
    return _model(data, "probit", prior)
