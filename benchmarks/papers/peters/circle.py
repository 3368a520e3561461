"""Does the circle of Peters (2021), Figure 1 and Theorem 2, need all its rows? No small coreset stands for it.

Alice keeps each of n places on a circle with probability 1/2, all rows labelled 1, and sends a coreset. Bob asks for
place i by two rows labelled 0, half a place to either side: the lot is separable, and its loss goes to 0, unless x_i is
there. "absent, right" and "present, right" are the shares of all places for which he is right, mean over `seeds`
coresets of `draws` draws, a share of Alice's rows; "n / log2 n" is the number of rows that n bits need, at log2 n bits
each.
"""

import math
import warnings

import numpy as np

import bayescore as bc
from bayescore.coresets.separation import separability
from bayescore.papers import separable_circle
from bayescore.types import WeightedData, stack
from benchmarks.commands import command
from benchmarks.tables import publish

PLACES, SEEDS = 64, 3
SHARES = (1 / 3, 2 / 3, 1.0)  # draws over Alice's rows


def rows_of(X: np.ndarray, y: np.ndarray) -> WeightedData:
    return WeightedData(X, y, np.ones(len(X)), np.arange(len(X)))


def asked(n: int, i: int) -> WeightedData:
    """Return Bob's two rows."""
    X, y = separable_circle(n, 0, query=i)
    return rows_of(X[-2:], y[-2:])


def right(n: int, share: float | None, seed: int) -> tuple[float, float, int, int]:
    """Return for how many absent, and present, places Bob is right, and the numbers of draws and rows that he got."""
    X, y = separable_circle(n, seed)
    alice, sent = rows_of(X, y), rows_of(X, y)
    if share is not None:
        options = {"family": "probit", "random_state": seed, "progressbar": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that these rows are separable
            sent = bc.build_coreset(alice, method="leverage", size=int(share * len(alice)), **options)
    place = np.rint(np.arctan2(X[:, 1], X[:, 0]) % (2.0 * math.pi) * n / (2.0 * math.pi)).astype(int) % n
    there = np.isin(np.arange(1, n + 1) % n, place)
    said = np.array([not separable(sent, asked(n, i)) for i in range(1, n + 1)])
    return (
        float((said == there)[~there].mean()),
        float((said == there)[there].mean()),
        int((share or 1.0) * len(alice)),
        len(sent),
    )


def separable(sent: WeightedData, query: WeightedData) -> bool:
    """Say whether the loss of both together can go to 0."""
    together = stack([WeightedData(sent.X, sent.y, sent.weights, np.arange(len(sent))), query])
    return not separability(together, progressbar=False).mle_exists


@command("peters_circle", evidence=True)
def main(*, quick: bool = False) -> None:
    n, seeds = (32, 1) if quick else (PLACES, SEEDS)
    least = n / math.log2(n)
    rows = []
    for share in (None, *SHARES):
        found = np.array([right(n, share, seed) for seed in range(seeds)]).mean(axis=0)
        rows.append(
            {
                "n": n,
                "sent": "all rows" if share is None else "leverage coreset",
                "seeds": seeds,
                "n / log2 n": least,
                "draws": found[2],
                "rows": found[3],
                "absent, right": found[0],
                "present, right": found[1],
            }
        )
    publish("peters_circle", rows)
