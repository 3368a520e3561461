"""Is build, sample and correct calibrated for data like these real ones?

Coefficients theta' are draws of the posterior of a real data set (`reference_posteriors`, on all rows), labels y' of a
second copy of its rows are drawn given theta'; then theta' is a draw of the posterior of the observed and the new rows
together, and its rank among 99 draws of that posterior is uniform if all is right (Säilynoja, Schmitt, Bürkner and
Vehtari 2025, Posterior SBC: simulation-based calibration checking conditional on data). Calibrated coresets of 20 rows
a column, built, sampled, certified and corrected; figures and negative control as in `sbc/prior_sbc`; prior N(0, 4).
"""

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.families.family import check_family
from benchmarks.accuracy.reference_posteriors.data import DATA, SETTINGS
from benchmarks.accuracy.reference_posteriors.make import LINKS, PRIOR, reference
from benchmarks.calibration.sbc.picture import Panel, draw, row_of
from benchmarks.calibration.sbc.way import Replication, replicate
from benchmarks.commands import command
from benchmarks.tables import publish, publish_picture

SETS = ("chemreact", "wells")
ROWS = 20  # a column


def replications(name: str, family: str, trials: int) -> list[Replication]:
    """Return replications of the whole way on a data set and its replicate."""
    X, y, _ = DATA[name].table()
    rows, flat = bc.all_rows(X, y, family=family, **SETTINGS).X, reference(name, family).posterior["beta"].values
    flat = flat.reshape(-1, flat.shape[-1])
    found = []
    for seed in range(trials):
        truth = flat[seed * (len(flat) // trials)]
        chance = check_family(family).mean(rows @ truth)
        new = np.where(np.random.default_rng([LINKS.index(family), seed, len(X)]).random(len(X)) < chance, 1, -1)
        twice = pd.concat([X, X], ignore_index=True)  # of the same means and sds: coefficients mean the same
        both = bc.all_rows(twice, np.append(y, new), family=family, **SETTINGS)
        found.append(replicate(both, truth, PRIOR, ROWS * len(truth), 2 * seed + LINKS.index(family)))
    return found


@command("posterior_sbc", evidence=True)
def main(trials: int = 60, *, quick: bool = False) -> None:
    """Rank draws of posteriors of real data for both links."""
    panels, rows = [], []
    for name in SETS[1:] if quick else SETS:
        if not DATA[name].path.is_file():
            print(f"not run: {name}, {DATA[name].path} is absent")
            continue
        for family in LINKS:
            panel = Panel({"data": name, "family": family}, replications(name, family, 10 if quick else trials))
            n_features = panel.found[0].ranks.shape[1] - 3
            sizes = {"N": 2 * len(DATA[name].table()[1]), "D": n_features, "M": ROWS * n_features}
            panels.append(panel)
            rows += row_of(panel, sizes)
    if panels:
        publish("posterior_sbc", rows)
        publish_picture("posterior_sbc", draw(panels))
