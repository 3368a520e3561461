"""A new kind of data is one file and one line: `npz_source`, and its place before the others."""

import numpy as np
import pytest

import bayescore as bc
from bayescore.data import sources
from tests.data.npz_source import NPZ

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 2))
Y = X[:, 0] + RNG.logistic(size=500) > 0


def test_a_new_kind_of_data_builds_the_coreset_of_the_array(tmp_path, monkeypatch):
    path = tmp_path / "rows.npz"
    np.savez(path, X=X, y=Y)
    with pytest.raises(ValueError, match=r"rows\.npz"):  # to which it is a Parquet file until it is known
        bc.build_coreset(path, label="y", size=60, progressbar=False)
    monkeypatch.setattr(sources, "KINDS", (NPZ, *sources.KINDS))
    found, expected = (bc.build_coreset(*d, size=60, random_state=1, progressbar=False) for d in ((path,), (X, Y)))
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.weights, expected.weights)
    with pytest.raises(ValueError, match=r"label is given, but data is an \.npz file"):
        bc.build_coreset(path, label="y", progressbar=False)


def test_every_kind_is_refused_or_opened_by_the_first_that_fits():
    assert sources.KINDS[-1].fits(object())
    assert not any(kind.fits(X) for kind in sources.KINDS[:-1])
