"""Simulation-based calibration of the whole way: simulate, build a multilevel coreset, sample it.

Coefficients, sd of the effects and data are drawn from the prior (three columns, 80 groups of 2 to 16 rows), and the
rank of the truth among 99 draws of the coreset's posterior is uniform if all is right: `p_value` is that of a
chi-square test of ten bins (Talts et al. 2018), for 200 data sets. `control` is that of coresets whose sums are taken
at the joint mode of coefficients and effects, without averages over these; it must be small for some quantity. Such
sums pull slopes towards zero, of either sign: their length sees it (a test quantity as in Modrák et al. 2023).
"""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import special, stats

import bayescore as bc
from bayescore.coresets.pseudo_rows import pseudo_rows
from bayescore.coresets.within_groups import directions_of
from bayescore.data.opened import Opened
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.group_priors import HalfNormal
from bayescore.models.group_terms import INFORMATION, SLOPE, THIRD
from bayescore.models.likelihoods import check_likelihood
from bayescore.models.marginal import Nodes, at_point, look_at_rows
from bayescore.models.priors import Normal
from bayescore.types import NO_ROW, WeightedData, stack
from benchmarks.sbc.ranks import rank
from benchmarks.tables import publish

GROUPS, DRAWS, BINS = 80, 99, 10
PRIORS = (Normal(0.0, 1.0), HalfNormal(1.0))
QUANTITIES = ("intercept", "x1", "x2", "sigma", "u of the first group", "length of the slopes")


def at_joint_mode(rows: bc.Coreset, sigma: float) -> bc.Coreset:
    """Return the coreset of full data whose sums are taken at the joint mode of coefficients and effects."""
    link, n_groups = check_likelihood(rows.likelihood), len(rows.groups[0])
    look, beta, b, still = look_at_rows(rows, link, n_groups), np.zeros(rows.n_features), *np.zeros((2, n_groups + 1))
    for _ in range(15):
        point = at_point(look, beta, float(np.log(sigma)), Nodes.normal(b, still), PRIORS)
        H, sums, found = point.terms.precision[:-1, :-1], point.sums, point.effects
        step = np.linalg.solve(H, point.terms.gradient[:-1])
        follows = (found.variance * sums.own[:, INFORMATION]) * (sums.middle @ step)
        beta, b = beta + step, np.append((found.mean - follows)[:-1], 0.0)
    point = at_point(look, beta, float(np.log(sigma)), Nodes.normal(b, still), PRIORS)
    nothing, one = np.zeros((n_groups, 1)), np.ones((n_groups, 1))
    pseudo = pseudo_rows(point.sums.own[:-1, [SLOPE, INFORMATION, THIRD]], nothing, one, link)
    merged = np.append(np.isfinite(pseudo.eta), True)
    X, codes = point.sums.middle[:-1], np.arange(n_groups)[:, None]
    offset, index = pseudo.eta - X @ beta - b[:-1], np.full(n_groups, NO_ROW)
    signs = np.ones((2, n_groups), dtype=np.int8) * np.array([[1], [-1]], dtype=np.int8)
    own = [
        WeightedData(X, y, w, index, offset=offset, group=codes).take(merged[:-1] & (w > 0.0))
        for y, w in zip(signs, (pseudo.successes, pseudo.failures), strict=True)
    ]
    factor = factor_of_inverse(H)
    within = directions_of(Opened(rows.as_source()), point, link, merged.astype(float), factor)
    kept = rows.take(~merged[rows.group[:, 0]])
    plain = WeightedData(kept.X, kept.y, kept.weights, kept.index, offset=np.zeros(len(kept)), group=kept.group)
    made = stack([*own, plain, within.rows(beta, within.score, link)])
    return replace(
        rows, X=made.X, y=made.y, weights=made.weights, index=made.index, offset=made.offset, group=made.group
    )


def ranks(link: str, seed: int, *, control: bool) -> np.ndarray:
    """Return the rank of the truth of each quantity among draws, for one data set."""
    rng = np.random.default_rng([seed, len(link)])
    beta, sigma, u = rng.normal(size=3), abs(rng.normal()), rng.normal(size=GROUPS)
    group = np.repeat(np.arange(GROUPS), rng.integers(2, 17, GROUPS))
    X = rng.normal(size=(len(group), 2))
    eta = beta[0] + X @ beta[1:] + sigma * u[group]
    frame = pd.DataFrame(X, columns=["x1", "x2"]).assign(g=group)
    frame["y"] = np.where(rng.random(len(group)) < check_likelihood(link).probability(eta), 1, -1)
    told = {"label": "y", "groups": "g", "intercept": True, "likelihood": link, "progressbar": False}
    options = {"prior": PRIORS[0], "group_prior": PRIORS[1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = bc.build_coreset(frame, method="multilevel", random_state=0, **told, **options)
        if control:
            core = at_joint_mode(bc.full_data(frame, **told), core.params["group_sd"])
        kept = {"draws": 4 * (DRAWS + 1), "tune": 400, "chains": 1, "random_seed": seed, "progressbar": False}
        posterior = bc.sample(core, **options, **kept).posterior
    draws = [
        *np.moveaxis(posterior["beta"].values[0], 1, 0),
        posterior["sigma_g"].values[0],
        posterior["u_g"].values[0, :, 0],
    ]
    draws.append(np.hypot(draws[1], draws[2]))
    truth = [*beta, sigma, sigma * u[0], np.hypot(beta[1], beta[2])]
    return rank(np.column_stack(draws)[4::4][:DRAWS], np.array(truth))


def p_values(found: np.ndarray) -> np.ndarray:
    """Return the p-value of uniform ranks of each quantity; ranks of shape (trials, quantities)."""
    bins = (found * BINS) // (DRAWS + 1)
    expected = len(found) / BINS
    counts = np.stack([(bins == k).sum(axis=0) for k in range(BINS)])
    return special.chdtrc(BINS - 1, ((counts - expected) ** 2 / expected).sum(axis=0))


def main(trials: int = 200) -> None:
    """Test ranks of both links, and of the control."""
    rows = []
    for link in ("logistic", "probit"):
        own, control = (
            p_values(np.array([ranks(link, seed, control=wrong) for seed in range(trials)])) for wrong in (False, True)
        )
        rows += [
            {"link": link, "quantity": name, "trials": trials, "p_value": own[i], "control": control[i]}
            for i, name in enumerate(QUANTITIES)
        ]
    least = min(row["p_value"] for row in rows)
    print(
        f"smallest of {len(rows)} p-values {least:.3g}, by chance below {stats.beta(1, len(rows)).ppf(0.01):.2g} in 1%"
    )
    publish("multilevel_sbc", rows)
