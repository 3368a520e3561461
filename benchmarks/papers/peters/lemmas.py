"""Do the lemmas and theorems of Peters (2021) hold in numbers? What each bounds, measured, beside its bound.

`peters_lemmas`: "measured" is what the item bounds, "bound" what it says; "holds" compares the two. Sensitivities are
sup over beta of w g_i / f, searched for every row from 40,000 directions and lengths, then by L-BFGS: lower bounds that
are near the supremum in these few columns. mu is `mu_complexity`, a lower bound of it: what holds with it holds. Data:
normal columns, N = 400, D = 4, half positive or 5%; Finney's 39 rows of vasoconstriction. On-line sums are row by row.
The reservoir of one place sees four rows of weights 1 to 4, 100,000 times.

`peters_epsilon`: largest abs(f of the coreset / f - 1) over 2,000 beta (the mode, posterior draws scaled by 1 to 100,
random directions of lengths 0.1 to 100), median of `seeds` leverage coresets of a made set of N rows; beside it the
epsilon of Theorem 5 with constant 1 (`leverage_size` solved for it), which says something only below 1/2, and the
relative error at the mode.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import ndtri

import bayescore as bc
from bayescore.coresets.leverage import leverage_scores, leverage_size, rates_of, score_total
from bayescore.coresets.separation import mu_complexity
from bayescore.datasets import probit
from bayescore.families.family import check_family
from bayescore.papers import online_scores_by_row
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import publish

PROBIT = check_family("probit")


def line(item: str, data: str, what: str, measured: float, bound: float, *, above: bool = False) -> dict[str, Any]:
    """Return a row; the bound is an upper one unless `above`."""
    holds = measured >= bound if above else measured <= bound
    return {"item": item, "data": data, "what": what, "measured": measured, "bound": bound, "holds": bool(holds)}


def weighted(X: np.ndarray, y: np.ndarray) -> WeightedData:
    return WeightedData(np.asarray(X, dtype=float), np.asarray(y, dtype=np.int8), np.ones(len(X)), np.arange(len(X)))


def problems() -> dict[str, WeightedData]:
    slopes = np.array([1.0, -0.5, 0.25])
    made = {}
    for name, share in (("half positive", 0.5), ("5% positive", 0.05)):
        intercept = ndtri(share) * math.sqrt(1.0 + slopes @ slopes)
        made[name] = weighted(*probit(400, [intercept, *slopes], random_state=4))
    if not SHARED.is_dir():
        print("not run: ../shared/data is absent (vaso_finney1947)")
        return made
    frame = pd.read_parquet(SHARED / "vaso_finney1947.parquet")
    y = np.where(frame.pop("y") == 1, 1, -1)
    logs = np.log(frame.to_numpy(dtype=float))
    return made | {"vasoconstriction": weighted(np.column_stack([np.ones(len(y)), logs]), y)}


def losses(Z: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Return g of each row at each column of beta, shape (n, m)."""
    return -PROBIT.log_p((Z @ beta).ravel(), 1).reshape(len(Z), -1)


def sensitivities(Z: np.ndarray, rng: np.random.Generator, directions: int) -> np.ndarray:
    """Return for each row the largest share of the loss that was found."""
    lengths = np.geomspace(0.05, 50.0, 20)
    best, start = np.zeros(len(Z)), np.zeros((len(Z), Z.shape[1]))
    for length in lengths:
        beta = rng.standard_normal((Z.shape[1], directions))
        beta *= length / np.linalg.norm(beta, axis=0)
        share = losses(Z, beta)
        share /= share.sum(axis=0)
        top = share.argmax(axis=1)
        found = share[np.arange(len(Z)), top]
        better = found > best
        best[better], start[better] = found[better], beta[:, top[better]].T

    for i, row in enumerate(Z):

        def negative(beta: np.ndarray, row: np.ndarray = row) -> tuple[float, np.ndarray]:
            eta = Z @ beta
            loss, own = float(-PROBIT.log_p(eta, 1).sum()), float(-PROBIT.log_p(row[None] @ beta, 1)[0])
            if own < 1e-300:  # a step too far
                return 1e3, np.zeros(len(beta))
            gradient = -(PROBIT.score(eta, 1) @ Z)
            own_gradient = -PROBIT.score(row[None] @ beta, 1)[0] * row
            return math.log(loss) - math.log(own), gradient / loss - own_gradient / own

        climbed = minimize(negative, start[i], jac=True, method="L-BFGS-B")
        best[i] = max(best[i], math.exp(-climbed.fun))
    return best


def bounds(directions: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(0)
    for name, data in problems().items():
        n, D = data.X.shape
        mu = mu_complexity(data, random_state=0, progressbar=False).lower_bound
        a = leverage_scores(data.X) + 1.0 / n
        found = sensitivities(data.Z, rng, directions)
        constant = 80.0 + 16.0 * mu
        most = float((found / a).max())
        yield line("Lemma 6", name, "largest sensitivity / (leverage + 1/N), against 80 + 16 mu", most, constant)
        yield line("Lemma 6", name, "total sensitivity, against (80 + 16 mu)(D + 1)", found.sum(), constant * (D + 1))
        yield line("Lemma 6", name, "(80 + 16 mu)(D + 1), against 192 mu D", constant * (D + 1), 192.0 * mu * D)
        rates = rates_of(leverage_scores(data.X), data.weights, float(n))
        rounded = score_total(int(rates.sum()))
        yield line("Algorithm 2", name, "sum of rounded scores / sum of scores", rounded / a.sum(), 2.0)
        kinds = len(np.unique(rates))
        yield line("Algorithm 2", name, "distinct weights, against log2(384 mu n)", kinds, math.log2(384.0 * mu * n))


def tables(directions: int, draws: int) -> Iterator[dict[str, Any]]:
    low, high = np.linspace(0.0, 50.0, 500_001), np.linspace(2.0, 50.0, 480_001)
    least, most = (-PROBIT.log_p(-low, 1) - low**2 / 2).min(), (-PROBIT.log_p(-high, 1) / high**2).max()
    yield line("Lemma 2", "x from 0 to 50", "least g(x) - x^2/2", least, 0.0, above=True)
    yield line("Lemma 3", "x from 2 to 50", "largest g(x) / x^2", most, 1.0)
    yield from bounds(directions)
    rng = np.random.default_rng(0)
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    uniform = rng.random((draws, 4))
    chance = weights / weights.cumsum()
    for rule, taken in (("as printed, q >= s/S", uniform >= chance), ("Chao's, q <= s/S", uniform <= chance)):
        taken[:, 0] = True
        last = 3 - taken[:, ::-1].argmax(axis=1)
        shares = np.bincount(last, minlength=4) / draws
        z = np.abs(shares - weights / 10.0) / np.sqrt(weights / 10.0 * (1.0 - weights / 10.0) / draws)
        yield line("Section 4.1.1", rule, "inclusion of four rows: largest error in standard errors", z.max(), 4.0)
    yield from online_sums()


def online_sums() -> Iterator[dict[str, Any]]:
    """Yield the sums of on-line scores beside the printed bound and the one of `leverage_size`."""
    cases = {name: data.X for name, data in problems().items()}
    for n in (12, 24, 36):  # all about as long, each new in its own scale
        cases[f"(1, e), (1, 2e), (1, 4e), ...: {n} rows"] = np.column_stack([np.ones(n), 1e-12 * 2.0 ** np.arange(n)])
    for name, X in cases.items():
        scores, D, norm = online_scores_by_row(X), X.shape[1], float(np.linalg.norm(X, 2))
        printed = D + D * math.log(norm / np.linalg.norm(X, axis=1).min())
        outside, span = [], np.empty((0, D))
        for row in X:  # distances of rows from the span of the rows before
            rest = row - span.T @ (span @ row)
            rest -= span.T @ (span @ rest)
            if (distance := float(np.linalg.norm(rest))) > 1e-12 * np.linalg.norm(row):
                outside.append(distance)
                span = np.vstack([span, rest / distance])
        ours = D + 2.0 * D * math.log(norm / min(outside))
        yield line("Lemma 9", name, "sum of on-line scores, as printed, constant 1", scores.sum(), printed)
        yield line("Lemma 9", name, "sum of on-line scores, by distances from the span", scores.sum(), ours)


@command(
    "peters_lemmas",
    asks="Do the lemmas and theorems of Peters (2021) hold in numbers? What each bounds, measured, beside its bound.",
    evidence=True,
)
def main(*, quick: bool = False) -> None:
    publish("peters_lemmas", list(tables(200 if quick else 2_000, 100_000)))


@command(
    "peters_epsilon",
    asks="How large is the error of leverage coresets, beside the epsilon of Theorem 5 of Peters (2021)?",
    evidence=True,
)
def epsilon(*, quick: bool = False) -> None:
    n, seeds, sizes = (5_000, 3, (250, 1_000)) if quick else (100_000, 11, (250, 1_000, 4_000, 16_000, 64_000))
    X, y = probit(n, [-0.5, 1.0, -0.5, 0.5, 0.25], random_state=0)
    data, rng = weighted(X, y), np.random.default_rng(1)
    D, mu = X.shape[1], mu_complexity(data, random_state=0, progressbar=False).lower_bound
    mode = bc.find_map(data, "probit", bc.priors.Normal(0, 4))
    noise = rng.multivariate_normal(np.zeros(D), mode.covariance, 1_000) * np.geomspace(1.0, 100.0, 1_000)[:, None]
    around = rng.standard_normal((999, D))
    around *= (np.geomspace(0.1, 100.0, 999) / np.linalg.norm(around, axis=1))[:, None]
    betas = np.vstack([mode.beta, mode.beta + noise, around]).T
    whole = sum(losses(part, betas).sum(axis=0) for part in np.array_split(data.Z, 50))
    rows = []
    for size in sizes:
        worst, own, sums = [], [], []
        for seed in range(seeds):
            options = {"family": "probit", "random_state": seed, "progressbar": False}
            core = bc.build_coreset(data, method="leverage", size=size, **options)
            cuts = zip(np.array_split(core.Z, 20), np.array_split(core.weights, 20), strict=True)
            part = sum(w @ losses(Z, betas) for Z, w in cuts)
            error = np.abs(part / whole - 1.0)
            worst.append(error.max())
            own.append(error[0])
            sums.append(core.params["score_total"])
        at_a_hundredth = leverage_size(D, 0.01, 0.05, mu, float(n), total=sums[0])
        rows.append(
            {
                "N": n,
                "D": D,
                "mu": mu,
                "draws": size,
                "seeds": seeds,
                "epsilon measured, median": np.median(worst),
                "worst": np.max(worst),
                "at the mode": np.median(own),
                "epsilon by Theorem 5, constant 1": 0.01 * math.sqrt(at_a_hundredth / size),
            }
        )
    publish("peters_epsilon", rows)
