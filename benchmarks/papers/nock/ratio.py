"""Does Theorem 9 of Nock et al. (2016) hold? The exact likelihood ratio of neighbouring data, and its bound.

The density of k centers is the sum over their orders of the products of the mixtures that k-variates++ draws from, with
Laplace noise of scale b = 2 R / t: no simulation. Rows are uniform in the L1 ball of radius 1, or in its half around 0;
one of them is replaced by a corner of the ball, another row, or 0. Centers: draws from both data sets, and all sets of
corners, corners doubled, and the rows that differ. "ratio" is the largest found in either direction; "bound" (1 +
delta_w)^(k-1) + delta_w (1 + delta_s)^(k-1) e^t with delta_w and delta_s of `spread`, the largest of all these sets; "f
needed" what f(k) would have to be for these data. Differential privacy by composition has e^(k t).
"""

import math
from itertools import permutations, product
from typing import Any

import numpy as np

from bayescore.papers import spread
from benchmarks.commands import command
from benchmarks.tables import publish

CASES = ((50, 1, 2), (50, 2, 2), (200, 2, 2), (1_000, 2, 2), (50, 2, 3), (200, 2, 3), (1_000, 2, 3))
NOISES = (1.0, 4.0, 8.0)
SETS = 100  # of noisy rows, for each data set


def uniform_in_ball(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows uniform in the unit L1 ball."""
    parts = rng.standard_exponential((n, d + 1))
    return np.asarray(rng.choice([-1.0, 1.0], (n, d)) * parts[:, :d] / parts.sum(axis=1, keepdims=True))


def log_density(X: np.ndarray, C: np.ndarray, t: float) -> np.ndarray:
    """Return the log density of each set of centers, C of shape (m, k, d), shape (m,)."""
    m, k, _ = C.shape
    squares = ((C[:, :, None] - X) ** 2).sum(axis=3)  # (m, k, n)
    near = -0.5 * t * np.abs(C[:, :, None] - X).sum(axis=3)
    top = near.max(axis=2, keepdims=True)
    family = np.exp(near - top)
    orders = []
    for order in permutations(range(k)):
        closest = np.ones((m, len(X)))
        log_p = np.zeros(m)
        for step, i in enumerate(order):
            log_p += np.log((closest * family[:, i]).sum(axis=1) / closest.sum(axis=1)) + top[:, i, 0]
            closest = squares[:, i] if step == 0 else np.minimum(closest, squares[:, i])
        orders.append(log_p)
    return np.asarray(np.logaddexp.reduce(orders, axis=0))


def centers(X: np.ndarray, k: int, t: float, rng: np.random.Generator) -> np.ndarray:
    """Return sets of noisy rows, shape (SETS, k, D)."""
    C = X[rng.integers(len(X), size=(SETS, k))]
    return np.asarray(C + rng.laplace(0.0, 2.0 / t, C.shape))


def found(n: int, d: int, k: int, t: float, shrink: float) -> dict[str, Any]:
    rng = np.random.default_rng([n, d, k])
    X = shrink * uniform_in_ball(n, d, rng)
    corners = np.vstack([np.eye(d), -np.eye(d)])
    ratio, spreads = 0.0, [spread(X, k, radius=1.0, samples=300, random_state=0)]
    for new in (*corners[[0, d]], X[0], np.zeros(d)):
        other = X.copy()
        other[-1] = new
        special = np.vstack([corners, 2.0 * corners, X[-1], new])
        C = np.concatenate([*(centers(rows, k, t, rng) for rows in (X, other)), list(product(special, repeat=k))])
        ratio = max(ratio, float(np.abs(log_density(X, C, t) - log_density(other, C, t)).max()))
        spreads.append(spread(other, k, radius=1.0, samples=300, random_state=0))
    w, s = max(one.delta_w for one in spreads), max(one.delta_s for one in spreads)
    same, times = (1.0 + w) ** (k - 1), w * (1.0 + s) ** (k - 1) * math.exp(t)
    return {
        "rows in": "ball" if shrink == 1.0 else "half of it",
        "N": n,
        "D": d,
        "k": k,
        "t = 2 R / b": t,
        "delta_w": w,
        "delta_s": s,
        "ratio": math.exp(ratio),
        "bound": same + times,
        "f needed": max(0.0, (math.exp(ratio) - same) / times),
        "composition": math.exp(k * t),
    }


@command("nock_ratio", evidence=True)
def main(*, quick: bool = False) -> None:
    cases = [case for case in CASES if case[0] <= 200] if quick else CASES
    publish("nock_ratio", [found(*case, t, shrink) for shrink in (1.0, 0.5) for case in cases for t in NOISES])
