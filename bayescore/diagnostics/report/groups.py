"""The sections on effects of groups: how much groups differ in each kind of effect, and the worst effects."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping
from bayescore.diagnostics.formatting import number
from bayescore.diagnostics.group_draws import GroupEffects
from bayescore.diagnostics.report import group_plots, page, sections, tables
from bayescore.diagnostics.report.drawing import ENDS, INTERVAL
from bayescore.diagnostics.results import CertificateData
from bayescore.samplers.inference_data import flat_draws
from bayescore.types import FloatArray

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


def group_sections(certificate: CertificateData, idata: Any, core: Coreset) -> Iterator[sections.Section]:
    """Yield a section on each kind of effects, and one on all effects of groups."""
    best = idata if certificate.idata is None else certificate.idata
    several = sum(len(own.effects) for own in core.groups) > 1
    number_of = 0
    for grouping in core.groups:
        variable = best["posterior"][f"u_{grouping.name}"]
        levels = tuple(variable[grouping.name].values.tolist())  # of very many groups draws of some are kept
        u = flat_draws(best, f"u_{grouping.name}").reshape(-1, len(levels), len(grouping.effects))
        sigma = flat_draws(best, f"sigma_{grouping.name}").reshape(len(u), -1)
        for k, effect in enumerate(grouping.effects):
            name = grouping.name if effect == "1" else f"{effect} by {grouping.name}"
            family = str(best["posterior"].attrs.get("family", ""))
            effects = GroupEffects(name, levels, u[:, :, k], family)
            counted = _counted(certificate, grouping) if effect == "1" and not core.counts else None
            if counted is not None and len(levels) < len(grouping):
                counted = counted.loc[list(levels)]
            number_of += 1
            yield sections.Table(
                key="variance" + f"-{number_of}" * several,
                heading="Variance between groups" + f" of {name}" * several,
                before=_prose(effects, sigma[:, k], _icc(best, grouping)),
                first="Component",
                labels=["Mean", "Sd", f"{INTERVAL:.0%} interval"],
                rows=_components(sigma[:, k], _icc(best, grouping)),
                note=tables.drawn_from(certificate),
                pictures=list(_pictures(effects, counted)),
                after="" if counted is None else _POOLED,
            )
    if not certificate.effects.empty:
        yield _groups(certificate, core)


def group_sizes(certificate: CertificateData, groups: Sequence[Grouping]) -> Iterator[str]:
    """Yield a clause on the groups of each factor."""
    for grouping in groups:
        text, counted = f"{grouping.name}: {len(grouping):,}", _counted(certificate, grouping)
        if counted is not None:
            least, middle, most = np.quantile(counted["weight"], [0.0, 0.5, 1.0])
            text += f", of {least:,.6g} to {most:,.6g} rows, in the median {middle:,.6g}"
        yield text


def _counted(certificate: CertificateData, grouping: Grouping) -> pd.DataFrame | None:
    """Return weight and share of +1 of the rows of each group; None where no pass was made."""
    if certificate.effects.empty:
        return None
    index = certificate.effects.index
    of = index.get_level_values("factor") == grouping.name
    own = certificate.effects[of & (index.get_level_values("effect") == grouping.effects[0])]
    return own.droplevel(["factor", "effect"])


def _pictures(effects: GroupEffects, counted: pd.DataFrame | None) -> Iterator[sections.Picture]:
    words = f"means and 94% intervals of the effects of {len(effects.levels)} groups of {effects.factor}"
    told = f"Caterpillar plot: {words}, sorted by mean"
    yield page.picture(f"Effects of {effects.factor}", told, group_plots.caterpillar, effects)
    if counted is not None:
        words = f"the effect of each group of {effects.factor} against what its rows alone say, between the lines of no"
        words += " pooling and of complete pooling"
        yield page.picture("Partial pooling", f"Shrinkage plot: {words}", group_plots.shrinkage, effects, counted)


def _groups(certificate: CertificateData, core: Coreset) -> sections.Table:
    """Return the section on the groups with the largest errors."""
    table, several = certificate.effects, sum(len(own.effects) for own in core.groups) > 1
    size = np.fmax(table["mean_error_sd"].abs().to_numpy(), table["log_sd_error"].abs().to_numpy())
    order = np.argsort(-np.where(np.isnan(size), np.inf, size), kind="stable")[: page.WORST]
    rows = []
    for place in order:
        (factor, group, effect), row = table.index[place], table.iloc[place]
        of = ("" if effect == "1" else f"{effect} by ") + f"{factor} " if several else ""
        own = [number(row[name]) for name in ("mean", "sd", "corrected_mean", "corrected_sd")]
        error = [number(row["mean_error_sd"], 2), number(100.0 * float(np.expm1(row["log_sd_error"])), 2)]
        rows.append((f"{of}{group}", [f"{row['weight']:,.6g}", number(100.0 * row["share"]), *own, *error]))
    cut = f"The table has the {len(rows)} of {len(table):,} with the largest errors; Certificate.effects has all."
    return sections.Table(
        key="groups",
        heading="Effects of groups",
        warning="" if certificate.trusted else _UNTRUSTED,
        before="Largest errors first." if len(rows) == len(table) else cut,
        first="Effect" if several else core.groups[0].name,
        labels=["Rows", f"Share of {core.classes[1]} (%)", *_LABELS],
        rows=dict(rows),
        note="Errors of the coreset's mean and sd of each effect against those given the full data, Monte Carlo noise "
        "left out.",
    )


def _icc(idata: Any, grouping: Grouping) -> FloatArray | None:
    name = f"icc_{grouping.name}"
    return flat_draws(idata, name) if name in idata["posterior"] else None


def _components(sigma: FloatArray, icc: FloatArray | None) -> dict[str, list[str]]:
    """Return mean, sd and interval of the variance components, as text."""
    found = {"Sd of the effects, sigma": sigma, "Variance, sigma²": sigma**2}
    if icc is not None:
        found["Intraclass correlation"] = icc
    return {
        name: [number(float(own.mean())), number(float(own.std(ddof=1))), _ends(own)] for name, own in found.items()
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
