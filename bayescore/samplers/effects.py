r"""Odds ratios: what the coefficients of a logistic model mean for one unit more of each column of the data.

.. math:: \mathrm{OR}_d = e^{c_d}

c_d is the coefficient in units of the data's own column.
"""

from typing import Any

import numpy as np
import pandas as pd

from bayescore.limits import PROB
from bayescore.samplers.inference_data import read_posterior
from bayescore.validation import DataError, check_positive


def odds_ratios(idata: Any, *, prob: float = PROB) -> pd.DataFrame:
    """Return the odds ratios of a logistic posterior for one unit more of each column of the data.

    Of a factor's column it is that of the level against the first. The intercept has none.

    Parameters
    ----------
    idata : InferenceData
        From `sample`, or the corrected draws of a certificate.
    prob : float
        Probability of the equal-tailed interval.

    Returns
    -------
    DataFrame
        A row for each coefficient; columns `median`, `lower` and `upper`.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior, or of another likelihood, whose coefficients are no log odds ratios.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1))
    >>> core = bc.all_rows(X, X[:, 0] + rng.logistic(size=5000) > 0, intercept=True, progressbar=False)
    >>> idata = bc.sample(core, sampler="mala", random_seed=1, progressbar=False)
    >>> bc.odds_ratios(idata)["median"].round(1).to_dict()
    {'x0': 2.7}
    """
    posterior = read_posterior(idata, "idata", min_draws=1)
    if posterior.family.ratio != "odds ratio":
        raise DataError(
            f"idata has the family {posterior.family.name!r}, whose coefficients are no log odds ratios; see "
            "average_predictions, and of counts or times fit.summary(scale='ratio')"
        )
    tail = 0.5 * (1.0 - check_positive(prob, "prob", below=1.0))
    design = posterior.design
    coef = posterior.flat if design is None else design.raw_coefficients(posterior.flat)
    middle, low, high = np.quantile(coef, [0.5, tail, 1.0 - tail], axis=0)
    with np.errstate(over="ignore"):  # infinite where rows are separated
        table = pd.DataFrame(
            {"median": np.exp(middle), "lower": np.exp(low), "upper": np.exp(high)},
            index=pd.Index(posterior.features, name="feature"),
        )
    constant = None if design is None else design.constant
    return table if constant is None else table.drop(index=posterior.features[constant])
