"""The page of a certificate with groups: variance between groups, their effects, and what the flat page has.

`group_certificate.html.j2` holds the order.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.matching import check_no_pseudo, check_same_design
from bayescore.diagnostics.group_draws import GroupEffects, read_effects, with_scales
from bayescore.diagnostics.health import health
from bayescore.diagnostics.model_check import check_model
from bayescore.diagnostics.report import group_plots, page, plots, tables
from bayescore.diagnostics.report.drawing import INTERVAL
from bayescore.diagnostics.results import CertificateData
from bayescore.diagnostics.wording import number, with_error
from bayescore.files import whole_file
from bayescore.models.group_priors import group_prior_from_dict
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

FIGURES = {name: tables.FIGURES[name] for name in ("Pareto k‑hat", "ESS of draws")} | {
    "Sd of log ratio": "Standard deviation of the log weights: how far the coreset's marginal posterior of the "
    "coefficients and log sigma, effects integrated out, is from the full data's.",
    "Predicted error (sd)": tables.FIGURES["Predicted error (sd)"] + " Of the coefficients and log sigma.",
    "Worst effect's mean (sd)": "Largest error of the mean of a group's effect, in sds of that effect.",
    "Worst effect's sd (%)": "Largest relative error of the sd of a group's effect.",
    "elpd, groups left out": "Expected log predictive density of as many new groups as the full data have, in nats, "
    "estimated by leaving one group out at a time; ± is one standard error over groups. A dash where the weights "
    "cannot be trusted.",
}
TERMS = {
    "Partial pooling": "What a multilevel model does to the effect of a group: it draws it towards the average of all "
    "groups, the more the fewer rows the group has and the less groups differ.",
    "Intraclass correlation": "sigma² / (sigma² + the variance of a label's latent variable given its row): the "
    "correlation of the latent variables of two rows of one group.",
    "Pseudo-row": "Successes and failures at one place, no row of the data, that tell of a group's effect what its "
    "rows tell.",
}


def write_group_certificate(
    certificate: CertificateData,
    idata: Any,
    core: Coreset,
    path: str | Path,
    *,
    test: WeightedData | None,
    title: str,
    command: str | None,
) -> None:
    """Write a certificate of draws with groups to one HTML file; see `write_certificate`.

    Raises
    ------
    DataError
        If the posterior has no effects, or other features than the certificate; if `test` has another design, or rows
        of new groups.
    OSError
        If the file cannot be written; an earlier file of that name is then untouched.
    """
    posterior = read_posterior(idata, "idata")
    joint = with_scales(idata, posterior, core.groups)
    tables.check_certificate(certificate, joint.features, "certificate")
    if test is not None:
        check_same_design(test, posterior.features, core.design, "test")
        check_no_pseudo(test, "test")
        if test.group is None or (test.group < 0).any():
            raise DataError("test has rows of groups that the coreset does not know; leave them out")
    with whole_file(path) as partial:
        partial.write_text(
            _render(certificate, idata, posterior, core, test, Path(path).name, title, command), encoding="utf-8"
        )


def _render(
    certificate: CertificateData,
    idata: Any,
    posterior: Posterior,
    core: Coreset,
    test: WeightedData | None,
    file_name: str,
    title: str,
    command: str | None,
) -> str:
    rows, note = tables.coefficients(certificate, len(certificate.coordinates))
    about, name, found = core.summary(), f"{core.method} {len(core):,}", certificate.effects
    best_idata = idata if certificate.idata is None else certificate.idata
    best, effects = read_posterior(best_idata, "idata"), read_effects(best_idata)
    joint = with_scales(idata, posterior, core.groups)
    n_groups, count = len(effects.levels), len(best.features)
    counted = None if found.empty else found.droplevel([0, 2])[["weight", "share"]]
    checked = test if test is not None else None if core.pseudo.any() else core
    fit = None if checked is None else check_model(best, checked)
    group_rows, left_out = ([], "") if found.empty else _worst(certificate)
    return page.render(
        "group_certificate.html.j2",
        title=title,
        scope=f"{len(core):,} weighted rows for {core.n_total:,} in {n_groups:,} groups of {effects.factor}, {count} "
        f"coefficient{'s' * (count > 1)}",
        verdicts={name: certificate},
        trusted=certificate.trusted,
        figure_labels=list(FIGURES),
        figure_rows={name: _figures(certificate)},
        data=page.data_facts(about, None if counted is None else _overall(counted.to_numpy()))
        | {"Groups": _sizes(effects, counted)},
        factor=effects.factor,
        n_groups=n_groups,
        components=_components(best_idata, effects.factor),
        component_labels=["Mean", "Sd", f"{INTERVAL:.0%} interval"],
        prose=_prose(best_idata, effects),
        caterpillar=page.picture(group_plots.caterpillar, effects),
        shrinkage=None if counted is None else page.picture(group_plots.shrinkage, effects, counted),
        group_rows=group_rows,
        group_note=left_out,
        image=page.picture(plots.corrected, certificate, joint),
        rows=rows,
        note=note,
        effects=tables.effects(best, core.design),
        effects_of="corrected" if certificate.idata is not None else "coreset's",
        priors=[*tables.priors(posterior), (f"sigma_{effects.factor}", *[_group_prior(posterior)] * 2)],
        prior_scale=posterior.attrs.get("prior_scale", ""),
        fit=fit,
        fit_image=None if fit is None else page.picture(plots.model_check, fit, core.classes),
        positive=str(core.classes[1]),
        fit_rows="the coreset's weighted rows" if test is None else "test rows",
        health={"posterior": health(joint)},
        facts=page.coreset_facts(about, core.weights) | page.parameters(about),
        attrs={"posterior": posterior.attrs},
        terms=FIGURES | page.terms(page.CERTIFICATES) | TERMS | page.HEALTH_TERMS,
        command=command,
        snippet=page.certify_snippet(certificate, core, test, file_name)
        + "bc.plots.plot_caterpillar(idata)\nbc.plots.plot_shrinkage(idata, certificate.effects)\n",
    )


def _figures(certificate: CertificateData) -> list[tuple[str, str]]:
    """Return figures and their standard errors as text, in the order of FIGURES."""
    k, ess, _, spread, predicted, _ = tables.figures(certificate)
    mean, sd = "–", "–"
    if not certificate.effects.empty:
        mean = number(float(certificate.effects["mean_error_sd"].abs().max()), 2)
        sd = number(100.0 * float(np.expm1(certificate.effects["log_sd_error"].abs().max())), 2)
    return [
        k,
        ess,
        spread,
        predicted,
        (mean, ""),
        (sd, ""),
        with_error(certificate.elpd_logo, certificate.elpd_logo_se),
    ]


def _worst(certificate: CertificateData) -> tuple[list[tuple[str, list[str]]], str]:
    """Return name and cells of the groups with the largest errors, and what is left out."""
    table = certificate.effects.droplevel([0, 2])
    size = np.fmax(table["mean_error_sd"].abs().to_numpy(), table["log_sd_error"].abs().to_numpy())
    order = np.argsort(-np.where(np.isnan(size), np.inf, size), kind="stable")[: page.WORST]
    rows = []
    for group, row in table.iloc[order].iterrows():
        own = [number(row[name]) for name in ("mean", "sd", "corrected_mean", "corrected_sd")]
        error = [number(row["mean_error_sd"], 2), number(100.0 * float(np.expm1(row["log_sd_error"])), 2)]
        rows.append((str(group), [f"{row['weight']:,.6g}", number(100.0 * row["share"]), *own, *error]))
    return rows, "" if len(rows) == len(table) else f"the {len(rows)} of {len(table):,} with the largest errors"


def _components(idata: Any, factor: str) -> dict[str, list[str]]:
    """Return mean, sd and interval of the variance components, as text."""
    source = idata["posterior"]
    sigma = source[f"sigma_{factor}"].values.ravel()
    found = {"Sd of the effects, sigma": sigma, "Variance, sigma²": sigma**2}
    if f"icc_{factor}" in source:
        found["Intraclass correlation"] = source[f"icc_{factor}"].values.ravel()
    return {
        name: [number(float(own.mean())), number(float(own.std(ddof=1))), _ends(own)] for name, own in found.items()
    }


def _ends(draws: FloatArray) -> str:
    low, high = np.quantile(draws, [0.5 * (1.0 - INTERVAL), 0.5 * (1.0 + INTERVAL)])
    return f"{number(float(low))} to {number(float(high))}"


def _prose(idata: Any, effects: GroupEffects) -> str:
    """Return what the variance between groups means, in words."""
    source = idata["posterior"]
    sigma = float(source[f"sigma_{effects.factor}"].mean())
    said = [f"The effects of groups have an sd of {number(sigma)} on the scale of the {effects.scale}."]
    if effects.likelihood == "logistic":
        said.append(
            f"In a {effects.factor} one sd above the average the odds are {number(float(np.exp(sigma)))} times those "
            "in an average one, the columns being equal."
        )
    if (icc := f"icc_{effects.factor}") in source:
        said.append(
            f"Of the variance that the columns leave, {number(100.0 * float(source[icc].mean()), 2)}% lies between "
            "groups (intraclass correlation), on the scale of the latent variable."
        )
    return " ".join(said)


def _sizes(effects: GroupEffects, counted: Any) -> str:
    text = f"{effects.factor}: {len(effects.levels):,}"
    if counted is None:
        return text
    least, middle, most = np.quantile(counted["weight"], [0.0, 0.5, 1.0])
    return f"{text}, of {least:,.6g} to {most:,.6g} rows, in the median {middle:,.6g}"


def _overall(counted: FloatArray) -> float:
    weight, share = counted.T
    return float(np.nansum(weight * share) / weight.sum())


def _group_prior(posterior: Posterior) -> str:
    return str(group_prior_from_dict(json.loads(posterior.attrs["group_prior"])))
