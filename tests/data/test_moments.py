"""Sums of numbers and squares without rounding: right to the last bit, whatever the order and the cuts."""

from fractions import Fraction
from functools import reduce
from math import fsum
from operator import add

import numpy as np
import pytest

from bayescore.data.passes import ExactMoments, exact_total

RNG = np.random.default_rng(0)
SPREAD = RNG.normal(size=2000) * 10.0 ** RNG.integers(-200, 60, 2000)


@pytest.mark.parametrize(
    "values", [SPREAD, -np.abs(SPREAD), RNG.normal(size=999), np.array([5e-324, -5e-324, 2.0**-1040, 0.0, -0.0])]
)
def test_totals_are_exact(values):
    assert Fraction(exact_total(values), 1 << 1074) == sum(map(Fraction, values.tolist()))
    assert exact_total(values) / (1 << 1074) == fsum(values)


def test_moments_are_those_of_rational_arithmetic_for_every_order_and_cut():
    values = 1e6 + RNG.normal(size=5000)
    exact = [Fraction(v) for v in values.tolist()]
    mean = sum(exact) / len(exact)
    spread = float(sum((v - mean) ** 2 for v in exact) / (len(exact) - 1)) ** 0.5
    whole = ExactMoments.of(values)
    assert whole.mean() == float(mean)
    assert whole.spread(whole.mean(), 1) == pytest.approx(spread, rel=1e-15)
    parts = [ExactMoments.of(part) for part in np.array_split(RNG.permutation(values), 7)]
    assert reduce(add, parts) == whole
    # negative control: sums in floats depend on the order
    assert len({float(np.cumsum(RNG.permutation(values**2))[-1]) for _ in range(20)}) > 1


def test_an_sd_far_below_the_mean_keeps_its_digits():
    values = 1e12 + np.arange(1000.0) / 1024.0
    moments = ExactMoments.of(values)
    assert moments.spread(moments.mean(), 0) == pytest.approx(np.std(np.arange(1000.0) / 1024.0), rel=1e-7)
    assert moments.spread(0.0, 0) == pytest.approx(1e12)
