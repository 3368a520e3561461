"""The rows of golden cases about fits: pupils in rooms of schools, whose marks are labels, counts and numbers."""

import numpy as np
import pandas as pd

N, LATER = 1_800, 600
"""Pupils, and how many of them come later than the first fit."""


def _pupils() -> pd.DataFrame:
    """Return rows of 18 schools in three regions, 90 rooms, and one more school that comes later."""
    rng = np.random.default_rng(21)
    room = rng.integers(0, 90, N)
    school = room % 18
    pupils = pd.DataFrame(
        {
            "hours": np.round(rng.gamma(4.0, 2.0, N), 3),
            "age": rng.integers(9, 16, N).astype(float),
            "way": rng.choice(["bus", "foot", "train"], N, p=[0.5, 0.3, 0.2]),
            "school": [f"s{code:02d}" for code in school],
            "region": np.array(["east", "north", "west"])[school % 3],
            "room": room,
            "w": rng.uniform(0.5, 2.0, N),
            "known": rng.normal(0.0, 0.4, N),
            "weeks": rng.integers(1, 5, N).astype(float),
        }
    )
    effect = (
        np.random.default_rng(22).normal(0.0, 0.9, 18)[school] + np.random.default_rng(23).normal(0.0, 0.3, 90)[room]
    )
    eta = 0.15 * (pupils["hours"] - 8.0) - 0.5 * (pupils["way"] == "train") + effect + pupils["known"]
    pupils["passed"] = np.where(eta + rng.logistic(size=N) > 0, "yes", "no")
    pupils["days"] = rng.poisson(pupils["weeks"] * np.exp(-0.3 + 0.4 * eta))
    pupils["score"] = np.round(50.0 + 6.0 * eta + rng.normal(0.0, 5.0, N), 2)
    return pupils


ALL = _pupils()
FIRST, MORE = ALL.iloc[: N - LATER], ALL.iloc[N - LATER :].reset_index(drop=True)
FLAT = "passed ~ hours + way"
GROUPED = "passed ~ hours + way + (1 | school)"
COUNTS = "days ~ hours + way"
NUMBERS = "score ~ hours + way"
