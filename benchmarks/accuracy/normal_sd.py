"""Are draws of numbers whose noise has an unknown sd right? Beside closed forms, averaged over grids of the sds.

The reference has the prior HalfStudentT(3, 2.5 sd(y)) of the sd, and the default priors of all else: closed forms given
the sd, and with `(1 | g)` given sigma too, averaged over a grid of their logarithms, from all rows. Errors are the
largest of all coefficients; the Monte Carlo error of 4,000 independent draws is 0.016 sd of a mean, and 1.1% of an sd.
"nu" is the degrees of freedom by which the sd is known. Columns of "given" are a control: the closed forms given the sd
at its mode.

Made sets have lognormal, t4, rare 0/1 and normal columns. Published ones are ratings of lectures (insteval) and
values of vehicles (ausprivauto0405). CPU seconds are of build and draws.
"""

import time
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.priors.groups import autoscaled, log_sigma_terms
from bayescore.types import FloatArray
from benchmarks.commands import command
from benchmarks.problems import SHARED, uneven_columns
from benchmarks.tables import publish

QUIET = {"progressbar": False}
PUBLISHED = {
    "insteval": "rating ~ studage + lectage + service + C(dept)",
    "ausprivauto0405": "VehValue ~ VehAge + VehBody + Gender + DrivAge",
}
SD = 3.0  # of the noise of made sets
NODES = 45, 151  # of log sd and log sigma
REACH = 7.0  # sds of the grids to each side
TURNS = 8  # of grids that narrow
GRIDS = [(2.0, 0.0), (4.0, -1.0)]  # half width and centre of the first grids, in logarithms over the sd found
MADE = {"2,000 rows": (2000, 5), "a million rows": (1_000_000, 11), "90 rows": (90, 4), "12 rows": (12, 4)}
GROUPED = {
    "40 rows in 5 groups": (40, 4, 5, 2.0),
    "2,000 rows in 40 groups": (2000, 5, 40, 1.0),
    "a million rows in 500 groups": (1_000_000, 5, 500, 0.7),
    "2,000 rows in 700 groups": (2000, 5, 700, 2.0),
    "2,000 rows in 700 groups, no effects": (2000, 5, 700, 0.0),
}
RATINGS = "rating ~ studage + lectage + service + (1 | d)"


def made(n: int, d: int, n_groups: int = 0, sigma: float = 0.0) -> tuple[pd.DataFrame, str]:
    """Return rows, and their formula."""
    rng = np.random.default_rng([n, d, n_groups])
    X = uneven_columns(n, d - 1, 0.01 if n > 100 else 0.3, rng, log_sd=1.0)
    rows = pd.DataFrame(X, columns=[f"x{k}" for k in range(d - 1)])
    formula = f"y ~ {' + '.join(rows.columns)}"
    y = 7.0 + X @ np.linspace(1.0, -0.8, d - 1) + rng.normal(0.0, SD, n)
    if n_groups:
        code = rng.integers(0, n_groups, n)
        rows["g"], y, formula = code, y + sigma * rng.normal(size=n_groups)[code], f"{formula} + (1 | g)"
    return rows.assign(y=y), formula


@dataclass(frozen=True, eq=False)
class Exact:
    """Closed forms given log sd and log sigma, of all rows."""

    sums: tuple[FloatArray, FloatArray, float]  # X'X, X'r and r'r of residuals about the prior's means
    groups: tuple[FloatArray, FloatArray, FloatArray]  # counts, sums of X and of r; of no groups empty
    prior: tuple[FloatArray, FloatArray]  # means and sds
    scale: float  # of the priors of sds
    n: int

    @classmethod
    def of(
        cls, rows: bc.Coreset, prior: tuple[FloatArray, FloatArray] | None = None, scale: float | None = None
    ) -> "Exact":
        """Return those of all rows, under the default priors or given ones."""
        if prior is None:
            default = autoscaled(rows)
            prior = np.array(default.mu), np.array(default.sigma)
        X, r = rows.X, -rows.offset - rows.X @ prior[0]
        codes, G = np.zeros(len(X), dtype=int), 0
        if rows.group is not None:
            codes, G = rows.group[:, 0], len(rows.groups[0])
        count, of_r = (np.bincount(codes, w, G)[:G].astype(float) for w in (None, r))
        of_x = np.stack([np.bincount(codes, column, G)[:G] for column in X.T], axis=1)
        scale = 2.5 * float(np.std(rows.offset)) if scale is None else scale
        return cls((X.T @ X, X.T @ r, float(r @ r)), (count, of_x, of_r), prior, scale, len(X))

    def at(self, log_sd: float, log_sigma: float) -> tuple[float, FloatArray, FloatArray]:
        """Return the log density of both, and means and variances of the coefficients given them."""
        (square, pull, rest), (count, of_x, of_r) = self.sums, self.groups
        sd2, v = np.exp(2.0 * log_sd), np.exp(2.0 * log_sigma)
        share = v / (sd2 * (sd2 + v * count))
        A = square / sd2 - (of_x.T * share) @ of_x + np.diag(self.prior[1] ** -2.0)
        b = pull / sd2 - of_x.T @ (share * of_r)
        moved = np.linalg.solve(A, b)
        value = 0.5 * (b @ moved - rest / sd2 + share @ of_r**2 - np.linalg.slogdet(A)[1])
        value -= self.n * log_sd + 0.5 * np.log1p(v * count / sd2).sum()
        value += log_sigma_terms(log_sd, 3.0, self.scale)[0]
        if len(count):
            value += log_sigma_terms(log_sigma, 3.0, self.scale)[0]
        return float(value), self.prior[0] + moved, np.diagonal(np.linalg.inv(A))

    def moments(self, sd: float, *, given: bool) -> tuple[FloatArray, FloatArray]:
        """Return means and sds of coefficients and log sigma, with the sd given, or unknown and near it."""
        middle = np.log(sd) + np.array([own[1] for own in GRIDS])
        wide = np.array([own[0] for own in GRIDS])
        n_nodes = 1 if given else NODES[0], NODES[1] if len(self.groups[0]) else 1
        for _ in range(TURNS):
            axes = [
                np.linspace(at - far, at + far, k) if k > 1 else np.array([np.log(sd) if f == 0 else -np.inf])
                for f, (at, far, k) in enumerate(zip(middle, wide, n_nodes, strict=True))
            ]
            points = np.array([(a, b) for a in axes[0] for b in axes[1]])
            found = [self.at(*point) for point in points]
            values = np.array([own[0] for own in found])
            weights = np.exp(values - values.max())
            weights /= weights.sum()
            points[~np.isfinite(points)] = 0.0
            middle = weights @ points
            spread = np.sqrt(weights @ (points - middle) ** 2)
            wide = np.maximum(REACH * spread, 3.0 * wide / np.array(NODES))
        log_sigma = points[:, [1]] if len(self.groups[0]) else np.empty((len(points), 0))
        means = np.column_stack([np.array([own[1] for own in found]), log_sigma])
        mean = weights @ means
        inside = np.column_stack([np.array([own[2] for own in found]), np.zeros_like(log_sigma)])
        return mean, np.sqrt(weights @ (inside + (means - mean) ** 2))


def compared(name: str, rows: pd.DataFrame, formula: str) -> dict:
    """Return the figures of one set."""
    told = {"formula": formula, "standardize": True, "family": "normal", **QUIET}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        core = bc.build_coreset(rows, **told)
        drawn = bc.sample(core, random_seed=1, **QUIET).posterior
        seconds = time.process_time() - start
        everything = bc.all_rows(rows, **told)
    exact, sd, D = Exact.of(everything), core.params["sd"], core.n_features
    mean, spread = exact.moments(sd, given=False)
    draws = drawn["beta"].values.reshape(-1, D)
    grouped = core.group is not None
    if grouped:
        draws = np.column_stack([draws, np.log(drawn[f"sigma_{core.groups[0].name}"].values.ravel())])
    gaps, ratio = (draws.mean(axis=0) - mean) / spread, draws.std(axis=0) / spread - 1.0
    given = exact.moments(sd, given=True)[1] / spread - 1.0
    found = {
        "set": name,
        "N": len(everything),
        "D": D,
        "CPU s": seconds,
        "nu": core.params["sd_freedom"],
        "means (sd)": float(np.abs(gaps[:D]).max()),
        "sds": float(ratio[np.abs(ratio[:D]).argmax()]),
        "log sigma (sd)": float(gaps[D]) if grouped else None,
        "its sd": float(ratio[D]) if grouped else None,
        "given, sds": float(given[np.abs(given[:D]).argmax()]),
        "given, its sd": float(given[D]) if grouped else None,
    }
    print(found, flush=True)
    return found


@command("normal_sd")
def main() -> None:
    """Write the table."""
    found = [compared(name, *made(*own)) for name, own in MADE.items()]
    published = pd.read_parquet(SHARED / "ausprivauto0405.parquet")
    found.append(compared("ausprivauto0405", published, PUBLISHED["ausprivauto0405"]))
    found += [compared(name, *made(*own)) for name, own in GROUPED.items()]
    found.append(compared("insteval", pd.read_parquet(SHARED / "insteval.parquet"), RATINGS))
    publish("normal_sd", found)
