"""Newton's method on functions whose mode is known; on posteriors `test_posterior` and `test_mle` do."""

import numpy as np
import pytest
from scipy import optimize

from bayescore.models.laplace import NoModeError, cholesky_and_decrement, find_mode
from bayescore.models.posterior import Derivatives

H = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.005], [0.0, 0.005, 1e-4]])
CENTER = np.array([1.0, -2.0, 300.0])


def quadratic(beta):
    r = beta - CENTER
    return Derivatives(-0.5 * float(r @ H @ r), -H @ r, H)


def rosenbrock(beta):
    """Curved and not concave: the mode is (1, 1)."""
    hessian = optimize.rosen_hess(beta)
    return Derivatives(-float(optimize.rosen(beta)), -optimize.rosen_der(beta), hessian)


def test_a_quadratic_takes_one_step_and_gives_its_inverse():
    mode = find_mode(quadratic, np.zeros(3))
    np.testing.assert_allclose(mode.beta, CENTER, rtol=1e-10)
    np.testing.assert_allclose(mode.covariance, np.linalg.inv(H), rtol=1e-10)
    np.testing.assert_allclose(mode.factor @ mode.factor.T, mode.covariance, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(mode.factor, np.tril(mode.factor))
    np.testing.assert_allclose(mode.sd**2, np.diagonal(np.linalg.inv(H)))
    assert mode.n_steps == 2


def test_the_decrement_is_the_distance_in_sds():
    r = np.array([0.3, -0.1, 20.0])
    factor, decrement = cholesky_and_decrement(quadratic(CENTER + r))
    assert factor is not None
    assert decrement == pytest.approx(np.sqrt(r @ H @ r))
    assert cholesky_and_decrement(Derivatives(0.0, r, -H)) == (None, np.inf)


@pytest.mark.parametrize("start", [(-1.2, 1.0), (3.0, -4.0), (0.0, 5.0)])
def test_a_valley_that_is_not_concave_is_climbed(start):
    mode = find_mode(rosenbrock, np.array(start))
    np.testing.assert_allclose(mode.beta, [1.0, 1.0], atol=1e-7)
    assert mode.n_steps < 60


def test_steps_that_run_out_are_told_with_where_they_ended():
    with pytest.raises(NoModeError, match="no mode found in 3 Newton steps") as caught:
        find_mode(rosenbrock, np.array([-1.2, 1.0]), max_steps=3)
    assert caught.value.reached is None or caught.value.reached.n_steps == 3


def test_a_looser_tolerance_stops_earlier():
    loose, tight = (find_mode(rosenbrock, np.array([-1.2, 1.0]), tolerance=t) for t in (0.1, 1e-8))
    assert loose.n_steps < tight.n_steps
    assert 1e-8 < loose.decrement < 0.1
