"""Plots and readers of group effects, of draws made up here."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore import compat
from bayescore.samplers.summaries import read_effects
from bayescore.validation import DataError

mpl.use("Agg")


@pytest.fixture
def idata():
    u = np.random.default_rng(0).normal([0.0, 1.0, -1.0], size=(2, 50, 3))
    made = compat.inference_data(
        {"posterior": {"u_county": u, "tau": u[..., 0]}},
        coords={"county": ["a", "b", "c"]},
        dims={"u_county": ["county"]},
    )
    made.posterior.attrs["family"] = "logistic"
    return made


def test_effects_are_read_from_models_of_ones_own(idata):
    found = read_effects(idata)
    assert (found.factor, found.levels, found.draws.shape) == ("county", ("a", "b", "c"), (100, 3))
    assert found.scale == "log odds"


def test_plots_are_axes_of_a_new_figure(idata):
    axes = bc.plots.plot_caterpillar(idata)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a", "c"]
    table = pd.DataFrame({"share": [0.5, 0.7, 0.2], "weight": [10, 20, 5]}, index=["a", "b", "c"])
    assert bc.plots.plot_shrinkage(idata, table).figure is not axes.figure
    mpl.pyplot.close("all")


def test_what_holds_no_effects_is_refused(idata):
    with pytest.raises(TypeError, match="of type int"):
        bc.plots.plot_caterpillar(3)
    with pytest.raises(DataError, match=r"no variable 'b' with effects of groups \(found: 'u_county', 'tau'\)"):
        bc.plots.plot_caterpillar(idata, var_name="b")
    with pytest.raises(DataError, match="must be chain, draw and one of groups"):
        bc.plots.plot_caterpillar(idata, var_name="tau")
    idata.posterior["u_county"].values[0, 0, 0] = np.nan
    with pytest.raises(DataError, match="NaN"):
        bc.plots.plot_caterpillar(idata)


def test_a_posterior_that_tells_no_likelihood_has_no_raw_log_odds(idata):
    del idata.posterior.attrs["family"]
    assert "linear predictor" in bc.plots.plot_caterpillar(idata).get_xlabel()
    table = pd.DataFrame({"share": [0.5, 0.7, 0.2], "weight": [10, 20, 5]}, index=["a", "b", "c"])
    with pytest.raises(DataError, match="family"):
        bc.plots.plot_shrinkage(idata, table)
    mpl.pyplot.close("all")
