"""mu: a lower bound that all rows attain; against a search of the whole circle; infinite where labels are separated."""

import numpy as np
import pytest

from bayescore.coresets import separation as complexity
from bayescore.coresets.separation import mu_complexity
from bayescore.data.sources import as_source
from bayescore.types import WeightedData
from bayescore.validation import DataError
from tests.cuts import Recut


def data(n, n_features, seed=0, signal=1.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, n_features - 1))])
    y = np.where(signal * X @ np.linspace(1.0, -1.0, n_features) + rng.logistic(size=n) > 0, 1, -1)
    return WeightedData(X, y.astype(np.int8), rng.uniform(0.05, 20.0, n), np.arange(n))


def quotient(rows, beta):
    eta = rows.Z @ beta
    return (rows.weights @ np.maximum(eta, 0.0) ** 2) / (rows.weights @ np.minimum(eta, 0.0) ** 2)


@pytest.mark.parametrize("seed", range(4))
def test_in_the_plane_it_is_mu(seed):
    rows = data(200, 2, seed, signal=3.0)
    angles = np.linspace(0.0, 2.0 * np.pi, 100_001)
    eta = rows.Z @ np.stack([np.cos(angles), np.sin(angles)])
    mu = ((rows.weights @ np.maximum(eta, 0.0) ** 2) / (rows.weights @ np.minimum(eta, 0.0) ** 2)).max()
    found = mu_complexity(rows, random_state=seed, progressbar=False)
    assert found.lower_bound == pytest.approx(mu, rel=1e-6)
    assert "local search, no upper bound" in str(found)


@pytest.mark.parametrize("sample", [20_000, 1000])
def test_all_rows_attain_it_and_no_neighbour_beats_it(sample, monkeypatch):
    monkeypatch.setattr(complexity, "SAMPLE", sample)
    rows = data(6000, 5)
    found = mu_complexity(rows, random_state=1, progressbar=False)
    assert found.lower_bound == pytest.approx(quotient(rows, found.direction), rel=1e-9)
    rng = np.random.default_rng(0)
    tried = rng.normal(size=(2000, 5))
    assert found.lower_bound > max(quotient(rows, beta) for beta in tried)
    if sample > len(rows):
        near = found.direction + 0.01 * np.linalg.norm(found.direction) * tried
        assert found.lower_bound * (1.0 + 1e-6) > max(quotient(rows, beta) for beta in near)


def test_weights_are_copies_and_columns_may_be_mixed():
    rows = data(300, 4)
    counts = np.arange(300) % 4 + 1
    weighted, copies = rows.with_weights(counts.astype(float)), rows.take(np.repeat(np.arange(300), counts))
    copies = copies.with_weights(np.ones(len(copies)))
    mixing = np.random.default_rng(3).normal(size=(4, 6)) * [1.0, 1e6, 1.0, 1e-6, 1.0, 1.0]
    mixed = WeightedData(weighted.X @ mixing, weighted.y, weighted.weights, weighted.index)
    bounds = [mu_complexity(rows, random_state=0, progressbar=False).lower_bound for rows in (weighted, copies, mixed)]
    np.testing.assert_allclose(bounds, bounds[0], rtol=1e-6)
    swapped = WeightedData(weighted.X, -weighted.y, weighted.weights, weighted.index)
    assert mu_complexity(swapped, progressbar=False).lower_bound == pytest.approx(bounds[0], rel=1e-4)


def test_the_same_seed_gives_the_same_bound_whatever_the_blocks(monkeypatch):
    monkeypatch.setattr(complexity, "SAMPLE", 1000)
    rows = data(6000, 5)
    found = mu_complexity(rows, random_state=1, progressbar=False)
    other = mu_complexity(Recut(as_source(rows), 311), random_state=1, progressbar=False)
    assert (other.lower_bound, other.n_passes) == (found.lower_bound, found.n_passes)
    np.testing.assert_array_equal(other.direction, found.direction)


def test_mu_grows_as_the_overlap_shrinks_and_is_infinite_without():
    x = np.concatenate([np.linspace(-1.0, -0.1, 100), np.linspace(0.1, 1.0, 100), [0.0]])
    y = np.repeat([0, 1], [100, 101])
    bounds = []
    for depth in (1e-1, 1e-2, 1e-3):
        x[-1] = -0.1 - depth
        bounds.append(mu_complexity(x[:, None], y, intercept=True, progressbar=False).lower_bound)
    assert bounds[1] > 30 * bounds[0]
    assert bounds[2] > 30 * bounds[1]
    x[-1] = 0.0
    found = mu_complexity(x[:, None], y, intercept=True, progressbar=False)
    assert np.isinf(found.lower_bound)
    assert str(found).startswith("mu is infinite: complete separation")


def test_a_sample_that_is_separable_itself_does_no_harm(monkeypatch):
    """Two rows of 5000 overlap: few samples hold them, but the rows that prove overlap do."""
    monkeypatch.setattr(complexity, "SAMPLE", 600)
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(5000), rng.normal(size=(5000, 2))])
    eta = X @ [0.0, 1.0, 1.0]
    y = np.where(eta > 0, 1, -1)
    y[np.argsort(eta)[[0, -1]]] *= -1
    found = mu_complexity(X, y, random_state=0, progressbar=False)
    rows = WeightedData(X, y.astype(np.int8), np.ones(5000), np.arange(5000))
    assert 50 < found.lower_bound == pytest.approx(quotient(rows, found.direction), rel=1e-9)


def test_refusals():
    with pytest.raises(DataError, match="every entry of the design matrix is 0"):
        mu_complexity(np.zeros((20, 3)), np.arange(20) % 2, progressbar=False)
