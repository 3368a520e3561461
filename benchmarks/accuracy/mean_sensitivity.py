"""How does the mean sensitivity bound grow with N, R and k on Binary10 (Huggins et al. 2016, Figure 1b)?

The paper's k is 6 and its R is 3. Expected: flat in N, exponential in R, robust in k.
"""

import bayescore as bc
from bayescore.datasets import binary10
from benchmarks.commands import command
from benchmarks.tables import publish

BASE = {"N": 100_000, "R": 3.0, "k": 6}


@command("mean_sensitivity")
def main() -> None:
    X, y = binary10(1_000_000, random_state=0)
    cases = [{**BASE, "N": n} for n in (1_000, 10_000, 100_000, 1_000_000)]
    cases += [{**BASE, "R": r} for r in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)]
    cases += [{**BASE, "k": k} for k in (1, 2, 4, 6, 8, 12, 16)]
    rows = []
    for case in cases:
        found = []
        for seed in range(5):
            core = bc.build_coreset(
                X[: case["N"]],
                y[: case["N"]],
                method="sensitivity",
                size=100,
                radius=case["R"],
                clusters=case["k"],
                random_state=seed,
                progressbar=False,
            )
            found.append(core.params["mean_sensitivity"])
        rows.append({**case, "mean_sensitivity": sum(found) / 5, "lowest": min(found), "highest": max(found)})
    publish("mean_sensitivity", rows)
