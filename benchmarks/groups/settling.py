"""In how many passes do builds with groups find where the posterior is? Effects of sd 0.02 to 3, labels and counts.

Four columns, one of them exponential, an intercept of `rate` and `(1 | g)`: groups of 8 to 4,000 rows, events from rare
to frequent. "passes" are those of the whole build: one checks the rows, three or four condense, the others seek the
centre. "effects' sd" is the one about which it condenses, which one group's worth of 0.5 holds off 0; "mode, sds" by
how many posterior sds the coefficients' mean is off at most, as it predicts. A build that finds no centre has none of
these. At commit 81bda820, which began at coefficients of 0 and took EM steps, 37 of the 40 kinds took 19.1 passes on
average, and the other three, counts with effects of sd 3, found no centre.
"""

import warnings
from itertools import product
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.families.family import check_family
from benchmarks.commands import command
from benchmarks.tables import publish

SDS = (0.02, 0.1, 0.3, 1.0, 3.0)
GROUPS = ((2000, 50, 0.0), (2000, 50, -3.5), (50, 4000, -3.5), (20_000, 8, -1.0))  # groups, rows a group, rate
FAMILIES = ("logistic", "poisson")
SLOPES = (0.5, -0.3, 0.2, 0.1)


def built(sd: float, n_groups: int, size: int, rate: float, family: str) -> dict[str, Any]:
    """Return what a build found."""
    rng = np.random.default_rng(1)
    n = n_groups * size
    X = rng.standard_normal((n, len(SLOPES)))
    X[:, 0] = rng.exponential(size=n)
    g = rng.integers(0, n_groups, n)
    eta = rate + X @ SLOPES + sd * rng.standard_normal(n_groups)[g]
    y = check_family(family).draw(eta, rng).astype(int)
    row = {"family": family, "groups": n_groups, "rows a group": size, "rate": rate, "sd": sd}
    how = {"family": family, "groups": g, "intercept": True, "random_state": 0, "progressbar": False}
    try:
        core = bc.build_coreset(X, y, method="multilevel", **how)
    except ArithmeticError:
        return row
    found = {"passes": core.params["passes"], "rows": len(core), "effects' sd": core.params["effect_sds"][0]}
    return row | found | {"mode, sds": core.params["mode_error"]}


@command("settling")
def main() -> None:
    """Publish a row for each kind."""
    warnings.simplefilter("ignore", UserWarning)
    rows = [built(sd, *groups, family) for family, sd, groups in product(FAMILIES, SDS, GROUPS)]
    publish("settling", rows, digits=4)
    print(f"passes on average: {np.mean([row['passes'] for row in rows if 'passes' in row]):.1f}")
