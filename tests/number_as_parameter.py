"""The posterior of coefficients and of the log of a family's number, beside draws of a fit that has it."""

import numpy as np


def weighed_moments(log_density, center, sds):
    """Return means and sds of parameters by points that are weighed, given the log density at points, shape (S, D).

    They are sought in four turns, from a centre and sds on.
    """
    rng, factor, D = np.random.default_rng(9), np.diag(sds), len(center)
    for n in (2000, 2000, 2000, 10_000):
        z = rng.standard_normal((n, D)) * np.sqrt(6.0 / rng.chisquare(6.0, (n, 1)))
        points = center + z @ factor.T
        logs = log_density(points) + 0.5 * (6.0 + D) * np.log1p((z**2).sum(axis=1) / 6.0)
        w = np.exp(logs - logs.max())
        w /= w.sum()
        center = w @ points
        factor = np.linalg.cholesky((w * (points - center).T) @ (points - center))
    assert 1.0 / (w @ w) > 5000.0
    return center, np.sqrt(w @ (points - center) ** 2)


def drawn(fit, number):
    """Return draws of two coefficients and of the log of the number, shape (S, 3)."""
    posterior = fit.idata.posterior
    return np.column_stack([posterior["coef"].values.reshape(-1, 2), np.log(posterior[number].values.ravel())])


def gaps(draws, mean, sd):
    """Return how far means of draws are off, in sds, and their sds, relative."""
    return np.abs(draws.mean(axis=0) - mean) / sd, np.abs(draws.std(axis=0) / sd - 1.0)
