"""The report of a certificate: one HTML file for those who have no posterior of the full data.

Verdict, the data, own and corrected coefficients and what they mean in units of the data, priors, whether the model
fits, what the chains and the coreset were, and how to repeat it.
`certificate.html.j2` holds the order, `tables` the figures.
"""

from pathlib import Path
from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.data.design import one_intercept, told_terms
from bayescore.data.matching import check_no_pseudo, check_same_design
from bayescore.diagnostics.health import health
from bayescore.diagnostics.model_check import check_model
from bayescore.diagnostics.report import page, plots, tables
from bayescore.diagnostics.report.group_certificate import write_group_certificate
from bayescore.diagnostics.results import CertificateData
from bayescore.files import whole_file
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.types import WeightedData
from bayescore.validation import DataError


def check_has_page(core: Coreset, argument: str) -> None:
    """Raise `DataError` if certificates of a coreset have no page: those of several factors, or of slopes that vary."""
    if core.groups and not one_intercept(core.groups):
        raise DataError(
            f"{argument}: a certificate of {told_terms(core.groups)} has no page, only certificates of (1 | g) have "
            "one; leave it out: the certificate prints, and its coordinates and effects are tables"
        )


def write_certificate(
    certificate: CertificateData,
    idata: Any,
    core: Coreset,
    path: str | Path,
    *,
    test: WeightedData | None = None,
    title: str = "Certificate",
    command: str | None = None,
) -> None:
    """Write a certificate to one HTML file: verdict, own and corrected figures, sampler, coreset, how to repeat it.

    Parameters
    ----------
    certificate : CertificateData
        What `certify` returned for `idata` and `core`; of groups see `report.group_certificate`.
    idata : InferenceData
        The posterior.
    core : Coreset
        The coreset that was sampled.
    path : str or Path
        The HTML file.
    test : WeightedData, optional
        Rows of the same design on which the model's fit is checked, as ``full_data(rows, design=core.design)``; by
        default the coreset's own.
    title : str
        Heading of the page.
    command : str, optional
        Command line that repeats it.

    Raises
    ------
    DataError
        If the coreset has several grouping factors, or slopes that vary, whose certificates have no page; if the
        posterior has other features than the certificate, `test` has other labels than the coreset, or it is
        missing and the coreset has pseudo-rows, on which no fit can be checked.
    OSError
        If the file cannot be written; an earlier file of that name is then untouched.
    """
    check_has_page(core, f"path={str(path)!r}")
    if core.groups:
        write_group_certificate(certificate, idata, core, path, test=test, title=title, command=command)
        return
    posterior = read_posterior(idata, "idata")
    if test is not None:
        check_same_design(test, posterior.features, core.design, "test")
        check_no_pseudo(test, "test")
    elif core.pseudo.any():
        raise DataError(
            "the coreset has pseudo-rows, on which the model's fit cannot be checked; give test=, a sample of rows: "
            "full_data(rows, design=core.design)"
        )
    tables.check_certificate(certificate, posterior.features, "certificate")
    with whole_file(path) as partial:
        partial.write_text(
            _render(certificate, posterior, core, test, Path(path).name, title, command), encoding="utf-8"
        )


def _render(
    certificate: CertificateData,
    posterior: Posterior,
    core: Coreset,
    test: WeightedData | None,
    file_name: str,
    title: str,
    command: str | None,
) -> str:
    rows, note = tables.coefficients(certificate, len(certificate.coordinates))
    about, name = core.summary(), f"{core.method} {len(core):,}"
    count, curve = len(posterior.features), page.size_curve(about)
    best = posterior if certificate.idata is None else read_posterior(certificate.idata, "certificate.idata")
    fit = check_model(best, core if test is None else test)
    return page.render(
        "certificate.html.j2",
        title=title,
        scope=f"{len(core):,} of {core.n_total:,} rows, {count} coefficient{'s' * (count > 1)}",
        verdicts={name: certificate},
        trusted=certificate.trusted,
        figure_labels=list(tables.FIGURES),
        figure_rows={name: tables.figures(certificate)},
        elpd_note=f"The elpd: {certificate.elpd_text}. " if certificate.elpd_text else "",
        image=page.picture(plots.corrected, certificate, posterior),
        rows=rows,
        note=note,
        data=page.data_facts(
            about, None if core.pseudo.any() else float(core.weights[core.y > 0].sum() / core.weights.sum())
        ),
        effects=tables.effects(best, core.design),
        effects_of="corrected" if best is not posterior else "coreset's",
        priors=tables.priors(posterior),
        prior_scale=posterior.attrs.get("prior_scale", ""),
        fit=fit,
        fit_image=page.picture(plots.model_check, fit, core.classes),
        positive=str(core.classes[1]),
        fit_rows="the coreset's weighted rows" if test is None else "test rows",
        fit_note=""
        if test is not None
        else "The coreset's rows are few, and the model was fitted to them: give test= rows for a sharper look.",
        health={"posterior": health(posterior)},
        facts=page.coreset_facts(about, core.weights) | page.parameters(about),
        size_curves={name: curve} if curve else {},
        attrs={"posterior": posterior.attrs},
        terms=tables.FIGURES | page.terms(page.CERTIFICATES) | page.HEALTH_TERMS,
        command=command,
        snippet=page.certify_snippet(certificate, core, test, file_name),
    )
