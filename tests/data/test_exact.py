"""Exact sums: the same in every order and for every cut."""

import math

import numpy as np
import pytest

from bayescore.data.passes import exact_weight, quantum, total_weight
from bayescore.data.source import MAX_BLOCK_ROWS


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


def test_weights_add_up_exactly_in_every_order(rng):
    w = np.exp(rng.normal(scale=150.0, size=MAX_BLOCK_ROWS))
    for values in (w, np.array([5e-324, 1.0, 1e100]), np.full(MAX_BLOCK_ROWS, np.nextafter(2.0, 0.0))):
        for parts in ([values], np.array_split(rng.permutation(values), 3)):
            assert total_weight(map(exact_weight, parts)) == math.fsum(values)
