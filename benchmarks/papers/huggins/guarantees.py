"""What do sizes guarantee (Theorems 3.2 and B.1), and do Proposition 2.1 and the sampler of section 4.2 hold?

Sizes: R = 1, k = 6, delta = 0.05. "epsilon" is the theorem's for M draws with c = 1, "realised" the largest
|L - L~| / |L| over 1000 coefficients of the ball (random directions and those of rows; lengths 0.1 to R), median and
95th percentile over the seeds: at most what the supremum is. "c" is the least constant with which the theorem covers
the percentile, "draws for 0.1" what it asks for with c = 1, "enough" what the percentile asks for, as it falls like
1 / sqrt(M).

Evidence: `log_evidence` of coresets and of all rows (repeated ones merged, lossless), each by 4,000 draws of its own,
prior N(0, 2^2). "epsilon" is the largest |L - L~| / |L| over draws of either posterior, "difference" |ln E - ln E~|,
"allowed" epsilon |ln E|, medians over the seeds; "share" is the largest of difference over allowed; it "holds" for
those seeds where the difference less three standard errors is allowed.

MALA: effective draws, for the mean, of the worst coefficient in a chain on all rows: 100,000 iterations with the
identity, the paper's, and 20,000 with the inverse Hessian, which `huggins_quality` uses; half are warm-up, each tenth
is kept.
"""

import math
import warnings
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.coresets.sensitivity import sensitivity_epsilon, sensitivity_size
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.chains import ess
from benchmarks.commands import command
from benchmarks.papers.huggins.problems import PRIOR, chain, readable, split
from benchmarks.tables import publish

RADIUS, CLUSTERS, DELTA = 1.0, 6, 0.05
NAMES = ["Binary5", "Binary10", "ChemReact, ds1.10"]
MALA = {"identity": 100_000, "laplace": 20_000}
Rows = list[dict[str, Any]]


def in_ball(full: bc.Coreset, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return coefficients of the ball, shape (n, D), half of them along rows."""
    D = full.n_features
    along = full.X[rng.integers(len(full), size=n // 2)] * rng.choice([-1.0, 1.0], (n // 2, 1))
    ways = np.concatenate([along, rng.standard_normal((n - n // 2, D))])
    ways /= np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-12)
    return ways * rng.choice([0.1, 0.3, 1.0], (n, 1)) * RADIUS


def sizes(name: str, full: bc.Coreset, merged: bc.Coreset, trials: int) -> Rows:
    family = FAMILIES["logistic"]
    betas = in_ball(merged, 1000, np.random.default_rng(0))
    whole = log_likelihoods(betas, merged, family)
    rows = []
    for M in (1000, min(10_000, len(full) // 2)):
        realised = []
        for seed in range(trials):
            core = bc.build_coreset(
                full,
                method="sensitivity",
                size=M,
                radius=RADIUS,
                clusters=CLUSTERS,
                random_state=seed,
                progressbar=False,
            )
            realised.append(float(np.max(np.abs(log_likelihoods(betas, core, family) / whole - 1.0))))
        mean, high = core.params["mean_sensitivity"], float(np.quantile(realised, 1.0 - DELTA))
        promised = sensitivity_epsilon(mean, full.n_features, M, DELTA)
        rows.append(
            {
                "data": name,
                "N": len(full),
                "D": full.n_features,
                "mean sensitivity": mean,
                "M": M,
                "repetitions": trials,
                "epsilon": promised,
                "realised": float(np.median(realised)),
                "realised, 95%": high,
                "c": (high / promised) ** 2,
                "draws for 0.1": sensitivity_size(mean, full.n_features, 0.1, DELTA),
                "enough": math.ceil(M * (high / 0.1) ** 2),
            }
        )
    return rows


def evidence(name: str, full: bc.Coreset, merged: bc.Coreset, trials: int) -> Rows:
    rows = []
    family = FAMILIES["logistic"]
    truth = bc.log_evidence(merged, prior=PRIOR, draws=4000, random_state=0, progressbar=False)
    betas = bc.sample(merged, prior=PRIOR, sampler="mala", random_seed=0, progressbar=False).posterior["beta"]
    betas = betas.to_numpy().reshape(-1, merged.n_features)
    whole = log_likelihoods(betas, merged, family)
    for method in ("uniform", "sensitivity", "calibrated"):
        for M in (1000, min(10_000, len(full) // 2)):
            own = {"prior": PRIOR} if method == "calibrated" else {}
            gaps, errors, epsilons, ks = [], [], [], []
            for seed in range(trials):
                core = bc.build_coreset(full, method=method, size=M, random_state=seed, progressbar=False, **own)
                found = bc.log_evidence(core, merged, prior=PRIOR, draws=4000, random_state=seed, progressbar=False)
                over_posterior = float(np.max(np.abs(log_likelihoods(betas, core, family) / whole - 1.0)))
                gaps.append(abs(found.log_evidence - truth.log_evidence))
                epsilons.append(max(found.epsilon, over_posterior))
                errors.append(math.hypot(found.se, truth.se))
                ks.append(found.pareto_k)
            allowed = np.array(epsilons) * abs(truth.log_evidence)
            rows.append(
                {
                    "data": name,
                    "method": method,
                    "M": M,
                    "repetitions": trials,
                    "ln E": truth.log_evidence,
                    "difference": float(np.median(gaps)),
                    "allowed": float(np.median(allowed)),
                    "largest share": float((np.array(gaps) / allowed).max()),
                    "standard error": float(np.median(errors)),
                    "epsilon": float(np.median(epsilons)),
                    "holds": int((np.array(gaps) - 3.0 * np.array(errors) <= allowed).sum()),
                    "k-hat, worst": max(ks),
                }
            )
    return rows


def chains(name: str, merged: bc.Coreset, scale: int) -> Rows:
    rows = []
    for preconditioner, iterations in MALA.items():
        idata = chain(merged, iterations // scale, preconditioner=preconditioner)
        beta = idata.posterior["beta"].to_numpy()
        effective = float(ess(beta, "mean").min())
        kept = beta.shape[1]
        row = {"data": name, "preconditioner": preconditioner, "iterations": 20 * kept, "draws kept": kept}
        row |= {"effective": effective, "iterations for each": 10 * kept / effective}
        rows.append(row | {"acceptance": float(idata.sample_stats["acceptance_rate"].mean())})
    return rows


@command("huggins_guarantees", evidence=True)
def main(*, quick: bool = False, trials: int = 20) -> None:
    warnings.filterwarnings("ignore")  # k-hat and chains that have not mixed: in the tables
    tables: dict[str, Rows] = {"huggins_sizes": [], "huggins_evidence": [], "huggins_mala": []}
    for name, problem in readable(NAMES).items():
        full = split(problem, quick=quick)[0]
        merged = bc.build_coreset(full, method="aggregate", progressbar=False) if problem.repeats else full
        tables["huggins_sizes"] += sizes(name, full, merged, 3 if quick else trials)
        tables["huggins_evidence"] += evidence(name, full, merged, 2 if quick else max(trials // 4, 1))
        tables["huggins_mala"] += chains(name, merged, 10 if quick else 1)
    for table, rows in tables.items():
        publish(table, rows)
