"""Do Proposition 3.8 and Corollary 3.9 bound the mean sensitivities of rows from mixtures?

Measured: mean and standard error of the mean bound (Lemma 3.1 with the components as clusters, exact leave-one-out
means) over draws of N rows. "bound" is the proposition's with the proof's B_i, at the best r, "printed" with the
printed B_i for infinitely many rows, "limit" E[1 / sum_i p_i exp(-R d_i)], what the mean bound tends to, by 200,000
draws. Labels are independent of the rows given their component, as the proof takes them. It "fails" where the mean is
above the bound by more than three standard errors. C is measured over exp(R sqrt(tr S + (1 - ybar^2) |mu|^2)) for one
component, which Corollary 3.9 says is bounded.
"""

import math
from typing import Any

import numpy as np

from bayescore.papers.huggins import expected_sensitivity
from benchmarks.commands import command
from benchmarks.tables import publish

HALVES = np.repeat([[0.0, 1.0], [1.0, 0.0]], 5, axis=1)  # the means of the paper's Mixture
MIXTURES: dict[str, dict[str, Any]] = {
    "N(0, 1)": {"shares": [1.0], "means": [[0.0]], "traces": [1.0], "mean_labels": [0.0]},
    "N(1, I), D = 10, ybar = 0.5": {"shares": [1.0], "means": [[1.0] * 10], "traces": [10.0], "mean_labels": [0.5]},
    "the paper's Mixture": {"shares": [0.5, 0.5], "means": HALVES, "traces": [10.0, 10.0], "mean_labels": [-1.0, 1.0]},
    "two narrow normals": {
        "shares": [0.5, 0.5],
        "means": [[4.0, 0.0], [0.0, 1.0]],
        "traces": [0.1, 0.1],
        "mean_labels": [1.0, 0.0],
    },
}
RADII = (0.1, 0.3, 1.0, 2.0, 3.0)


def drawn(mixture: dict[str, Any], n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return signed rows and their components."""
    means = np.asarray(mixture["means"])
    which = rng.choice(len(means), n, p=mixture["shares"])
    sd = np.sqrt(np.array(mixture["traces"]) / means.shape[1])
    X = means[which] + sd[which][:, None] * rng.standard_normal((n, means.shape[1]))
    positive = 2.0 * rng.random(n) - 1.0 < np.array(mixture["mean_labels"])[which]
    return np.where(positive, 1.0, -1.0)[:, None] * X, which


def mean_bound(mixture: dict[str, Any], n: int, radius: float, rng: np.random.Generator) -> float:
    """Return the mean of Lemma 3.1's bounds, the components as clusters."""
    Z, which = drawn(mixture, n, rng)
    total = np.ones(n)
    for i in range(len(mixture["shares"])):
        inside = which == i
        others = inside.sum() - inside
        means = (Z[inside].sum(axis=0) - np.where(inside[:, None], Z, 0.0)) / np.maximum(others, 1)[:, None]
        total += others * np.exp(-radius * np.linalg.norm(means - Z, axis=1))
    return float((n / total).mean())


def limit(mixture: dict[str, Any], radius: float, rng: np.random.Generator) -> float:
    """Return what the mean bound tends to, by draws."""
    Z, _ = drawn(mixture, 200_000, rng)
    centers = np.array(mixture["mean_labels"])[:, None] * np.asarray(mixture["means"])
    distances = np.linalg.norm(Z[:, None, :] - centers, axis=2)
    return float((1.0 / (np.exp(-radius * distances) @ np.array(mixture["shares"]))).mean())


def printed(mixture: dict[str, Any], radius: float) -> float:
    """Return the limit of the proposition with B_i as printed: ybar_j^2 in place of ybar_i^2."""
    p, label, mu = (np.asarray(mixture[key], dtype=float) for key in ("shares", "mean_labels", "means"))
    squares, signed = (mu * mu).sum(axis=1), label[:, None] * mu
    B = p @ (np.array(mixture["traces"]) + squares) + squares * (p @ label**2) - 2.0 * signed @ (p @ signed)
    return 1.0 / float(p @ np.exp(-radius * np.sqrt(B)))


@command("huggins_mixture_bounds", evidence=True)
def main(*, quick: bool = False, trials: int = 20) -> None:
    rows = []
    for name, mixture in MIXTURES.items():
        for n in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
            for radius in RADII:
                rng = np.random.default_rng([n, round(10 * radius)])
                draws = 4 if quick else trials
                found = [mean_bound(mixture, n, radius, rng) for _ in range(draws)]
                mean, error = float(np.mean(found)), float(np.std(found, ddof=1)) / math.sqrt(draws)
                bound = expected_sensitivity(n, radius, **mixture)
                root = expected_sensitivity(math.inf, radius, **mixture)
                rows.append(
                    {
                        "mixture": name,
                        "N": n,
                        "R": radius,
                        "draws": draws,
                        "measured": mean,
                        "standard error": error,
                        "bound": bound,
                        "bound, N infinite": root,
                        "printed, N infinite": printed(mixture, radius),
                        "limit": limit(mixture, radius, rng),
                        "holds": "fails" if mean - 3.0 * error > bound else "holds",
                        "C": mean / root if len(mixture["shares"]) == 1 else math.nan,
                    }
                )
    publish("huggins_mixture_bounds", rows)
