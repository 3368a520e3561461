"""The decision tree of "Is it for me?": its words fit its boxes, and whoever hears it hears them in order."""

import xml.etree.ElementTree as ElementTree

from tests.docs.generated import ROOT, generator

DECISION = generator("decision")
SVG = "{http://www.w3.org/2000/svg}"
LETTER = 6.8  # units that a letter takes in the theme's font, on average


def test_a_question_comes_before_its_yes_and_its_answer():
    words = list(ElementTree.fromstring(DECISION.page()).itertext())
    for question, answer in DECISION.TREE:
        said = [*question, "yes", *(line for line, _ in answer), "no"]
        assert words[: len(said)] == said
        words = words[len(said) :]
    assert words == ["bayescore"]


def test_lines_fit_their_boxes():
    for question, answer in DECISION.TREE:
        assert max(map(len, question)) * LETTER < DECISION.QUESTION[1]
        assert max(len(line) for line, _ in answer) * LETTER < DECISION.ANSWER[1]


def test_answers_lead_to_pages():
    drawn = ElementTree.fromstring(DECISION.page())
    addresses = [link.get("href") for link in drawn.iter(f"{SVG}a")]
    assert addresses == ["../how-to/models.html", "../reference/generated/bayescore.find_map.html", "ten-minutes.html"]
    for address in addresses:  # those that code writes are seen by the site's own check
        page = (ROOT / "docs" / "start" / address).resolve().with_suffix(".md")
        assert page.is_file() or page.parent.name == "generated"
