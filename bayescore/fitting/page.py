"""The page of a fit: what its certificate's page says in units and words of the data, and the call that repeats it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping
from bayescore.data.parquet import without_keys
from bayescore.diagnostics.model_check import check_model
from bayescore.fitting.overview import Overview
from bayescore.fitting.parts import raw_rows
from bayescore.fitting.pictures import group_effects
from bayescore.fitting.route import FitOptions
from bayescore.fitting.tables import parameter_table
from bayescore.limits import PROB
from bayescore.priors.groups import DEFAULT_GROUP_PRIOR, is_default
from bayescore.report.pages import EffectFacts, FitFacts, write_certificate
from bayescore.tables import rounded
from bayescore.text import counted

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

BASIS = re.compile(r"\b(poly|bs|cr|cs|cc|s)\(")  # in names of columns that never change alone
_GROUPS_NAMED = 40  # in a table
_LISTED = 200  # characters or entries of an argument that the call shows


def write_page(fit: "Fit", path: str | Path) -> None:
    """Write one HTML page: the verdict first, then data, coefficients, effects, priors, the model's fit, the story."""
    shown = fit._overview()
    story = {f"{place}. {step.what}": str(step) for place, step in enumerate(fit.story, 1)}
    parts: dict[str, Any] = {"title": shown.model, "story": story, "robust": fit._robust, "fit": _facts(fit, shown)}
    write_certificate(fit.certificate, fit._drawn, fit.coreset, path, **parts)


def _facts(fit: "Fit", shown: Overview) -> FitFacts:
    """Return what the page says in units and words of the data."""
    core, posterior, given, ratios, check = fit.coreset, fit._posterior(), fit._given, None, None
    if given is not None and not (given.once or isinstance(given.data, Coreset)):
        rows = raw_rows(fit, None)
        check = check_model(posterior, rows.observed(), rows.events)
    if posterior.family.ratio is not None and fit._parameters()[2]:
        table = parameter_table(fit, "ratio", PROB)
        if plain := [name for name in table.index if not BASIS.search(name)]:
            ratios = _cells(table.loc[plain])
    if fit.spread:
        drawn = f"The spread is {fit.spread}."
    else:
        corrected = "corrected" in fit._used.posterior.attrs
        kind = (
            f"draws of several {posterior.number}s" if fit._size_varies else "corrected draws" if corrected else "draws"
        )
        drawn = f"From the {kind}" + ("." if fit.certificate.trusted else ", which are not certified.")
    return FitFacts(
        headline=shown.verdict,
        checks_heading=shown.checks_heading,
        about=f"{shown.title}: {'; '.join(shown.rows)}",
        drawn=drawn,
        data=fit._data_facts,
        summary=_cells(parameter_table(fit, "coef", PROB)),
        ratios=ratios,
        effects=[_effect(fit, grouping, effect) for grouping in core.groups for effect in grouping.effects],
        check=check,
        call=fit_call(fit),
    )


def _effect(fit: "Fit", grouping: Grouping, effect: str) -> EffectFacts:
    """Return the effects of groups that are farthest from 0, and draws of some for a picture."""
    table, note = fit.effects(grouping.name, effect=effect), ""
    if len(table) > _GROUPS_NAMED:
        far = np.argsort(-np.abs(table["mean"] / table["sd"]).to_numpy(), kind="stable")[:_GROUPS_NAMED]
        table = table.iloc[far]
        note = f"The {_GROUPS_NAMED} of {len(grouping):,} farthest from 0, in sds; fit.effects() has all."
    return EffectFacts(grouping, _cells(table), note, group_effects(fit, grouping, effect))


def fit_call(fit: "Fit") -> str:
    """Return the call of `fit` that makes this fit again."""
    given, core = fit._given, fit.coreset
    roles = dict(core.design.role_columns) if given is None else dict(given.roles)
    by_default = core.response != "labels" or list(core.classes) == sorted(core.classes)
    positive = None if by_default else core.classes[1]
    asked: dict[str, Any] = {"family": fit._family_asked, "prior": fit.prior, **roles, "positive": positive}
    patterns = {"cluster": r"clusters of '(.*?)'", "strata": r"strat(?:a|um) of '(.*?)'", "lonely": r"lonely='(.*?)'"}
    for name, pattern in patterns.items():
        if match := re.search(pattern, fit.spread):
            asked[name] = match[1]
    if fit._is_pooled:
        asked["imputed"] = True
    if fit.formula is not None:
        asked.pop("label", None)
    if not (fit.group_prior == DEFAULT_GROUP_PRIOR or is_default(fit.group_prior, core)):
        asked["group_prior"] = fit.group_prior
    usual = vars(FitOptions())
    asked |= {name: value for name, value in vars(fit._options).items() if value != usual[name]}
    words = [f"{name}={_shown(name, value)}" for name, value in asked.items() if value is not None]
    rows = without_keys(str(given.data)) if given is not None and isinstance(given.data, str | Path) else None
    first = [repr(rows) if rows else "rows"]
    first = [repr(fit.formula), *first] if fit.formula else [*first, "y"] if "label" not in asked else first
    updates = sum(step.what == "update" for step in fit.story)
    more = f"  # and {counted(updates, 'update')}, fit.update(...)" if updates else ""
    return f"fit = bc.fit({', '.join([*first, *words, f'random_state={fit._seed}'])}){more}"


def _shown(name: str, value: Any) -> str:
    """Return an argument of `fit` as code: arrays by its name alone."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_shown(name, item)}" for key, item in value.items()) + "}"
    if name in ("prior", "group_prior"):
        return f"bc.priors.{value}"
    plain = isinstance(value, str | list | tuple) and len(value) <= _LISTED
    return repr(value) if plain or not hasattr(value, "__len__") else name


def _cells(frame: Any) -> tuple[list[str], dict[str, list[str]]]:
    """Return a table's columns, and its figures as they are printed."""
    rows = zip(frame.index, rounded(frame).to_numpy().tolist(), strict=True)
    return [str(column) for column in frame.columns], {str(name): list(map(str, row)) for name, row in rows}
