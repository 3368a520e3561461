"""Synthetic data: the published laws, the seeds' meaning, the circle's separability.

Statistical tests compare at 5 standard errors: a false alarm in less than 6e-7 of seeds for each number
compared, below 1e-4 for the whole file.
"""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit, log_ndtr

from bayescore import datasets
from bayescore.papers import separable_circle

N = 300_000
SDS = 6  # that figures may be off by: 2e-9 for each of at most some hundred in a test
PROBIT_BETA = (0.5, -1.0, 0.7)
PROBLEMS = [datasets.binary5, datasets.binary10, datasets.mixture, datasets.probit_problem(PROBIT_BETA)]
all_problems = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)


@all_problems
def test_rows_have_the_shared_types(problem):
    X, y = problem(1000, 0)
    assert X.shape == (1000, problem.n_features)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert y.shape == (1000,)
    assert y.dtype == np.int8
    assert set(np.unique(y)) == {-1, 1}
    assert len(problem.feature_names) == problem.n_features


@all_problems
def test_stacked_blocks_equal_the_arrays(problem):
    n = 2 * datasets.CHUNK + 123
    X, y = problem(n, 7)
    blocks = list(problem.blocks(n, 7))
    assert [len(block[1]) for block in blocks] == [datasets.CHUNK, datasets.CHUNK, 123]
    np.testing.assert_array_equal(np.concatenate([block[0] for block in blocks]), X)
    np.testing.assert_array_equal(np.concatenate([block[1] for block in blocks]), y)


def test_chunks_have_streams_of_their_own():
    n = 2 * datasets.CHUNK
    short, long = list(datasets.mixture.blocks(n, 1)), list(datasets.mixture.blocks(n + 5, 1))
    np.testing.assert_array_equal(short[1][0], long[1][0])
    assert not np.array_equal(short[0][0], short[1][0])


def test_the_seed_decides():
    draw = datasets.mixture
    same = draw(50, 3)[0]
    np.testing.assert_array_equal(draw(50, 3)[0], same)
    np.testing.assert_array_equal(draw(50, np.random.default_rng(3))[0], same)
    seed = np.random.SeedSequence(3)
    np.testing.assert_array_equal(draw(50, seed)[0], same)
    np.testing.assert_array_equal(draw(50, seed)[0], same)
    assert not np.array_equal(draw(50, 4)[0], same)
    assert not np.array_equal(draw(50)[0], draw(50)[0])


def test_a_generator_goes_on_from_call_to_call():
    rng = np.random.default_rng(0)
    first, second = datasets.binary10(50, rng)[0], datasets.binary10(50, rng)[0]
    assert not np.array_equal(first, second)


def test_memory_is_the_result_and_a_block():
    n = 1_000_000
    tracemalloc.start()
    X, y = datasets.binary10(n, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes + y.nbytes + 4 * datasets.CHUNK * X.shape[1] * 8


@pytest.mark.parametrize("n", [0, -1])
def test_rows_are_counted_before_drawing(n):
    with pytest.raises(ValueError, match="n="):
        datasets.binary5.blocks(n)
    with pytest.raises(TypeError, match=r"n=2\.5"):
        datasets.binary5(2.5)


@pytest.mark.parametrize("beta", [1.0, [], [[1.0]], [1.0, np.nan]])
def test_beta_is_checked(beta):
    with pytest.raises(ValueError, match="beta="):
        datasets.probit(10, beta)


def patterns(problem, p):
    """Return all 0/1 rows, their probabilities and those of y = 1."""
    rows = np.array([(1, *rest) for rest in itertools.product((0, 1), repeat=len(p) - 1)])
    probability = np.prod(np.where(rows == 1, p, 1 - p), axis=1)
    return rows, probability, expit(rows @ problem.theta)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize(
    ("problem", "p", "published"),
    [(datasets.binary5, datasets.BINARY5_P, 0.095), (datasets.binary10, datasets.BINARY10_P, 0.089)],
    ids=["Binary5", "Binary10"],
)
def test_binary_frequencies(problem, p, published):
    n = 1_000_000
    X, y = problem(n, 20)
    assert (X[:, 0] == 1).all()
    z = (X.mean(axis=0) - p)[1:] / np.sqrt(p * (1 - p) / n)[1:]
    assert np.abs(z).max() < SDS
    _, probability, positive = patterns(problem, p)
    expected = probability @ positive
    sd = np.sqrt(expected * (1 - expected) / n)
    assert abs((y == 1).mean() - expected) < SDS * sd
    assert abs(expected - published) < 0.0005 + 2 * sd  # a share of 10^6 draws, rounded


@pytest.mark.statistical(rate=1e-6)
def test_binary10_has_few_distinct_rows():
    n = 1_000_000
    X, y = datasets.binary10(n, 21)
    codes = (X @ 2.0 ** np.arange(10)).astype(int) * 2 + (y == 1)
    _, probability, positive = patterns(datasets.binary10, datasets.BINARY10_P)
    cells = np.concatenate([probability * positive, probability * (1 - positive)])
    seen = -np.expm1(-n * cells)
    mean, sd = seen.sum(), np.sqrt((seen * (1 - seen)).sum())
    assert abs(len(np.unique(codes)) - mean) < SDS * sd
    assert abs(374 - mean) < 2 * sd  # the number that is quoted


@pytest.mark.statistical(rate=1e-6)
def test_mixture_moments():
    X, y = datasets.mixture(N, 22)
    assert abs((y == 1).mean() - 0.5) < SDS * np.sqrt(0.25 / N)
    for label, mean in zip((-1, 1), datasets.MIXTURE_MEANS, strict=True):
        part = X[y == label]
        assert np.abs(part.mean(axis=0) - mean).max() < SDS / np.sqrt(len(part))
        error = np.cov(part, rowvar=False) - np.eye(10)
        assert np.abs(error).max() < SDS * np.sqrt(2 / len(part))
    np.testing.assert_array_equal(datasets.MIXTURE_MEANS, [[0] * 5 + [1] * 5, [1] * 5 + [0] * 5])


@pytest.mark.statistical(rate=1e-6)
def test_probit_features():
    X, _ = datasets.probit(N, PROBIT_BETA, 23)
    assert (X[:, 0] == 1).all()
    assert np.abs(X[:, 1:].mean(axis=0)).max() < SDS / np.sqrt(N)
    assert np.abs(X[:, 1:].var(axis=0) - 1).max() < SDS * np.sqrt(2 / N)


def logistic_derivatives(eta):
    score = expit(-eta)
    return score, score * (1 - score)


def probit_derivatives(eta):
    score = np.exp(-0.5 * eta**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(eta))
    return score, score * (score + eta)


def maximum_likelihood(X, y, derivatives):
    """Return the estimate, by Newton steps from 0, and its standard errors."""
    Z = X * y[:, None]
    estimate = np.zeros(X.shape[1])
    for _ in range(8):
        score, curvature = derivatives(Z @ estimate)
        information = (Z * curvature[:, None]).T @ Z
        step = np.linalg.solve(information, Z.T @ score)
        estimate += step
    assert np.abs(step).max() < 1e-6
    return estimate, np.sqrt(np.diag(np.linalg.inv(information)))


@pytest.mark.statistical(rate=1e-6)
@all_problems
def test_newton_recovers_theta_and_rejects_another(problem):
    X, y = problem(N, 24)
    derivatives = probit_derivatives if problem.name == "Probit" else logistic_derivatives
    estimate, se = maximum_likelihood(X, y, derivatives)
    assert np.abs((estimate - problem.theta) / se).max() < SDS
    wrong = problem.theta + 0.2 * np.eye(problem.n_features)[1]
    assert np.abs((estimate - wrong) / se).max() > SDS


def separable(X, y):
    result = linprog(np.zeros(3), A_ub=-X * y[:, None], b_ub=-np.ones(len(y)), bounds=(None, None))
    assert result.status in (0, 2)
    return result.status == 0


def kept_positions(X, n):
    return set(np.rint(np.arctan2(X[:, 1], X[:, 0]) * n / (2 * np.pi)).astype(int) % n)


@pytest.mark.statistical(rate=1e-6)
def test_circle_is_a_random_half_of_its_positions():
    n = 10_001
    X, y = separable_circle(n, 30)
    assert abs(len(y) - n / 2) < SDS * np.sqrt(n / 4)
    assert (y == 1).all()
    np.testing.assert_allclose(np.hypot(X[:, 0], X[:, 1]), 1.0, rtol=1e-14)
    assert (X[:, 2] == 1).all()
    position = np.arctan2(X[:, 1], X[:, 0]) * n / (2 * np.pi)
    np.testing.assert_allclose(position, np.rint(position), atol=1e-9)
    assert len(kept_positions(X, n)) == len(y)


@pytest.mark.parametrize("seed", range(3))
def test_circle_answers_every_query(seed):
    n = 20
    X, y = separable_circle(n, seed)
    kept = kept_positions(X, n)
    assert 1 < len(kept) < n
    assert separable(X, y)
    for query in range(1, n + 1):
        X_asked, y_asked = separable_circle(n, seed, query)
        np.testing.assert_array_equal(X_asked[:-2], X)
        np.testing.assert_array_equal(y_asked, [*y, -1, -1])
        angle = 2 * np.pi * (query + np.array([-0.5, 0.5])) / n
        np.testing.assert_allclose(X_asked[-2:], np.column_stack([np.cos(angle), np.sin(angle), [1, 1]]))
        assert separable(X_asked, y_asked) == (query % n not in kept)


def test_a_lone_point_is_separable_even_when_asked_for():
    n = 3
    seed = next(s for s in range(100) if len(separable_circle(n, s)[1]) == 1)
    query = kept_positions(separable_circle(n, seed)[0], n).pop() or n
    assert separable(*separable_circle(n, seed, query))


@pytest.mark.parametrize(("n", "query", "name"), [(2, None, "n="), (5, 0, "query=0"), (5, 6, "query=6")])
def test_circle_arguments(n, query, name):
    with pytest.raises(ValueError, match=name):
        separable_circle(n, 0, query)
