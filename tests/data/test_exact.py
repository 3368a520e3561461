"""Exact sums: the same in every order and for every cut."""

import math

import numpy as np
import pytest

from bayescore.data.passes.cutter import MAX_BLOCK_ROWS
from bayescore.data.passes.exact import as_integers, exact_sum, exact_weight, from_integers, quantum, total_weight


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def test_the_quantum_is_a_power_of_two_and_36_bits_below():
    for largest in (1.0, 0.3, 1e-5, 7e17, 3.0):
        unit = float(quantum(np.float64(largest)))
        assert math.frexp(unit)[0] == 0.5
        assert 2.0**35 <= largest / unit < 2.0**36
    assert np.isfinite(1.0 / quantum(np.array([0.0, 1e-320, 1e-300]))).all()
    np.testing.assert_array_equal(quantum(np.array([1.0, 8.0])), [quantum(np.float64(1.0)), 8 * quantum(np.float64(1))])


@pytest.mark.parametrize("square", [False, True])
def test_exact_sums_do_not_depend_on_order_or_cut(rng, square):
    X = rng.normal(size=(5000, 2)) * np.array([1.0, 1e9])
    w, origin = rng.uniform(0.1, 2.0, len(X)), np.array([0.25, -1e8])
    terms = w[:, None] * (X - origin) ** (2 if square else 1)
    unit = quantum(np.abs(terms).max(axis=0))
    whole = exact_sum(X, w, origin, unit, square=square)
    for _ in range(5):
        order = rng.permutation(len(X))
        cuts = np.split(order, np.sort(rng.integers(0, len(X), 6)))
        assert (sum(exact_sum(X[i], w[i], origin, unit, square=square) for i in cuts) == whole).all()
    assert (sum(terms) != sum(terms[::-1])).any()  # plain sums do depend on it
    for column, total in zip(terms.T, from_integers(whole, unit), strict=True):
        largest = np.abs(column).max()
        assert abs(total - math.fsum(column)) <= 6 * math.sqrt(len(column)) * largest * 2.0**-36


def test_a_full_block_of_largest_values_adds_without_rounding():
    values = np.full((MAX_BLOCK_ROWS, 1), np.nextafter(1.0, 0.0))
    unit = quantum(np.ones(1))
    total = sum(exact_sum(values, np.ones(len(values)), np.zeros(1), unit)[0] for _ in range(50))
    assert int(total) == 50 * len(values) * int(np.rint(values[0, 0] / unit[0]))
    assert as_integers(np.array([2.0**52])).tolist() == [2**52]


def test_weights_add_up_exactly_in_every_order(rng):
    w = np.exp(rng.normal(scale=150.0, size=MAX_BLOCK_ROWS))
    for values in (w, np.array([5e-324, 1.0, 1e100]), np.full(MAX_BLOCK_ROWS, np.nextafter(2.0, 0.0))):
        for parts in ([values], np.array_split(rng.permutation(values), 3)):
            assert total_weight(map(exact_weight, parts)) == math.fsum(values)
