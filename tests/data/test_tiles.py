"""Blocks made of columns of any kind, and their tiles."""

import numpy as np
import pytest

from bayescore.data.passes import TILE, load_signed_tile, load_tile, new_tile, rows_of

_rng = np.random.default_rng(3)
N = 300
COLUMNS = {
    "single": [_rng.normal(size=N).astype(np.float32) for _ in range(4)],
    "double": [_rng.normal(size=N) for _ in range(4)],
    "half and double": [_rng.normal(size=N).astype(np.float16), np.full(N, 1.0 + 2.0**-50)],
    "with NaN": [np.where(np.arange(N) == 7, np.nan, 1.5).astype(np.float32)],
    "strided": list(np.asfortranarray(_rng.normal(size=(5, N)))),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_rows_hold_the_columns_to_the_last_bit(kind):
    rows = rows_of(COLUMNS[kind], len(COLUMNS[kind][0]))
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, np.column_stack([column.astype(np.float64) for column in COLUMNS[kind]]))


@pytest.mark.parametrize("n_features", [1, 3, 70])
def test_a_tile_holds_rows_as_columns(n_features):
    X, y = _rng.normal(size=(N, n_features)), np.where(_rng.random(N) < 0.5, 1, -1).astype(np.int8)
    tile = new_tile(n_features)
    assert (tile == 0.0).all()
    load_tile(X, 100, TILE, tile)
    np.testing.assert_array_equal(tile[:, :TILE], X[100 : 100 + TILE].T)
    load_signed_tile(X, y, 100, TILE, tile)
    np.testing.assert_array_equal(tile[:, :TILE], (X * y[:, None])[100 : 100 + TILE].T)
    before = tile.copy()
    load_signed_tile(X, y, 295, 5, tile)  # the last rows of a block leave the other columns as they are
    np.testing.assert_array_equal(tile[:, :5], (X * y[:, None])[295:].T)
    np.testing.assert_array_equal(tile[:, 5:], before[:, 5:])
