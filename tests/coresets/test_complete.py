"""Complete separation is told by the default methods and the certificate, and nothing else is called so."""

import warnings

import numpy as np
import pytest

import bayescore as bc
from bayescore.coresets.separation import find_strict_separation, separability
from bayescore.types import WeightedData

COMPLETE = r"^the labels are completely separated: a hyperplane has all [\d,]+ rows on the sides of their labels"
UNSURE = r"^the labels may be completely separated: .* of the coreset's rows .* \(separability checks all rows\)"
ALPHA = np.array([0.3, 1.0, -2.0, 0.5])


def separated(n, gap=0.1, seed=0):
    """Return rows and labels that a hyperplane parts, none nearer than `gap` to it."""
    X = np.random.default_rng(seed).normal(size=(4 * n, 3))
    eta = X @ ALPHA[1:] + ALPHA[0]
    far = np.flatnonzero(np.abs(eta) > gap)[:n]
    return X[far], eta[far] > 0


def quiet(build, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return build(*arguments, progressbar=False, **options)


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("n", [300, 20_000])
@pytest.mark.parametrize("method", ["auto", "calibrated", "aggregate"])
@pytest.mark.filterwarnings("ignore:no weights on these")
def test_building_tells(method, n, family):
    X, y = separated(n)
    with pytest.warns(UserWarning, match=COMPLETE):
        bc.build_coreset(X, y, method=method, family=family, intercept=True, random_state=0, progressbar=False)


def test_certifying_tells():
    X, y = separated(5000)
    core = bc.all_rows(X, y, intercept=True, progressbar=False).take(slice(0, 1500)).with_weights(np.full(1500, 10 / 3))
    idata = bc.sample(core, sampler="mala", draws=500, random_seed=0, progressbar=False)
    with pytest.warns(UserWarning, match=COMPLETE):
        bc.certify(idata, core, X, y, progressbar=False)


def test_overlap_and_quasi_complete_separation_pass_in_silence_and_cost_no_pass(monkeypatch):
    X, y = separated(20_000)
    mixed = y ^ (np.random.default_rng(1).random(len(y)) < 0.01)
    rare = np.column_stack([X, y & (np.arange(len(y)) % 50 == 0)])  # a column that only one class has
    passes = {}
    for data, labels in ((X, mixed), (rare, mixed | (rare[:, 3] > 0))):
        core = quiet(bc.build_coreset, data, labels, intercept=True, size=300, random_state=0)
        passes[data.shape] = core.params["passes"]
        assert separability(data, labels, intercept=True, progressbar=False).kind != "complete separation"
    monkeypatch.setattr("bayescore.coresets.build.warn_if_completely_separated", lambda *_: None)
    for data, labels in ((X, mixed), (rare, mixed | (rare[:, 3] > 0))):
        core = quiet(bc.build_coreset, data, labels, intercept=True, size=300, random_state=0)
        assert core.params["passes"] == passes[data.shape]


@pytest.mark.filterwarnings("ignore:no weights on these")
def test_separation_costs_one_pass(monkeypatch):
    X, y = separated(20_000)
    with pytest.warns(UserWarning, match=COMPLETE):
        told = bc.build_coreset(X, y, intercept=True, size=300, random_state=0, progressbar=False)
    monkeypatch.setattr("bayescore.coresets.build.warn_if_completely_separated", lambda *_: None)
    untold = bc.build_coreset(X, y, intercept=True, size=300, random_state=0, progressbar=False)
    assert told.params["passes"] == untold.params["passes"] + 1
    np.testing.assert_array_equal(told.weights, untold.weights)


def test_a_subsample_that_is_separated_says_nothing_of_rows_that_are_not():
    X, y = separated(20_000)
    y[:3] ^= True  # rows that a small subsample misses
    core = quiet(bc.build_coreset, X, y, method="uniform", size=100, intercept=True, random_state=0)
    assert find_strict_separation(core) is not None


def test_where_a_pass_does_not_tell_the_warning_says_so():
    X, y = separated(50_000, gap=1e-5)
    with pytest.warns(UserWarning, match=UNSURE):
        bc.build_coreset(X, y, method="uniform", size=100, intercept=True, random_state=0, progressbar=False)
    stream = ((X[i : i + 5000], y[i : i + 5000]) for i in range(0, 50_000, 5000))
    with pytest.warns(UserWarning, match=UNSURE):
        bc.build_coreset(stream, method="uniform", size=100, intercept=True, random_state=0, progressbar=False)


@pytest.mark.parametrize("kind", ["normal", "small whole numbers", "far scales"])
def test_it_agrees_with_the_linear_program(kind):
    met = set()
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n, n_columns = rng.integers(3, 25), rng.integers(1, 5)
        X = rng.normal(size=(n, n_columns))
        if kind == "small whole numbers":  # points on the hyperplane, columns that depend on each other
            X = rng.integers(-2, 3, size=(n, n_columns)).astype(float)
        elif kind == "far scales":
            X *= 10.0 ** rng.integers(-6, 7, size=n_columns)
        y = np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8)
        if not X.any() or len(set(y.tolist())) < 2:
            continue
        w = 10.0 ** rng.uniform(-3, 3, n)
        expected = separability(X, y, progressbar=False).kind
        found = find_strict_separation(WeightedData(X, y, w, np.arange(n)))
        assert (found is not None) == (expected == "complete separation"), (kind, seed)
        if found is not None:
            white, direction = found
            assert ((X @ white.basis @ direction) * y > 0).all()
        met.add(expected)
    assert met >= {"overlap", "complete separation"}
    assert ("quasi-complete separation" in met) == (kind == "small whole numbers")
