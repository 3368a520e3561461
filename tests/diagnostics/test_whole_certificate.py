"""Certificates of draws that were made from all rows: nothing is weighed, and other data are noticed."""

from copy import deepcopy

import numpy as np
import pytest

import bayescore as bc
from bayescore.diagnostics.certificate import verdict
from tests import group_draws
from tests.coresets.celled import celled

SAID = "The draws are of all rows: nothing is to be weighed."
QUIET = {"progressbar": False}
FRAME = celled(n_a=12, n_b=6, median=20, slope=0.7, seed=4).round({"w": 0, "x": 0, "z": 0})
FORMULAS = {"flat": "y ~ w + x", "(1 | g)": "y ~ w + x + (1 | a)", "slopes": "y ~ w + x + (1 + x | a) + (1 | b)"}


def of_all(kind, method):
    """Return all rows, or their sums, and draws."""
    told = {"formula": FORMULAS[kind], **QUIET}
    core = bc.all_rows(FRAME, **told) if method == "full" else bc.build_coreset(FRAME, method="aggregate", **told)
    return core, group_draws.sampled(core) if kind == "slopes" else bc.sample(core, random_seed=1, **QUIET)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((kind, method), marks=[pytest.mark.slow] if kind == list(FORMULAS)[2] else [])
        for kind in FORMULAS
        for method in ("full", "aggregate")
    ],
)
def drawn(request):
    return (*of_all(*request.param), request.param[0])


def test_nothing_is_weighed(drawn):
    core, idata, kind = drawn
    found = bc.certify(idata, core, FRAME, **QUIET)
    assert found.text.startswith(SAID)
    assert found.level == "certified"
    assert (found.n_passes, found.log_ratio_sd, found.pareto_k) == (1, 0.0, 0.0)
    assert found.idata is idata
    np.testing.assert_allclose(found.coordinates[["mean_error_sd", "sd_error"]], 0.0, atol=1e-12)
    assert (found.coordinates["mean_mcse_sd"] > 0.0).all()
    assert np.isnan(found.elpd_loo) == (kind == "(1 | g)")
    if kind != "flat":
        levels = FRAME.groupby("a")["y"].agg(["size", "mean"])
        of_a = found.effects.xs("1", level="effect").loc["a"]
        np.testing.assert_allclose(of_a[["weight", "share"]], levels)


def test_predictive_densities_are_those_of_weighed_draws(drawn, monkeypatch):
    core, idata, kind = drawn
    found = bc.certify(idata, core, FRAME, **QUIET)
    monkeypatch.setattr(bc.Coreset, "lossless", False)
    weighed = bc.certify(idata, core, FRAME, **QUIET)
    np.testing.assert_allclose(found.elpd_logo, weighed.elpd_logo, rtol=1e-6)
    if kind != "(1 | g)":
        assert abs(found.elpd_loo - weighed.elpd_loo) < 3.0 * weighed.elpd_loo_mcse


CHANGED = {
    "weights": lambda frame: {"data": frame, "weights": np.append([1.5, 0.5], np.ones(len(frame) - 2))},
    "a label": lambda frame: {"data": frame.assign(y=frame["y"].where(frame.index != 7, 1 - frame["y"]))},
    "a column": lambda frame: {"data": frame.assign(x=np.roll(frame["x"], 1))},
}


@pytest.mark.parametrize("change", CHANGED)
def test_other_data_are_noticed_and_named(drawn, change):
    core, idata, _ = drawn
    found = bc.certify(idata, core, **CHANGED[change](FRAME), **QUIET)
    assert not found.text.startswith(SAID)
    assert "Give the rows, weights and offsets that it was made of" in found.text
    assert found.n_passes > 1


def test_draws_are_held_to_steins_identities(drawn):
    core, idata, _ = drawn
    wrong = deepcopy(idata)
    beta = wrong["posterior"]["beta"].values
    beta[:] = beta.mean(axis=(0, 1)) + 1.5 * (beta - beta.mean(axis=(0, 1)))
    found = bc.certify(wrong, core, FRAME, **QUIET)
    assert not found.trusted
    assert found.n_passes == 0


def test_rows_of_a_coreset_are_not_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2))
    y = X[:, 0] + rng.logistic(size=5000) > 0
    core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, **QUIET)
    for again in (bc.all_rows(core, **QUIET), bc.build_coreset(core, method="aggregate", **QUIET)):
        idata = bc.sample(again, random_seed=2, **QUIET)
        assert SAID not in bc.certify(idata, again, X, y, **QUIET).text


def test_too_few_draws_ask_for_more(monkeypatch):
    core, idata = of_all("flat", "full")
    monkeypatch.setattr(verdict, "MAX_FAILURE_PROBABILITY", 1e-60)
    found = bc.certify(idata, core, FRAME, **QUIET)
    assert found.text.startswith(f"{SAID} They are too few to tell")
    assert not found.trusted
    assert "sample with draws=" in found.text
    assert "max_draws" not in found.text
