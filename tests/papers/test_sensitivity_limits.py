"""Rows that nothing can replace, and directions that keep apart: claims against simulations."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from bayescore.coresets.sensitivity import sensitivity_bounds
from bayescore.papers.huggins import indispensable_rows, near_orthogonal_rows, sensitivity_range, sphere_separation
from bayescore.validation import DataError

N, CLOSENESS = 12, 0.5
FALSE_ALARM = 1e-6  # of each simulated claim, if it held with equality


def circle():
    angle = 2.0 * np.pi * np.arange(N) / N
    return np.column_stack([np.cos(angle), np.sin(angle)])


def reached(radius, separation):
    """Sensitivities at the coefficients of Lemma C.1, which lie in the ball."""
    Z, delta = indispensable_rows(circle(), CLOSENESS)[0], math.sqrt(CLOSENESS / 2.0)
    alpha = radius / (math.sqrt(2.0) * delta)
    last = np.full((N, 1), alpha * delta**2 * (1.0 - separation / 2.0) / math.sqrt(1.0 - delta**2))
    thetas = np.column_stack([-alpha * delta * circle(), last])
    assert (np.linalg.norm(thetas, axis=1) <= radius * (1.0 + 1e-12)).all()
    losses = np.logaddexp(0.0, -Z @ thetas.T)
    return N * np.diag(losses) / losses.sum(axis=0)


def test_the_rows_are_close_and_their_directions_apart():
    Z, separation = indispensable_rows(3.0 * circle(), CLOSENESS)
    assert separation == pytest.approx(1.0 - math.cos(2.0 * math.pi / N))
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-14)
    assert (Z @ Z.T).min() == pytest.approx(1.0 - CLOSENESS)


@pytest.mark.parametrize("radius", [0.5, 5.0, 50.0, 500.0])
def test_sensitivities_lie_in_the_range(radius):
    Z, separation = indispensable_rows(circle(), CLOSENESS)
    lower, upper = sensitivity_range(N, radius, separation=separation, closeness=CLOSENESS)
    bounds, found = sensitivity_bounds(Z, centers=Z, radius=radius), reached(radius, separation)
    assert (lower <= found).all()
    assert (found <= bounds).all()
    assert (bounds <= upper * (1.0 + 1e-12)).all()


def test_a_lower_bound_with_a_wrong_constant_is_refuted():
    separation = indispensable_rows(circle(), CLOSENESS)[1]
    four_times = sensitivity_range(N, 50.0, separation=4.0 * separation, closeness=CLOSENESS)[0]
    assert four_times > reached(50.0, separation).max()


def test_without_a_ball_every_row_is_indispensable():
    assert sensitivity_range(1000, 1e5, separation=0.1, closeness=0.01) == (1000.0, 1000.0)


def separations(draw, trials):
    found = []
    for _ in range(trials):
        V = draw()
        products = V @ V.T
        np.fill_diagonal(products, -1.0)
        found.append(1.0 - products.max())
    return np.array(found)


def on_sphere(rng, n, n_features):
    V = rng.standard_normal((n, n_features))
    return V / np.linalg.norm(V, axis=1, keepdims=True)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("n_features", [2, 3, 8])
def test_random_points_of_the_sphere_keep_apart(n_features):
    rng, trials, delta = np.random.default_rng(0), 400, 0.1
    found = separations(lambda: on_sphere(rng, 60, n_features), trials)
    most = binom.isf(FALSE_ALARM, trials, delta)
    claimed = sphere_separation(60, n_features, delta)
    assert (found < claimed).sum() <= most
    assert (found < sphere_separation(60, n_features, 0.9)).sum() > most  # control: too bold a claim


def test_the_separation_of_the_sphere_has_the_stated_rate():
    ratio = sphere_separation(10**6, 7, 0.01) / sphere_separation(10**5, 7, 0.01)
    assert ratio == pytest.approx(10.0 ** (-4.0 / 6.0), rel=1e-4)
    assert sphere_separation(2, 50, 0.9) == 0.5


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize(("n_features", "separation"), [(64, 0.5), (40, 0.3)])
def test_random_signs_are_near_orthogonal(n_features, separation):
    rng, trials = np.random.default_rng(1), 200
    n = near_orthogonal_rows(n_features, separation)
    assert n == math.floor(math.exp((1.0 - separation) ** 2 * n_features / 4.0) / math.sqrt(2.0))

    def held(dimension):
        signs = separations(lambda: rng.choice([-1.0, 1.0], (n, dimension)) / math.sqrt(dimension), trials)
        return (signs >= separation).sum()

    least = binom.ppf(FALSE_ALARM, trials, 0.5)
    assert held(n_features) >= least
    assert held(n_features // 4) < least  # control: too few dimensions


def test_bad_arguments():
    for call, error, message in (
        (lambda: indispensable_rows([[1.0, 0.0]], 0.5), ValueError, "directions has 1 rows; give two or more"),
        (lambda: indispensable_rows([[1.0, 0.0], [0.0, 0.0]], 0.5), ValueError, "none of them 0"),
        (lambda: indispensable_rows([[1.0, 0.0], [0, 1.0], [2.0, 0.0]], 0.5), ValueError, "0 and 2 are the same"),
        (lambda: indispensable_rows([1.0, 0.0], 0.5), DataError, "directions has shape"),
        (lambda: indispensable_rows(np.eye(2), 1.0), ValueError, "closeness=1 must"),
        (lambda: sensitivity_range(0, 1.0, separation=1.0, closeness=0.5), ValueError, "n_rows=0 must"),
        (lambda: sensitivity_range(5, 1.0, separation=0.0, closeness=0.5), ValueError, "separation=0 must"),
        (lambda: sphere_separation(5, 1, 0.1), ValueError, "n_features=1 must"),
        (lambda: sphere_separation(5, 3, 1.0), ValueError, "delta=1 must"),
        (lambda: near_orthogonal_rows(5, 1.5), ValueError, "separation=1.5 must"),
    ):
        with pytest.raises(error, match=message):
            call()
