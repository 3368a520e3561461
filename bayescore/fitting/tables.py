"""Tables of a fit: parameters, several fits side by side, effects of groups, variance shares, checks of the model.

Several fits stand side by side as text, Markdown, HTML or LaTeX, names and all else escaped for each.
"""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescore.data.design import Design, Grouping
from bayescore.diagnostics.model_check import ModelCheck, check_model
from bayescore.fitting.parts import described, heading, interval_names, labelled, raw_rows, table
from bayescore.fitting.route import all_rows_of
from bayescore.models.groups.effects import EffectDraws
from bayescore.models.predictor import Factor, correlations, multipliers
from bayescore.tables import Table
from bayescore.text import with_error
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, check_choice

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "−": r"$-$",
        "–": "--",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


_MARKDOWN = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{character: f"\\{character}" for character in "\\|_*`#$~"}}
)


def written(format: str, names: Sequence[str], blocks: Sequence[Mapping[str, Sequence[str]]], note: str) -> str:
    """Return a table in a format of `FORMATS`: cells by row, in blocks, a column for each fit, and a note below."""
    escape, write = FORMATS[format]

    def plain(text: str) -> str:
        return escape(re.sub(r"\s+", " ", text))

    rows = [[[plain(cell) for cell in (name, *cells)] for name, cells in each.items() if any(cells)] for each in blocks]
    return write([plain(cell) for cell in ("", *names)], [block for block in rows if block], plain(note))


Lines = list[list[str]]


def _text(head: list[str], blocks: list[Lines], note: str) -> str:
    widths = [max(map(len, column)) for column in zip(head, *chain.from_iterable(blocks), strict=True)]

    def line(cells: list[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([line(head), *(text for block in blocks for text in (rule, *map(line, block))), rule, note])


def _markdown(head: list[str], blocks: list[Lines], note: str) -> str:
    rows = [head, ["---", *("---:" for _ in head[1:])], *chain.from_iterable(blocks)]
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", note])


def _html(head: list[str], blocks: list[Lines], note: str) -> str:
    def row(cells: list[str], kind: str = "td") -> str:
        rest = "".join(f'<{kind} style="text-align:right">{cell}</{kind}>' for cell in cells[1:])
        return f'<tr><th style="text-align:left">{cells[0]}</th>{rest}</tr>'

    bodies = [f"<tbody>{''.join(map(row, block))}</tbody>" for block in blocks]
    return "\n".join(
        ["<table>", f"<caption>{note}</caption>", f"<thead>{row(head, 'th')}</thead>", *bodies, "</table>"]
    )


def _latex(head: list[str], blocks: list[Lines], note: str) -> str:
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\hline", " & ".join(head) + r" \\"]
    for block in blocks:
        lines += [r"\hline", *("{}" * row[0].startswith(("[", "*")) + " & ".join(row) + r" \\" for row in block)]
    return "\n".join([*lines, r"\hline", rf"\multicolumn{{{len(head)}}}{{l}}{{{note}}} \\", r"\end{tabular}"])


FORMATS: dict[str, tuple[Callable[[str], str], Callable[[list[str], list[Lines], str], str]]] = {
    "text": (str, _text),
    "markdown": (lambda text: text.translate(_MARKDOWN), _markdown),
    "html": (html.escape, _html),
    "latex": (lambda text: text.translate(_LATEX), _latex),
}


SCALE_NAMES = {"coef": "Coefficients", "odds": "Odds ratios", "rate": "Rate ratios", "ratio": "Ratios"}


RANK_DRAWS = 400  # draws that ranks are of


def parameter_table(fit: "Fit", scale: str, prob: float) -> Table:
    """Return the table of parameters, on the scale "coef", "odds", "rate" or "ratio"."""
    posterior = fit._posterior()
    names, draws, kept = fit._parameters()
    if scale != "coef":
        ratio, kind = posterior.family.ratio, "rate" if scale == "rate" else "odds"
        if ratio is None or (scale != "ratio" and ratio != f"{kind} ratio"):
            see = fit._instead_of_ratios if ratio is None else "scale='ratio'"
            raise DataError(
                f"scale={scale!r}, but the family is {fit._family_asked!r}, whose coefficients are no log "
                f"{kind} ratios; see {see}"
            )
        check_slopes(scale, kept)
        names, draws = [names[d] for d in kept], np.exp(draws[..., kept])
    return labelled(fit, table(names, draws, prob))


def check_slopes(scale: str, names: Sequence[Any]) -> None:
    """Raise unless a model has coefficients, or columns, that a scale is for."""
    if not len(names):
        raise DataError(
            f"scale={scale!r} is for coefficients other than the intercept, and the fit has none; give scale='coef'"
        )


def side_by_side(fits: Sequence["Fit"], names: Sequence[str] | None, scale: str, prob: float, format: str) -> str:
    """Return coefficients of several fits side by side, with numbers of rows, elpd and levels below them."""
    check_choice(format, "format", tuple(FORMATS))
    titles = [f"({k})" for k in range(1, len(fits) + 1)] if names is None else list(map(str, names))
    if len(titles) != len(fits):
        raise ValueError(f"names has {len(titles)} entries for {len(fits)} fits; give one for each")
    check_choice(scale, "scale", tuple(SCALE_NAMES))
    coefficients, others, first, groups, last = (
        {
            name: [cells.get(name, "") for cells in part]
            for name in dict.fromkeys(key for cells in part for key in cells)
        }
        for part in zip(*((*_estimates(fit, scale, prob), *_numbers(fit)) for fit in fits), strict=True)
    )
    blocks = [coefficients, others, {**first, **groups, **last}]
    return written(format, titles, blocks, f"{SCALE_NAMES[scale]}: mean and {100.0 * prob:g}% interval")


def _estimates(fit: "Fit", scale: str, prob: float) -> tuple[dict[str, str], dict[str, str]]:
    """Return mean and interval of each coefficient and other parameter as text, to two digits of its sd."""
    low, high, _ = interval_names(prob)
    table = parameter_table(fit, scale, prob)[["mean", "sd", low, high]]
    cells: tuple[dict[str, str], dict[str, str]] = {}, {}
    for place, (name, (mean, sd, *ends)) in enumerate(zip(table.index, table.to_numpy().tolist(), strict=True)):
        shown = [with_error(value, sd)[0] for value in (mean, *ends)]
        cells[place >= len(fit.coreset.feature_names)][str(name)] = f"{shown[0]} ({shown[1]}, {shown[2]})"
    return cells


def _numbers(fit: "Fit") -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return family and observations, groups of each factor, and elpd and level, by what they are called."""
    core, certificate = fit.coreset, fit.certificate
    n = f"{fit._n_observations or core.n_total:,}"
    last = {}
    for name, kind in (("elpd", "loo"), ("elpd of new groups", "logo")):
        value, se = (getattr(certificate, f"elpd_{kind}{end}") for end in ("", "_se"))
        last[name] = f"{value:,.1f} ({se:,.1f})".replace("-", "−") if np.isfinite(value) else ""
    groups = {f"Groups of {grouping.name}": f"{len(grouping):,}" for grouping in core.groups}
    family = fit._family_asked.replace("_", " ")
    return {"Family": family, "Observations": n}, groups, {**last, "Draws": heading(fit)}


def effects_of_groups(
    fit: "Fit", factor: str | None, effect: str, levels: Sequence[Any] | None, prob: float
) -> Table | xr.DataArray:
    """Return mean, sd, interval and rank of each group's effect, or the draws of the effects of some levels."""
    grouping = factor_named(fit, factor)
    posterior, A = fit._posterior(), fit.coreset.design.raw_effects_map(grouping)
    if effect not in grouping.effects:
        varying = ", ".join(grouping.effects)
        raise DataError(f"effect={effect!r} does not vary by {grouping.name!r}; these do: {varying}")
    k, effects = grouping.effects.index(effect), Factor.of(grouping, posterior.variables).effects
    if levels is not None:
        if unknown := [level for level in levels if level not in grouping.levels]:
            raise DataError(f"draws names {unknown[0]!r}, which is no level of {grouping.name!r}")
        codes = np.array([grouping.levels.index(level) for level in levels], dtype=np.int64)
        values = (effects[:, codes] @ A[k]).reshape(*posterior.draws.shape[:2], -1)
        dims, coords = ("chain", "draw", grouping.name), {grouping.name: list(levels)}
        return xr.DataArray(values, dims=dims, coords=coords, attrs={"level": fit.level})
    summary = effects.summary() if isinstance(effects, EffectDraws) else None  # of too many groups to keep
    u = effects[:] @ A[k] if summary is None else np.asarray(summary.draws, dtype=np.float64)  # (S, G)
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(u[:: max(1, len(u) // RANK_DRAWS)], axis=1)
    low, high, tail = interval_names(prob)
    ends = np.quantile(ranks, [tail, 1.0 - tail], axis=0)
    columns = described(u.T, prob)
    if summary is not None:
        columns |= {"mean": summary.mean, "sd": summary.sd}
    columns |= {"rank": ranks.mean(axis=0), f"rank {low}": ends[0], f"rank {high}": ends[1]}
    return labelled(fit, pd.DataFrame(columns, index=pd.Index(grouping.levels, name=grouping.name)))


def factor_named(fit: "Fit", name: str | None) -> Grouping:
    """Return a grouping factor by its name, or the only one."""
    groups = fit.coreset.groups
    chosen = [grouping for grouping in groups if name in (None, grouping.name)]
    if len(chosen) != 1:
        names = ", ".join(repr(grouping.name) for grouping in groups) or "none"
        raise DataError(f"factor={name!r}: the grouping factors of the fit are {names}; name one")
    fit._posterior().check_tells_groups()
    return chosen[0]


def intraclass_correlations(fit: "Fit", data: Any, prob: float) -> Table:
    """Return the share of the latent response's variance of each grouping factor."""
    source = fit._used["posterior"]
    names = [str(name) for name in source.data_vars if str(name).startswith("icc_")]
    if names:
        draws = np.stack([source[name].transpose("chain", "draw").values for name in names], axis=2)
        return labelled(fit, table(names, draws, prob))
    posterior, groups = fit._posterior(), fit.coreset.groups
    posterior.check_tells_groups()
    latent = posterior.family.latent_variance
    if not groups or latent is None:
        raise DataError("the fit has no intraclass correlation: it is of group terms and a latent response")
    slopes = any(tuple(grouping.effects) != ("1",) for grouping in groups)
    rows = raw_rows(fit, data).designed() if slopes else None
    shares = [_variance_of(grouping, fit.coreset.design, posterior.variables, rows) for grouping in groups]
    total = sum(shares) + latent
    draws = np.stack([share / total for share in shares], axis=1).reshape(*posterior.draws.shape[:2], -1)
    return labelled(fit, table([f"icc_{grouping.name}" for grouping in groups], draws, prob))


def _variance_of(
    grouping: Grouping, design: Design, variables: Mapping[str, Any], rows: WeightedData | None
) -> FloatArray:
    """Return the variance of the linear predictor that a factor's effects make, averaged over rows, at draws (S,)."""
    q = len(grouping.effects)
    sd = np.asarray(variables[f"sigma_{grouping.name}"], dtype=np.float64).reshape(-1, q)
    if rows is None:
        return sd[:, 0] ** 2
    Z = multipliers(rows.X, design, grouping)
    second = (rows.weights[:, None] * Z).T @ Z / rows.weights.sum()
    return np.asarray(np.einsum("si,sij,sj,ij->s", sd, correlations(grouping, variables), sd, second))


def check_of_rows(fit: "Fit", data: Any, y: Any, by: tuple[str, ...]) -> tuple[dict[str, list[Any]], ModelCheck]:
    """Return the values of columns `by` that part rows, and the check of the parts, or of bins."""
    asked = fit
    if data is not None:
        kept = fit._given or all_rows_of(fit.coreset, data, {}, progressbar=False)
        asked = replace(fit, _given=replace(kept, data=data, y=y, known=True))
    rows = raw_rows(asked, None, others=data is not None, by=by)
    check = check_model(fit._posterior(), rows.observed(), rows.events, rows.parts)
    places = [] if check.groups is None else check.groups.tolist()
    return {name: [levels[place] for place in places] for name, levels in rows.labels.items()}, check
