"""Coresets, bayescore's and others', of which the posterior is sampled by `bc.sample` (MALA, 4 x 1000 draws).

Uniform, quasi-Newton, GIGA and coreset MCMC's coresets have 20 D rows (GIGA: iterations), the size at which others are
compared. The grid of bayescore has 4 x 4000 draws, and those that `certify` corrects; that of coreset MCMC, whose own
20,000 draws count, moves that are turned by the Laplace approximation of all rows, and a rate in units of the weights
to begin with, 0.03 N / M: of 0.03, 0.1, 0.3 and 1 the best on ChemReact and normal rows, and the least tried.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import bayescore as bc
from benchmarks.rivals.coreset_mcmc import RATE, coreset_mcmc
from benchmarks.rivals.rival_methods import giga, quasi_newton
from benchmarks.rivals.rival_systems.found import PRIOR, Found, Rows, of_draws

PER_COLUMN = 20  # rows
MANY = 4000  # draws a chain


def sampled(core: bc.Coreset, seed: int, **mala: int) -> Any:
    """Return draws of the posterior of a coreset."""
    return bc.sample(core, prior=PRIOR, sampler="mala", random_seed=seed + 1, progressbar=False, **mala)


def of(build: Callable[[Rows], bc.Coreset], **mala: int) -> Callable[[Rows], Callable[[], Found]]:
    """Return the system that builds and samples."""

    def system(rows: Rows) -> Callable[[], Found]:
        def run() -> Found:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", UserWarning)
                core = build(rows)
            beyond = any("tolerance=" in str(one.message) for one in said)
            draws = sampled(core, rows.seed, **mala).posterior["beta"].values
            timed = f"whole; {len(core):,} rows, {core.method}{', its build warns' if beyond else ''}"
            return of_draws(draws, timed, core.params.get("passes", 1))

        return run

    return system


def built(method: str, per_column: int | None = None) -> Callable[[Rows], bc.Coreset]:
    """Return a builder; of the default size unless told."""

    def build(rows: Rows) -> bc.Coreset:
        told = {"size": min(per_column * rows.X.shape[1], len(rows.y) // 2)} if per_column else {}
        return bc.build_coreset(rows.X, rows.y, method=method, random_state=rows.seed, progressbar=False, **told)

    return build


def certified(rows: Rows) -> Callable[[], Found]:
    """Build, sample and certify; the draws are those that the certificate corrected."""

    def run() -> Found:
        core = built("auto")(rows)
        idata = sampled(core, rows.seed)
        certificate = bc.certify(idata, core, rows.X, rows.y, progressbar=False)
        draws = (certificate.idata or idata).posterior["beta"].values
        return of_draws(draws, f"whole; {len(core):,} rows, {certificate.level}", core.params.get("passes", 1))

    return run


def own_implementation(rows: Rows, which: str) -> Callable[[], Found]:
    """Sample the coreset of another paper, on all rows as they are."""

    def run() -> Found:
        size = PER_COLUMN * rows.X.shape[1]
        if which == "quasi-Newton":
            core = quasi_newton(rows.full, PRIOR, size, rows.seed)
        else:
            core = giga(rows.full, PRIOR, (size,), rows.seed)[size]["refitted" in which]
        return of_draws(sampled(core, rows.seed).posterior["beta"].values, f"whole; {len(core):,} rows")

    return run


def learnt(rows: Rows, turned: bool, share: float | None = None) -> Callable[[], Found]:
    """Run coreset MCMC on all rows, at its own rate or at a share of N / M."""

    def run() -> Found:
        full, (N, D) = rows.full, rows.X.shape
        mode = bc.find_map(full, "logistic", PRIOR) if turned else None
        root, before = (mode.factor, mode.n_steps) if mode else (np.eye(D), 0)
        M = min(PER_COLUMN * D, N // 2)
        rate = share * N / M if share else RATE
        draws, w, passes = coreset_mcmc(full, PRIOR.sigma, M, rows.seed, root=root, rate=rate)
        return of_draws(draws, f"whole; {np.count_nonzero(w):,} rows", before + passes)

    return run


DEFAULT = {
    "4 x 1000 draws": of(built("auto")),
    "certify's draws": certified,
    f"4 x {MANY} draws": of(built("auto"), draws=MANY),
}
CONDENSED = {"default size": of(built("condensed")), f"4 x {MANY} draws": of(built("condensed"), draws=MANY)}
UNIFORM = {f"{each} D rows": of(built("uniform", each)) for each in (PER_COLUMN, 10 * PER_COLUMN)}
QUASI_NEWTON = {"20 D rows": lambda rows: own_implementation(rows, "quasi-Newton")}
GIGA = {
    "20 D iterations": lambda rows: own_implementation(rows, "GIGA"),
    "weights refitted": lambda rows: own_implementation(rows, "GIGA, refitted"),
}
CORESET_MCMC = {
    "20 D rows": lambda rows: learnt(rows, turned=False),
    "moves turned": lambda rows: learnt(rows, turned=True),
    "moves turned, rate 0.03 N / M": lambda rows: learnt(rows, turned=True, share=0.03),
}
