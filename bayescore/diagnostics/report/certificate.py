"""The report of a certificate: one HTML file for those who have no posterior of the full data.

Verdict, data, effects of groups, own and corrected coefficients and what they mean in units of the data, priors, the
model's fit, chains and coreset, and how to repeat it. Models with and without group terms differ in their sections.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.data.matching import check_no_pseudo, check_same_design
from bayescore.diagnostics.group_draws import with_scales
from bayescore.diagnostics.health import health
from bayescore.diagnostics.model_check import check_model
from bayescore.diagnostics.report import facts, page, plots, sections, tables
from bayescore.diagnostics.report.groups import GLOSSARY, group_sections, group_sizes
from bayescore.diagnostics.results import CertificateData
from bayescore.files import whole_file
from bayescore.models.group_priors import group_prior_from_dict
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.types import WeightedData
from bayescore.validation import DataError

_FEW = "The coreset's rows are few, and the model was fitted to them: give test= rows for a sharper look."
_GIVE_TEST = "give test=, a sample of rows: all_rows(rows, design=core.design)"
_NOT_LOOKED_AT = f"Not looked at: the coreset's rows are pseudo-rows. G{_GIVE_TEST[1:]}."


def write_certificate(
    certificate: CertificateData,
    idata: Any,
    core: Coreset,
    path: str | Path,
    *,
    test: WeightedData | None = None,
    title: str = "Certificate",
    command: str | None = None,
    story: Mapping[str, str] | None = None,
    robust: Any = None,
) -> None:
    """Write the page of what `certify` returned for `idata` and `core`: see `Certificate.to_html`.

    `title` is its heading, `command` a command line that repeats it, `story` what was done, step by step. `robust`
    are draws with a spread that is not the model's, for the figures in units of the data. The model's fit is checked on
    `test` rows of the same design, by default on the coreset's own, unless these are pseudo-rows. An error leaves an
    earlier file untouched.
    """
    posterior = read_posterior(idata, "idata")
    judged = with_scales(posterior, core.groups)
    tables.check_certificate(certificate, judged.features, "certificate")
    if test is not None:
        check_same_design(test, posterior.features, core.design, "test")
        check_no_pseudo(test, "test")
        if core.groups and (test.group is None or (test.group < 0).any()):
            raise DataError("test has rows of groups that the coreset does not know; leave them out")
    elif core.pseudo.any() and not core.groups:
        raise DataError(f"the coreset has pseudo-rows, on which the model's fit cannot be checked; {_GIVE_TEST}")
    count, about = len(posterior.features), "Posterior of a coreset checked against the full data: "
    about += f"{len(core):,} of {core.n_total:,} rows, {count} coefficient{'s' * (count > 1)}"
    if core.groups:
        about += ", " + ", ".join(f"{len(own):,} groups of {own.name}" for own in core.groups)
    chains, facts_of_core, curve = health(judged), core.summary(), facts.size_curve(core.summary())
    parts = [
        *_found(certificate, idata, core, judged, chains.text, spread=_spread(robust)),
        *_model(certificate, idata, core, test, robust),
        sections.SamplerHealth(health={"posterior": chains}),
        sections.CoresetFacts(
            facts=facts.coreset_facts(facts_of_core, core.weights) | facts.parameters(facts_of_core),
            size_curves={f"{core.method} {len(core):,}": curve} if curve else {},
        ),
        *([sections.Facts(key="story", heading="How it was made", facts=story)] if story else []),
        sections.Reproduce(
            attrs={"posterior": posterior.attrs},
            command=command,
            snippet=page.code(
                "certify_again",
                label=core.label,
                max_draws=max(certificate.n_draws, 100),
                test=test is not None,
                file_name=Path(path).name,
            ),
        ),
        sections.Facts(
            key="glossary",
            heading="Glossary",
            facts=tables.meanings(tables.figures_of(core.groups))
            | sections.terms(sections.CERTIFICATES)
            | (GLOSSARY if core.groups else {})
            | sections.HEALTH_TERMS,
        ),
    ]
    with whole_file(path) as partial:
        partial.write_text(page.render(title, about + ".", parts), encoding="utf-8")


def _found(
    certificate: CertificateData, idata: Any, core: Coreset, judged: Posterior, trouble: str, *, spread: str
) -> Iterator[sections.Section]:
    """Yield what the certificate says: verdict, data, effects of groups and coefficients."""
    figures = tables.figures_of(core.groups)
    elpd = f"The elpd: {certificate.elpd_text}. " if certificate.elpd_text else ""
    if certificate.dispersion is not None:
        elpd += f"{certificate.dispersion.finding if spread else certificate.dispersion.text}. "
    yield sections.Verdict(
        name=f"{core.method} {len(core):,}",
        certificate=certificate,
        trouble=trouble,
        labels=[figure.label for figure in figures],
        cells=[figure.text(certificate) for figure in figures],
        notes=f"{spread}{elpd}From one pass over the full data, or a few; no posterior of them was sampled.",
    )
    data = facts.data_facts(core.summary(), _positive(certificate, core))
    if core.groups:
        data["Groups"] = "; ".join(group_sizes(certificate, core.groups))
    if data:
        yield sections.Facts(key="data", heading="Data", facts=data)
    if core.groups:
        yield from group_sections(certificate, idata, core)
    rows, note = tables.coefficients(certificate, len(certificate.coordinates))
    what = "the coefficients" + (" and of the logarithms of the effects' sds" if core.groups else "")
    yield sections.Coefficients(
        heading="Coefficients and log sigma" if core.groups else "Coefficients",
        trusted=certificate.trusted,
        prior_scale=judged.attrs.get("prior_scale", ""),
        picture=page.picture(
            "Own and corrected intervals",
            f"Means and 94% intervals of {what}: the coreset's own, and below them the corrected ones",
            plots.corrected,
            certificate,
            judged,
        ),
        rows=rows,
        note=note,
    )


def _model(
    certificate: CertificateData, idata: Any, core: Coreset, test: WeightedData | None, robust: Any
) -> Iterator[sections.Section]:
    """Yield what the draws say about the data: coefficients in their units, priors, and the model's fit."""
    own = read_posterior(idata, "idata")
    best = own if certificate.idata is None else read_posterior(certificate.idata, "certificate.idata")
    scale = own.attrs.get("prior_scale", "")
    shown = best if robust is None else read_posterior(robust, "robust")
    yield tables.in_units(certificate, shown, core.design)
    priors = tables.priors(own)
    if core.groups and "group_prior" in own.attrs:
        group_prior = str(group_prior_from_dict(json.loads(own.attrs["group_prior"])))
        priors += [(f"sigma_{each.name}", group_prior, group_prior) for each in core.groups]
    if priors:
        yield sections.Priors(priors=priors, prior_scale=scale)
    sides = core.counts and core.method != "full"  # a row's count and exposure are not chosen together
    checked = test if test is not None else None if core.pseudo.any() or sides else core
    fit = None if checked is None else check_model(best, checked)
    rows = "the coreset's weighted rows" if test is None else "test rows"
    note = "" if test is not None else _FEW if fit is not None else _NOT_LOOKED_AT
    share, predicted, right = facts.words_of_fit(core.classes)
    words = f"Left, the {share} against the predicted {predicted}, with what the model would give; "
    words += f"right, histograms {right}"
    yield sections.Fit(
        fit=fit,
        picture=None
        if fit is None
        else page.picture("Calibration and predictions", words, plots.model_check, fit, core.classes),
        rows=rows,
        share=share,
        right="what the responses are, and what they would be by the model"
        if core.numbers
        else "how far apart the model keeps the rows of the two classes",
        note=note,
    )


def _spread(robust: Any) -> str:
    """Return sentences on draws whose spread is not the model's; empty where there are none."""
    if robust is None:
        return ""
    return (
        f"The spread in units of the data is {robust.posterior.attrs['spread']}; verdict and other figures are of the "
        "model's own posterior, which takes rows for independent. "
    )


def _positive(certificate: CertificateData, core: Coreset) -> float | None:
    """Return the share of the data's weight that is +1; None where only pseudo-rows are known."""
    if core.response != "labels":  # no share: the sides are events and exposure, or all is one side
        return None
    if not certificate.effects.empty:
        first = certificate.effects.loc[core.groups[0].name].droplevel("effect")
        counted = first[~first.index.duplicated()]
        return float((counted["weight"] * counted["share"]).sum() / counted["weight"].sum())
    return None if core.pseudo.any() else float(core.weights[core.y > 0].sum() / core.weights.sum())
