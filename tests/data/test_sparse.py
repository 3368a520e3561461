"""Sparse rows: the blocks, and so the coresets, of the same rows as an array; what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import bayescore as bc
from bayescore.clustering import k_variates
from bayescore.coresets.leverage import leverage_scores
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.data.tables import MAX_COLUMNS
from bayescore.types import stack
from bayescore.validation import DataError
from tests.cuts import build_in_blocks
from tests.hand_made import fit_of

N = 600
_rng = np.random.default_rng(3)
X = np.where(_rng.random((N, 6)) < 0.3, np.round(_rng.normal(size=(N, 6)), 2), 0.0)
X[:, 0] = 1.0
Y = np.where(X[:, 1] + _rng.logistic(size=N) > 0, "yes", "no")
W = _rng.uniform(0.5, 3.0, N)


def wide_indices(rows):
    return sparse.csr_array((rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)), shape=rows.shape)


def repeated():
    rows, columns = np.nonzero(X)
    twice = np.repeat(0.5 * X[rows, columns], 2)
    return sparse.coo_array((twice, (np.repeat(rows, 2), np.repeat(columns, 2))), shape=X.shape)


KINDS = {
    "csr_array": sparse.csr_array(X),
    "csr_matrix": sparse.csr_matrix(X),
    "csc_array": sparse.csc_array(X),
    "csc_matrix": sparse.csc_matrix(X),
    "coo_array": sparse.coo_array(X),
    "lil_matrix": sparse.lil_matrix(X),
    "dok_array": sparse.dok_array(X),
    "bsr_array": sparse.bsr_array(X, blocksize=(2, 3)),
    "int64 indices": wide_indices(sparse.csr_array(X)),
    "repeated entries": repeated(),
    "unsorted": sparse.csr_array(X)[:, ::-1][:, ::-1],
    "explicit zeros": sparse.csr_array((X.ravel(), np.tile(np.arange(6), N), np.arange(N + 1) * 6), shape=X.shape),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_rows_are_those_of_the_array(kind):
    data = KINDS[kind]
    source = as_source(data, Y, weights=W)
    for rows in (stack(list(source.blocks())), stack(list(Dataset(source, block_rows=64).map(lambda _, block: block)))):
        assert rows.X.dtype == np.float64
        np.testing.assert_array_equal(rows.X, X)
        np.testing.assert_array_equal(rows.y, np.where(Y == "yes", 1, -1))
        np.testing.assert_array_equal(rows.weights, W)
    assert source.design.raw_names == tuple(f"x{d}" for d in range(6))


@pytest.mark.parametrize("method", ["calibrated", "sensitivity", "leverage", "online", "uniform", "merge_reduce"])
def test_coresets_are_those_of_the_array_to_the_last_bit(method):
    options = {"method": method, "size": 90, "standardize": method != "merge_reduce"}
    expected = build_in_blocks(X, Y, weights=W, block_rows=64, **options)
    for given in (
        build_in_blocks(sparse.csr_array(X), Y, weights=W, block_rows=64, **options),
        build_in_blocks(
            lambda: ((sparse.csr_matrix(X[i]), Y[i], W[i]) for i in np.split(np.arange(N), [7, 300])),
            block_rows=64,
            **options,
        ),
    ):
        for name in ("X", "y", "weights", "index"):
            np.testing.assert_array_equal(getattr(given, name), getattr(expected, name))


def test_a_block_is_the_only_dense_part(monkeypatch):
    lengths = []
    wide = sparse.csr_array(sparse.random(5000, 1000, density=0.01, random_state=0, format="csr"))
    whole = sparse.csr_array.toarray

    def noted(self, *arguments, **options):
        lengths.append(self.shape[0])
        return whole(self, *arguments, **options)

    monkeypatch.setattr(sparse.csr_array, "toarray", noted)
    y = np.arange(5000) % 2
    _ = Dataset(as_source(wide, y)).scan
    assert max(lengths) == 1024  # 8 MB
    assert sum(lengths) == 5000


def test_indices_of_the_caller_stay_as_they_are():
    given = wide_indices(sparse.csr_array(X))
    as_source(given, Y)
    assert given.indices.dtype == given.indptr.dtype == np.int64


def damaged():
    rows = sparse.csr_array(X)
    rows.indices[5] = 77
    return rows


BAD = {
    "rows of y": (sparse.csr_array(X), Y[:-1], r"y has shape \(599,\).*\(600,\)"),
    "no y": (sparse.csr_array(X), None, "y is missing"),
    "vector": (sparse.coo_array(X[:, 1]), Y, r"data has shape \(600,\); it must be 2-D"),
    "no rows": (sparse.csr_array((0, 4)), Y[:0], "at least one row and one column"),
    "no columns": (sparse.csr_array((600, 0)), Y, "at least one row and one column"),
    "complex": (sparse.csr_array(X.astype(complex)), Y, "data has dtype complex128; it must be numeric"),
    "too wide": (sparse.csr_array((600, MAX_COLUMNS + 1)), Y, r"10,001 columns, more than 10,000: .* 1 GB; keep the"),
    "damaged": (damaged(), Y, "data is a damaged csr_array .*make it anew"),
}


@pytest.mark.parametrize("kind", BAD)
def test_sparse_rows_that_do_not_fit_are_refused(kind):
    data, y, message = BAD[kind]
    with pytest.raises(DataError, match=message):
        as_source(data, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_named(value):
    bad = X.copy()
    bad[137, 4] = value
    message = rf"column 'x4' is {value} in row 137; drop such rows"
    with pytest.raises(DataError, match=message):
        bc.build_coreset(sparse.csr_array(bad), Y, size=50, progressbar=False)
    core = bc.all_rows(sparse.csr_array(X), Y, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=20, tune=20, chains=1, random_seed=1, progressbar=False)
    with pytest.raises(DataError, match=message):
        fit_of(idata, core).predict(sparse.csr_array(bad))


def test_what_takes_no_sparse_rows_says_so():
    with pytest.raises(TypeError, match=r"X is a sparse csr_array; give X.toarray\(\)"):
        k_variates(sparse.csr_array(X), 3)


def test_predictions_are_those_of_the_array():
    core = bc.build_coreset(sparse.csr_array(X), Y, size=100, random_state=1, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=50, tune=50, chains=2, random_seed=1, progressbar=False)
    rows = np.tile(X, (40, 1))  # more rows than are dense at a time
    found, expected = (fit_of(idata, core).predict(given, prob=0.9) for given in (sparse.csc_matrix(rows), rows))
    pd.testing.assert_frame_equal(found, expected)
    np.testing.assert_array_equal(leverage_scores(sparse.csr_array(X)), leverage_scores(X))


def test_offsets_go_with_sparse_rows():
    offset = np.linspace(-1.0, 1.0, N)
    core = bc.all_rows(sparse.csr_array(X), Y, offset=offset, progressbar=False)
    np.testing.assert_array_equal(core.offset, offset)
    idata = bc.sample(core, sampler="mala", draws=20, tune=20, chains=1, random_seed=1, progressbar=False)
    rows, more = np.tile(X, (40, 1)), np.tile(offset, 40)
    found, expected = (fit_of(idata, core).predict(given, offset=more) for given in (sparse.csc_matrix(rows), rows))
    pd.testing.assert_frame_equal(found, expected)


def test_certificates_are_those_of_the_array():
    core = bc.build_coreset(sparse.csr_array(X), Y, size=100, random_state=1, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=300, tune=300, chains=2, random_seed=1, progressbar=False)
    found, expected = (bc.certify(idata, core, data, Y, progressbar=False) for data in (sparse.csr_matrix(X), X))
    pd.testing.assert_frame_equal(found.coordinates, expected.coordinates)
    assert found.level == expected.level


@pytest.mark.filterwarnings("ignore:columns .* depend on each other linearly")  # the indicators add up to 1
def test_the_default_one_hot_encoder_works_in_a_pipeline():
    rng = np.random.default_rng(4)
    n = 2000
    frame = pd.DataFrame({"device": rng.choice(["phone", "tablet", "desk"], n), "age": rng.normal(size=n)})
    y = (frame["age"] + (frame["device"] == "phone") + rng.logistic(size=n) > 0).to_numpy()
    models = []
    for is_sparse in (True, False):
        encode = make_column_transformer(
            (OneHotEncoder(sparse_output=is_sparse), ["device"]), (StandardScaler(), ["age"]), sparse_threshold=1.0
        )
        model = bc.CoresetLogisticRegression(random_state=0)
        models.append(make_pipeline(encode, model).fit(frame, y))
    own, dense = models
    assert sparse.issparse(own[0].transform(frame))
    np.testing.assert_array_equal(own[-1].coef_, dense[-1].coef_)
    np.testing.assert_array_equal(own.predict_proba(frame), dense.predict_proba(frame))
