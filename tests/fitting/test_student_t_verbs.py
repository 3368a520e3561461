"""Where fits with Student t noise begin: of several modes at the highest, however far the outliers lie."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.families.student_t import StudentT
from bayescore.fitting.student_t import noise_mode
from bayescore.models.modes import search_start
from bayescore.priors import HalfStudentT
from bayescore.types import WeightedData
from bayescore.validation import DataError


def rows_with_cluster(share, distance, n=500):
    """Return rows of y = 3 + a + 2 b + 1.5 t_4, a share of them moved by a distance."""
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = X @ [3.0, 1.0, 2.0] + 1.5 * rng.standard_t(4, n)
    y[: int(share * n)] += distance
    return WeightedData(X, np.ones(n, np.int8), np.ones(n), np.arange(n), offset=-y)


def mode_of(rows, nu=None):
    return noise_mode(rows, len(rows), HalfStudentT(3.0, 2.5 * float(rows.offset.std())), nu)


@pytest.mark.parametrize(("share", "distance"), [(0.4, 150.0), (0.3, 150.0), (0.45, 1e4), (0.02, 1e12)])
def test_outliers_that_are_far_do_not_widen_the_noise(share, distance):
    """The climb from the least squares ends at noise as wide as both clusters, hundreds of nats lower."""
    rows = rows_with_cluster(share, distance)
    found = mode_of(rows)
    assert 0.5 < np.exp(found.log_sigma) < 2.0
    assert found.log_nu < 0.5
    assert not found.other_mode
    start = search_start(rows, StudentT(np.exp(found.log_nu), np.exp(found.log_sigma)))
    assert np.abs(start - [3.0, 1.0, 2.0]).max() < 0.5


def test_wide_noise_is_kept_where_it_is_likelier():
    found = mode_of(rows_with_cluster(0.4, 150.0), nu=4.0)
    assert np.exp(found.log_sigma) > 60.0


def test_two_clusters_of_equal_size_are_two_modes():
    rows = rows_with_cluster(0.5, 1e4)
    half = len(rows) // 2
    rows = WeightedData(
        np.tile(rows.X[half:], (2, 1)),
        rows.y,
        rows.weights,
        rows.index,
        offset=np.concatenate([rows.offset[half:], rows.offset[half:] - 1e4]),
    )
    assert "several modes" in mode_of(rows).other_mode


def test_responses_that_many_rows_have_are_refused():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=100), "y": rng.normal(size=100)})
    table.loc[:59, "y"] = 2.0
    with pytest.raises(DataError, match="60% of 100 responses lie on one line"):
        bc.fit("y ~ a", table, family="student_t", progressbar=False)


def test_the_likeliest_coefficients_are_sought_from_where_the_rows_are():
    rows = rows_with_cluster(0.2, 1e3)
    found = bc.find_mle(rows, "student_t(2, 1.5)")
    assert np.abs(found.beta - [3.0, 1.0, 2.0]).max() < 0.5


def test_the_cluster_robust_spread_is_that_of_the_noise():
    """Independent rows have the model's spread, in whatever pairs; scores of normal noise would tell outliers'."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=2000), "pair": np.arange(2000) // 2})
    table["y"] = table.a + rng.standard_t(2, 2000)
    found = bc.fit("y ~ a", table, family="student_t(2)", progressbar=False, random_state=1)
    robust = found.cluster_robust("pair")
    assert robust.summary()["sd"].iloc[:2].to_numpy() == pytest.approx(found.summary()["sd"].iloc[:2], rel=0.1)
    assert robust.summary()["mean"]["a"] == pytest.approx(found.summary()["mean"]["a"], abs=0.01)


def test_two_modes_are_refused_before_fits():
    rng = np.random.default_rng(0)
    noise = 1.5 * rng.standard_t(4, 250)
    table = pd.DataFrame({"a": np.tile(rng.normal(size=250), 2), "y": np.concatenate([noise, noise + 1e4])})
    with pytest.raises(DataError, match="several modes"):
        bc.fit("y ~ a", table, family="student_t", progressbar=False)


def test_draws_of_both_numbers_are_held_to_rows_by_hand():
    """They were moved between fits, and have no density of one coreset: that is said, in place of a crash."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=200)})
    table["y"] = table.a + rng.standard_t(4, 200)
    found = bc.fit("y ~ a", table, family="student_t", progressbar=False, random_state=1)
    assert bc.certify(found.idata, found.coreset, table, progressbar=False).level == "not certified"
