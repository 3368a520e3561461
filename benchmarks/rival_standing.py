"""How bayescore stands beside each system of `rival_posteriors`: where it is nearer to the truth, and at what time."""

import numpy as np
import pandas as pd

TIE = 1.5  # ratio of two errors within which they count as equal: about that of two Monte Carlo errors


def standing(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row a system from the best settings: the sets on which bayescore is nearer, as near or less near.

    The error is the larger one of the mean (in sds) and of sds (relative), of a mode that of the mean. Where a system
    found nothing under the limit, the set stands under "stopped".
    """
    rows = rows.assign(error=rows[["mean", "sd"]].max(axis=1))
    ours = rows[rows["system"] == "bayescore"].set_index("data")
    found = []
    for name, own in rows[rows["system"] != "bayescore"].groupby("system", sort=False):
        own = own.set_index("data")
        ran = own[own["mean"].notna()]
        errors = ran["error"] / ours["error"].reindex(ran.index)
        times = ran["processor s"] / ours["processor s"].reindex(ran.index)
        span = [float(times.min()), float(times.max())] if len(ran) else [np.nan, np.nan]
        found.append(
            {
                "beside": name,
                "bayescore nearer": "; ".join(errors[errors > TIE].index),
                "a tie": "; ".join(errors[errors.between(1.0 / TIE, TIE)].index),
                "less near": "; ".join(errors[errors < 1.0 / TIE].index),
                "stopped": "; ".join(own.index.difference(ran.index, sort=False)),
                "its processor s / bayescore's, least": span[0],
                "greatest": span[1],
            }
        )
    return pd.DataFrame(found)
