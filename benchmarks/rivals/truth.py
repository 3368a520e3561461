r"""The data sets, what is known of their posteriors, and errors against it.

With m, S the reference's mean and covariance, L L' = S, a system's own mean and covariance :math:`\mu, C`:

.. math:: |L^{-1}(\mu - m)| / \sqrt D, \qquad \max_d |\sqrt{C_{dd} / S_{dd}} - 1|, \qquad
    \tfrac12 \big( \mathrm{tr}\, S^{-1} C - D - \log |S^{-1} C| + |L^{-1}(\mu - m)|^2 \big)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

import bayescore as bc
from bayescore.files import whole_file
from bayescore.numerics.chains import ess
from benchmarks.accuracy.full_posteriors import FOLDER, digest, reference
from benchmarks.accuracy.importance import by_importance
from benchmarks.problems import load
from benchmarks.rivals.systems import PRIOR

NEARLY_NORMAL = 0.8  # share of importance draws that count, from which on they are the reference
FEWER = 5000  # rows of quick runs


class Truth(NamedTuple):
    """Mean, shape (D,), covariance, where from, and the whitened error that the mean may have."""

    mean: np.ndarray
    covariance: np.ndarray
    origin: str
    error: float


def normal_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return X, without the intercept, and y in {0, 1}."""
    rng = np.random.default_rng(0)
    X, theta = rng.standard_normal((1_000_000, 10)), 0.5 * rng.standard_normal(10)
    return X, (rng.random(len(X)) < 1 / (1 + np.exp(1 - X @ theta))).astype(np.int8)


def rare() -> tuple[np.ndarray, np.ndarray]:
    """Draw a million rows of ten t_3 columns, 1% positive."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(1_000_000, 10))
    return X, rng.random(len(X)) < expit(0.5 * X @ np.linspace(1.0, -0.8, 10) - 5.5)


PUBLISHED = {  # and Binary10, which is standardised here too
    "chemreact": "chemreact_ds1_10",
    "Binary10": "Binary10",
    "phishing": "phishing_libsvm",
    "covtype, 16%": "covtype_ramp16pct",
    "KDD, numeric": "kddcup99_10pct",
}
MADE: dict[str, Callable] = {"normal, 1e6": normal_rows, "t3 rare, 1e6": rare}
DATA = ("chemreact", "Binary10", "normal, 1e6", "phishing", "covtype, 16%", "t3 rare, 1e6", "KDD, numeric")
QUICK = ("chemreact", "normal, 1e6")


def rows_of(name: str, quick: bool) -> bc.Coreset:
    """Return all rows with an intercept; columns of published sets standardised."""
    X, y = load(PUBLISHED[name]) if name in PUBLISHED else MADE[name]()
    told = {"intercept": True, "standardize": name in PUBLISHED, "progressbar": False}
    return bc.all_rows(X[:FEWER], y[:FEWER], **told) if quick else bc.all_rows(X, y, **told)


def truth_of(name: str, full: bc.Coreset) -> Truth:
    """Return what is known of a posterior, from ``.references/`` or found now."""
    data = bc.build_coreset(full, method="aggregate", progressbar=False)
    path = FOLDER / f"rivals-{name.replace(' ', '_')}-{digest(data)}.npz"
    if not path.is_file():
        FOLDER.mkdir(exist_ok=True)
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez(file, **moments(name, data)._asdict())
    with np.load(path) as known:
        return Truth(known["mean"], known["covariance"], str(known["origin"]), float(known["error"]))


def moments(name: str, data: bc.Coreset) -> Truth:
    """Return moments by importance weights where the posterior is nearly normal, else by long MCMC."""
    mode = bc.find_map(data, "logistic", PRIOR)
    known = by_importance(data, mode, "logistic", PRIOR)
    if known.share >= NEARLY_NORMAL:
        covariance = known.correlation * known.sd * known.sd[:, None]
        error = float(np.sqrt(np.mean((known.mean_error / known.sd) ** 2)))
        return Truth(known.mean, covariance, f"importance, {known.share:.2f} count", error)
    draws = reference(PUBLISHED.get(name, name), data, "logistic", PRIOR).posterior["beta"].values
    flat = draws.reshape(-1, draws.shape[2])
    error = float(np.sqrt(np.mean(1.0 / ess(draws, "mean"))))
    return Truth(flat.mean(axis=0), np.cov(flat.T), f"{len(flat):,} draws", error)


def measured(mean: np.ndarray, covariance: np.ndarray, truth: Truth) -> dict[str, float]:
    """Return the errors of a mean and of a covariance."""
    root = np.linalg.cholesky(truth.covariance)
    white = solve_triangular(root, mean - truth.mean, lower=True)
    own = solve_triangular(root, solve_triangular(root, covariance, lower=True).T, lower=True)
    return {
        "mean": float(np.sqrt(np.mean(white**2))),
        "sd": float(np.abs(np.sqrt(np.diagonal(covariance) / np.diagonal(truth.covariance)) - 1.0).max()),
        "KL": float(0.5 * (np.trace(own) - len(mean) - np.linalg.slogdet(own)[1] + white @ white)),
    }
