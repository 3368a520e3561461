"""Tables of a fit: parameters, several fits side by side, effects of groups, variance shares, checks of the model.

Several fits stand side by side as text, Markdown, HTML or LaTeX, names and all else escaped for each.

What a fit prints: verdict, model and rows, coefficients, random effects, the check against all rows, notes.

One source for the terminal, notebooks, pages and the command line: `overview` gathers it, `Overview.text` and
`Overview.html` lay it out.
"""

import html
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescore.data.coreset import Coreset
from bayescore.data.design import Design, Grouping, bend_columns, terms_text
from bayescore.data.responses import ABOVE, numbers_of
from bayescore.diagnostics.model_check import Dispersion, ModelCheck, check_model
from bayescore.diagnostics.results import Check
from bayescore.families.family import Varying, check_family
from bayescore.fitting.parts import heading, interval_names, labelled, numbers_of_model, raw_rows, summarise, table
from bayescore.fitting.route import all_rows_of
from bayescore.limits import MAX_PRIOR_SHARE, MIN_MEAN_WEIGHT, PROB
from bayescore.models.groups.effects import EffectDraws
from bayescore.models.predictor import Factor, correlations, multipliers
from bayescore.priors.groups import DEFAULT_GROUP_PRIOR, DEFAULT_SCALE, INTERCEPT_SCALES, is_default
from bayescore.tables import Table, rounded
from bayescore.text import counted, listed, number, with_error
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


def render_table(format: str, names: Sequence[str], blocks: Sequence[Mapping[str, Sequence[str]]], note: str) -> str:
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
    found = labelled(fit, table(names, draws, prob))
    if fit.spread and scale == "coef":
        found.attrs["spread"] += numbers_of_model(fit)
    return found


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
    return render_table(format, titles, blocks, f"{SCALE_NAMES[scale]}: mean and {100.0 * prob:g}% interval")


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
    columns = summarise(u.T, prob)
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
    fit._posterior().check_effects_named()
    return chosen[0]


def intraclass_correlations(fit: "Fit", data: Any, prob: float) -> Table:
    """Return the share of the latent response's variance of each grouping factor."""
    source = fit._used["posterior"]
    names = [str(name) for name in source.data_vars if str(name).startswith("icc_")]
    if names:
        draws = np.stack([source[name].transpose("chain", "draw").values for name in names], axis=2)
        return labelled(fit, table(names, draws, prob))
    posterior, groups = fit._posterior(), fit.coreset.groups
    posterior.check_effects_named()
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


_WIDTH = 80  # columns of a terminal


_SHORTEST = 20  # characters that a name in a table keeps, however wide the figures are


_SHORTEST_PART = 8  # characters that a part of an interaction keeps


_SCROLL = "<div style='overflow-x:auto'>"  # a table wider than a phone scrolls by itself


_NAMED = 5  # coefficients in a line


@dataclass(frozen=True)
class Overview:
    """The parts of the text, in their order; `tables` are headings and rows of one table, `trusted` its verdict."""

    title: str
    verdict: str
    model: str
    rows: Sequence[str]
    reasons: Sequence[str]
    tables: Sequence[tuple[str, pd.DataFrame]]
    checks_heading: str
    checks: Sequence[Check]
    end: str
    notes: Sequence[str] = field(default=())
    trusted: bool = True

    def text(self) -> str:
        """Return the text for a terminal of 80 columns, long names of coefficients shortened."""
        lines = list(self._top())
        if self.reasons:
            lines += ["", *_wrapped(self.reasons)]
        for title, rows in zip([title for title, _ in self.tables], self._table_lines(), strict=True):
            lines += ["", title, *rows]
        if self.checks:
            wide = max(len(check.what) for check in self.checks)
            lines += ["", f"{self.checks_heading:<{wide + 2}}{'found':>16}{'limit':>12}"]
            lines += [f"  {each.what:<{wide}}{each.found:>16}{each.limit:>12}".rstrip() for each in self.checks]
        return "\n".join([*lines, "", *_wrapped([self.end, *self.notes])])

    def html(self) -> str:
        """Return the same for a notebook, light or dark: a table of draws that were refused is grey."""
        top = [f"<strong>{html.escape(self.title)}: {html.escape(self.verdict)}</strong>"]
        top += map(html.escape, [self.model, "; ".join(self.rows)])
        parts = [f"<p>{'<br>'.join(top)}</p>", *(f"<p>{html.escape(reason)}</p>" for reason in self.reasons)]
        style = "" if self.trusted else " style='opacity:.55'"
        for title, block in self.tables:
            cells = rounded(block).rename_axis(index=None).to_html(border=0)
            parts.append(f"<div{style}><p>{html.escape(title)}</p>{_SCROLL}{cells}</div></div>")
        if self.checks:
            checks = pd.DataFrame([astuple(check) for check in self.checks], columns=["check", "found", "limit"])
            cells = checks.set_index("check").rename_axis(index=None).to_html(border=0)
            parts.append(f"<p>{html.escape(self.checks_heading)}</p>{_SCROLL}{cells}</div>")
        parts += [f"<p>{html.escape(said)}</p>" for said in (self.end, *self.notes)]
        return f"<div>{''.join(parts)}</div>"

    def _top(self) -> Iterator[str]:
        """Yield the lines above the tables; a verdict too long for the title's line comes before it."""
        room = _WIDTH - len(self.title) - 2
        if len(self.verdict) <= room:
            yield f"{self.title}  {self.verdict:>{room}}"
        else:
            yield from _wrapped([self.verdict])
            yield self.title
        yield from _wrapped([self.model])
        whole = "; ".join(self.rows)
        yield from [whole] if len(whole) <= _WIDTH else _wrapped(self.rows)

    def _table_lines(self) -> Iterator[list[str]]:
        """Yield the lines of each table, in columns that all share; the first has their names."""
        whole = pd.concat([rows for _, rows in self.tables])
        figures, names = rounded(whole).rename_axis(index=None), list(map(str, whole.index))
        header, *lines = figures.to_string().splitlines()
        if (beyond := max(map(len, [header, *lines])) - _WIDTH) > 0:
            room = max(max(map(len, names)) - beyond, _SHORTEST)
            header, *lines = figures.set_axis(_shortened(names, room)).to_string().splitlines()
        start = 0
        for place, (_, rows) in enumerate(self.tables):
            shown, start = lines[start : start + len(rows)], start + len(rows)
            yield shown if place else [header, *shown]


def _shortened(names: Sequence[str], room: int) -> list[str]:
    """Return names of about `room` characters, dots in the middle of long parts, unless two would then be alike."""
    short = []
    for name in names:
        parts = name.split(":")
        left = room - len(parts) + 1
        for k, place in enumerate(sorted(range(len(parts)), key=lambda at: len(parts[at]))):  # short ones stay whole
            parts[place] = _abbreviated(parts[place], max(left // (len(parts) - k), _SHORTEST_PART))
            left -= len(parts[place])
        short.append(":".join(parts))
    return short if len(set(short)) == len(set(names)) else list(names)


def _abbreviated(text: str, most: int) -> str:
    """Return a text with dots in the middle if it is longer than `most` characters."""
    head = (most - 3) // 2
    return text if len(text) <= most else f"{text[:head]}...{text[head + 3 - most :]}"


def _wrapped(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield from textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]


_WRITTEN = {"_": " ", "poisson": "Poisson", "student": "Student", "weibull": "Weibull", "sratio": "stopping-ratio "}


def _title_of(family: str) -> str:
    """Return the adjective of a model by the name of its family.

    >>> _title_of("negative_binomial"), _title_of("sratio(probit)")
    ('negative binomial', 'stopping-ratio (probit)')
    """
    for name, written in _WRITTEN.items():
        family = family.replace(name, written)
    return family


def overview(fit: "Fit") -> Overview:
    """Return what a fit prints."""
    certificate = fit.certificate
    chains, draws = fit._posterior().draws.shape[:2]
    seconds = sum(step.seconds for step in fit.story)
    sampled = f"{counted(chains, 'chain')} x {draws:,} draws; {seconds:.1f} s"
    return Overview(
        title=f"Bayesian {_title_of(fit._family_asked)} regression",
        verdict=_verdict(fit),
        model=_model(fit),
        rows=[_rows(fit), sampled],
        reasons=() if certificate.trusted else _reasons(fit),
        tables=_tables(fit),
        checks_heading=_checks_heading(fit),
        checks=certificate.checks,
        end=_closing_line(fit),
        notes=list(_notes(fit)),
        trusted=certificate.trusted,
    )


def _reasons(fit: "Fit") -> list[str]:
    """Return why draws were refused, why nothing else was tried, and what is needed."""
    certificate = fit.certificate
    stopped = [step.why for step in fit.story if step.what == "stop"]
    return [certificate.text, *stopped[-1:], *([f"Needed: {certificate.remedy}."] if certificate.remedy else [])]


def _verdict(fit: "Fit") -> str:
    """Return the level, and what there is to check of a model whose draws are right."""
    said = fit.certificate.headline
    if not fit.certificate.trusted:
        return said
    doubts: dict[str, str] = {}
    dispersion: Dispersion | None = fit.certificate.dispersion
    if dispersion is not None and not fit.spread and dispersion.doubt:
        doubts["THE MODEL"] = dispersion.doubt
    if fit._pull is not None:
        doubts["THE PRIOR"] = fit._pull.doubt
    return f"{said}, BUT CHECK {' AND '.join(doubts)}: {'; '.join(doubts.values())}" if doubts else said


def _model(fit: "Fit") -> str:
    """Return the formula, or what stands for one."""
    core = fit.coreset
    terms = f" + {terms_text(core.groups)}" if core.groups and fit.formula is None else ""
    columns = counted(core.n_features - (core.design.constant is not None), "column")
    return (fit.formula or f"{core.label} ~ {columns}") + terms


def _n_rows_text(fit: "Fit") -> str:
    """Return the number of observations, in words."""
    core, n = fit.coreset, fit._n_observations
    if n is None:
        return f"{core.n_total:,} rows{' of events and exposures' if core.response == 'counts' else ''}"
    return counted(n, "observation")


def _event_rate(core: Coreset) -> float:
    """Return the share of events among all labels, or of counts the events by exposure."""
    assert core.event_total is not None
    rate = core.event_total / (core.weight_total - core.event_total if core.counts else core.weight_total)
    return rate + check_family(core.family).least


def _has_exposures(core: Coreset) -> bool:
    return not (core.amounts or core.response == ABOVE) and (core.design.exposure is not None or core.design.weighted)


def _rows(fit: "Fit") -> str:
    """Return the number of observations, the share of events or mean count, and the groups."""
    core, share = fit.coreset, ""
    if core.event_total is not None and core.response == "labels":
        event = f"{core.label} = {core.classes[1]}" if core.n_observations == core.n_total else "successes"
        share = f" ({event}: {number(100.0 * _event_rate(core))}%)"
    elif core.event_total is not None and core.times:
        share = f" ({core.event_total:,.6g} events of {core.label})"
    elif core.event_total is not None and core.counts:
        share = f" ({'rate' if _has_exposures(core) else 'mean'} of {core.label}: {number(_event_rate(core))})"
    groups = "".join(f", {len(each):,} groups of {each.name}" for each in core.groups)
    return f"{_n_rows_text(fit)}{share}{groups}"


def data_facts(core: Coreset) -> dict[str, str]:
    """Return what the rows of a coreset's data are, in words by label; empty where an older file does not say."""
    n, events, weight = core.n_observations, core.event_total, core.weight_total
    if n is None or events is None:
        return {}
    facts = {"Observations": f"{n:,}"}
    if core.times:
        return {**facts, "Response": f"{core.label} after the time {core.design.exposure}", "Events": f"{events:,.6g}"}
    if core.amounts:
        return {**facts, "Response": f"{core.label}: positive numbers, mean {number(_event_rate(core))}"}
    if core.response == ABOVE:
        return {**facts, "Response": f"{core.label}: {ABOVE}", "Mean count": number(_event_rate(core))}
    if core.counts:
        facts |= {"Response": f"{core.label}: counts", "Events": f"{events:,.6g}"}
        if not _has_exposures(core):
            return {**facts, "Mean count": number(_event_rate(core))}
        return {**facts, "Exposure": f"{weight - events:,.6g}", "Rate": number(_event_rate(core))}
    if core.numbers:
        rows, y = numbers_of(core)
        mean = float(np.average(y, weights=rows.weights))
        sd = math.sqrt(np.average((y - mean) ** 2, weights=rows.weights))
        return {**facts, "Response": f"{core.label}: numbers, mean {number(mean)}, sd {number(sd)}"}
    if not np.isclose(weight, n, rtol=1e-9):
        facts["Total weight" if n == core.n_total else "Trials"] = f"{weight:,.6g}"
    other, one = core.classes
    share = f"{number(100.0 * _event_rate(core))}%"
    return {**facts, "Response": f"{core.label}: {one} against {other}", f"Share of {one}": share}


def _tables(fit: "Fit") -> list[tuple[str, pd.DataFrame]]:
    """Return the parameters by kind, with a heading each."""
    summary, features = pd.DataFrame(parameter_table(fit, "coef", PROB)), len(fit.coreset.feature_names)
    family, core = fit._posterior().family, fit.coreset
    noise = summary.index.isin(fit._posterior().numbers)
    noise[:features] = False
    groups = np.arange(len(summary)) >= features
    scale = f"units of {core.label}" if core.numbers else family.scale
    correlated = any(len(each.pairs[0]) for each in core.groups)
    what = f"Random effects (standard deviations{' and correlations' if correlated else ''})"
    number = "Noise (standard deviation)"
    if isinstance(family, Varying):
        number = family.heading
    bends = np.zeros(len(summary), dtype=bool)
    for term in core.design.smooths:
        bends[bend_columns(core.design, term)], what = True, "Smooth terms (standard deviations of the bends)"
    kinds = [(f"Coefficients ({scale})", ~groups & ~bends), (what, groups & ~noise), (number, noise)]
    return [(heading, summary[which]) for heading, which in kinds if which.any()]


def _checks_heading(fit: "Fit") -> str:
    """Return which rows the draws were checked against, and which draws, where they are not those of the table."""
    drawn = " of the model's own spread" if fit.spread else ""
    return f"Check{drawn} against {'new rows and samples of others' if fit._updated else f'all {_n_rows_text(fit)}'}"


def _closing_line(fit: "Fit") -> str:
    """Return what the draws were made from, and where to read on."""
    core, passes = fit.coreset, {step.what: 0 for step in fit.story}
    for step in fit.story:
        passes[step.what] += step.passes
    some, every = core.pseudo.any(), core.pseudo.all()
    kind = "pseudo-rows" if every else "weighted rows and pseudo-rows" if some else "weighted rows"
    built, checked = passes.get("build", 0) + passes.get("update", 0), passes.get("certify", 0)
    read = f": {counted(built, 'pass', 'passes')} to build" if built else ""
    read += f", {checked:,} to check" if built and checked else ""
    said = f"{len(core):,} {kind}{read}. fit.story has the steps"
    if not fit.certificate.trusted:
        return f"{said}."
    columns, verb = core.design.raw_names[:1], "plot" if core.design.smooths else "comparisons"
    asks = [*(f"fit.{verb}({name!r})" for name in columns), "fit.check()"] if fit._has_rows else ["fit.predict(rows)"]
    asks.append('fit.report("report.html")')
    return f"{said}; next: {', '.join(asks)}"


def _notes(fit: "Fit") -> Iterator[str]:
    """Yield what a reader should know besides: doubts with their remedy, spread, weights, priors."""
    if fit._pull is not None:
        yield str(fit._pull)
    if (dispersion := fit.certificate.dispersion) is not None:
        said = dispersion.finding if fit.spread else dispersion.text
        yield f"{said}."
    if fit.spread:
        yield f"Spread: {fit.spread}, not the model's own{numbers_of_model(fit)}."
    if weights := _weights(fit):
        yield weights
    yield f"Prior: {_prior(fit)}."
    if led := _led_by_prior(fit):
        yield led
    if (
        fit.coreset.groups
        and fit.group_prior not in (None, DEFAULT_GROUP_PRIOR)
        and not is_default(fit.group_prior, fit.coreset)
    ):
        yield f"Group prior: {fit.group_prior}."


def _weights(fit: "Fit") -> str:
    """Return what the weights of rows add up to, which is how many rows they count as."""
    core = fit.coreset
    if not core.design.weighted or core.counts or core.numbers:
        return ""
    said = f"Weights: {core.n_total:,} rows count as {core.weight_total:,.6g}"
    if core.weight_total < MIN_MEAN_WEIGHT * core.n_total:
        return f"{said}, which leaves much to the prior: divide the weights by their mean."
    return f"{said}." if fit.spread else f"{said}; weights of a survey need cluster= too."


def _prior(fit: "Fit") -> str:
    core = fit.coreset
    if "posterior_of" not in fit._drawn.posterior.attrs:
        return "that of a model of your own"
    if fit.prior is not None:
        return str(fit.prior)
    unit = " sd(y)" if core.numbers else ""
    default = f"default, Normal(0, 2.5{unit} / sd given the other columns) of each"
    if core.design.constant is not None:
        wide = "" if core.design.center is not None else " sqrt(1 + sum (mean / sd)^2)"
        where = "where they are 0" if wide else "at their means"
        scale = INTERCEPT_SCALES.get(core.classes, DEFAULT_SCALE)
        default += f", Normal({'mean(y)' if unit else '0'}, {scale:g}{unit}{wide}) of the intercept {where}"
    sampled = fit._sampled_prior if core.design.smooths else None
    return default if sampled is None else f"{default}, {sampled.bends[0].prior_text} of the sd of bends"


def _led_by_prior(fit: "Fit") -> str:
    """Return which coefficients the data say little of: their posterior sds are a large part of the prior's."""
    posterior, prior = fit._posterior(), fit._sampled_prior
    if prior is None:
        return ""
    sds, D = posterior.flat.std(axis=0), len(posterior.features)
    scales = [getattr(prior.of_coefficient(d, name, D), "sigma", np.inf) for d, name in enumerate(posterior.features)]
    shares = sds / np.asarray(scales, dtype=np.float64)
    led = [posterior.features[d] for d in np.argsort(-shares, kind="stable") if shares[d] > MAX_PRIOR_SHARE]
    if not led:
        return ""
    return (
        f"The data say little of {listed(led, _NAMED)}: posterior sds are up to "
        f"{number(100.0 * float(shares.max()), 2)}% of the prior's. fit.prior_sensitivity() shows what the prior does."
    )
