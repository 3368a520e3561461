"""The errors by which systems are compared, against closed forms and draws."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import tables
from benchmarks.rivals.rival_posteriors import marked, others, row_of
from benchmarks.rivals.rival_standing import TIE, standing, tie_broken
from benchmarks.rivals.rival_systems import SYSTEMS
from benchmarks.rivals.rival_systems.found import Rows
from benchmarks.rivals.rival_systems.process import why, within
from benchmarks.rivals.rival_systems.subsampling import sgld
from benchmarks.rivals.rival_systems.truth import Truth, errors_of, expected, measured

TRUTH = Truth(np.array([1.0, -2.0]), np.array([[4.0, 1.2], [1.2, 1.0]]), "made", 0.0)


def test_the_reference_has_no_error():
    assert measured(TRUTH.mean, TRUTH.covariance, TRUTH) == pytest.approx(
        dict.fromkeys(("mean", "sd", "KL", "z2"), 0.0)
    )


def test_errors_are_those_of_the_formulas():
    move, C = np.array([0.5, 0.25]), np.diag([1.0, 2.0])
    found = measured(TRUTH.mean + move, C, TRUTH)
    inverse = np.linalg.inv(TRUTH.covariance)
    square = move @ inverse @ move
    kl = 0.5 * (np.trace(inverse @ C) - 2.0 - np.log(np.linalg.det(inverse @ C)) + square)
    wanted = {"mean": np.sqrt(square / 2), "sd": 0.5, "KL": kl, "z2": (0.25 / 4 + 0.0625 / 1) / 2}
    assert found == pytest.approx(wanted)


def test_modes_have_no_error_of_sds():
    found = measured(TRUTH.mean, None, TRUTH)
    assert found["mean"] == 0.0
    assert np.isnan([found["sd"], found["KL"]]).all()


@pytest.mark.statistical(rate=1e-6)
def test_expected_errors_are_those_of_exact_draws():
    """400 sets of 200 draws; means of the errors within 25%, over six standard errors of the noisiest, KL."""
    n, rng = 200, np.random.default_rng(0)
    sets = rng.multivariate_normal(TRUTH.mean, TRUTH.covariance, (400, n))
    each = pd.DataFrame([measured(draws.mean(axis=0), np.cov(draws.T), TRUTH) for draws in sets])
    told = expected(np.full((2, 2), float(n)), TRUTH)
    assert each["z2"].mean() == pytest.approx(told["z2"], rel=0.25)
    assert (each["mean"] ** 2).mean() == pytest.approx(told["mean"] ** 2, rel=0.25)
    assert each["KL"].mean() == pytest.approx(told["KL"], rel=0.25)
    assert each["sd"].mean() == pytest.approx(told["sd"], rel=0.25)


@pytest.mark.statistical(rate=1e-6)
def test_the_expected_error_of_sds_is_that_of_the_largest_of_all():
    """400 sets of 200 draws of 20 coefficients: within 7%, seven standard errors; one coefficient's is the control."""
    n, D, rng = 200, 20, np.random.default_rng(1)
    truth = Truth(np.zeros(D), np.eye(D), "made", 0.0)
    sds = rng.standard_normal((400, n, D)).std(axis=1, ddof=1)
    seen = np.abs(sds - 1.0).max(axis=1).mean()
    assert expected(np.full((2, D), float(n)), truth)["sd"] == pytest.approx(seen, rel=0.07)
    assert seen > 1.5 * np.sqrt(0.5 / n)


def test_what_was_stopped_has_a_row_without_figures():
    row = row_of({"timed": "stopped after 20 s"}, TRUTH)
    assert row["errors"] == ""
    assert np.isnan([row["mean"], row["KL"], row["processor s"]]).all()


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
    assert within("laplace", "all rows", tmp_path, 30.0)["timed"].startswith("failed: FileNotFoundError")


def test_the_best_setting_has_the_least_error_of_the_mean():
    label = SYSTEMS["sgld"].label
    about = {"data": "w8a", "system": label, "documented": False}
    rows = [{**about, "mean": 0.3, "documented": True}, {**about, "mean": 0.1}, {**about, "mean": np.nan}]
    found = marked(rows)
    assert [row["best"] for row in found] == [False, True, False]
    assert [row["mean, documented"] for row in found] == [0.3, 0.3, 0.3]


def test_without_a_documented_setting_there_is_no_error_of_it():
    assert not SYSTEMS["sgld"].documented
    rows = marked([{"data": "w8a", "system": SYSTEMS["sgld"].label, "documented": False, "mean": 0.1}])
    assert np.isnan(rows[0]["mean, documented"])


def test_rows_of_the_systems_measured_anew_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert others("w8a", ["sgld"]) == []
    labels = [SYSTEMS[key].label for key in ("sgld", "laplace")]
    rows = [{"data": data, "system": system} for data in ("w8a", "phishing") for system in labels]
    pd.DataFrame(rows).to_csv(tmp_path / "rival_posteriors.csv", index=False)
    assert others("w8a", ["sgld"]) == rows[1:]


def by_hand(setting=None, timed="whole"):
    """Stand a system beside bayescore on four sets: twice as far off, as near, half as far off, stopped."""
    ours = {"system": "bayescore", "sd": 0.01, "KL": 1.0, "processor s": 2.0, "timed": "whole"}
    its = {"system": "other", "best": True, "sd": 0.01, "KL": 1.0, "processor s": 8.0, "timed": timed}
    errors = {"far": 0.2, "level": 0.14, "close": 0.05, "slow": np.nan}
    rows = [{**ours, "data": data, "setting": "README", "best": False, "mean": 0.1} for data in errors]
    rows += [{**ours, "data": data, "setting": "more", "best": True, "mean": 0.04} for data in errors]
    rows += [{**its, "data": data, "mean": error} for data, error in errors.items()]
    frame = pd.DataFrame(rows)
    frame.loc[(frame["system"] == "other") & (frame["data"] == "level"), ["KL", "processor s"]] = 0.5, 1.0
    return standing(frame, setting).iloc[0].to_dict()


def test_standing_names_the_sets_of_wins_ties_and_losses():
    assert by_hand("README") == {
        "beside": "other", "bayescore nearer": "far", "a tie": "level", "less near": "close",
        "in mean": "close", "in KL": "level", "stopped or failed": "slow",
        "its processor s / bayescore's, least": 0.5, "greatest": 4.0,
    }  # fmt: skip


def test_standing_is_that_of_the_best_setting_unless_one_is_named():
    best = by_hand()
    assert (best["bayescore nearer"], best["a tie"], best["less near"]) == ("far; level", "close", "")


def test_times_scaled_from_a_few_gradients_are_not_compared():
    found = by_hand("README", timed="scaled: 8 gradients of 122 ms to 54,310")
    assert found["bayescore nearer"] == "far"
    assert np.isnan([found["its processor s / bayescore's, least"], found["greatest"]]).all()


def test_the_error_is_the_larger_one_of_mean_and_sds():
    """Of modes, which have no sds, that of the mean."""
    rows = pd.DataFrame({"system": ["bayescore", "sds off", "mode"], "mean": 0.1, "sd": [0.1, 0.9, np.nan]})
    rows = rows.assign(data="a", best=True, KL=np.nan, timed="whole", **{"processor s": 1.0})
    found = standing(rows).set_index("beside")
    assert found["bayescore nearer"].to_dict() == {"sds off": "a", "mode": ""}
    assert found["a tie"].to_dict() == {"sds off": "", "mode": "a"}


@pytest.mark.statistical(rate=1e-6)
def test_equal_means_are_called_unequal_as_often_as_said():
    """Of 20,000 pairs of 11 errors each, within 0.02, over five standard errors; of 69 nearly never."""
    squares = (np.random.default_rng(0).standard_normal((2, 20_000, 11)) ** 2).sum(axis=2)
    outside = np.abs(np.log(squares[0] / squares[1])) > 2.0 * np.log(TIE)
    assert tie_broken(11) == pytest.approx(outside.mean(), abs=0.02)
    assert tie_broken(69) < 0.002


def test_sgld_finds_a_normal_posterior_and_large_steps_spoil_its_sds():
    """Mean within 0.3 sd, sds within 25% with h = 0.1 / curvature; with h = 3 / curvature, the control, sds are off."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((4000, 2))
    y = np.where(rng.random(4000) < 1 / (1 + np.exp(-X @ [1.0, -0.5])), 1, -1)
    rows = Rows(X, y)
    mode = SYSTEMS["laplace"].settings["all rows"](rows)()
    truth = Truth(mode.mean, mode.covariance, "Laplace", 0.0)

    def errors(step):
        found = sgld(rows, step)()
        return errors_of({"mean": found.mean, "covariance": found.covariance}, truth)

    good = errors(0.1)
    assert good["mean"] < 0.3
    assert good["sd"] < 0.25
    assert errors(3.0)["sd"] > 0.25
