"""Posteriors with known moments, without a sampler."""

import json

import matplotlib as mpl
import numpy as np
import pytest
from scipy.signal import lfilter

from tests.arviz_draws import inference_data

mpl.use("Agg")


def make_posterior(
    seed, *, mean=0.0, sd=1.0, chains=4, draws=500, features=("a", "b", "c"), rho=0.0, coreset=None, sampler="nuts"
):
    """Independent AR(1) chains with the given stationary mean and sd of each coordinate."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(chains, draws, len(features)))
    z[:, 1:] *= np.sqrt(1.0 - rho**2)
    z = lfilter([1.0], [1.0, -rho], z, axis=1)
    stats = {"acceptance_rate": np.full((chains, draws), 0.9)}
    if sampler == "nuts":
        stats["diverging"] = np.zeros((chains, draws), dtype=bool)
    groups = {"posterior": {"beta": mean + sd * z}, "sample_stats": stats}
    if coreset is not None:
        groups["constant_data"] = {"weights": np.arange(1.0, coreset["size"] + 1.0)}
    idata = inference_data(
        groups,
        coords={"feature": list(features)},
        dims={"beta": ["feature"], "weights": ["row"]},
    )
    idata.posterior.attrs.update(family="logistic", sampler=sampler, random_seed=str(seed), sampling_time=2.0)
    if coreset is not None:
        idata.posterior.attrs["coreset"] = json.dumps(coreset)
    return idata


@pytest.fixture(scope="session")
def posterior():
    return make_posterior
