"""The left panel: the density of a coefficient, of all rows, weighted rows, random rows and a normal approximation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import bayescore as bc

ROWS, COMPANIES, SIZE = 1_000_000, 60, 100
FORMULA, SHOWN = "renewed ~ age + months + spent", "spent"
POINTS, REACH = 121, 6.0  # of a grid, which reaches so many sds to either side
QUIET: dict[str, Any] = {"progressbar": False}


def customers(n_rows: int = ROWS) -> pd.DataFrame:
    """Return simulated customers who renew a contract or do not; `spent` is in thousands, and companies spend more."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.uniform(18.0, 80.0, n_rows), "months": rng.exponential(20.0, n_rows)})
    rows["spent"] = rng.gamma(2.0, 0.015, n_rows)
    rows.loc[rng.choice(n_rows, COMPANIES, replace=False), "spent"] = rng.lognormal(np.log(20.0), 0.4, COMPANIES)
    eta = -1.5 + 0.01 * rows["age"] + 0.01 * rows["months"] - 0.2 * rows["spent"]
    return rows.assign(renewed=rng.random(n_rows) < expit(eta))


@dataclass(frozen=True)
class Density:
    """The posterior density of one coefficient on a grid, with the mode and the normal approximation's sd."""

    grid: np.ndarray
    density: np.ndarray
    mode: float
    curvature_sd: float

    @property
    def mean(self) -> float:
        """The mean of the density."""
        return float(np.trapezoid(self.density * self.grid, self.grid))

    @property
    def sd(self) -> float:
        """The standard deviation of the density."""
        return float(np.sqrt(np.trapezoid(self.density * (self.grid - self.mean) ** 2, self.grid)))


def mode_given(rows: bc.Coreset, precision: np.ndarray, start: np.ndarray, fixed: int | None) -> Any:
    """Return the mode with one coefficient fixed, the log-posterior there and the negative Hessian of the others."""
    y, free = rows.y > 0, np.arange(len(start)) != fixed
    X, beta = rows.X[:, free], start.copy()
    for _ in range(100):
        p = expit(rows.X @ beta)
        gradient = X.T @ (rows.weights * (y - p)) - precision[free] * beta[free]
        hessian = (X.T * (rows.weights * p * (1.0 - p))) @ X + np.diag(precision[free])
        step = np.linalg.solve(hessian, gradient)
        beta[free] += step
        if np.abs(step).max() < 1e-9:
            break
    eta = rows.X @ beta
    log_posterior = rows.weights @ (y * eta - np.logaddexp(0.0, eta)) - 0.5 * precision @ beta**2
    return beta, log_posterior, hessian


def density_of(rows: bc.Coreset, prior: bc.priors.Normal) -> Density:
    """Integrate the other coefficients out at each point of a grid, by Laplace's approximation."""
    place, precision = rows.feature_names.index(SHOWN), 1.0 / np.asarray(prior.sigma) ** 2
    beta, _, hessian = mode_given(rows, precision, np.zeros(rows.n_features), None)
    mode, sd = float(beta[place]), float(np.sqrt(np.linalg.inv(hessian)[place, place]))
    grid, logs = mode + sd * np.linspace(-REACH, REACH, POINTS), []
    for value in grid:
        beta[place] = value
        beta, log_posterior, hessian = mode_given(rows, precision, beta, place)
        logs.append(log_posterior - 0.5 * np.linalg.slogdet(hessian)[1])
    density = np.exp(np.array(logs) - max(logs))
    scale = rows.design.scales[place]  # in units of the data
    grid = grid / scale
    return Density(grid, density / np.trapezoid(density, grid), mode / scale, sd / scale)


def measure() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the means and sds of the densities, and the densities."""
    rows, build = customers(), {"formula": FORMULA, "standardize": True, **QUIET}
    fit = bc.fit(FORMULA, rows, size=SIZE, random_state=0, **QUIET)
    random = bc.build_coreset(rows, method="uniform", size=len(fit.coreset), random_state=0, **build)
    kinds = {"all rows": bc.all_rows(rows, **build), "weighted rows": fit.coreset, "random rows": random}
    found = {name: density_of(own, fit._design_prior) for name, own in kinds.items()}
    truth = found["all rows"]
    normal = np.exp(-0.5 * ((truth.grid - truth.mode) / truth.curvature_sd) ** 2)
    normal /= truth.curvature_sd * np.sqrt(2.0 * np.pi)
    approximation = Density(truth.grid, normal, truth.mode, truth.curvature_sd)
    found["normal approximation"] = approximation
    posteriors = [
        {
            "posterior": name,
            "rows": len(kinds.get(name, rows)),
            "mean": own.mean,
            "sd": own.sd,
            "mean error (sd)": (own.mean - truth.mean) / truth.sd,
            "sd / sd of all rows": own.sd / truth.sd,
            "verdict": str(fit.level) if name == "weighted rows" else "",
        }
        for name, own in found.items()
    ]
    curves = [
        {"posterior": name, "value": value, "density": density}
        for name, own in found.items()
        for value, density in zip(own.grid, own.density, strict=True)
    ]
    return posteriors, curves
