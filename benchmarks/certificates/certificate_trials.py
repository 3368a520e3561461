"""Cells of `certificates`: a coreset and a run of a sampler, what is shown to the certificate, and the truth."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import bayescore as bc
from bayescore.coresets.method import DEFAULT_SIZE
from bayescore.numerics.chains import ess
from bayescore.validation import DataError
from benchmarks.certificates.certificate_draws import KINDS, SHORT, Sampled, part
from benchmarks.certificates.certificate_problems import PRIORS, PROBLEMS, Problem
from benchmarks.certificates.certificate_references import Figures, Reference, figures, reference
from benchmarks.problems import SHARED

PARTS, WRONG = 3, 4  # trials of a cell beside that of all its draws
SHARES = {"calibrated": 0.35, "auto": 0.1, "merge_reduce": 0.15, "uniform": 0.1, "leverage": 0.1, "online": 0.1,
          "sensitivity": 0.1}  # fmt: skip
SIZES = (3, 5, 10, 20, 40, "auto", "quarter", "half")
CLASSES = {"1": 0.1, "2": 0.2, "3 to 11": 0.42, "20 to 49": 0.12, "50 to 99": 0.09, "100 to 301": 0.07}
Row = dict[str, Any]


def width(d: int) -> str:
    """Return the class of a number of columns."""
    for top, name in zip((1, 2, 11, 49, 99), CLASSES, strict=False):
        if d <= top:
            return name
    return "100 to 301"


@dataclass(frozen=True)
class Cell:
    """One coreset and one run: all that its trials share."""

    number: int
    problem: int
    method: str
    size: int | str
    rows: int | str
    sampler: str
    draws: int

    @property
    def posterior(self) -> Problem:
        """The problem itself."""
        return PROBLEMS[self.problem]


def cell(number: int) -> Cell:
    """Return a cell: everything about it follows from its number."""
    rng = np.random.default_rng([13, number])
    usable = [i for i, p in enumerate(PROBLEMS) if SHARED.is_dir() or not p.published]
    share = np.array([CLASSES[width(PROBLEMS[i].d)] for i in usable])
    crowd = pd.Series([width(PROBLEMS[i].d) for i in usable])
    share = share / crowd.map(crowd.value_counts()).to_numpy()
    index = int(rng.choice(usable, p=share / share.sum()))
    problem = PROBLEMS[index]
    methods = [name for name in SHARES if name != "sensitivity" or problem.family == "logistic"]
    weights = np.array([SHARES[name] for name in methods])
    method = str(rng.choice(methods, p=weights / weights.sum()))
    rows = SIZES[rng.choice(4 if problem.d >= 100 else len(SIZES))]
    if rows == "auto" and problem.n <= DEFAULT_SIZE:
        rows = "half"  # all rows are no coreset
    size: int | str = "auto"
    if isinstance(rows, int):
        size = min(max(rows * problem.d, 5), problem.n // 2)
    elif rows != "auto":
        size = problem.n // {"quarter": 4, "half": 2}[rows]
    sampler, draws = "mala", 1000
    if problem.prior in ("SpikeAndSlab", "Horseshoe"):
        sampler, draws = "nuts", 500
    elif problem.prior == "Normal" and problem.d <= 25 and rng.random() < 0.25:
        sampler = "gibbs" if problem.family == "probit" else "polya_gamma"
    elif problem.d <= 11 and rng.random() < 0.2:
        draws = 4000
    return Cell(number, index, method, size, rows, sampler, draws)


def draw(which: Cell, core: bc.Coreset, seed: int) -> Any:
    """Return draws of a coreset's posterior."""
    problem, options = which.posterior, {}
    if which.sampler == "mala":
        options = {"thin": 10 if problem.d > 11 else 5}
    elif which.sampler in ("gibbs", "polya_gamma"):
        options = {"thin": 2}
    return bc.sample(
        core,
        problem.family,
        PRIORS[problem.prior],
        sampler=which.sampler,
        draws=which.draws,
        tune=300 if which.sampler == "nuts" else 150,
        cores=1,
        random_seed=seed,
        progressbar=False,
        **options,
    )


def shown(made: Sampled, which: Cell, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Yield kinds of draws and the draws."""
    yield "own", made.idata
    for i in range(PARTS):
        n = int(rng.choice(SHORT))
        chains = int(rng.choice([1, 2, 4]))
        yield "own", part(made.idata, *((chains, min(n, which.draws)) if i else (2, which.draws)))
    own = [name for name in KINDS if name != "columns swapped" or which.posterior.d > 1]
    if which.sampler != "mala":
        own.remove("badly tuned")
    if which.posterior.prior == "Horseshoe":
        own = [name for name in own if not name.startswith("another")]
    for name in rng.choice(own, WRONG, replace=False):
        yield str(name), KINDS[name](made, rng)


def errors(draws: np.ndarray, truth: Reference, heavy: np.ndarray) -> tuple[dict[str, float], float]:
    """Return the largest error of each kind, and of all beyond three standard errors of the reference.

    Draws have shape (S, D); of coordinates that are `heavy`, shape (D,), median and quartile spread are judged.
    """
    own, sturdy = figures(draws), figures(draws, robust=True)
    upper = np.triu_indices(len(heavy), 1)
    kept = ~(heavy[upper[0]] | heavy[upper[1]])
    gaps = {"correlation": (np.abs(own.correlation - truth.moments.correlation)[kept], truth.error.correlation[kept])}
    for name, moment, quartile in (
        ("mean", _gap(own, truth.moments, truth.error), _gap(sturdy, truth.robust, truth.robust_error)),
        ("sd", _ratio(own, truth.moments, truth.error), _ratio(sturdy, truth.robust, truth.robust_error)),
    ):
        gaps[name] = tuple(np.where(heavy, q, m) for m, q in zip(moment, quartile, strict=True))
    beyond = max(float((gap - 3.0 * se).max(initial=0.0)) for gap, se in gaps.values())
    return {name: float(gap.max(initial=0.0)) for name, (gap, _) in gaps.items()}, beyond


def _gap(found: Figures, truth: Figures, error: Figures) -> tuple[np.ndarray, np.ndarray]:
    return np.abs(found.location - truth.location) / truth.scale, error.location / truth.scale


def _ratio(found: Figures, truth: Figures, error: Figures) -> tuple[np.ndarray, np.ndarray]:
    return np.abs(found.scale / truth.scale - 1.0), error.scale / truth.scale


def trial(idata: Any, core: bc.Coreset, problem: Problem, truth: Reference) -> Row:
    """Return what the certificate says of draws, and the truth of what it judges."""
    beta = idata.posterior["beta"].values
    flat = beta.reshape(-1, beta.shape[2])
    with np.errstate(all="ignore"):
        effective = min(float(ess(beta, kind).min()) for kind in ("bulk", "tail"))
    row: Row = {"chains": len(beta), "draws": beta.shape[1], "ESS": effective}
    heavy = np.full(beta.shape[2], problem.robust)
    begin = time.perf_counter()
    certificate = None
    try:
        certificate = bc.certify(idata, core, problem.data, progressbar=False)
        row["level"] = str(certificate.level)
        heavy |= certificate.coordinates["mean_error_sd"].isna().to_numpy()  # it judges medians there
    except DataError:
        row["level"] = "refused"
    except Exception as failure:  # to be seen in the table, not to end the run
        row["level"] = f"error: {type(failure).__name__}"
    row["seconds"] = time.perf_counter() - begin
    own, row["off"] = errors(flat, truth, heavy)
    row |= own
    if row["level"] == "corrected":
        better = certificate.idata.posterior["beta"].values.reshape(flat.shape)
        new, row["corrected off"] = errors(better, truth, heavy)
        row |= {f"corrected {name}": value for name, value in new.items()}
    return row


def study(number: int) -> list[Row]:
    """Return the trials of a cell; a lone row where there is no coreset or no reference."""
    warnings.filterwarnings("ignore")  # poor coresets and poor draws are the point
    which = cell(number)
    problem, rng = which.posterior, np.random.default_rng([13, number, 1])
    about = {
        "cell": number,
        "problem": which.problem,
        "D": problem.d,
        "family": problem.family,
        "prior": problem.prior,
        "method": which.method,
        "rows": which.rows,
        "sampler": which.sampler,
    }
    with threadpool_limits(1):
        truth = reference(problem)

        def build(seed: int) -> bc.Coreset:
            return bc.build_coreset(
                *problem.table, method=which.method, size=which.size, random_state=seed, **problem.design()
            )

        if truth is None:
            return [{**about, "trial": 0, "level": "no reference"}]
        try:
            core = build(number)
        except (DataError, ValueError):
            return [{**about, "trial": 0, "level": "no coreset"}]
        prior = PRIORS[problem.prior]
        idata = draw(which, core, number)
        made = Sampled(core, problem.family, prior, idata, lambda: draw(which, build(number + 10**6), 7))
        return [
            {**about, "trial": i, "kind": kind, **trial(idata, core, problem, truth)}
            for i, (kind, idata) in enumerate(shown(made, which, rng))
        ]
