"""The landing page's figures and certificates, each with the page that has its recipe; drawn in light and dark."""

import base64
import html
import io
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import HTML
from matplotlib.figure import Figure

import bayescore as bc

LIGHT = {"savefig.transparent": True, "axes.spines.top": False, "axes.spines.right": False}
DARK = LIGHT | dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), "#d6dbe1"
)
BLUE, ORANGE, GREEN = "#1f8ac9", "#e0701c", "#12a37b"  # of like lightness on both grounds; markers differ, too
SIZE = (4.4, 2.9)  # inches
SEED = 1


def svg(figure: Figure) -> str:
    """Return a figure as the address of an image."""
    kept = io.BytesIO()
    figure.savefig(kept, format="svg", metadata={"Date": None})
    plt.close(figure)
    return "data:image/svg+xml;base64," + base64.b64encode(kept.getvalue()).decode()


def card(draw: Callable[[Any, str], str], page: str, title: str) -> str:
    """Return one figure, in both looks, as a link to its recipe; `draw` returns its description."""
    images = ""
    for look, ink, rc in (("only-light", "#1d1f21", LIGHT), ("only-dark", "#d6dbe1", DARK)):
        with plt.rc_context(rc | {"svg.hashsalt": title}):
            figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
            said = draw(axes, ink)
            images += f'<img class="{look} dark-light" src="{svg(figure)}" alt="{html.escape(said)}">'
    return f'<a class="figure-card" href="{page}"><span class="figure-title">{title}</span>{images}</a>'


@cache
def register() -> tuple[pd.DataFrame, bc.Coreset]:
    """Return a made-up health register, and all its rows as weighted data."""
    rng = np.random.default_rng(0)
    n = 20_000
    rows = pd.DataFrame(
        {
            "age": rng.uniform(18, 75, n).round(),
            "dose": rng.uniform(0, 3, n),
            "region": rng.choice(["east", "north", "south"], n, p=[0.6, 0.3, 0.1]),
        }
    )
    logit = 0.03 * rows["age"] + 0.5 * rows["dose"] - 0.1 * rows["dose"] ** 2 - 3.5 + 0.7 * (rows["region"] == "north")
    rows["ill"] = logit + rng.logistic(size=n) > 0
    return rows, bc.all_rows(rows, formula=FORMULA, standardize=True, progressbar=False)


FORMULA = "ill ~ age + dose + region"


@cache
def fitted(formula: str = FORMULA, **options: Any) -> tuple[Any, bc.Coreset, Any]:
    """Return posterior, coreset and certificate of the register."""
    rows, _ = register()
    core = bc.build_coreset(
        rows,
        formula=formula,
        standardize=True,
        random_state=SEED,
        progressbar=False,
        **{"method": "calibrated"} | options,
    )
    idata = bc.sample(core, random_seed=SEED, progressbar=False)
    return idata, core, bc.certify(idata, core, rows, progressbar=False)


@cache
def of_all_rows() -> Any:
    """Return the draws of the posterior of all rows."""
    idata = bc.sample(register()[1], draws=500, tune=500, random_seed=SEED + 1, progressbar=False)
    return idata.posterior["beta"]


@cache
def mean_errors() -> pd.DataFrame:
    """Return the largest error of a posterior mean, in sds of all rows' posterior, by size and method."""
    rows, _ = register()
    over = ("chain", "draw")
    exact = of_all_rows()
    found = {}
    for method in ("uniform", "sensitivity", "calibrated"):
        for size in (100, 300, 900):
            options = {"method": method, "size": size, "standardize": True, "random_state": SEED}
            core = bc.build_coreset(rows, formula=FORMULA, progressbar=False, **options)
            beta = bc.sample(core, random_seed=SEED, progressbar=False).posterior["beta"]
            found[method, size] = float(np.abs((beta.mean(over) - exact.mean(over)) / exact.std(over)).max())
    return pd.Series(found).unstack(0)


def methods(axes: Any, _: str) -> str:
    """Draw errors by method and size."""
    table = mean_errors()
    for method, colour, marker in (("uniform", ORANGE, "s"), ("sensitivity", BLUE, "^"), ("calibrated", GREEN, "o")):
        axes.plot(table.index, table[method], color=colour, marker=marker, label=method)
    axes.set(xscale="log", yscale="log", xlabel="rows of the coreset", ylabel="largest error of a mean (sd)")
    axes.set_xticks(table.index, table.index.astype(str))
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9, loc="center right")
    worst = table.iloc[-1]
    return (
        "Largest error of a posterior mean by method and size, Monte Carlo error included: at 900 rows uniform "
        f"{worst['uniform']:.1f} sd, sensitivity {worst['sensitivity']:.1f}, calibrated {worst['calibrated']:.2f}."
    )


def intervals(axes: Any, ink: str) -> str:
    """Draw the coreset's intervals beside those of all rows."""
    _, full = register()
    exact = of_all_rows()
    for shift, beta, colour, marker, name in (
        (-0.12, exact, ink, "o", "all 20,000 rows"),
        (0.12, fitted()[0].posterior["beta"], GREEN, "s", f"coreset of {len(fitted()[1])} rows"),
    ):
        low, mean, high = (
            beta.quantile(0.05, ("chain", "draw")),
            beta.mean(("chain", "draw")),
            beta.quantile(0.95, ("chain", "draw")),
        )
        at = np.arange(mean.size) + shift
        axes.errorbar(mean, at, xerr=[mean - low, high - mean], fmt=marker, color=colour, ms=4, label=name)
    axes.set_yticks(range(mean.size), list(full.feature_names))
    axes.invert_yaxis()
    axes.set(xlabel="coefficient, mean and 90% interval", ylim=(6.2, -0.6))
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return "Means and 90% intervals of five coefficients: those of the coreset lie on those of all rows."


def levels(axes: Any, _: str) -> str:
    """Draw average predictions by region."""
    idata, core, _ = fitted()
    fit = bc.Fit.from_draws(idata, core, register()[0], progressbar=False)
    found = fit.average_predictions(variables="region").set_index("region")
    reach = [found["mean"] - found["2.5%"], found["97.5%"] - found["mean"]]
    axes.errorbar(found["mean"], np.arange(len(found)), xerr=reach, fmt="o", color=BLUE, ms=5)
    axes.set_yticks(range(len(found)), list(found.index))
    axes.set(xlabel="average probability of illness, 95% interval", ylim=(-0.6, len(found) - 0.4))
    return "Average predicted probabilities of illness by region: " + ", ".join(
        f"{name} {value:.2f}" for name, value in found["mean"].items()
    )


def stream(axes: Any, ink: str) -> str:
    """Draw what a stream predicts of its own error."""
    points = stream_errors()
    axes.plot([rows / 1000 for rows, _ in points], [error for _, error in points], color=GREEN, marker="o", ms=4)
    axes.axhline(0.05, color=ink, lw=0.8, ls=":")
    axes.set(xlabel="rows so far (thousands)", ylabel="predicted error (posterior sd)", ylim=(0, None))
    rows, error = points[-1]
    return f"Error that a stream predicts of its posterior means: {error:.3f} sd after {rows:,} rows."


@cache
def stream_errors() -> list[tuple[int, float]]:
    """Return rows so far and the predicted error of a mean."""
    _, full = register()
    found = []
    kept = bc.stream(size=200, leaf_rows=2_000, random_state=SEED)
    for start in range(0, full.n_total, 2_000):
        kept.partial_fit(full.X[start : start + 2_000], full.y[start : start + 2_000])
        core = kept.coreset()
        found.append((core.n_total, core.params["mean_error"]))
    return found


def elpd(axes: Any, ink: str) -> str:
    """Draw differences of elpd between formulas."""
    names = ("ill ~ age + dose + region", "ill ~ age * region + dose", "ill ~ age + dose")
    table = comparison(names)
    axes.errorbar(table["elpd_diff"], np.arange(len(table)), xerr=2 * table["dse"], fmt="D", color=BLUE, ms=5)
    axes.axvline(0, color=ink, lw=0.8, ls=":")
    axes.set_yticks(range(len(table)), [name.removeprefix("ill ~ ") for name in table.index])
    axes.invert_yaxis()
    axes.set(xlabel="elpd less the best one's (nats), ± 2 se", ylim=(len(table) - 0.5, -0.5))
    return "Differences of elpd to the best model: " + ", ".join(
        f"{name} {value:.0f}" for name, value in table["elpd_diff"].items()
    )


@cache
def comparison(names: tuple[str, ...]) -> pd.DataFrame:
    """Return the table of `loo_compare` of some formulas."""
    return bc.loo_compare({name: fitted(name)[:2] for name in names}, register()[0], progressbar=False)


def separated(axes: Any, _: str) -> str:
    """Draw the posterior of a rare treatment's coefficient under two priors."""
    for (name, draws), colour, line in zip(rare_treatment().items(), (ORANGE, BLUE), ("-", "--"), strict=True):
        axes.hist(
            draws, np.linspace(-16, 2, 50), density=True, histtype="step", color=colour, ls=line, lw=1.6, label=name
        )
    axes.set(xlabel="coefficient of a treatment without events (log odds ratio)", yticks=[])
    axes.set_ylim(top=1.35 * axes.get_ylim()[1])
    axes.spines["left"].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return "Two posteriors of a coefficient that the labels separate: the prior says how far below -3 it reaches."


@cache
def rare_treatment() -> dict[str, Any]:
    """Return draws of the coefficient of a treatment that nobody with the event had, by prior."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    X[:, 1] = rng.random(20_000) < 0.01
    y = (X[:, 0] + rng.logistic(size=20_000) > 0) & (X[:, 1] == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the labels are separated, which is the point
        core = bc.build_coreset(X, y, intercept=True, random_state=SEED, progressbar=False)
        draws = {}
        for prior in (bc.priors.Normal(0, 4), bc.priors.StudentT(3, 0, 2.5)):
            idata = bc.sample(core, prior=prior, random_seed=SEED, progressbar=False)
            draws[str(prior)] = idata.posterior["coef"].sel(feature="x1").values.ravel()
    return draws


def cards() -> HTML:
    """Return the six figures."""
    own = (
        card(methods, "how-to/choose.html", "Which method, which size"),
        card(intervals, "how-to/report.html", "Beside the posterior of all rows"),
        card(levels, "how-to/table.html", "Average predictions from a table"),
        card(stream, "how-to/stream.html", "A stream says how far off it is"),
        card(elpd, "how-to/compare-models.html", "Which model predicts better"),
        card(separated, "how-to/separated.html", "Separated labels"),
    )
    return HTML(f'<div class="figure-cards">{"".join(own)}</div>')


def verdicts() -> HTML:
    """Return two certificates side by side: of a calibrated coreset, and of rows drawn blindly, which have no event."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = X @ [1.0, -0.5] - 6.2 + rng.logistic(size=20_000) > 0
    panels = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that rows of one label will not do, which is the point
        for look, options in (("good", {"method": "calibrated"}), ("bad", {"method": "uniform", "size": 100})):
            core = bc.build_coreset(X, y, intercept=True, random_state=SEED, progressbar=False, **options)
            idata = bc.sample(core, random_seed=SEED, progressbar=False)
            certificate = bc.certify(idata, core, X, y, progressbar=False)
            call = ", ".join(f"{name}={value!r}" for name, value in options.items())
            panels += (
                f'<section class="verdict {look}" aria-label="{certificate.level}"><code>{call}</code>'
                f"<pre>{html.escape(repr(certificate))}</pre></section>"
            )
    return HTML(f'<div class="verdicts">{panels}</div>')
