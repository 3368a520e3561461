"""How long do a million rows in 1,000 groups take? bayescore, samplers of all rows, and approximations.

``--rows``, ``--rivals pymc,nutpie,...`` and ``--cap`` (seconds for each system, 3,600 by default) change what is run;
only a run of a million rows and all rivals is published. Each system runs in a process of its own, on all cores,
compilation left out. Priors: N(0, 4^2) for coefficients, half Student t (3, 2.5) for sigma.

- bayescore: seconds to build, `seconds` with 4 x 1000 draws (and as many of warm-up) by the collapsed sampler, and
  those of the certificate.
- PyMC, nutpie, NumPyro: NUTS on all rows, centred effects (groups have hundreds of rows). *Scaled*: one chain a core
  makes few draws of trees of at most 31 gradients (NumPyro: few gradients); the seconds of one gradient are multiplied
  by the gradients that 4 x (1000 + 1000) draws took PyMC's NUTS (nutpie's for nutpie) on the coreset, whose posterior
  has the same shape, and divided by the cores. `ess` is of those draws.
- statsmodels: `BinomialBayesMixedGLM.fit_vb`, mean field, N(0, 1) prior of log sigma. lme4: `glmer`, nAGQ = 0 and 1,
  maximum likelihood. `off` is the largest distance of their coefficients from bayescore's means, in posterior sds.

`ess` is the smallest effective sample size over coefficients, sigma and effects, of 4,000. `times` is the whole time
over that of bayescore's build and draws, where it was measured.
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse, special

import bayescore as bc
from bayescore.compiled import available_cores
from bayescore.numerics.chains import ess
from benchmarks.commands import command
from benchmarks.measure import r_has
from benchmarks.rivals.gradients import CALLS, gradients, jax_numpy, timed_gradient, total
from benchmarks.tables import publish

ROWS, GROUPS, P = 1_000_000, 1000, 10
CHAINS, DRAWS, TUNE = 4, 1000, 1000
FEW, DEPTH = 8, 5  # draws, and as many of warm-up, of NUTS on all rows, and the depth of their trees
CAP = 3600.0
PRIOR_SD, NU, SCALE = 4.0, 3.0, 2.5
LME4 = """
library(lme4); n <- {n}; p <- {p}
con <- file("{folder}/rows.bin", "rb"); x <- readBin(con, "double", n * (p + 1)); close(con)
d <- as.data.frame(matrix(x, n)); names(d) <- c("y", "g", paste0("x", 1:(p - 1)))
f <- as.formula(paste("y ~", paste0("x", 1:(p - 1), collapse = " + "), "+ (1 | g)"))
s <- system.time(m <- glmer(f, d, family = binomial, nAGQ = {nodes}))[["elapsed"]]
cat(s, fixef(m), "\\n")
"""


def table(n: int) -> pd.DataFrame:
    """Return the rows: labels, nine normal columns and groups of unlike size."""
    rng = np.random.default_rng(0)
    share = rng.lognormal(0.0, 0.8, GROUPS)
    group = rng.choice(GROUPS, n, p=share / share.sum())
    X = rng.normal(size=(n, P - 1))
    eta = -2.0 + X @ np.linspace(-0.5, 0.5, P - 1) + rng.normal(size=GROUPS)[group]
    frame = pd.DataFrame(X, columns=[f"x{d}" for d in range(1, P)])
    return frame.assign(g=group, y=rng.random(n) < special.expit(eta))


def built(frame: pd.DataFrame) -> bc.Coreset:
    """Return the coreset."""
    told = {"label": "y", "groups": "g", "intercept": True, "method": "multilevel", "progressbar": False}
    return bc.build_coreset(frame, random_state=0, **told)


def smallest_ess(posterior: Any) -> float:
    """Return the smallest effective sample size of coefficients, sigma and effects."""
    each = [posterior[name].transpose("chain", "draw", ...).values for name in ("beta", "sigma_g", "u_g")]
    return min(float(ess(own.reshape(*own.shape[:2], -1), "bulk").min()) for own in each)


def bayescore(frame: pd.DataFrame) -> dict:
    """Time build, draws and certificate."""
    small = frame.iloc[:20_000]
    warm = built(small)  # compiles
    bc.certify(bc.sample(warm, random_seed=0, progressbar=False), warm, small, label="y", progressbar=False)
    begin = time.perf_counter()
    core = built(frame)
    build = time.perf_counter() - begin
    idata = bc.sample(core, draws=DRAWS, tune=TUNE, chains=CHAINS, random_seed=1, progressbar=False)
    drawn = time.perf_counter() - begin
    found = bc.certify(idata, core, frame, label="y", progressbar=False)
    beta = idata.posterior["beta"].values
    return {
        "timed": f"whole; {len(core):,} rows, {found.level}",
        "build_s": build,
        "seconds": drawn,
        "certify_s": time.perf_counter() - begin - drawn,
        "ess": smallest_ess(idata.posterior),
        "beta": beta.mean(axis=(0, 1)).tolist(),
        "sd": beta.std(axis=(0, 1)).tolist(),
    }


def graph(rows: bc.Coreset) -> Any:
    """Return the centred model of rows, as a PyMC user writes it."""
    import pymc as pm

    with pm.Model(coords={"feature": rows.feature_names, "g": list(rows.groups[0].levels)}) as model:
        beta = pm.Normal("beta", 0.0, PRIOR_SD, dims="feature")
        sigma = pm.HalfStudentT("sigma_g", nu=NU, sigma=SCALE)
        u = pm.Normal("u_g", 0.0, sigma, dims="g")
        if rows.method == "full":
            eta = pm.math.dot(rows.X, beta) + u[rows.group[:, 0]]
            pm.Bernoulli("y", logit_p=eta, observed=(rows.y > 0).astype(np.int8))
        else:
            bc.weighted_potential("y", rows, beta, groups={rows.groups[0].name: u})
    return model


def nuts_draws(model: Any, draws: int, tune: int, chains: int, start: dict | None = None, **nuts: Any) -> Any:
    """Return draws of PyMC's NUTS with these options of the step, on all cores."""
    import pymc as pm

    with model:
        return pm.sample(
            draws, tune=tune, chains=chains, cores=min(chains, available_cores()), step=pm.NUTS(**nuts),
            initvals=start, random_seed=0, progressbar=False, discard_tuned_samples=False,
            compute_convergence_checks=False,
        )  # fmt: skip


def pymc_run(model: Any, draws: int, tune: int, chains: int, **nuts: Any) -> tuple[Any, float, int]:
    """Return draws, the seconds in trees over all chains, and their gradients."""
    idata = nuts_draws(model, draws, tune, chains, **nuts)
    return idata, total(idata, "perf_counter_diff"), gradients(idata)


def nutpie_run(model: Any, draws: int, tune: int, chains: int, **settings: Any) -> tuple[Any, float, int]:
    """As `pymc_run`; the seconds are those of the clock, times the cores that chains had."""
    import nutpie

    compiled, cores = nutpie.compile_pymc_model(model), min(chains, available_cores())
    told = {"chains": chains, "cores": cores, "seed": 0, "progress_bar": False, **settings}
    nutpie.sample(compiled, draws=1, tune=1, **told)  # what only a first call does
    begin = time.perf_counter()
    idata = nutpie.sample(compiled, draws=draws, tune=tune, **told)
    clock = cores * (time.perf_counter() - begin)
    return idata, clock, gradients(idata)


def scaled(gradient: float, timed: int, idata: Any, counted: int) -> dict:
    """Return the row of a sampler of which a gradient was timed."""
    return {
        "timed": f"scaled: {timed:,} gradients of {1000.0 * gradient:.3g} ms to {counted:,}",
        "seconds": gradient * counted / min(CHAINS, available_cores()),
        "ess": smallest_ess(idata.posterior),
    }


def of_nuts(run: Any, frame: pd.DataFrame, **shallow: int) -> dict:
    """Time few gradients of all rows; count those of whole chains on the coreset."""
    idata, _, counted = run(graph(built(frame)), DRAWS, TUNE, CHAINS)
    full = bc.all_rows(frame, label="y", groups="g", intercept=True, progressbar=False)
    _, clock, timed = run(graph(full), FEW, FEW, min(CHAINS, available_cores()), **shallow)
    return scaled(clock / timed, timed, idata, counted)


def pymc(frame: pd.DataFrame) -> dict:
    return of_nuts(pymc_run, frame, max_treedepth=DEPTH)


def nutpie(frame: pd.DataFrame) -> dict:
    return of_nuts(nutpie_run, frame, maxdepth=DEPTH)


def numpyro(frame: pd.DataFrame) -> dict:
    """Time gradients by the processor, as JAX has threads of its own; they are counted by PyMC's NUTS."""
    jnp = jax_numpy()
    import numpyro
    import numpyro.distributions as dist

    def model(X: Any, group: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(0.0, PRIOR_SD).expand([P]).to_event(1))
        sigma = numpyro.sample("sigma", dist.TruncatedDistribution(dist.StudentT(NU, 0.0, SCALE), low=0.0))
        u = numpyro.sample("u", dist.Normal(0.0, sigma).expand([GROUPS]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=X @ beta + u[group]), obs=y)

    X = jnp.asarray(np.column_stack([np.ones(len(frame)), frame.filter(like="x")]))
    data = X, jnp.asarray(frame["g"].to_numpy()), jnp.asarray(frame["y"].to_numpy(dtype=float))
    gradient, _ = timed_gradient(model, *data)
    idata, _, counted = pymc_run(graph(built(frame)), DRAWS, TUNE, CHAINS)
    return scaled(gradient, CALLS, idata, counted)


def statsmodels(frame: pd.DataFrame) -> dict:
    """Time the mean-field approximation."""
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    X = np.column_stack([np.ones(len(frame)), frame.filter(like="x")])
    group = frame["g"].to_numpy()
    Z = sparse.csr_matrix((np.ones(len(group)), (np.arange(len(group)), group)), shape=(len(group), GROUPS))
    begin = time.perf_counter()
    y = frame["y"].to_numpy(dtype=float)
    model = BinomialBayesMixedGLM(y, X, Z, np.zeros(GROUPS, dtype=int), vcp_p=1.0, fe_p=PRIOR_SD)
    found = model.fit_vb()
    return {"timed": "whole, mean field", "seconds": time.perf_counter() - begin, "beta": found.fe_mean.tolist()}


def lme4(frame: pd.DataFrame, nodes: int) -> dict:
    """Time `glmer`, the reading of the rows left out."""
    if not r_has("lme4"):
        raise ImportError("lme4")
    with tempfile.TemporaryDirectory() as folder:
        columns = [frame["y"], frame["g"], *(frame[f"x{d}"] for d in range(1, P))]
        np.concatenate([own.to_numpy(dtype=float) for own in columns]).tofile(Path(folder) / "rows.bin")
        code = LME4.format(n=len(frame), p=P, folder=folder, nodes=nodes)
        printed = subprocess.run(["Rscript", "-e", code], check=True, capture_output=True, text=True).stdout
    seconds, *beta = map(float, printed.splitlines()[-1].split())
    return {"timed": "whole", "seconds": seconds, "beta": beta}


SYSTEMS = {
    "bayescore": ("bayescore", bayescore),
    "pymc": ("PyMC NUTS, all rows", pymc),
    "nutpie": ("nutpie, all rows", nutpie),
    "numpyro": ("NumPyro NUTS, all rows", numpyro),
    "statsmodels": ("statsmodels, variational", statsmodels),
    "lme4_0": ("lme4, nAGQ = 0", lambda frame: lme4(frame, 0)),
    "lme4_1": ("lme4, nAGQ = 1", lambda frame: lme4(frame, 1)),
}


def within(name: str, rows: int, cap: float) -> dict:
    """Return what a system's own process found, or why it found nothing."""
    command = [sys.executable, "-m", "benchmarks.groups.multilevel_speed", name, str(rows)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=cap)
    except subprocess.TimeoutExpired:
        return {"timed": f"stopped after {cap:,.0f} s"}
    if done.returncode:
        print(done.stderr[-2000:])
        return {"timed": "failed"}
    return json.loads(done.stdout.splitlines()[-1])


@command("multilevel_speed")
def main(rows: int = ROWS, rivals: str = ",".join([*SYSTEMS][1:]), cap: float = CAP) -> None:
    """Run all systems, one after the other."""
    chosen = ["bayescore", *filter(None, rivals.split(","))]
    if unknown := [name for name in chosen if name not in SYSTEMS]:
        raise SystemExit(f"unknown rival {unknown[0]!r}; choose from {', '.join([*SYSTEMS][1:])}")
    found, own = [], {}
    for name in chosen:
        result = within(name, rows, cap)
        own = own or result
        if "beta" in result and "beta" in own:
            gap = np.abs(np.array(result["beta"]) - own["beta"]) / own["sd"]
            result["off"] = float(gap.max()) if result is not own else np.nan
        row = {"system": SYSTEMS[name][0], "N": rows, "G": GROUPS, "p": P, "timed": result["timed"]}
        row |= {key: result.get(key, np.nan) for key in ("build_s", "seconds", "certify_s", "ess", "off")}
        whole = not str(result["timed"]).startswith("scaled")
        row["times"] = row["seconds"] / own.get("seconds", np.nan) if whole else np.nan
        found.append(row)
        print(row, flush=True)
    if rows == ROWS and set(chosen) == set(SYSTEMS):
        publish("multilevel_speed", found)
    else:
        print(pd.DataFrame(found).to_string(index=False, float_format=lambda value: f"{value:.4g}"))


if __name__ == "__main__":  # one system, in a process of its own
    warnings.simplefilter("ignore")
    try:
        print(json.dumps(SYSTEMS[sys.argv[1]][1](table(int(sys.argv[2])))))
    except ImportError as missing:
        print(json.dumps({"timed": f"not installed: {missing.name or missing}"}))
