r"""How often is the word of an update false? Made updates, most of whose new rows have other slopes.

Update i follows from the seed [56, i]. Its family is logistic, probit, complementary log-log, Poisson or negative
binomial of size 2, in turn. Of 25 five have `(1 | g)` with 20 to 200 groups of sd 0.5. It has 3,000 to 60,000 earlier
rows and 1,000 to 30,000 new ones, log-uniform (a fifth of the upper ends with groups), three normal columns, and half
of the updates have a 0/1 column that is 1 in 1% to 10% of the rows. Earlier rows have 10 to 3,000 events, log-uniform,
and slopes of 0.2. New rows are of the same kind (a quarter of the updates), or their slopes differ: in a random
direction, by as much as moves the posterior of all rows by about 1 to 6 sds, log-uniform, each slope by 1.5 at most.
`moved` is by how many sds of the earlier rows' posterior the mean has moved.

The truth without groups is that of all rows by importance weights of a t of 6 degrees of freedom about their mode.
With groups, and where fewer than a quarter of the draws count, it is a `fit` of all rows under the same prior that can
be used. A word is *false* if it is "certified" or "corrected" and a mean is off by more than 0.25 sd. `worst` are the
largest errors of means, in sds, and of sds, relative, of updates that have one of these words.

``--trials 89`` are the updates.
"""

import itertools
import warnings
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.fitting.parts import parameters
from benchmarks.accuracy.importance import weighed_t
from benchmarks.certificates.certificate_rates import intercept
from benchmarks.commands import command
from benchmarks.tables import publish

UPDATES, OFF, SCALE, DRAWS = 89, 0.25, 2.5, 2000
FAMILIES = ("logistic", "probit", "cloglog", "poisson", "negative_binomial(2)")
MOVES = (0.0, 1.0, 2.0, 4.0, np.inf)  # bounds of the classes of `moved`


def rows_of(rng: np.random.Generator, n: int, share: float, n_groups: int) -> pd.DataFrame:
    """Return columns: three normal ones, a rare one, groups."""
    rows = pd.DataFrame(rng.normal(size=(n, 3)), columns=["x0", "x1", "x2"])
    if share > 0.0:
        rows["r"] = (rng.random(n) < share).astype(int)
    if n_groups:
        rows["g"] = rng.integers(0, n_groups, n)
    return rows


def truth(
    family: str, rows: pd.DataFrame, first: pd.DataFrame, names: list[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return means and sds of coefficients by all rows, under the default prior of the first ones; None if unsure."""
    m, s = first[names].mean().to_numpy(), first[names].std(ddof=0).to_numpy()
    X = np.column_stack([np.ones(len(rows)), (rows[names].to_numpy() - m) / s])
    y = rows["y"].to_numpy()
    full, prior = bc.all_rows(X, y, family=family, progressbar=False), bc.priors.Normal(0.0, SCALE)
    at = bc.find_map(full, prior=prior)
    beta, log_w = weighed_t(full, prior, at.beta, np.linalg.cholesky(1.3 * at.covariance), DRAWS, 6)
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    if 1.0 / (w**2).sum() < DRAWS / 4:
        return None
    raw = np.column_stack([beta[:, 0] - (beta[:, 1:] / s) @ m, beta[:, 1:] / s])
    mean = w @ raw
    return mean, np.sqrt(w @ (raw - mean) ** 2)


def truth_by_fit(
    formula: str, family: str, rows: pd.DataFrame, first: pd.DataFrame, names: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and sds of coefficients and the effects' sd, of a certified fit of all rows."""
    prior = {"Intercept": bc.priors.Normal(0.0, SCALE)}
    prior |= {name: bc.priors.Normal(0.0, SCALE / float(first[name].std(ddof=0))) for name in names}
    fit = bc.fit(formula, rows, family=family, prior=prior, random_state=3, progressbar=False)
    if fit.level == "not certified":
        raise RuntimeError(f"no truth: {fit.certificate.text}")
    found = fit.summary()
    return found["mean"].to_numpy(), found["sd"].to_numpy()


def update(i: int) -> dict[str, Any]:
    """Return what an update says, and how far it is off."""
    rng = np.random.default_rng([56, i])
    family, grouped = FAMILIES[i % len(FAMILIES)], (i // len(FAMILIES)) % 5 == 4
    most = 0.2 if grouped else 1.0
    n = [int(np.exp(rng.uniform(np.log(low), np.log(high * most)))) for low, high in ((3000, 60_000), (1000, 30_000))]
    events = float(np.exp(rng.uniform(np.log(10.0), np.log(min(3000.0, n[0] / 4)))))
    share = float(np.exp(rng.uniform(np.log(0.01), np.log(0.1)))) if rng.random() < 0.5 else 0.0
    n_groups = int(rng.integers(20, 200)) if grouped else 0
    sds = 0.0 if rng.random() < 0.25 else float(np.exp(rng.uniform(0.0, np.log(6.0))))
    effects = rng.normal(0.0, 0.5, max(n_groups, 1))
    first, later = (rows_of(rng, size, share, n_groups) for size in n)
    names = [name for name in first.columns if name != "g"]
    eta = 0.2 * first[names].to_numpy().sum(axis=1)
    eta += effects[first["g"]] if grouped else 0.0
    own = check_family(family)
    a = intercept(eta, events / n[0], own)
    first["y"] = own.draw(a + eta, rng)
    formula = f"y ~ {' + '.join(names)}{' + (1 | g)' * grouped}"
    if own.response == "labels" and first["y"].nunique() < 2:
        first.loc[0, "y"] = 1
    fit = bc.fit(formula, first, family=family, random_state=i, progressbar=False)
    before = fit.summary()
    direction = rng.normal(size=len(names))
    direction /= np.linalg.norm(direction)
    step = sds * (1.0 + n[0] / n[1]) * before["sd"].to_numpy()[1 : 1 + len(names)] * direction
    eta = later[names].to_numpy() @ (0.2 + np.clip(step, -1.5, 1.5)) + (effects[later["g"]] if grouped else 0.0)
    later["y"] = own.draw(a + eta, rng)
    more = fit.update(later, progressbar=False)
    every = pd.concat([first, later], ignore_index=True)
    weighed = None if grouped else truth(family, every, first, names)
    mean, sd = weighed or truth_by_fit(formula, family, every, first, names)
    found, at = more.summary(), before.iloc[: len(names) + 1]
    draws = fit._posterior()
    scaled = parameters(draws)[1].reshape(-1, len(before))[:, : len(at)]
    move = mean[: len(at)] - at["mean"].to_numpy()
    return {
        "family": family,
        "groups": n_groups,
        "sds": sds,
        "moved": float(np.sqrt(move @ np.linalg.solve(np.cov(scaled.T), move))),
        "level": more.level,
        "mean": float(np.abs((found["mean"].to_numpy() - mean) / sd).max()),
        "sd": float(np.abs(found["sd"].to_numpy() / sd - 1.0).max()),
    }


def counted(by: str, value: str, frame: pd.DataFrame) -> dict[str, Any]:
    """Return the line of some updates."""
    trusted = frame[frame["level"] != "not certified"]
    return {
        "by": by,
        "value": value,
        "updates": len(frame),
        "certified": int((frame["level"] == "certified").sum()),
        "corrected": int((frame["level"] == "corrected").sum()),
        "not certified": len(frame) - len(trusted),
        "false": int((trusted["mean"] > OFF).sum()),
        "worst": float(trusted["mean"].max()) if len(trusted) else np.nan,
        "worst_sd": float(trusted["sd"].max()) if len(trusted) else np.nan,
    }


@command("update_rates", evidence=True)
def main(trials: int = UPDATES) -> None:
    """Write the tables; one update after another."""
    found = []
    for i in range(trials):
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            found.append(update(i))
        print({key: round(own, 3) if isinstance(own, float) else own for key, own in found[-1].items()}, flush=True)
    report(pd.DataFrame(found))


def report(frame: pd.DataFrame) -> None:
    """Write the tables of some updates."""
    rows = [counted("all", "", frame)]
    drawn = [("no drift", frame["sds"] == 0.0), ("drift", frame["sds"] > 0.0)]
    rows += [counted("new rows", value, frame[which]) for value, which in drawn]
    for low, high in itertools.pairwise(MOVES):
        which = (frame["moved"] >= low) & (frame["moved"] < high)
        rows.append(counted("moved", f"{low:g} to {high:g} sds", frame[which]))
    kinds = frame["family"].where(frame["groups"] == 0, "(1 | g)")
    rows += [counted("model", str(value), part) for value, part in frame.groupby(kinds)]
    publish("update_rates", rows, 3)
