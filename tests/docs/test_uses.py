"""The reference links names to pages that use them, and the cards of examples lead to pages with a picture."""

import ast

import pytest

import bayescore as bc
from tests.docs.generated import generator

USES = generator("uses")


def test_names_are_found_by_what_calls_give():
    code = (
        "import bayescore as bc\nfrom bayescore.datasets import mixture as mixed\nimport numpy as np\n"
        "X, y = mixed(10)\nfit = bc.fit(X, y).with_prior(bc.priors.Normal(0, 1))\nfit.slopes('x')\n"
        "fit.coreset.to_frame()\nnp.save('x', X)\nother.predict(X)\n"
    )
    found = USES.names([ast.parse(code)])
    assert {"bayescore.fit", "bayescore.datasets.mixture", "bayescore.priors.Normal"} <= found
    assert {"bayescore.Fit.with_prior", "bayescore.Fit.slopes", "bayescore.Coreset.to_frame"} <= found
    assert not {"bayescore.Fit.save", "bayescore.Fit.predict", "bayescore.save"} & found


def test_links_begin_with_the_examples():
    found = USES.links("bayescore.Fit.plot")[3].split(", ")
    assert found[0].removeprefix(":doc:`/").removesuffix("`") in USES.gallery()
    assert len(found) <= USES.MOST
    assert USES.links("bayescore.Fit.nothing") == []


def test_most_of_what_a_fit_answers_is_on_a_page():
    asked = [f"bayescore.Fit.{name}" for name in dir(bc.Fit) if name[0] != "_" and callable(getattr(bc.Fit, name))]
    assert len([name for name in asked if USES.links(name)]) > 20


@pytest.mark.parametrize("page", USES.gallery())
def test_a_card_leads_to_a_page_that_draws(page):
    code = "\n".join(map(ast.unparse, USES.cells(USES.path_of(page))))
    assert "plot" in code
    assert f"{{thumbnail}}`{page}`" in (USES.DOCS / "gallery.md").read_text(encoding="utf-8")


def test_there_are_twelve_examples():
    assert len(set(USES.gallery())) == 12
