"""The report of a certificate: one HTML file for those who have no posterior of the full data.

Verdict, data, effects of groups, own and corrected coefficients and what they mean in units of the data, priors, the
model's fit, chains and coreset, and how to repeat it. Models with and without group terms differ in their sections.

The report of a comparison: one HTML file, no network, readable on screen and on paper.

Verdicts first, then numbers with their Monte Carlo errors, pictures, what the coresets and the chains were, and how to
repeat it.

The sections on effects of groups: how much groups differ in each kind of effect, and the worst effects.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from bayescore.data.coreset import Coreset, check_no_pseudo, check_same_design
from bayescore.data.design import Grouping, effect_name
from bayescore.data.responses import ABOVE, POSITIVE, TIMED
from bayescore.diagnostics.model_check import ModelCheck, check_model
from bayescore.diagnostics.results import CertificateData, ComparisonData, Level, health
from bayescore.families.family import Varying, find_family
from bayescore.files import whole_file
from bayescore.limits import ENDS, PROB
from bayescore.report import page, pictures, tables
from bayescore.samplers.posterior import Posterior, as_sampled, flat_draws, read_posterior
from bayescore.samplers.summaries import DataUnits, GroupEffects, with_scales
from bayescore.text import counted, number, with_error
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

GLOSSARY = {
    "Partial pooling": "What a multilevel model does to the effect of a group: it draws it towards the average of all "
    "groups, the more the fewer rows the group has and the less groups differ.",
    "Intraclass correlation": "sigma² / (sigma² + the variance of a label's latent variable given its row): the "
    "correlation of the latent variables of two rows of one group.",
    "Pseudo-row": "Successes and failures at one place, no row of the data, that say about a group's effect what "
    "its rows say.",
}


_LABELS = ("Mean", "Sd", "Corrected mean", "Corrected sd", "Error of mean (sd)", "Error of sd (%)")


_UNTRUSTED = (
    "No correction can be trusted here: corrected figures show where the full data pull the effects, not how far."
)


_POOLED = (
    "The nearer a point lies to the level line, the more its group borrows from the others: groups of few rows borrow "
    "most. Columns that differ between groups move points off the diagonal, too."
)


@dataclass(frozen=True, eq=False)
class FitFacts:
    """What a fit adds to its certificate's page: figures in units of the data, what its rows are, and its call.

    `summary` is the fit's, `ratios` are odds, rate or hazard ratios. `check` is of rows of the data.
    """

    headline: str
    checks_heading: str
    about: str
    drawn: str
    data: Mapping[str, str]
    summary: page.Cells
    ratios: page.Cells | None
    effects: Sequence["EffectFacts"]
    check: ModelCheck | None
    call: str


@dataclass(frozen=True, eq=False)
class EffectFacts:
    """An effect that varies by a factor: the groups farthest from 0, what is left out, and draws for its picture."""

    grouping: Grouping
    cells: page.Cells
    note: str
    draws: GroupEffects


def fit_sections(certificate: CertificateData, core: Coreset, fit: FitFacts, ratio: str) -> Iterator[Markup]:
    """Yield the parameters and effects of a fit, in units of the data."""
    yield page.table(
        "summary",
        "In units of the data",
        "Parameter",
        fit.summary,
        note=f"{fit.drawn} As fit.summary() has it: a coefficient is the change of the linear "
        "predictor for one unit more of the column as the data have it"
        + ("; sigma are sds of groups' effects, and rho their correlations." if core.groups else ".")
        + (" The one without a name of a factor is the sd of the noise." if core.groups and core._sd_unknown else "")
        + _meaning(core.family, list(fit.summary[1])[-1:]),
    )
    if fit.ratios is not None:
        yield page.table(
            "ratios",
            f"{ratio.capitalize()}s",
            "Column",
            fit.ratios,
            note="For one unit more, or of a level against the first: means and intervals, as summary(scale='ratio') "
            "has them. Columns of polynomials and splines have none, as they do not change alone.",
        )
    for number_of, facts in enumerate(fit.effects, 1):
        alone = len(facts.grouping.effects) == 1 and len(facts.draws.levels) == len(facts.grouping)
        by_group = tables.rows_by_group(certificate, facts.grouping) if alone and core.response == "labels" else None
        yield page.table(
            f"effects-{number_of}",
            f"Effects of {facts.draws.factor}",
            facts.grouping.name,
            facts.cells,
            before=facts.note,
            note=f"On the scale of the {facts.draws.scale}, in units of the data, as fit.effects() has them.",
            pictures=list(_group_pictures(facts.draws, by_group)),
            after="" if by_group is None else _POOLED,
        )


def group_sections(certificate: CertificateData, idata: Any, core: Coreset) -> Iterator[Markup]:
    """Yield a section on each kind of effects, and one on all effects of groups."""
    best = idata if certificate._idata is None else certificate._idata
    several = sum(len(group.effects) for group in core.groups) > 1
    number_of = 0
    for grouping in core.groups:
        variable = best["posterior"][f"u_{grouping.name}"]
        levels = tuple(variable[grouping.name].values.tolist())  # of very many groups draws of some are kept
        u = flat_draws(best, f"u_{grouping.name}").reshape(-1, len(levels), len(grouping.effects))
        sigma = flat_draws(best, f"sigma_{grouping.name}").reshape(len(u), -1)
        for k, effect in enumerate(grouping.effects):
            name = effect_name(grouping.name, effect)
            family = str(best["posterior"].attrs.get("family", ""))
            effects = GroupEffects(name, levels, u[:, :, k], family)
            by_group = tables.rows_by_group(certificate, grouping) if effect == "1" and not core.counts else None
            number_of += 1
            yield page.table(
                "variance" + f"-{number_of}" * several,
                "Variance between groups" + f" of {name}" * several,
                "Component",
                (["Mean", "Sd", f"{PROB:.0%} interval"], _components(sigma[:, k], _icc(best, grouping))),
                before=_prose(effects, sigma[:, k], _icc(best, grouping)),
                note=tables.drawn_from(certificate),
                pictures=list(_group_pictures(effects, by_group)),
                after="" if by_group is None else _POOLED,
            )
    if not certificate.effects.empty:
        yield _groups(certificate, core)


def group_sizes(certificate: CertificateData, groups: Sequence[Grouping], *, counted: bool) -> Iterator[str]:
    """Yield a clause on the groups of each factor, with the rows of each if the weights that are known count rows."""
    for grouping in groups:
        text, by_group = f"{grouping.name}: {len(grouping):,}", tables.rows_by_group(certificate, grouping)
        if counted and by_group is not None:
            least, middle, most = np.quantile(by_group["weight"], [0.0, 0.5, 1.0])
            text += f", of {least:,.6g} to {most:,.6g} rows, in the median {middle:,.6g}"
        yield text


def _group_pictures(effects: GroupEffects, by_group: pd.DataFrame | None) -> Iterator[page.Picture]:
    words = f"means and 95% intervals of the effects of {len(effects.levels)} groups of {effects.factor}"
    caption = f"Caterpillar plot: {words}, sorted by mean"
    yield page.picture(f"Effects of {effects.factor}", caption, pictures.caterpillar, effects)
    if by_group is not None:
        words = f"the effect of each group of {effects.factor} against what its rows alone say, between the lines of no"
        words += " pooling and of complete pooling"
        yield page.picture("Partial pooling", f"Shrinkage plot: {words}", pictures.shrinkage, effects, by_group)


def _groups(certificate: CertificateData, core: Coreset) -> Markup:
    """Return the section on the groups with the largest errors."""
    table, several = certificate.effects, sum(len(grouping.effects) for grouping in core.groups) > 1
    size = np.fmax(table["mean_error_sd"].abs().to_numpy(), table["log_sd_error"].abs().to_numpy())
    order = np.argsort(-np.where(np.isnan(size), np.inf, size), kind="stable")[: page.WORST]
    rows = []
    for place in order:
        (factor, group, effect), row = table.index[place], table.iloc[place]
        of = f"{effect_name(factor, effect)} " if several else ""
        cells = [number(row[name]) for name in ("mean", "sd", "corrected_mean", "corrected_sd")]
        error = [number(row["mean_error_sd"], 2), number(100.0 * float(np.expm1(row["log_sd_error"])), 2)]
        rows.append((f"{of}{group}", [f"{row['weight']:,.6g}", number(100.0 * row["share"]), *cells, *error]))
    cut = f"The table has the {len(rows)} of {len(table):,} with the largest errors; Certificate.effects has all."
    return page.table(
        "groups",
        "Effects of groups",
        "Effect" if several else core.groups[0].name,
        (["Rows", f"Share of {core.classes[1]} (%)", *_LABELS], dict(rows)),
        warning="" if certificate.trusted else _UNTRUSTED,
        before="Largest errors first." if len(rows) == len(table) else cut,
        note="Errors of the coreset's mean and sd of each effect against those given the full data, Monte Carlo noise "
        "left out.",
    )


def _icc(idata: Any, grouping: Grouping) -> FloatArray | None:
    name = f"icc_{grouping.name}"
    return flat_draws(idata, name) if name in idata["posterior"] else None


def _components(sigma: FloatArray, icc: FloatArray | None) -> dict[str, list[str]]:
    """Return mean, sd and interval of the variance components, as text."""
    draws_of = {"Sd of the effects, sigma": sigma, "Variance, sigma²": sigma**2}
    if icc is not None:
        draws_of["Intraclass correlation"] = icc
    return {
        name: [number(float(values.mean())), number(float(values.std(ddof=1))), _ends(values)]
        for name, values in draws_of.items()
    }


def _ends(draws: FloatArray) -> str:
    return " to ".join(number(float(end)) for end in np.quantile(draws, ENDS))


def _prose(effects: GroupEffects, sigma: FloatArray, icc: FloatArray | None) -> str:
    """Return what the variance between groups means, in words."""
    sd = float(sigma.mean())
    said = [f"The effects of groups have an sd of {number(sd)} on the scale of the {effects.scale}."]
    if effects.scale == "log odds" and " by " not in effects.factor:
        said.append(
            f"In a {effects.factor} one sd above the average the odds are {number(float(np.exp(sd)))} times those "
            "in an average one, the columns being equal."
        )
    if icc is not None:
        said.append(
            f"Of the variance that the columns leave, {number(100.0 * float(icc.mean()), 2)}% lies between "
            "groups (intraclass correlation), on the scale of the latent variable."
        )
    return " ".join(said)


_FEW = "The coreset's rows are few, and the model was fitted to them: give test= rows for a sharper look."


_GIVE_TEST = "give test=, a sample of rows: all_rows(rows, design=core.design)"


_NOT_LOOKED_AT = f"Not looked at: the coreset's rows are pseudo-rows. G{_GIVE_TEST[1:]}."


_NO_ROWS = "Not looked at: the fit does not have its rows; read_fit(folder, rows) or fit.update(data=rows) has them."


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
    fit: FitFacts | None = None,
) -> None:
    """Write the page of what `certify` returned for `idata` and `core`: see `Certificate.to_html`.

    `title` is its heading, `command` a command line that repeats it, `story` what was done, step by step. `robust`
    are draws with a spread that is not the model's, for the figures in units of the data. The model's fit is checked on
    `test` rows of the same design, by default on the coreset's own, unless these are pseudo-rows. What is of a `fit`
    is said in its words. An error leaves an earlier file untouched.
    """
    idata = as_sampled(idata)
    posterior = read_posterior(idata, "idata")
    judged = with_scales(posterior, core.groups)
    tables.check_certificate(certificate, judged.features, "certificate")
    if test is not None:
        check_same_design(test, posterior.features, core.design, "test")
        check_no_pseudo(test, "test")
        if core.groups and (test.group is None or (test.group < 0).any()):
            raise DataError("test has rows of groups that the coreset does not know; leave them out")
    elif core.pseudo.any() and not core.groups and fit is None:
        raise DataError(f"the coreset has pseudo-rows, on which the model's fit cannot be checked; {_GIVE_TEST}")
    about = "Posterior of a coreset checked against the full data: "
    about += f"{len(core):,} of {core.n_total:,} rows, {counted(len(posterior.features), 'coefficient')}"
    if core.groups:
        about += ", " + ", ".join(f"{len(grouping):,} groups of {grouping.name}" for grouping in core.groups)
    if fit is not None:
        about = fit.about
    chains, facts_of_core, curve = health(judged), core.summary(), tables.size_curve(core.summary())
    parts = [
        *_found(certificate, idata, core, judged, chains.text, spread=_spread(robust), fit=fit),
        *_model(certificate, idata, core, test, robust=robust, facts=fit),
        page.section("sampler_health", health={"posterior": chains}),
        page.section(
            "coreset_facts",
            facts=tables.coreset_facts(facts_of_core, core.weights)
            | ({} if fit is None or not fit.data else {"Data rows": fit.data["Observations"]})
            | tables.parameters(facts_of_core),
            size_curves={f"{core.method} {len(core):,}": curve} if curve else {},
        ),
        *([page.section("facts", key="story", heading="How it was made", facts=story)] if story else []),
        page.section(
            "reproduce",
            attrs={"posterior": posterior.attrs},
            command=command,
            snippet=page.code(
                "certify_again",
                label=core.label,
                max_draws=max(certificate.n_draws, 100),
                test=test is not None,
                file_name=Path(path).name,
            )
            if fit is None
            else page.code("fit_again", call=fit.call, file_name=Path(path).name),
        ),
        page.section(
            "facts",
            key="glossary",
            heading="Glossary",
            facts=tables.meanings(tables.figures_of(core.groups))
            | page.terms(page.CERTIFICATES)
            | (GLOSSARY if core.groups else {})
            | page.HEALTH_TERMS,
        ),
    ]
    with whole_file(path) as partial:
        partial.write_text(page.render(title, about + ".", parts), encoding="utf-8")


def _found(
    certificate: CertificateData,
    idata: Any,
    core: Coreset,
    judged: Posterior,
    trouble: str,
    *,
    spread: str,
    fit: FitFacts | None,
) -> Iterator[Markup]:
    """Yield what the certificate says: verdict, data, effects of groups and coefficients."""
    figures = tables.figures_of(core.groups)
    elpd = f"The elpd: {certificate._elpd_text}. " if certificate._elpd_text else ""
    if certificate.dispersion is not None:
        elpd += f"{certificate.dispersion.finding if spread else certificate.dispersion.text}. "
    yield page.section(
        "verdict",
        name=f"{core.method} {len(core):,}",
        headline=certificate.headline if fit is None else fit.headline,
        certificate=certificate,
        checks_heading="Check against the full data" if fit is None else fit.checks_heading,
        trouble=trouble,
        labels=[figure.label for figure in figures],
        cells=[figure.text(certificate) for figure in figures],
        notes=f"{spread}{elpd}From one pass over the full data, or a few; no posterior of them was sampled.",
    )
    data = tables.data_facts(core.summary(), _positive(certificate, core))
    if fit is not None and fit.data:  # whose rows are counted
        names = ("Columns", "Factors", "Formula", "Offset", "Scaling")
        data = {**fit.data, **{label: text for label, text in data.items() if label in names}}
    if core.groups:
        data["Groups"] = "; ".join(group_sizes(certificate, core.groups, counted=core.response == "labels"))
    if data:
        yield page.section("facts", key="data", heading="Data", facts=data)
    if fit is not None:
        family = find_family(core.family)
        yield from fit_sections(certificate, core, fit, "" if family is None else family.ratio or "")
    elif core.groups:
        yield from group_sections(certificate, idata, core)
    rows, note = tables.coefficients(certificate, len(certificate.coordinates))
    what = "the coefficients" + (" and of the logarithms of the effects' sds" if core.groups else "")
    yield page.section(
        "coefficients",
        heading="Coefficients and log sigma" if core.groups else "Coefficients",
        trusted=certificate.trusted,
        scaled=core.design.center is not None,
        picture=None
        if certificate.level is Level.CERTIFIED  # own and corrected ones are the same
        else page.picture(
            "Own and corrected intervals",
            f"Means and 95% intervals of {what}: the coreset's own, and below them the corrected ones",
            pictures.corrected,
            certificate,
            replace(judged, draws=DataUnits(core.design)(judged.draws)),
        ),
        rows=rows,
        note=note,
    )


def _model(
    certificate: CertificateData,
    idata: Any,
    core: Coreset,
    test: WeightedData | None,
    *,
    robust: Any,
    facts: FitFacts | None,
) -> Iterator[Markup]:
    """Yield what the draws say about the data: coefficients in their units, priors, and the model's fit."""
    posterior = read_posterior(idata, "idata")
    best = posterior if certificate._idata is None else read_posterior(certificate._idata, "certificate.idata")
    scale = posterior.attrs.get("prior_scale", "")
    shown = best if robust is None else read_posterior(robust, "robust")
    if facts is None:
        yield tables.in_units(certificate, shown, core.design)
    priors = tables.priors(posterior)
    if posterior.group_prior is not None:
        text = str(posterior.group_prior)
        priors += [(f"sigma_{each.name}", text, text) for each in core.groups]
    priors += [(name, text, text) for name, text in posterior.number_priors.items()]
    if priors:
        yield page.section("priors", priors=priors, prior_scale=scale)
    sides = core.counts and core.method != "full"  # a row's count and exposure are not chosen together
    checked = test if test is not None else None if core.pseudo.any() or sides else core
    fit = None if checked is None else check_model(best, checked)
    rows = "the coreset's weighted rows" if test is None else "test rows"
    note = "" if test is not None else _FEW if fit is not None else _NOT_LOOKED_AT
    if facts is not None:
        fit, rows, note = facts.check, "rows of the data", _NO_ROWS if facts.check is None else ""
    share, predicted, right = tables.words_of_fit(fit, core.classes)
    if core.counts and not core.amounts and core.design.exposure is None and not core.design.weighted:
        share = "mean count"
    words = f"Left, the {share} against the predicted {predicted}, with what the model would give; "
    words += f"right, histograms {right}"
    counts = "how far apart the model keeps the rows with and without events"
    if fit is not None and fit.frequencies is not None:
        counts = "how many rows have each count, and would have by the model"
    of_numbers = "what the responses are, and what they would be by the model"
    pictured = dict.fromkeys(("numbers", POSITIVE), of_numbers) | dict.fromkeys(("counts", ABOVE, TIMED), counts)
    yield page.section(
        "model_check",
        fit=fit,
        picture=None
        if fit is None
        else page.picture("Calibration and predictions", words, pictures.model_check, fit, core.classes),
        rows=rows,
        share=share,
        right=pictured.get(core.response, "how far apart the model keeps the rows of the two classes"),
        note=note,
    )


def _meaning(family: str, last: Sequence[str]) -> str:
    """Return a sentence on what the family's number does where it is the last parameter of a table; empty else."""
    likelihood = find_family(family)
    if not isinstance(likelihood, Varying) or likelihood.parameter not in last:
        return ""
    return f" The {likelihood.parameter} is that of {likelihood.meaning}."


def _spread(robust: Any) -> str:
    """Return sentences on draws whose spread is not the model's; empty where there are none."""
    if robust is None:
        return ""
    spread = robust.posterior.attrs["spread"]
    if spread.startswith("pooled"):
        return f"Draws in units of the data are {spread}; verdict and other figures are of the worst of these tables. "
    return (
        f"The spread in units of the data is {spread}; verdict and other figures are of the "
        "model's own posterior, which takes rows for independent. "
    )


def _positive(certificate: CertificateData, core: Coreset) -> float | None:
    """Return the share of the data's weight that is +1; None where only pseudo-rows are known."""
    if core.response != "labels":  # no share: the sides are events and exposure, or all is one side
        return None
    if core.groups and (by_group := tables.rows_by_group(certificate, core.groups[0])) is not None:
        return float((by_group["weight"] * by_group["share"]).sum() / by_group["weight"].sum())
    return None if core.pseudo.any() else float(core.weights[core.y > 0].sum() / core.weights.sum())


# name: label, factor to the label's unit, meaning
METRICS: dict[str, tuple[str, float, str]] = {
    "mmd_whitened": (
        "MMD, whitened",
        1.0,
        "Distance between the two sets of draws over all moments up to the third, in the reference's own scale; "
        "its ± takes that scale as known, and is too small where the distance is large.",
    ),
    "mmd": ("MMD", 1.0, "The same in the units of the coefficients; comparable within this report only."),
    "mean_error_sd": ("Mean (sd)", 1.0, "Largest error of a posterior mean, in reference sds."),
    "sd_error": ("Sd (%)", 100.0, "Largest relative error of a posterior sd."),
    "correlation_error": ("Correlation", 1.0, "Largest error of a posterior correlation."),
    "tail_error_sd": ("Tails (sd)", 1.0, "Largest error of a 2.5% or 97.5% quantile, in reference sds."),
    "nll": (
        "Test NLL",
        1.0,
        "Mean negative log predictive density of the test rows, in nats per row; the last row is the reference's.",
    ),
}


LISTED = 4  # candidates whose verdicts are read as sentences; of more a table comes first


NOISE_FLOOR = "The same metrics between halves of the reference's chains, scaled to two runs of full length."


def write_report(
    comparison: ComparisonData,
    path: str | Path,
    *,
    certificates: Mapping[str, CertificateData] | None = None,
    title: str = "Posterior comparison",
    command: str | None = None,
) -> None:
    """Write the report to `path`, replacing a file of that name only once the new one is complete.

    Of candidates with `certificates`, it shows what each predicted beside the errors against the reference. `title` is
    its heading, `command` a command line that repeats it.
    """
    certified = tables.check_certificates(certificates or {}, comparison)
    with whole_file(path) as partial:
        parts = _sections(comparison, certified, Path(path).name, command)
        partial.write_text(page.render(title, f"Comparison of {_scope(comparison)}.", parts), encoding="utf-8")


def as_text(comparison: ComparisonData) -> str:
    """Return the verdicts and metrics as plain text."""
    lines = [f"  {name}: {verdict.level}. {verdict.text}" for name, verdict in comparison.verdicts.items()]
    return "\n".join([f"Comparison of {_scope(comparison)}", *lines, "", _frame(comparison).to_string()])


def as_fragment(comparison: ComparisonData) -> str:
    """Return the verdicts and metrics as HTML for a notebook."""
    template = (
        "<div><p>Comparison of {{ scope }}</p><ul>{% for name, verdict in verdicts.items() %}"
        "<li><strong>{{ name }}: {{ verdict.level }}.</strong> {{ verdict.text }}</li>{% endfor %}</ul></div>"
    )
    words = page.environment().from_string(template).render(scope=_scope(comparison), verdicts=comparison.verdicts)
    return words + _frame(comparison).to_html(border=0)


def _sections(
    comparison: ComparisonData, certificates: dict[str, CertificateData], file_name: str, command: str | None
) -> Iterator[Markup]:
    shown = [name for name in METRICS if name in comparison.metrics]
    everyone = {"reference": comparison.reference, **comparison.candidates}
    short = _short(comparison, certificates) if len(comparison.verdicts) > LISTED else {}
    counts = Counter(verdict.level for verdict in comparison.verdicts.values())
    yield page.section("verdicts", verdicts=comparison.verdicts, counts=counts, short=short, health=comparison.health)
    first = next((one for one in everyone.values() if one.coreset), None)
    if first is not None and (data := tables.data_facts(first.coreset, first.positive)):
        yield page.section("facts", key="data", heading="Data", facts=data)
    if certificates:
        yield tables.certificates_section(comparison, certificates, short=bool(short))
    yield page.section("metrics", labels=[METRICS[name][0] for name in shown], rows=_metric_rows(comparison, shown))
    yield page.section("plots", pictures=_pictures(comparison))
    coresets = {name: one for name, one in comparison.candidates.items() if one.coreset}
    if coresets:
        curves = {name: curve for name, one in coresets.items() if (curve := tables.size_curve(one.coreset))}
        rows = {name: tables.coreset_facts(one.coreset, one.weights) for name, one in coresets.items()}
        for name, one in coresets.items():
            listed = ", ".join(f"{key} = {value}" for key, value in tables.parameters(one.coreset).items())
            rows[name]["Parameters"] = listed or "–"
        yield page.section("coresets", coresets=rows, size_curves=curves)
    yield page.section("sampler_health", health=comparison.health)
    yield page.section("coordinates", coordinates=_coordinates(comparison.coordinates))
    again = page.code(
        "compare_again",
        candidates=list(comparison.candidates),
        certificates=list(certificates),
        test="nll" in comparison.metrics,
        max_draws=comparison.max_draws,
        file_name=file_name,
    )
    yield page.section(
        "reproduce",
        attrs={name: posterior.attrs for name, posterior in everyone.items()},
        command=command,
        snippet=again,
    )
    terms = {METRICS[name][0]: METRICS[name][2] for name in shown} | {"Noise floor": NOISE_FLOOR}
    terms |= page.terms(page.VERDICTS)
    if certificates:
        terms |= tables.meanings(tables.figures_of(())) | tables.AGREEMENT | page.terms(page.CERTIFICATES)
    yield page.section("facts", key="glossary", heading="Glossary", facts=terms | page.HEALTH_TERMS)


def _scope(comparison: ComparisonData) -> str:
    chains, draws, features = comparison.reference.draws.shape
    of_reference = f"{counted(chains, 'chain')} of {draws:,} draws, {counted(features, 'coefficient')}"
    return f"{counted(len(comparison.candidates), 'candidate')} with a reference of {of_reference}"


def _short(comparison: ComparisonData, certificates: dict[str, CertificateData]) -> dict[str, dict[str, Any]]:
    """Return for each candidate what one line of a table says: levels, and the errors that decide."""
    return {
        name: {
            "levels": [verdict.level, *([getattr(certificates.get(name), "level", "")] if certificates else [])],
            "errors": [
                number(METRICS[metric][1] * float(comparison.metrics[metric][name]), 2)
                for metric in ("mean_error_sd", "sd_error", "correlation_error")
            ],
        }
        for name, verdict in comparison.verdicts.items()
    }


def _pictures(comparison: ComparisonData) -> list[page.Picture]:
    """Return the pictures, that of the model's fit to the test rows among them if there are any."""
    seen = page.alternatives(comparison)
    drawn = [
        page.picture("MMD", seen["mmd"], pictures.mmd, comparison),
        page.picture("Coefficients", seen["forest"], pictures.forest, comparison),
        page.picture("Marginal densities", seen["marginals"], pictures.marginals, comparison),
    ]
    if comparison.fit is not None:
        design = comparison.reference.design
        classes = (-1, 1) if design is None or design.classes is None else design.classes
        share, predicted, right = tables.words_of_fit(comparison.fit, classes, test=True)
        words = f"Left, the {share} among test rows against the reference's predicted {predicted}; "
        words += f"right, histograms {right}"
        caption = "Does the model fit the test rows?"
        drawn.append(page.picture(caption, words, pictures.model_check, comparison.fit, classes))
    return drawn


def _metric_rows(comparison: ComparisonData, shown: list[str]) -> dict[str, list[tuple[str, str]]]:
    return {
        str(name): [
            with_error(METRICS[metric][1] * row[metric], METRICS[metric][1] * row[f"{metric}_mcse"]) for metric in shown
        ]
        for name, row in comparison.metrics.iterrows()
    }


def _frame(comparison: ComparisonData) -> pd.DataFrame:
    shown = [name for name in METRICS if name in comparison.metrics]
    rows = _metric_rows(comparison, shown)
    cells = [[f"{value} ± {error}" if error else value for value, error in row] for row in rows.values()]
    return pd.DataFrame(cells, index=list(rows), columns=[METRICS[name][0] for name in shown])


def _coordinates(table: pd.DataFrame) -> dict[str, tuple[list[dict[Hashable, Any]], str]]:
    shown = {}
    for name, rows in table.groupby("candidate", sort=False):
        size = rows[["mean_error_sd", "sd_error"]].abs().max(axis=1)
        rows, note = page.worst(rows, size, len(table), "Comparison.coordinates")
        shown[str(name)] = (rows.to_dict(orient="records"), note)
    return shown
