"""For what share of the rows is the sketched leverage score within a factor 2 of the exact one? 21 seeds."""

import numpy as np

from bayescore.coresets.leverage import leverage_scores
from benchmarks.commands import command
from benchmarks.papers.peters.loss import COVTYPE, KDD, full
from benchmarks.problems import readable
from benchmarks.tables import publish

SEEDS = 21


@command("leverage_sketch", evidence=True)
def sketch() -> None:
    rows = []
    for name in readable((COVTYPE, KDD)):
        X = full(name).X
        exact = leverage_scores(X)
        for project in (False, True):
            ratios = [
                leverage_scores(X, None, "sketch", project=project, random_state=seed) / exact for seed in range(SEEDS)
            ]
            shares = [float(((ratio >= 0.5) & (ratio <= 2.0)).mean()) for ratio in ratios]
            rows.append(
                {
                    "data": name,
                    "D": X.shape[1],
                    "projected": project,
                    "share within 2, median": float(np.median(shares)),
                    "share within 2, worst": min(shares),
                    "smallest ratio": float(min(ratio.min() for ratio in ratios)),
                    "largest ratio": float(max(ratio.max() for ratio in ratios)),
                }
            )
    publish("leverage_sketch", rows)
