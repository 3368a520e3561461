"""Are draws the same on every stack? Means, sds and last draws of each sampler, from one coreset.

Run it on each Python; rows of other stacks stay in the table, and each is compared with the first. Last draws are
compared in posterior sds, to show rounding; means and sds in standard errors of the difference, for a version that
draws other numbers (of 60 figures, 99% of the largest z are below 3.8).
"""

import platform
from importlib.metadata import version

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.numerics.chains import mcse_mean, mcse_sd
from benchmarks.commands import command
from benchmarks.tables import RESULTS, publish

FILE = RESULTS / "stacks.csv"
RUNS = (
    ("nuts", "logistic"),
    ("nuts", "probit"),
    ("mala", "logistic"),
    ("mala", "probit"),
    ("gibbs", "probit"),
    ("polya_gamma", "logistic"),
)


def stack() -> str:
    """Return the versions that tell one stack from another."""
    return f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in ("pymc", "arviz"))


def measure() -> list[dict]:
    """Return a row for each sampler, likelihood and coefficient on this stack."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4))
    y = np.where(X @ [1.0, -0.5, 0.25, 0.0] - 1.0 + rng.logistic(size=20_000) > 0, 1, -1)
    rows = []
    for sampler, family in RUNS:
        core = bc.build_coreset(X, y, family=family, size=100, intercept=True, random_state=1)
        idata = bc.sample(core, sampler=sampler, draws=2000, tune=1000, random_seed=2)
        beta = idata.posterior["beta"].to_numpy()
        errors = mcse_mean(beta), mcse_sd(beta)
        for d, name in enumerate(core.feature_names):
            rows.append(
                {
                    "stack": stack(),
                    "sampler": sampler,
                    "family": family,
                    "feature": name,
                    "mean": beta[:, :, d].mean(),
                    "mean_mcse": errors[0][d],
                    "sd": beta[:, :, d].std(ddof=1),
                    "sd_mcse": errors[1][d],
                    "last_draw": beta[-1, -1, d],
                }
            )
    return rows


def compared(table: pd.DataFrame) -> list[dict]:
    """Return the largest differences of each stack from the first, by sampler and likelihood."""
    first, rows = table["stack"].iloc[0], []
    for (name, sampler, family), part in table.groupby(["stack", "sampler", "family"], sort=False):
        own = table.query("stack == @first and sampler == @sampler and likelihood == @likelihood")
        a, b = own.set_index("feature"), part.set_index("feature")
        rows.append(
            {
                "stack": name,
                "against": first,
                "sampler": sampler,
                "family": family,
                "mean_difference_sd": ((b["mean"] - a["mean"]).abs() / a["sd"]).max(),
                "mean_z": ((b["mean"] - a["mean"]).abs() / np.hypot(a["mean_mcse"], b["mean_mcse"])).max(),
                "sd_z": ((b["sd"] - a["sd"]).abs() / np.hypot(a["sd_mcse"], b["sd_mcse"])).max(),
                "last_draw_difference_sd": ((b["last_draw"] - a["last_draw"]).abs() / a["sd"]).max(),
            }
        )
    return [row for row in rows if row["stack"] != first]


@command("stacks")
def main() -> None:
    here = stack()
    kept = pd.read_csv(FILE) if FILE.exists() else pd.DataFrame(columns=["stack"])
    others = kept[kept["stack"] != here].to_dict("records")
    publish("stacks", [*others, *measure()], digits=12)
    publish("stacks_compared", compared(pd.read_csv(FILE)))
