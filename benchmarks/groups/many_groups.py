"""How do coreset, draws and certificate scale to very many groups? Time and memory of a million rows.

A million rows in memory, nine normal columns, `(1 | g)`; processor seconds
of the build, of 4 x 1000 draws and of the certificate, each number of groups in a process of its own, after a whole run
of the smallest and a small one that compile. "all groups" is the processor time of one gradient of all groups over that
of the sample of groups that the draws are of. "glmm" is the time of the Rust package's maximum likelihood of the same
rows, where it is installed, and "whole / glmm" that of build, draws and certificate over it. "peak MB" is the highest
memory of the process, rows included.

`slopes_of_many_groups` holds a fit of slopes against one of an intercept: a million rows, five columns, 20,000 groups,
from rows to certified draws, each in a process of its own that has fitted small rows; `times (1 | g)` is the ratio.
"""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import MANY_GROUPS, CollapsedTarget, SampledGroups, densities
from bayescore.priors.by_name import prior_of
from bayescore.priors.groups import DEFAULT_GROUP_PRIOR
from benchmarks.commands import command
from benchmarks.measure import alone, peak_mb, timed
from benchmarks.sources.parquet import columns
from benchmarks.tables import publish

P = 10
ROWS, SIZES = 1_000_000, (1000, 20_000, 100_000)


def table(n: int, n_groups: int) -> pd.DataFrame:
    """Return n rows: labels, nine normal columns and groups of unlike size."""
    rng = np.random.default_rng(0)
    share = rng.lognormal(0.0, 0.8, n_groups)
    group = rng.choice(n_groups, n, p=share / share.sum())
    X = rng.normal(size=(n, P - 1))
    eta = -2.0 + X @ np.linspace(-0.5, 0.5, P - 1) + rng.normal(size=n_groups)[group]
    frame = pd.DataFrame(X, columns=[f"x{d}" for d in range(1, P)])
    return frame.assign(g=group, y=rng.random(n) < special.expit(eta))


def built(frame: pd.DataFrame) -> bc.Coreset:
    """Return the coreset."""
    told = {"label": "y", "groups": "g", "intercept": True, "method": "multilevel", "progressbar": False}
    return bc.build_coreset(frame, random_state=0, **told)


def grouped(n_groups: int, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows of nine normal columns and a group."""
    whole = np.random.default_rng(1)
    share, u = whole.lognormal(0.0, 0.8, n_groups), whole.normal(size=n_groups)
    X = rng.standard_normal((n, P - 1), dtype=np.float32)
    g = rng.choice(n_groups, n, p=share / share.sum()).astype(np.int32)
    eta = -2.0 + X @ np.linspace(-0.5, 0.5, P - 1) + u[g]
    return {**columns(X), "g": g, "y": (rng.random(n) < special.expit(eta)).astype(np.int8)}


def gradients_apart(core: bc.Coreset, n_sampled: int) -> float:
    """Return the time of a gradient of all groups over that of a sample of them."""
    n_groups, priors = len(core.groups[0]), (prior_of(None, core.feature_names), DEFAULT_GROUP_PRIOR)
    target = CollapsedTarget.of(core, check_family("logistic"), priors, n_groups)
    theta, seconds = np.tile(target.point.theta, (20, 1)), []
    for size in (n_groups, n_sampled):
        data = SampledGroups.of(target, size).density
        densities(theta[:1], data)
        seconds.append(min(timed(partial(densities, theta, data)).cpu for _ in range(3)))
    return seconds[0] / seconds[1]


def by_groups(n_groups: int, n: int) -> dict[str, Any]:
    """Return the row of a number of groups."""
    frame = table(n, n_groups)
    # so many groups that a sample of them is drawn
    small = frame.iloc[:20_000].assign(g=np.arange(20_000) % MANY_GROUPS)
    warm = built(small)
    bc.certify(bc.sample(warm, random_seed=0, progressbar=False), warm, small, label="y", progressbar=False)
    core, _, build = timed(lambda: built(frame))
    idata, _, draws = timed(lambda: bc.sample(core, random_seed=1, progressbar=False))
    found, _, certificate = timed(lambda: bc.certify(idata, core, frame, label="y", progressbar=False))
    peak = peak_mb()
    attrs, mle = idata.posterior.attrs, np.nan
    n_sampled = attrs.get("sampled_groups", n_groups)
    try:
        import glmm

        formula = f"y ~ {' + '.join(frame.filter(like='x').columns)} + (1 | g)"
        mle = timed(lambda: glmm.fit(frame.assign(y=frame["y"].astype(float)), formula, family="binomial")).cpu
    except ImportError:
        pass
    return {
        "N": n,
        "G": n_groups,
        "coreset rows": len(core),
        "build CPU s": build,
        "draws CPU s": draws,
        "certificate CPU s": certificate,
        "draws / build": draws / build,
        "sampled groups": n_sampled,
        "error, nats": attrs.get("density_error", 0.0),
        "all groups": gradients_apart(core, n_sampled),
        "glmm CPU s": mle,
        "whole / glmm": (build + draws + certificate) / mle,
        "peak MB": peak,
        "verdict": str(found.level),
    }


@command("many_groups", evidence=True)
def many(rows: int = ROWS) -> None:
    """Publish a row for each number of groups."""
    alone(by_groups, SIZES[0], rows)  # compiles what so many rows need
    publish("many_groups", [alone(by_groups, size, rows) for size in SIZES])


TERMS = ("(1 | g)", "(1 + x | g)")


def by_terms(terms: str, n: int, n_groups: int) -> dict[str, Any]:
    """Return the row of a fit of terms."""
    rng = np.random.default_rng(1)
    g, X = rng.integers(0, n_groups, n), rng.normal(size=(n, 4))
    u = rng.multivariate_normal([0.0, 0.0], [[0.64, 0.1], [0.1, 0.16]], n_groups)
    eta = -1.0 + X @ [0.5, 0.3, -0.2, 0.1] + u[g, 0] + u[g, 1] * X[:, 0]
    frame = pd.DataFrame(X, columns=["x", "z1", "z2", "z3"]).assign(g=g, y=(rng.random(n) < special.expit(eta)))
    fitted = partial(bc.fit, f"y ~ x + z1 + z2 + z3 + {terms}", random_state=1, progressbar=False)
    fitted(frame[frame["g"] < 2600])  # compiles
    found, _, seconds = timed(lambda: fitted(frame))
    size = float(found.summary()["ess_bulk"].min())
    return {"terms": terms, "N": n, "G": n_groups, "CPU s": seconds, "ess": size, "verdict": str(found.level)}


@command("slopes_of_many_groups")
def slopes(rows: int = ROWS) -> None:
    """Publish a row for an intercept and for slopes."""
    found = [alone(by_terms, terms, rows, rows // 50) for terms in TERMS]
    publish("slopes_of_many_groups", [own | {"times (1 | g)": own["CPU s"] / found[0]["CPU s"]} for own in found])
