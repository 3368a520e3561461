"""How does Albert and Chib's sampler mix where one label is rare? ESS against the share of positives.

Rows of a probit model with an intercept and four normal columns, the intercept set for the share of positives; the
classical sampler on all rows, the sampler for real weights on a calibrated coreset of 20 D rows, and MALA on the same
coreset. "ESS" is the smallest over coefficients for 1000 kept draws, median of `seeds` data sets with the smallest and
the largest; N(0, 16) priors.
"""

import warnings

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import ndtri

import bayescore as bc
from bayescore.datasets import probit
from bayescore.numerics.chains import ess_mean
from benchmarks.commands import command
from benchmarks.tables import publish, publish_picture

SLOPES = np.array([0.5, -0.5, 0.25, 0.25])
SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
CHAINS, SWEEPS, SEEDS = 4, 1_000, 10
LOOKS = {
    "Albert-Chib, all rows": ("o", "-", "#0072B2"),
    "Albert-Chib, calibrated coreset": ("s", "--", "#D55E00"),
    "MALA, calibrated coreset": ("^", ":", "#555555"),
}


def effective(n: int, share: float, seed: int, sweeps: int) -> tuple[float, list[float]]:
    """Return the share of positives drawn and the smallest ESS of 1000 draws of each sampler."""
    intercept = ndtri(share) * np.sqrt(1.0 + SLOPES @ SLOPES)  # P(y = 1) = share over the columns' law
    X, y = probit(n, [intercept, *SLOPES], random_state=seed)
    data = bc.all_rows(X, y, family="probit", progressbar=False)
    core = bc.build_coreset(
        data,
        method="calibrated",
        size=20 * data.n_features,
        prior=bc.priors.Normal(0, 4),
        random_state=seed,
        progressbar=False,
    )
    found = []
    for rows, sampler in ((data, "gibbs"), (core, "gibbs"), (core, "mala")):
        idata = bc.sample(
            rows,
            "probit",
            bc.priors.Normal(0, 4),
            sampler=sampler,
            draws=sweeps,
            tune=sweeps // 4,
            chains=CHAINS,
            random_seed=seed,
            progressbar=False,
        )
        found.append(1000.0 * float(ess_mean(np.asarray(idata.posterior["beta"])).min()) / (CHAINS * sweeps))
    return float((y > 0).mean()), found


def draw(table: pd.DataFrame) -> Figure:
    """Return ESS against the share of positives."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for name, part in table.groupby("sampler", sort=False):
        marker, line, colour = LOOKS[str(name)]
        bars = [part["ESS"] - part["smallest"], part["largest"] - part["ESS"]]
        axes.errorbar(
            100.0 * part["positive"], part["ESS"], bars, fmt=marker + line, color=colour, capsize=2, ms=5, label=name
        )
    axes.set(xscale="log", yscale="log", xlabel="positive rows (%)", ylabel="smallest ESS of 1000 draws")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(color="#e6e6e6", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    return figure


@command("peters_mixing", evidence=True)
def main(*, quick: bool = False) -> None:
    n, seeds, sweeps, shares = (2_000, 1, 500, SHARES[::3]) if quick else (5_000, SEEDS, SWEEPS, SHARES)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # slow mixing is what is measured
        for share in shares:
            drawn, found = zip(*(effective(n, share, seed, sweeps) for seed in range(seeds)), strict=True)
            for name, values in zip(LOOKS, np.array(found).T, strict=True):
                rows.append(
                    {
                        "sampler": name,
                        "N": n,
                        "seeds": seeds,
                        "sweeps": CHAINS * sweeps,
                        "positive": float(np.mean(drawn)),
                        "ESS": float(np.median(values)),
                        "smallest": float(values.min()),
                        "largest": float(values.max()),
                    }
                )
    table = sorted(rows, key=lambda row: list(LOOKS).index(str(row["sampler"])))
    publish("peters_mixing", table)
    publish_picture("peters_mixing", draw(pd.DataFrame(table)))
