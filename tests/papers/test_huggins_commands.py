"""The commands that run the logistic coreset paper again: what they compute, on small data."""

import numpy as np
import pandas as pd
import pytest

from bayescore.coresets.sensitivity import sensitivity_bounds
from benchmarks.papers.huggins import data_sets, lower_bounds, mixture_bounds, quality
from benchmarks.papers.huggins.problems import PROBLEMS


def test_the_constructions_keep_their_bounds():
    rows = lower_bounds.constructions()
    assert len(rows) == 12
    assert all(row["holds"] for row in rows)


def test_mean_bounds_are_those_of_the_package():
    mixture = mixture_bounds.MIXTURES["N(0, 1)"]
    Z, _ = mixture_bounds.drawn(mixture, 2000, np.random.default_rng(0))
    own = mixture_bounds.mean_bound(mixture, 2000, 0.7, np.random.default_rng(0))
    assert own == pytest.approx(sensitivity_bounds(Z, centers=[[0.0]], radius=0.7).mean(), rel=1e-9)


def test_bounds_with_centers_are_near_those_with_means():
    Z = np.random.default_rng(1).normal(size=(4000, 2))
    exact = sensitivity_bounds(Z, centers=[[0.0, 0.0]], radius=0.5)
    np.testing.assert_allclose(data_sets.with_centers(Z, np.zeros((1, 2)), 0.5), exact, rtol=0.03)


def test_a_study_and_what_it_is_summed_up_to():
    frame = pd.DataFrame(quality.study("Binary5", PROBLEMS["Binary5"], trials=2, quick=True))
    assert set(frame["method"]) == {"random", "coreset", "calibrated"}
    assert (frame["MMD2, low"] <= frame["MMD2, high"]).all()
    near = frame.set_index("method")["MMD whitened"]
    assert near["calibrated"].max() < 0.1 * near["random"].min()  # 2 and hundreds: the floor and the noise of draws
    told = quality.verdicts(frame)[0]
    assert told["sizes"] == len(near["random"])
    swapped = frame.assign(method=frame["method"].map({"random": "coreset", "coreset": "random"}).fillna("calibrated"))
    turned = quality.verdicts(swapped)[0]
    assert turned["greatest ratio"] == pytest.approx(1.0 / told["least ratio"])
    assert (turned["MMD2, better"], turned["MMD2, worse"]) == (told["MMD2, worse"], told["MMD2, better"])
    assert told["apart by chance"] == pytest.approx(told["sizes"] * quality.false_alarm(2))


@pytest.mark.parametrize(("repetitions", "rate"), [(3, 0.34), (4, 0.23), (10, 0.035), (20, 0.002)])
def test_quartiles_of_equal_methods_are_apart_as_often_as_the_protocol_says(repetitions, rate):
    """Seeded; 0.004 and 0.0005 are more than two standard errors and what the rounding hides."""
    assert quality.false_alarm(repetitions) == pytest.approx(rate, abs=0.005 if rate > 0.01 else 0.0005)


def test_two_repetitions_have_quartiles_apart_as_often_as_the_integral_says():
    """Of pairs a <= b the quartiles are at a + (b - a) / 4 and 3 / 4; counted here one comparison at a time."""
    rng = np.random.default_rng(3)
    apart = 0
    for _ in range(4000):
        (a, b), (c, d) = np.sort(rng.standard_normal((2, 2)), axis=1)
        apart += 3 * a + b > c + 3 * d or 3 * c + d > a + 3 * b
    assert quality.false_alarm(2) == pytest.approx(apart / 4000, abs=4 * 0.5 / 4000**0.5)
