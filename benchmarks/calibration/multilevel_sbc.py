"""Is the whole way calibrated with groups? Simulate from the prior, build a multilevel coreset, sample it.

Coefficients, sd of the effects and data are drawn from the prior (three columns, 80 groups of 2 to 16 rows), and the
rank of the truth among 99 draws of the coreset's posterior is uniform if all is right: `p_value` is that of a
chi-square test of ten bins (Talts et al. 2018), for 200 data sets. `control` is that of coresets whose sums are taken
at the joint mode of coefficients and effects, without averages over these; it must be small for some quantity. Such
sums pull slopes towards zero, of either sign: their length sees it (a test quantity as in Modrák et al. 2023).
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy import stats

import bayescore as bc
from bayescore.coresets import cell_centre, cell_rows, cells
from bayescore.coresets import multilevel as condense
from bayescore.coresets.cell_centre import Integrated, Points
from bayescore.families.family import check_family
from bayescore.priors import Normal
from bayescore.priors.groups import HalfNormal
from benchmarks.calibration.sbc.ranks import binned_p_values, rank
from benchmarks.commands import command
from benchmarks.tables import publish

GROUPS, DRAWS = 80, 99
PRIORS = (Normal(0.0, 1.0), HalfNormal(1.0))
QUANTITIES = ("intercept", "x1", "x2", "sigma", "u of the first group", "length of the slopes")


def _nothing(points: Points, parts: Any) -> Integrated:
    """Return zeros: what rows say of beta stays as averaged over the normal density."""
    list(parts)  # the pass
    p = len(points.at.beta)
    return Integrated(np.zeros(p), np.zeros((p, p)))


@contextmanager
def without_averages() -> Iterator[None]:
    """Let coresets be condensed at the joint mode of coefficients and effects, without averages over these."""
    with ExitStack() as stack:
        for target, name, value in (
            (cells, "_variances_of_beta", lambda gap, *_: np.zeros(len(gap))),
            (cells, "_add_variances", lambda *_: None),
            (cell_centre, "_MAX_TURNS", 1),
            (cell_centre, "_by_quadrature", lambda found: (found.sums, found.points.at)),
            (cell_rows, "_ROUNDS", 1),
            (condense, "SHAPE", np.inf),
            (condense, "TOGETHER", np.inf),
        ):
            stack.enter_context(patch.object(target, name, value))
        stack.enter_context(patch.object(Points, "_integrated", _nothing))
        yield


def ranks(family: str, seed: int, *, control: bool) -> np.ndarray:
    """Return the rank of the truth of each quantity among draws, for one data set."""
    rng = np.random.default_rng([seed, len(family)])
    beta, sigma, u = rng.normal(size=3), abs(rng.normal()), rng.normal(size=GROUPS)
    group = np.repeat(np.arange(GROUPS), rng.integers(2, 17, GROUPS))
    X = rng.normal(size=(len(group), 2))
    eta = beta[0] + X @ beta[1:] + sigma * u[group]
    frame = pd.DataFrame(X, columns=["x1", "x2"]).assign(g=group)
    frame["y"] = np.where(rng.random(len(group)) < check_family(family).mean(eta), 1, -1)
    told = {"label": "y", "groups": "g", "intercept": True, "family": family, "progressbar": False}
    with warnings.catch_warnings(), without_averages() if control else nullcontext():
        warnings.simplefilter("ignore")
        core = bc.build_coreset(frame, method="multilevel", random_state=0, prior=PRIORS[0], **told)
        kept = {"draws": 4 * (DRAWS + 1), "tune": 400, "chains": 1, "random_seed": seed, "progressbar": False}
        posterior = bc.sample(core, prior=PRIORS[0], group_prior=PRIORS[1], **kept).posterior
    draws = [
        *np.moveaxis(posterior["beta"].values[0], 1, 0),
        posterior["sigma_g"].values[0],
        posterior["u_g"].values[0, :, 0],
    ]
    draws.append(np.hypot(draws[1], draws[2]))
    truth = [*beta, sigma, sigma * u[0], np.hypot(beta[1], beta[2])]
    return rank(np.column_stack(draws)[4::4][:DRAWS], np.array(truth))


def p_value_rows(
    about: dict[str, Any], quantities: Sequence[str], trials: int, own: np.ndarray, control: np.ndarray
) -> list[dict[str, Any]]:
    """Return a row for each quantity."""
    return [
        {**about, "quantity": name, "trials": trials, "p_value": own[i], "control": control[i]}
        for i, name in enumerate(quantities)
    ]


def publish_p_values(name: str, rows: list[dict[str, Any]]) -> None:
    """Print the smallest p-value beside what chance gives, and write the table."""
    least = min(row["p_value"] for row in rows)
    print(
        f"smallest of {len(rows)} p-values {least:.3g}, by chance below {stats.beta(1, len(rows)).ppf(0.01):.2g} in 1%"
    )
    publish(name, rows)


@command("multilevel_sbc")
def main(trials: int = 200) -> None:
    """Test ranks of both links, and of the control."""
    rows = []
    for family in ("logistic", "probit"):
        own, control = (
            binned_p_values(np.array([ranks(family, seed, control=wrong) for seed in range(trials)]), DRAWS + 1)
            for wrong in (False, True)
        )
        rows += p_value_rows({"family": family}, QUANTITIES, trials, own, control)
    publish_p_values("multilevel_sbc", rows)
