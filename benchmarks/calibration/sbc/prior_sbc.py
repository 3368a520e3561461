"""Is build, sample and correct calibrated over what the prior gives?

Coefficients are drawn from the prior, N(0, 1) or Student-t with 3 degrees of freedom, then 2,000 rows (intercept, a
normal, a skewed (lognormal) and a 0/1 column that is 1 in a tenth of the rows) and their labels; a calibrated coreset
of 40 rows is built and sampled, the draws are certified and corrected, and the truth's rank among 99 of them is uniform
if all is right. Data sets of fewer than 20 rows of a class are drawn anew: a condition on data, under which ranks stay
uniform. Figures are exact p-values of uniform ranks (`sbc/ranks`): for these draws; for draws of half of the rows,
corrected and as sampled, which tell what a correction does; and for the negative control, draws of uniform coresets of
40 rows.

Quantities: coefficients b0 to b3, a product of two, and two that depend on the data (Modrák et al. 2023: others cannot
tell a posterior from one that saw only part of the data), the log-likelihood of all rows and of those labelled 1. Where
a certificate refuses ("not certified"), the draws as sampled stand for corrected ones.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.families.family import check_family
from benchmarks.calibration.sbc.ranks import p_values
from benchmarks.calibration.sbc.way import DRAWS, KINDS, Replication, names, replicate
from benchmarks.commands import command
from benchmarks.tables import publish

N, D, SIZE, FEWEST = 2000, 4, 40, 20
PLACES = DRAWS + 1
PRIORS = {"N(0, 1)": bc.priors.Normal(0.0, 1.0), "Student-t(3)": bc.priors.StudentT(3.0, 0.0, 1.0)}


@dataclass(frozen=True, eq=False)
class Panel:
    """The replications of one setting, and what it is called: column of the table -> value."""

    about: dict[str, str]
    found: list[Replication]

    def ranks(self, kind: str) -> np.ndarray:
        """Return the ranks, shape (replications, Q)."""
        return np.array([each.ranks[KINDS.index(kind)] for each in self.found])


def row_of(panel: Panel, sizes: dict[str, int]) -> list[dict]:
    """Return a row for each kind of draws: p-values of coefficients (the smallest) and of the other quantities."""
    rows = []
    for number, kind in enumerate(KINDS):
        p = p_values(panel.ranks(kind), PLACES)
        labels = names(len(p) - 3)
        own = {
            "replications": len(panel.found),
            "not certified": sum(each.refused[number] for each in panel.found),
            "smallest ESS": round(min(each.ess[number] for each in panel.found)),
        }
        p_of = {"coefficients, smallest of p": p[:-3].min(), **dict(zip(labels[-3:], p[-3:], strict=True))}
        rows.append({**panel.about, **sizes, "draws": kind, **own, **p_of})
    return rows


def simulate(family: str, prior: Any, rng: np.random.Generator) -> tuple[np.ndarray, bc.Coreset]:
    """Return coefficients, shape (D,), and rows drawn from the joint distribution of both."""
    while True:
        beta = rng.normal(size=D) if isinstance(prior, bc.priors.Normal) else rng.standard_t(prior.nu, size=D)
        X = np.column_stack(
            [np.ones(N), rng.normal(size=N), rng.lognormal(0.0, 0.7, N) - 1.3, rng.random(N) < 0.1]
        ).astype(float)
        y = rng.random(N) < check_family(family).mean(X @ beta)
        if FEWEST <= y.sum() <= N - FEWEST:
            return beta, bc.all_rows(X, np.where(y, 1, -1), family=family, progressbar=False)


def replications(family: str, prior: str, trials: int) -> list[Replication]:
    """Return replications of the whole way, each of its own seed."""
    found = []
    for seed in range(trials):
        truth, rows = simulate(family, PRIORS[prior], np.random.default_rng([seed, len(family), len(prior)]))
        found.append(replicate(rows, truth, PRIORS[prior], SIZE, seed))
    return found


@command("prior_sbc", evidence=True)
def main(trials: int = 500, *, quick: bool = False) -> None:
    """Rank truths for both links and both priors."""
    panels = []
    for family in ("logistic", "probit"):
        for prior in PRIORS:
            panels.append(
                Panel({"family": family, "prior": prior}, replications(family, prior, 30 if quick else trials))
            )
    publish("prior_sbc", [row for panel in panels for row in row_of(panel, {"N": N, "D": D, "M": SIZE})])
