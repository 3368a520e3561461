r"""The certificate: how far a coreset's posterior is from the full data's, from one pass and without MCMC on them.

For draws theta_s of the coreset's posterior, with L the full data's log-likelihood and L~ the coreset's,

.. math:: r_s = L(\theta_s) - \tilde L(\theta_s)

is, up to a constant, the log of the importance weight that turns the coreset's posterior into the full data's: the
prior cancels. Pareto smoothing of the weights (Vehtari et al. 2024) gives k-hat, an effective sample size, and
corrected moments; k-hat below 0.7 with an effective sample size of a fifth of the draws says that they
cover the full-data posterior and that the correction holds. What
the correction moves is the error of the coreset.

max |r_s - mean r| bounds, and its sd predicts, the error: below 0.3 the two posteriors are close, above 1 they are not.
"""

from dataclasses import dataclass
from typing import Any

import arviz as az
import numpy as np
import pandas as pd

from bayescore.data.coreset import Coreset
from bayescore.data.passes import map_blocks
from bayescore.data.sources import DesignedSource, as_source
from bayescore.diagnostics.draws import read_posterior
from bayescore.diagnostics.wording import number
from bayescore.models.kernels import LINKED_ROWS
from bayescore.models.likelihoods import check_likelihood
from bayescore.types import FloatArray, Likelihood, WeightedData
from bayescore.validation import DataError, check_integer

MAX_K = 0.7
MIN_ESS_SHARE = 0.2
EQUAL = 1e-4  # sd of the log ratio below which the weights are equal but for rounding
MAX_SPREAD = 1.0
TOLERANCE = 0.25  # of a predicted error plus two standard errors, in sds


@dataclass(frozen=True, eq=False)
class Certificate:
    """What `certify` found.

    Parameters
    ----------
    level : {"certified", "correct it", "not certified"}
        Verdict.
    text : str
        The verdict in words, with its reason and the remedy.
    pareto_k : float
        k-hat of the importance weights; below 0.7 they can be trusted.
    ess : float
        Effective sample size of the smoothed weights, of `n_draws`.
    n_draws : int
        Draws used.
    epsilon : float
        Largest |L - L~| / |L| over the draws: the epsilon that the coreset realises there.
    log_ratio_sd : float
        Standard deviation of the log ratio r.
    coordinates : DataFrame
        A row for each feature: mean, sd, the corrected mean, sd and 3% and 97% quantiles, the predicted error of the
        mean in sds (own minus corrected) and its Monte Carlo error.
    """

    level: str
    text: str
    pareto_k: float
    ess: float
    n_draws: int
    epsilon: float
    log_ratio_sd: float
    coordinates: pd.DataFrame

    def __repr__(self) -> str:
        return f"Certificate: {self.level}\n  {self.text}"


def log_likelihoods(draws: FloatArray, data: WeightedData, likelihood: Likelihood) -> FloatArray:
    """Return the weighted log-likelihood of `data` at each draw, shape (S,); draws have shape (S, D)."""
    fill = LINKED_ROWS[likelihood.code]
    total = np.zeros(len(draws))
    step = max(1, (1 << 17) // len(draws))
    Z = data.Z
    for start in range(0, len(data), step):
        eta = (Z[start : start + step] @ draws.T).ravel()
        log_p = np.empty_like(eta)
        fill(eta, log_p)
        total += data.weights[start : start + step] @ log_p.reshape(-1, len(draws))
    return total


def certify(
    idata: Any,
    core: Coreset,
    data: Any,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    max_draws: int = 500,
    progressbar: bool = True,
) -> Certificate:
    """Check a coreset's posterior against the full data, in one pass over them.

    Parameters
    ----------
    idata : InferenceData
        Posterior of `core`, from `sample`.
    core : Coreset
        The coreset that was sampled.
    data, y, label, weights
        The full data, as given to `build_coreset`; raw features, to which the coreset's design is applied. Or the
        full data as a `Coreset` from `full_data`, of the same design.
    max_draws : int
        Draws used, evenly spaced. The pass costs a log-likelihood for each draw and row.
    progressbar : bool
        Show progress.

    Returns
    -------
    Certificate

    Raises
    ------
    DataError
        If posterior, coreset and data have different features.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
    """
    posterior = read_posterior(idata, "idata")
    check_integer(max_draws, "max_draws", low=100)
    if posterior.features != core.feature_names:
        raise DataError(
            f"idata has the features {', '.join(posterior.features[:5])}, the coreset "
            f"{', '.join(core.feature_names[:5])}; certify the posterior of this coreset"
        )
    likelihood = check_likelihood(posterior.attrs.get("likelihood", core.likelihood))
    source = _full_source(core, data, y, label, weights)
    draws = posterior.thinned(max_draws).reshape(-1, len(posterior.features))
    full = np.zeros(len(draws))
    for part in map_blocks(
        source,
        lambda _, block: log_likelihoods(draws, block, likelihood),
        description="certifying",
        progressbar=progressbar,
        canonical=True,
    ):
        full += part
    return _judge(draws, posterior.features, full, log_likelihoods(draws, core, likelihood))


def _full_source(core: Coreset, data: Any, y: Any, label: str | None, weights: Any) -> DesignedSource:
    if isinstance(data, Coreset):
        if data.design != core.design:
            raise DataError("data has another design than the coreset; build both with the same intercept and scaling")
        return DesignedSource(data.as_source(), core.design)
    raw = as_source(data, y, label=label, weights=weights)
    if raw.design.raw_names != core.design.raw_names:
        raise DataError(
            f"data has the features {', '.join(raw.design.raw_names[:5])}, the coreset was built from "
            f"{', '.join(core.design.raw_names[:5])}; give the data it was built from"
        )
    if tuple(raw.classes) != tuple(core.classes):
        raise DataError(f"data has the labels {raw.classes}, the coreset {core.classes}; give the data it came from")
    return DesignedSource(raw, core.design, core.design)


def _judge(draws: FloatArray, features: tuple[str, ...], full: FloatArray, own: FloatArray) -> Certificate:
    ratio = full - own
    ratio -= ratio.max()
    smoothed, k = az.psislw(ratio)
    spread = float(ratio.std())
    pareto_k = float(k) if spread > EQUAL else 0.0  # no tail to fit where the weights are equal
    w = np.exp(np.asarray(smoothed, dtype=np.float64))
    w /= w.sum()
    mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    better = w @ draws
    shift = (mean - better) / sd
    change = (w - 1.0 / len(w))[:, None]
    mcse = np.sqrt((change**2 * (draws - better) ** 2).sum(axis=0)) / sd
    order = np.argsort(draws, axis=0)
    quantiles = []
    for q in (0.03, 0.97):
        place = (np.cumsum(w[order], axis=0) < q).sum(axis=0).clip(max=len(w) - 1)
        quantiles.append(draws[order[place, range(draws.shape[1])], range(draws.shape[1])])
    coordinates = pd.DataFrame(
        {
            "mean": mean,
            "sd": sd,
            "corrected_mean": better,
            "corrected_sd": np.sqrt(w @ (draws - better) ** 2),
            "corrected_q03": quantiles[0],
            "corrected_q97": quantiles[1],
            "mean_error_sd": shift,
            "mean_error_sd_mcse": mcse,
        },
        index=pd.Index(features, name="feature"),
    )
    upper = np.abs(shift) + 2.0 * mcse
    worst = int(np.argmax(upper))
    error = f"the mean of {features[worst]!r} is off by {number(abs(shift[worst]), 2)} ± {number(mcse[worst], 1)} sd"
    ess = float(1.0 / (w**2).sum())
    if not (pareto_k < MAX_K and ess >= MIN_ESS_SHARE * len(w)):
        level = "not certified"
        text = (
            f"Pareto k-hat is {number(pareto_k, 2)} (limit {MAX_K}), the effective sample size {ess:.0f} of {len(w)} "
            f"(limit {MIN_ESS_SHARE:.0%}): the coreset's posterior does not cover the full data's, and no correction "
            "can be trusted. Use method='calibrated', or a larger size."
        )
    elif upper[worst] < TOLERANCE and spread < MAX_SPREAD:
        level = "certified"
        text = f"Pareto k-hat is {number(pareto_k, 2)} and at worst {error}."
    else:
        level = "correct it"
        text = (
            f"Pareto k-hat is {number(pareto_k, 2)}, so the corrected moments can be used, but {error} before "
            "correction. Use the corrected figures, or a larger size."
        )
    return Certificate(
        level=level,
        text=text,
        pareto_k=pareto_k,
        ess=ess,
        n_draws=len(draws),
        epsilon=float(np.max(np.abs(full - own) / np.abs(full))),
        log_ratio_sd=spread,
        coordinates=coordinates,
    )
