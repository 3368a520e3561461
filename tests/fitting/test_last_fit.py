"""What an interrupted fit had finished is not lost."""

import signal
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Level, Need, Remedy
from bayescore.fitting import route
from bayescore.validation import DataError

QUIET = {"random_state": 1, "progressbar": False}


@pytest.fixture(autouse=True)
def heard():
    """Let SIGINT raise: processes that a shell started in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


MODELS = {
    "flat": {"formula": "y ~ x"},
    "group": {"formula": "y ~ x + (1 | g)"},
    "slopes": {"formula": "y ~ x + (1 + x | g)"},
    "smooth": {"formula": "y ~ s(x, k=5)"},
    "size": {"formula": "count ~ x", "family": "negative_binomial"},
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("model", MODELS)
def test_ctrl_c_in_a_step_leaves_what_the_steps_before_it_finished(model, monkeypatch):
    rng, g = np.random.default_rng(1), np.arange(1000) % 20
    data = pd.DataFrame({"x": rng.normal(size=1000), "g": g, "count": rng.negative_binomial(2, 0.4, 1000)})
    intercepts, slopes = rng.normal(size=(2, 20))
    data["y"] = intercepts[g] + slopes[g] * data["x"] + rng.logistic(size=1000) > 0
    asked = {**MODELS[model], "data": data, "draws": 250, "tune": 300, **QUIET}
    timed, steps = route.Route.timed, []

    def step(self, what, work, described):
        steps.append(what)
        if len(steps) == interrupted_at:
            work = partial(signal.raise_signal, signal.SIGINT)
        return timed(self, what, work, described)

    monkeypatch.setattr(route.Route, "timed", step)
    interrupted_at = 0
    level = bc.fit(**asked).level
    first, n = steps.index("certify"), len(steps)
    for interrupted_at in (1, first, first + 1, n):  # in the build, the chains, the certificate, and the last step
        steps.clear()
        with pytest.raises(KeyboardInterrupt):
            bc.fit(**asked)
        if interrupted_at == 1 or (model == "size" and interrupted_at <= first):  # draws at no size yet
            with pytest.raises(DataError, match="no call of fit was interrupted"):
                bc.last_fit()
            continue
        left = bc.last_fit()
        assert left.level == (level if interrupted_at == first else "not certified") or interrupted_at > first + 1
        assert np.isfinite(left.summary()["mean"]).all()


def test_ctrl_c_in_the_last_pass_leaves_the_certified_fit(rows, whole, monkeypatch):
    monkeypatch.setattr(route.Route, "earlier_rows_of", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        bc.fit("y ~ x", rows, **QUIET)
    fit = bc.last_fit()
    assert fit.level == "certified"
    pd.testing.assert_frame_equal(fit.summary(), whole.summary())
