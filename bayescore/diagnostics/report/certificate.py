"""The report of a certificate: one HTML file for those who have no posterior of the full data.

Verdict, own and corrected coefficients, what the chains and the coreset were, and how to repeat it.
`certificate.html.j2` holds the order, `tables` the figures.
"""

from pathlib import Path
from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.diagnostics.health import health
from bayescore.diagnostics.report import page, plots, tables
from bayescore.diagnostics.results import CertificateData
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.validation import whole_file


def write_certificate(
    certificate: CertificateData,
    idata: Any,
    core: Coreset,
    path: str | Path,
    *,
    title: str = "Certificate",
    command: str | None = None,
) -> None:
    """Write a certificate to one HTML file: verdict, own and corrected figures, sampler, coreset, how to repeat it.

    Parameters
    ----------
    certificate : CertificateData
        What `certify` returned for `idata` and `core`.
    idata : InferenceData
        The posterior.
    core : Coreset
        The coreset that was sampled.
    path : str or Path
        The HTML file.
    title : str
        Heading of the page.
    command : str, optional
        Command line that repeats it.

    Raises
    ------
    DataError
        If the posterior has other features than the certificate.
    OSError
        If the file cannot be written; an earlier file of that name is then untouched.
    """
    posterior = read_posterior(idata, "idata")
    tables.check_certificate(certificate, posterior.features, "certificate")
    with whole_file(path) as partial:
        partial.write_text(_render(certificate, posterior, core, Path(path).name, title, command), encoding="utf-8")


def _render(
    certificate: CertificateData, posterior: Posterior, core: Coreset, file_name: str, title: str, command: str | None
) -> str:
    rows, note = tables.coefficients(certificate, len(certificate.coordinates))
    about, name = core.summary(), f"{core.method} {len(core):,}"
    count, curve = len(posterior.features), page.size_curve(about)
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
        health={"posterior": health(posterior)},
        facts=page.coreset_facts(about, core.weights) | page.parameters(about),
        size_curves={name: curve} if curve else {},
        attrs={"posterior": posterior.attrs},
        terms=tables.FIGURES | page.terms(page.CERTIFICATES) | page.HEALTH_TERMS,
        command=command,
        snippet=_snippet(certificate, core, file_name),
    )


def _snippet(certificate: CertificateData, core: Coreset, file_name: str) -> str:
    return (
        "import arviz as az\nimport bayescore as bc\n\n"
        'idata = az.from_netcdf("posterior.nc")\n'
        'core = bc.read_coreset("core.parquet")\n'
        f'certificate = bc.certify(idata, core, "rows.parquet", label={core.label!r}, '
        f"max_draws={max(certificate.n_draws, 100)})\n"
        f"certificate.to_html({file_name!r}, idata, core)\n"
    )
