"""A certificate made up for its tests, and parts of a page."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd

from bayescore.compat import ARVIZ_1
from bayescore.diagnostics.results import Level
from bayescore.report.certify import Certificate

CORESET = {
    "method": "calibrated",
    "size": 4,
    "n_total": 1000,
    "weight_total": 1000.0,
    "params": {"radius": 3.0},
    "random_state": 7,
}
SMOOTHED_APART = 1e-2 if ARVIZ_1 else 1e-6
"""What sums with smoothed weights may be apart from ArviZ's: its versions 0 and 1 cut tails at draws of their own."""

PARETO_APART = 0.3 if ARVIZ_1 else 1e-6
CURVE = [{"size": 1200, "mean_error": 0.4321, "sd_error": 0.1}, {"size": 2400, "mean_error": 0.09, "sd_error": 0.0123}]


def certificate(features=("<script>", "b"), level="corrected", errors=(0.1, -0.3), columns=None, **figures):
    errors = np.array(errors)
    table = pd.DataFrame(
        {
            "mean": errors,
            "sd": 1.0,
            "corrected_mean": 0.0,
            "corrected_sd": 0.987,
            "corrected_2.5%": -1.88,
            "corrected_97.5%": 1.89,
            "mean_error_sd": errors,
            "mean_error_sd_mcse": 0.01,
            "mean_mcse_sd": 0.01,
            "sd_error": 0.02,
            "tail_k": np.nan,
            **(columns or {}),
        },
        index=pd.Index(features, name="feature"),
    )
    known = {"pareto_k": 0.31, "ess": 321.0, "n_draws": 500, "epsilon": 0.0123, "log_ratio_sd": 0.45, **figures}
    return Certificate(level=Level(level), text="Because <so>.", coordinates=table, **known)


def section(page, name):
    start = page.index(f'<section id="{name}">')
    return page[start : page.index("</section>", start)]


class _Pictures(HTMLParser):
    def __init__(self):
        super().__init__()
        self.told = []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.told.append(dict(attrs).get("alt"))


def alternatives(page):
    """Return the texts in place of a page's pictures, once each says something of its own, in words."""
    pictures = _Pictures()
    pictures.feed(page)
    told = pictures.told
    assert all(told), told
    assert len(set(told)) == len(told), told
    for text in told:
        assert not re.search(r"[a-z][A-Z]|\w_\w|sigma|\n", text), text  # names of the code
        assert len(text.split()) >= 6, text  # more than the caption
    return told
