"""Seeds go by either name, scikit-learn's `random_state` and PyMC's `random_seed`, and by one of them only."""

from functools import cache

import numpy as np
import pytest

import bayescore as bc
from bayescore.coresets.separation import mu_complexity, separability

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = X[:, 0] + RNG.logistic(size=300) > 0
QUIET = {"progressbar": False}


def core(**seed):
    return bc.build_coreset(X, Y, method="uniform", size=60, **QUIET, **seed)


def streamed(kind, **seed):
    return bc.stream(kind, size=20, family="probit", **seed).partial_fit(X, Y).coreset().weights


@cache
def fitted():
    return bc.fit(X, Y, random_state=1, **QUIET)


CALLS = {
    "build_coreset": lambda **seed: core(**seed).index,
    "sample": lambda **seed: bc.sample(
        core(random_state=0), sampler="mala", draws=20, tune=400, chains=1, **QUIET, **seed
    ).posterior["beta"],
    "log_evidence": lambda **seed: bc.log_evidence(core(random_state=0), **QUIET, **seed).log_evidence,
    "stream, online": lambda **seed: streamed("online", **seed),
    "stream": lambda **seed: streamed("merge_reduce", **seed),
    "separability": lambda **seed: separability(X, Y, **QUIET, **seed).n_tried,
    "mu_complexity": lambda **seed: mu_complexity(X, Y, **QUIET, **seed).lower_bound,
    "Fit.predict": lambda **seed: fitted().predict(X[:50], kind="response", **seed),
    "Fit.all_rows_posterior": lambda **seed: (
        fitted().all_rows_posterior(draws=20, chains=1, tune=400, sampler="mala", **QUIET, **seed).posterior["beta"]
    ),
    "clicks": lambda **seed: bc.datasets.clicks(50, **seed)["age"],
    "probit": lambda **seed: bc.datasets.probit(50, [0.5, -1.0], **seed)[0],
    "binary5": lambda **seed: bc.datasets.binary5(50, **seed)[0],
    "separable_circle": lambda **seed: bc.papers.separable_circle(8, **seed)[0].sum(axis=0),
    "spread": lambda **seed: bc.papers.spread(np.tile(X, (4, 1)), 4, radius=9.0, samples=50, **seed).delta_s,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:.*effective sample size")
def test_either_name_seeds_and_both_are_an_error(name):
    call = CALLS[name]
    np.testing.assert_array_equal(call(random_state=7), call(random_seed=7))
    if name not in ("separability", "mu_complexity"):  # whose answers do not depend on it
        assert not np.array_equal(call(random_state=7), call(random_seed=8))
    with pytest.raises(TypeError, match=r"random_state=7 and random_seed=7 are both given; .* leave one out"):
        call(random_state=7, random_seed=7)
