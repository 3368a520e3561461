"""Missing values are said once, at the user's line."""

import warnings

import numpy as np
import pandas as pd

import bayescore as bc


def test_missing_values_are_said_once_where_the_fit_was_called():
    rng = np.random.default_rng(6)
    rows = pd.DataFrame({"x": rng.normal(size=600)})
    rows["y"] = rng.poisson(np.exp(0.3 * rows["x"]))
    rows.loc[::90, "x"] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = bc.fit("y ~ x", rows, family="poisson", missing="drop", random_state=1, progressbar=False)
        for ask in (fit.check, fit.loo, lambda: fit.slopes("x"), lambda: fit.with_prior(bc.priors.Normal(0, 1))):
            ask()
    missing = [one for one in caught if "left out" in str(one.message)]
    assert len(missing) == 1
    assert missing[0].filename == __file__
