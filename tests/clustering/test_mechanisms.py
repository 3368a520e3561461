"""Clipping to the L1 ball; the mechanism itself is audited in `test_private`."""

import numpy as np

from bayescore.clustering.peers import clip_to_ball


def test_rows_outside_are_drawn_back_along_their_own_direction():
    X = np.array([[0.5, -0.5], [3.0, -1.0], [0.0, 0.0], [1.0, 0.0], [1e-3, 1e200]])
    clipped, outside = clip_to_ball(X, 1.0)
    assert outside == 2
    np.testing.assert_array_equal(clipped[[0, 2, 3]], X[[0, 2, 3]])
    np.testing.assert_allclose(clipped[1], [0.75, -0.25])
    np.testing.assert_allclose(np.abs(clipped).sum(axis=1)[[1, 4]], 1.0)
    assert X[1].tolist() == [3.0, -1.0]
