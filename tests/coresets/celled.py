"""Rows of two grouping factors, nested or crossed, for tests of multilevel coresets and their models."""

import numpy as np
import pandas as pd

from bayescore.families.family import check_family

TWO = "(1 | a) + (1 | b)"
SLOPES = "(1 + x | a)"


def celled(
    family="logistic",
    *,
    n_a=10,
    n_b=10,
    nested=False,
    median=20,
    intercept=-1.0,
    sigma=1.0,
    slope=0.0,
    seed=0,
    rng=None,
):
    """Return rows of n_a levels of a, of each n_b of b, nested in it or crossed with it, in cells of unlike sizes.

    Random numbers come from `rng`, if given.
    """
    rng = np.random.default_rng(seed) if rng is None else rng
    sizes = np.maximum(1, np.round(median * rng.lognormal(0.0, 0.8, n_a * n_b))).astype(int)
    a = np.repeat(np.repeat(np.arange(n_a), n_b), sizes)
    b = np.repeat(np.arange(n_a * n_b) if nested else np.tile(np.arange(n_b), n_a), sizes)
    X = rng.normal(size=(len(a), 3))
    X[:, 0] += 0.5 * rng.normal(size=n_a)[a]
    eta = (
        intercept
        + X @ [-0.5, 0.3, 0.5]
        + sigma * rng.normal(size=n_a)[a]
        + 0.7 * sigma * rng.normal(size=b.max() + 1)[b]
    )
    eta += slope * rng.normal(size=n_a)[a] * X[:, 1]
    y = (rng.random(len(a)) < check_family(family).mean(eta)).astype(int)
    return pd.DataFrame(X, columns=["w", "x", "z"]).assign(a=a, b=b, y=y)
