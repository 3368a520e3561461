"""Every public name is in the reference and has an example that runs; a function names an argument of a wrong type."""

import doctest
import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from tests.arviz_draws import inference_data

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGES = "\n".join(page.read_text("utf-8") for page in REFERENCE.glob("*.md"))
LISTED = set(re.findall(r"^   ([\w.]+)$", PAGES, re.MULTILINE))
NAMESPACES = {name: getattr(bc, name) for name in bc.__all__ if inspect.ismodule(getattr(bc, name))}
PUBLIC = {name: getattr(bc, name) for name in bc.__all__ if name not in NAMESPACES} | {
    f"{room}.{name}": getattr(module, name) for room, module in NAMESPACES.items() for name in module.__all__
}
FUNCTIONS = {name: thing for name, thing in PUBLIC.items() if callable(thing) and not inspect.isclass(thing)}
CALLED = {name: thing for name, thing in FUNCTIONS.items() if inspect.signature(thing).parameters}
WITHOUT_EXAMPLE = {f"datasets.load_{name}": "downloads" for name in ("chemreact", "covtype", "webspam")}
# None: the cached download, the method that fits the formula
NONE_IS_MEANT = {f"datasets.load_{name}" for name in ("chemreact", "covtype", "webspam")} | {"stream"}

POSTERIOR = inference_data({"posterior": {"beta": np.random.default_rng(0).normal(size=(2, 50, 2))}})
X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
CORE = bc.all_rows(X, [1, -1, 1, -1], progressbar=False)
# what functions need beside their first argument
REST = {
    "certify": (CORE, CORE),
    "compare_posteriors": (POSTERIOR,),
    "loo_compare": (CORE,),
    "mmd": (POSTERIOR,),
    "weighted_potential": (CORE, np.zeros(2)),
    "datasets.probit": (np.ones(2),),
    "papers.expected_sensitivity": (1.0,),
    "papers.guarantee": (X,),
    "papers.indispensable_rows": (0.5,),
    "papers.minibatch_width": (X, X, X),
    "papers.near_orthogonal_rows": (0.5,),
    "papers.on_line_bound": (1.0, 1.0),
    "papers.pd_means": (1,),
    "papers.relaxed_guarantee": (X, "squared_euclidean"),
    "papers.sensitivity_range": (1.0,),
    "papers.sphere_separation": (2, 0.1),
    "papers.spread": (1,),
    "papers.spread_calibrated": (1,),
}
NAMED = {
    "stream": {"size": 10},
    "papers.expected_sensitivity": {"shares": [1.0], "means": [[0.0]], "traces": [1.0], "mean_labels": [0.0]},
    "papers.pd_means": {"epsilon": 1.0, "radius": 1.0},
    "papers.sensitivity_range": {"separation": 0.5, "closeness": 0.5},
    "papers.spread": {"radius": 1.0},
    "papers.spread_calibrated": {"epsilon": 1.0, "radius": 1.0, "delta_w": 0.1, "delta_s": 0.1},
}


TOP = (
    "fit Fit last_fit read_fit build_coreset all_rows Coreset read_coreset stream StreamingCoreset read_stream sample "
    "certify Certificate compare_posteriors loo_compare log_evidence weighted_potential model find_map find_mle "
    "CoresetLogisticRegression CoresetProbitRegression"
)


def test_these_names_are_at_the_top():
    assert set(bc.__all__) - set(NAMESPACES) == set(TOP.split())
    assert set(NAMESPACES) == {"families", "priors", "methods", "datasets", "papers"}


OF_A_FIT = (
    "coreset idata certificate level story formula prior group_prior spread "
    "summary predict average_predictions comparisons slopes effects icc loo check poststratify prior_summary "
    "prior_sensitivity prior_predictive inference_data table plot plot_effects plot_check plot_shrinkage "
    "report from_draws update with_prior cluster_robust all_rows_posterior save"
)


def test_a_fit_shows_what_users_may_use():
    rng = np.random.default_rng(0)
    fit = bc.fit(rng.normal(size=(500, 1)), rng.random(500) < 0.5, random_state=1, progressbar=False)
    assert {name for name in dir(fit) if not name.startswith("_")} == set(OF_A_FIT.split())


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_in_the_reference(name):
    assert name in LISTED


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_that_runs(name):
    found = doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name)
    code = [one for test in found for one in test.examples if not one.source.startswith(("import ", "from "))]
    runs = [one for one in code if not one.options.get(doctest.SKIP)]
    assert bool(runs) != (name in WITHOUT_EXAMPLE)


@pytest.mark.parametrize("bad", [None, pd.DataFrame(), object()], ids=["None", "empty", "object"])
@pytest.mark.parametrize("name", CALLED)
def test_a_wrong_first_argument_is_named(name, bad):
    if bad is None and name in NONE_IS_MEANT:
        pytest.skip("None is the default")
    function = CALLED[name]
    first = next(iter(inspect.signature(function).parameters))
    warnings.filterwarnings("ignore", "spread_calibrated is not differentially private")
    with pytest.raises((TypeError, ValueError), match=rf"\b{first}\b"):
        function(bad, *REST.get(name, ()), **NAMED.get(name, {}))
