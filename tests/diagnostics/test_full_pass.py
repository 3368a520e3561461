import dataclasses

import numpy as np
import pytest

import bayescore as bc
from bayescore.diagnostics.row_sums import check_weight, full_rows
from bayescore.validation import DataError

X = np.random.default_rng(0).normal(3.0, 2.0, size=(40, 2))
Y = np.repeat(["no", "yes"], 20)
OPTIONS = {"intercept": True, "standardize": True, "progressbar": False}


BESIDE = {"label": None, "weights": None, "progress": False}


@pytest.fixture(scope="module")
def core():
    return bc.build_coreset(X, Y, method="uniform", size=10, random_state=0, **OPTIONS)


def test_the_full_data_come_in_the_coresets_design(core):
    whole = bc.all_rows(X, Y, **OPTIONS)
    for dataset in (full_rows(core, X, Y, **BESIDE), full_rows(core, whole, None, **BESIDE)):
        rows = dataset.load()
        np.testing.assert_allclose(rows.X, whole.X, rtol=1e-12)
        np.testing.assert_array_equal(rows.y, whole.y)
        check_weight(core, float(rows.weights.sum()))
    assert not np.allclose(rows.X[:, 1:], X)  # which is not that of the raw data


def test_a_weight_off_by_a_millionth_is_told(core):
    check_weight(core, 40.0 * (1 + 5e-7))
    with pytest.raises(DataError, match=r"total weight 40\.0001, the coreset stands for 40;"):
        check_weight(core, 40.0001)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"data": X[:, :1]}, "data has the features x0, the coreset was built from x0, x1"),
        ({"y": np.repeat([0, 1], 20)}, "y has the label 0, and the coreset was built with 'no' and 'yes'"),
        ({"data": bc.all_rows(X, Y, progressbar=False), "y": None}, "another design than the coreset"),
        ({"data": bc.all_rows(X, Y, **OPTIONS)}, "y is given, but data is a Coreset"),
    ],
)
def test_other_data_are_told(core, change, told):
    given = {"data": X, "y": Y, **change}
    with pytest.raises((DataError, TypeError), match=told):
        full_rows(core, given["data"], given["y"], **BESIDE)


def test_labels_of_a_coreset_count_too(core):
    other = dataclasses.replace(bc.all_rows(X, Y, **OPTIONS), classes=("a", "b"))
    with pytest.raises(DataError, match="data has the labels"):
        full_rows(core, other, None, **BESIDE)


@pytest.mark.parametrize("prior", [bc.priors.Normal(0, 4), bc.priors.Laplace(0, 1)], ids=["moved", "as they are"])
def test_missing_entries_of_the_full_data_are_told_with_their_column(prior):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 3))
    y = X[:, 0] + rng.logistic(size=2000) > 0
    core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=0, progressbar=False)
    idata = bc.sample(core, prior=prior, random_seed=0, progressbar=False)
    X[17, 1] = np.nan
    told = r"column 'x1' is nan in row 17; .* Missing in all: 1 of 2,000 rows"
    with pytest.raises(DataError, match=told):
        bc.certify(idata, core, X, y, progressbar=False)
    with pytest.raises(DataError, match=told):
        bc.log_evidence(core, X, y, progressbar=False)


def test_missing_entries_of_rows_in_groups_are_told_with_their_column():
    rng = np.random.default_rng(2)
    X, g = rng.normal(size=(2000, 2)), rng.integers(20, size=2000)
    y = X[:, 0] + rng.logistic(size=2000) > 0
    options = {"groups": g, "progressbar": False}
    core = bc.build_coreset(X, y, intercept=True, random_state=0, **options)
    idata = bc.sample(core, random_seed=0, progressbar=False)
    X[17, 1] = np.nan
    with pytest.raises(DataError, match=r"column 'x1' is nan in row 17"):
        bc.certify(idata, core, X, y, **options)
