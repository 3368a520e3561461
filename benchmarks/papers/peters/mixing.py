"""How does Albert and Chib's sampler mix where one label is rare? ESS against the share of positives.

Rows of a probit model with an intercept and four normal columns, the intercept set for the share of positives; the
classical sampler on all rows, the sampler for real weights on a calibrated coreset of 20 D rows, and MALA on the same
coreset. "ESS" is the smallest over coefficients for 1000 kept draws, median of `seeds` data sets with the smallest and
the largest; N(0, 16) priors.
"""

import numpy as np
from scipy.special import ndtri

import bayescore as bc
from bayescore.datasets import probit
from bayescore.numerics.chains import ess
from benchmarks.commands import command
from benchmarks.papers.peters.posteriors import CHAINS, sampled
from benchmarks.tables import publish

SLOPES = np.array([0.5, -0.5, 0.25, 0.25])
SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
SWEEPS, SEEDS = 1_000, 10
SAMPLERS = ("Albert-Chib, all rows", "Albert-Chib, calibrated coreset", "MALA, calibrated coreset")


def effective(n: int, share: float, seed: int, sweeps: int) -> tuple[float, list[float]]:
    """Return the share of positives drawn and the smallest ESS of 1000 draws of each sampler."""
    intercept = ndtri(share) * np.sqrt(1.0 + SLOPES @ SLOPES)  # P(y = 1) = share over the columns' law
    X, y = probit(n, [intercept, *SLOPES], random_state=seed)
    data = bc.all_rows(X, y, family="probit", progressbar=False)
    told = {"method": "calibrated", "prior": bc.priors.Normal(0, 4), "random_state": seed, "progressbar": False}
    core = bc.build_coreset(data, size=20 * data.n_features, **told)
    found = []
    for rows, sampler in ((data, "gibbs"), (core, "gibbs"), (core, "mala")):
        draws = sampled(rows, sweeps, seed, sampler)
        found.append(1000.0 * float(ess(draws, "mean").min()) / (CHAINS * sweeps))
    return float((y > 0).mean()), found


@command("peters_mixing", evidence=True)
def main(*, quick: bool = False) -> None:
    n, seeds, sweeps, shares = (2_000, 1, 500, SHARES[::3]) if quick else (5_000, SEEDS, SWEEPS, SHARES)
    rows = []
    for share in shares:
        drawn, found = zip(*(effective(n, share, seed, sweeps) for seed in range(seeds)), strict=True)
        for name, values in zip(SAMPLERS, np.array(found).T, strict=True):
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
    table = sorted(rows, key=lambda row: SAMPLERS.index(str(row["sampler"])))
    publish("peters_mixing", table)
