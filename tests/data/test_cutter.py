"""`Cutter`: canonical blocks whatever the blocks fed, and no more memory than they need."""

import numpy as np
import pytest

from bayescore.data.source import MAX_BLOCK_ROWS, Cutter, block_rows
from bayescore.types import WeightedData, stack


def rows(low, high):
    n = high - low
    X = np.arange(3.0 * low, 3.0 * high).reshape(n, 3)
    return WeightedData(X, np.ones(n, dtype=np.int8), np.ones(n), np.arange(low, high))


@pytest.mark.parametrize("step", [1, 2, 7, 63, 64, 65, 1000])
def test_blocks_are_canonical(step):
    cutter, found = Cutter(64), []
    for low in range(0, 1000, step):
        found += cutter.cut(rows(low, min(1000, low + step)))
    assert [len(block) for block in found] == [64] * 15
    assert len(cutter.rest) == 40
    np.testing.assert_array_equal(stack([*found, cutter.rest]).index, np.arange(1000))


def test_parts_are_few_and_the_rows_left_over_their_own():
    cutter = Cutter(5000)
    for low in range(4999):
        cutter.cut(rows(low, low + 1))
        assert len(cutter._parts) <= 13
    cutter = Cutter(64)
    cutter.cut(rows(0, 64 * 1000 + 3))
    base = cutter.rest.X
    while base.base is not None:
        base = base.base
    assert base.nbytes == 3 * 3 * 8


def test_blocks_are_a_power_of_two_of_at_most_8_megabytes_and_never_too_long_for_exact_sums():
    assert block_rows(1) == MAX_BLOCK_ROWS
    assert block_rows(20) == block_rows(21) == 32768
    assert block_rows(128) == 8192
    assert block_rows(10**6) == 256
