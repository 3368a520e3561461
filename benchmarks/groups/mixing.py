"""What does an effective draw cost by the default sampler, MALA, PyMC's NUTS and nutpie? Gradients and seconds.

Calibrated coresets of 20 rows a column, 4 chains of 1,000 draws after 1,000, all defaults; of NUTS 250 draws after 500.
Effective draws are the smallest bulk ESS of a coefficient. Gradients are those after warm-up, seconds those of the
processor, warm-up and the search for the mode included; PyMC's NUTS is told without what its model costs to compile,
nutpie with it. "rare 0/1" are made: 13 factors, each with a level in half of the rows and others that become rarer.
"""

import resource
import warnings
from importlib.util import find_spec

import numpy as np

import bayescore as bc
from bayescore.numerics.chains import ess
from bayescore.samplers.mala import thinning
from benchmarks.commands import command
from benchmarks.problems import Table, _named, load, readable
from benchmarks.tables import publish

CHAINS = 4
PUBLISHED = ("phishing_libsvm", "covtype_ramp16pct", "w8a_train")
WIDE = 200  # columns from which NUTS is left out


def skewed() -> Table:
    """Draw 100,000 rows of 22 lognormal columns."""
    rng = np.random.default_rng(5)
    X = np.exp(rng.standard_normal((100_000, 22)))
    eta = (X - X.mean(axis=0)) / X.std(axis=0) @ np.linspace(-0.5, 0.5, 22) - 1.0
    return _named(X, np.where(eta + rng.logistic(size=len(X)) > 0, 1, -1))


def rare() -> Table:
    """Draw 32,000 rows of 13 factors: 123 columns of 0/1, with 13 ones in a row at most."""
    rng = np.random.default_rng(6)
    columns = []
    for levels in (10, *[11] * 5, *[10] * 5, 10, 11):
        shares = np.concatenate([[0.5], 0.5 * np.diff(1.0 - np.linspace(1.0, 0.0, levels) ** 3)])
        codes = rng.choice(levels, size=32_000, p=shares / shares.sum())
        columns.append(codes[:, None] == np.arange(1, levels))
    X = np.concatenate(columns, axis=1).astype(float)[:, :123]
    eta = X @ (rng.standard_normal(X.shape[1]) / 1.5) - 1.0
    return _named(X, np.where(eta + rng.logistic(size=len(X)) > 0, 1, -1))


def processor_seconds() -> float:
    """Return what this process and its children have used."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def coreset(name: str) -> bc.Coreset:
    made = {"skewed": skewed, "rare 0/1": rare}
    X, y = made[name]() if name in made else load(name)
    return bc.build_coreset(
        X,
        y,
        method="calibrated",
        size=20 * (X.shape[1] + 1),
        intercept=True,
        standardize=True,
        random_state=1,
        progressbar=False,
    )


def drawn(core: bc.Coreset, sampler: str) -> dict[str, float]:
    options = (
        {"sampler": sampler} if sampler in ("langevin", "mala") else {"sampler": "nuts", "draws": 250, "tune": 500}
    )
    if sampler == "nutpie":
        options["nuts_sampler"] = "nutpie"
    begin = processor_seconds()
    idata = bc.sample(core, "logistic", chains=CHAINS, cores=1, random_seed=1, progressbar=False, **options)
    seconds = processor_seconds() - begin
    stats = idata["sample_stats"]
    if sampler == "nuts":
        seconds = 3.0 * float(stats["process_time_diff"].sum())  # warm-up takes twice as long
    each = float(stats["n_steps"].mean()) if "n_steps" in stats else thinning(core.n_features)
    beta = idata["posterior"]["beta"].values
    bulk, tail = (float(ess(beta, method).min()) for method in ("bulk", "tail"))
    gradients = each * beta.shape[0] * beta.shape[1]
    return {
        "ESS": bulk,
        "tail ESS": tail,
        "gradients": gradients,
        "gradients a draw": gradients / bulk,
        "seconds": seconds,
        "ESS a second": bulk / seconds,
    }


@command("mixing")
def main() -> None:
    warnings.simplefilter("ignore", UserWarning)  # of coresets and of poor mixing: the figures say it
    rows = []
    small = bc.all_rows(np.eye(3).repeat(9, axis=0), np.arange(27) % 2, progressbar=False)
    samplers = ("langevin", "mala", "nuts", *(["nutpie"] if find_spec("nutpie") else []))
    for sampler in samplers[:2]:
        bc.sample(small, "logistic", sampler=sampler, draws=100, tune=100, progressbar=False)  # compiled
    for name in ("skewed", "rare 0/1", *readable(PUBLISHED)):
        core = coreset(name)
        for sampler in samplers[: 2 if core.n_features > WIDE else None]:
            rows.append(
                {"rows": name, "M": len(core), "D": core.n_features, "sampler": sampler, **drawn(core, sampler)}
            )
            publish("mixing", rows, digits=3)
