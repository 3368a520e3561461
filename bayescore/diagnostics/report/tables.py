"""A certificate's figures as text: for the page of its own and for its section in a report of a comparison."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayescore.data.design import Design, Grouping, one_intercept
from bayescore.diagnostics.agreement import agreement, beside_reference, predicted_error
from bayescore.diagnostics.formatting import number, with_error
from bayescore.diagnostics.report import page
from bayescore.diagnostics.report.drawing import ENDS, INTERVAL
from bayescore.diagnostics.report.sections import Certificates, Table
from bayescore.diagnostics.results import CertificateData, ComparisonData
from bayescore.limits import MAX_K
from bayescore.listing import listed, shown_apart
from bayescore.models.families import find_family
from bayescore.samplers.inference_data import Posterior
from bayescore.samplers.prior_summary import described
from bayescore.validation import DataError

_NAMED = 8  # names in a cell


class Figure(NamedTuple):
    """A figure of certificates: what tables call it, what it means, its text and standard error, and which have it."""

    label: str
    meaning: str
    text: Callable[[CertificateData], tuple[str, str]]
    shown: Callable[[tuple[Grouping, ...]], bool] = lambda _: True


def _predicted(certificate: CertificateData) -> tuple[str, str]:
    # of what cannot be trusted a figure would look like one to rely on
    return with_error(*predicted_error(certificate)) if certificate.trusted else ("–", "")


def _worst_effect(column: str, certificate: CertificateData) -> tuple[str, str]:
    errors = certificate.effects[column].abs()
    if errors.empty:
        return "–", ""
    largest = float(errors.max())
    return number(100.0 * float(np.expm1(largest)) if column.startswith("log") else largest, 2), ""


# the hyphen of k-hat is one that no line breaks at
FIGURES = (
    Figure(
        "Pareto k‑hat",
        "How heavy the tail of the importance weights is that turn the coreset's draws into draws given the full data. "
        f"Below {MAX_K} corrected figures can be trusted.",
        lambda own: (number(own.pareto_k, 2), ""),
    ),
    Figure(
        "ESS of draws",
        "Effective sample size of those weights, of the draws weighed: how many the correction leaves.",
        lambda own: (f"{own.ess:,.0f} of {own.n_draws:,}", ""),
    ),
    Figure(
        "Realised epsilon",
        "Largest |L − L̃| / |L| over the draws; L is the full data's log-likelihood, L̃ the coreset's.",
        lambda own: (number(own.epsilon, 2), ""),
        lambda groups: not groups,
    ),
    Figure(
        "Sd of log ratio",
        "Standard deviation of the log weights: how far the two posteriors are apart. Without group terms it is what "
        "the affine map to the full posterior's mode and scale leaves; effects of (1 | g) are integrated out.",
        lambda own: (number(own.log_ratio_sd, 2), ""),
    ),
    Figure(
        "Predicted error (sd)",
        "Own mean minus corrected mean, in sds of the coreset's posterior, predicted without a posterior of the full "
        "data; ± is the standard error of the prediction given the draws; their own Monte Carlo error is not in it. In "
        "the table of certificates, the largest.",
        _predicted,
    ),
    Figure(
        "Worst effect's mean (sd)",
        "Largest error of the mean of a group's effect, in sds of that effect.",
        partial(_worst_effect, "mean_error_sd"),
        bool,
    ),
    Figure(
        "Worst effect's sd (%)",
        "Largest relative error of the sd of a group's effect.",
        partial(_worst_effect, "log_sd_error"),
        bool,
    ),
    Figure(
        "Full-data elpd",
        "Expected log predictive density of as many new rows as the full data have, in nats, estimated leave-one-out; "
        "± is one standard error over rows. A dash where the weights cannot be trusted.",
        lambda own: with_error(own.elpd_loo, own.elpd_loo_se),
        lambda groups: not one_intercept(groups),
    ),
    Figure(
        "elpd, groups left out",
        "Expected log predictive density of as many new groups as the full data have, in nats, estimated by leaving "
        "one group out at a time; ± is one standard error over groups. A dash where the weights cannot be trusted.",
        lambda own: with_error(own.elpd_logo, own.elpd_logo_se),
        one_intercept,
    ),
)


def figures_of(groups: tuple[Grouping, ...]) -> list[Figure]:
    """Return the figures of certificates of a model with these group terms."""
    return [figure for figure in FIGURES if figure.shown(groups)]


def meanings(figures: Sequence[Figure]) -> dict[str, str]:
    """Return the glossary of some figures."""
    return {figure.label: figure.meaning for figure in figures}


# of a comparison, beside FIGURES
AGREEMENT = {
    "Measured error (sd)": "Largest error of a mean against the reference, in sds of the reference: what the "
    "certificate predicted without it.",
    "Agree": "Whether the predicted errors of all means are the measured ones but for Monte Carlo error, at the 1% "
    "level.",
}


def check_certificates(certificates: object, comparison: ComparisonData) -> dict[str, CertificateData]:
    """Return the certificates in the candidates' order; raise unless each is one of a candidate's."""
    if not isinstance(certificates, Mapping):
        raise TypeError(f"certificates is of type {type(certificates).__name__}; give a dict of them by candidate")
    for name, certificate in certificates.items():
        if name not in comparison.candidates:
            raise ValueError(
                f"certificates has the name {name!r}, which is no candidate; the candidates are "
                f"{', '.join(map(repr, comparison.candidates))}"
            )
        check_certificate(certificate, comparison.reference.features, f"certificates[{name!r}]")
    return {
        name: beside_reference(certificates[name], comparison.verdicts[name])
        for name in comparison.candidates
        if name in certificates
    }


def check_certificate(certificate: object, features: tuple[str, ...], name: str) -> None:
    """Raise unless `certificate` is one of a posterior with these features."""
    if not isinstance(certificate, CertificateData):
        raise TypeError(f"{name} is of type {type(certificate).__name__}; give what bayescore.certify returned")
    if set(certificate.coordinates.index) != set(features):
        own, drawn = shown_apart(list(certificate.coordinates.index), features)
        raise DataError(f"{name} has the features {own}, the posterior {drawn}; give the certificate of this posterior")


def coefficients(certificate: CertificateData, total: int) -> tuple[list[dict[Hashable, Any]], str]:
    """Return the rows of the table of coefficients, largest errors first, and what is left out of it."""
    table = certificate.coordinates.rename_axis("feature").reset_index()
    order = np.argsort(-table["mean_error_sd"].abs().to_numpy(), kind="stable")
    table = table.iloc[order]
    rows, note = page.worst(table, table["mean_error_sd"], total, "Certificate.coordinates")
    return rows.to_dict(orient="records"), note


def in_units(certificate: CertificateData, best: Posterior, design: Design) -> Table:
    """Return the section on the `best` draws' coefficients in units of the data, and the ratios that they stand for."""
    raw = design.raw_coefficients(best.flat)
    bounds = np.quantile(raw, [ENDS[0], 0.5, ENDS[1]], axis=0)
    family, scale = find_family(best.attrs.get("family", "")), best.attrs.get("prior_scale", "")
    ratio = None if family is None else family.ratio
    rows = {}
    for d, name in enumerate(best.features):
        low, middle, high = bounds[:, d]
        rows[name] = [number(float(raw[:, d].mean())), f"{number(low)} to {number(high)}"]
        if ratio is not None:
            with np.errstate(over="ignore"):
                ratios = [number(float(np.exp(value))) for value in (middle, low, high)]
            rows[name] += ["", ""] if d == design.constant else [ratios[0], f"{ratios[1]} to {ratios[2]}"]
    interval = f"{INTERVAL:.0%} interval"
    spread = f" Their spread is {best.attrs['spread']}." if "spread" in best.attrs else ""
    note = (
        f"{drawn_from(certificate)}{spread} A coefficient is the change of the linear predictor for one unit more of "
    )
    note += f"the column as the data have it{f'; the model is of {scale}' if scale else ''}."
    return Table(
        key="effects",
        heading="In units of the data",
        first="Coefficient",
        labels=["Mean", interval, *([ratio.capitalize(), interval] if ratio is not None else [])],
        rows=rows,
        note=note + (" Odds ratios are medians." if ratio is not None else ""),
    )


def drawn_from(certificate: CertificateData) -> str:
    """Return a sentence on the draws behind a table."""
    which = "coreset's" if certificate.idata is None else "corrected"
    return f"From the {which} draws{'' if certificate.trusted else ', which are not certified'}."


def priors(posterior: Posterior) -> list[tuple[str, str, str]]:
    """Return coefficients, the prior that they share, and that in units of the data; empty where it is not known."""
    found = described(posterior)
    if found is None:
        return []
    shared: dict[tuple[str, str], list[str]] = {}
    for name, row in found.iterrows():
        shared.setdefault((row["prior"], row["in_data_units"]), []).append(str(name))
    return [(listed(names, _NAMED, str), prior, raw) for (prior, raw), names in shared.items()]


def section(comparison: ComparisonData, certificates: dict[str, CertificateData], *, short: bool) -> Certificates:
    """Return the section on the candidates' certificates: figures beside the measured errors, and coefficients."""
    measured = dict(list(comparison.coordinates.groupby("candidate", sort=False)))
    rows, agree = {}, {}
    *known, elpd = figures_of(())
    for name, certificate in certificates.items():
        agree[name] = agreement(certificate, measured[name])
        truth = comparison.metrics.loc[name, ["mean_error_sd", "mean_error_sd_mcse"]]
        word = {True: "yes", False: "no", None: "–"}[agree[name]]
        first = [figure.text(certificate) for figure in known]
        rows[name] = [*first, with_error(*map(float, truth)), (word, ""), elpd.text(certificate)]
    total = len(certificates) * len(comparison.reference.features)
    return Certificates(
        certificates=certificates,
        short=short,
        labels=[*meanings(known), *AGREEMENT, elpd.label],
        rows=rows,
        agreement=_agreement(list(agree.values())),
        corrected={name: coefficients(own, total) for name, own in certificates.items() if agree[name] is not None},
    )


def _agreement(agree: list[bool | None]) -> str:
    trusted = [one for one in agree if one is not None]
    if not trusted:
        return "No candidate is certified, so no correction can be trusted and none is shown."
    left = " Where a candidate is not certified, no correction can be trusted and none is shown."
    return (
        "Predicted errors were found without the reference, measured ones against it. Of the "
        f"{len(trusted)} certificate{'s' * (len(trusted) > 1)} whose correction can be trusted, the predictions of "
        f"{sum(trusted)} agree with the reference in every mean, up to Monte Carlo error."
        f"{left if len(trusted) < len(agree) else ''}"
    )
