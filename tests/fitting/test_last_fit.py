"""What an interrupted fit had finished is not lost."""

import sys

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Level, Need, Remedy
from bayescore.fitting import route
from bayescore.validation import DataError

QUIET = {"random_state": 1, "progressbar": False}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    return pd.DataFrame({"x": x, "y": x + rng.logistic(size=4000) > 0})


@pytest.fixture(scope="module")
def whole(rows):
    return bc.fit("y ~ x", rows, **QUIET)


def interrupted(*_, **__):
    raise KeyboardInterrupt


def test_draws_that_were_not_checked_are_not_certified(rows, whole, monkeypatch):
    monkeypatch.setattr(route.Given, "certify", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        bc.fit("y ~ x", rows, **QUIET)
    assert caught.value.__notes__ == ["bc.last_fit() returns what was finished"]
    with pytest.warns(UserWarning, match="interrupted before the draws were checked"):
        fit = bc.last_fit()
    assert fit.level == "not certified"
    np.testing.assert_array_equal(fit._drawn["posterior"]["beta"], whole._drawn["posterior"]["beta"])
    monkeypatch.undo()
    assert bc.Fit.from_draws(fit.idata, fit.coreset, rows, progressbar=False).level == "certified"


def test_a_coreset_without_draws_is_sampled(rows, whole, monkeypatch):
    monkeypatch.setattr(route, "sample_as_tree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bc.fit("y ~ x", rows, **QUIET)
    monkeypatch.undo()
    monkeypatch.setattr(route.Given, "build", interrupted)  # it is not built again
    fit = bc.last_fit()
    assert fit.level == "certified"
    pd.testing.assert_frame_equal(fit.summary(), whole.summary())


def test_an_interrupted_try_leaves_the_one_before_it(rows, whole, monkeypatch):
    made, certified = [], route.Given.certify

    def refused(*arguments, **options):
        found = certified(*arguments, **options)
        return found._with(level=Level.NOT_CERTIFIED, remedy=Remedy(Need.DRAWS, draws=2000), idata=None)

    def once(*arguments, **options):
        if made:
            raise KeyboardInterrupt
        made.append(1)
        return whole._drawn

    monkeypatch.setattr(route.Given, "certify", refused)
    monkeypatch.setattr(route, "sample_as_tree", once)
    with pytest.raises(KeyboardInterrupt):
        bc.fit("y ~ x", rows, **QUIET)
    with pytest.warns(UserWarning, match="not certified"):
        fit = bc.last_fit()
    assert fit._used is whole._drawn
    assert fit.certificate.remedy is not None


def test_nothing_is_left_of_a_fit_that_ended_or_had_finished_nothing(rows, whole, monkeypatch):
    assert whole.level == "certified"
    monkeypatch.setattr(route.Given, "build", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        bc.fit("y ~ x", rows, **QUIET)
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(DataError, match="no call of fit was interrupted"):
        bc.last_fit()
    monkeypatch.undo()
    sys.modules["bayescore.fitting.fit"]._LAST[:] = [lambda: pytest.fail("that of an earlier call")]
    bc.fit("y ~ x", rows, **QUIET)
    with pytest.raises(DataError, match="no call of fit was interrupted"):
        bc.last_fit()


def test_a_failure_that_would_come_again_leaves_nothing(rows, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no mode")

    monkeypatch.setattr(route, "sample_as_tree", fails)
    with pytest.raises(RuntimeError, match="no mode"):
        bc.fit("y ~ x", rows, **QUIET)
    with pytest.raises(DataError, match="no call of fit was interrupted"):
        bc.last_fit()
