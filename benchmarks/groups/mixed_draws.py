"""Do more draws of mixed models say more? ESS of `fit` with 4 chains of 1,000, 4,000 and 16,000 draws.

Six published sets with standardised columns (`mixed_sets.STANDARDISED`). ESS is the smallest, bulk, of coefficients,
sds and correlations, `tail ESS` the smallest of tails. `ESS / 1,000` is the bulk one beside that of 4 x 1,000: 4 and 16
where nothing is lost. Processor seconds are those of `fit` with kernels compiled before.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.commands import command
from benchmarks.groups.mixed_models import fitted
from benchmarks.groups.mixed_sets import STANDARD_FOLDER, STANDARDISED
from benchmarks.tables import known_rows, publish

DRAWS = (1000, 4000, 16_000)
SHOWN = ("level", "sampler", "ESS", "tail ESS", "CPU s")


@command("mixed_draws", sets=[mixed_set.name for mixed_set in STANDARDISED])
def main(only: Sequence[str] = ()) -> None:
    """Fit each set with each number of draws, and keep the rows of other sets."""
    if not STANDARD_FOLDER.is_dir():
        print(f"not run, as {STANDARD_FOLDER} is absent")
        return
    for mixed_set in STANDARDISED:
        if only and mixed_set.name not in only:
            continue
        frame = mixed_set.read(Path())
        fitted(mixed_set, frame)  # compiles
        rows = [row for row in known_rows("mixed_draws") if row["set"] != mixed_set.name]
        least = 0.0
        for draws in DRAWS:
            took = fitted(mixed_set, frame, draws)[1]
            least = least or took["ESS"]
            row = {"set": mixed_set.name, "rows": len(frame), "draws of a chain": draws, "kept": took["draws"]}
            rows.append(row | {name: took[name] for name in SHOWN} | {"ESS / 1,000": took["ESS"] / least})
        publish("mixed_draws", rows, digits=3)
