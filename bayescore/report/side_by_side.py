"""Tables of several fits side by side, as text, Markdown, HTML or LaTeX, names and all else escaped for each."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

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
