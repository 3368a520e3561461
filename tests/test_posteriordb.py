"""Draws from all rows agree with the means that posteriordb publishes of five logistic posteriors.

Its priors are flat; Normal(0, 100) is flat beside sds of the posterior below 0.2. Means are compared within 5.5
standard errors, ours and the published ones: 4e-8 a comparison, of 13.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.numerics.chains import mcse_mean
from benchmarks.problems import SHARED

PUBLISHED = json.loads((Path(__file__).parent / "published" / "posteriordb.json").read_text())
RATE = 5e-7


def columns(name):
    """Return the columns and labels of one of its models."""
    if name == "nes_logit_model":
        path, made = SHARED / "posteriordb_nes_logit.parquet", lambda rows: rows[["income"]]
    else:
        path = SHARED / "posteriordb_wells.parquet"
        made = {
            "wells_dist": lambda rows: rows[["dist"]],
            "wells_dist100_model": lambda rows: rows[["dist"]] / 100,
            "wells_dist100ars_model": lambda rows: rows.assign(dist=rows["dist"] / 100)[["dist", "arsenic"]],
            "wells_interaction_c_model": centered,
        }[name]
    if not path.is_file():
        pytest.skip(f"{path} is absent: this check did NOT run")
    rows = pd.read_parquet(path)
    return made(rows).astype(float), np.where(rows["y"] == 1, 1, -1)


def centered(rows):
    own = rows[["dist", "arsenic"]] - rows[["dist", "arsenic"]].mean()
    own["dist"] /= 100
    return own.assign(both=own["dist"] * own["arsenic"])


def misses(name, y_of=lambda y: y):
    """Return the largest distance of a mean from the published one, in standard errors of both."""
    X, y = columns(name)
    rows = bc.build_coreset(X, y_of(y), method="aggregate", intercept=True, progressbar=False)
    idata = bc.sample(rows, prior=bc.priors.Normal(0, 100), draws=2500, random_seed=1, progressbar=False)
    draws = idata.posterior["beta"].values
    mean, error = np.array(PUBLISHED[name]["mean"]), np.hypot(mcse_mean(draws), PUBLISHED[name]["mcse"])
    return float(np.abs((draws.mean(axis=(0, 1)) - mean) / error).max())


@pytest.mark.statistical(rate=RATE / len(PUBLISHED))
@pytest.mark.parametrize("name", PUBLISHED)
def test_means_are_the_published_ones(name):
    assert misses(name) < 5.5


def test_a_label_in_a_hundred_turned_is_seen():
    """The control: means move by more standard errors than are allowed."""

    def turned(y):
        return np.where(np.arange(len(y)) % 100 == 0, -y, y)

    assert misses("wells_dist100_model", turned) > 5.5
