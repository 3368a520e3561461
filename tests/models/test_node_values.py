"""Log-likelihoods at many nodes, where rows are left out at nodes that make their label certain."""

import numpy as np
import pytest

from bayescore.families.family import check_family
from bayescore.models.groups.nodes import NodeRows, NodeSet, add_values
from bayescore.numerics.elementary import LOG_WEIGHTS, NODES

STEP, MANY, FEW, N_ROWS = 1.17, 700, 100, 30


def found(family, first_node, count, *, keep=True):
    """Return values and scores, shape (n, count), of a group whose nodes begin at one of a lattice."""
    rng = np.random.default_rng(0)
    places, center = np.array([0, count, count + 1]), np.array([(first_node - MANY // 2) * STEP, 0.0])
    at = NodeSet(places, center, np.zeros(2), np.array([STEP, 0.0]), NODES, LOG_WEIGHTS)
    side = np.where(rng.random(N_ROWS) < 0.5, 1.0, -1.0)
    rows = NodeRows(side, rng.gamma(1.0, size=N_ROWS), rng.normal(size=N_ROWS), np.zeros(N_ROWS, dtype=np.int64))
    values, scores = np.zeros(count + 1), np.full(N_ROWS * count if keep else 0, np.nan)
    add_values(rng.normal(size=N_ROWS), rows, at, check_family(family), (values, scores))
    return values[:count], scores.reshape(-1, count)


@pytest.mark.parametrize("family", ["logistic", "probit", "cloglog", "poisson", "negative_binomial(1.5)"])
def test_rows_whose_label_is_certain_are_left_out_without_a_difference(family):
    values, scores = found(family, 0, MANY)
    parts = [found(family, begin, FEW) for begin in range(0, MANY, FEW)]  # of so few nodes that none is left out
    for own, there in zip(
        (values, scores), (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)), strict=True
    ):
        np.testing.assert_allclose(own, there, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(found(family, 0, MANY, keep=False)[0], values)
    left_out = (scores == 0.0).mean()
    assert left_out == 0.0 if family == "poisson" else left_out > 0.2  # counts are never certain


def test_no_node_of_gauss_and_hermite_is_left_out_beside_a_trapezoid():
    """A group of few nodes has room for as many as another: what it has no use for repeats its centre."""
    family, room = check_family("logistic"), np.array([0, MANY, 2 * MANY, 2 * MANY + 1])
    eta, codes = np.array([0.0, 45.0]), np.array([0, 1])
    at = NodeSet(room, np.array([-300.0, 0.0, 0.0]), np.array([0.0, 9.0, 0.0]), np.ones(3), NODES, LOG_WEIGHTS)
    values, z = np.zeros(2 * MANY + 1), np.array([1.0, -1.0])
    add_values(eta, NodeRows(np.ones(2), np.ones(2), z, codes), at, family, (values, np.empty(0)))
    expected = -np.log1p(np.exp(-(45.0 - 9.0 * NODES)))
    np.testing.assert_allclose(values[MANY : MANY + len(NODES)], expected, rtol=1e-10)
