"""What the coordinates of a sampler must hold: the gradient of the density, and the way back from a point."""

import numpy as np

from bayescore.compiled import evaluate_stored, jit


@jit
def density_at(function, data, x, gradient):
    return evaluate_stored(function, data, x, gradient)


def checked_coordinates(frame):
    """Check a frame at random coordinates by differences of its density, and return these, shape (D,)."""
    rng, target = np.random.default_rng(0), frame.target
    x, gradient, other = rng.normal(size=len(frame.center)), np.empty(len(frame.center)), np.empty(len(frame.center))
    density_at(*target, x, gradient)
    steps = 1e-5 * np.eye(len(x))
    numerical = [(density_at(*target, x + e, other) - density_at(*target, x - e, other)) / 2e-5 for e in steps]
    np.testing.assert_allclose(gradient, numerical, rtol=1e-4, atol=1e-4 * np.abs(gradient).max())
    np.testing.assert_allclose(frame.x(frame.theta(x)), x, atol=1e-8)
    return x
