"""What does the certificate refuse? Forged draws by kind of model and of forgery, and right draws.

Every draw is handed to `certify` with the full data, and *refused* before any pass over them. Right draws are those of
`sample`, whole, and parts of them: thinned, cut, a chain less, in another order, those of two seeds together, without
digests and log densities, and of flat models whose prior matters little without any attribute. Forged ones have digests
as `sample` would have made them of the forged draws, `coef` and `icc` to match, and no log densities (`log densities
altered` and `coef altered` apart). A forgery of the prior, the rows or the weights is that of draws of other ones,
sampled, with the attributes of the right ones.

`forgeries`: 3,000 certificates of right draws and 1,000 of forged ones or more. ``--trials`` are seeds of each model, a
third of them forged too.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

import bayescore as bc
from bayescore import compat
from bayescore.samplers.groups import intraclass_correlation
from bayescore.samplers.posterior import draws_digest, read_posterior
from benchmarks.commands import command
from benchmarks.tables import publish

Draws = dict[str, np.ndarray]
QUIET = {"progressbar": False}


@dataclass(frozen=True)
class Kind:
    """A kind of model: how its rows are made, and what it is sampled with."""

    n: int
    d: int
    formula: str = ""  # group terms
    groups: int = 0
    family: str = "logistic"
    prior: Any = None
    sampler: str = "auto"
    rare: int = 0  # rows that have a column of their own, all of them positive
    seeds: float = 1.0  # of a trial: NUTS takes a minute

    @property
    def weak(self) -> bool:
        """Whether the prior matters little."""
        return not (self.groups or self.rare or self.prior)


KINDS = {
    "flat": Kind(5000, 4),
    "flat, 30 columns": Kind(8000, 30),
    "flat, probit": Kind(5000, 4, family="probit"),
    "flat, cloglog": Kind(5000, 4, family="cloglog"),
    "flat, Laplace prior": Kind(3000, 4, prior=bc.priors.Laplace(0.0, 0.1)),
    "flat, Student prior": Kind(200, 4, prior=bc.priors.StudentT(3.0, 0.0, 1.0)),
    "flat, beside a wall": Kind(20_000, 3, rare=4),
    "flat, NUTS": Kind(3000, 4, sampler="nuts", seeds=0.2),
    "(1 | g), 60 groups": Kind(3000, 2, "(1 | g)", 60),
    "(1 | g), 8 groups": Kind(800, 2, "(1 | g)", 8, family="probit"),
    "(1 | g), 500 groups": Kind(6000, 2, "(1 | g)", 500, seeds=0.3),
    "(1 | g), NUTS": Kind(1200, 2, "(1 | g)", 20, sampler="nuts", seeds=0.15),
    "(1 + x0 | g) + (1 | h)": Kind(3000, 2, "(1 + x0 | g) + (1 | h)", 15, seeds=0.15),
}


def rows_of(kind: Kind, seed: int) -> pd.DataFrame:
    """Return rows of a kind of model."""
    rng = np.random.default_rng([11, seed])
    X = rng.normal(size=(kind.n, kind.d)) @ (np.eye(kind.d) + 0.3 * rng.normal(size=(kind.d, kind.d)))
    eta = -0.7 + X @ (rng.normal(size=kind.d) / np.sqrt(kind.d))
    frame = pd.DataFrame(X, columns=[f"x{d}" for d in range(kind.d)])
    if kind.groups:
        g, h = rng.integers(0, kind.groups, kind.n), rng.integers(0, 10, kind.n)
        eta += 0.8 * rng.normal(size=kind.groups)[g] + 0.4 * rng.normal(size=kind.groups)[g] * X[:, 0]
        frame = frame.assign(g=g, h=h)
    y = special.expit(eta) > rng.random(kind.n)
    if kind.rare:
        frame["rare"] = (np.arange(kind.n) < kind.rare).astype(float)
        y[: kind.rare] = True
    return frame.assign(y=y.astype(int))


@cache
def built(name: str) -> tuple[pd.DataFrame, bc.Coreset, bc.Coreset]:
    """Return rows, a coreset, and one of rows with other labels."""
    kind, cores = KINDS[name], []
    for seed in (0, 1):
        frame = rows_of(kind, 0) if not seed else rows_of(kind, 0).assign(y=rows_of(kind, 1)["y"])
        columns = " + ".join([column for column in frame if column not in ("y", "g", "h")])
        method = "multilevel" if kind.groups else "calibrated"
        formula = f"y ~ {columns}{' + ' * bool(kind.formula)}{kind.formula}"
        cores.append(
            bc.build_coreset(frame, formula=formula, family=kind.family, method=method, random_state=0, **QUIET)
        )
    return rows_of(kind, 0), cores[0], cores[1]


def sampled(name: str, core: bc.Coreset, seed: int, prior: Any = None, **given: Any) -> Any:
    """Return draws of a coreset; `given` are further options of `sample`."""
    kind = KINDS[name]
    options = {"thin": 10} if kind.sampler == "auto" and not kind.groups else {}
    options |= {"prior": prior or kind.prior, "sampler": kind.sampler, "random_seed": seed, "cores": 1, **given}
    return bc.sample(core, **options, **QUIET)


def values_of(idata: Any) -> Draws:
    """Return all draws, shape (chain, draw, ...)."""
    source = idata["posterior"]
    return {str(name): source[name].transpose("chain", "draw", ...).values.copy() for name in source.data_vars}


def remade(idata: Any, values: Draws, lp: np.ndarray | None, attrs: dict[str, Any] | None = None) -> Any:
    """Return InferenceData of other draws with the same attributes, or others."""
    source = idata["posterior"]
    dims = {name: [str(dim) for dim in source[name].dims if dim not in ("chain", "draw")] for name in values}
    coords = {str(name): own.values for name, own in source.coords.items() if name not in ("chain", "draw")}
    parts = {"posterior": values} | ({} if lp is None else {"sample_stats": {"lp": lp}})
    made = compat.inference_data(parts, coords=coords, dims=dims)
    made.posterior.attrs.update(source.attrs if attrs is None else attrs)
    return made


def right(idata: Any, other: Any, rng: np.random.Generator, *, weak: bool) -> Iterator[tuple[str, Any]]:
    """Yield right draws of all kinds; `other` are those of another seed."""
    values, more = values_of(idata), values_of(other)
    lp, of_more = (each["sample_stats"]["lp"].values for each in (idata, other))
    order = rng.permutation(lp.shape[1])
    yield "whole", idata
    for name, cut in {
        "thinned": np.s_[:, ::2],
        "cut": np.s_[:, 200:],
        "a chain less": np.s_[:3],
        "reordered": np.s_[:, order],
    }.items():
        yield name, remade(idata, {key: own[cut] for key, own in values.items()}, lp[cut])
    both = {key: np.concatenate([own, more[key]]) for key, own in values.items()}
    yield "concatenated", remade(idata, both, np.concatenate([lp, of_more]))
    half = {key: own[:, 100:] for key, own in values.items()}
    yield "no digest, no log density", remade(idata, half, None)
    if weak:
        yield "no attributes", remade(idata, values, None, {"family": idata.posterior.attrs["family"]})


def forged(core: bc.Coreset, idata: Any, values: Draws, lp: np.ndarray | None = None) -> Any:
    """Return draws with all that is a function of them, and digests, to match."""
    attrs = dict(idata["posterior"].attrs)
    posterior = read_posterior(idata, "idata")
    values["coef"] = np.array(core.design.raw_coefficients(values["beta"]))
    for name in [key for key in values if key.startswith("icc_")]:
        sigma = values[name.replace("icc_", "sigma_")]
        values[name] = intraclass_correlation(sigma, posterior.family.latent_variance)
    story = json.loads(attrs["posterior_of"]) | {"draws": draws_digest(values["beta"]), "rows": core.rows_digest}
    attrs["posterior_of"] = json.dumps(story)
    if "effects_of" in attrs:
        attrs["effects_of"] = json.dumps({name: draws_digest(values[name]) for name in json.loads(attrs["effects_of"])})
    return remade(idata, values, lp, attrs)


def _stretch(by: float, keys: tuple[str, ...] = ("beta",)) -> Callable[[Draws, np.random.Generator], None]:
    def change(values: Draws, _: np.random.Generator) -> None:
        for key in [name for name in values if name.startswith(keys)]:
            mean = values[key].mean(axis=(0, 1))
            values[key] = mean + by * (values[key] - mean)

    return change


def _shift_one(values: Draws, rng: np.random.Generator) -> None:
    beta = values["beta"]
    i = rng.integers(beta.shape[2])
    beta[..., i] += rng.choice([-0.5, 0.5]) * beta[..., i].std()


def _shift_any(values: Draws, rng: np.random.Generator) -> None:
    beta = values["beta"]
    L = np.linalg.cholesky(np.cov(beta.reshape(-1, beta.shape[2]).T))
    w = rng.normal(size=len(L))
    values["beta"] = beta + 0.5 * L @ (w / np.linalg.norm(w))


def _correlate(values: Draws, rng: np.random.Generator) -> None:
    beta = values["beta"]
    flat = beta.reshape(-1, beta.shape[2])
    L, mean = np.linalg.cholesky(np.cov(flat.T)), flat.mean(axis=0)
    z = np.linalg.solve(L, (flat - mean).T)
    i, j = rng.choice(len(L), 2, replace=False)
    z[i] = 0.6 * z[j] + 0.8 * z[i]
    values["beta"] = (mean + (L @ z).T).reshape(beta.shape)


def _sigma(values: Draws, rng: np.random.Generator, *, noise: bool) -> None:
    for name in [key for key in values if key.startswith("sigma_")]:
        own = values[name]
        values[name] = np.exp(np.log(own).mean() + rng.normal(size=own.shape)) if noise else 1.5 * own


def _rho(values: Draws, _: np.random.Generator) -> None:
    for name in [key for key in values if key.startswith("rho_")]:
        values[name] = np.tanh(np.arctanh(values[name]) + 1.0)


def _effects(values: Draws, rng: np.random.Generator, *, noise: bool) -> None:
    for name in [key for key in values if key.startswith("u_")]:
        own = values[name]
        order = rng.permutation(own.shape[2])
        values[name] = rng.normal(size=own.shape) * own.std() if noise else own[:, :, order]


Change = Callable[[Draws, np.random.Generator], None]
FLAT: dict[str, Change] = {
    **{f"stretched by {by}": _stretch(by) for by in (0.6, 0.8, 1.25, 2.0)},
    "a coefficient shifted by 0.5 sd": _shift_one,
    "shifted by 0.5 sd in any direction": _shift_any,
    "correlation altered": _correlate,
}
GROUPED: dict[str, Change] = {
    "sigma times 1.5": lambda values, rng: _sigma(values, rng, noise=False),
    "sigma replaced by noise": lambda values, rng: _sigma(values, rng, noise=True),
    "effects shuffled between groups": lambda values, rng: _effects(values, rng, noise=False),
    "effects replaced by noise": lambda values, rng: _effects(values, rng, noise=True),
    "effects stretched by 1.25": _stretch(1.25, ("u_",)),
}


def wrong(name: str, idata: Any, seed: int, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Yield forged draws of all kinds."""
    kind = KINDS[name]
    _, core, other = built(name)
    values, lp = values_of(idata), idata["sample_stats"]["lp"].values
    changes = FLAT | (GROUPED if kind.groups else {}) | ({"rho altered": _rho} if "+ x0" in kind.formula else {})
    for what, change in changes.items():
        changed = {key: own.copy() for key, own in values.items()}
        change(changed, rng)
        yield what, forged(core, idata, changed)
    if kind.sampler == "auto" and "+" not in kind.formula:  # those of NUTS are of its own coordinates if grouped
        changed = {key: own.copy() for key, own in values.items()}
        yield "log densities altered", remade(idata, changed, lp + 0.1 * rng.normal(size=lp.shape))
    changed = {key: own.copy() for key, own in values.items()}
    changed["coef"][..., -1] *= 1.01
    yield "coef altered", remade(idata, changed, lp)
    if kind.sampler != "auto" or "+" in kind.formula:  # NUTS takes too long
        return
    weights = core.weights * np.exp(rng.normal(size=len(core)))
    others = {
        "draws of another prior": (core, bc.priors.Normal(0.0, 0.02)),
        "draws of other rows": (other, None),
        "draws of other weights": (replace(core, weights=weights * core.weights.sum() / weights.sum()), None),
    }
    for what, (rows, prior) in others.items():
        drawn = sampled(name, rows, seed, prior)
        if drawn.posterior["beta"].shape == values["beta"].shape:
            yield what, forged(core, idata, values_of(drawn))


def trial(name: str, seed: int, **given: Any) -> list[dict[str, Any]]:
    """Return a row for each certificate of a model's draws by one seed; `given` are further options of `sample`."""
    warnings.filterwarnings("ignore")  # what chains warn of, the certificate sees
    rng = np.random.default_rng([7, seed])
    frame, core, _ = built(name)
    idata, other = (sampled(name, core, own, **given) for own in (seed, 10_000 + seed))
    shown = [(False, *each) for each in right(idata, other, rng, weak=KINDS[name].weak)]
    if not seed % 3 or KINDS[name].seeds < 0.3:
        shown += [(True, *each) for each in wrong(name, idata, seed, rng)]
    rows = []
    for is_forged, what, draws in shown:
        found = bc.certify(draws, core, frame, label="y", **QUIET)
        told = {"model": name, "seed": seed, "forged": is_forged, "what": what, "level": str(found.level)}
        rows.append(told | {"refused": found.level == "not certified" and not found.n_passes, "text": found.text})
    return rows


@command("forgeries", evidence=True)
def main(trials: int = 45, workers: int = 2) -> None:
    tasks = [(name, seed) for name, kind in KINDS.items() for seed in range(max(1, round(kind.seeds * trials)))]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for one in as_completed([pool.submit(trial, *task) for task in sorted(tasks, key=lambda t: KINDS[t[0]].seeds)]):
            rows += one.result()
    frame = pd.DataFrame(rows)
    for _, row in frame[frame["forged"] != frame["refused"]].iterrows():
        print(row["model"], row["seed"], row["what"], row["text"], sep=" | ", flush=True)
    found = frame.groupby(["forged", "model", "what"])["refused"].agg(["size", "sum"]).reset_index()
    right_ones = found[~found["forged"]].groupby("model")[["size", "sum"]].sum()
    table = found[found["forged"]].groupby("model")[["size", "sum"]].sum().join(right_ones, lsuffix=" forged")
    table = table.reindex([name for name in KINDS if name in table.index])
    table.loc["all"] = table.sum()
    named = {"model": list(table.index), "forged": table["size forged"], "refused of these": table["sum forged"]}
    named |= {"right": table["size"], "refused": table["sum"]}
    publish("forgeries", pd.DataFrame(named).to_dict("records"), 3)
    each = found[found["forged"]].groupby("what")[["size", "sum"]].sum().reset_index()
    publish("forgery_kinds", each.set_axis(["forgery", "made", "refused"], axis=1).to_dict("records"), 3)
