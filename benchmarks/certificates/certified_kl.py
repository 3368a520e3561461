r"""How does KL from the full posterior grow with the columns: as drawn, as `sample` moves draws, as certified?

The default build of calibrated rows, the default sampler, and `certify`. "as drawn" are draws of the coreset's
posterior, "of sample" what `sample` hands over, moved by what the coreset misses of score and curvature, "moved" the
same by a pass over all rows, "handed over" those of the certificate. KL(draws || posterior) is of the normal
distributions with their moments. The posterior's are those of all draws, moved to its mode and Hessian and weighed by
every row of the data, so that their noise is mostly that of the draws that are held to them, and cancels: "its noise"
is D (D + 3) / (4 S) times the weights' variance. "worst mean" and "worst sd" are those of any linear combination of the
coefficients, in sds and relatively, by the map.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

import bayescore as bc
from bayescore.diagnostics.certificate.flat import FlatStrategy
from bayescore.diagnostics.row_sums import full_rows
from bayescore.families.family import check_family
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.psis import full_weights
from bayescore.samplers.posterior import read_posterior
from benchmarks.commands import command
from benchmarks.measure import alone, timed
from benchmarks.problems import load
from benchmarks.tables import known_rows, publish

SETS = ("normal, 10", "skewed, 22", "normal, 60", "normal, 120", "normal, 150", "phishing", "covtype, 16%", "w8a")
PUBLISHED = {"phishing": "phishing_libsvm", "covtype, 16%": "covtype_ramp16pct", "w8a": "w8a_train"}
PRIOR = bc.priors.Normal(0, 4)
N = 100_000


def rows_of(name: str) -> tuple[Any, Any]:
    """Return X and y of a set."""
    if name in PUBLISHED:
        return load(PUBLISHED[name])
    rng, d = np.random.default_rng(0), int(name.split()[1])
    X = rng.standard_normal((N, d))
    if "skewed" in name:
        X = np.exp(X) - np.exp(0.5)
    b = rng.normal(size=d) * 1.5 / np.sqrt(d)
    return X, rng.random(N) < expit(X @ b - 1.0)


def divergence(mean: np.ndarray, covariance: np.ndarray, of: tuple[np.ndarray, np.ndarray]) -> float:
    """Return KL of a normal distribution from that with the mean and covariance `of`."""
    root = np.linalg.cholesky(of[1])
    white = solve_triangular(root, mean - of[0], lower=True)
    own = solve_triangular(root, solve_triangular(root, covariance, lower=True).T, lower=True)
    return float(0.5 * (np.trace(own) - len(mean) - np.linalg.slogdet(own)[1] + white @ white))


def moments(draws: np.ndarray, w: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of draws, shape (S, D), weighted or not."""
    mean = np.average(draws, axis=0, weights=w)
    return mean, np.cov(draws.T, aweights=w)


def study(name: str) -> dict[str, Any]:
    """Return a row of figures."""
    warnings.filterwarnings("ignore")
    X, y = rows_of(name)
    design = {"intercept": True, "progressbar": False}
    core = bc.build_coreset(X, y, method="calibrated", prior=PRIOR, random_state=0, **design)
    idata = bc.sample(core, "logistic", PRIOR, random_seed=0, progressbar=False)
    certificate, _, seconds = timed(lambda: bc.certify(idata, core, X, y, progressbar=False))
    posterior = read_posterior(idata, "idata")
    dataset = full_rows(core, X, y, progress=False)
    by = FlatStrategy(posterior, core, dataset, check_family(core.family))
    at = np.arange(len(by.draws))
    transport = by.transport(at)
    raw, data = by.draws, bc.all_rows(X, y, **design)
    moved = transport(raw)
    prior = by.prior.log_ratio(at, raw, moved)
    ratio = log_likelihoods(moved, data, by.family) - log_likelihoods(raw, core, by.family) + prior
    weights = full_weights(ratio)
    w = weights.weights
    truth = moments(moved, w)
    own = moments(raw)
    handed = None
    if certificate.idata is not None:
        handed = moments(certificate.idata.posterior["beta"].values.reshape(raw.shape))
    mode = bc.find_map(data, "logistic", PRIOR)
    S, D = raw.shape
    gap = own[0] - transport(own[0])
    return {
        "columns": name,
        "N": len(y),
        "D": D,
        "rows": len(core),
        "level": str(certificate.level),
        "certify, s": seconds,
        "worst mean": float(np.linalg.norm(np.linalg.cholesky(mode.terms.precision).T @ gap)),
        "worst sd": float(np.abs(np.log(np.linalg.eigvals(transport.matrix).real)).max()),
        "as drawn": divergence(*own, truth),
        "of sample": divergence(*moments(by.posterior.flat), truth),
        "moved": divergence(*moments(moved), truth),
        "handed over": np.nan if handed is None else divergence(*handed, truth),
        "its noise": D * (D + 3) / 4 * (float((w - 1 / S) @ (w - 1 / S))),
        "log weights' sd": weights.spread,
        "counting": weights.ess / S,
        "normal approximation": divergence(mode.beta, mode.covariance, truth),
        "noise of that": D * (D + 3) / 4 / S,
    }


@command("certified_kl", sets=SETS, evidence=SETS[:-1])
def main(only: Sequence[str] = SETS) -> None:
    """Write the table, again after each set; sets that `only` leaves out stay as they are."""
    rows = {row["columns"]: row for row in known_rows("certified_kl")}
    for name in only:
        rows[name] = alone(study, name)
        publish("certified_kl", [rows[one] for one in SETS if one in rows])
