"""One behaviour on both stacks: posteriors of either are read by both."""

import os
from functools import partial

import numpy as np
import pytest
import xarray as xr

from bayescore import compat
from bayescore.samplers.posterior import load_posterior, read_posterior
from bayescore.samplers.predict import map_new_rows, probabilities
from tests.stacks import make


@pytest.mark.parametrize("arviz", [0, 1])
def test_files_of_either_stack_are_read(arviz):
    idata, made = load_posterior(make.FOLDER / f"posterior-arviz-{arviz}.nc"), make.small_posterior()
    assert compat.is_inference_data(idata)
    np.testing.assert_allclose(idata.posterior["beta"], made.posterior["beta"], rtol=1e-4)
    for group in ("posterior", "sample_stats", "constant_data"):
        assert set(idata[group].data_vars) == set(made[group].data_vars)
    changing = {"created_at", "sampling_time", "arviz_version"}
    own = {key for key in made.posterior.attrs if not key.startswith("creation_")} - changing
    later = {"moved", "design", "coreset"}  # than the files, whose designs do not have the spread of columns
    assert read_posterior(idata, "the file").design == read_posterior(made, "made here").design
    for key in own - {"sample_dims", "bayescore_version", "inference_library_version", "posterior_of"} - later:
        assert idata.posterior.attrs.get(key) == made.posterior.attrs[key]
    X = np.array([[0.2, 0.4], [0.9, 0.1]])
    draws = (read_posterior(each, "idata") for each in (idata, made))
    found, known = (map_new_rows(each, X, partial(probabilities, seed=0), None, None) for each in draws)
    np.testing.assert_allclose(found, known, rtol=1e-4)


def test_a_file_read_is_in_memory_and_closed(tmp_path):
    path = tmp_path / "posterior.nc"
    compat.write_inference_data(make.small_posterior(), str(path))
    idata = compat.read_inference_data(str(path))
    os.truncate(path, 100)
    assert np.isfinite(idata.posterior["beta"].to_numpy()).all()


def test_nutpies_statistics_get_pymcs_names():
    stats = {"logp": np.zeros((2, 5)), "mean_tree_accept": np.full((2, 5), 0.9), "diverging": np.zeros((2, 5), bool)}
    idata = compat.inference_data({"posterior": {"beta": np.zeros((2, 5, 1))}, "sample_stats": stats})
    renamed = compat.with_pymc_names(idata)
    assert set(renamed["sample_stats"].data_vars) == {"lp", "acceptance_rate", "diverging"}
    assert set(compat.with_pymc_names(renamed)["sample_stats"].data_vars) == {"lp", "acceptance_rate", "diverging"}


def test_groups_are_added_and_asked_for_in_one_way():
    idata = compat.inference_data({"posterior": {"beta": np.zeros((2, 5, 1))}})
    assert "constant_data" not in idata
    idata["constant_data"] = xr.Dataset({"weights": ("row", np.ones(3))})
    assert "constant_data" in idata
    assert float(idata["constant_data"]["weights"].sum()) == 3.0
