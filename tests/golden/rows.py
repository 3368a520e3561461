"""The rows of golden cases: a few thousand, with a column of few values, weights, offsets, trials, groups and gaps."""

import numpy as np
import pandas as pd

from tests.coresets.celled import celled

N = 3_000
BLOCK = 1_024  # rows of a canonical block where a case asks for several


def _flat() -> pd.DataFrame:
    """Return two columns of numbers and one of two values, labels that follow from them, and what may stand beside."""
    rng = np.random.default_rng(11)
    found = pd.DataFrame(
        {
            "x0": np.round(rng.normal(size=N), 1),
            "x1": rng.integers(0, 3, N).astype(float),
            "x2": rng.integers(0, 2, N).astype(float),
        }
    )
    found["y"] = np.where(found["x0"] - 0.5 * found["x1"] + rng.logistic(size=N) > 0, "yes", "no")
    found["w"] = rng.uniform(0.1, 6.0, N)
    found["o"] = rng.normal(0.2, 0.5, N)
    found["n"] = rng.integers(1, 9, N)
    found["s"] = rng.binomial(found["n"], 1.0 / (1.0 + np.exp(-found["x0"])))
    found["device"] = rng.choice(["phone", "tablet", "watch"], N, p=[0.6, 0.3, 0.1])
    found["age"] = np.round(rng.normal(40.0, 12.0, N), 1)
    return found


FRAME = _flat()
FEATURES = ["x0", "x1", "x2"]
X, Y = FRAME[FEATURES].to_numpy(), FRAME["y"].to_numpy().astype(str)


def _groups() -> np.ndarray:
    """Return 40 groups of rows, whose labels are not alike."""
    rng = np.random.default_rng(12)
    found = rng.integers(0, 40, N)
    return np.where((Y == "yes") & (rng.random(N) < 0.2), found // 2, found)


GROUP = _groups()


def rare() -> pd.DataFrame:
    """Return rows of 12 columns that are 1 in one row of 25 to 200, one of numbers, and one of groups."""
    rng = np.random.default_rng(1)
    share = np.geomspace(0.005, 0.04, 12)
    found = pd.DataFrame((rng.random((N, 12)) < share).astype(float), columns=[f"r{d}" for d in range(12)])
    found["x"] = np.round(rng.normal(size=N), 2)
    eta = found["x"] + found.iloc[:, :12] @ rng.normal(size=12) - 1.0
    return found.assign(y=(eta + rng.logistic(size=N) > 0).map({True: "yes", False: "no"}), g=np.arange(N) % 20)


def with_gaps() -> pd.DataFrame:
    """Return rows of which one in fifty misses a feature, and others the label."""
    found = FRAME[[*FEATURES, "y"]].copy()
    rng = np.random.default_rng(13)
    found.loc[rng.random(N) < 0.02, "x0"] = np.nan
    found.loc[rng.random(N) < 0.01, "y"] = None
    return found


def slopes() -> pd.DataFrame:
    """Return rows whose slopes vary by group."""
    return celled(n_a=8, n_b=2, median=30, slope=0.5, seed=1)


def crossed() -> pd.DataFrame:
    """Return rows of two crossed factors."""
    return celled(n_a=6, n_b=5, median=25, seed=2)


def nested() -> pd.DataFrame:
    """Return rows of a factor nested in another."""
    return celled(n_a=5, n_b=3, nested=True, median=25, seed=3)
