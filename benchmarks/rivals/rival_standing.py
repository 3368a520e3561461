"""How bayescore stands beside each system of `rival_posteriors`: where it is nearer to the truth, and at what time."""

import numpy as np
import pandas as pd
from scipy.stats import f

TIE = 1.5  # ratio of two errors within which they count as equal


def tie_broken(D: int) -> float:
    """Return how often the errors of two equally good means of D coefficients are further apart than a tie.

    Whitened squared errors of means are chi-squared with D degrees of freedom, their ratio is F(D, D).
    """
    return 2.0 * float(f.sf(TIE**2, D, D))


def standing(rows: pd.DataFrame, setting: str | None = None) -> pd.DataFrame:
    """Return a row a system: the sets on which bayescore is nearer, as near or less near than its best setting.

    bayescore has the named setting on every set, or where that is None its own best one. The error is the larger one of
    the mean (in sds) and of sds (relative), of a mode that of the mean; "in mean" and "in KL" go by one alone. Where a
    system found nothing, under the limit or at all, the set stands under "stopped or failed". Times are compared where
    both were measured: none that was scaled from a few gradients.
    """
    rows = rows.assign(error=rows[["mean", "sd"]].max(axis=1))
    chosen = rows["best"] if setting is None else rows["setting"] == setting
    ours = rows[chosen & (rows["system"] == "bayescore")].set_index("data")
    found = []
    for name, own in rows[rows["best"] & (rows["system"] != "bayescore")].groupby("system", sort=False):
        own = own.set_index("data")
        ran = own[own["mean"].notna()]
        ratios = {key: ran[key] / ours[key].reindex(ran.index) for key in ("error", "mean", "KL", "processor s")}
        errors, times = ratios["error"], ratios["processor s"][~ran["timed"].str.startswith("scaled")]
        span = [float(times.min()), float(times.max())] if len(times) else [np.nan, np.nan]
        found.append(
            {
                "beside": name,
                "bayescore nearer": "; ".join(errors[errors > TIE].index),
                "a tie": "; ".join(errors[errors.between(1.0 / TIE, TIE)].index),
                "less near": "; ".join(errors[errors < 1.0 / TIE].index),
                "in mean": "; ".join(ran.index[ratios["mean"] < 1.0 / TIE]),
                "in KL": "; ".join(ran.index[ratios["KL"] < 1.0 / TIE]),
                "stopped or failed": "; ".join(own.index.difference(ran.index, sort=False)),
                "its processor s / bayescore's, least": span[0],
                "greatest": span[1],
            }
        )
    return pd.DataFrame(found)
