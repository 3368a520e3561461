r"""What follows from draws: predicted probabilities, and the unweighted pointwise log-likelihood.

The weighted potentials that samplers see have neither. A weighted log-likelihood is no predictive density
and must not reach `az.loo`; `log_likelihood` here is unweighted.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from bayescore.data.coreset import check_same_design
from bayescore.data.sources.tables import feature_matrix
from bayescore.samplers.inference_data import read_posterior
from bayescore.types import WeightedData
from bayescore.validation import check_positive

_CELLS = 1 << 22  # entries of a (draws, rows) block


def predict_proba(idata: Any, X: ArrayLike, *, ci_prob: float = 0.94) -> pd.DataFrame:
    r"""Return the posterior of P(y = +1 | x) for new rows, from the draws.

    Parameters
    ----------
    idata : InferenceData
        From `sample`.
    X : array or data frame, shape (n, D_raw)
        Raw features, as given to `build_coreset`: the intercept and the standardisation that the coreset
        remembers are applied here.
    ci_prob : float
        Probability of the equal-tailed interval.

    Returns
    -------
    DataFrame, n rows
        Columns `mean` (the predictive probability), `lower` and `upper`.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior, or does not tell its likelihood.
    """
    posterior = read_posterior(idata, "idata", min_draws=1)
    beta, link, design = posterior.flat, posterior.likelihood, posterior.design
    tail = 0.5 * (1.0 - check_positive(ci_prob, "ci_prob", below=1.0))
    raw = feature_matrix(X, posterior.features if design is None else design.raw_names)
    rows = raw if design is None else design.transform(raw)
    parts = []
    step = max(1, _CELLS // len(beta))
    for start in range(0, len(rows), step):
        p = link.probability(rows[start : start + step] @ beta.T)
        low, high = np.quantile(p, [tail, 1.0 - tail], axis=1)
        parts.append(np.stack([p.mean(axis=1), low, high], axis=1))
    return pd.DataFrame(
        np.concatenate(parts),
        columns=["mean", "lower", "upper"],
        index=X.index if isinstance(X, pd.DataFrame) else None,
    )


def log_likelihood(idata: Any, data: WeightedData) -> xr.DataArray:
    r"""Return log p(y_n | x_n, beta_s) of each row of `data` under each draw, without weights.

    Parameters
    ----------
    idata : InferenceData
        From `sample`.
    data : WeightedData
        Rows of the same design matrix, for example ``full_data(...)``. For leave-one-out cross-validation
        they must be the full data: the rows of a coreset are no random sample.

    Returns
    -------
    DataArray, dims (chain, draw, row)
        Memory: 8 bytes for each draw and row.
    """
    posterior = read_posterior(idata, "idata", min_draws=1)
    check_same_design(data, posterior.features, posterior.design, "data")
    return xr.DataArray(
        posterior.likelihood.log_p(posterior.draws @ data.Z.T),
        dims=("chain", "draw", "row"),
        coords={"chain": idata.posterior.chain, "draw": idata.posterior.draw, "row": data.index},
        name="y",
    )
