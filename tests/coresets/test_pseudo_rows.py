"""The mathematics of pseudo-rows: averages by nodes, roots of a curvature and their turn, and what a row meets."""

import numpy as np
import pytest
from scipy import linalg
from scipy.stats import ortho_group

from bayescore.coresets import pseudo_rows
from bayescore.coresets.pseudo_rows import TargetDerivatives, as_rows, averages, diagonalising, root_of, solve
from bayescore.families.family import check_family
from bayescore.models.laplace import factor_of_inverse
from bayescore.types import WeightedData

LINKS = ("logistic", "probit", "negative_binomial(0.5)", "negative_binomial(40)")


@pytest.mark.parametrize("family", LINKS)
def test_averages_are_those_of_a_fine_sum(family):
    family = check_family(family)
    eta, sd = (grid.ravel() for grid in np.meshgrid(np.linspace(-6.0, 6.0, 25), [1e-3, 0.1, 0.5, 1.0]))
    x = np.linspace(-9.0, 9.0, 4001)
    mass = np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum()
    points = eta[:, None] + sd[:, None] * x
    side = np.where(np.arange(len(eta)) % 2, 1, -1).astype(np.int8)
    each = side[:, None]
    found, error = averages(eta, sd, side, family), max((1.0, *family.given()))
    for i, function in enumerate((family.score, family.curvature, family.third)):
        np.testing.assert_allclose(found[i], function(points, each) @ mass, atol=2e-4 * error)
    step = 1e-4
    fourth = (family.third(points + step, each) - family.third(points - step, each)) / (2.0 * step)
    np.testing.assert_allclose(found[3], fourth @ mass, atol=2e-3 * error)
    at_eta = family.curvature(eta, 1)
    assert np.abs(found[1] - at_eta).max() > 0.01  # not those without a width


@pytest.mark.parametrize("rank", [5, 3])
def test_roots_have_the_curvature_and_their_duals(rank):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, rank)) @ rng.normal(size=(rank, 5)) * np.geomspace(1e-3, 1e3, 5)
    H = rows.T @ rows
    factor = factor_of_inverse(H + np.diag(1e-3 * np.diagonal(H)))
    found = root_of(H, factor)
    assert found.root.shape == (5, rank)
    scale = np.sqrt(np.diagonal(H))
    np.testing.assert_allclose(
        found.root @ found.root.T / scale / scale[:, None], H / scale / scale[:, None], atol=1e-9
    )
    np.testing.assert_allclose(found.dual.T @ found.root, np.eye(rank), atol=1e-6)
    if rank == 5:  # the symmetric root, in the columns' units: nearest the columns
        root = linalg.sqrtm(H / scale / scale[:, None])
        np.testing.assert_allclose(found.root / scale[:, None], root, atol=1e-6)


def test_the_turn_finds_independent_skewed_directions():
    rng = np.random.default_rng(1)
    X = rng.gamma(1.0, size=(4000, 6)) - 1.0
    turn = ortho_group.rvs(6, random_state=2)
    rows = WeightedData(X @ turn.T, np.ones(4000, dtype=np.int8), np.ones(4000), np.arange(4000))
    start = root_of(np.eye(6), np.eye(6))
    found = diagonalising(start, rows, np.full(4000, 1e-2))
    np.testing.assert_allclose(found.root @ found.root.T, np.eye(6), atol=1e-10)
    cosines = np.abs(turn.T @ found.root)
    assert cosines.max(axis=0).min() > 0.98
    assert np.abs(turn.T @ start.root).max(axis=0).min() < 0.98


def derivatives(rows, along, sd, family):
    """Return averaged score, curvature, third and fourth derivative of rows along a direction, at 0."""
    eta = rows.with_offset(np.zeros(len(rows)))
    p = rows.X @ along
    found = averages(eta, sd, rows.y, check_family(family)) * rows.weights
    return found[0] @ p, found[1] @ p**2, found[2] @ p**3, found[3] @ p**4


@pytest.mark.parametrize("family", LINKS)
def test_pseudo_rows_have_the_derivatives_that_are_wanted(family):
    wanted = TargetDerivatives(*np.array([
        [0.0, 0.1, -0.4, 2.0, 0.0],
        [0.0, 0.05, -0.3, 0.2, 1e-9],
        [0.01, 0.02, 0.05, -0.01, 0.0],
        [1.0, 1.0, 0.9, 1.0, 1.0],
    ]))  # fmt: skip
    solved = solve(wanted, check_family(family))
    root = np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    rows = as_rows(root, np.zeros(5), solved)
    assert (rows.weights > 0.0).all()
    for k in range(5):
        own = rows.take(rows.X[:, k] != 0.0)
        sd = np.full(len(own), np.sqrt(wanted.variance[k] / solved.size[k]))
        score, curvature, third, fourth = derivatives(own, np.eye(5)[k] / root[k, k], sd, family)
        assert score == pytest.approx(wanted.score[k], abs=1e-9)
        assert curvature == pytest.approx(1.0, abs=1e-9)
        assert third == pytest.approx(wanted.third[k], abs=1e-8)
        if k == 0:
            assert fourth == pytest.approx(wanted.fourth[k], rel=0.05)


@pytest.mark.parametrize("family", LINKS)
def test_a_score_that_no_skewed_row_can_have_is_met_before_the_third_derivative(family):
    solved = solve(TargetDerivatives(*(np.array([value]) for value in (50.0, 0.8, 0.5, 1.0))), check_family(family))
    rows = as_rows(np.eye(1), np.zeros(1), solved)
    sd = np.full(len(rows), np.sqrt(1.0 / solved.size[0]))
    score, curvature, third, _ = derivatives(rows, np.ones(1), sd, family)
    assert score == pytest.approx(50.0, rel=1e-9)
    assert curvature == pytest.approx(1.0, rel=1e-9)
    assert third != pytest.approx(0.8, abs=0.1)


def test_rows_are_centred_where_they_were_solved():
    center = np.array([3.0, -1.0])
    solved = solve(
        TargetDerivatives(np.zeros(2), np.array([0.1, -0.1]), np.full(2, 0.01), np.ones(2)), check_family("logistic")
    )
    rows = as_rows(np.eye(2), center, solved)
    np.testing.assert_allclose(rows.X @ center + rows.offset, np.repeat(solved.offset, 2))


@pytest.mark.parametrize("family", [*LINKS, "cloglog"])
def test_offsets_are_those_that_the_whole_grid_finds(family, monkeypatch):
    """Sought from the middle of the grid out, and by the mirror image of one side where links are symmetric."""
    rng = np.random.default_rng(0)
    wanted = TargetDerivatives(*rng.normal(size=(3, 300)) * [[1.0], [0.3], [0.1]], 0.3 * rng.random(300))
    solved = solve(wanted, check_family(family))
    monkeypatch.setattr(pseudo_rows, "_REACHES", pseudo_rows._REACHES[-1:])
    monkeypatch.setattr(type(check_family(family)), "symmetric", False)
    for one, other in zip(solved, solve(wanted, check_family(family)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_pseudo_rows_near_others_have_the_derivatives_that_are_wanted(family):
    """They keep the others' D, and are sought about their offsets, anew where these will not do."""
    rng, family = np.random.default_rng(0), check_family(family)
    score, third, fourth = 0.3 * rng.normal(size=300), rng.uniform(-0.2, 0.2, 300), rng.uniform(0.02, 0.04, 300)
    wanted = TargetDerivatives(score, third, fourth, rng.uniform(0.5, 0.8, 300))
    first = solve(wanted, family)
    moved = wanted._replace(score=wanted.score + 0.01, third=1.02 * wanted.third)
    solved = solve(moved, family, start=first)
    assert (solved.size == first.size).mean() > 0.8
    a, b, over = pseudo_rows._counts(moved, solved.size, solved.offset - family.center, family)
    np.testing.assert_allclose(over, 0.0, atol=1e-9)
    np.testing.assert_allclose([a, b], [solved.successes, solved.failures], rtol=1e-9)
    given = solve(moved, family, size=1.01 * first.size, start=first)
    np.testing.assert_array_equal(given.size, 1.01 * first.size)  # rows of no column of ones cannot have another D
    over = pseudo_rows._counts(moved, given.size, given.offset - family.center, family)[2]
    assert (np.abs(over) < 1e-9).mean() > 0.8
