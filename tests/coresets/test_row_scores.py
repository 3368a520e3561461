"""Compiled scores of rows against the plain formulas, the same bits wherever a row stands, and exact selections."""

import numpy as np
import pytest

from bayescore.coresets import separation
from bayescore.coresets.pilot import Shares, survey
from bayescore.coresets.scores import block_factor, data_factor, leverage_rows, whitening
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import WIDE
from bayescore.numerics import sampling
from bayescore.numerics.sampling import Chosen, candidates, draw_candidates
from bayescore.types import WeightedData

LINKS = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def data(n=1000, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1, -1).astype(np.int8)
    return WeightedData(rng.normal(size=(n, n_features)), y, rng.uniform(0.1, 5.0, n), np.arange(n))


def whitened(family, n_features=5):
    rng = np.random.default_rng(1)
    return LaplaceApproximation(family, rng.normal(size=n_features), np.tril(rng.normal(size=(n_features, n_features))))


@LINKS
def test_scores_and_their_sums(family):
    rows, white = data(), whitened(family)
    eta, length = rows.X @ white.theta, np.linalg.norm(rows.X @ white.factor, axis=1)
    g, h = white.row_scores(rows)[:2]
    np.testing.assert_allclose(g, rows.weights * np.abs(family.score(eta, rows.y)) * length, rtol=1e-11)
    np.testing.assert_allclose(h, rows.weights * family.curvature(eta, rows.y) * length**2, rtol=1e-10)
    third = family.third(eta, rows.y)
    reach = rows.weights * (np.abs(third) * length**3 / 6.0 + family.curvature(eta, rows.y) * length**4 / 24.0)
    np.testing.assert_allclose(white.row_scores(rows).reach, reach, rtol=1e-9)
    shares = Shares.estimated(white, Chosen(rows, np.ones(len(rows)), len(rows)), rows.weights.sum())
    np.testing.assert_allclose(shares.probability(rows).sum(), 3.1, rtol=1e-11)
    found = survey(Dataset(as_source(rows), block_rows=300), shares, 50, 80, (1, 2))
    pulls = (0.5 * rows.weights * third * length**2) @ (rows.X @ white.factor)
    np.testing.assert_allclose(found.pull, pulls, rtol=1e-9, atol=1e-9 * np.abs(pulls).max())
    assert found.total == pytest.approx(3.1)
    assert len(found.sample.rows) == 80
    p = shares.far(white.row_scores(found.sample.rows), found.sample.rows.weights)
    sure = found.sample.inclusion == 1.0
    assert 0 < found.sample.certain == np.count_nonzero(sure) < 80
    left = shares.far(white.row_scores(rows), rows.weights).sum() - p[sure].sum()
    np.testing.assert_allclose(found.sample.inclusion[~sure], (80 - found.sample.certain) * p[~sure] / left, rtol=1e-9)


@LINKS
def test_wide_rows_are_scored_by_products_of_matrices(family):
    rng, white = np.random.default_rng(3), whitened(family, WIDE)
    rows = data(700, WIDE)
    eta = rows.X @ (white.theta / 10.0)
    for factor in (white.factor, rng.normal(size=(WIDE, WIDE))):  # triangular, and not
        g, _ = LaplaceApproximation(family, white.theta / 10.0, factor).row_scores(rows)[:2]
        expected = rows.weights * np.abs(family.score(eta, rows.y)) * np.linalg.norm(rows.X @ factor, axis=1)
        np.testing.assert_allclose(g, expected, rtol=1e-10)


@LINKS
def test_a_row_has_the_same_score_in_any_block(family):
    rows, white, basis = data(), whitened(family), np.random.default_rng(2).normal(size=(5, 3))
    g, h = white.row_scores(rows)[:2]
    leverage = leverage_rows(rows.X, rows.weights, basis)
    for low in range(0, len(rows), 37):
        part = rows.take(slice(low, low + 37))
        np.testing.assert_array_equal(white.row_scores(part)[:2], (g[low : low + 37], h[low : low + 37]))
        np.testing.assert_array_equal(leverage_rows(part.X, part.weights, basis), leverage[low : low + 37])


def test_leverages_and_squares():
    rows, basis = data(), np.random.default_rng(2).normal(size=(5, 3)) / 5.0
    plain = np.minimum(rows.weights * ((rows.X @ basis) ** 2).sum(axis=1), 1.0)
    assert plain.max() == 1.0
    np.testing.assert_allclose(leverage_rows(rows.X, rows.weights, basis), plain, rtol=1e-12)
    np.testing.assert_allclose(Dataset(as_source(rows)).scan.squares, rows.weights @ rows.X**2, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 128, 1000])
@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e90])
def test_the_factor_of_a_block_is_that_of_lapack(n, scale):
    rows = data(n)
    X = rows.X * np.array([scale, 1.0, 1.0, 1.0, 1.0])
    X[:, 3] = X[:, 2]
    X[:, 4] = 0.0
    factor = block_factor(WeightedData(X, rows.y, rows.weights, rows.index))
    exact = np.linalg.qr(np.sqrt(rows.weights)[:, None] * X, mode="r")
    assert factor.shape == exact.shape == (min(n, 5), 5)
    assert (np.tril(factor, -1) == 0.0).all()
    length = np.linalg.norm(exact, axis=0) + (np.arange(5) == 4)
    np.testing.assert_allclose(
        (factor / length).T @ (factor / length), (exact / length).T @ (exact / length), atol=1e-13
    )


def test_whitenings_are_triangular_and_white():
    rows = data(3000)
    white = whitening(data_factor(Dataset(as_source(rows))))
    assert (np.triu(white.basis, 1) == 0.0).all()
    inside = rows.X @ white.basis
    np.testing.assert_allclose((inside.T * rows.weights) @ inside, np.eye(5), atol=1e-12)


def test_margins_are_those_of_rows_at_unit_length():
    rows, rng = data(), np.random.default_rng(4)
    X = rows.X.copy()
    X[7] = 0.0
    source = as_source(WeightedData(X, rows.y, rows.weights, rows.index))
    white, direction = whitening(data_factor(Dataset(source))), rng.uniform(-1.0, 1.0, 5)
    unit, error = separation.unit_rows(next(iter(source.blocks())), white)
    found = separation.find_contradictions(Dataset(source), white, direction, strict=False)
    margins = unit @ direction
    wrong = np.flatnonzero(margins < -separation.TOLERANCE - error)
    assert found.n_rows == len(wrong)
    assert found.n_on_plane == 1  # the row of zeros
    np.testing.assert_allclose(found.margins, np.sort(margins[wrong])[: separation.CUTS], rtol=1e-9)


@pytest.mark.parametrize("levels", [None, 5], ids=["no ties", "ties"])
@pytest.mark.parametrize("step", [40, 128, 1000])
def test_candidates_are_the_best_of_all_rows(monkeypatch, levels, step):
    """Whatever the blocks, and whatever the bar of the blocks before has kept out."""
    n, size, seed = 6000, 30, 5
    rng = np.random.default_rng(0)
    p = rng.gamma(0.5, size=n) + 1e-3 if levels is None else rng.integers(1, levels, n) / levels
    rows = WeightedData(p[:, None], np.ones(n, np.int8), np.ones(n), np.arange(n))
    passed, plain = [], candidates

    def counted(*arguments, **bar):
        part = plain(*arguments, **bar)
        passed.append(len(part.key))
        return part

    monkeypatch.setattr(sampling, "candidates", counted)
    found, _ = draw_candidates(
        Dataset(as_source(rows), block_rows=step), lambda block: block.X[:, 0].copy(), size, seed
    )
    assert sum(passed) < n / 2  # most rows of most blocks
    key = sampling.hash_uniforms(0, n, seed) / p
    best = set(np.lexsort((np.arange(n), -p))[: size + 1]) | set(np.lexsort((np.arange(n), key))[: size + 1])
    assert found.position.tolist() == sorted(best)
    np.testing.assert_array_equal(found.key, key[found.position])
    np.testing.assert_array_equal(found.rows.index, found.position)
