"""What the two pages share: looks, glossary, pictures, and what a coreset was."""

import base64

import jinja2
import numpy as np
import pandas as pd
import pytest

from bayescore import limits
from bayescore.diagnostics.results import Level
from bayescore.report import page, tables


def test_every_level_has_a_look_and_a_meaning():
    assert {*page.VERDICTS, *page.CERTIFICATES} == set(Level)
    css = page.environment().get_template("base.html.j2").render(title="", about="", sections=[])
    for look, meaning in (page.VERDICTS | page.CERTIFICATES).values():
        assert f"ul.verdicts .{look}" in css
        assert meaning.endswith(".")
    assert page.terms(page.VERDICTS)["Too few draws"].startswith("Monte Carlo error")


def test_the_glossary_states_the_limits_that_decide():
    words = page.terms(page.VERDICTS | page.CERTIFICATES)
    assert f"within {limits.NEGLIGIBLE_ERROR} sd" in words["Close"]
    for limit in (
        f"more than {limits.MAX_ERROR}",
        f"at most {limits.MAX_FAILURE_PROBABILITY}",
        f"within {limits.NEGLIGIBLE_ERROR}",
    ):
        assert limit in words["Certified"]


def test_health_is_marked_by_the_limits_that_decide():
    shown = page.environment().get_template("sampler_health.html.j2").render(health={})
    assert f"R-hat above {limits.MAX_RHAT}, an ESS below {limits.MIN_ESS}," in " ".join(shown.split())


def test_what_a_template_is_not_given_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        page.environment().from_string("{{ nothing }}").render()


def test_a_picture_is_png_at_its_width():
    found = page.picture("Wide", "Words", lambda figure, width: figure.set_size_inches(width, 1.0), 3.0)
    assert base64.b64decode(found.png).startswith(b"\x89PNG")
    assert (found.width, found.caption, found.alternative) == (3 * 96, "Wide", "Words")


def test_tables_too_long_to_read_keep_the_rows_of_the_largest_errors():
    rows = pd.DataFrame({"error": np.arange(100.0) * np.tile([1, -1], 50)})
    kept, note = page.worst(rows, rows["error"], page.MAX_ROWS + 1, "X.table")
    assert kept["error"].abs().tolist() == [*range(99, 59, -1)]
    assert note == "the 40 of 100 with the largest errors; X.table has all"
    for same, total in ((rows, page.MAX_ROWS), (rows[:40], page.MAX_ROWS + 1)):
        whole, note = page.worst(same, same["error"], total, "X.table")
        assert whole is same
        assert note == ""


def test_facts_of_a_coreset():
    about = {"method": "uniform", "size": 3, "n_total": 1500, "random_state": 7}
    facts = tables.coreset_facts(about, np.array([100.0, 100.0, 300.0]))
    assert facts == {
        "Method": "uniform", "Rows": "3", "Share": "0.20%", "Weight ESS": "2.3", "Largest weights": "60%, 20%, 20%",
        "Sum of weights": "500", "Data rows": "1,500", "Seed": "7",
    }  # fmt: skip
    assert set(tables.coreset_facts({}, None).values()) == {"–"}


def test_parameters_are_short_and_leave_the_curve_to_its_table():
    step = {"size": 10, "mean_error": 0.1, "sd_error": 0.1}
    about = {"params": {"radius": 1 / 3, "text": "x" * 99, "size_curve": [step, step]}}
    assert tables.parameters(about) == {"radius": "0.333", "text": "x" * 59 + "…"}
    assert tables.size_curve(about) == [step, step]
    assert tables.size_curve({"params": {"size_curve": [step]}}) == []
    assert tables.parameters({}) == {}
