"""Fits of draws of any coreset, made without the certificate that `Fit.from_draws` makes: to ask what draws answer."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescore.data.coreset import Coreset
from bayescore.fitting import Fit
from bayescore.fitting.route import refused
from bayescore.limits import PROB
from bayescore.samplers.posterior import read_posterior, with_own_model_attrs
from bayescore.samplers.predict import population_shares
from bayescore.types import WeightedData


def fit_of(idata: Any, core: Coreset, **fields: Any) -> Fit:
    """Return a fit of the draws as they are, whose level is "not certified"."""
    return Fit(core, with_own_model_attrs(idata, core), refused(idata, "Not checked."), (), **fields)


def log_likelihood(idata: Any, data: WeightedData) -> xr.DataArray:
    """Return log p(y_n) of each row, of counts of each side, without weights."""
    posterior = read_posterior(idata, "idata")
    predictor = posterior.predictor()
    log_p = predictor.at_draws(posterior.family).log_p(predictor.eta(data), data.y[:, None]).T
    values = log_p.reshape(*posterior.draws.shape[:2], len(data))
    return xr.DataArray(values, dims=("chain", "draw", "row"), coords={"row": data.index}, name="y")


def poststratify(
    idata: Any, core: Coreset, cells: Any, by: Any = (), *, prob: float = PROB, **asked: Any
) -> pd.DataFrame:
    """Return mean, interval and weight of the shares of parts of a population."""
    found = population_shares(idata, core, cells, by, **asked)
    low, high = np.quantile(found.shares, [0.5 * (1.0 - prob), 0.5 * (1.0 + prob)], axis=1)
    columns = {"mean": found.shares.mean(axis=1), "lower": low, "upper": high, "weight": found.weight}
    return pd.DataFrame(columns, index=found.parts)
