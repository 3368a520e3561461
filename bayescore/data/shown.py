"""Names and values as lines of text, and as a table in notebooks."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

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
