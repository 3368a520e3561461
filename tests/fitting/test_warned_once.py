"""Missing values are said once, at the user's line."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.fitting.route import Route


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


@pytest.mark.parametrize(
    ("family", "terms"), [("logistic", "(1 | g)"), ("poisson", "(1 | g)"), ("probit", "(1 | g) + (1 | h)")]
)
def test_rows_that_fit_keeps_of_itself_are_a_line_of_the_story(family, terms, monkeypatch):
    """Where the method is named it is a warning: the control."""
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({"x": rng.normal(size=1500), "g": np.arange(1500) // 2, "h": np.arange(1500) % 40})
    rows["y"] = rng.poisson(1.0, size=1500) if family == "poisson" else rng.integers(0, 2, 1500)
    route = {}

    def stop(own):
        route["build"] = own.story[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(Route, "sample_until_certified", stop)
    for options in ({}, {"method": "multilevel"}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with pytest.raises(KeyboardInterrupt):
                bc.fit(f"y ~ x + {terms}", rows, family=family, random_state=1, progressbar=False, **options)
        few = [one for one in caught if "have so few rows that" in str(one.message)]
        assert [one.filename for one in few] == [__file__] * len(options)
        assert "; groups, or cells of groups, have so few rows that" in route["build"].why
        assert "all rows are kept as they are" in route["build"].why
        assert "warning" not in route["build"].why
