"""Do Theorem 3.4, Corollary 3.7 and Propositions 3.5 and 3.6 hold beside sensitivities and drawn directions?

Theorem 3.4: rows of its construction from N = 500 directions, on a circle, random on the sphere, or of random signs;
"reached" is the smallest sensitivity at the coefficients of its proof, which bounds sensitivities from below, "Lemma
3.1" the bound that Algorithm 1 computes, with each row a cluster and with k = 6. Proposition 3.5: the median of the
smallest separation of N random points and how often it is below the claim, which may be in 5% of the trials; "exponent"
is the slope of log median against log N. Proposition 3.6: how often N random sign vectors are as far apart as claimed,
which they must be in half of the trials.
"""

import math
from collections.abc import Callable

import numpy as np

from bayescore.clustering import k_variates
from bayescore.coresets.sensitivity import sensitivity_bounds
from bayescore.papers.huggins import indispensable_rows, near_orthogonal_rows, sensitivity_range, sphere_separation
from benchmarks.commands import command
from benchmarks.tables import publish

N, CLOSENESS, DELTA = 500, 0.5, 0.05


def on_sphere(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    V = rng.standard_normal((n, d))
    return V / np.linalg.norm(V, axis=1, keepdims=True)


def signs(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], (n, d)) / math.sqrt(d)


def circle(_rng: np.random.Generator, n: int, _d: int) -> np.ndarray:
    angle = 2.0 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def reached(Z: np.ndarray, separation: float, radius: float) -> float:
    """Return the smallest over rows of the sensitivities at the coefficients of Lemma C.1."""
    delta = math.sqrt(CLOSENESS / 2.0)
    alpha = radius / (math.sqrt(2.0) * delta)
    last = np.full((len(Z), 1), alpha * delta**2 * (1.0 - separation / 2.0) / math.sqrt(1.0 - delta**2))
    losses = np.logaddexp(0.0, -Z @ np.column_stack([-alpha * Z[:, :-1], last]).T)
    return float((len(Z) * np.diag(losses) / losses.sum(axis=0)).min())


def constructions() -> list[dict]:
    rows, rng = [], np.random.default_rng(0)
    for name, drawn, d in (("circle", circle, 2), ("sphere", on_sphere, 10), ("signs", signs, 100)):
        Z, separation = indispensable_rows(drawn(rng, N, d), CLOSENESS)
        few = k_variates(Z, 6, random_state=0).centers
        for radius in (1.0, 10.0, 100.0, 1e5):
            lower, upper = sensitivity_range(N, radius, separation=separation, closeness=CLOSENESS)
            own, found = sensitivity_bounds(Z, centers=Z, radius=radius).max(), reached(Z, separation, radius)
            rows.append(
                {
                    "directions": name,
                    "N": N,
                    "D": Z.shape[1],
                    "e": separation,
                    "e'": CLOSENESS,
                    "R": radius,
                    "Theorem 3.4": lower,
                    "reached": found,
                    "Lemma 3.1": own,
                    "Lemma 3.1, k = 6": sensitivity_bounds(Z, centers=few, radius=radius).mean(),
                    "Corollary 3.7": upper,
                    "holds": bool(
                        lower <= found * (1 + 1e-9) and found <= own * (1 + 1e-9) and own <= upper * (1 + 1e-9)
                    ),
                }
            )
    return rows


def smallest(drawn: Callable[..., np.ndarray], n: int, d: int, trials: int) -> np.ndarray:
    """Return 1 - max v_n . v_m over pairs, of each trial."""
    rng, found = np.random.default_rng(1), []
    for _ in range(trials):
        V = drawn(rng, n, d)
        products = V @ V.T
        np.fill_diagonal(products, -1.0)
        found.append(1.0 - products.max())
    return np.array(found)


def separations(trials: int) -> list[dict]:
    rows = []
    for d in (3, 6, 11):
        sizes, medians = (100, 400, 1600), []
        for n in sizes:
            found, claimed = smallest(on_sphere, n, d, trials), sphere_separation(n, d, DELTA)
            medians.append(np.median(found))
            rows.append(
                {
                    "proposition": "3.5",
                    "D": d,
                    "N": n,
                    "claimed": claimed,
                    "median": medians[-1],
                    "trials": trials,
                    "share that keeps it": float((found >= claimed).mean()),
                    "must be at least": 1.0 - DELTA,
                    "exponent claimed": -4.0 / (d - 1),
                    "exponent": np.polyfit(np.log(sizes[: len(medians)]), np.log(medians), 1)[0]
                    if n == 1600
                    else np.nan,
                }
            )
    for d, e in ((64, 0.5), (100, 0.5), (200, 0.7), (300, 0.7)):
        n = near_orthogonal_rows(d, e)
        found = smallest(signs, n, d, trials)
        rows.append(
            {
                "proposition": "3.6",
                "D": d,
                "N": n,
                "claimed": e,
                "median": np.median(found),
                "trials": trials,
                "share that keeps it": float((found >= e).mean()),
                "must be at least": 0.5,
            }
        )
    return rows


@command("huggins_lower_bounds", evidence=True)
def main(*, quick: bool = False, trials: int = 200) -> None:
    publish("huggins_lower_bounds", constructions())
    publish("huggins_separations", separations(20 if quick else trials))
