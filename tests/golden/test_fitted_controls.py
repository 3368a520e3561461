"""Negative controls of the golden cases of fits: what is changed in rows, prior or seed is noticed, and said.

Each control is another fit, whose answers are held against those recorded.
"""

import re

import numpy as np
import pytest

import bayescore as bc
from tests.golden import fitted
from tests.golden.case import all_cases
from tests.golden.fitted_models import FLAT, MODELS, NEW, ONE, SEED, SLOPES, fit_of
from tests.golden.fitted_models import fitted as fit_of_rows
from tests.golden.recorded import compared, load

RECORDED = load("fitted")
COUNTS = MODELS[f"poisson, {FLAT}, offset"]
GROUPS = MODELS[f"logistic, {SLOPES}"]
MEAN, SD = 0, 1  # columns of a summary


def said_of(model, verb, fields):
    """Return what the golden comparison says of fields, by the name of each that moved."""
    case = all_cases()[f"fitted: {model.name}: {verb.__name__}"]
    head = f"fitted: {case.name}: "
    lines = compared(case, fields, RECORDED[case.name])
    assert all(line.startswith(head) for line in lines)
    return dict(line.removeprefix(head).split(": ", 1) for line in lines)


def moved(model, verb, fit):
    """Return the same of what a fit answers to a verb."""
    return said_of(model, verb, verb(model, fit))


def recorded(model, verb, field):
    return RECORDED[f"{model.name}: {verb.__name__}"][field]


def in_sds(model, fit):
    """Return how far the means of the parameters are from those recorded, in recorded sds."""
    old = recorded(model, fitted.summary, "summary, coef")
    return (fit.summary()["mean"].to_numpy() - old[:, MEAN]) / old[:, SD]


def test_a_fit_made_again_moves_nothing():
    again = fit_of_rows(COUNTS)
    for verb in (fitted.printed, fitted.summary, fitted.predict, fitted.averages, fitted.check):
        assert not moved(COUNTS, verb, again)


def test_offsets_moved_by_1_move_the_intercept():
    """It goes down by 1, but for what the prior holds back; slopes stay where they are but for chance."""
    found = fit_of_rows(COUNTS, COUNTS.rows.assign(base=COUNTS.rows["base"] + 1.0))
    said = moved(COUNTS, fitted.summary, found)
    assert {"summary, coef", "summary, ratio"} <= set(said)
    assert re.search(r"moved by up to .* at \[", said["summary, coef"])
    by = found.summary()["mean"].to_numpy() - recorded(COUNTS, fitted.summary, "summary, coef")[:, MEAN]
    np.testing.assert_allclose(by, [-1.0, 0.0, 0.0, 0.0], atol=0.02)
    assert np.abs(in_sds(COUNTS, found)[1:]).max() < 0.2
    assert "level" not in moved(COUNTS, fitted.printed, found)


def test_offsets_moved_by_1_and_a_prior_that_moves_along_move_the_intercept_alone():
    """The posterior is the same one, 1 lower: slopes and contrasts of rows stay to the last digits."""
    prior = {"Intercept": bc.priors.Normal(-1.0, 2.5)}
    found = fit_of_rows(COUNTS, COUNTS.rows.assign(base=COUNTS.rows["base"] + 1.0), prior=prior)
    said = moved(COUNTS, fitted.summary, found)
    assert set(said) == {"summary, coef"}
    # mean and both ends of the interval
    assert re.search(r"^3 of 24 entries moved by up to 1, .* at \[0, [023]\]", said["summary, coef"])
    by = fitted.summary(COUNTS, found)["summary, coef"] - recorded(COUNTS, fitted.summary, "summary, coef")
    np.testing.assert_allclose(by[0], [-1.0, 0.0, -1.0, -1.0, 0.0, 0.0], atol=1e-6)
    assert not moved(COUNTS, fitted.averages, found)
    assert not moved(COUNTS, fitted.check, found)
    assert set(moved(COUNTS, fitted.prior_summary, found)) == {"prior_summary rows"}
    # rows to predict keep their offsets: their rates are e times less
    assert set(moved(COUNTS, fitted.predict, found)) >= {"predict, mean", "predict, draws", "predict, response"}
    old = recorded(COUNTS, fitted.predict, "predict, mean")
    np.testing.assert_allclose(found.predict(NEW).to_numpy(), np.exp(-1.0) * old, rtol=1e-7)


def test_permuted_groups_are_noticed():
    levels = sorted(GROUPS.rows["a"].unique())
    following = dict(zip(levels, [*levels[1:], levels[0]], strict=True))
    found = fit_of_rows(GROUPS, GROUPS.rows.assign(a=GROUPS.rows["a"].map(following)))
    said = moved(GROUPS, fitted.groups, found)
    assert set(said) == {"effects", "effects, 1 by a", "effects, x by a", "icc"}  # the last by chance
    for effect in ("1", "x"):
        field = f"effects, {effect} by a"
        assert "moved by up to" in said[field]
        old = np.roll(recorded(GROUPS, fitted.groups, field), 1, axis=0)
        by = (found.effects(effect=effect)["mean"].to_numpy() - old[:, MEAN]) / old[:, SD]
        assert np.abs(by).max() < 0.3  # each group has the effect of the one before it
    assert np.abs(in_sds(GROUPS, found)).max() < 0.3  # what is no group's stays, but for chance
    assert "prior_summary rows" not in moved(GROUPS, fitted.prior_summary, found)


def test_another_prior_is_noticed():
    found = fit_of_rows(COUNTS, prior=bc.priors.Normal(0.0, 0.1))
    assert set(moved(COUNTS, fitted.prior_summary, found)) == {"prior_summary rows"}
    said = moved(COUNTS, fitted.summary, found)
    assert {"summary, coef", "summary, ratio", "summary, response"} <= set(said)
    old = recorded(COUNTS, fitted.summary, "summary, coef")
    assert np.abs(found.summary()["mean"]).to_numpy()[1] < np.abs(old[1, MEAN])
    assert np.abs(in_sds(COUNTS, found)).max() > 0.3
    printed = moved(COUNTS, fitted.printed, found)
    assert "printed" in printed
    assert "level" not in printed


def test_another_seed_is_noticed():
    found = fit_of_rows(COUNTS, random_state=SEED + 1)
    assert {"summary, coef", "summary, ratio", "summary, response"} <= set(moved(COUNTS, fitted.summary, found))
    assert 1e-4 < np.abs(in_sds(COUNTS, found)).max() < 0.2  # by chance, and no more
    assert not moved(COUNTS, fitted.prior_summary, found)
    assert "level" not in moved(COUNTS, fitted.printed, found)


@pytest.mark.parametrize("by", [1e-6, -1e-6])
def test_a_mean_changed_in_its_sixth_digit_is_noticed(by):
    """The row and the column that moved are said, and no other field is."""
    old = dict(RECORDED[f"{COUNTS.name}: summary"])
    new = old["summary, coef"].copy()
    new[2, MEAN] *= 1.0 + by
    said = said_of(COUNTS, fitted.summary, {**old, "summary, coef": new})
    assert set(said) == {"summary, coef"}
    assert said["summary, coef"].startswith("1 of ")
    assert f"at [2, {MEAN}]" in said["summary, coef"]


@pytest.mark.parametrize("name", [f"poisson, {ONE}", f"negative_binomial(2.5), {SLOPES}"])
def test_check_of_counts_in_groups_is_served(name):
    """Every row is in one of ten groups of rows, whose shares add up to the counts' mean."""
    found = fit_of(name).check()
    assert len(found) == 10
    assert found["observed"].mean() == pytest.approx(MODELS[name].rows["visits"].mean(), rel=1e-9)
