"""The table of verdicts, a row at a time, on errors made up for it."""

import numpy as np
import pytest

from bayescore.numerics.moments import Moments
from bayescore.report.compare import verdict

NAMES = ("a", "b", "c")


def moments(mean=0.0, sd=0.0, correlation=0.0):
    """Errors or standard errors, the given ones at 'b' and between 'a' and 'c', the others a tenth of them."""
    off = np.array([0.1, 1.0, 0.1])
    pairs = np.full((3, 3), 0.1 * correlation)
    pairs[0, 2] = pairs[2, 0] = correlation
    np.fill_diagonal(pairs, 0.0)
    return Moments(mean * off, sd * off, pairs, np.zeros((2, 3)))


def even(mcse, correlation=None):
    """The same standard error for all."""
    pairs = np.full((3, 3), mcse if correlation is None else correlation)
    return Moments(np.full(3, mcse), np.full(3, mcse), pairs, np.full((2, 3), mcse))


@pytest.mark.parametrize(
    ("error", "mcse", "level", "told"),
    [
        ({"mean": 0.11}, 0.01, "differs", "+0.110 ± 0.010 sd, in the mean of 'b'"),
        ({"sd": -0.5}, 0.01, "differs", "−50.0 ± 1.0%, in the sd of 'b'"),
        ({"correlation": 0.3}, 0.01, "differs", "+0.300 ± 0.010, in the correlation of 'a' and 'c'"),
        ({"mean": 0.5}, 0.1, "differs", "mean of 'b'"),
        ({"mean": 0.2}, 0.1, "too few draws", "Run that about 4 times as long"),
        ({"correlation": 0.5}, 0.1, "too few draws", "too large to tell"),  # correlations are not judged then
        ({"mean": 0.09}, 0.099, "indistinguishable", "would have shown"),
        ({"mean": 0.09, "sd": 0.02}, 0.01, "close", "+0.090 ± 0.010 sd, in the mean of 'b'"),
        ({"sd": 0.12, "correlation": 0.09}, 0.02, "differs", "sd of 'b'"),
    ],
)
def test_each_row_of_the_table(error, mcse, level, told):
    found = verdict(moments(**error), even(mcse), NAMES, "candidate")
    assert found.level == level
    assert told in found.text


def test_a_small_real_error_beside_a_large_one_that_may_be_chance():
    found = verdict(moments(mean=0.12, correlation=0.09), even(0.045, correlation=0.02), NAMES, "candidate")
    assert found.level == "too few draws"
    assert "+0.120 ± 0.045 sd, in the mean of 'b', may be chance" in found.text


def test_the_noisier_side_is_the_one_to_run_longer():
    spread = moments(0.2, 0.1)
    found = verdict(moments(), spread, NAMES, "reference")
    assert "error of the mean of 'b' is 0.2 sd" in found.text
    assert "mostly from the reference. Run that about 16 times as long" in found.text


def test_with_few_draws_errors_count_against_the_largest_standard_error():
    spread = even(0.02)
    assert verdict(moments(mean=0.2), spread, NAMES, "candidate").level == "differs"
    spread.mean[0] = 0.12
    assert verdict(moments(mean=0.2), spread, NAMES, "candidate").level == "too few draws"
