"""How far does the default prior move coefficients that the data tell, and is it proper where they tell none?

The sets of `fit_sets`, but those of several group terms, and made ones whose columns depend on each other. `moved` is
the largest distance of the modes of all rows under the prior and under one a thousand times as wide, in sds under that,
of the `identified` coefficients among `columns`: those whose sds under that are below 0.3 of the prior's. `moved_raw`
is the same of the prior that goes by the columns' sds alone, rstanarm's. `share` is the least sd of a column given the
others, over its sd. `widest` is the largest posterior sd over the prior's. `nats` is the pull that the first line of a
fit's print states. `seconds` is wall time of `fit`, and `adding_up` that of a pass that does nothing but add up the
columns' moments, which `fit` does in its first pass.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.data.dataset import ComomentsTotal, Dataset
from bayescore.data.design import one_intercept
from bayescore.limits import MAX_PRIOR_SHARE
from bayescore.models.laplace import NoModeError
from bayescore.priors.by_name import prior_from_dict
from bayescore.samplers.posterior import read_posterior
from benchmarks.accuracy.fit_sets import SETS, timed
from benchmarks.commands import command
from benchmarks.tables import known_rows, publish

WIDE = 1e3


def _made(n: int, eta: Callable[[pd.DataFrame], Any], noise: float = 1.0) -> pd.DataFrame:
    """Return rows of columns that depend on each other, with a label, a count and a number for each."""
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({"year": rng.integers(2000, 2025, n), "a": rng.normal(size=n), "age": rng.normal(45, 12, n)})
    rows["b"], rows["c"] = (rows["a"] + by * rng.normal(size=n) for by in (0.1, 0.01))
    rows["both"] = rows["a"] + rows["age"]
    rows["level"] = np.minimum(rng.geometric(0.15, n), 40).astype(str)
    rows["device"] = rng.choice(["phone", "tablet", "tv"], n)
    rows["rare"] = (np.arange(n) < 12).astype(float)
    own = np.asarray(eta(rows.assign(t=rows["year"] - 2012.0)), dtype=float)
    rows["y"] = own + noise * rng.logistic(size=n) > 0
    rows["k"], rows["z"] = rng.poisson(np.exp(np.clip(0.3 * own, -6.0, 3.0))), own + rng.normal(size=n)
    return rows


def _curved(rows: pd.DataFrame) -> Any:
    return 0.05 * rows["t"] - 0.01 * rows["t"] ** 2 + rows["a"]


def _plain(rows: pd.DataFrame) -> Any:
    return 0.8 * rows["a"] + 0.03 * (rows["age"] - 45) + 0.5 * (rows["device"] == "tv")


DESIGNS: dict[str, tuple[Callable[[], pd.DataFrame], str, dict[str, Any]]] = {
    "raw quadratic, 2,000": (lambda: _made(2_000, _curved), "y ~ year + I(year**2) + a", {}),
    "raw quadratic, 20,000": (lambda: _made(20_000, _curved), "y ~ year + I(year**2) + a", {}),
    "raw quadratic, 1e6": (lambda: _made(1_000_000, _curved), "y ~ year + I(year**2) + a", {}),
    "raw cubic": (lambda: _made(20_000, _curved), "y ~ year + I(year**2) + I(year**3)", {}),
    "raw quadratic, probit": (lambda: _made(20_000, _curved), "y ~ year + I(year**2)", {"family": "probit"}),
    "raw quadratic, poisson": (lambda: _made(20_000, _curved), "k ~ year + I(year**2)", {"family": "poisson"}),
    "raw quadratic, normal": (lambda: _made(20_000, _curved), "z ~ year + I(year**2)", {"family": "normal"}),
    "raw quadratic, (1 | level)": (lambda: _made(20_000, _curved), "y ~ year + I(year**2) + (1 | level)", {}),
    "no intercept": (lambda: _made(20_000, _curved), "y ~ 0 + year + I(year**2)", {}),
    "poly(year, 3)": (lambda: _made(20_000, _curved), "y ~ poly(year, 3)", {}),
    "correlation 0.995": (lambda: _made(20_000, _plain), "y ~ a + b", {}),
    "correlation 0.99995": (lambda: _made(20_000, _plain), "y ~ a + c", {}),
    "a combination of others": (lambda: _made(20_000, _plain), "y ~ a + age + both", {}),
    "interactions": (lambda: _made(20_000, _plain), "y ~ age * device * a", {}),
    "interactions of years": (lambda: _made(20_000, _curved), "y ~ year * (a + device)", {}),
    "one-hot, 40 levels": (lambda: _made(20_000, _plain), "y ~ level + a", {}),
    "one-hot, all levels": (lambda: _made(20_000, _plain), "y ~ 0 + level + a", {}),
    "spline": (lambda: _made(20_000, _plain), "y ~ bs(age, df=8) + a", {}),
    "separated, raw quadratic": (lambda: _made(2_000, _curved, 0.0), "y ~ year + I(year**2) + a", {}),
    "separated, correlation 0.995": (lambda: _made(2_000, _plain, 0.0), "y ~ a + b + age + device", {}),
    "a level without events": (
        lambda: _made(20_000, _plain).assign(y=lambda rows: rows["y"] & (rows["rare"] == 0.0)),
        "y ~ rare + a",
        {},
    ),
}
ALL_SETS = {**DESIGNS, **{name: own for name, own in SETS.items() if name not in ("crossed, 1,000 x 50", "slopes")}}


def moved(full: Any, prior: Any, raw: Any) -> dict[str, float]:
    """Return how far the prior, and the raw one, move the mode, of the coefficients that the data tell."""
    scale = prior.vector("sigma", D := full.n_features)
    wide = bc.find_map(full, prior=prior.replaced(sigma=WIDE * scale))
    told = wide.sd[:D] < MAX_PRIOR_SHARE * scale
    modes = [bc.find_map(full, prior=own) for own in (prior, raw)]
    gaps = [float((np.abs(own.beta - wide.beta)[:D] / wide.sd[:D])[told].max(initial=0.0)) for own in modes]
    widest = float((modes[0].sd[:D] / scale).max())
    return {"identified": int(told.sum()), "moved": gaps[0], "moved_raw": gaps[1], "widest": widest}


def one(name: str) -> dict[str, Any]:
    """Return the row of a set."""
    load, formula, options = ALL_SETS[name]
    rows = load()
    first = (rows.drop(columns="y"), rows["y"]) if formula is None else (formula, rows)
    fit, seconds = timed(lambda: bc.fit(*first, **options, random_state=0, progressbar=False))
    about = {"design": fit.coreset.design, "progressbar": False, **options, "family": fit.coreset.family}
    full = bc.all_rows(rows, **(about if formula else about | {"label": "y"}))
    begin = time.perf_counter()
    ComomentsTotal().of(Dataset(full.as_source()))
    row = {"data": name, "rows": len(rows), "columns": full.n_features, "level": fit.level}
    row |= {"share": min(full.design.given_others or (np.nan,)), "nats": 0.0 if fit._pull is None else fit._pull.nats}
    row |= {"seconds": seconds, "adding_up": time.perf_counter() - begin}
    prior = prior_from_dict(read_posterior(fit._drawn, "fit.drawn").story["prior"])
    share = np.ones(full.n_features)
    if full.design.given_others is not None:
        share[int(full.design.intercept) :] = full.design.given_others
    raw = prior.replaced(sigma=prior.vector("sigma", full.n_features) * share)
    found = dict.fromkeys(("identified", "moved", "moved_raw", "widest"), np.nan)
    if not full.groups or one_intercept(full.groups):
        try:
            found = moved(full, prior, raw)
        except (NoModeError, np.linalg.LinAlgError) as error:  # of combinations there is no wide one
            print(name, error)
    return row | found


@command("default_prior", sets=tuple(ALL_SETS))
def main(only: list[str] | None = None) -> None:
    """Write the table, again after each set; with `only` the other rows stay as they are."""
    warnings.filterwarnings("ignore")
    rows = {row["data"]: row for row in known_rows("default_prior")} if only else {}
    for name in only or ALL_SETS:
        rows[name] = one(name)
        publish("default_prior", [rows[name] for name in ALL_SETS if name in rows], digits=3)
