"""The decision tree of "Is it for me?", as SVG: the first question that is answered with yes decides.

It stands in the page itself, so that the theme's colours serve in light and dark, and answers are links.
"""

from html import escape

# a question and its answer, in lines that fit their boxes; in an answer a line may be a link
TREE = (
    (("Fewer than about", "10,000 rows?"), (("NUTS on all of them:", ""), ("brms, bambi, PyMC", ""))),
    (
        ("A model that bayescore", "does not have?"),
        (("PyMC, brms, GPBoost", ""), ("(see the families)", "../how-to/models.html")),
    ),
    (("Predictions alone, without", "their uncertainty?"), (("scikit-learn, glum", ""),)),
    (
        ("No random effects, and", "many events a coefficient?"),
        (("normal approximation:", ""), ("bc.find_map", "../reference/generated/bayescore.find_map.html")),
    ),
)
LAST = ("bayescore", "ten-minutes.html")
WIDTH, STEP, LINE = 400, 78, 17  # units of the drawing, about pixels
QUESTION, ANSWER = (0, 190, 48), (236, 164, 48)  # left edge, width and height of boxes


def box(kind: str, left: float, top: float, width: float, height: float) -> str:
    """Return a rounded box."""
    size = f'x="{left + 1:g}" y="{top + 1:g}" width="{width - 2:g}" height="{height - 2:g}"'
    return f'<rect class="{kind}" {size} rx="6"/>'


def text(lines: list[tuple[str, str]], middle: float, centre: float) -> str:
    """Return lines, each with the address that it leads to or none, centred in a box."""
    first = centre - LINE * (len(lines) - 1) / 2 + 4.5
    shown = []
    for number, (line, address) in enumerate(lines):
        written = f'<text x="{middle:g}" y="{first + LINE * number:g}">{escape(line)}</text>'
        shown.append(f'<a href="{address}">{written}</a>' if address else written)
    return "".join(shown)


def arrow(label: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return an arrow to the right or down, with a word beside it."""
    (x, y), (to_x, to_y) = start, end
    down = x == to_x
    head = "l-4 -7h8z" if down else "l-7 -4v8z"
    place = f'x="{x + 14:g}" y="{(y + to_y) / 2 + 3:g}"' if down else f'x="{(x + to_x) / 2 - 3:g}" y="{y - 6:g}"'
    line = f'<path class="line" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/><path class="head" d="M{to_x:g} {to_y:g}{head}"/>'
    return f'{line}<text class="choice" {place}>{label}</text>'


def page() -> str:
    """Return the drawing."""
    left, width, height = QUESTION
    to, wide, high = ANSWER
    parts = []
    for number, (question, answer) in enumerate(TREE):
        top = STEP * number
        centre, middle = top + height / 2, left + width / 2
        parts += [box("question", left, top, width, height), text([(line, "") for line in question], middle, centre)]
        parts += [arrow("yes", (left + width, centre), (to - 1, centre))]
        parts += [box("answer", to, top, wide, high), text(list(answer), to + wide / 2, centre)]
        parts += [arrow("no", (middle, top + height), (middle, top + STEP - 1))]
    top = STEP * len(TREE)
    parts += [box("last", left, top, width, height), text([LAST], left + width / 2, top + height / 2)]
    head = f'<svg class="decision" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + height}"'
    return f'{head} role="group" aria-label="Decision tree">{"".join(parts)}</svg>\n'
