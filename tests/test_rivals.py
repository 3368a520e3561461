"""The errors by which systems are compared, against closed forms, and what is told of runs that ended early."""

import numpy as np
import pytest

from benchmarks.rivals.process import why, within
from benchmarks.rivals.rival_seeds import says, summary
from benchmarks.rivals.truth import Truth, measured

TRUTH = Truth(np.array([1.0, -2.0]), np.array([[4.0, 1.2], [1.2, 1.0]]), "made", 0.0)


def test_the_reference_has_no_error():
    assert measured(TRUTH.mean, TRUTH.covariance, TRUTH) == pytest.approx(dict.fromkeys(("mean", "sd", "KL"), 0.0))


def test_errors_are_those_of_the_formulas():
    move, C = np.array([0.5, 0.25]), np.diag([1.0, 2.0])
    found = measured(TRUTH.mean + move, C, TRUTH)
    inverse = np.linalg.inv(TRUTH.covariance)
    square = move @ inverse @ move
    kl = 0.5 * (np.trace(inverse @ C) - 2.0 - np.log(np.linalg.det(inverse @ C)) + square)
    wanted = {"mean": np.sqrt(square / 2), "sd": 0.5, "KL": kl}
    assert found == pytest.approx(wanted)


def test_a_system_that_was_stopped_has_a_row_without_figures():
    assert summary([{"timed": "stopped after 20 s"}], TRUTH) == {"runs": 1, "ended": 0, "says": "stopped after 20 s"}


def test_figures_are_medians_of_the_runs_that_ended():
    def run(move):
        told = {"timed": "whole; 50 rows, certified", "cpu": 10.0 * move, "MB": 1.0}
        return told | {
            "mean": (TRUTH.mean + np.array([2.0 * move, 0.0])).tolist(),
            "covariance": TRUTH.covariance.tolist(),
        }

    row = summary([run(move) for move in (0.1, 0.2, 0.4)] + [{"timed": "stopped after 60 s"}], TRUTH)
    assert (row["runs"], row["ended"], row["processor s"], row["says"]) == (4, 3, 2.0, "3 certified")
    middle = measured(TRUTH.mean + np.array([0.4, 0.0]), TRUTH.covariance, TRUTH)["mean"]
    assert row["mean"] == pytest.approx(middle)
    assert row["worst combination"] == pytest.approx(np.sqrt(2.0) * middle)
    assert row["mean, 5%"] < middle < row["mean, 95%"]


def test_a_system_says_its_largest_k_hat_or_its_words():
    assert says([{"timed": f"whole; k-hat {k}, 9 count"} for k in (0.31, 0.97)]) == "k-hat up to 0.97"
    words = [{"timed": f"whole; 9 rows, {word}"} for word in ("certified", "not certified", "certified")]
    assert says(words) == "2 certified; 1 not certified"


@pytest.mark.parametrize(
    ("code", "stderr", "used", "timed"),
    [(-24, "", 60.1, "stopped after 60 s"), (-9, "", 61.0, "stopped after 60 s"),
     (-9, "", 12.0, "failed: killed by signal 9"), (-11, "fault", 61.0, "failed: killed by signal 11"),
     (1, "first\nlast\n", 1.0, "failed: last"), (1, "OSError: why\nmore\n", 1.0, "failed: OSError: why"),
     (1, "", 1.0, "failed: without a word")],
)  # fmt: skip
def test_only_the_limit_stops_a_process(code, stderr, used, timed):
    assert why(code, stderr, used, 60.0) == timed


def test_a_process_that_ends_at_once_is_told_as_failed(tmp_path):
    assert within("laplace", tmp_path, 30.0)["timed"].startswith("failed: FileNotFoundError")
