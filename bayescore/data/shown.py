"""Names and values as lines of text, and as a table in notebooks."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from bayescore.data.formulas.design import formula_of

Lines = Sequence[tuple[str, str]]


def as_text(title: str, lines: Lines) -> str:
    """Return a line for each name and value, below a title."""
    width = max(len(name) for name, _ in lines)
    return f"{title}\n" + "\n".join(f"  {name:<{width}}  {value}" for name, value in lines)


def as_html(title: str, lines: Lines) -> str:
    """Return a table of two columns with a caption."""
    body = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in lines
    )
    return f"<table><caption>{title}</caption><tbody>{body}</tbody></table>"


def size_curve(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the line on the errors at each size that a build tried; none where it tried one."""
    curve = params.get("size_curve", [])
    points = [f"{point['size']}: {max(point['mean_error'], point['sd_error']):.2g}" for point in curve]
    return [("error at size", ", ".join(points))] if len(points) > 1 else []


def _weight_lines(core: Any) -> list[tuple[str, str]]:
    """Return figures of the weights. Those of pseudo-rows count no rows, and their offsets scale them."""
    return [
        ("weight sum", f"{core.weights.sum():,.6g}"),
        ("largest weight", f"{core.weights.max():,.6g}"),
        ("weight ESS", f"{core.weight_ess:,.1f}"),
    ]


def coreset_lines(core: Any) -> list[tuple[str, str]]:
    """Return what a coreset prints of itself, by name."""
    share, n_pseudo = f"{core.n_total:,} ({len(core) / core.n_total:.2%})", int(core.pseudo.sum())
    kept = f"for {share}: {n_pseudo:,} of pseudo-rows, with offsets" if n_pseudo else f"of {share}"
    kept = f"for {share}: their sums" if n_pseudo and core.numbers else kept
    sides = "numbers" if core.numbers else f"{core.classes[0]!r} = -1, {core.classes[1]!r} = +1"
    shown = {key: value for key, value in core.params.items() if isinstance(value, str | int | float | bool)}
    return [
        ("method", core.method),
        ("family", core.family),
        ("rows", f"{len(core):,} {kept}"),
        *([] if (formula := formula_of(core.design)) is None else [("formula", formula)]),
        ("features", f"{core.n_features}" + (" with intercept" if core.design.intercept else "")),
        *([] if n_pseudo else _weight_lines(core)),
        ("label", f"{core.label}: {sides}"),
        *([] if core.design.offset is None else [("offset", core.design.offset)]),
        *(("group", f"{grouping.name} ({len(grouping):,} levels)") for grouping in core.groups),
        *((key, f"{value:.6g}" if isinstance(value, float) else str(value)) for key, value in shown.items()),
        *size_curve(core.params),
        ("random_state", str(core.random_state)),
    ]
