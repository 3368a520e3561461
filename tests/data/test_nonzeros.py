"""Wide rows of few entries: the same sums and products as by BLAS, told by values and not by the source."""

from time import process_time

import numpy as np
import pytest
from scipy import sparse

import bayescore as bc
from bayescore.coresets.predicted_error import _WhitenedDensity
from bayescore.data.passes import MAX_FILL, MIN_COLUMNS, add_gram, csr_if_sparse
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import likelihood_terms, log_likelihoods, posterior
from bayescore.types import WeightedData

LOGISTIC = FAMILIES["logistic"]
QUIET = {"progressbar": False}


def one_hot(n_rows, levels, seed=0):
    """Return the indicators of a factor for each of the numbers of levels, in CSR form, and labels."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, k, n_rows) for k in levels]) + np.cumsum([0, *levels[:-1]])
    ends = np.arange(0, codes.size + 1, len(levels))
    X = sparse.csr_array((np.ones(codes.size), codes.ravel(), ends), shape=(n_rows, sum(levels)))
    effect = rng.normal(size=sum(levels)) / np.sqrt(len(levels))
    return X, (X @ effect + rng.logistic(size=n_rows) > 0).astype(int)


def rows_of(X, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(np.array([-1, 1], dtype=np.int8), len(X))
    return WeightedData(X, y, rng.uniform(0.5, 2.0, len(X)), np.arange(len(X)))


@pytest.mark.parametrize("fill", [0.0, 0.01, MAX_FILL / 2])
def test_sums_and_products_are_those_of_dense_rows(fill):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((300, 120)) < fill, rng.normal(size=(300, 120)), 0.0)
    few = csr_if_sparse(X)
    assert sparse.issparse(few)
    np.testing.assert_array_equal(few.toarray(), X)
    w, M, found = rng.normal(size=300), rng.normal(size=(120, 7)), np.ones((120, 120))
    add_gram(few, w, found)
    np.testing.assert_allclose(found, 1.0 + (X.T * w) @ X, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(few @ M, X @ M, atol=1e-12)


def test_full_and_narrow_rows_stay_as_they_are():
    rng = np.random.default_rng(1)
    full = np.where(rng.random((300, 120)) < 2.0 * MAX_FILL, 1.0, 0.0)
    narrow = np.zeros((300, MIN_COLUMNS - 1))
    assert csr_if_sparse(full) is full
    assert csr_if_sparse(narrow) is narrow


def test_terms_and_log_likelihoods_are_those_of_blas(monkeypatch):
    X, _ = one_hot(3000, [60, 80])
    rows, rng = rows_of(X.toarray()), np.random.default_rng(2)
    beta, draws = rng.normal(size=140), rng.normal(size=(30, 140))
    found = likelihood_terms(beta, rows, LOGISTIC), log_likelihoods(draws, rows, LOGISTIC)
    monkeypatch.setattr("bayescore.models.posterior.csr_if_sparse", lambda rows: rows)
    terms, values = likelihood_terms(beta, rows, LOGISTIC), log_likelihoods(draws, rows, LOGISTIC)
    assert found[0].value == terms.value
    np.testing.assert_allclose(found[0].precision, terms.precision, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], values, rtol=1e-12)


def test_densities_at_many_points_are_those_of_blas(monkeypatch):
    X, _ = one_hot(3000, [60, 80])
    target = posterior(rows_of(X.toarray()), LOGISTIC, bc.priors.Normal(0, 1))
    rng, mode = np.random.default_rng(2), np.full(140, 0.1)
    scale, u = np.tril(rng.normal(size=(140, 140))) / 20.0, rng.normal(size=(9, 140))
    found = _WhitenedDensity(target, mode, scale)
    assert found.sparse
    monkeypatch.setattr("bayescore.coresets.predicted_error.csr_if_sparse", lambda rows: rows)
    for mine, theirs in zip(found.at(u), _WhitenedDensity(target, mode, scale).at(u), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)


def test_curvature_of_a_thousand_indicators_takes_a_fraction_of_blas():
    """22 ms by BLAS and 0.7 ms beside it; a third leaves room for noise."""
    X, _ = one_hot(2048, [250] * 4)
    few, full = rows_of(X.toarray()), rows_of(np.random.default_rng(0).normal(size=X.shape))
    beta, seconds = np.zeros(1000), []
    for rows in (few, full):
        likelihood_terms(beta, rows, LOGISTIC)  # compiles
        began = process_time()
        for _ in range(5):
            likelihood_terms(beta, rows, LOGISTIC)
        seconds.append(process_time() - began)
    assert seconds[0] < seconds[1] / 3.0


@pytest.mark.filterwarnings("ignore:no weights on these", "ignore:columns .* depend on each other linearly")
@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_sparse_and_dense_rows_give_the_same_bits(family):
    X, y = one_hot(12_000, [50, 60])
    X = sparse.csr_array(sparse.hstack([X, np.random.default_rng(3).normal(size=(12_000, 1))]))
    each = [
        bc.build_coreset(data, y, family=family, method="calibrated", size=2300, random_state=1, **QUIET)
        for data in (X, X.toarray())
    ]
    assert each[0].rows_digest == each[1].rows_digest
    assert each[0].params["mean_error"] < 0.1


@pytest.mark.slow
def test_a_factor_of_many_levels_is_merged_without_loss():
    X, y = one_hot(20_000, [700])
    core = bc.build_coreset(X, y, random_state=1, **QUIET)
    assert core.method == "aggregate"
    assert 1000 < len(core) <= 1400
    assert core.weights.sum() == 20_000
    assert bc.build_coreset(X[:, :700], y, size=1500, random_state=1, **QUIET).method == "aggregate"
