"""`fit.idata` in ArviZ: each coefficient once, in units of the data; readers go by what was sampled."""

import warnings

import arviz as az
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.compat import ARVIZ_1, read_inference_data, write_inference_data
from bayescore.samplers.posterior import DESIGN_POSTERIOR, as_sampled

RNG = np.random.default_rng(7)
N = 900
ROWS = pd.DataFrame({"weight": RNG.normal(70.0, 12.0, N), "salt": RNG.choice(["low", "high"], N)})
ROWS["clinic"] = RNG.choice(list("pqrstuvw"), N)
ETA = 0.04 * (ROWS["weight"] - 70.0) + 0.4 * (ROWS["salt"] == "low")
ETA += 0.5 * RNG.normal(size=8)[ROWS["clinic"].map("pqrstuvw".index)]
ROWS["ill"] = ETA + RNG.logistic(size=N) > 0.0
ROWS["calls"] = RNG.poisson(np.exp(0.5 + 0.3 * ETA))
ROWS["pressure"] = ETA + RNG.normal(size=N)
QUIET = {"random_state": 3, "progressbar": False}
MODELS = {
    "labels": ("ill ~ weight + salt", "logistic"),
    "hazards": ("ill ~ weight", "cloglog"),
    "counts and groups": ("calls ~ weight + (1 | clinic)", "poisson"),
    "numbers and slopes": ("pressure ~ weight + (1 + weight | clinic)", "normal"),
    "labels and slopes": ("ill ~ salt + weight + (0 + weight | clinic)", "probit"),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module", params=MODELS)
def fit(request):
    formula, family = MODELS[request.param]
    return bc.fit(formula, ROWS, family=family, **QUIET)


def summarised(idata):
    """Return ArviZ's summary in full digits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = az.summary(idata, round_to="none")
    return found.astype(float)


def test_arviz_summarises_what_the_fit_does_each_coefficient_once_and_first(fit):
    found, own = summarised(fit.idata), fit.summary()
    names = [f"coef[{name}]" for name in fit.coreset.feature_names]
    assert list(found.index[: len(names)]) == names
    assert not any(name.startswith("beta") for name in found.index)
    np.testing.assert_allclose(found["mean"].iloc[: len(names)], own["mean"].iloc[: len(names)], rtol=1e-9)
    np.testing.assert_allclose(found["sd"].iloc[: len(names)], own["sd"].iloc[: len(names)], rtol=1e-9)
    rest = [name for name in found.index[len(names) :] if name.startswith(("sigma", "rho"))]
    shown = own["mean"].iloc[len(names) :].to_numpy()
    np.testing.assert_allclose(np.sort(found["mean"][rest]), np.sort(shown), rtol=1e-9)
    for grouping in fit.coreset.groups:
        effects = [name for name in found.index if name.startswith(f"u_{grouping.name}")]
        table = [fit.effects(grouping.name, effect=effect)["mean"] for effect in grouping.effects]
        wanted = np.sort(np.concatenate(table))  # versions of ArviZ have other orders
        np.testing.assert_allclose(np.sort(found["mean"][effects]), wanted, rtol=1e-4, atol=1e-6)


def test_arviz_draws_its_traces(fit):
    mpl.use("agg")
    some = fit.idata
    az.plot_trace(some, var_names=["coef"]) if not ARVIZ_1 else az.plot_trace(
        some, var_names=["coef"], backend="matplotlib"
    )
    mpl.pyplot.close("all")


def test_readers_go_by_the_draws_as_they_were_sampled(fit, tmp_path):
    assert DESIGN_POSTERIOR in fit.idata
    assert DESIGN_POSTERIOR not in as_sampled(fit.idata)
    again = bc.certify(fit.idata, fit.coreset, ROWS, progressbar=False)
    known = bc.certify(fit._used, fit.coreset, ROWS, progressbar=False)
    assert (again.level, again.text) == (known.level, known.text)
    compared = bc.compare_posteriors({"the same": fit.idata}, fit._used)
    np.testing.assert_array_equal(compared.coordinates["mean_error_sd"], 0.0)
    path = tmp_path / "draws.nc"
    write_inference_data(fit.idata, str(path))
    read = read_inference_data(str(path))
    np.testing.assert_array_equal(as_sampled(read)["posterior"]["beta"], fit._used["posterior"]["beta"])
    np.testing.assert_array_equal(read["posterior"]["coef"], fit.idata["posterior"]["coef"])
    assert "beta" in fit._used["posterior"]  # the fit's own draws stay as they were


def test_the_draws_of_files_read_again_and_of_updates_are_in_the_data_s_units_too(tmp_path):
    fit = bc.fit("ill ~ weight + salt", ROWS[:600], **QUIET)
    fit.save(tmp_path / "fit")
    for one in (bc.read_fit(tmp_path / "fit"), fit.update(ROWS[600:], progressbar=False)):
        found = summarised(one.idata)
        np.testing.assert_allclose(found["mean"], one.summary()["mean"], rtol=1e-9)
