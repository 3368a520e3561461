"""Log-likelihoods of large groups from a grid of predictors are those of their rows one by one."""

import numpy as np
import pytest

import bayescore.models.groups.rows as rows_module
from bayescore.data.passes import TileRows
from bayescore.families import check_family
from bayescore.models.groups.nodes import DrawNodes, NodeRows
from bayescore.models.groups.rows import MIN_GRID_ROWS, grid_is_exact
from bayescore.numerics.elementary import LOG_WEIGHTS, NODES

SIZES, N_DRAWS = [5000, 40, 3000, MIN_GRID_ROWS, 700, 7], 3  # the last are rows of no group
FAMILIES = ["logistic", "probit", "cloglog", "loglog", "poisson", "negative_binomial(1.5)", "gamma(2)"]


def values_of(family, *, effects=1.0, step=1.0, shift=0.0, offset=True):
    """Return log-likelihoods at the nodes of groups, half of them with a trapezoid's, shape (S, M)."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(len(SIZES)), SIZES)
    n, G, count = len(codes), len(SIZES) - 1, 70
    first = np.array([0, 9, 9 + count, 9 + 2 * count, 18 + 2 * count, 18 + 3 * count, 19 + 3 * count])
    scale = np.tile([0.4, 0.0, 0.0, 0.3, 0.0, 0.0], (N_DRAWS, 1))
    center = np.where(scale > 0.0, 0.3, -35.0 * step) * (np.arange(G + 1) < G)
    theta = np.column_stack([rng.normal(shift, 0.5, N_DRAWS), rng.normal(size=(N_DRAWS, 2)), np.ones(N_DRAWS)])
    at = DrawNodes(theta, center, scale, first, np.where(np.arange(G + 1) < G, step, 0.0))
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    side = np.where(rng.random(n) < 0.3, 1, -1).astype(np.int8)
    own = TileRows(X, side, rng.gamma(1.0, size=n), rng.normal(size=n) if offset else np.empty(0))
    values = np.zeros((N_DRAWS, first[-1]))
    z = np.full(n, effects)
    each = NodeRows(side.astype(float), own.weights, z, codes)
    tables = NODES, LOG_WEIGHTS, values
    pieces = rows_module.pieces_of_groups(codes, by_grid=effects == 1.0)
    rows_module._add_values(own, (each, pieces), at, check_family(family), tables)
    return values


def one_by_one(family, **given):
    """Return the same row by row, as where rows multiply their effect by other numbers than 1."""
    return values_of(family, effects=1.0 + 1e-15, **given)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("step", "shift", "offset"), [(1.0, 0.0, True), (0.37, -6.0, False)])
def test_a_grid_has_the_values_of_rows_one_by_one(family, step, shift, offset):
    given = {"step": step, "shift": shift, "offset": offset}
    found, there = values_of(family, **given), one_by_one(family, **given)
    assert np.any(found != there)  # the grid was used
    # in nats, or in parts of a value of rows whose log-likelihood is far below 0
    np.testing.assert_allclose(found, there, rtol=1e-10, atol=1e-8)


def test_a_coarse_grid_would_be_seen():
    values, there = values_of("logistic"), values_of("logistic", effects=1.0 + 1e-6)
    assert np.abs(values - there).max() > 1e-6


def test_small_groups_are_one_piece_and_large_ones_each_their_own():
    sizes = [5000, 40, 3000, 7, 700, 5000 * [1]]
    sizes = np.hstack(sizes)
    codes, ends = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes)
    pieces = rows_module.pieces_of_groups(codes, by_grid=True)
    np.testing.assert_array_equal(pieces, [0, -5000, 5040, -8040, 8047, -8747, 12288, ends[-1]])
    none = rows_module.pieces_of_groups(codes, by_grid=False)
    np.testing.assert_array_equal(none, [0, 4096, 8192, 12288, ends[-1]])


def test_the_grid_serves_families_that_are_smooth_at_its_step():
    assert all(grid_is_exact(check_family(name)) for name in FAMILIES)

    class Steep(type(check_family("logistic"))):
        def log_p(self, eta, side):
            return super().log_p(20.0 * eta, side)

    assert not grid_is_exact(Steep())
