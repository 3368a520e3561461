"""Do the theorems of Nock et al. (2016) with a potential to bound hold? Mean cost and bound, both over phi_opt.

phi_opt is the cost of the best of 20 greedy seedings with Lloyd steps, on which all bounds hold just as well. Made rows
(uniform clusters in boxes in the plane, 3,000 rows in random order, k = 10); 300 of them for the divergences of Theorem
29, scaled to be positive. Peers hold the boxes, p of the rows moved; synopses are 200 uniform rows that stand for the
nearest rows; ten minibatches; private rows clipped to R, the largest L1 norm, epsilon = 1. Probes' stretching eta is
the largest over the prefixes of 20 runs (Theorem 5), and by sigma, the smallest over 20 runs (Theorem 6,
`minibatch_width`). Lemmas 3 and 13 are equalities: one cluster of rows and one center, normal noise; "bound" is what
they say.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescore.clustering import (
    ITAKURA_SAITO,
    KULLBACK_LEIBLER,
    SQUARED_EUCLIDEAN,
    KVariates,
    Noisy,
    PointMasses,
    UniformDraw,
    d_means,
    k_variates,
    ol_means,
    private_k_variates,
    s_means,
    total_jensen,
)
from bayescore.clustering.divergences import Nearest
from bayescore.clustering.peers import laplace
from bayescore.papers import guarantee
from bayescore.papers.nock import minibatch_width, on_line_bound, relaxed_guarantee, stretching
from benchmarks.commands import command
from benchmarks.papers.nock.peers import hyperrectangles, mixed
from benchmarks.tables import publish

K, N, RUNS, SYNOPSES, EPSILON = 10, 3_000, 200, 200, 1.0
Rows = NDArray[np.float64]


class Normal:
    """Normal noise."""

    def __init__(self, sd: float) -> None:
        self.sd = sd

    def __call__(self, center: Rows, rng: np.random.Generator) -> Rows:
        """Return the center with noise."""
        return center + self.sd * rng.normal(size=center.shape)

    def variance(self, n_features: int) -> float:
        """Return the trace of its covariance."""
        return self.sd**2 * n_features


class Synopsis(PointMasses):
    """Each row stands for its synopsis."""

    def __init__(self, X: Rows, weights: Rows, points: Rows) -> None:
        super().__init__(points[Nearest(X, weights, SQUARED_EUCLIDEAN, points).owner], weights)


def cost(X: Rows, centers: Rows) -> float:
    return Nearest(X, np.ones(len(X)), SQUARED_EUCLIDEAN, centers).total


def line(
    theorem: str, what: str, costs: list[float], bound: float, optimal: float, *, equality: bool = False
) -> dict[str, Any]:
    """Return a row; it holds if the mean is not above the bound, or for an equality not off it, by three errors."""
    mean, error = float(np.mean(costs)), float(np.std(costs, ddof=1) / math.sqrt(len(costs)))
    return {
        "theorem": theorem,
        "algorithm": what,
        "runs": len(costs),
        "cost / optimal": mean / optimal,
        "se": error / optimal,
        "bound / optimal": bound / optimal,
        "holds": bool((abs(mean - bound) if equality else mean - bound) <= 3.0 * error),
    }


def one_cluster(runs: int) -> list[dict[str, Any]]:
    """Return Lemma 3 and Lemma 13: the mean cost of one center is what they say."""
    rng, w = np.random.default_rng(0), np.ones(500)
    X, groups = rng.normal(size=(500, 3)), np.arange(500) % 7
    rows = []
    for lemma, points, density in (
        ("Lemma 3 (equal rows)", np.zeros((500, 3)), PointMasses),
        ("Lemma 13", X, partial(UniformDraw, groups=groups)),
    ):
        noisy = partial(Noisy, noise=Normal(0.7), density=density)
        terms = guarantee(points, points.mean(axis=0)[None], density=noisy)
        said = terms.optimal + terms.bias + terms.variance
        drawn = noisy(points, w)
        costs = [cost(points, drawn.draw(int(rng.integers(500)), rng)[None]) for _ in range(10 * runs)]
        rows.append(line(lemma, "one center, an equality", costs, said, said, equality=True))
    return rows


def euclidean(runs: int) -> list[dict[str, Any]]:
    X, home = hyperrectangles(np.random.default_rng(3))
    order = np.random.default_rng(4).permutation(len(X))[:N]
    X, home = X[order] - X[order].mean(axis=0), home[order]
    best = min(
        (KVariates(K, n_local_trials=None, lloyd_steps=100, random_state=i).fit(X) for i in range(20)),
        key=lambda fit: fit.inertia_,
    ).cluster_centers_
    optimal, R = cost(X, best), float(np.abs(X).sum(axis=1).max())
    add = partial(line, optimal=optimal)

    def costs(draw: Callable[[int], Rows]) -> list[float]:
        return [cost(X, draw(seed)) for seed in range(runs)]

    rows = [
        add(
            "Theorem 2",
            "k-means++",
            costs(lambda i: k_variates(X, K, random_state=i).centers),
            guarantee(X, best).bound,
        )
    ]
    noisy = partial(Noisy, noise=Normal(5.0))
    found = costs(lambda i: k_variates(X, K, density=noisy, random_state=i).centers)
    rows.append(add("Theorem 2", "k-variates++, normal noise of sd 5", found, guarantee(X, best, density=noisy).bound))
    for p in (0.0, 0.3):
        peer = np.unique(mixed(home, p, np.random.default_rng(1)), return_inverse=True)[1]
        held = [X[peer == i] for i in range(peer.max() + 1)]
        terms = guarantee(X, best, density=partial(UniformDraw, groups=peer))
        found = costs(lambda i, held=held: d_means(held, K, random_state=i).centers)
        rows.append(add("Theorem 4", f"d-means++, p = {p:g}", found, terms.bound))
    points = X[np.random.default_rng(5).choice(N, SYNOPSES, replace=False)]
    owner = Nearest(X, np.ones(N), SQUARED_EUCLIDEAN, points).owner
    masses = np.bincount(owner, minlength=SYNOPSES).astype(float)
    drawn = [s_means(points, K, masses=masses, random_state=i).centers for i in range(runs)]
    eta = max(stretching(X, points[owner], c[:t], best) for c in drawn[:20] for t in range(1, K))
    terms = guarantee(X, best, density=partial(Synopsis, points=points), stretching=eta)
    rows.append(add("Theorem 5", f"s-means++, eta = {eta:.3g}", [cost(X, c) for c in drawn], terms.bound))
    batch = np.arange(N) * K // N
    drawn = [ol_means(np.split(X, K), K, random_state=i) for i in range(runs)]
    width = min(minibatch_width(X, batch, best, c) for c in drawn[:20])
    bound = on_line_bound(K, optimal, width)
    rows.append(add("Theorem 6", f"ol-means++, sigma = {width:.2g}", [cost(X, c) for c in drawn], bound))
    noise = partial(Noisy, noise=laplace(2.0 * R, EPSILON / K))
    found = [cost(X, private_k_variates(X, K, epsilon=EPSILON, radius=R, random_state=i).centers) for i in range(runs)]
    rows.append(add("Theorem 12", "private, Laplace, epsilon = 1", found, guarantee(X, best, density=noise).bound))
    return rows


def divergent(runs: int) -> list[dict[str, Any]]:
    X, _ = hyperrectangles(np.random.default_rng(3))
    X = (X[np.random.default_rng(4).permutation(len(X))[:300]] + 5.0) / 100.0
    rows = []
    for of in (SQUARED_EUCLIDEAN, KULLBACK_LEIBLER, ITAKURA_SAITO, total_jensen("entropy"), total_jensen("burg")):
        best = min(
            (k_variates(X, K, divergence=of, n_local_trials=20, random_state=i) for i in range(20)),
            key=lambda f: f.cost,
        )
        terms = relaxed_guarantee(X, best.centers, of)
        what = f"{of.name}: U = {terms.triangle:.2f}, V = {terms.symmetry:.2f}"
        found = [k_variates(X, K, divergence=of, random_state=i).cost for i in range(runs)]
        rows.append(line("Theorem 29", what, found, terms.bound, terms.optimal))
    return rows


@command("nock_bounds", evidence=True)
def main(*, quick: bool = False) -> None:
    runs = 30 if quick else RUNS
    publish("nock_bounds", one_cluster(runs) + euclidean(runs) + divergent(runs))
