"""Are draws of group terms and smooths calibrated? One factor, crossed factors, slopes with their correlation or none.

Coefficients, sds, the correlation, effects and labels are drawn from the prior: 20 groups of 6 rows, 12 x 8 levels and
two rows a cell, or 12 groups of 12 rows with a slope; `uncorrelated` is (1 + x || a) where x is 5 with sd 1;
or 150 rows of s(x, k=8), with the curve at a row. `many slopes` are 1,500 groups of 12 rows with a slope, whose effects
integrate out. `scale` is that of the half normal prior of sds. Ranks of the truth among 99 draws are uniform if all is
right: `p_value` is that of a chi-square test of ten bins. `control` is that of draws under another prior of the sds,
with half the scale, of many slopes of rows that count twice; it must be small for the sds. The control has 40 trials,
of many slopes 13, in rows with 200 trials as many. By chance the smallest p-value of all rows is below the printed
limit in 1% of runs.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

import bayescore as bc
from benchmarks.calibration.ranks import binned_p_values, rank
from benchmarks.commands import command
from benchmarks.tables import known_rows, publish

DRAWS = 99
PRIOR = bc.priors.Normal(0.0, 1.0)
CONTROLS = 40  # trials of the control, which a wrong prior of the sds makes fail soon
CASES = {
    "crossed": ("crossed", 1.0),
    **{f"{kind} {scale:g}": (kind, scale) for kind in ("slopes", "one factor") for scale in (0.1, 1.0, 5.0)},
    "uncorrelated": ("uncorrelated", 0.3),
    **{f"smooth {scale:g}": ("smooth", scale) for scale in (0.1, 1.0, 5.0)},
    "many slopes": ("many slopes", 0.7),
}
TERMS = {
    "crossed": "y ~ x + (1 | a) + (1 | b)",
    **dict.fromkeys(("slopes", "many slopes"), "y ~ x + (1 + x | a)"),
    "one factor": "y ~ x + (1 | a)",
    "uncorrelated": "y ~ x + (1 + x || a)",
    "smooth": "y ~ s(x, k=8)",
}
NAMES = {
    "crossed": ("intercept", "x", "sigma a", "sigma b", "u of the first a", "u of the first b"),
    **dict.fromkeys(
        ("slopes", "many slopes"),
        ("intercept", "x", "sigma", "sigma of x", "correlation", "u of the first", "slope of the first"),
    ),
    "one factor": ("intercept", "x", "sigma", "u of the first"),
    "uncorrelated": ("intercept", "x", "sigma", "sigma of x", "u of the first", "slope of the first"),
    "smooth": ("intercept", "linear", "sigma", "curve"),
}


def simulated(kind: str, seed: int, scale: float) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows and the truth of each quantity."""
    rng = np.random.default_rng([seed, len(kind)])
    beta, sigma = rng.normal(size=2), np.abs(rng.normal(size=2)) * scale
    if kind == "smooth":
        x, a = rng.normal(size=150), np.arange(150)
        b, X = a, bc.all_rows(pd.DataFrame({"x": x, "y": a % 2}), formula=TERMS[kind], progressbar=False).X
        effects = X[:, 2:] @ (sigma[0] * rng.normal(size=X.shape[1] - 2))
        told = [sigma[0], effects[0]]
    elif kind == "crossed":
        a, b = np.repeat(np.arange(12), 16), np.tile(np.repeat(np.arange(8), 2), 12)
        u, v = sigma[0] * rng.normal(size=12), sigma[1] * rng.normal(size=8)
        x = rng.normal(size=len(a))
        effects, told = u[a] + v[b], [*sigma, u[0], v[0]]
    elif kind == "one factor":
        a = b = np.repeat(np.arange(20), 6)
        u, x = sigma[0] * rng.normal(size=20), rng.normal(size=len(a))
        effects, told = u[a], [sigma[0], u[0]]
    else:
        n_groups, each = (1500, 12) if kind == "many slopes" else (12, 12)
        a = b = np.repeat(np.arange(n_groups), each)
        rho = 0.0 if kind == "uncorrelated" else 2.0 * rng.beta(2.0, 2.0) - 1.0  # LKJ(2)
        z = rng.normal(size=(2, n_groups))
        u, v = sigma[0] * z[0], sigma[1] * (rho * z[0] + np.sqrt(1.0 - rho**2) * z[1])
        x = rng.normal(5.0 if kind == "uncorrelated" else 0.0, 1.0, size=len(a))
        effects, told = u[a] + v[a] * x, [*sigma, *([] if kind == "uncorrelated" else [rho]), u[0], v[0]]
    y = rng.random(len(a)) < 1.0 / (1.0 + np.exp(-(beta[0] + beta[1] * x + effects)))
    return pd.DataFrame({"x": x, "a": a, "b": b, "y": y.astype(int)}), np.array([*beta, *told])


def ranks(kind: str, seed: int, scale: float, *, control: bool = False) -> np.ndarray | None:
    """Return the rank of the truth of each quantity for one data set; None if its labels are all alike."""
    frame, truth = simulated(kind, seed, scale)
    if frame.y.nunique() < 2:
        return None
    kept = {"draws": 2 * (DRAWS + 1), "tune": 300, "chains": 2, "random_seed": seed, "progressbar": False, "cores": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = bc.all_rows(frame, formula=TERMS[kind], progressbar=False)
        if many := kind == "many slopes" and control:
            core = replace(core, weights=2.0 * core.weights)
        group_prior = bc.priors.HalfNormal(scale / 2.0 if control and not many else scale)
        posterior = bc.sample(core, prior=PRIOR, group_prior=group_prior, **kept)["posterior"]
    parts = [posterior["beta"].values]
    if kind == "smooth":
        parts = [posterior["beta"].values[..., :2], posterior["sigma_s(x, k=8)"].values[..., None]]
        parts += [posterior["beta"].values[..., 2:] @ core.X[0, 2:, None]]
    elif kind == "crossed":
        parts += [posterior[name].values[..., None] for name in ("sigma_a", "sigma_b")]
        parts += [posterior[name].values[..., :1] for name in ("u_a", "u_b")]
    elif kind == "one factor":
        parts += [posterior["sigma_a"].values[..., None], posterior["u_a"].values[..., :1]]
    else:
        parts += [posterior[name].values for name in ("sigma_a", "rho_a") if name in posterior]
        parts += [posterior["u_a"].values[:, :, 0]]
    draws = np.concatenate(parts, axis=2)[:, 3::4]  # far enough apart
    return rank(draws.reshape(-1, draws.shape[2])[:DRAWS], truth)


@command("several_terms_sbc", sets=tuple(CASES))
def main(trials: int = 200, only: Sequence[str] = tuple(CASES)) -> None:
    """Test the ranks of some cases, and of the control, and keep the rows of the others."""
    found = {}
    for name in only:
        kind, scale = CASES[name]
        own, control = (
            np.array([each for seed in range(count) if (each := ranks(kind, seed, scale, control=wrong)) is not None])
            for wrong, count in ((False, trials), (True, min(trials, CONTROLS)))
        )
        p, q = (binned_p_values(each, DRAWS + 1) for each in (own, control))
        about = {"kind": kind, "scale": scale, "trials": len(own)}
        found[name] = [
            {**about, "quantity": each, "p_value": p[i], "control": q[i]} for i, each in enumerate(NAMES[kind])
        ]
    rows, known = [], known_rows("several_terms_sbc")  # what other runs wrote meanwhile, too
    for name, case in CASES.items():
        rows += found.get(name) or [row for row in known if (row["kind"], row["scale"]) == case]
    least = min(row["p_value"] for row in rows)
    print(
        f"smallest of {len(rows)} p-values {least:.3g}, by chance below {stats.beta(1, len(rows)).ppf(0.01):.2g} in 1%"
    )
    publish("several_terms_sbc", rows)
