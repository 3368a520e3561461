"""Are fits of mixed models right, on sets as people have them? `fit` with its defaults beside NUTS on all rows.

Thirty made sets, 5 to 2,000 groups of 1 to 50 rows, sds of effects 0.02 to 10, correlations -0.95 to 0.95, and
published ones with their published models (`mixed_sets`): csv files in ../shared/data, or in the folder that
`--published` names. NUTS is that of nutpie on a PyMC model written here, of the same priors; nothing of bayescore's but
the columns of the design is in it. Its chains get longer until R-hat is below 1.005 and the effective sample size above
2,000. The folder `--kept` keeps what it found for the next run.

`mean` is the largest difference of means of coefficients, correlations and of the noise's log sd, in sds, `sd` of their
sds, relative; `quartiles` and `tails` are those of the 25, 50 and 75%, and of the 2.5 and 97.5% quantiles of log sds of
effects, in units of the interquartile range over 1.35; `effects` the largest difference of the means of effects, in
sds. Each is less 3 of its Monte Carlo standard errors, effects less 4.5: what is left is no noise. `right` says that
these are below 0.05, 3%, 0.1, 0.1 and 0.1. `ESS` is the smallest, bulk, of coefficients, sds and correlations;
processor seconds include what is compiled anew.
"""

import json
import resource
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.numerics.chains import ess, mcse_mean, quantile_errors, rhat
from bayescore.numerics.moments import moments_mcse
from bayescore.samplers.posterior import read_posterior
from benchmarks.commands import command
from benchmarks.groups.mixed_sets import SETS, MixedSet
from benchmarks.tables import known_rows, publish

MAX_RHAT, LEAST = 1.005, 2000.0
ALLOWED = {"mean": 0.05, "sd": 0.03, "quartiles": 0.1, "tails": 0.1, "effects": 0.1}
SHOWN = ("level", "sampler", "tries", "CPU s", "draws", "ESS")
PROBS = (0.025, 0.25, 0.5, 0.75, 0.975)
QUIET = {"progressbar": False}
Draws = dict[str, np.ndarray]  # shape (chain, draw, k)


def fitted(own: MixedSet, frame: pd.DataFrame, **options: Any) -> tuple[bc.Fit, dict[str, Any]]:
    """Return the fit, and what it took."""
    begin = time.process_time(), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = bc.fit(own.formula, frame, family=own.family, random_state=1, **QUIET, **options)
    told: dict[str, Any] = {"level": str(fit.level), "sampler": fit._drawn.posterior.attrs["sampler"]}
    told |= {"CPU s": time.process_time() - begin[0], "wall s": time.perf_counter() - begin[1]}
    told["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    summary = fit.summary()
    told |= {"ESS": float(summary["ess_bulk"].min()), "tail ESS": float(summary["ess_tail"].min())}
    told |= {"tries": sum(step.what == "sample" for step in fit.story)}
    told["draws"] = fit._drawn.posterior.sizes["chain"] * fit._drawn.posterior.sizes["draw"]
    told["text"] = fit.certificate.text
    return fit, told | {"warnings": [str(own.message) for own in caught], "story": [str(step) for step in fit.story]}


def draws_of(fit: bc.Fit) -> Draws:
    """Return draws of a fit's parameters, in units of the design's columns."""
    source = fit._used.posterior
    found = {"beta": source["beta"].values}
    if "sigma" in source:
        found["sigma"] = source["sigma"].values[..., None]
    for grouping in fit.coreset.groups:
        name, q = grouping.name, len(grouping.effects)
        shape = source["beta"].shape[:2]
        found[f"sigma_{name}"] = source[f"sigma_{name}"].values.reshape(*shape, q)
        if f"rho_{name}" in source:
            found[f"rho_{name}"] = source[f"rho_{name}"].values
        u = source[f"u_{name}"]
        if u.sizes[name] < len(grouping):
            u = fit.effects(name, draws=list(grouping.levels))
        found[f"u_{name}"] = u.values.reshape(*shape, -1)
    return found


def codes_of(grouping: Any, frame: pd.DataFrame) -> np.ndarray:
    """Return the place of each row's level, found by the columns that the factor is read from."""
    columns = [frame[name].astype(str) for name in grouping.columns]
    text = columns[0] if len(columns) == 1 else columns[0].str.cat(columns[1:], sep=":")
    place = {str(level): k for k, level in enumerate(grouping.levels)}
    return text.map(place).to_numpy(dtype=int)


def response(own: MixedSet, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return responses, of binomial ones the successes, and the numbers of trials."""
    left = own.formula.partition("~")[0].strip()
    if left.startswith("cbind("):
        name, rest = left[6:-1].split(",")
        y, failures = frame[name.strip()].to_numpy(float), np.asarray(frame.eval(rest), dtype=float)
        return y, y + failures
    return frame[left].to_numpy(float), np.ones(len(frame))


def pymc_model(own: MixedSet, frame: pd.DataFrame, fit: bc.Fit, draws: Draws) -> Any:
    """Return the model of all rows; effects are centred where draws say that rows tell them better than the prior."""
    import pymc as pm
    import pytensor.tensor as pt

    posterior = read_posterior(fit._drawn, "draws")
    prior, attrs = posterior.story["prior"], posterior.attrs
    assert prior["kind"] == "Normal"
    spread = json.loads(attrs["group_prior"])
    assert spread["kind"] == "HalfStudentT"
    half = {"nu": spread["nu"], "sigma": spread["sigma"]}
    design = fit.coreset.design
    X, (y, trials) = design.transform(frame), response(own, frame)
    p = X.shape[1]
    with pm.Model() as built:
        beta = pm.Normal("beta", np.broadcast_to(prior["mu"], p), np.broadcast_to(prior["sigma"], p), shape=p)
        eta = pt.dot(X, beta)
        for grouping in fit.coreset.groups:
            name, G, q = grouping.name, len(grouping), len(grouping.effects)
            columns = [design.columns_of(grouping, effect) for effect in grouping.effects]
            z = [sum(X[:, d] * times for d, times in own.items()) if own else np.ones(len(X)) for own in columns]
            if q == 1:
                sigma = pm.HalfStudentT(f"sigma_{name}", **half)
                factor = [[sigma]]
            elif not grouping.paired_effects:
                sds = pm.HalfStudentT(f"sigma_{name}", **half, shape=q)
                factor = [[*[0.0] * i, sds[i]] for i in range(q)]
            else:
                chol, corr, _ = pm.LKJCholeskyCov(f"chol_{name}", eta=2, n=q, sd_dist=pm.HalfStudentT.dist(**half))
                pm.Deterministic(f"sigma_{name}", pt.sqrt((chol**2).sum(axis=1)))
                pairs = [corr[i, j] for i in range(q) for j in range(i + 1, q)]
                pm.Deterministic(f"rho_{name}", pt.stack(pairs))
                factor = [[chol[i, j] for j in range(i + 1)] for i in range(q)]
            u = draws[f"u_{name}"].reshape(-1, G, q)
            told = np.median(u.std(axis=0), axis=0) / np.median(draws[f"sigma_{name}"].reshape(-1, q), axis=0)
            least = np.quantile(draws[f"sigma_{name}"].reshape(-1, q), 0.01, axis=0)
            centred = bool((told < 0.5).all() and (least > 0.3 * np.median(draws[f"sigma_{name}"], axis=(0, 1))).all())
            if centred:
                effects = pm.Flat(f"u_{name}", shape=(G, q), initval=np.zeros((G, q)))
                white: list[Any] = []
                for i in range(q):
                    rest = sum((factor[i][j] * white[j] for j in range(i)), start=0.0)
                    white.append((effects[:, i] - rest) / factor[i][i])
                log_p = sum(-0.5 * (w**2).sum() - G * pt.log(factor[i][i]) for i, w in enumerate(white))
                pm.Potential(f"prior_{name}", log_p)
            else:
                w = pm.Normal(f"w_{name}", shape=(G, q))
                made = [sum(factor[i][j] * w[:, j] for j in range(i + 1)) for i in range(q)]
                effects = pm.Deterministic(f"u_{name}", pt.stack(made, axis=1))
            code = codes_of(grouping, frame)
            for i in range(q):
                eta = eta + effects[code, i] * z[i]
        kind = own.family.partition("(")[0]
        if kind == "normal":
            noise = json.loads(attrs["sd_prior"])
            sd = pm.HalfStudentT("sigma", nu=noise["nu"], sigma=noise["sigma"])
            pm.Normal("y", eta, sd, observed=y)
        elif kind == "poisson":
            pm.Potential("y", (y * eta - pt.exp(eta)).sum())
        elif kind == "negative_binomial":
            size = float(own.family[len(kind) + 1 : -1])
            pm.Potential("y", (y * eta - (y + size) * pt.logaddexp(np.log(size), eta)).sum())
        elif kind == "logistic":
            pm.Potential("y", (y * eta - trials * pt.softplus(eta)).sum())
        elif kind == "probit":
            pm.Potential("y", pm.logcdf(pm.Normal.dist(), (2.0 * y - 1.0) * eta).sum())
        else:
            rate = pt.exp(eta)
            pm.Potential("y", pt.where(y > 0.0, pt.log(-pt.expm1(-rate)), -rate).sum())
    return built


def truth(model: Any, names: list[str], most: float) -> tuple[Draws, dict[str, Any]]:
    """Return draws of NUTS until chains agree, or the next turn would take more than `most` processor seconds."""
    import nutpie

    begin, draws = time.process_time(), 2000
    compiled = nutpie.compile_pymc_model(model)
    while True:
        start = time.process_time()
        options = {"draws": draws, "tune": max(1500, draws // 4), "chains": 4, "cores": 1, "seed": draws}
        idata = nutpie.sample(compiled, target_accept=0.95, save_warmup=False, progress_bar=False, **options)
        taken = time.process_time() - start
        source = idata.posterior
        found = {name: source[name].values.reshape(4, draws, -1) for name in names}
        judged = scaled(found)
        rhats, least = float(rhat(judged).max()), float(min(ess(judged, "bulk").min(), ess(judged, "tail").min()))
        diverged = int(idata.sample_stats["diverging"].values.sum())
        if (rhats < MAX_RHAT and least >= LEAST) or 3.0 * taken > most:
            break
        draws *= 2 if least > 0.5 * LEAST else 4
    told = {"R-hat": rhats, "ESS": least, "draws": 4 * draws, "diverged": diverged}
    told["CPU s"] = time.process_time() - begin
    thin = max(1, draws // 4000)
    return {name: own[:, ::thin].astype(np.float32) for name, own in found.items()}, told


def scaled(draws: Draws) -> np.ndarray:
    """Return all parameters but effects side by side, sds as logarithms."""
    parts = [np.log(own) if name[:5] == "sigma" else own for name, own in draws.items() if name[:2] != "u_"]
    return np.concatenate([own.astype(float) for own in parts], axis=2)


def names_of(draws: Draws) -> list[str]:
    """Return the names of the columns of `scaled`."""
    return [f"{name}[{k}]" for name, own in draws.items() if name[:2] != "u_" for k in range(own.shape[2])]


def summaries(draws: Draws) -> dict[str, np.ndarray]:
    """Return what of draws is kept: names, means, sds and quantiles of parameters with errors; means of effects."""
    judged = scaled(draws)
    found = {"names": np.array(names_of(draws)), "mean": judged.mean(axis=(0, 1)), "sd": judged.std(axis=(0, 1))}
    found |= {"mean error": mcse_mean(judged), "sd error": moments_mcse(judged).sd}
    found["quantiles"] = np.quantile(judged, PROBS, axis=(0, 1))
    found["quantiles error"] = np.stack([quantile_errors(judged, prob) for prob in PROBS])
    found["ESS"] = np.minimum(ess(judged, "bulk"), ess(judged, "tail"))
    effects = [own.astype(float) for name, own in draws.items() if name[:2] == "u_"]
    found["u"] = np.concatenate([own.mean(axis=(0, 1)) for own in effects])
    found["u sd"] = np.concatenate([own.std(axis=(0, 1)) for own in effects])
    found["u error"] = np.concatenate([mcse_mean(own) for own in effects])
    return found


def beside(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the largest differences of a fit from the truth, less the noise, and which parameters these are."""
    place = {name: k for k, name in enumerate(one["names"])}
    order = [place[name] for name in other["names"]]

    def gap(key: str, errors: float, scale: np.ndarray) -> np.ndarray:
        a, b, e = one[key][..., order], other[key], one[f"{key} error"][..., order]
        return np.maximum(np.abs(a - b) - errors * np.hypot(e, other[f"{key} error"]), 0.0) / scale

    of_effects = np.array([name[:6] == "sigma_" for name in other["names"]])
    spread = (other["quantiles"][3] - other["quantiles"][1]) / 1.349
    quantiles = gap("quantiles", 3.0, spread)
    effects = np.abs(one["u"] - other["u"]) - 4.5 * np.hypot(one["u error"], other["u error"])
    found = {
        "mean": np.where(of_effects, 0.0, gap("mean", 3.0, other["sd"])),
        "sd": np.where(of_effects, 0.0, gap("sd", 3.0, other["sd"])),
        "quartiles": np.where(of_effects, quantiles[1:4].max(axis=0), 0.0),
        "tails": np.where(of_effects, quantiles[[0, 4]].max(axis=0), 0.0),
        "effects": np.maximum(effects, 0.0) / other["u sd"],
    }
    worst = {name: float(own.max()) for name, own in found.items()}
    told = {name: str(other["names"][own.argmax()]) for name, own in found.items() if name != "effects"}
    noise = np.hypot(one["mean error"][order], other["mean error"]) / other["sd"]
    right = all(worst[name] < limit for name, limit in ALLOWED.items())
    off = ", ".join(f"{name} of {told.get(name, 'u')}" for name, limit in ALLOWED.items() if worst[name] >= limit)
    return {"right": right, **worst, "noise": float(noise.max()), "off": off}


@command(
    "mixed_models",
    sets=[own.name for own in SETS],
    evidence=("01 logistic, one factor, 5", "09 normal, one factor, 8", "17 normal, slope, 18"),
)
def main(
    only: Sequence[str] = (), published: str = "", kept: str = "benchmarks/.mixed_models", most: float = 600.0
) -> None:
    """Fit each set, find its truth if `kept` does not have it, and compare them."""
    rows = known_rows("mixed_models")
    for own in SETS:
        if only and own.name not in only:
            continue
        path = own.path(Path(published))
        if path is not None and not path.is_file():
            print(f"{own.name}: not run, as {path} is absent (--published names the folder of such files)")
            continue
        frame, folder = own.read(Path(published)), Path(kept) / own.name.replace(" ", "_").replace("/", "in")
        folder.mkdir(parents=True, exist_ok=True)
        fit, took = fitted(own, frame)
        draws = draws_of(fit)
        (folder / "fit.json").write_text(json.dumps(took, indent=1))
        row = {"set": own.name, "rows": len(frame)} | {name: took[name] for name in SHOWN}
        if not (folder / "truth.npz").is_file():
            exact, about = truth(pymc_model(own, frame, fit, draws), list(draws), most)
            np.savez(folder / "truth.npz", **summaries(exact))
            (folder / "truth.json").write_text(json.dumps(about, indent=1))
        about = json.loads((folder / "truth.json").read_text())
        row |= beside(summaries(draws), dict(np.load(folder / "truth.npz")))
        row |= {"truth, R-hat": about["R-hat"], "truth, ESS": about["ESS"]}
        print(row, flush=True)
        rows = [other for other in rows if other["set"] != own.name] + [row]
        publish("mixed_models", rows, digits=3)
